-- Top-10 bids by price of every auction (Nexmark q19), and the number of bids of every auction.
CREATE TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, url TEXT,
                  date_time TIMESTAMP, extra TEXT)
  WITH (connector = 'filesystem', path = 'bids.ndjson', format = 'ndjson');

CREATE TABLE top10 (auction BIGINT, price BIGINT, url TEXT, rn BIGINT)
  WITH (connector = 'filesystem', path = 'top10', format = 'ndjson', changelog = true);

CREATE TABLE counts (auction BIGINT, n BIGINT)
  WITH (connector = 'filesystem', path = 'counts', format = 'ndjson', changelog = true);

INSERT INTO top10
  SELECT auction, price, url, rn
  FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rn FROM bid) t
  WHERE rn <= 10;

INSERT INTO counts SELECT auction, count(*) AS n FROM bid GROUP BY auction;

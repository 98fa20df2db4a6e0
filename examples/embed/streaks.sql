-- Run by examples/embed/custom_operator.cc: three or more purchases in a row, each dearer.
CREATE TABLE purchase (user_id BIGINT, price BIGINT)
  WITH (connector = 'filesystem', path = 'purchases.ndjson', format = 'ndjson',
        split_bytes = 1000000000);  -- order matters here: one reader for the file
CREATE TABLE streak (user_id BIGINT, streak BIGINT, price BIGINT)
  WITH (connector = 'operator', operator = 'streaks', input = 'purchase', key = 'user_id');
CREATE TABLE long_streak (user_id BIGINT, streak BIGINT, price BIGINT)
  WITH (connector = 'filesystem', path = 'streaks', format = 'ndjson');
INSERT INTO long_streak SELECT user_id, streak, price FROM streak WHERE streak >= 3;

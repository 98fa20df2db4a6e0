# SPDX-License-Identifier: Apache-2.0
"""Statements that must run, from every format, as INSERT and as a bare SELECT. DuckDB is the judge."""
import json

from harness import (EndToEndTest, bid_table, bids_relation, connect, difference,
                     make_bids, netted, sink_table)

# name: (statement, columns with their DuckDB types, updates?, ordered ties?)
STATEMENTS = {
    "filter": ("SELECT auction, price * 0.908 AS price_eur, channel FROM bid WHERE price > 10000 AND "
               "channel IN ('apple', 'a|b') OR url LIKE 'u1%'",
               {"auction": "BIGINT", "price_eur": "DECIMAL(24,3)", "channel": "VARCHAR"}, False),
    "case": ("SELECT auction, CASE WHEN price >= 100000 THEN 'high' WHEN price IS NULL THEN 'none' "
             "ELSE 'low' END AS band, upper(channel) AS ch FROM bid",
             {"auction": "BIGINT", "band": "VARCHAR", "ch": "VARCHAR"}, False),
    "count": ("SELECT auction, count(*) AS n FROM bid GROUP BY auction",
              {"auction": "BIGINT", "n": "BIGINT"}, True),
    "aggregates": ("SELECT channel, count(*) AS n, min(price) AS lo, max(price) AS hi, sum(price) AS "
                   "total, avg(price) AS mean FROM bid GROUP BY channel",
                   {"channel": "VARCHAR", "n": "BIGINT", "lo": "BIGINT", "hi": "BIGINT",
                    "total": "HUGEINT", "mean": "DOUBLE"}, True),
    "two_keys": ("SELECT auction, bidder, count(*) AS n, max(date_time) AS last FROM bid WHERE "
                 "price % 2 = 0 GROUP BY auction, bidder",
                 {"auction": "BIGINT", "bidder": "BIGINT", "n": "BIGINT", "last": "TIMESTAMP"}, True),
    "global": ("SELECT count(*) AS n, sum(price) AS total FROM bid",
               {"n": "BIGINT", "total": "HUGEINT"}, True),
    "top10": ("SELECT auction, price, url, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction "
              "ORDER BY price DESC) AS rn FROM bid) t WHERE rn <= 10",
              {"auction": "BIGINT", "price": "BIGINT", "url": "VARCHAR", "rn": "BIGINT"}, True),
    "expressions": ("SELECT auction % 3 AS a, bidder % 5 AS b, count(*) AS n FROM bid "
                    "GROUP BY auction % 3, bidder % 5",
                    {"a": "BIGINT", "b": "BIGINT", "n": "BIGINT"}, True),
    "none": ("SELECT count(*) AS n, sum(price) AS total FROM bid WHERE price < -1",
             {"n": "BIGINT", "total": "HUGEINT"}, True),
    "top3": ("SELECT channel, auction, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY channel "
             "ORDER BY price DESC, date_time, url) AS rn FROM bid) t WHERE rn <= 3",
             {"channel": "VARCHAR", "auction": "BIGINT", "price": "BIGINT"}, True),
}

SQL_TYPE = {"VARCHAR": "TEXT", "HUGEINT": "DECIMAL(38,0)"}


def columns_sql(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {SQL_TYPE.get(kind, kind)}" for name, kind in columns.items())


class StatementsTest(EndToEndTest):

    def write_inputs(self, db):
        """Bids as NDJSON, CSV and Parquet, with NULLs and awkward text among them."""
        ndjson = self.dir / "bids.ndjson"
        make_bids(ndjson, 60_000, 7)
        awkward = [
            {"auction": 1, "bidder": 2, "price": None, "channel": "a|b", "url": "u1\n\"x\",é",
             "date_time": "2026-01-01 00:00:00", "extra": ""},
            {"auction": None, "bidder": None, "price": 20001, "channel": None, "url": None,
             "date_time": None, "extra": None},
            {"auction": -5, "bidder": 0, "price": 9223372036854775807, "channel": "a|b",
             "url": "u1", "date_time": "1969-12-31 23:59:59.999999", "extra": "é\\"},
            {"auction": -5, "bidder": 0, "price": 4, "channel": "apple", "url": "u1",
             "date_time": "2026-01-01 00:00:00.5", "extra": "x"},
        ]
        with open(ndjson, "a") as out:
            for row in awkward:
                out.write(json.dumps(row) + "\n")
        bids_relation(db, ndjson)
        # extra = '' and NULL cannot be told apart in every CSV: DuckDB quotes the empty string.
        db.execute(f"COPY bid TO '{self.dir}/bids.csv' (HEADER)")
        db.execute(f"COPY bid TO '{self.dir}/bids.parquet'")

    def expected(self, name: str) -> str:
        statement, columns, _ = STATEMENTS[name]
        casts = ", ".join(f"{c}::{t} AS {c}" for c, t in columns.items())
        if name == "top10":  # the url of equal prices is free: compare rank, key and price
            casts = "auction, price, rn"
        return f"SELECT {casts} FROM ({statement})"

    def compare(self, db, name: str):
        if name == "top10":
            db.execute("CREATE OR REPLACE TABLE got AS SELECT auction, price, rn FROM got")
        if name == "aggregates":
            db.execute("CREATE OR REPLACE TABLE got AS SELECT * REPLACE (round(mean, 3) AS mean) FROM got")
            expected = f"SELECT * REPLACE (round(mean, 3) AS mean) FROM ({self.expected(name)})"
        else:
            expected = self.expected(name)
        self.assertEqual(difference(db, expected), ([], []), name)

    def test_every_statement_from_every_format_equals_duckdb(self):
        db = connect()
        self.write_inputs(db)
        for fmt in ("ndjson", "csv", "parquet"):
            text = bid_table(f"bids.{fmt}", fmt)
            for name, (statement, columns, updates) in STATEMENTS.items():
                text += sink_table(f"{name}_out", columns_sql(columns), f"{fmt}/{name}", updates)
                text += f"INSERT INTO {name}_out {statement};\n"
            self.cairn("run", self.job(text, f"{fmt}.sql"), "--parallelism", 2)
            for name, (_, columns, updates) in STATEMENTS.items():
                with self.subTest(format=fmt, statement=name):
                    netted(db, self.dir / fmt / name, columns, updates)
                    self.compare(db, name)

    def test_every_statement_runs_bare_to_standard_output(self):
        db = connect()
        self.write_inputs(db)
        for name, (statement, columns, updates) in STATEMENTS.items():
            with self.subTest(statement=name):
                job = self.job(bid_table("bids.ndjson", "ndjson") + statement + ";\n", f"{name}.sql")
                done = self.cairn("run", job, "--checkpoints", "none")
                out = self.dir / f"bare-{name}"
                out.mkdir()
                (out / "part.ndjson").write_text(done.stdout)
                netted(db, out, columns, updates)
                self.compare(db, name)

    def test_running_a_finished_job_again_adds_nothing(self):
        db = connect()
        self.write_inputs(db)
        statement, columns, updates = STATEMENTS["count"]
        job = self.job(bid_table("bids.ndjson", "ndjson")
                       + sink_table("out", columns_sql(columns), "out", updates)
                       + f"INSERT INTO out {statement};\n")
        self.cairn("run", job)
        first = {p.name: p.read_bytes() for p in sorted((self.dir / "out").glob("[!.]*"))}
        self.cairn("run", job, "--parallelism", 3)
        self.assertEqual({p.name: p.read_bytes() for p in sorted((self.dir / "out").glob("[!.]*"))}, first)


if __name__ == "__main__":
    import unittest
    unittest.main()

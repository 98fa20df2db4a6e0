#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command at the limits of docs/limits.md: the most key groups, and one that holds everything,
several operators rescaled at once, and the tools over what they leave."""
import json
import unittest

from harness import (EndToEndTest, bid_table, bids_relation, connect, difference, make_bids, netted,
                     sink_table)

ROWS = 6000
QUERIES = {
    "counts": ("auction BIGINT, n BIGINT",
               "SELECT auction, count(*) AS n FROM bid GROUP BY auction"),
    "sums": ("bidder BIGINT, s BIGINT",
             "SELECT bidder, sum(price) AS s FROM bid GROUP BY bidder"),
    "top": ("auction BIGINT, price BIGINT, rn BIGINT",
            "SELECT auction, price, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction "
            "ORDER BY price DESC) AS rn FROM bid) t WHERE rn <= 3"),
}


class LimitsTest(EndToEndTest):

    def setUp(self):
        super().setUp()
        make_bids(self.dir / "bids.ndjson", ROWS, 11)
        text = bid_table("bids.ndjson", "ndjson")
        for name, (columns, query) in QUERIES.items():
            text += sink_table(name, columns, name, True) + f"INSERT INTO {name} {query};\n"
        self.job(text)

    def more_bids(self, rows: int, seed: int):
        make_bids(self.dir / "more.ndjson", rows, seed)
        with open(self.dir / "bids.ndjson", "ab") as bids:
            bids.write((self.dir / "more.ndjson").read_bytes())

    def check_answers(self):
        db = connect()
        bids_relation(db, self.dir / "bids.ndjson")
        for name, (columns, query) in QUERIES.items():
            types = dict(column.strip().split() for column in columns.split(","))
            netted(db, self.dir / name, types, True)
            self.assertEqual(difference(db, query), ([], []), name)

    def check_rescales(self, key_groups: int, parallelisms: list[int]):
        """Runs of three operators at once, with new input in between."""
        for run, parallelism in enumerate(parallelisms):
            if run:
                self.more_bids(500, 100 + run)
            done = self.cairn("run", "job.sql", "--set", f"state.key_groups={key_groups}",
                              "--parallelism", parallelism, "--interval", "100ms")
            self.assertEqual("restored checkpoint" in done.stderr, run > 0, done.stderr)
            self.check_answers()

    def check_tools(self):
        self.cairn("checkpoint", "verify", "job.cairn")
        listed = [json.loads(line) for line in
                  self.cairn("state", "ls", "job.cairn", "--json").stdout.splitlines()]
        self.assertEqual(len(listed), 3)
        key = next(iter(json.loads(self.cairn("state", "cat", "job.cairn", "--limit", "1", "--slot",
                                              "topn", "--json").stdout)["key"].values()))
        got = self.cairn("state", "get", "job.cairn", key, "--slot", "topn", "--json")
        self.assertEqual(len(got.stdout.splitlines()), 1)
        self.cairn("state", "export", "job.cairn", "--typed", "-o", "typed")
        self.cairn("state", "export", "job.cairn", "-o", "all.parquet")
        self.cairn("state", "import", "all.parquet", "--like", "job.cairn", "--to", "copy")
        self.assertEqual(self.cairn("state", "diff", "job.cairn", "copy").stdout, "")

    def test_the_most_key_groups_run_rescale_and_open_in_the_tools(self):
        self.check_rescales(32768, [3, 16, 1, 5, 2])
        self.check_tools()

    def test_one_key_group_holds_everything(self):
        done = self.cairn("run", "job.sql", "--set", "state.key_groups=1", "--parallelism", "2",
                          check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("only 1 key groups", done.stderr)
        self.check_rescales(1, [1, 1])
        self.check_tools()

    def test_more_key_groups_than_there_may_be_are_refused(self):
        done = self.cairn("run", "job.sql", "--set", "state.key_groups=32769", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("32768", done.stderr.replace(",", ""))
        self.assertFalse((self.dir / "job.cairn").exists())


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A changed job begins with the checkpoint of the saved one: what it takes over, and what it refuses to lose."""
import json
import shutil
import unittest

from harness import EndToEndTest, bid_table, bids_relation, connect, make_bids, netted, sink_table

COUNTS = sink_table("counts", "auction BIGINT, n BIGINT", "counts", True)
COUNT_QUERY = "INSERT INTO counts SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n"
SUMS = sink_table("sums", "bidder BIGINT, s DECIMAL(38,0)", "sums", True)
SUM_QUERY = "INSERT INTO sums SELECT bidder, sum(price) AS s FROM bid GROUP BY bidder;\n"


class PlanTest(EndToEndTest):

    def setUp(self):
        super().setUp()
        make_bids(self.dir / "bids.ndjson", 3000, 5)
        self.bids = bid_table("bids.ndjson", "ndjson")
        self.job(self.bids + COUNTS + SUMS + COUNT_QUERY + SUM_QUERY)
        self.cairn("run", "job.sql", "--parallelism", 2)

    def listing(self):
        return sorted((str(p), p.stat().st_mtime_ns, p.stat().st_size)
                      for p in self.dir.rglob("*"))

    def plan(self, job: str, *args, status: int = 0) -> tuple[list[dict], dict]:
        """The plan's parts and its last line. It runs and writes nothing."""
        before = self.listing()
        done = self.cairn("run", job, "--from", "job.cairn", "--checkpoints", "new.cairn", "--plan",
                          "--json", *args, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(self.listing(), before)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return lines[:-1], lines[-1]

    def run_from(self, job: str, *args, status: int = 0):
        done = self.cairn("run", job, "--from", "job.cairn", "--checkpoints", "new.cairn", *args,
                          check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def more_bids(self):
        make_bids(self.dir / "more.ndjson", 700, 6)
        with open(self.dir / "bids.ndjson", "ab") as bids:
            bids.write((self.dir / "more.ndjson").read_bytes())

    def expect_rows(self, sink: str, columns: dict, query: str):
        """What a sink's files add up to is what DuckDB says of all bids."""
        db = connect()
        bids_relation(db, self.dir / "bids.ndjson")
        netted(db, self.dir / sink, columns, True)
        names = ", ".join(columns)
        left = db.execute(f"SELECT count(*) FROM (SELECT {names} FROM got EXCEPT ALL {query})").fetchone()
        right = db.execute(f"SELECT count(*) FROM ({query} EXCEPT ALL SELECT {names} FROM got)").fetchone()
        self.assertEqual((left[0], right[0]), (0, 0))

    def test_the_same_job_keeps_all_and_the_counts_are_those_of_state_ls(self):
        parts, last = self.plan("job.sql")
        self.assertTrue(last["would_restore"])
        self.assertEqual({part["fate"] for part in parts}, {"kept"})
        listed = {(line["uid"], line["slot"]): (line["rows"], line["bytes"]) for line in map(
            json.loads, self.cairn("state", "ls", "job.cairn", "--json").stdout.splitlines())}
        planned = {(part["name"], part["slot"]): (part["rows"], part["bytes"])
                   for part in parts if part["kind"] == "slot"}
        self.assertEqual(planned, listed)
        text = self.cairn("run", "job.sql", "--from", "job.cairn", "--checkpoints", "new.cairn",
                          "--plan").stdout
        self.assertIn("would be restored", text)

    def test_a_dropped_statement_is_refused_until_all_that_is_lost_is_named(self):
        self.job(self.bids + COUNTS + COUNT_QUERY, "less.sql")
        parts, last = self.plan("less.sql", status=1)
        self.assertFalse(last["would_restore"])
        refused = [part for part in parts if part["refused"]]
        self.assertEqual({(part["kind"], part["name"]) for part in refused},
                         {("slot", "sums/group-aggregate/0")})
        # The run says the same and changes nothing.
        done = self.run_from("less.sql", status=2)
        self.assertIn("--allow-non-restored sums/group-aggregate/0.agg", done.stderr)
        self.run_from("less.sql", "--allow-non-restored", "sums", status=2)
        consent = ["--allow-non-restored", "sums/group-aggregate/0"]
        parts, last = self.plan("less.sql", *consent)
        self.assertTrue(last["would_restore"])
        self.more_bids()
        self.run_from("less.sql", *consent)
        self.assertEqual({json.loads(line)["uid"] for line in self.cairn(
            "state", "ls", "new.cairn", "--json").stdout.splitlines()}, {"counts/group-aggregate/0"})
        self.expect_rows("counts", {"auction": "BIGINT", "n": "BIGINT"},
                         "SELECT auction, count(*) FROM bid GROUP BY 1")

    def test_a_renamed_sink_takes_its_state_along_when_it_is_said(self):
        renamed = (COUNTS + COUNT_QUERY).replace("TABLE counts", "TABLE totals").replace(
            "INTO counts", "INTO totals")
        self.job(self.bids + renamed + SUMS + SUM_QUERY, "renamed.sql")
        parts, last = self.plan("renamed.sql", status=1)
        self.assertTrue(any("--rename counts=totals" in (part["refused"] or "") for part in parts))
        parts, last = self.plan("renamed.sql", "--rename", "counts=totals")
        fates = {(part["kind"], part["name"]): (part["fate"], part["saved_as"]) for part in parts}
        self.assertEqual(fates["slot", "totals/group-aggregate/0"],
                         ("moved", "counts/group-aggregate/0"))
        self.assertEqual(fates["sink", "totals"], ("renamed", "counts"))
        self.more_bids()
        self.run_from("renamed.sql", "--rename", "counts=totals", "--parallelism", 3)
        for sink, columns, query in (
                ("counts", {"auction": "BIGINT", "n": "BIGINT"},
                 "SELECT auction, count(*) FROM bid GROUP BY 1"),
                ("sums", {"bidder": "BIGINT", "s": "DECIMAL(38,0)"},
                 "SELECT bidder, sum(price)::DECIMAL(38,0) FROM bid GROUP BY 1")):
            self.expect_rows(sink, columns, query)
        # The old place is refused by the renamed sink as by any other.
        done = self.cairn("run", "job.sql", check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        # The new place restarts by itself: nothing of the mapping is needed again.
        self.assertIn("nothing new", self.cairn("run", "renamed.sql", "--checkpoints",
                                                "new.cairn").stderr)

    def test_a_new_statement_begins_empty_beside_what_is_kept(self):
        more = (sink_table("tops", "channel TEXT, n BIGINT", "tops", True)
                + "INSERT INTO tops SELECT channel, count(*) AS n FROM bid GROUP BY channel;\n")
        self.job(self.bids + COUNTS + SUMS + COUNT_QUERY + SUM_QUERY + more, "more.sql")
        parts, last = self.plan("more.sql")
        new = {(part["kind"], part["name"]) for part in parts if part["fate"] == "new"}
        self.assertEqual(new, {("slot", "tops/group-aggregate/0"), ("sink", "tops")})
        self.run_from("more.sql")

    def test_another_filter_needs_the_users_word(self):
        self.job(self.bids + COUNTS + SUMS + COUNT_QUERY
                 + SUM_QUERY.replace("sum(price)", "max(price)"), "max.sql")
        parts, last = self.plan("max.sql", status=1)
        self.assertTrue(any(part["fate"] == "redefined" and "--accept-changes" in part["refused"]
                            for part in parts), parts)
        # What was summed is no maximum, whatever the word.
        parts, last = self.plan("max.sql", "--accept-changes", status=1)

    def test_a_shorter_ttl_is_counted_as_the_restore_will(self):
        text = self.bids + COUNTS + COUNT_QUERY
        self.job("SET cairn.state.ttl = '3600s';\n" + text, "kept.sql")
        self.cairn("run", "kept.sql", "--checkpoints", "ttl.cairn")
        self.more_bids()  # which come to some keys, later than all others
        self.cairn("run", "kept.sql", "--checkpoints", "ttl.cairn")
        counts = {}
        for ttl in ("7200s", "1ms"):
            self.job(f"SET cairn.state.ttl = '{ttl}';\n" + text, "ttl.sql")
            done = self.cairn("run", "ttl.sql", "--from", "ttl.cairn", "--checkpoints",
                              "ttl-new.cairn", "--plan", "--json")
            slot = next(part for part in map(json.loads, done.stdout.splitlines())
                        if part["kind"] == "slot")
            counts[ttl] = slot["live"]
            self.assertEqual(slot["live"] + slot["expired"], slot["rows"])
        self.assertGreater(counts["7200s"], counts["1ms"])

    def test_of_a_place_and_the_one_made_from_it_only_one_goes_on(self):
        more = "--like", "job.cairn"
        for make, first in ((("state", "import", *more, "--to", "made.cairn"), "made.cairn"),
                            (("state", "migrate", "job.cairn", "--job", "job.sql", "--to",
                              "made2.cairn"), "job.cairn")):
            with self.subTest(first=first):
                self.cairn(*make)
                made = make[-1]
                other = "job.cairn" if first == made else made
                self.more_bids()
                # `more_bids` appends the same rows each time, which counts them again: that is right.
                self.cairn("run", "job.sql", "--checkpoints", first)
                done = self.cairn("run", "job.sql", "--checkpoints", other, check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("they would be published again", done.stderr)
                self.expect_rows("counts", {"auction": "BIGINT", "n": "BIGINT"},
                                 "SELECT auction, count(*) FROM bid GROUP BY 1")
                # From here on the one that went on is the job's place.
                if first != "job.cairn":
                    shutil.rmtree(self.dir / "job.cairn")
                    (self.dir / first).rename(self.dir / "job.cairn")

    def test_without_from_the_plan_is_of_the_jobs_own_place(self):
        done = self.cairn("run", "job.sql", "--plan")
        self.assertIn("job.cairn into the same place", done.stdout)
        self.job(self.bids + COUNTS + COUNT_QUERY, "less.sql")
        done = self.cairn("run", "less.sql", "--checkpoints", "job.cairn", "--plan", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--from job.cairn --checkpoints NEW", done.stdout)
        done = self.cairn("run", "less.sql", "--plan")
        self.assertIn("would begin from the start", done.stdout)

    def test_what_cannot_be_planned_is_an_error(self):
        for args, status in ((["--from", "none.cairn"], 1), (["--from", "job.cairn@99"], 1),
                             (["--checkpoints", "none"], 2), (["--rename", "x=y"], 2),
                             (["--allow-non-restored", "x"], 2)):
            done = self.cairn("run", "job.sql", "--plan", *args, check=False)
            self.assertEqual(done.returncode, status, f"{args}: {done.stdout}{done.stderr}")
            self.assertEqual(done.stdout, "")
        done = self.cairn("run", "job.sql", "--allow-non-restored", "sums", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--from", done.stderr)
        parts = self.cairn("run", "job.sql", "--from", "job.cairn", "--plan", check=False)
        self.assertEqual(parts.returncode, 1, "the job's own place holds a checkpoint already")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saved state meets another job: checked, migrated, seeded, regrouped, combined and split offline."""
import json
import pathlib
import shutil
import struct
import unittest

import pyarrow.ipc

from harness import EndToEndTest, bid_table, make_bids, sink_table

ROWS = 4000
GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "testdata/format/v1"
COUNTS = sink_table("counts", "auction BIGINT, n BIGINT", "counts", True)
COUNT_QUERY = "INSERT INTO counts SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n"
SUMS = sink_table("sums", "bidder BIGINT, s BIGINT", "sums", True)
SUM_QUERY = "INSERT INTO sums SELECT bidder, sum(price) AS s FROM bid GROUP BY bidder;\n"


class SchemaTest(EndToEndTest):

    def setUp(self):
        super().setUp()
        make_bids(self.dir / "bids.ndjson", ROWS, 3)
        self.bids = bid_table("bids.ndjson", "ndjson")
        self.job(self.bids + COUNTS + SUMS + COUNT_QUERY + SUM_QUERY)
        self.cairn("run", "job.sql", "--parallelism", "2")

    def total(self, place: str, table: str = "agg", what: str = "sum(count)") -> int:
        done = self.cairn("state", "query", place, f"SELECT {what} AS x FROM {table}")
        return json.loads(done.stdout)["x"]

    def more_bids(self, rows: int) -> None:
        make_bids(self.dir / "more.ndjson", rows, 4)
        with open(self.dir / "bids.ndjson", "ab") as bids:
            bids.write((self.dir / "more.ndjson").read_bytes())

    def counted(self, place: str) -> int:
        """Bids that the counts in `place` add up to."""
        done = self.cairn("state", "cat", place, "--operator", "counts/group-aggregate/0", "--limit",
                          "0", "--json")
        return sum(list(json.loads(line)["value"].values())[0] for line in done.stdout.splitlines())


class ChangelogTest(EndToEndTest):

    def test_a_changelog_is_a_source_and_becomes_canonical_by_replay(self):
        log = GOLDEN / "snapshot-changelog.snap"
        self.cairn("state", "export", log, "--format", "arrow-stream", "-o", "canonical.snap")
        with pyarrow.ipc.open_stream(self.dir / "canonical.snap") as stream:
            table = stream.read_all()
        self.assertEqual(table.schema.metadata[b"clink.format_version"], b"1")
        le64 = lambda number: struct.pack("<q", number)
        self.assertEqual({row["key_bytes"]: row["value_bytes"] for row in table.to_pylist()},
                         {b"\x24counts|" + le64(1): le64(101), b"\x62counts|" + le64(7): le64(700)})
        self.cairn("state", "import", log, "--to", "place")
        self.assertIn("counts", self.cairn("state", "ls", "place").stdout)

    def test_stamps_of_a_snapshot_are_printed_and_kept(self):
        snapshot = GOLDEN / "snapshot-stamps.snap"
        done = self.cairn("state", "check", snapshot, "--json")
        stamps = {(line["slot"], line["value_codec"], line["version"])
                  for line in map(json.loads, done.stdout.splitlines())}
        self.assertLessEqual({("counts", "count", 2), ("ttl", "session", 3)}, stamps)
        done = self.cairn("state", "check", GOLDEN / "snapshot-v1.snap")
        self.assertIn("no stamps", done.stdout)


class CheckTest(SchemaTest):

    def test_stamps_are_printed_without_a_job(self):
        done = self.cairn("state", "check", "job.cairn", "--json")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual({(line["uid"], line["slot"], line["value_codec"], line["version"],
                           line["stamped"]) for line in lines},
                         {("counts/group-aggregate/0", "agg", "row", 1, True),
                          ("sums/group-aggregate/0", "agg", "row", 1, True)})
        self.assertEqual(self.cairn("state", "check", "job.cairn", "--quiet").stdout, "")

    def test_the_same_job_fits_and_another_query_does_not(self):
        done = self.cairn("state", "check", "job.cairn", "--job", "job.sql")
        self.assertNotIn("REFUSED", done.stdout)
        self.job(self.bids + COUNTS + COUNT_QUERY, "less.sql")
        done = self.cairn("state", "check", "job.cairn", "--job", "less.sql", check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("sums/group-aggregate/0 slot agg: is not declared", done.stdout)
        self.assertIn("sink sums is gone", done.stdout)
        quiet = self.cairn("state", "check", "job.cairn", "--job", "less.sql", "--quiet", check=False)
        self.assertNotIn("fits", quiet.stdout)
        # What check says is what run does.
        run = self.cairn("run", "less.sql", "--checkpoints", "job.cairn", check=False)
        self.assertEqual(run.returncode, 2)

    def test_a_list_of_slots_is_a_schema(self):
        listed = self.cairn("state", "ls", "job.cairn", "--json").stdout
        (self.dir / "slots.jsonl").write_text(listed)
        self.cairn("state", "check", "job.cairn", "--expected", "slots.jsonl")
        self.cairn("state", "check", "job.cairn", "--expected", "job.cairn")
        slots = [json.loads(line) for line in listed.splitlines()]
        slots[0]["value_columns"] = [{"name": "other", "type": "text", "nullable": True}]
        (self.dir / "slots.jsonl").write_text("\n".join(map(json.dumps, slots)))
        done = self.cairn("state", "check", "job.cairn", "--expected", "slots.jsonl", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("was removed", done.stdout)
        self.assertIn("(other text)", done.stdout)

    def test_what_is_missing_fails(self):
        self.assertEqual(self.cairn("state", "check", "none", check=False).returncode, 1)
        for args in (["--job", "none.sql"], ["--expected", "none.jsonl"]):
            done = self.cairn("state", "check", "job.cairn", *args, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
        done = self.cairn("state", "check", check=False)
        self.assertEqual(done.returncode, 2)


class DiffTest(SchemaTest):

    def test_equal_states_differ_in_nothing_whatever_their_shape(self):
        self.cairn("state", "import", "--like", "job.cairn", "--key-groups", "1000", "--to", "wide")
        done = self.cairn("state", "diff", "job.cairn", "wide")
        self.assertEqual(done.stdout, "")

    def test_counts_are_exact_and_rows_bounded(self):
        before = self.dir / "before.cairn"
        shutil.copytree(self.dir / "job.cairn", before)
        self.more_bids(500)
        self.cairn("run", "job.sql")
        args = ["state", "diff", "before.cairn", "job.cairn", "--slot", "agg", "--operator",
                "counts/group-aggregate/0", "--json"]
        done = self.cairn(*args, "--limit", "3", check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(lines), 4)
        every = self.cairn(*args, "--limit", "0", check=False)
        rows = [json.loads(line) for line in every.stdout.splitlines()]
        counts = rows.pop()
        self.assertEqual(counts, lines[-1])
        self.assertEqual(counts["added"], sum("a" not in row for row in rows))
        self.assertEqual(counts["changed"], sum("a" in row and "b" in row for row in rows))
        self.assertEqual(counts["removed"], 0)
        gained = sum(sum(row["b"].values()) - sum(row.get("a", {}).values()) for row in rows)
        self.assertEqual(gained, 500, "bids that came in between")
        backwards = self.cairn("state", "diff", "job.cairn", "before.cairn", "--json", check=False)
        self.assertIn(counts["added"], [json.loads(line).get("removed")
                                        for line in backwards.stdout.splitlines()])


class MigrateTest(SchemaTest):

    def test_a_query_that_lost_an_operator_goes_on(self):
        self.job(self.bids + COUNTS + COUNT_QUERY, "less.sql")
        args = ["state", "migrate", "job.cairn", "--job", "less.sql", "--to", "less.cairn"]
        refused = self.cairn(*args, check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--drop", refused.stderr)
        self.assertFalse((self.dir / "less.cairn").exists())
        self.cairn(*args, "--drop")
        self.more_bids(500)
        self.cairn("run", "less.sql", "--checkpoints", "less.cairn", "--parallelism", "3")
        self.assertEqual(self.counted("less.cairn"), ROWS + 500)

    def test_a_query_that_gained_an_operator_goes_on(self):
        self.job(self.bids + COUNTS + COUNT_QUERY, "one.sql")
        self.cairn("run", "one.sql", "--checkpoints", "one.cairn")
        self.cairn("state", "migrate", "one.cairn", "--job", "job.sql", "--to", "two.cairn")
        self.more_bids(500)
        self.cairn("run", "job.sql", "--checkpoints", "two.cairn")
        self.assertEqual(self.counted("two.cairn"), ROWS + 500)

    def test_an_added_nullable_column_is_null_in_old_rows(self):
        slots = [json.loads(line) for line in
                 self.cairn("state", "ls", "job.cairn", "--json").stdout.splitlines()]
        for slot in slots:
            slot["version"] = 2
            slot["value_columns"].append({"name": "note", "type": "text", "nullable": True})
        (self.dir / "v2.jsonl").write_text("\n".join(map(json.dumps, slots)))
        self.cairn("state", "migrate", "job.cairn", "--expected", "v2.jsonl", "--to", "v2.cairn")
        self.cairn("state", "check", "v2.cairn", "--expected", "v2.jsonl")
        row = json.loads(self.cairn("state", "cat", "v2.cairn", "--json", "--limit", "1")
                         .stdout.splitlines()[0])
        self.assertIsNone(row["value"]["note"])
        # The job declares version 1 and is refused, for good.
        done = self.cairn("run", "job.sql", "--checkpoints", "v2.cairn", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("version 2", done.stderr)


class SeedTest(SchemaTest):

    def test_a_job_that_never_ran_begins_from_seeded_state(self):
        self.cairn("state", "export", "job.cairn", "--operator", "counts/group-aggregate/0",
                   "--typed", "-o", "agg.parquet")
        self.job(self.bids + COUNTS + COUNT_QUERY, "seeded.sql")
        self.cairn("state", "import", "agg.parquet", "--job", "seeded.sql", "--to", "seeded.cairn")
        self.assertEqual(self.counted("seeded.cairn"), ROWS)
        self.cairn("run", "seeded.sql", "--checkpoints", "seeded.cairn")
        self.assertEqual(self.counted("seeded.cairn"), 2 * ROWS, "every bid, over the seed")

    def test_a_slot_that_the_job_does_not_have_is_refused(self):
        self.cairn("state", "export", "job.cairn", "-o", "all.parquet")
        self.job(self.bids + COUNTS + COUNT_QUERY, "seeded.sql")
        done = self.cairn("state", "import", "all.parquet", "--job", "seeded.sql", "--to", "new",
                          check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("has no operator sums/group-aggregate/0", done.stderr)
        self.assertFalse((self.dir / "new").exists())


class RegroupTest(SchemaTest):

    def test_a_job_goes_on_with_another_number_of_key_groups(self):
        self.cairn("state", "import", "--like", "job.cairn", "--key-groups", "1000", "--to", "wide")
        self.assertEqual(self.counted("wide"), ROWS)
        self.more_bids(300)
        self.cairn("run", "job.sql", "--checkpoints", "wide", "--set", "state.key_groups=1000",
                   "--parallelism", "5")
        self.assertEqual(self.counted("wide"), ROWS + 300)
        self.cairn("state", "import", "--like", "wide", "--key-groups", "128", "--to", "narrow")
        self.cairn("run", "job.sql", "--checkpoints", "narrow")
        self.assertEqual(self.counted("narrow"), ROWS + 300)

    def test_split_parts_combine_to_the_same_state(self):
        export = ["state", "export", "--format", "arrow-stream"]
        self.cairn(*export, "job.cairn", "-o", "all.snap")
        self.cairn(*export, "job.cairn", "--split", "3", "-o", "parts")
        parts = sorted((self.dir / "parts").glob("*/checkpoint-*.snap"))
        self.assertEqual(len(parts), 3)
        self.cairn("checkpoint", "verify", "parts/0")
        self.cairn("state", "import", *parts, "--to", "combined")
        self.cairn(*export, "combined", "-o", "again.snap")
        self.assertEqual((self.dir / "all.snap").read_bytes(), (self.dir / "again.snap").read_bytes())

    def test_a_directory_of_snapshots_is_a_source(self):
        for place, number in (("job.cairn", 3), ("job.cairn", 9)):
            (self.dir / "snaps").mkdir(exist_ok=True)
            self.cairn("state", "export", place, "--format", "arrow-stream", "-o",
                       f"snaps/checkpoint-{number}.snap")
        self.assertIn("agg", self.cairn("state", "ls", "snaps").stdout)
        newest = self.dir / "snaps/checkpoint-9.snap"
        newest.write_bytes(newest.read_bytes()[:-1])
        verified = self.cairn("checkpoint", "verify", "snaps", check=False)
        self.assertEqual(verified.returncode, 1)
        self.assertEqual([line.split()[0] for line in verified.stdout.splitlines()],
                         ["incomplete", "valid"])
        refused = self.cairn("state", "ls", "snaps@9", check=False)
        self.assertEqual(refused.returncode, 3)
        self.assertIn("the newest older valid snapshot is 3", refused.stderr)
        self.assertIn("agg", self.cairn("state", "ls", "snaps").stdout)


if __name__ == "__main__":
    unittest.main()

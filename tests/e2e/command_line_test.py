#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the command says: receipts and costs, differences field by field, refusals of what is almost right."""
import json
import pathlib
import shutil
import socket
import subprocess
import unittest

from harness import CAIRN, EndToEndTest, bid_table, connect, make_bids, netted, sink_table

BIN = pathlib.Path(CAIRN).resolve().parent
COUNTS = (sink_table("counts", "auction BIGINT, n BIGINT, top BIGINT", "counts", True)
          + "INSERT INTO counts SELECT auction, count(*) AS n, max(price) AS top FROM bid "
            "GROUP BY auction;\n")
TOP = (sink_table("top", "auction BIGINT, price BIGINT, rn BIGINT", "top", True)
       + "INSERT INTO top SELECT auction, price, rn FROM (SELECT *, ROW_NUMBER() OVER "
         "(PARTITION BY auction ORDER BY price DESC) AS rn FROM bid) t WHERE rn <= 2;\n")


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


class CommandLineTest(EndToEndTest):

    def setUp(self):
        super().setUp()
        make_bids(self.dir / "bids.ndjson", 3000, 5)
        self.bids = bid_table("bids.ndjson", "ndjson")
        self.job(self.bids + COUNTS + TOP)

    def more_bids(self):
        make_bids(self.dir / "more.ndjson", 500, 6)
        with open(self.dir / "bids.ndjson", "ab") as bids:
            bids.write((self.dir / "more.ndjson").read_bytes())

    def refused(self, *args, status: int = 2) -> str:
        done = self.cairn(*args, check=False)
        self.assertEqual(done.returncode, status, f"{args}: {done.stdout}{done.stderr}")
        return done.stderr


class ReceiptTest(CommandLineTest):

    def test_a_restore_says_what_it_loaded_operator_by_operator(self):
        self.cairn("run", "job.sql", "--parallelism", 2)
        shown = lines(self.cairn("checkpoint", "show", "job.cairn", "--json").stdout)[0]
        text = self.cairn("run", "job.sql", "--parallelism", 3).stderr
        entries = f"{shown['entries']:,}"
        self.assertIn(f"restored checkpoint {shown['id']}: {entries} of {entries} entries, "
                      f"{len(shown['frames'])} frames of 2 operators, ", text)
        events = lines(self.cairn("run", "job.sql", "--json").stderr)
        receipt = next(event for event in events if event["event"] == "restored")
        self.assertEqual((receipt["expected"], receipt["loaded"], receipt["frames"]),
                         (shown["entries"], shown["entries"], len(shown["frames"])))
        self.assertEqual({one["uid"]: (one["expected"], one["loaded"], one["frames"], one["bytes"])
                          for one in receipt["operators"]},
                         {op["uid"]: (op["entries"], op["entries"], op["frames"], op["bytes"])
                          for op in shown["operators"]})
        self.assertEqual(events[-1]["event"], "done")
        self.assertIn("nothing new", events[-1]["text"])

    def test_a_checkpoint_says_what_it_cost(self):
        events = lines(self.cairn("run", "job.sql", "--json").stderr)
        cost = events[-1]["checkpoint"]
        listed = lines(self.cairn("checkpoint", "ls", "job.cairn", "--json").stdout)[0]
        self.assertEqual((cost["id"], cost["frames_new"], cost["frames_reused"]),
                         (listed["id"], listed["frames_new"], listed["frames_reused"]))
        self.assertGreater(cost["fsyncs"], 0)
        self.assertLessEqual(cost["fsyncs"], 6, "a checkpoint in a directory costs six at most")
        self.assertGreaterEqual(cost["bytes_written"], listed["bytes_new"])
        self.assertEqual((cost["puts"], cost["gets"]), (0, 0))
        self.more_bids()
        text = self.cairn("run", "job.sql").stderr
        self.assertRegex(text, r"checkpoint \d+, [\d.]+ s ago, [\d.]+ \S+ of [\d.]+ \S+, \d fsyncs in ")


class DiffTest(CommandLineTest):

    def setUp(self):
        super().setUp()
        self.cairn("run", "job.sql")
        shutil.copytree(self.dir / "job.cairn", self.dir / "before.cairn")
        self.more_bids()
        self.cairn("run", "job.sql")

    def diff(self, *args, status: int = 1) -> str:
        done = self.cairn("state", "diff", "before.cairn", "job.cairn", *args, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def test_changed_rows_name_the_columns_that_differ(self):
        rows = lines(self.diff("--operator", "counts/group-aggregate/0", "--limit", 0, "--json"))
        counts = rows.pop()
        changed = [row for row in rows if "fields" in row]
        self.assertEqual(len(changed), counts["changed"])
        self.assertGreater(len(changed), 0)
        for row in changed:
            names = {name for name in row["a"] if row["a"][name] != row["b"][name]}
            self.assertEqual(set(row["fields"]), names)
            for name, change in row["fields"].items():
                self.assertEqual((change["a"], change["b"]), (row["a"][name], row["b"][name]))
        self.assertTrue(any(len(row["fields"]) == 1 for row in changed), "max often stays")
        text = self.diff("--operator", "counts/group-aggregate/0", "--limit", 0)
        self.assertRegex(text, r'(?m)^~ \{"auction":\d+\}  count: \d+ -> \d+$')

    def test_ranked_rows_differ_rank_by_rank(self):
        rows = lines(self.diff("--slot", "topn", "--limit", 0, "--json"))[:-1]
        changed = [row for row in rows if "fields" in row]
        self.assertGreater(len(changed), 0)
        for row in changed:
            for rank in (1, 2):
                before = row["a"][rank - 1] if len(row["a"]) >= rank else None
                after = row["b"][rank - 1] if len(row["b"]) >= rank else None
                change = row["fields"].get(f"rank {rank}", {})
                self.assertEqual(before != after, bool(change), row)
                if change:
                    self.assertEqual((change.get("a"), change.get("b")), (before, after))

    def test_the_summary_counts_every_slot_and_every_field(self):
        summary = lines(self.diff("--summary", "--json"))
        slots = {line["slot"]: line for line in summary if "slot" in line}
        rows = lines(self.diff("--limit", 0, "--json"))
        fields = [name for row in rows for name in row.get("fields", {}) if row["slot"] == "agg"]
        self.assertEqual(slots["agg"]["changed_fields"],
                         {name: fields.count(name) for name in set(fields)})
        total = {line["operator_total"]: line for line in summary if "operator_total" in line}
        self.assertEqual(total["counts/group-aggregate/0"]["added"], slots["agg"]["added"])
        self.assertIn("CHANGED FIELDS", self.diff("--summary"))
        equal = self.cairn("state", "diff", "job.cairn", "job.cairn", "--summary", "--json")
        self.assertTrue(all(line["same"] > 0 and line["changed"] == 0 for line in lines(equal.stdout)))


class PlaceToolsTest(CommandLineTest):

    def test_upgrade_has_nothing_to_do_and_refuses_what_is_newer(self):
        self.cairn("run", "job.sql")
        done = self.cairn("checkpoint", "upgrade", "job.cairn")
        self.assertIn("nothing to upgrade", done.stdout)
        line = lines(self.cairn("checkpoint", "upgrade", "job.cairn", "--json").stdout)[0]
        self.assertEqual((line["format_version"], line["to_upgrade"]), (1, 0))
        self.assertIn("not a checkpoint", self.refused("checkpoint", "upgrade", "counts"))
        record = self.dir / "job.cairn/FORMAT"
        text = record.read_text()
        newer = text.replace('"format":1', '"format":2')
        self.assertNotEqual(newer, text)
        record.write_text(newer)
        for args in (["checkpoint", "upgrade"], ["checkpoint", "ls"], ["state", "ls"]):
            self.assertIn("upgrade cairn", self.refused(*args, "job.cairn", status=3))
        self.assertIn("upgrade cairn", self.refused("run", "job.sql", status=3))
        record.write_text(text)
        state = next((self.dir / "job.cairn/nodes").rglob("state.arrow"))
        damaged = bytearray(state.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        state.write_bytes(damaged)
        self.refused("checkpoint", "upgrade", "job.cairn", status=3)

    def test_a_copy_is_self_contained_and_can_be_moved(self):
        self.cairn("run", "job.sql", "--interval", "100ms")
        self.more_bids()
        self.cairn("run", "job.sql")
        self.cairn("checkpoint", "copy", "job.cairn", "copy")
        for path in (self.dir / "copy").rglob("*"):
            if path.is_file() and path.name != "state.arrow":
                self.assertNotIn(str(self.dir).encode(), path.read_bytes(), path)
        before = self.cairn("state", "cat", "job.cairn", "--limit", 0, "--json").stdout
        shutil.rmtree(self.dir / "job.cairn")
        (self.dir / "far/away").mkdir(parents=True)
        shutil.move(self.dir / "copy", self.dir / "far/away/moved")
        moved = "far/away/moved"
        self.cairn("checkpoint", "verify", moved)
        self.assertEqual(self.cairn("state", "cat", moved, "--limit", 0, "--json").stdout, before)
        self.more_bids()
        self.cairn("run", "job.sql", "--checkpoints", moved, "--parallelism", 2)
        db = connect()
        netted(db, self.dir / "counts", {"auction": "BIGINT", "n": "BIGINT", "top": "BIGINT"}, True)
        self.assertEqual(db.execute("SELECT sum(n) FROM got").fetchone()[0],
                         sum(1 for _ in open(self.dir / "bids.ndjson")))

    def test_a_copy_of_an_older_checkpoint_publishes_nothing_twice(self):
        self.cairn("run", "job.sql")
        self.more_bids()
        self.cairn("run", "job.sql")
        newest, older = [line["id"] for line in lines(self.cairn("checkpoint", "ls", "job.cairn",
                                                                 "--json").stdout)][:2]
        self.cairn("checkpoint", "copy", f"job.cairn@{older}", "older")
        files = sorted(path.name for path in (self.dir / "counts").iterdir())
        for args in (["--checkpoints", "older"], ["--from", "older", "--checkpoints", "new"]):
            error = self.refused("run", "job.sql", *args)
            self.assertIn(f"rows that checkpoint {newest} of this job has published", error)
            self.assertIn(f"at checkpoint {older}", error)
        self.assertEqual(sorted(path.name for path in (self.dir / "counts").iterdir()), files)
        self.cairn("run", "job.sql")

    def test_a_part_of_a_split_export_is_no_state(self):
        self.cairn("run", "job.sql")
        self.cairn("state", "export", "job.cairn", "--format", "arrow-stream", "--slot", "agg",
                   "--split", 3, "-o", "parts")
        parts = [f"parts/{i}" for i in range(3)]
        refusal = self.refused("state", "import", parts[1], "--to", "one")
        self.assertIn("part 2 of 3", refusal)
        self.assertIn("part 1, 3 is missing", refusal)
        self.assertIn("part 3 is missing",
                      self.refused("state", "import", *parts[:2], "--to", "one"))
        self.assertIn("both part 1", self.refused("state", "import", parts[0], *parts, "--to", "one"))
        self.assertFalse((self.dir / "one/FORMAT").exists())
        self.cairn("state", "import", *parts, "--to", "whole")
        rows = lines(self.cairn("state", "ls", "whole", "--json").stdout)[0]["rows"]
        slots = lines(self.cairn("state", "ls", "job.cairn", "--json").stdout)
        self.assertEqual(rows, next(slot["rows"] for slot in slots if slot["slot"] == "agg"))
        # Whatever reads one snapshot refuses a part of one, as a file and as its directory.
        part = next((self.dir / "parts/1").glob("*.snap"))
        for source in ("parts/1", part):
            for verb in (["ls"], ["cat"], ["get"], ["check"], ["query"], ["export", "-o", "x"],
                         ["migrate", "--to", "x", "--job", "job.sql"], ["diff"]):
                args = {"get": ["1"], "query": ["SELECT count(*) AS n FROM state"],
                        "diff": ["job.cairn"]}.get(verb[0], [])
                refusal = self.refused("state", verb[0], source, *args, *verb[1:])
                self.assertIn("part 2 of 3 of a snapshot", refusal)
                self.assertIn("cairn state import", refusal)
        self.assertIn("part 2 of 3", self.refused("state", "diff", "job.cairn", part))
        self.assertIn("part 2 of 3", self.refused("state", "check", "job.cairn", "--expected", part))
        self.assertIn("valid", self.cairn("checkpoint", "verify", part).stdout)

    def test_a_split_export_is_not_mixed_with_another(self):
        self.cairn("run", "job.sql")
        export = ["state", "export", "job.cairn", "--format", "arrow-stream", "--slot", "agg",
                  "-o", "parts", "--split"]
        self.cairn(*export, 3)

        def content():
            return {path: path.read_bytes() for path in (self.dir / "parts").rglob("*.snap*")}
        before = content()
        for parts in (2, 3, 4):
            self.assertIn("parts of another export", self.refused(*export, parts))
            self.assertEqual(content(), before)
        # Also of another checkpoint, whose files would have other names.
        older = lines(self.cairn("checkpoint", "ls", "job.cairn", "--json").stdout)[-1]["id"]
        export[2] = f"job.cairn@{older}"
        self.assertIn("parts of another export", self.refused(*export, 2))
        self.assertEqual(content(), before)

    def test_a_diff_with_a_stream_names_a_changed_column_once(self):
        self.job("CREATE TABLE bid (auction BIGINT) WITH (connector = 'nexmark', table = 'bid', "
                 "events = 60000, seed = 3, rate = 100000);\n"
                 "SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n")
        self.cairn("run", "job.sql", "--interval", "100ms")
        cuts = [line["id"] for line in lines(self.cairn("checkpoint", "ls", "job.cairn",
                                                        "--json").stdout)]
        self.assertGreater(len(cuts), 1)
        older = f"job.cairn@{cuts[-1]}"
        self.cairn("state", "export", older, "--format", "arrow-stream", "-o", "older.snap")

        def summary(*sides):
            return lines(self.cairn("state", "diff", *sides, "--summary", "--json",
                                    check=False).stdout)
        for sides in ((older, "job.cairn"), ("job.cairn", older)):
            streams = ["older.snap" if side == older else side for side in sides]
            self.assertEqual(summary(*streams), summary(*sides))
        self.assertEqual(self.cairn("state", "diff", "older.snap", older).stdout, "")


class RefusalTest(CommandLineTest):

    def test_what_is_no_checkpoint_is_bad_input_not_damage(self):
        self.cairn("run", "job.sql")
        self.cairn("state", "export", "job.cairn", "--typed", "--slot", "agg", "-o", "agg.parquet")
        (self.dir / "notes.txt").write_text("some notes\n")
        (self.dir / "empty").mkdir()
        for source in ("notes.txt", "agg.parquet", "bids.ndjson", "counts", "empty"):
            for verb in (["state", "ls"], ["state", "cat"], ["state", "check"], ["checkpoint", "ls"],
                         ["checkpoint", "show"], ["checkpoint", "verify"]):
                self.refused(*verb, source)
        self.assertIn("not a checkpoint", self.refused("state", "ls", "notes.txt"))
        self.assertIn("not a checkpoint", self.refused("checkpoint", "ls", "empty"))
        # A snapshot that is damaged is damage all the same.
        self.cairn("state", "export", "job.cairn", "--format", "arrow-stream", "--slot", "agg", "-o",
                   "all.snap")
        snapshot = bytearray((self.dir / "all.snap").read_bytes())
        snapshot[:4] = b"text"
        (self.dir / "all.snap").write_bytes(snapshot)
        self.refused("state", "ls", "all.snap", status=3)

    def test_places_within_one_another_are_refused(self):
        self.cairn("run", "job.sql")
        for place in ("job.cairn/inner", "job.cairn/nodes/inner", "."):
            for command in (["run", "job.sql", "--checkpoints", place],
                            ["run", "job.sql", "--checkpoints", place, "--explain"],
                            ["run", "job.sql", "--from", "job.cairn", "--checkpoints", place],
                            ["checkpoint", "copy", "job.cairn", place],
                            ["state", "import", "job.cairn", "--to", place]):
                refusal = self.refused(*command)
                self.assertIn("place", refusal)
                self.assertIn("choose", refusal)
        self.assertFalse((self.dir / "job.cairn/inner").exists())
        sink = (self.dir / "job.sql").read_text().replace("'counts'", "'job.cairn/counts'")
        (self.dir / "within.sql").write_text(sink)
        self.assertIn("of another job", self.refused("run", "within.sql"))

    def test_store_check_judges_a_directory_that_is_not_there_yet(self):
        said = self.cairn("store", "check", "new/place").stdout
        self.assertIn("'new/place' can hold checkpoints", said)
        self.assertIn("not there yet", said)
        self.assertFalse((self.dir / "new").exists())
        self.assertEqual({line["kept"] for line in lines(
            self.cairn("store", "check", "new/place", "--json").stdout)}, {True})
        (self.dir / "notes.txt").write_text("")
        self.assertIn("is a file", self.refused("store", "check", "notes.txt"))
        self.assertIn("cannot be made", self.refused("store", "check", "/proc/nowhere/place"))
        self.cairn("run", "job.sql", "--checkpoints", "new/place")
        self.assertNotIn("not there yet", self.cairn("store", "check", "new/place").stdout)

    def test_almost_a_scheme_and_nothing_at_all_are_refused(self):
        for text in ("memory:", "memory", "rocksdb:", "nope://x", "file:/x"):
            self.assertIn("memory://", self.refused("run", "job.sql", "--backend", text))
        for option in ("--backend", "--checkpoints", "--from", "--name", "--interval"):
            self.assertIn("blank", self.refused("run", "job.sql", option, ""))
            self.assertIn("blank", self.refused("run", "job.sql", option, " "))
        self.assertEqual([p.name for p in self.dir.iterdir() if p.name.startswith("mem")], [])

    def test_numbers_out_of_range_are_said_to_be(self):
        for args in (["state", "cat", "job.cairn", "--limit", "-1"],
                     ["state", "diff", "a", "b", "--limit", "-1"],
                     ["state", "cat", "job.cairn", "--limit", "many"]):
            self.assertIn("give a whole number, or 0 for all", self.refused(*args))
        for args in (["run", "job.sql", "--parallelism", "-1"], ["run", "job.sql", "--parallelism=0"]):
            self.assertIn("--parallelism", self.refused(*args))

    def test_an_option_error_of_the_text_shows_its_place(self):
        self.job("SET cairn.nope = 1;\n" + self.bids + COUNTS, "bad.sql")
        error = self.refused("run", "bad.sql")
        self.assertIn("bad.sql:1:1: no option is named 'nope'", error)
        self.assertTrue(error.rstrip().endswith("SET cairn.nope = 1;\n  ^"), error)
        self.assertIn("state.ttl", self.refused("run", "job.sql", "--set", "state.ttl_clock=wall"))
        self.assertIn("give it once",
                      self.refused("run", "job.sql", "--interval", "1s", "--set",
                                   "checkpoint.interval=2s"))

    def test_options_that_contradict_each_other_are_refused(self):
        for other in ("--explain", "--fresh"):
            self.assertIn("--plan", self.refused("run", "job.sql", "--plan", other))
        self.assertNotIn("Reading takes no lock", self.cairn("checkpoint", "gc", "--help").stdout)

    def test_help_describes_every_backend(self):
        text = self.cairn("run", "--help").stdout
        for scheme in ("memory://", "memory+sharded://", "file://DIR", "changelog://",
                       "changelog+file://DIR", "disagg-local://"):
            self.assertIn(scheme, text)

    def test_a_place_that_cannot_hold_anything_is_named(self):
        error = self.refused("store", "check", "/proc", status=2)
        self.assertIn("/proc", error)
        self.assertIn("cannot be written", error)

    def test_an_endpoint_that_is_down_is_waited_for_aloud(self):
        with socket.socket() as taken:  # bound and not listening: connections are refused
            taken.bind(("127.0.0.1", 0))
            place = f"s3://bucket/job?endpoint=http://127.0.0.1:{taken.getsockname()[1]}"
            keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
            done = self.cairn("run", "job.sql", "--checkpoints", place, check=False, env=keys)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stderr, r"waiting: .*127\.0\.0\.1.*; attempt \d+, giving up in \d+ s")


class ExamplesTest(EndToEndTest):

    def run_example(self, name: str, *args) -> subprocess.CompletedProcess:
        return subprocess.run([BIN / f"example_{name}", *map(str, args)], cwd=self.dir,
                              capture_output=True, text=True, timeout=60)

    def test_garbage_and_missing_input_end_with_a_word_and_code_2(self):
        (self.dir / "garbage.csv").write_text("user1,17,5\nno numbers here\n")
        for name, more in (("session_counter", []), ("rate_limiter", [5, 1000]),
                           ("feature_store", [])):
            for file in ("garbage.csv", "missing.csv"):
                done = self.run_example(name, file, f"{name}.{file}.state", *more)
                self.assertEqual(done.returncode, 2, f"{name} {file}: {done.stderr}")
                self.assertTrue(done.stderr.startswith(f"{name}: "), done.stderr)
                self.assertIn(file, done.stderr)
        for name, args in (("rate_limiter", ["garbage.csv", "state", "x", "y"]),
                           ("feature_store", ["garbage.csv", "state", "user1"]),
                           ("event_loop", ["state", "many"]), ("event_loop", ["state", "-1"])):
            done = self.run_example(name, *args)
            self.assertEqual(done.returncode, 2, f"{name} {args}: {done.stderr}")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""The tools on what a job saved: checkpoint ls|show|verify and state ls|cat|get|export|query."""
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import time

from harness import (BID_COLUMNS, CAIRN, EndToEndTest, bid_table, bids_relation, committed_files, connect,
                     make_bids, sink_table)

COUNTS = "INSERT INTO counts SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n"
TOP3 = ("INSERT INTO top3 SELECT auction, price, url, rn FROM (SELECT *, ROW_NUMBER() OVER "
        "(PARTITION BY auction ORDER BY price DESC) AS rn FROM bid) t WHERE rn <= 3;\n")
PAIRS = ("INSERT INTO pairs SELECT auction, channel, sum(price) AS total FROM bid "
         "GROUP BY auction, channel;\n")
COUNT_SLOT = ["--operator", "counts/group-aggregate/0"]


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


class SavedStateTest(EndToEndTest):
    """Three operators over bids that DuckDB knows too."""

    def setUp(self):
        super().setUp()
        make_bids(self.dir / "bids.ndjson", 30_000, 11)
        self.db = connect()
        bids_relation(self.db, self.dir / "bids.ndjson")
        self.job_file = self.job(
            bid_table("bids.ndjson", "ndjson")
            + sink_table("counts", "auction BIGINT, n BIGINT", "counts", True)
            + sink_table("top3", "auction BIGINT, price BIGINT, url TEXT, rn BIGINT", "top3", True)
            + sink_table("pairs", "auction BIGINT, channel TEXT, total DECIMAL(38,0)", "pairs", True)
            + COUNTS + TOP3 + PAIRS)

    def run_job(self, *args):
        return self.cairn("run", self.job_file, "--parallelism", 2, *args)


class CheckpointToolsTest(SavedStateTest):

    def test_ls_lists_the_kept_cuts_newest_first(self):
        # A generator with a rate gives the job time for several checkpoints.
        job = self.job(
            f"CREATE TABLE bid ({BID_COLUMNS}) WITH (connector = 'nexmark', table = 'bid', "
            "events = 20000, seed = 3, rate = 20000);\n"
            + sink_table("counts", "auction BIGINT, n BIGINT", "slow", True) + COUNTS, "slow.sql")
        self.cairn("run", job, "--interval", "100ms", "--set", "checkpoint.retained=4")
        cuts = lines(self.cairn("checkpoint", "ls", "slow.cairn", "--json").stdout)
        self.assertEqual(len(cuts), 4)
        ids = [cut["id"] for cut in cuts]
        self.assertEqual(ids, sorted(ids, reverse=True))
        self.assertEqual([cut["newest"] for cut in cuts], [True, False, False, False])
        self.assertTrue(cuts[0]["ended"])
        self.assertTrue(any(cut["bytes_reused"] > 0 for cut in cuts), "no frame was ever reused")
        one = lines(self.cairn("checkpoint", "ls", f"slow.cairn@{ids[2]}", "--json").stdout)
        self.assertEqual(one, [cuts[2]])
        for identity in ids:
            self.cairn("checkpoint", "verify", f"slow.cairn@{identity}")

    def test_show_says_all_of_a_cut(self):
        self.run_job()
        cut = lines(self.cairn("checkpoint", "show", "file://" + str(self.dir / "job.cairn"),
                               "--json").stdout)[0]
        self.assertEqual(cut["job"], "job")
        self.assertEqual(cut["parallelism"], 2)
        self.assertEqual(cut["key_groups"], 128)
        uids = {op["uid"] for op in cut["operators"]}
        self.assertEqual(uids, {"counts/group-aggregate/0", "pairs/group-aggregate/0",
                                "top3/top-n/0"})
        slots = {op["uid"]: op["slots"][0] for op in cut["operators"]}
        key = slots["pairs/group-aggregate/0"]["key_columns"]
        self.assertEqual([(c["name"], c["type"]) for c in key],
                         [("auction", "bigint"), ("channel", "text")])
        self.assertEqual(sum(f["entries"] for f in cut["frames"]),
                         sum(op["entries"] for op in cut["operators"]))
        for frame in cut["frames"]:
            self.assertTrue((self.dir / "job.cairn" / frame["object"]).is_file())
            self.assertEqual(len(frame["sha256"]), 64)
        size = (self.dir / "bids.ndjson").stat().st_size
        splits = cut["sources"][0]["splits"]
        self.assertTrue(all(split["ended"] for split in splits), splits)
        self.assertGreater(size, 0)
        self.assertEqual([sink["sink"] for sink in cut["sinks"]], ["counts", "pairs", "top3"])
        text = self.cairn("checkpoint", "show", "job.cairn").stdout
        for part in ("operators", "frames", "sources", "sinks", cut["deployment"],
                     cut["pipeline_sha256"]):
            self.assertIn(part, text)

    def test_verify_reads_the_whole_of_older_objects(self):
        job = self.job(
            f"CREATE TABLE bid ({BID_COLUMNS}) WITH (connector = 'nexmark', table = 'bid', "
            "events = 20000, seed = 3, rate = 20000);\n"
            + sink_table("counts", "auction BIGINT, n BIGINT", "slow", True) + COUNTS, "slow.sql")
        self.cairn("run", job, "--interval", "100ms")
        cut = lines(self.cairn("checkpoint", "show", "slow.cairn", "--json").stdout)[0]
        objects = sorted({frame["object"] for frame in cut["frames"]})
        self.assertGreater(len(objects), 1, "no frame was ever reused")
        state = self.dir / "slow.cairn" / objects[0]
        whole = state.read_bytes()
        for at in (0, 40, len(whole) - 1, len(whole) - 20, len(whole) - 100, len(whole) - 200):
            flipped = bytearray(whole)
            flipped[at] ^= 1
            state.write_bytes(flipped)
            done = self.cairn("checkpoint", "verify", "slow.cairn", check=False)
            self.assertEqual(done.returncode, 1, f"byte {at}: {done.stdout}")
            self.assertIn(objects[0], done.stdout + done.stderr)
        state.write_bytes(whole)
        self.cairn("checkpoint", "verify", "slow.cairn")

    def test_verify_names_what_is_damaged(self):
        self.run_job()
        valid = lines(self.cairn("checkpoint", "verify", "job.cairn", "--json").stdout)[0]
        self.assertTrue(valid["valid"])
        self.assertGreater(valid["frames"], 3)
        state = next((self.dir / "job.cairn").glob("nodes/1/checkpoints/*/state.arrow"))
        bytes_ = bytearray(state.read_bytes())
        bytes_[len(bytes_) // 2] ^= 1
        state.write_bytes(bytes_)
        done = self.cairn("checkpoint", "verify", "job.cairn", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("NOT valid", done.stdout)
        self.assertIn("state.arrow", done.stdout)
        broken = lines(self.cairn("checkpoint", "verify", "job.cairn", "--json",
                                  check=False).stdout)[0]
        self.assertEqual((broken["valid"], len(broken["problems"])), (False, 1))
        state.unlink()
        gone = self.cairn("checkpoint", "verify", "job.cairn", check=False)
        self.assertEqual(gone.returncode, 1)
        self.assertIn("missing", gone.stdout)

    def test_what_is_not_there_is_not_found(self):
        self.run_job()
        for source, code in (("none.cairn", 1), ("job.cairn@999999", 1),
                             (str(self.dir / "counts"), 2)):
            done = self.cairn("checkpoint", "ls", source, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertTrue(done.stderr.startswith("cairn: "))
            self.assertEqual(done.stdout, "")

    def test_tools_read_while_the_job_runs_and_change_nothing(self):
        job = self.job(
            f"CREATE TABLE bid ({BID_COLUMNS}) WITH (connector = 'nexmark', table = 'bid', "
            "events = 10000000, seed = 3, rate = 50000);\n"
            + sink_table("counts", "auction BIGINT, n BIGINT", "slow", True) + COUNTS, "slow.sql")
        process = self.start("run", job, "--interval", "100ms")
        try:
            self.await_checkpoint("slow.cairn", process)
            for _ in range(10):
                cuts = lines(self.cairn("checkpoint", "ls", "slow.cairn", "--json").stdout)
                self.assertGreaterEqual(len(cuts), 1)
                self.cairn("checkpoint", "verify", "slow.cairn")
                total = lines(self.cairn("state", "query", "slow.cairn",
                                         "SELECT sum(count) AS rows FROM agg").stdout)
                self.assertGreater(total[0]["rows"], 0)
        finally:
            process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 143)

    def await_checkpoint(self, place: str, process):
        deadline = time.monotonic() + 60
        while self.cairn("checkpoint", "ls", place, check=False).returncode != 0:
            self.assertIsNone(process.poll(), (self.dir / "cairn.log").read_text())
            self.assertLess(time.monotonic(), deadline)

    def test_tools_leave_a_place_as_it_is(self):
        self.run_job()
        place = self.dir / "job.cairn"

        def listing():
            return sorted((str(p), p.stat().st_mtime_ns) for p in place.rglob("*"))

        before = listing()
        for verb in ("ls", "show", "verify"):
            self.cairn("checkpoint", verb, "job.cairn")
        for verb in ("ls", "cat"):
            self.cairn("state", verb, "job.cairn")
        self.assertEqual(listing(), before)
        self.assertEqual([path for path, _ in before if "tmp" in path.rsplit("/", 1)[1]], [])

    def test_saved_files_are_private(self):
        self.run_job()
        place = self.dir / "job.cairn"
        for path in [place, *place.rglob("*")]:
            mode = stat.S_IMODE(path.stat().st_mode)
            self.assertEqual(oct(mode), oct(0o700 if path.is_dir() else 0o600), path)


class StateToolsTest(SavedStateTest):

    def setUp(self):
        super().setUp()
        self.run_job()

    def rows(self, sql: str) -> list[tuple]:
        return self.db.execute(sql).fetchall()

    def test_ls_counts_live_rows(self):
        slots = {s["uid"]: s for s in lines(self.cairn("state", "ls", "job.cairn", "--json").stdout)}
        groups = self.rows("SELECT count(DISTINCT coalesce(auction, -1)) FROM bid")[0][0]
        self.assertEqual(slots["counts/group-aggregate/0"]["rows"], groups)
        self.assertEqual(slots["top3/top-n/0"]["rows"], groups)
        self.assertGreater(slots["top3/top-n/0"]["bytes"], 0)
        self.assertIn("auction bigint", self.cairn("state", "ls", "job.cairn").stdout)

    def test_cat_decodes_rows(self):
        done = self.cairn("state", "cat", "job.cairn", *COUNT_SLOT, "--limit", 0, "--json")
        got = {row["key"]["auction"]: row["value"]["count"] for row in lines(done.stdout)}
        self.assertEqual(got, dict(self.rows("SELECT auction, count(*) FROM bid GROUP BY ALL")))
        top = lines(self.cairn("state", "cat", "job.cairn", "--slot", "topn", "--limit", 5,
                               "--json").stdout)
        self.assertEqual(len(top), 5)
        for row in top:
            prices = [ranked["price"] for ranked in row["value"]]
            self.assertEqual([ranked["rank"] for ranked in row["value"]],
                             list(range(1, len(prices) + 1)))
            best = self.rows(f"SELECT price FROM bid WHERE auction = {row['key']['auction']} "
                             "ORDER BY price DESC LIMIT 3")
            self.assertEqual(prices, [price for price, in best])

    def test_cat_prints_fifty_rows_unless_told_otherwise(self):
        done = self.cairn("state", "cat", "job.cairn", *COUNT_SLOT)
        self.assertEqual(len(done.stdout.splitlines()), 51)
        self.assertIn("--limit 0 prints all", done.stderr)

    def test_get_finds_exactly_the_key(self):
        auction, count = self.rows("SELECT auction, count(*) FROM bid GROUP BY ALL LIMIT 1")[0]
        for key in (str(auction), f"[{auction}]"):
            got = lines(self.cairn("state", "get", "job.cairn", key, *COUNT_SLOT, "--json").stdout)
            self.assertEqual([row["value"]["count"] for row in got], [count])
        auction, channel, total = self.rows(
            "SELECT auction, channel, sum(price) FROM bid GROUP BY ALL LIMIT 1")[0]
        got = lines(self.cairn("state", "get", "job.cairn", json.dumps([auction, channel]),
                               "--json").stdout)
        self.assertEqual([row["value"]["sum_price"] for row in got], [total])

    def test_get_of_an_absent_key_or_slot_says_so(self):
        absent = self.cairn("state", "get", "job.cairn", "-77", *COUNT_SLOT, check=False)
        self.assertEqual((absent.returncode, absent.stdout), (1, ""))
        self.assertIn("has no key", absent.stderr)
        slot = self.cairn("state", "get", "job.cairn", "1", "--slot", "nope", check=False)
        self.assertEqual(slot.returncode, 1)
        self.assertIn("counts/group-aggregate/0", slot.stderr)
        malformed = self.cairn("state", "get", "job.cairn", "seven", *COUNT_SLOT, check=False)
        self.assertEqual(malformed.returncode, 2)

    def test_query_answers_like_duckdb(self):
        got = lines(self.cairn(
            "state", "query", "job.cairn",
            "SELECT auction, price FROM topn WHERE rank = 1 AND price > 9000000;").stdout)
        want = self.rows("SELECT auction, max(price) AS p FROM bid GROUP BY auction HAVING p > 9000000")
        self.assertEqual(sorted((r["auction"], r["price"]) for r in got), sorted(want))
        total = lines(self.cairn(
            "state", "query", "job.cairn",
            "SELECT count(*) AS groups, sum(count) AS n FROM counts_group_aggregate_0_agg").stdout)
        self.assertEqual(total, [{"groups": len(self.rows("SELECT DISTINCT auction FROM bid")),
                                  "n": 30_000}])
        raw = lines(self.cairn("state", "query", "job.cairn",
                               "SELECT slot, count(*) AS n FROM state GROUP BY slot").stdout)
        self.assertEqual({row["slot"] for row in raw}, {"agg", "topn"})

    def test_query_refuses_what_is_no_select_over_its_tables(self):
        for sql, part in (("SELECT * FROM nothing_here", "topn"),
                          ("SELECT nope FROM topn", "nope"),
                          ("SELECT auction, FROM topn", "syntax error"),
                          ("SELECT auction FROM topn; SELECT auction FROM topn", "one SELECT")):
            done = self.cairn("state", "query", "job.cairn", sql, check=False)
            self.assertEqual(done.returncode, 2, (sql, done.stderr))
            self.assertIn(part, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_query_leaves_nothing_behind(self):
        scratch = self.dir / "tmp"
        scratch.mkdir()
        self.cairn("state", "query", "job.cairn", "SELECT auction FROM topn WHERE rank = 1",
                   env={"TMPDIR": str(scratch)})
        self.cairn("state", "query", "job.cairn", "SELECT nope FROM topn", check=False,
                   env={"TMPDIR": str(scratch)})
        self.assertEqual(list(scratch.iterdir()), [])

    def test_an_export_overwrites_nothing(self):
        self.run_job()
        kept = self.dir / "kept.parquet"
        kept.write_text("mine")
        done = self.cairn("state", "export", "job.cairn", "-o", "kept.parquet", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("kept.parquet' exists and is not overwritten", done.stderr)
        self.assertEqual(kept.read_text(), "mine")
        self.cairn("state", "export", "job.cairn", "-o", "new.parquet")
        self.assertEqual([p.name for p in self.dir.iterdir() if p.name.endswith(".tmp")], [])

    def test_a_damaged_cut_exports_nothing(self):
        state = next((self.dir / "job.cairn").glob("nodes/1/checkpoints/*/state.arrow"))
        bytes_ = bytearray(state.read_bytes())
        bytes_[len(bytes_) // 2] ^= 1
        state.write_bytes(bytes_)
        out = self.dir / "export"
        out.mkdir()
        for args in (["--typed", "-o", out], ["-o", out / "all.parquet"],
                     ["--format", "arrow-stream", "-o", out / "all.snap"],
                     ["--format", "arrow"]):
            done = self.cairn("state", "export", "job.cairn", *args, check=False)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertEqual(list(out.iterdir()), [])

    def test_a_full_disk_is_told_and_leaves_no_result(self):
        if not pathlib.Path("/dev/full").exists():
            self.skipTest("no /dev/full here")
        with open("/dev/full", "w") as full:
            done = self.run_into(full, "state", "cat", "job.cairn", "--limit", "0")
        self.assertEqual(done.returncode, 4)
        self.assertIn(b"standard output", done.stderr)

    def run_into(self, stdout, *args):
        return subprocess.run([CAIRN, *args], cwd=self.dir, stdout=stdout, stderr=subprocess.PIPE,
                              timeout=120)


class RunCommandTest(EndToEndTest):
    """What `cairn run` says and how it ends."""

    def slow_job(self, events: int = 10_000_000) -> pathlib.Path:
        return self.job(
            f"CREATE TABLE bid ({BID_COLUMNS}) WITH (connector = 'nexmark', table = 'bid', "
            f"events = {events}, seed = 5, rate = 50000);\n"
            + sink_table("counts", "auction BIGINT, n BIGINT", "counts", True) + COUNTS)

    def stopped(self, signals: list[int], code: int):
        process = self.start("run", self.slow_job(), "--interval", "100ms")
        deadline = time.monotonic() + 60
        while not committed_files(self.dir / "counts"):
            self.assertIsNone(process.poll(), (self.dir / "cairn.log").read_text())
            self.assertLess(time.monotonic(), deadline)
        for number in signals:
            process.send_signal(number)
        self.assertEqual(process.wait(timeout=60), code)

    def test_a_signal_stops_the_job_after_a_last_checkpoint(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(signal=number):
                self.stopped([number], code)
                log = (self.dir / "cairn.log").read_text()
                self.assertIn("stopping after a last checkpoint", log)
                last = [line for line in log.splitlines() if line.startswith("cairn: stopped: ")]
                self.assertEqual(len(last), 1, log)
                cut = lines(self.cairn("checkpoint", "ls", "job.cairn", "--json").stdout)[0]
                self.assertIn(f"checkpoint {cut['id']} ", last[0])
                # All rows that were counted in are in the cut: nothing is read twice.
                rows_in = int(last[0].split(" rows in ")[0].rsplit(" ", 1)[1].replace(",", ""))
                total = lines(self.cairn("state", "query", "job.cairn",
                                         "SELECT sum(count) AS n FROM agg").stdout)
                self.assertEqual(total[0]["n"], rows_in)
                shutil.rmtree(self.dir / "job.cairn")
                shutil.rmtree(self.dir / "counts")
                (self.dir / "cairn.log").unlink()

    def test_a_second_signal_stops_at_once(self):
        process = self.start("run", self.slow_job(), "--interval", "100ms")
        deadline = time.monotonic() + 60
        while not committed_files(self.dir / "counts"):
            self.assertLess(time.monotonic(), deadline)
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGTERM)
        self.assertIn(process.wait(timeout=60), (130, 143))

    def test_progress_is_plain_lines_when_not_on_a_terminal(self):
        done = self.cairn("run", self.slow_job(120_000), "--interval", "100ms")
        self.assertEqual(done.stdout, "")
        self.assertNotIn("\r", done.stderr)
        told = [line for line in done.stderr.splitlines() if "  checkpoint " in line]
        self.assertGreaterEqual(len(told), 2, done.stderr)
        for line in told:
            self.assertRegex(line, r"^cairn: .* in [\d,]+ rows, .*/s  out [\d,]+ rows  checkpoint "
                                   r"\d+, .* ago, .* of .*  state .*$")
        self.assertRegex(done.stderr.splitlines()[-1],
                         r"^cairn: done: 120,000 rows in .* \(.* rows/s\), [\d,]+ rows out, \d+ "
                         r"checkpoints?, 0 rows skipped$")

    def test_progress_off_leaves_the_summary(self):
        done = self.cairn("run", self.slow_job(5_000), "--progress", "off")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_help_and_version(self):
        self.assertRegex(self.cairn("--version").stdout, r"^cairn \d+\.\d+\.\d+$")
        for verbs in (["--help"], ["run", "--help"], ["checkpoint", "--help"], ["state", "--help"],
                      ["state", "export", "--help"]):
            done = self.cairn(*verbs)
            self.assertIn("Usage:", done.stdout)
            self.assertEqual(done.stderr, "")
        self.assertIn("cairn run job.sql", self.cairn("run", "--help").stdout)


if __name__ == "__main__":
    import unittest
    unittest.main()

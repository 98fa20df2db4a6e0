# SPDX-License-Identifier: Apache-2.0
"""Bad input and bad circumstances: a clear error, the documented exit code, and nothing lost.

The message is one line that begins with "cairn: " (a statement's error has its caret lines); exit
codes are those of docs/errors.md."""
import json
import pathlib
import resource
import shutil
import signal
import subprocess
import time

from harness import (BID_COLUMNS, CAIRN, EndToEndTest, bids_relation, committed_files, connect, difference,
                     make_bids, netted, sink_table)

BIDS = ("CREATE TABLE bid (auction BIGINT, price BIGINT, url TEXT) WITH (connector = 'filesystem', "
        "path = 'bids.ndjson', format = 'ndjson'{});\n")
COUNTS = ("INSERT INTO counts SELECT auction, count(*) AS n FROM bid WHERE price >= 0 "
          "GROUP BY auction;\n")
SINK = sink_table("counts", "auction BIGINT, n BIGINT", "counts", True)


class BadInputTest(EndToEndTest):

    def write_bids(self, rows: list[str]):
        (self.dir / "bids.ndjson").write_text("".join(row + "\n" for row in rows))

    def good_rows(self, count: int = 1000) -> list[str]:
        return [json.dumps({"auction": i % 7, "price": i, "url": f"u{i}"}) for i in range(count)]

    def counting_job(self, options: str = "", name: str = "job.sql") -> pathlib.Path:
        return self.job(BIDS.format(options) + SINK + COUNTS, name)

    def refused(self, code: int, *args, parts=(), env=None) -> str:
        """Run a command that must fail with `code` and a message that holds `parts`."""
        done = self.cairn(*args, check=False, env=env)
        self.assertEqual(done.returncode, code, f"{args}\n{done.stdout}\n{done.stderr}")
        self.assertEqual(done.stdout, "")
        errors = [line for line in done.stderr.splitlines() if line.startswith("cairn: ")]
        self.assertTrue(errors, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)
        return done.stderr

    def counted(self) -> dict[int, int]:
        db = connect()
        netted(db, self.dir / "counts", {"auction": "BIGINT", "n": "BIGINT"}, True)
        return dict(db.execute("SELECT auction, n FROM got").fetchall())


class BadRowTest(BadInputTest):

    def test_a_malformed_row_fails_with_its_place_and_loses_nothing(self):
        rows = self.good_rows()
        for bad, reason in (('{"auction": 1, "price": "x", "url": "u"}', "price"),
                            ('{"auction": 1, "price": 1', ""),
                            ('{"auction": 99999999999999999999, "price": 1, "url": ""}', "auction"),
                            ("not json at all", "")):
            with self.subTest(row=bad):
                self.write_bids(rows[:600] + [bad] + rows[600:])
                job = self.counting_job()
                self.refused(2, "run", job, parts=["bids.ndjson", "601", reason])
                self.assertEqual(committed_files(self.dir / "counts"), [])
                self.write_bids(rows)
                self.cairn("run", job)
                self.assertEqual(sum(self.counted().values()), 1000)
                shutil.rmtree(self.dir / "job.cairn")
                shutil.rmtree(self.dir / "counts")

    def test_a_malformed_row_behind_a_checkpoint_is_fixed_and_gone_on_from(self):
        rows = self.good_rows(400_000)
        self.write_bids(rows[:-10] + ["broken"] + rows[-10:])
        job = self.counting_job(", split_bytes = 1000000")
        self.refused(2, "run", job, "--interval", "100ms", parts=["bids.ndjson"])
        text = (self.dir / "bids.ndjson").read_text()
        # The same number of bytes, so that what was read keeps its place.
        (self.dir / "bids.ndjson").write_text(text.replace("broken\n", "      \n"))
        self.cairn("run", job, "--interval", "100ms")
        self.assertEqual(sum(self.counted().values()), 400_000)

    def test_skip_leaves_bad_rows_out_and_counts_them(self):
        rows = self.good_rows()
        self.write_bids(rows[:10] + ["broken", '{"auction": "x"}'] + rows[10:])
        done = self.cairn("run", self.counting_job(", on_error = 'skip'"))
        self.assertIn("2 rows skipped", done.stderr.splitlines()[-1])
        self.assertEqual(sum(self.counted().values()), 1000)

    def test_a_missing_column_is_named(self):
        self.write_bids(self.good_rows())
        job = self.job(BIDS.format("").replace("url TEXT", "address TEXT")
                       + "SELECT address FROM bid;\n")
        self.refused(2, "run", job, "--checkpoints", "none", parts=["bids.ndjson", "address"])
        (self.dir / "bids.csv").write_text("auction,price\n1,2\n")
        job = self.job(BIDS.format("").replace("ndjson", "csv") + "SELECT url FROM bid;\n")
        self.refused(2, "run", job, "--checkpoints", "none", parts=["bids.csv", "url"])

    def test_a_missing_input_file_is_named(self):
        self.refused(1, "run", self.counting_job(), parts=["bids.ndjson"])


class ChangedInputTest(BadInputTest):
    """Input and options that change between the runs of a job."""

    def rows_job(self, path: str, options: str, sink: str = "out", name: str = "job.sql"):
        return self.job(f"CREATE TABLE b (a BIGINT) WITH (connector = 'filesystem', path = '{path}', "
                        f"{options});\n" + sink_table("o", "a BIGINT", sink, False)
                        + "INSERT INTO o SELECT a FROM b;\n", name)

    def rows(self) -> list[int]:
        return sorted(json.loads(line)["a"] for part in committed_files(self.dir / "out")
                      for line in part.read_text().splitlines())

    def append(self, name: str, text: str):
        with open(self.dir / name, "a") as file:
            file.write(text)

    def test_a_row_that_ended_on_a_split_boundary_is_not_cut_in_two(self):
        (self.dir / "in.csv").write_text("111\n222\n33")
        job = self.rows_job("in.csv", "format = 'csv', header = false, split_bytes = 10")
        self.cairn("run", job)
        self.append("in.csv", "44\n555\n")
        self.refused(2, "run", job, parts=["in.csv", "grew in the middle of the line"])
        (self.dir / "in.csv").write_text("111\n222\n33\n44\n555\n")
        self.cairn("run", job)
        self.assertEqual(self.rows(), [33, 44, 111, 222, 555])

    def test_a_renamed_file_is_not_read_again_and_a_deleted_one_is_no_error(self):
        (self.dir / "in").mkdir()
        (self.dir / "in/log").write_text('{"a":1}\n')
        job = self.rows_job("in", "format = 'ndjson'")
        self.cairn("run", job)
        (self.dir / "in/log").rename(self.dir / "in/log.1")
        self.append("in/log.1", '{"a":2}\n')
        (self.dir / "in/log").write_text('{"a":3}\n')
        self.cairn("run", job)
        self.assertEqual(self.rows(), [1, 2, 3])
        (self.dir / "in/log.1").unlink()
        self.cairn("run", job)
        self.assertEqual(self.rows(), [1, 2, 3])

    def test_the_one_input_file_may_be_deleted_when_it_was_read(self):
        (self.dir / "in.ndjson").write_text('{"a":1}\n')
        job = self.rows_job("in.ndjson", "format = 'ndjson'")
        self.cairn("run", job)
        (self.dir / "in.ndjson").unlink()
        self.cairn("run", job)
        self.assertEqual(self.rows(), [1])

    def test_other_sink_options_are_another_pipeline(self):
        (self.dir / "in.ndjson").write_text('{"a":1}\n')
        job = self.rows_job("in.ndjson", "format = 'ndjson'")
        job.write_text(job.read_text().replace("'out', format = 'ndjson'", "'out', format = 'csv'"))
        self.cairn("run", job)
        job.write_text(job.read_text().replace("'csv'", "'csv', delimiter = ';'"))
        self.refused(2, "run", job, parts=["another place"])

    def test_a_directory_that_is_read_and_written_is_refused(self):
        (self.dir / "d").mkdir()
        (self.dir / "d/f").write_text('{"a":1}\n')
        self.refused(2, "run", self.rows_job("d", "format = 'ndjson'", "./d/"),
                     parts=["table b", "table o", "its own output"])
        self.refused(2, "run", self.rows_job("d", "format = 'ndjson'", "job.cairn/out"),
                     parts=["checkpoint place"])
        self.assertFalse((self.dir / "job.cairn").exists())

    def test_damaged_parquet_is_bad_input(self):
        job = self.rows_job("in.parquet", "format = 'parquet'")
        (self.dir / "in.parquet").write_bytes(b"")
        self.refused(2, "run", job, parts=["in.parquet"])
        (self.dir / "in.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
        self.refused(2, "run", job, parts=["in.parquet"])

    def test_a_file_name_that_is_not_utf8_is_refused_at_the_start(self):
        (self.dir / "in").mkdir()
        (self.dir / "in/good").write_text('{"a":1}\n')
        with open(bytes(self.dir / "in") + b"/caf\xe9", "w") as file:
            file.write('{"a":2}\n')
        self.refused(2, "run", self.rows_job("in", "format = 'ndjson'"), parts=["caf\\xe9"])

    def test_a_sink_directory_that_is_gone_is_told_with_what_to_do(self):
        (self.dir / "in.ndjson").write_text('{"a":1}\n')
        job = self.rows_job("in.ndjson", "format = 'ndjson'")
        self.cairn("run", job)
        shutil.rmtree(self.dir / "out")
        self.refused(3, "run", job, parts=["Put the directory back", "--checkpoints"])
        self.assertFalse((self.dir / "out").exists())

    def test_names_and_places_that_cannot_be_are_refused(self):
        (self.dir / "in.ndjson").write_text('{"a":1}\n')
        job = self.rows_job("in.ndjson", "format = 'ndjson'")
        self.refused(2, "run", job, "--name", "a/b", parts=["a/b", "--name"])
        self.refused(2, "run", job, "--name", "..", parts=["--name"])
        self.refused(2, "run", job, "--checkpoints", "file://host/x", parts=["host", "file:///"])


class BadStatementTest(BadInputTest):

    def setUp(self):
        super().setUp()
        self.write_bids(self.good_rows())

    def test_an_error_in_the_text_shows_its_place(self):
        for statement, column, what in (("SELECT auction, FROM bid;", 17, "syntax error"),
                                        ("SELECT nope FROM bid;", 8, "nope"),
                                        ("SELECT auction FROM nobid;", 21, "nobid")):
            with self.subTest(statement=statement):
                job = self.job(BIDS.format("") + statement + "\n")
                message = self.refused(2, "run", job, "--checkpoints", "none",
                                       parts=[f"job.sql:2:{column}", what, statement])
                caret = message.splitlines()[-1]
                self.assertEqual(caret.strip(), "^")
                excerpt = message.splitlines()[-2]
                self.assertEqual(caret.index("^"), excerpt.index(statement) + column - 1)

    def test_what_is_not_supported_is_refused_and_not_ignored(self):
        for statement in ("SELECT auction FROM bid ORDER BY auction;",
                          "SELECT auction FROM bid LIMIT 3;",
                          "DELETE FROM bid;"):
            with self.subTest(statement=statement):
                job = self.job(BIDS.format("") + statement + "\n")
                self.refused(2, "run", job, "--checkpoints", "none", parts=["job.sql:2:"])

    def test_unknown_connectors_and_options_list_the_known(self):
        job = self.job(BIDS.format("").replace("'filesystem'", "'nosuch'") + "SELECT auction FROM bid;")
        self.refused(2, "run", job, parts=["nosuch", "filesystem", "nexmark"])
        job = self.job(BIDS.format(", colour = 'red'") + "SELECT auction FROM bid;")
        self.refused(2, "run", job, parts=["colour", "on_error"])
        job = self.job(BIDS.format("").replace("'ndjson'", "'xml'") + "SELECT auction FROM bid;")
        self.refused(2, "run", job, parts=["xml", "ndjson", "csv", "parquet"])

    def test_an_updating_query_needs_a_changelog(self):
        job = self.job(BIDS.format("") + SINK.replace(", changelog = true", "") + COUNTS)
        self.refused(2, "run", job, parts=["changelog"])


class BadCommandTest(BadInputTest):

    def setUp(self):
        super().setUp()
        self.write_bids(self.good_rows())

    def test_usage_errors_name_the_help(self):
        for args in ([], ["nonsense"], ["run"], ["run", "a.sql", "--nonsense"],
                     ["run", "a.sql", "--parallelism", "0"], ["run", "a.sql", "--progress", "x"],
                     ["checkpoint"], ["state", "export", "x", "--format", "xml"]):
            with self.subTest(args=args):
                self.refused(2, *args, parts=["--help"])

    def test_bad_uris_and_options_list_the_known(self):
        job = self.counting_job()
        self.refused(2, "run", "none.sql", parts=["none.sql"])
        self.refused(2, "run", job, "--backend", "nosuch://x", parts=["nosuch", "memory://", "file://"])
        self.refused(2, "run", job, "--backend", "rocksdb://x", parts=["rocksdb"])
        self.refused(2, "run", job, "--checkpoints", "gs://bucket/x", parts=["gs", "file://"])
        self.refused(2, "run", job, "--checkpoints", "file:///tmp/x?a=1", parts=["a=1"])
        self.refused(2, "run", job, "--set", "nonsense=1", parts=["nonsense", "checkpoint.interval"])
        self.refused(2, "run", job, "--set", "nonsense", parts=["NAME=VALUE"])
        self.refused(2, "run", job, "--interval", "10", parts=["10", "ms"])
        self.refused(2, "run", job, "--interval", "1ms", parts=["100"])
        self.refused(2, "run", job, "--http", ":8080", parts=["not built yet"])
        self.assertFalse((self.dir / "job.cairn").exists())

    def test_from_names_the_checkpoints_there_are(self):
        job = self.counting_job()
        self.cairn("run", job)
        cut = json.loads(self.cairn("checkpoint", "ls", "job.cairn", "--json").stdout)
        self.refused(1, "run", job, "--from", "4242", parts=["4242", str(cut["id"])])


class DamagedPlaceTest(BadInputTest):
    """Never an empty start: what cannot be read is an error, and running again gives it again."""

    def setUp(self):
        super().setUp()
        self.write_bids(self.good_rows())
        self.job_file = self.counting_job()
        self.cairn("run", self.job_file)
        self.place = self.dir / "job.cairn"
        self.committed = {p.name: p.read_bytes() for p in committed_files(self.dir / "counts")}

    def damaged(self, path: pathlib.Path, change):
        whole = path.read_bytes()
        change(path)
        for _ in range(2):
            self.refused(3, "run", self.job_file)
        self.assertEqual({p.name: p.read_bytes() for p in committed_files(self.dir / "counts")},
                         self.committed)
        path.write_bytes(whole)
        self.cairn("run", self.job_file)
        self.assertEqual(sum(self.counted().values()), 1000)

    @staticmethod
    def flip(path: pathlib.Path):
        bytes_ = bytearray(path.read_bytes())
        bytes_[len(bytes_) // 2] ^= 0x10
        path.write_bytes(bytes_)

    @staticmethod
    def truncate(path: pathlib.Path):
        path.write_bytes(path.read_bytes()[:-40])

    def test_truncated_flipped_and_missing_files(self):
        for name in ("nodes/1/checkpoints/*/state.arrow", "nodes/1/checkpoints/*/manifest.json",
                     "control/decision-head.json", "FORMAT", "deployment/identity.json"):
            path = next(self.place.glob(name))
            for change in (self.truncate, self.flip, pathlib.Path.unlink):
                with self.subTest(file=name, change=change.__name__):
                    self.damaged(path, change)

    def test_every_flipped_byte_of_the_state_is_found(self):
        state = next(self.place.glob("nodes/1/checkpoints/*/state.arrow"))
        whole = state.read_bytes()
        for at in range(0, len(whole), 97):
            state.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1:])
            done = self.cairn("checkpoint", "verify", "job.cairn", check=False)
            self.assertEqual(done.returncode, 1, f"byte {at} of {len(whole)}")
        state.write_bytes(whole)
        self.cairn("checkpoint", "verify", "job.cairn")

    def test_tools_say_damaged_too(self):
        self.truncate(self.place / "control/decision-head.json")
        for args in (["checkpoint", "ls"], ["checkpoint", "show"], ["checkpoint", "verify"],
                     ["state", "ls"], ["state", "cat"]):
            self.refused(3, *args, "job.cairn", parts=["decision-head.json"])


class OtherOwnerTest(BadInputTest):

    def setUp(self):
        super().setUp()
        self.write_bids(self.good_rows())

    def test_a_checkpoint_of_another_pipeline_is_refused_with_the_difference(self):
        self.cairn("run", self.counting_job())
        other = self.job(BIDS.format("")
                         + sink_table("sums", "auction BIGINT, total DECIMAL(38,0)", "sums", True)
                         + "INSERT INTO sums SELECT auction, sum(price) AS total FROM bid "
                           "GROUP BY auction;\n", "other.sql")
        self.refused(2, "run", other, "--checkpoints", "job.cairn",
                     parts=["another place", "sums", "counts"])
        self.cairn("run", self.counting_job())

    def test_fresh_refuses_a_place_that_holds_a_cut(self):
        job = self.counting_job()
        self.cairn("run", job, "--fresh")
        self.refused(2, "run", job, "--fresh", parts=["already holds checkpoint"])

    def test_a_second_process_is_refused_with_the_first_ones_id(self):
        job = self.job(
            f"CREATE TABLE gen ({BID_COLUMNS}) WITH (connector = 'nexmark', table = 'bid', "
            "events = 10000000, seed = 3, rate = 20000);\n" + SINK
            + COUNTS.replace("FROM bid", "FROM gen"))
        process = self.start("run", job, "--interval", "100ms")
        try:
            deadline = time.monotonic() + 60
            while not committed_files(self.dir / "counts"):
                self.assertIsNone(process.poll(), (self.dir / "cairn.log").read_text())
                self.assertLess(time.monotonic(), deadline)
            self.refused(4, "run", job, parts=[str(process.pid)])
            self.assertIsNone(process.poll(), "the first process must go on")
        finally:
            process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 143)
        self.cairn("checkpoint", "verify", "job.cairn")


class FullDiskTest(BadInputTest):
    """A limit on file sizes stands for a full disk: the same failing write, without a mount."""

    def limited(self, bytes_: int, *args):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then write() fails with EFBIG
            resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))

        return subprocess.run([CAIRN, *map(str, args)], cwd=self.dir, capture_output=True, text=True,
                              timeout=300, preexec_fn=limit)

    def test_a_full_disk_is_told_and_the_next_run_goes_on(self):
        make_bids(self.dir / "bids.ndjson", 200_000, 5)
        job = self.job(f"CREATE TABLE bid ({BID_COLUMNS}) WITH (connector = 'filesystem', "
                       "path = 'bids.ndjson', format = 'ndjson');\n" + SINK + COUNTS)
        done = self.limited(100_000, "run", job)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stderr, "(?i)large|space|quota")
        self.assertEqual(committed_files(self.dir / "counts"), [])
        self.cairn("run", job)
        db = connect()
        bids_relation(db, self.dir / "bids.ndjson")
        netted(db, self.dir / "counts", {"auction": "BIGINT", "n": "BIGINT"}, True)
        self.assertEqual(difference(db, "SELECT auction, count(*) AS n FROM bid WHERE price >= 0 "
                                            "GROUP BY auction"), ([], []))

    def test_an_export_that_does_not_fit_leaves_nothing(self):
        make_bids(self.dir / "bids.ndjson", 100_000, 5)
        job = self.job(f"CREATE TABLE bid ({BID_COLUMNS}) WITH (connector = 'filesystem', "
                       "path = 'bids.ndjson', format = 'ndjson');\n" + SINK + COUNTS)
        self.cairn("run", job)
        done = self.limited(10_000, "state", "export", "job.cairn", "-o", "all.parquet")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual([p.name for p in self.dir.iterdir() if "parquet" in p.name], [])


class ReaderTest(EndToEndTest):
    """A reader that polls the sink while the job runs."""

    def test_rows_appear_early_only_grow_and_are_all_true(self):
        make_bids(self.dir / "bids.ndjson", 600_000, 9)
        db = connect()
        bids_relation(db, self.dir / "bids.ndjson")
        columns = {"auction": "BIGINT", "price": "BIGINT", "url": "VARCHAR"}
        query = "SELECT auction, price, url FROM bid WHERE price > 1000000"
        # The same bids at a bounded rate: from the file the job may end before the first look.
        job = self.job(f"CREATE TABLE bid ({BID_COLUMNS}) WITH (connector = 'nexmark', "
                       "table = 'bid', events = 600000, seed = 9, rate = 200000);\n"
                       + sink_table("big", "auction BIGINT, price BIGINT, url TEXT", "big", False)
                       + f"INSERT INTO big {query};\n")
        db.execute(f"CREATE TABLE expected AS {query}")
        total = db.execute("SELECT count(*) FROM expected").fetchone()[0]
        process = self.start("run", job, "--interval", "100ms")
        seen, early = 0, 0
        while process.poll() is None:
            netted(db, self.dir / "big", columns, False)
            rows = db.execute("SELECT count(*) FROM got").fetchone()[0]
            self.assertGreaterEqual(rows, seen, "rows went away")
            surplus = db.execute("FROM got EXCEPT ALL FROM expected LIMIT 3").fetchall()
            self.assertEqual(surplus, [], "rows that are not in the answer")
            if 0 < rows < total and process.poll() is None:
                early += 1
            seen = rows
        self.assertEqual(process.returncode, 0, (self.dir / "cairn.log").read_text())
        self.assertGreater(early, 0, "no row was seen before the end")
        netted(db, self.dir / "big", columns, False)
        self.assertEqual(difference(db, query), ([], []))


if __name__ == "__main__":
    import unittest
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""SIGKILL again and again at checkpoints every 100 ms. After every kill the state of the newest cut,
and the sink's rows up to it, are what DuckDB counts over exactly the input that the cut has read."""
import json
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

from harness import CAIRN, LONG, EndToEndTest, committed_files, connect, difference, fresh_seed, sink_table
from s3_server import BUCKET, S3Server

ROWS = 2_000_000
KEYS = 20_000
# Row i is {"k":10000 + i * 7919 % KEYS,"v":1000000 + i}: lines of one width, so that a position in
# the file is a number of rows.
LINE_BYTES = len('{"k":10000,"v":1000000}\n')
JOB_S, EMBEDDED_S, BUCKET_S = (600, 120, 120) if LONG else (8, 4, 6)
BIN = pathlib.Path(CAIRN).resolve().parent


class SoakTest(EndToEndTest):

    def make_input(self):
        db = connect()
        db.execute(f"""COPY (SELECT 10000 + i * 7919 % {KEYS} AS k, 1000000 + i AS v
            FROM range({ROWS}) t(i) ORDER BY i) TO '{self.dir / "in.ndjson"}' (FORMAT json)""")
        self.assertEqual((self.dir / "in.ndjson").stat().st_size, ROWS * LINE_BYTES)
        return db

    def write_job(self):
        columns = "k BIGINT, n BIGINT, s BIGINT"
        return self.job("CREATE TABLE source (k BIGINT, v BIGINT) WITH (connector = 'filesystem', "
                        "path = 'in.ndjson', format = 'ndjson');\n"
                        + sink_table("sums", columns, "sums", True)
                        + "INSERT INTO sums SELECT k, count(*) AS n, sum(v) AS s FROM source "
                        "GROUP BY k;\n")

    def rows_read(self, cut: dict) -> list[tuple[int, int]]:
        """The rows that a cut has read: ranges from … to."""
        ranges = []
        for source in cut["sources"]:
            for split in source["splits"]:
                if not split["position"]:
                    continue
                position = json.loads(split["position"])
                self.assertEqual((position["from"] % LINE_BYTES, position["at"] % LINE_BYTES), (0, 0))
                ranges.append((position["from"] // LINE_BYTES, position["at"] // LINE_BYTES))
        return ranges

    def sink_files(self, cut: dict) -> list[str]:
        """Files that make the output up to a cut: committed ones, and prepared ones of its own that
        the killed process did not come to rename."""
        files = {path.name: path for path in committed_files(self.dir / "sums")}
        for sink in cut["sinks"]:
            for piece in sink["prepared"]:
                names = json.loads(piece["descriptor"])
                if names["final"] not in files:
                    staged = self.dir / "sums" / names["staged"]
                    self.assertTrue(staged.exists(), f"{names} is neither committed nor staged")
                    files[names["final"]] = staged
        return [str(path) for path in files.values()]

    def check(self, db, place: str, env: dict) -> int:
        """Compare the newest cut; return how many rows it has read."""
        shown = self.cairn("checkpoint", "show", place, "--json", env=env, check=False)
        if shown.returncode == 1:  # killed before the first checkpoint
            self.assertEqual(committed_files(self.dir / "sums"), [])
            return 0
        self.assertEqual(shown.returncode, 0, shown.stderr)
        cut = json.loads(shown.stdout.splitlines()[0])
        ranges = self.rows_read(cut)
        within = " OR ".join(f"i >= {start} AND i < {end}" for start, end in ranges) or "false"
        model = (f"SELECT 10000 + i * 7919 % {KEYS} AS k, count(*) AS n, sum(1000000 + i)::BIGINT AS s "
                 f"FROM range({ROWS}) t(i) WHERE {within} GROUP BY k")
        target = self.dir / "state.parquet"
        target.unlink(missing_ok=True)
        self.cairn("state", "export", place, "--typed", "--format", "parquet", "-o", target, env=env)
        db.execute(f"CREATE OR REPLACE TABLE raw AS FROM '{target}'")
        key, count, total = [column[0] for column in db.execute("DESCRIBE raw").fetchall()][:3]
        db.execute(f"""CREATE OR REPLACE TABLE got AS
            SELECT "{key}" AS k, "{count}" AS n, "{total}" AS s FROM raw""")
        self.assertEqual(difference(db, model), ([], []), f"state of checkpoint {cut['id']}")
        files = self.sink_files(cut)
        if files:
            db.execute(f"""CREATE OR REPLACE TABLE got AS SELECT k, n, s FROM read_json({files},
                format = 'newline_delimited',
                columns = {{op: 'VARCHAR', k: 'BIGINT', n: 'BIGINT', s: 'BIGINT'}})
                GROUP BY ALL HAVING sum(CASE WHEN op IN ('+I', '+U') THEN 1 ELSE -1 END) <> 0""")
            self.assertEqual(difference(db, model), ([], []), f"output up to checkpoint {cut['id']}")
        return sum(end - start for start, end in ranges)

    def soak(self, place, seconds: float, env: dict):
        """`place` of round n is place(n)."""
        rng = random.Random(fresh_seed())
        db = self.make_input()
        job = self.write_job()
        kills = went_on = ends = runs = before = 0
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline or kills < 3:
            process = self.start("run", job, "--checkpoints", place(ends), "--interval", "100ms",
                                 "--parallelism", rng.choice([1, 2, 3]), env=env)
            runs += 1
            try:
                self.assertEqual(process.wait(rng.uniform(0.1, 1.2)), 0,
                                 (self.dir / "cairn.log").read_text()[-2000:])
                self.assertEqual(self.check(db, place(ends), env), ROWS)
                ends += 1  # at its end: begin again in a new place
                before = 0
                for path in (self.dir / "sums").iterdir():
                    path.unlink()
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
                read = self.check(db, place(ends), env)
                self.assertGreaterEqual(read, before)
                went_on += read > before
                before = read
        print(f"{kills} kills in {runs} runs, {went_on} had committed more, {ends} came to the end",
              file=sys.stderr)
        self.assertGreater(went_on + ends, 0)

    def test_a_job_on_a_directory(self):
        self.soak(lambda n: f"place-{n}", JOB_S, {})

    def test_a_job_on_a_bucket(self):
        server = S3Server()
        self.addCleanup(server.stop)
        self.soak(lambda n: f"s3://{BUCKET}/soak/{n}", BUCKET_S, server.environment())

    def test_an_embedded_store(self):
        """event_loop computes on every start what its state must be at the offset it resumes from."""
        rng = random.Random(fresh_seed())
        kills, resumed = 0, [0, 0]
        went_on = 0
        deadline = time.monotonic() + EMBEDDED_S
        while time.monotonic() < deadline or kills < 3:
            process = subprocess.Popen(
                [BIN / "example_event_loop", self.dir / "state", "1000000000000", "100"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            lines = [process.stdout.readline() for _ in resumed]
            try:
                process.wait(rng.uniform(0.05, 0.8))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
            _, err = process.communicate()
            self.assertEqual(process.returncode, -signal.SIGKILL, err)
            kills += 1
            for line in lines:
                match = re.match(r"partition (\d) resumes at (\d+) from checkpoint \d+", line)
                self.assertIsNotNone(match, line + err)
                partition, offset = int(match[1]), int(match[2])
                self.assertGreaterEqual(offset, resumed[partition])
                went_on += offset > resumed[partition]
                resumed[partition] = offset
        print(f"{kills} kills, {went_on} partitions had committed more, {sum(resumed):,} events",
              file=sys.stderr)
        self.assertGreater(went_on, 0)

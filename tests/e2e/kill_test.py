# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at random moments: the committed sink must equal DuckDB's answer every time.

The command records the step it is in where CAIRN_STEP_FILE says (docs/testing.md). The test aims at
each step in turn by watching that file, kills, and reads from it where the kill really fell."""
import json
import mmap
import os
import random
import signal
import sys
import time

from harness import (LONG, EndToEndTest, bid_table, bids_relation, connect, difference, fresh_seed,
                     make_bids, netted, sink_table)

STEPS = ["between", "capture", "persist", "manifest", "head", "sink rename"]  # 6, retire, is between
KILLS = 50 if LONG else 6
EVENTS = 3_000_000 if LONG else 1_500_000

TOP10 = ("INSERT INTO top10 SELECT auction, price, url, rn FROM (SELECT *, ROW_NUMBER() OVER "
         "(PARTITION BY auction ORDER BY price DESC) AS rn FROM bid) t WHERE rn <= 10;\n")
COUNTS = "INSERT INTO counts SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n"


class StepFile:
    """The step in which the command is, as it writes it: one byte, an index into STEPS."""

    def __init__(self, path):
        path.write_bytes(b"\0" * 64)
        self.path = path
        self.file = open(path, "r+b")
        self.map = mmap.mmap(self.file.fileno(), 64)

    def now(self) -> str:
        return STEPS[self.map[0] % len(STEPS)]

    def clear(self):
        self.map[0] = 0


class KillTest(EndToEndTest):

    def write_job(self):
        return self.job(
            bid_table("bids.ndjson", "ndjson")
            + sink_table("top10", "auction BIGINT, price BIGINT, url TEXT, rn BIGINT", "top10", True)
            + sink_table("counts", "auction BIGINT, n BIGINT", "counts", True)
            + TOP10 + COUNTS)

    def run_and_kill(self, job, steps: StepFile, aim: str, parallelism: int, rng,
                     options: list[str] = []) -> str | None:
        """Start the job, kill it in step `aim`; None when the job ended first."""
        steps.clear()
        process = self.start("run", job, "--parallelism", parallelism, "--interval", "100ms", *options,
                             env={"CAIRN_STEP_FILE": str(steps.path)})
        earliest = time.monotonic() + rng.uniform(0.15, 0.6)
        while process.poll() is None:
            if time.monotonic() >= earliest and steps.map[0] == STEPS.index(aim):
                process.send_signal(signal.SIGKILL)
                break
        code = process.wait()
        if code == 0:
            return None
        self.assertEqual(code, -signal.SIGKILL, (self.dir / "cairn.log").read_text()[-2000:])
        return steps.now()

    def check_answer(self, db):
        netted(db, self.dir / "counts", {"auction": "BIGINT", "n": "BIGINT"}, True)
        self.assertEqual(difference(db, "SELECT auction, count(*) AS n FROM bid GROUP BY auction"),
                         ([], []))
        netted(db, self.dir / "top10",
               {"auction": "BIGINT", "price": "BIGINT", "url": "VARCHAR", "rn": "BIGINT"}, True)
        # Equal prices may be ranked either way: rank and price must agree, the url must be a bid's.
        strays = db.execute("""SELECT * FROM got WHERE NOT EXISTS (SELECT 1 FROM bid WHERE
            bid.auction = got.auction AND bid.price = got.price AND bid.url = got.url) LIMIT 5""")
        self.assertEqual(strays.fetchall(), [])
        db.execute("CREATE OR REPLACE TABLE got AS SELECT auction, price, rn FROM got")
        self.assertEqual(difference(db, """SELECT auction, price, rn FROM (SELECT auction, price,
            row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS rn FROM bid)
            WHERE rn <= 10"""), ([], []))

    def test_a_killed_job_goes_on_as_if_nothing_had_happened(self):
        rng = random.Random(fresh_seed())
        make_bids(self.dir / "bids.ndjson", EVENTS, rng.getrandbits(31))
        db = connect()
        bids_relation(db, self.dir / "bids.ndjson")
        steps = StepFile(self.dir / "steps")
        job = self.write_job()
        hits: dict[str, int] = dict.fromkeys(STEPS, 0)
        resumed = skipped_input = kills = round_number = 0
        parallelism = [2, 3, 1]
        while kills < KILLS or 0 in hits.values():
            self.assertLess(round_number, 4 * KILLS + 30, f"steps never hit: {hits}")
            missing = [step for step in STEPS if hits[step] == 0]
            aim = missing[0] if missing else rng.choice(STEPS)
            before = self.progress()
            fell = self.run_and_kill(job, steps, aim, parallelism[round_number % 3], rng)
            round_number += 1
            if before is not None:
                resumed += 1
                skipped_input += before > 0
            if fell is None:  # it reached the end: check, then begin again
                self.check_answer(db)
                self.start_over()
                continue
            kills += 1
            hits[fell] += 1
            print(f"kill {kills}: aimed at {aim}, fell in {fell}", file=sys.stderr)
        self.cairn("run", job, "--parallelism", parallelism[round_number % 3])
        self.check_answer(db)
        print(f"kills by step {hits}; {skipped_input} of {resumed} resumed runs skipped input",
              file=sys.stderr)
        self.assertGreaterEqual(skipped_input * 2, resumed)

    def test_a_killed_job_over_disagg_local_goes_on_and_its_checkpoints_are_read(self):
        rng = random.Random(fresh_seed())
        make_bids(self.dir / "bids.ndjson", EVENTS // 3, rng.getrandbits(31))
        db = connect()
        bids_relation(db, self.dir / "bids.ndjson")
        steps = StepFile(self.dir / "steps")
        job = self.write_job()
        options = ["--backend", "disagg-local://?hot_max_bytes=65536&io_threads=2"]
        for aim in STEPS[1:]:
            fell = self.run_and_kill(job, steps, aim, rng.choice([1, 2, 3]), rng, options)
            print(f"aimed at {aim}, fell in {fell}", file=sys.stderr)
        done = self.cairn("run", job, "--parallelism", 2, *options)
        self.assertIn("hot_max_bytes and io_threads of disagg-local://", done.stderr)
        self.check_answer(db)

        slots = [json.loads(line) for line in
                 self.cairn("state", "ls", "job.cairn", "--json").stdout.splitlines()]
        auctions = db.execute("SELECT count(DISTINCT auction) FROM bid").fetchone()[0]
        self.assertEqual([slot["rows"] for slot in slots], [auctions] * 2)
        self.cairn("checkpoint", "verify", "job.cairn")
        self.cairn("state", "export", "job.cairn", "--typed", "--format", "parquet", "-o", "export")
        db.execute("CREATE OR REPLACE TABLE got AS SELECT auction, count AS n FROM "
                   f"'{self.dir / 'export/agg.parquet'}'")
        self.assertEqual(difference(db, "SELECT auction, count(*) AS n FROM bid GROUP BY auction"),
                         ([], []))

    def test_an_unknown_parameter_of_disagg_local_is_refused_with_the_list(self):
        done = self.cairn("run", self.write_job(), "--backend", "disagg-local://?threads=2", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("takes hot_max_bytes,io_threads", done.stderr)
        none = self.cairn("run", self.write_job(), "--backend", "disagg-local://?io_threads=0",
                          check=False)
        self.assertEqual(none.returncode, 2)
        self.assertFalse((self.dir / "job.cairn").exists())

    def start_over(self):
        for name in ("job.cairn", "top10", "counts"):
            os.system(f"rm -rf '{self.dir / name}'")

    def progress(self) -> int | None:
        """Checkpoints committed so far; None when the job has not run yet."""
        if not (self.dir / "job.cairn").exists():
            return None
        listing = self.cairn("checkpoint", "ls", "job.cairn", "--json", check=False)
        return len(listing.stdout.splitlines()) if listing.returncode == 0 else 0

# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in a bucket of a real S3 server: kills, takeovers, tools, and what is refused."""
import json
import random
import signal
import sys
import time

from harness import (LONG, EndToEndTest, bid_table, bids_relation, connect, difference, fresh_seed,
                     make_bids, netted, sink_table)
from s3_server import BUCKET, SECRET_KEY, S3Server
from weak_s3 import WeakS3

PLACE = f"s3://{BUCKET}/jobs/counts"
KILLS = 20 if LONG else 4
EVENTS = 1_200_000


class BucketTest(EndToEndTest):

    @classmethod
    def setUpClass(cls):
        cls.server = S3Server()
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        super().setUp()
        self.env = self.server.environment()

    def write_job(self):
        return self.job(
            bid_table("bids.ndjson", "ndjson")
            + sink_table("counts", "auction BIGINT, n BIGINT", "counts", True)
            + "INSERT INTO counts SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n")

    def cuts(self, place: str) -> list[int]:
        listing = self.cairn("checkpoint", "ls", place, "--json", env=self.env, check=False)
        return [json.loads(line)["id"] for line in listing.stdout.splitlines()]

    def kill_after(self, process, place: str, before: list[int], rng) -> bool:
        """Kill once a new checkpoint is there; False when the job ended first."""
        while process.poll() is None and self.cuts(place) == before:
            pass
        time.sleep(rng.uniform(0, 0.05))
        if process.poll() is not None:
            return False
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True

    def check_answer(self, db):
        netted(db, self.dir / "counts", {"auction": "BIGINT", "n": "BIGINT"}, True)
        self.assertEqual(difference(db, "SELECT auction, count(*) AS n FROM bid GROUP BY auction"),
                         ([], []))

    def test_a_killed_job_goes_on_from_the_bucket(self):
        rng = random.Random(fresh_seed())
        make_bids(self.dir / "bids.ndjson", EVENTS, rng.getrandbits(31))
        db = connect()
        bids_relation(db, self.dir / "bids.ndjson")
        job = self.write_job()
        kills = 0
        place = PLACE
        for round_number in range(4 * KILLS):
            if kills == KILLS:
                break
            before = self.cuts(place)
            process = self.start("run", job, "--checkpoints", place, "--interval", "100ms",
                                 "--parallelism", [2, 3, 1][round_number % 3], env=self.env)
            if self.kill_after(process, place, before, rng):
                kills += 1
                continue
            self.assertEqual(process.returncode, 0, (self.dir / "cairn.log").read_text()[-2000:])
            self.check_answer(db)  # at its end: begin again in a place of its own
            place = f"{PLACE}-{round_number}"
            for name in (self.dir / "counts").iterdir():
                name.unlink()
        self.assertEqual(kills, KILLS)
        self.cairn("run", job, "--checkpoints", place, env=self.env)
        self.check_answer(db)
        self.look_with_the_tools(place)
        print(f"{kills} kills", file=sys.stderr)

    def look_with_the_tools(self, place: str):
        newest = self.cuts(place)[0]
        self.assertIn("valid", self.cairn("checkpoint", "verify", place, env=self.env).stdout)
        shown = json.loads(self.cairn("checkpoint", "show", f"{place}@{newest}", "--json",
                                      env=self.env).stdout.splitlines()[0])
        self.assertEqual(shown["id"], newest)
        self.assertIn("counts", self.cairn("state", "ls", place, env=self.env).stdout)
        self.cairn("state", "export", place, "--format", "parquet", "--typed", "--output",
                   "state.parquet", env=self.env)
        self.assertTrue((self.dir / "state.parquet").exists())
        # What a place says of its job is read where the place is.
        self.cairn("state", "import", place, "--like", place, "--to", "copied.cairn", env=self.env)
        self.cairn("state", "diff", place, "copied.cairn", env=self.env)

    def test_a_second_process_is_refused_and_told_who_writes(self):
        job = self.job(
            "CREATE TABLE bid (auction BIGINT) WITH (connector = 'nexmark', table = 'bid', "
            "events = 100000000, rate = 20000);\n"
            + sink_table("counts", "auction BIGINT, n BIGINT", "counts", True)
            + "INSERT INTO counts SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n")
        place = f"s3://{BUCKET}/jobs/two"
        first = self.start("run", job, "--checkpoints", place, "--interval", "100ms", env=self.env)
        while first.poll() is None and not self.cuts(place):
            pass
        second = self.cairn("run", job, "--checkpoints", place, env=self.env, check=False)
        self.assertEqual(second.returncode, 4, second.stderr)
        self.assertIn(f"process {first.pid} on", second.stderr)
        first.terminate()
        self.assertEqual(first.wait(), 143, (self.dir / "cairn.log").read_text()[-2000:])
        lease = json.loads((self.server.dir / BUCKET / "jobs/two/control/lease.json").read_text())
        self.assertTrue(lease["released"], "the next process would wait for it to expire")

    def test_store_check_says_what_a_store_keeps(self):
        done = self.cairn("store", "check", f"s3://{BUCKET}/checked", env=self.env)
        self.assertIn("can hold checkpoints", done.stdout)
        self.assertIn("yes   of creators that race one wins", done.stdout)
        lines = self.cairn("store", "check", self.dir, "--json").stdout.splitlines()
        self.assertEqual([json.loads(line)["kept"] for line in lines], [True] * 11)

    def test_a_store_without_conditional_writes_is_refused(self):
        weak = WeakS3()
        self.addCleanup(weak.stop)
        place = f"s3://any/place?endpoint={weak.endpoint}"
        broken = ("this store cannot hold checkpoints: it does not keep the promise that a create "
                  "does not replace an object (the store carried it out); use a store with "
                  "conditional writes\n")
        run = self.cairn("run", self.write_job(), "--checkpoints", place, env=self.env, check=False)
        self.assertEqual(run.returncode, 2)
        self.assertTrue(run.stderr.endswith(broken), run.stderr)
        self.assertFalse((self.dir / "counts").exists(), "the job was begun")
        check = self.cairn("store", "check", place, env=self.env, check=False)
        self.assertEqual(check.returncode, 1)
        self.assertIn("NO    a create does not replace an object", check.stdout)
        self.assertEqual(weak.objects, {}, "the probe has left something")

    def test_bad_places_say_what_to_correct(self):
        job = self.job("CREATE TABLE b (auction BIGINT) WITH (connector = 'nexmark', table = 'bid', "
                       "events = 10);\n" + sink_table("s", "auction BIGINT", "s", False)
                       + "INSERT INTO s SELECT auction FROM b;\n")
        wrong_key = {**self.env, "AWS_SECRET_ACCESS_KEY": "wrong"}
        none = {**self.env, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
                "HOME": str(self.dir)}
        for place, env, code, says in [
                ("s3://", self.env, 2, "s3://BUCKET/PREFIX"),
                ("s3://nosuchbucket/x", self.env, 2, "create the bucket"),
                (f"s3://{BUCKET}/x?colour=red", self.env, 2, "it takes endpoint"),
                (f"s3://{BUCKET}/x", wrong_key, 2, "check the credentials"),
                (f"s3://{BUCKET}/x", none, 2, "no S3 credentials"),
        ]:
            with self.subTest(place=place, says=says):
                for command in (["store", "check", place],
                                ["run", job, "--checkpoints", place],
                                ["checkpoint", "ls", place]):
                    done = self.cairn(*command, env=env, check=False)
                    self.assertEqual(done.returncode, code, f"{command}: {done.stderr}")
                    self.assertIn(says, done.stderr)
                    self.assertNotIn("cannot hold checkpoints", done.stderr)
                    self.assertNotIn(SECRET_KEY, done.stderr + done.stdout)
        self.assertEqual(self.cairn("checkpoint", "ls", f"s3://{BUCKET}/never", env=self.env,
                                    check=False).returncode, 1)

# SPDX-License-Identifier: Apache-2.0
"""checkpoint why, gc, copy and rebuild-head through the command, with good and bad input."""
import json
import pathlib
import re
import shutil

from harness import EndToEndTest, connect, netted, sink_table


class RepairTest(EndToEndTest):

    def setUp(self):
        super().setUp()
        self.sql = self.job(
            "CREATE TABLE bid (auction BIGINT) WITH (connector = 'nexmark', table = 'bid', "
            "events = 60000, seed = 3, rate = 100000);\n"
            + sink_table("counts", "auction BIGINT, n BIGINT", "counts", True)
            + "INSERT INTO counts SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n")
        self.cairn("run", self.sql, "--interval", "100ms")

    def newest(self, place: str) -> dict:
        return json.loads(self.cairn("checkpoint", "ls", place, "--json").stdout.splitlines()[0])

    def test_a_copy_is_verified_and_the_job_goes_on_from_it(self):
        done = self.cairn("checkpoint", "copy", "job.cairn", "kept/copy")
        self.assertIn("verified", done.stderr)
        self.assertEqual(self.newest("kept/copy")["id"], self.newest("job.cairn")["id"])
        self.assertIn("nothing new",
                      self.cairn("run", self.sql, "--checkpoints", "kept/copy").stderr)
        refused = self.cairn("checkpoint", "copy", "job.cairn", "kept/copy", check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("empty place", refused.stderr)

    def test_a_lost_head_is_rebuilt_and_nothing_is_lost(self):
        head = self.dir / "job.cairn/control/decision-head.json"
        newest = self.newest("job.cairn")
        kept = self.cairn("checkpoint", "rebuild-head", "job.cairn", check=False)
        self.assertEqual(kept.returncode, 2)
        self.assertIn("readable", kept.stderr)
        head.unlink()
        lost = self.cairn("run", self.sql, check=False)
        self.assertEqual(lost.returncode, 3)
        self.assertIn("rebuild-head", lost.stderr)
        self.assertIn("nothing was written",
                      self.cairn("checkpoint", "rebuild-head", "job.cairn").stdout)
        self.assertFalse(head.exists())
        self.cairn("checkpoint", "rebuild-head", "job.cairn", "--write")
        self.assertEqual(self.newest("job.cairn"), newest)
        self.cairn("checkpoint", "verify", "job.cairn")
        self.cairn("run", self.sql)
        db = connect()
        netted(db, self.dir / "counts", {"auction": "BIGINT", "n": "BIGINT"}, True)
        self.assertEqual(db.execute("SELECT sum(n) FROM got").fetchone()[0], 60000)

    def test_garbage_is_named_and_removed_and_nothing_else(self):
        stray = self.dir / "job.cairn/nodes/1/checkpoints" / ("9" * 20).replace("9", "0", 19)
        shutil.copytree(next(p for p in stray.parent.iterdir() if (p / "state.arrow").exists()),
                        stray)
        (self.dir / "job.cairn/nodes/mine.txt").write_text("mine")
        lines = self.cairn("checkpoint", "gc", "job.cairn", "--dry-run", "--json").stdout
        named = [json.loads(line)["object"] for line in lines.splitlines()]
        self.assertTrue(named)
        self.assertTrue(all(stray.name in name for name in named), named)
        self.assertTrue(stray.exists())
        self.cairn("checkpoint", "gc", "job.cairn")
        self.assertFalse(stray.exists())
        self.assertTrue((self.dir / "job.cairn/nodes/mine.txt").exists())
        why = self.cairn("checkpoint", "why", "job.cairn").stdout
        self.assertIn(str(self.newest("job.cairn")["id"]), why)
        self.assertEqual(self.cairn("checkpoint", "why", "job.cairn", "no/such",
                                    check=False).returncode, 1)
        self.cairn("checkpoint", "verify", "job.cairn")


class AdviceTest(EndToEndTest):
    """What a message on damage says to do is done, and works."""

    def run_job(self, exactly_once: bool):
        """A job with two checkpoints or more."""
        source = ("CREATE TABLE bid (auction BIGINT) WITH (connector = 'nexmark', table = 'bid', "
                  "events = 60000, seed = 3, rate = 100000);\n")
        query = "SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n"
        if exactly_once:
            source += sink_table("counts", "auction BIGINT, n BIGINT", "counts", True)
            query = "INSERT INTO counts " + query
        self.sql = self.job(source + query)
        self.cairn("run", self.sql, "--interval", "100ms")
        self.cuts = [json.loads(line)["id"] for line in
                     self.cairn("checkpoint", "ls", "job.cairn", "--json").stdout.splitlines()]
        self.assertGreater(len(self.cuts), 1)

    def file(self, cut: int, name: str) -> pathlib.Path:
        return self.dir / f"job.cairn/nodes/1/checkpoints/{cut:020}/{name}"

    def damaged(self, *args, status: int = 3) -> str:
        done = self.cairn(*args, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stderr

    def follow(self, message: str):
        """Verify the checkpoint that is named, and go back to it."""
        verify = re.search(r"`cairn checkpoint verify PLACE@(\d+)`", message)
        back = re.search(r"`cairn run JOB.sql --from (\d+)`", message)
        self.assertTrue(verify and back, message)
        self.assertEqual(verify[1], back[1])
        self.cairn("checkpoint", "verify", f"job.cairn@{verify[1]}")
        self.cairn("run", self.sql, "--from", back[1])
        self.cairn("checkpoint", "verify", "job.cairn")
        total = self.cairn("state", "query", "job.cairn", "SELECT sum(count) AS n FROM agg").stdout
        self.assertEqual(json.loads(total)["n"], 60000)

    def test_a_damaged_manifest_names_the_checkpoint_to_go_back_to(self):
        self.run_job(exactly_once=False)
        self.file(self.cuts[0], "manifest.json").write_text("{")
        for command in (["checkpoint", "verify"], ["checkpoint", "show"], ["state", "ls"],
                        ["checkpoint", "gc"], ["checkpoint", "gc", "--dry-run"]):
            self.assertIn(f"--from {self.cuts[1]}", self.damaged(*command, "job.cairn"))
        message = self.damaged("run", self.sql)
        self.assertIn("is damaged", message)
        self.follow(message)

    def test_a_missing_object_names_the_checkpoint_to_go_back_to(self):
        self.run_job(exactly_once=False)
        self.file(self.cuts[0], "state.arrow").unlink()
        self.damaged("state", "ls", "job.cairn")
        message = self.damaged("run", self.sql)
        self.assertIn("is missing", message)
        self.follow(message)

    def test_a_damaged_object_names_verify_which_names_the_checkpoint_to_go_back_to(self):
        self.run_job(exactly_once=False)
        path = self.file(self.cuts[0], "state.arrow")
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        for command in (["run", self.sql], ["state", "ls", "job.cairn"]):
            self.assertIn("`cairn checkpoint verify PLACE` names all", self.damaged(*command))
        self.follow(self.damaged("checkpoint", "verify", "job.cairn", status=1))

    def test_after_published_rows_the_older_checkpoint_is_for_reading(self):
        self.run_job(exactly_once=True)
        manifest = self.file(self.cuts[0], "manifest.json")
        whole = manifest.read_bytes()
        manifest.write_bytes(whole[:100])
        message = self.damaged("run", self.sql)
        self.assertNotIn("--from", message)
        self.assertIn("cannot go back", message)
        self.assertIn("copy of the place", message)
        self.cairn("checkpoint", "verify", f"job.cairn@{self.cuts[1]}")
        self.cairn("state", "ls", f"job.cairn@{self.cuts[1]}")
        self.damaged("run", self.sql, "--from", str(self.cuts[1]), status=2)
        manifest.write_bytes(whole)
        self.cairn("run", self.sql)

    def test_without_another_whole_checkpoint_none_is_named(self):
        self.run_job(exactly_once=False)
        for cut in self.cuts:
            self.file(cut, "manifest.json").unlink()
        message = self.damaged("run", self.sql)
        self.assertIn("no other checkpoint", message)
        self.assertNotIn("--from", message)

    def test_a_damaged_head_is_rebuilt_as_the_message_says(self):
        self.run_job(exactly_once=True)
        head = self.dir / "job.cairn/control/decision-head.json"
        for damage in (lambda: head.write_text("{"), head.unlink):
            damage()
            message = self.damaged("run", self.sql)
            self.assertIn(f"checkpoint {self.cuts[0]} as the latest", message)
            self.assertIn("cairn checkpoint rebuild-head PLACE", message)
            self.assertIn("rebuild-head", self.damaged("checkpoint", "ls", "job.cairn"))
            self.cairn("checkpoint", "rebuild-head", "job.cairn")
            self.cairn("checkpoint", "rebuild-head", "job.cairn", "--write")
            self.cairn("checkpoint", "verify", "job.cairn")
        self.cairn("run", self.sql)

    def test_a_head_that_cannot_be_rebuilt_says_so(self):
        self.run_job(exactly_once=True)
        (self.dir / "job.cairn/control/decision-head.json").unlink()
        for cut in self.cuts:
            self.file(cut, "manifest.json").write_text("{")
        message = self.damaged("run", self.sql)
        self.assertIn("cannot be rebuilt", message)
        self.assertIn("copy", message)

    def test_rebuild_head_names_a_newer_checkpoint_that_is_left_out(self):
        self.run_job(exactly_once=True)
        (self.dir / "job.cairn/control/decision-head.json").unlink()
        newest, older = self.cuts[:2]
        manifest = self.file(newest, "manifest.json")
        for damage, why in ((lambda: manifest.write_text("{"), "JSON"),
                            (manifest.unlink, "manifest.json is missing"),
                            (lambda: shutil.rmtree(manifest.parent), "latest.txt names it")):
            damage()
            said = self.cairn("checkpoint", "rebuild-head", "job.cairn").stdout
            self.assertIn(f"left out, though newer: checkpoint {newest}: ", said)
            self.assertIn(why, said)
            self.assertIn(f"latest {older}", said)
        self.cairn("checkpoint", "rebuild-head", "job.cairn", "--write")
        # Its rows were published, which the sink knows.
        self.assertIn(f"rows that checkpoint {newest}", self.damaged("run", self.sql, status=2))

    def test_why_answers_for_an_object_that_is_missing(self):
        self.run_job(exactly_once=False)
        newest, older = self.cuts[:2]
        gone = self.file(newest, "state.arrow")
        key = str(gone.relative_to(self.dir / "job.cairn"))
        gone.unlink()
        done = self.cairn("checkpoint", "why", "job.cairn", key, check=False)
        self.assertEqual(done.returncode, 3)
        self.assertIn(f"MISSING, needed by {newest}", done.stdout)
        self.assertIn(f"checkpoint {newest} needs {key}, which is missing", done.stderr)
        self.assertIn("MISSING", self.cairn("checkpoint", "why", "job.cairn", check=False).stdout)
        line = json.loads(self.cairn("checkpoint", "why", "job.cairn", key, "--json",
                                     check=False).stdout)
        self.assertEqual((line["missing"], line["needed_by"]), (True, [newest]))
        # What is there is answered for as ever.
        other = str(self.file(older, "manifest.json").relative_to(self.dir / "job.cairn"))
        self.cairn("checkpoint", "why", "job.cairn", other)
        self.follow(done.stderr)

    def test_why_answers_beside_a_manifest_that_is_missing(self):
        self.run_job(exactly_once=False)
        gone = self.file(self.cuts[0], "manifest.json")
        gone.unlink()
        done = self.cairn("checkpoint", "why", "job.cairn", check=False)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stdout, rf"{self.cuts[0]:020}/manifest.json .*MISSING, needed by")
        self.assertRegex(done.stdout, rf"{self.cuts[1]:020}/manifest.json .* {self.cuts[1]}\n")
        self.follow(done.stderr)

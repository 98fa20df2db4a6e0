# SPDX-License-Identifier: Apache-2.0
"""checkpoint why, gc, copy and rebuild-head through the command, with good and bad input."""
import json
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

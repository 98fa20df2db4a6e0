#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/cli.md run as they are printed there: each command, in order, ends with the exit
code that the page says, and with its last line but for numbers and times."""
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import unittest

from harness import CAIRN, EndToEndTest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/cli.md"


def examples(page: str) -> list[tuple[str, list[str], int]]:
    """Every `$ cairn …` of the page: (arguments, lines printed, exit code)."""
    found = []
    for block in re.findall(r"^```\n(\$ .*?)^```", page, re.M | re.S):
        for example in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *printed = example.rstrip("\n").split("\n")
            code = 0
            if printed and (said := re.fullmatch(r"\(exit (\d+)\)", printed[-1])):
                code = int(said[1])
                printed.pop()
            if command.startswith("cairn "):
                found.append((command.removeprefix("cairn "), printed, code))
    return found


def shape(line: str) -> str:
    """A line without what differs from run to run: numbers, times, ids, units and widths."""
    line = re.sub(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{8,}\b", "#", line)
    line = re.sub(r"\b[\d.,:TZ-]*\d[\d.,:TZ-]*\b", "#", line)
    line = re.sub(r"# ?(?:[KMG]iB|B|ms|s|k|M)\b", "#", line)
    return re.sub(r"\s+", " ", line).strip()


class DocumentedTest(EndToEndTest):

    def write_jobs(self, page: str):
        job = re.search(r"^```sql\n(.*?)^```", page, re.M | re.S)[1]
        self.job(job)
        self.job("".join(statement + ";\n" for statement in job.split(";\n") if
                         statement.strip() and "top3" not in statement), "job-v2.sql")
        self.job("CREATE TABLE bid (auction BIGINT, price BIGINT, url TEXT) WITH (connector = "
                 "'nexmark');\n\n SELECT nope FROM bid;\n", "bad.sql")

    def damage_a_copy(self):
        subprocess.run(["cp", "-r", self.dir / "job.cairn", self.dir / "damaged.cairn"], check=True)
        newest = sorted((self.dir / "damaged.cairn").rglob("state.arrow"))[-1]
        data = bytearray(newest.read_bytes())
        data[len(data) // 2] ^= 1
        newest.write_bytes(data)

    def behead_a_copy(self):
        subprocess.run(["cp", "-r", self.dir / "job.cairn", self.dir / "headless.cairn"], check=True)
        (self.dir / "headless.cairn/control/decision-head.json").unlink()

    def kept_checkpoints(self) -> list[dict]:
        listing = self.cairn("checkpoint", "ls", "job.cairn", "--json").stdout
        return [json.loads(line) for line in listing.splitlines()]

    def run_until_the_last_checkpoints_differ(self, arguments: list[str]):
        """What a checkpoint holds depends on the machine's speed; the page's last one holds changes."""
        for _ in range(10):
            for left in ("job.cairn", "counts", "top3"):
                shutil.rmtree(self.dir / left, ignore_errors=True)
            done = subprocess.run([CAIRN, *arguments], cwd=self.dir, capture_output=True, text=True,
                                  timeout=120)
            kept = self.kept_checkpoints()
            if len(kept) == 3 and kept[0]["bytes_new"] > 0:
                break
        return done

    def test_every_example_of_the_command_line_page_runs_as_printed(self):
        page = PAGE.read_text()
        self.write_jobs(page)
        commands = examples(page)
        self.assertGreater(len(commands), 20)
        kept = []
        for command, printed, code in commands:
            if "@" in command:  # how many checkpoints there are depends on the machine's speed
                kept = kept or [cut["id"] for cut in self.kept_checkpoints()]
                command = command.replace("@4", f"@{kept[0]}").replace("@3", f"@{kept[1]}")
            if "damaged.cairn" in command:
                self.damage_a_copy()
            if "headless.cairn" in command:
                self.behead_a_copy()
            arguments = shlex.split(command)
            with self.subTest(command=command):
                if arguments[:2] == ["run", "job.sql"] and not (self.dir / "job.cairn").exists():
                    done = self.run_until_the_last_checkpoints_differ(arguments)
                else:
                    done = subprocess.run([CAIRN, *arguments], cwd=self.dir, capture_output=True,
                                          text=True, timeout=120)
                said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
                self.assertEqual(done.returncode, code, said[-5:])
                if not printed or any("…" in line for line in printed):
                    continue
                wanted = shape(printed[-1])
                self.assertIn(wanted, [shape(line) for line in said],
                              f"`cairn {command}` does not print the page's last line")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: run the command, make bids, net a changelog, ask DuckDB."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import duckdb

CAIRN = os.environ.get("CAIRN", "build/release/bin/cairn")
LONG = os.environ.get("CAIRN_LONG") == "1"

# No test asks the machine it runs on for credentials.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"

BID_COLUMNS = ("auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, url TEXT, "
               "date_time TIMESTAMP, extra TEXT")


def fresh_seed() -> int:
    """The seed of this run: CAIRN_SEED, else a fresh one; printed so that a failure can be re-run."""
    seed = int(os.environ.get("CAIRN_SEED") or random.SystemRandom().getrandbits(32))
    print(f"seed {seed} (CAIRN_SEED={seed} repeats it)", file=sys.stderr)
    return seed


class EndToEndTest(unittest.TestCase):
    """A test with a folder of its own and the release command."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cairn-e2e-"))
        self.addCleanup(shutil.rmtree, self.dir, True)

    def job(self, text: str, name: str = "job.sql") -> pathlib.Path:
        path = self.dir / name
        path.write_text(text)
        return path

    def cairn(self, *args, check: bool = True, env=None, timeout: int = 300,
              **kwargs) -> subprocess.CompletedProcess:
        done = subprocess.run([CAIRN, *map(str, args)], cwd=self.dir, capture_output=True, text=True,
                              timeout=timeout, env={**os.environ, **(env or {})}, **kwargs)
        if check:
            self.assertEqual(done.returncode, 0, f"cairn {args}\n{done.stdout}\n{done.stderr}")
        return done

    def start(self, *args, env=None) -> subprocess.Popen:
        log = open(self.dir / "cairn.log", "ab")
        return subprocess.Popen([CAIRN, *map(str, args)], cwd=self.dir, stdout=log, stderr=log,
                                env={**os.environ, **(env or {})})


def decided(place: pathlib.Path) -> list:
    """The cuts that a checkpoint place keeps. (Its head also changes when ids are reserved.)"""
    try:
        head = json.loads((place / "control/decision-head.json").read_bytes())
    except FileNotFoundError:
        return []
    return [cut for cut in [head.get("latest_commit"), *head["retained"]] if cut is not None]


def kill_after_checkpoint(process: subprocess.Popen, place: pathlib.Path, before: list,
                          wait_s: float) -> bool:
    """Kill `process` some time after its first checkpoint; False when it came to its end first."""
    deadline = time.monotonic() + 60
    while process.poll() is None and decided(place) == before and time.monotonic() < deadline:
        time.sleep(0.005)
    try:
        process.wait(wait_s)
        return False
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True


def bid_table(path: str, fmt: str, extra: str = "") -> str:
    return (f"CREATE TABLE bid ({BID_COLUMNS}) WITH (connector = 'filesystem', path = '{path}', "
            f"format = '{fmt}'{extra});\n")


def sink_table(name: str, columns: str, path: str, changelog: bool, fmt: str = "ndjson") -> str:
    flag = ", changelog = true" if changelog else ""
    return (f"CREATE TABLE {name} ({columns}) WITH (connector = 'filesystem', path = '{path}', "
            f"format = '{fmt}'{flag});\n")


def make_bids(path: pathlib.Path, events: int, seed: int) -> None:
    """Write bids as NDJSON with a job of Cairn's own: nexmark to a filesystem sink, one file."""
    job = path.parent / f"make-{path.name}.sql"
    out = path.parent / f"make-{path.name}.out"
    job.write_text(
        f"CREATE TABLE gen ({BID_COLUMNS}) WITH (connector = 'nexmark', table = 'bid', "
        f"events = {events}, seed = {seed});\n"
        + sink_table("made", BID_COLUMNS, str(out), False)
        + "INSERT INTO made SELECT * FROM gen;\n")
    subprocess.run([CAIRN, "run", job, "--checkpoints", "none"], check=True, capture_output=True)
    with open(path, "wb") as joined:
        for part in committed_files(out):
            joined.write(part.read_bytes())
    shutil.rmtree(out)


def committed_files(sink: pathlib.Path) -> list[pathlib.Path]:
    """Files of a filesystem sink that count: no leading '_' or '.'."""
    if not sink.is_dir():
        return []
    return sorted(p for p in sink.iterdir() if p.is_file() and p.name[0] not in "._")


def bids_relation(db, path: pathlib.Path) -> None:
    db.execute(f"""CREATE OR REPLACE TABLE bid AS SELECT * FROM read_json('{path}',
        format = 'newline_delimited', columns = {{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT',
        channel: 'VARCHAR', url: 'VARCHAR', date_time: 'TIMESTAMP', extra: 'VARCHAR'}})""")


def netted(db, sink: pathlib.Path, columns: dict[str, str], changelog: bool) -> None:
    """Make the view `got` of a sink's rows: a changelog netted to the rows that stand."""
    types = {**({"op": "VARCHAR"} if changelog else {}), **columns}
    spec = ", ".join(f"{name}: '{kind}'" for name, kind in types.items())
    names = ", ".join(columns)
    files = [str(p) for p in committed_files(sink)]
    if not files:
        fields = ", ".join(f"NULL::{kind} AS {name}" for name, kind in columns.items())
        db.execute(f"CREATE OR REPLACE TABLE got AS SELECT {fields} WHERE false")
        return
    rows = f"read_json({files}, format = 'newline_delimited', columns = {{{spec}}})"
    if not changelog:
        db.execute(f"CREATE OR REPLACE TABLE got AS SELECT {names} FROM {rows}")
        return
    db.execute(f"""CREATE OR REPLACE TABLE net AS SELECT {names},
        sum(CASE WHEN op IN ('+I', '+U') THEN 1 ELSE -1 END)::BIGINT AS copies
        FROM {rows} GROUP BY ALL HAVING copies <> 0""")
    wrong = db.execute("SELECT count(*) FROM net WHERE copies < 0").fetchone()[0]
    assert wrong == 0, f"{wrong} rows were taken back more often than they were given"
    db.execute(f"""CREATE OR REPLACE TABLE got AS SELECT {names} FROM net,
        range(copies) AS r(i)""")


def difference(db, expected_sql: str) -> tuple[list, list]:
    """Return a few rows (missing, surplus) of table `got` against DuckDB's own answer."""
    db.execute(f"CREATE OR REPLACE TABLE expected AS {expected_sql}")
    missing = db.execute("FROM expected EXCEPT ALL FROM got LIMIT 5").fetchall()
    surplus = db.execute("FROM got EXCEPT ALL FROM expected LIMIT 5").fetchall()
    return missing, surplus


def connect():
    return duckdb.connect()

# SPDX-License-Identifier: Apache-2.0
"""The checkpoint suite: bench_checkpoint in a directory and beside a real S3 server, and whether a job
holds an interval of 100 ms."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/e2e"))
from s3_server import BUCKET, S3Server  # noqa: E402


def interval(cairn: pathlib.Path, quick: bool) -> dict:
    """Run a job that changes its state all the time with a checkpoint every 100 ms. The value is the
    share of triggers that came while a checkpoint was still under way."""
    seconds = 3 if quick else 20
    rate = 100_000
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as folder:
        job = pathlib.Path(folder) / "job.sql"
        job.write_text(f"""
            CREATE TABLE bid (auction BIGINT) WITH (connector = 'nexmark', table = 'bid',
              events = {rate * seconds}, rate = {rate});
            CREATE TABLE counts (auction BIGINT, n BIGINT) WITH (connector = 'filesystem',
              path = '{folder}/counts', format = 'ndjson', changelog = true);
            INSERT INTO counts SELECT auction, count(*) AS n FROM bid GROUP BY auction;""")
        done = subprocess.run([cairn, "run", job, "--interval", "100ms", "--progress", "off",
                               "--checkpoints", f"{folder}/place"],
                              check=True, capture_output=True, text=True)
    taken = int(re.search(r"([\d,]+) checkpoints?", done.stderr)[1].replace(",", ""))
    planned = seconds * 10
    return {"suite": "checkpoint", "case": "interval.100ms", "value": taken, "unit": "checkpoints",
            "better": "more", "peer": "one every 100 ms", "peer_value": planned,
            "ratio": round(taken / planned, 4)}


def run(build: pathlib.Path, quick: bool):
    program = build / "bin/bench_checkpoint"
    if not program.exists():
        sys.exit(f"bench: {program} is not built")
    server = S3Server()
    try:
        env = {**os.environ, **server.environment(), "CAIRN_BENCH_S3": f"s3://{BUCKET}/bench"}
        process = subprocess.Popen([program] + (["--quick"] if quick else []), env=env,
                                   stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            yield json.loads(line)
        if process.wait() != 0:
            sys.exit(f"bench: {program} ended with {process.returncode}")
    finally:
        server.stop()
    yield interval(build / "bin/cairn", quick)

# SPDX-License-Identifier: Apache-2.0
"""The nexmark suite: whole jobs of the release command, their decoding alone, their state alone.

A case is a job over two million bids with a blackhole sink. Its value is the CPU time of the whole
process divided by the rows, as the kernel accounts it for the child, median of the repetitions; the
wall-clock rate is in "rows_per_s". The peer is DuckDB on the same files and in the same run."""
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import duckdb

COLUMNS = ("auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, url TEXT, "
           "date_time TIMESTAMP, extra TEXT")
QUERIES = {
    "q19": ("auction BIGINT, price BIGINT, url TEXT, rn BIGINT",
            "SELECT auction, price, url, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction "
            "ORDER BY price DESC) AS rn FROM bid) t WHERE rn <= 10"),
    "counts": ("auction BIGINT, n BIGINT", "SELECT auction, count(*) AS n FROM bid GROUP BY auction"),
    "decode": (COLUMNS, "SELECT * FROM bid"),
}
# CPU µs a row of Flink 2.3 on the heap backend, p = 2, from CSV (docs/perf/peers.md).
FLINK = {"q19": 11.0, "counts": 3.0}


def source_table(source: str, folder: pathlib.Path, events: int) -> str:
    if source == "generator":
        options = f"connector = 'nexmark', table = 'bid', events = {events}, seed = 1"
    else:
        options = f"connector = 'filesystem', path = '{folder}/{source}', format = '{source}'"
    return f"CREATE TABLE bid ({COLUMNS}) WITH ({options});\n"


def make_inputs(cairn: pathlib.Path, folder: pathlib.Path, events: int) -> None:
    """Two files of each format, so that two subtasks can read at once."""
    text = source_table("generator", folder, events)
    for fmt in ("ndjson", "csv", "parquet"):
        text += (f"CREATE TABLE {fmt}_out ({COLUMNS}) WITH (connector = 'filesystem', "
                 f"path = '{folder}/{fmt}', format = '{fmt}');\n"
                 f"INSERT INTO {fmt}_out SELECT * FROM bid;\n")
    (folder / "make.sql").write_text(text)
    subprocess.run([cairn, "run", folder / "make.sql", "--checkpoints", "none", "--parallelism", "2",
                    "--progress", "off"], check=True, cwd=folder)


def child_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_job(cairn, folder, source, query, events, parallelism, checkpoints) -> tuple[float, float]:
    """Return (CPU seconds, wall seconds) of one run from an empty place."""
    columns, statement = QUERIES[query]
    job = folder / "job.sql"
    job.write_text(source_table(source, folder, events)
                   + f"CREATE TABLE out ({columns}) WITH (connector = 'blackhole');\n"
                   + f"INSERT INTO out {statement};\n")
    place = folder / "place"
    shutil.rmtree(place, ignore_errors=True)
    command = [cairn, "run", job, "--parallelism", str(parallelism), "--progress", "off",
               "--interval", "1s", "--checkpoints", str(place) if checkpoints else "none"]
    cpu, wall = child_cpu(), time.monotonic()
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return child_cpu() - cpu, time.monotonic() - wall


def duckdb_seconds(folder: pathlib.Path, source: str, query: str, threads: int) -> float:
    """CPU seconds of DuckDB for the same statement over the same files."""
    script = (f"import duckdb; db = duckdb.connect(); db.execute('SET threads = {threads}'); "
              f"db.execute(\"CREATE VIEW bid AS SELECT * FROM '{folder}/{source}/*.{source}'\"); "
              f"db.execute(\"CREATE TABLE answer AS {QUERIES[query][1]}\")")
    before = child_cpu()
    subprocess.run([sys.executable, "-c", "import duckdb"], check=True)
    start = child_cpu()
    subprocess.run([sys.executable, "-c", script], check=True)
    return (child_cpu() - start) - (start - before)


def job_cases(cairn, folder, events, repetitions):
    for query in ("q19", "counts", "decode"):
        for source in ("csv", "ndjson", "parquet", "generator"):
            for parallelism in ((1,) if query == "decode" else (1, 2)):
                peer = None
                if source != "generator" and query != "decode":
                    peer = statistics.median(duckdb_seconds(folder, source, query, parallelism)
                                             for _ in range(repetitions)) / events * 1e6
                for checkpoints in ((False,) if query == "decode" else (False, True)):
                    runs = [run_job(cairn, folder, source, query, events, parallelism, checkpoints)
                            for _ in range(repetitions)]
                    value = statistics.median(cpu for cpu, _ in runs) / events * 1e6
                    mode = "checkpoints" if checkpoints else "plain"
                    case = f"decode.{source}" if query == "decode" else \
                        f"{query}.{source}.p{parallelism}.{mode}"
                    yield {"suite": "nexmark", "case": case, "value": round(value, 4),
                           "unit": "cpu_us/row", "better": "less", "peer": "duckdb" if peer else None,
                           "peer_value": peer and round(peer, 4),
                           "ratio": peer and round(value / peer, 3),
                           "rows_per_s": round(events / statistics.median(wall for _, wall in runs)),
                           **({"flink_heap": FLINK[query]} if source == "csv" and query in FLINK else {})}


def state_cases(build: pathlib.Path, quick: bool):
    """The operators alone over batches decoded beforehand, against the plain C++ loop."""
    import json
    command = [str(build / "bin/bench_operators")] + (["--quick"] if quick else [])
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def run(build: pathlib.Path, quick: bool):
    cairn = (build / "bin/cairn").resolve()
    events = 200_000 if quick else 2_000_000
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cairn-bench-", dir=os.environ.get("TMPDIR")))
    try:
        make_inputs(cairn, folder, events)
        run_job(cairn, folder, "csv", "counts", events, 1, False)  # warm the page cache
        yield from job_cases(cairn, folder, events, 2 if quick else 5)
        yield from state_cases(build, quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


assert duckdb  # the peer must be there before a long run starts

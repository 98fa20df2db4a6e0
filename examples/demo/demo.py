#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kill a stateful streaming job in the middle, run it again, and let DuckDB check the answer."""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import duckdb

HERE = pathlib.Path(__file__).resolve().parent


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


class Demo:

    def __init__(self, cairn: str, folder: pathlib.Path, events: int):
        self.cairn = str(pathlib.Path(cairn).resolve())
        self.folder = folder
        self.events = events
        self.figures: list[tuple[str, str]] = []

    def run(self, *args: str, quiet: bool = False) -> str:
        if not quiet:
            print("$ cairn " + " ".join(args), flush=True)
        done = subprocess.run([self.cairn, *args], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=None if not quiet else subprocess.PIPE)
        if done.returncode != 0:
            sys.exit(f"demo: cairn {' '.join(args)} ended with {done.returncode}\n{done.stderr or ''}")
        return done.stdout

    def make_bids(self) -> None:
        say(f"1. Make {self.events:,} bids (Nexmark rules, seed 1) as one NDJSON file.")
        (self.folder / "make.sql").write_text(f"""
            CREATE TABLE gen (auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, url TEXT,
              date_time TIMESTAMP, extra TEXT)
              WITH (connector = 'nexmark', table = 'bid', events = {self.events}, seed = 1);
            CREATE TABLE made (auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, url TEXT,
              date_time TIMESTAMP, extra TEXT)
              WITH (connector = 'filesystem', path = 'made', format = 'ndjson');
            INSERT INTO made SELECT * FROM gen;""")
        self.run("run", "make.sql", "--checkpoints", "none", "--progress", "off")
        bids = self.folder / "bids.ndjson"
        with open(bids, "wb") as out:
            for part in sorted((self.folder / "made").glob("part-*")):
                with open(part, "rb") as rows:
                    shutil.copyfileobj(rows, out, 1 << 24)
        print(f"   bids.ndjson: {bids.stat().st_size / 1e6:.0f} MB")

    def run_and_kill(self) -> None:
        say("2. Run the job on two subtasks, a checkpoint a second, and kill -9 it in the middle.")
        shutil.copy(HERE / "job.sql", self.folder / "job.sql")
        print((self.folder / "job.sql").read_text())
        command = ["run", "job.sql", "--parallelism", "2", "--interval", "1s"]
        print("$ cairn " + " ".join(command), flush=True)
        process = subprocess.Popen([self.cairn, *command], cwd=self.folder)
        while process.poll() is None and self.committed() < 1:
            time.sleep(0.01)
        if process.poll() is not None:
            sys.exit("demo: the job ended before it could be killed; give more --events")
        process.send_signal(signal.SIGKILL)
        process.wait()
        print(f"   killed with SIGKILL after checkpoint {self.committed()}; "
              f"{len(list((self.folder / 'counts').glob('part-*')))} files of counts are committed")

    def committed(self) -> int:
        listing = subprocess.run([self.cairn, "checkpoint", "ls", "job.cairn", "--json"],
                                 cwd=self.folder, text=True, capture_output=True)
        return max((json.loads(line)["id"] for line in listing.stdout.splitlines()), default=0)

    def run_again(self) -> None:
        say("3. Run the same command again: it goes on from the last checkpoint.")
        start = time.monotonic()
        self.run("run", "job.sql", "--parallelism", "2", "--interval", "1s")
        self.figures.append(("second run", f"{time.monotonic() - start:.1f} s"))

    def compare(self) -> None:
        say("4. Ask DuckDB for the same two answers over the same file, and compare.")
        db = duckdb.connect()
        db.execute(f"""CREATE TABLE bid AS SELECT * FROM read_json('{self.folder}/bids.ndjson',
            format = 'newline_delimited', columns = {{auction: 'BIGINT', price: 'BIGINT', url: 'VARCHAR'}})""")
        self.net(db, "counts", {"auction": "BIGINT", "n": "BIGINT"})
        self.net(db, "top10", {"auction": "BIGINT", "price": "BIGINT", "url": "VARCHAR", "rn": "BIGINT"})
        counts = self.differ(db, "counts", "SELECT auction, count(*) AS n FROM bid GROUP BY auction", "*")
        top = self.differ(db, "top10", """SELECT auction, price, rn FROM (SELECT auction, price,
            row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS rn FROM bid) WHERE rn <= 10""",
            "auction, price, rn")
        strays = db.execute("""SELECT count(*) FROM top10 WHERE NOT EXISTS (SELECT 1 FROM bid WHERE
            (bid.auction, bid.price, bid.url) = (top10.auction, top10.price, top10.url))""").fetchone()[0]
        print(f"   counts: {counts[0]:,} auctions, {counts[1]} differ")
        print(f"   top10:  {top[0]:,} rows, {top[1]} differ, {strays} rows that are no bid")
        if counts[1] or top[1] or strays:
            sys.exit("demo: the answer is wrong")
        self.figures += [("auctions counted", f"{counts[0]:,}"), ("Top-10 rows", f"{top[0]:,}"),
                         ("rows that differ from DuckDB", "0")]

    def net(self, db, sink: str, columns: dict[str, str]) -> None:
        spec = ", ".join(f"{name}: '{kind}'" for name, kind in {"op": "VARCHAR", **columns}.items())
        db.execute(f"""CREATE TABLE {sink} AS SELECT {', '.join(columns)} FROM read_json(
            '{self.folder}/{sink}/part-*', format = 'newline_delimited', columns = {{{spec}}})
            GROUP BY ALL HAVING sum(CASE WHEN op IN ('+I', '+U') THEN 1 ELSE -1 END) > 0""")

    def differ(self, db, sink: str, answer: str, columns: str) -> tuple[int, int]:
        total = db.execute(f"SELECT count(*) FROM ({answer})").fetchone()[0]
        wrong = db.execute(f"""SELECT (SELECT count(*) FROM ({answer} EXCEPT ALL SELECT {columns} FROM {sink}))
            + (SELECT count(*) FROM (SELECT {columns} FROM {sink} EXCEPT ALL {answer}))""").fetchone()[0]
        return total, wrong

    def look_inside(self) -> None:
        say("5. Look at what was saved.")
        print(self.run("checkpoint", "ls", "job.cairn"))
        print(self.run("state", "ls", "job.cairn"))
        say("6. Export the state with typed columns and let DuckDB sum it.")
        self.run("state", "export", "job.cairn", "--typed", "--format", "parquet", "-o", "export")
        for path in sorted((self.folder / "export").glob("*.parquet")):
            columns = [row[0] for row in duckdb.sql(f"DESCRIBE SELECT * FROM '{path}'").fetchall()]
            print(f"   {path.name}: {', '.join(columns)}")
            if "count" in columns:
                total = duckdb.connect().execute(f"SELECT sum(count) FROM '{path}'").fetchone()[0]
                print(f"   DuckDB: sum(count) = {total:,}")
                if total != self.events:
                    sys.exit("demo: the exported state does not add up")
                self.figures.append(("sum of the exported counts", f"{total:,}"))

    def end(self) -> None:
        say("Figures")
        for name, value in self.figures:
            print(f"   {name:32} {value}")
        print("\nThe job was killed and the answer is right.")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cairn", required=True)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--keep", metavar="DIR", help="work there and leave everything in place")
    args = parser.parse_args()
    folder = pathlib.Path(args.keep or tempfile.mkdtemp(prefix="cairn-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        demo = Demo(args.cairn, folder, args.events)
        demo.make_bids()
        demo.run_and_kill()
        demo.run_again()
        demo.compare()
        demo.look_inside()
        demo.end()
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

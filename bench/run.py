#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run one benchmark suite and check that every case it promises is there.

Output: one JSON object a line, {"suite", "case", "value", "unit", "better", "peer", "peer_value",
"ratio"}, to standard output and, with --json, appended to a file."""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent

PROGRAMS = {"state": ["bench_state", "bench_state_kinds", "bench_state_persist",
                      "bench_state_async", "bench_embed", "bench_state_backends"]}
CASES = {
    "state": ["update.int64.1M.uniform", "update.int64.1M.zipf", "update.int64.10M.uniform",
              "update.int64.10M.zipf", "update.str15.1M.uniform", "update.int64.1M.uniform.persisting",
              "update.int64.1M.zipf.persisting", "update.int64.10M.uniform.persisting",
              "update.int64.10M.zipf.persisting", "update.str15.1M.uniform.persisting",
              "update.int64.1M.uniform.huge_pages", "update.int64.1M.zipf.huge_pages",
              "update.int64.10M.uniform.huge_pages", "update.int64.10M.zipf.huge_pages",
              "get.int64.1M.uniform", "update_batch.int64.1M.uniform", "update_batch.int64.1M.zipf",
              "grow.5M.worst", "view.500k", "view.10M", "view.bytes_copied.500k",
              "view.bytes_copied.10M", "put.persisting.worst", "put.persisting.rate", "view.memory",
              "delta.500_of_1M", "delta.50k_of_1M", "list_append.10", "list_append.100k",
              "map_put.10", "map_put.100k", "aggregate.update", "ttl.update", "ttl.sweep.1M",
              "persist.5M", "restore.5M", "rescale.2_to_3.5M",
              "async.cold_reads.1", "async.cold_reads.8", "async.cold_reads.16", "async.coalesced",
              "embed.checkpoint", "changelog.500_of_1M", "changelog.50k_of_1M",
              "sharded.put.1_threads", "sharded.put.2_threads"],
    "checkpoint": [f"ckpt.1M.{share}{kind}" for share in ("1pct", "10pct", "100pct")
                   for kind in ("", ".bytes")]
                  + ["ckpt.fsyncs", "commit.local", "validate.16MiB", "interval.100ms",
                     "ckpt.s3.round_trips", "ckpt.s3.puts", "restore.s3",
                     "viewlog.write", "viewlog.read", "viewlog.amplification"],
    "nexmark": [f"{query}.{source}.p{p}.{mode}" for query in ("q19", "counts")
                for source in ("csv", "ndjson", "parquet", "generator") for p in (1, 2)
                for mode in ("plain", "checkpoints")]
               + [f"decode.{source}" for source in ("csv", "ndjson", "parquet", "generator")]
               + ["state.q19", "state.counts"],
}


def run_programs(names: list[str], build: pathlib.Path, quick: bool):
    for name in names:
        program = build / "bin" / name
        if not program.exists():
            sys.exit(f"bench: {program} is not built")
        command = [str(program)] + (["--quick"] if quick else [])
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("{"):
                yield json.loads(line)
        if process.wait() != 0:
            sys.exit(f"bench: {' '.join(command)} ended with {process.returncode}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", choices=sorted(CASES))
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    if args.suite == "nexmark":
        import nexmark
        results = nexmark.run(args.build, args.quick)
    elif args.suite == "checkpoint":
        import checkpoint
        results = checkpoint.run(args.build, args.quick)
    else:
        results = run_programs(PROGRAMS[args.suite], args.build, args.quick)
    seen = set()
    for result in results:
        line = json.dumps(result)
        print(line, flush=True)
        if args.json:
            with open(args.json, "a") as out:
                out.write(line + "\n")
        seen.add(result["case"])
    missing = [case for case in CASES[args.suite] if case not in seen]
    if missing:
        sys.exit(f"bench: {len(missing)} cases are missing: {', '.join(missing)}")


if __name__ == "__main__":
    main()

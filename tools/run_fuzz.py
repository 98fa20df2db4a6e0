#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run every libFuzzer program of a tree built with CAIRN_FUZZ for a while each. Inputs of
testdata/fuzz and the golden files are the seeds; a crash is kept in testdata/fuzz/<target>, where
format_test replays it for ever."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    args = parser.parse_args()
    programs = sorted((args.build / "bin").glob("*_fuzz"))
    if not programs:
        sys.exit("no *_fuzz program: libFuzzer needs clang and -DCAIRN_FUZZ=ON")
    failed = []
    for program in programs:
        target = program.name.removesuffix("_fuzz").split("_", 1)[1]
        kept = ROOT / "testdata/fuzz" / target
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as corpus:
            print(f"== {program.name}, {args.seconds} s", flush=True)
            code = subprocess.run(
                env={**os.environ, "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"},
                args=[program, f"-max_total_time={args.seconds}", "-rss_limit_mb=2048", "-timeout=10",
                 "-print_final_stats=1", "-verbosity=0", f"-artifact_prefix={kept}/", corpus, kept,
                 ROOT / "testdata/format/v1"]).returncode
        if code != 0:
            failed.append(program.name)
    print(f"{len(programs) - len(failed)} passed, {len(failed)} failed {' '.join(failed)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

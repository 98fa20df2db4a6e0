#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run every test of a built tree: the GoogleTest programs through ctest, then tests/e2e with the
release command. Ends with one line that counts both."""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run_ctest(build: pathlib.Path) -> tuple[int, int]:
    """Return (passed, failed) programs."""
    output = subprocess.run(
        ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "-j", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    print(output)
    match = re.search(r"(\d+) tests? failed out of (\d+)", output)
    if not match:
        return 0, 1
    return int(match[2]) - int(match[1]), int(match[1])


def run_golden_readers() -> tuple[int, int]:
    """Open the frozen Arrow files with pyarrow and Polars."""
    code = subprocess.run([sys.executable, ROOT / "tests/golden/read_with_pyarrow.py",
                           ROOT / "testdata/format/v1"]).returncode
    return (1, 0) if code == 0 else (0, 1)


def run_verbs(verbs: list[str]) -> tuple[int, int]:
    """Run verbs of ./dev that have builds of their own."""
    failed = [verb for verb in verbs
              if subprocess.run([ROOT / "dev", *verb.split()]).returncode != 0]
    return len(verbs) - len(failed), len(failed)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", help="run only the e2e modules that match this pattern")
    args = parser.parse_args()
    start = time.monotonic()
    os.environ["CAIRN"] = str((args.build / "bin/cairn").resolve())
    if args.long:
        os.environ["CAIRN_LONG"] = "1"

    passed, failed = (0, 0) if args.only else run_ctest(args.build)
    if not args.only:
        golden_passed, golden_failed = run_golden_readers()
        passed, failed = passed + golden_passed, failed + golden_failed

    sys.path.insert(0, str(ROOT / "tests/e2e"))
    pattern = f"*{args.only}*_test.py" if args.only else "*_test.py"
    suite = unittest.defaultTestLoader.discover(str(ROOT / "tests/e2e"), pattern=pattern)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    broken = len(result.failures) + len(result.errors)
    passed += result.testsRun - broken - len(result.skipped)
    failed += broken

    if args.long and not args.only:
        more_passed, more_failed = run_verbs(["test --tsan", "test --asan", "fuzz --seconds 60"])
        passed, failed = passed + more_passed, failed + more_failed
    print(f"took {time.monotonic() - start:.0f} s", file=sys.stderr)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or passed == 0 else 0)


if __name__ == "__main__":
    main()

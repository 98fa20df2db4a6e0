#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that every test that docs/behaviours.md names exists: `Suite.Name`, `Suite.*`, `x_test.py` and
`x_test.py: test_or_class`."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def gtests() -> set[str]:
    found = set()
    for folder in ("src", "tests"):
        for path in (ROOT / folder).rglob("*_test.c*"):
            text = path.read_text()
            found |= {".".join(name) for name in
                      re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", text, re.M)}
    return found


def python_names(module: str) -> set[str]:
    path = ROOT / "tests/e2e" / module
    return set(re.findall(r"^\s*(?:def|class) (\w+)", path.read_text(), re.M)) if path.exists() else set()


def main() -> None:
    tests = gtests()
    missing = []
    for name in re.findall(r"`([^`]+)`", (ROOT / "docs/behaviours.md").read_text()):
        if match := re.fullmatch(r"(\w+_test\.py)(?:: (\w+))?", name):
            names = python_names(match[1])
            if not names or (match[2] and match[2] not in names):
                missing.append(name)
        elif match := re.fullmatch(r"([A-Z]\w+)\.(\w+|\*)", name):
            suite, test = match.groups()
            if not any(t.startswith(suite + ".") if test == "*" else t == name for t in tests):
                missing.append(name)
    for name in missing:
        print(f"docs/behaviours.md names {name}, which is no test")
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()

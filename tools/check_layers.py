#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fail when a folder includes upward: the table in docs/architecture.md is the rule.

The table is read from the page itself, so that the picture and the check cannot differ. A second
table there says which folders may include which third-party headers.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TABLE_ROW = re.compile(r"^\|\s*`([^`]+)`\s*\|([^|]*)\|")


def read_table(page: str, heading: str) -> dict[str, set[str]]:
    rows: dict[str, set[str]] = {}
    inside = False
    for line in page.splitlines():
        if line.startswith("#"):
            inside = heading in line
        match = TABLE_ROW.match(line)
        if inside and match:
            rows[match[1]] = set(re.findall(r"`([^`]+)`", match[2]))
    if not rows:
        sys.exit(f"check_layers: docs/architecture.md has no table under '{heading}'")
    return rows


def folder_of(path: pathlib.Path) -> str:
    parts = path.relative_to(ROOT).parts
    return "include" if parts[0] == "include" else parts[1]


def violations(root: pathlib.Path, layers: dict[str, set[str]], owners: dict[str, set[str]]):
    modules = set(layers)
    for path in sorted([*root.glob("src/**/*.cc"), *root.glob("src/**/*.h"),
                        *root.glob("include/**/*.h")]):
        folder = folder_of(path)
        if folder not in modules:
            yield f"{path.relative_to(root)}: folder '{folder}' is not in the layer table"
            continue
        test = path.name.endswith("_test.cc")
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            where = f"{path.relative_to(root)}:{number}"
            top = match[2].split("/")[0]
            if match[1] == '"':
                target = "include" if top == "cairn" else top
                if target not in modules:
                    yield f"{where}: \"{match[2]}\" is in no known folder"
                elif target != folder and target not in layers[folder]:
                    yield f"{where}: {folder} may not include {target} ({match[2]})"
            elif not test:
                for prefix, allowed in owners.items():
                    if match[2].startswith(prefix) and folder not in allowed:
                        yield f"{where}: {folder} may not include <{match[2]}>"


def main() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    found = list(violations(ROOT, read_table(page, "Direction"), read_table(page, "Third party")))
    for line in found:
        print(line)
    if found:
        sys.exit(f"check_layers: {len(found)} includes against the direction")
    print("check_layers: every include points downward")


if __name__ == "__main__":
    main()

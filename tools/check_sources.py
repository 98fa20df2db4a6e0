#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fail on what every source file must have or must not have; tools/ratchet.txt lists exceptions.

Rules: an SPDX line at the top; at most 1,000 lines a file, an aim of 600 kept by the ratchet (a
listed file may only shrink); functions to 70 lines in the same way; no vague names; every relative
link of a Markdown page leads somewhere.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = {".cc", ".h", ".py", ".cmake", ".c"}
VAGUE = re.compile(r"(^|_)(util|utils|helper|helpers|manager|common|misc)(_|\.|$)")
FILE_AIM, FILE_HARD, FUNCTION_AIM = 600, 1000, 70
OPENING = re.compile(r"^( {0,4})(?!namespace|struct|class|enum|union|extern)\S.*\) ?(const|noexcept|override| )*\{$"
                     r"|^( {0,4})\S.*\)( const| noexcept| override| mutable)*( ->.*)? \{$")


def tracked() -> list[pathlib.Path]:
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split("\n")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def long_functions(path: pathlib.Path, lines: list[str]):
    """Name (by line) each function of a formatted C++ file longer than the aim."""
    start, indent = None, ""
    for number, line in enumerate(lines, 1):
        if start is None:
            match = OPENING.match(line)
            if match and not re.match(r"\s*(if|for|while|switch|else|namespace|class|struct|TEST)\b", line):
                # A signature of several lines closes at the indent of its first.
                start, text = number, line
                while text.count(")") > text.count("(") and start > 1:
                    start -= 1
                    text = lines[start - 1] + text
                indent = re.match(r" *", lines[start - 1])[0]
        elif line.rstrip() in (indent + "}", indent + "};"):
            if number - start + 1 > FUNCTION_AIM:
                name = re.search(r"([\w:~]+)\(", lines[start - 1])
                yield (name[1] if name else f"line{start}"), number - start + 1
            start = None


def measure(files: list[pathlib.Path]) -> tuple[list[str], dict[str, int]]:
    errors, sizes = [], {}
    for path in files:
        name = str(path.relative_to(ROOT))
        if path.suffix not in CODE and path.name not in ("dev", "CMakeLists.txt", "run"):
            continue
        if name.startswith("testdata/"):
            continue
        lines = path.read_text().splitlines()
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
            errors.append(f"{name}: no SPDX-License-Identifier line at the top")
        if VAGUE.search(path.name):
            errors.append(f"{name}: a name that says nothing (util, helper, manager, common)")
        if len(lines) > FILE_HARD:
            errors.append(f"{name}: {len(lines)} lines; {FILE_HARD} at most")
        elif len(lines) > FILE_AIM:
            sizes[name] = len(lines)
        if path.suffix in (".cc", ".h"):
            for function, size in long_functions(path, lines):
                sizes[f"{name}:{function}"] = size
    return errors, sizes


def dead_links(files: list[pathlib.Path]):
    for path in files:
        if path.suffix != ".md":
            continue
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
            if "://" not in target and not (path.parent / target).exists():
                yield f"{path.relative_to(ROOT)}: dead link {target}"


def main() -> None:
    files = tracked()
    errors, sizes = measure(files)
    errors += dead_links(files)
    ratchet_file = ROOT / "tools/ratchet.txt"
    if "--update" in sys.argv:
        ratchet_file.write_text("".join(f"{size} {name}\n" for name, size in sorted(sizes.items())))
    allowed = {}
    for line in ratchet_file.read_text().splitlines():
        size, name = line.split(" ", 1)
        allowed[name] = int(size)
    for name, size in sorted(sizes.items()):
        if size > allowed.get(name, 0):
            errors.append(f"{name}: {size} lines, {allowed.get(name, 'none')} allowed (tools/ratchet.txt)")
    for line in errors:
        print(line)
    if errors:
        sys.exit(f"check_sources: {len(errors)} findings")
    print(f"check_sources: {len(files)} files, {len(sizes)} on the ratchet")


if __name__ == "__main__":
    main()

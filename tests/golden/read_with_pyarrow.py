#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Open the golden Arrow files with pyarrow and Polars, without code of Cairn, and check what is in
them, down to the bytes of each frame.

usage: read_with_pyarrow.py DIR      (a Python that has pyarrow and polars runs it)
"""
import pathlib
import struct
import sys

import polars
import pyarrow
import pyarrow.ipc

COUNTS = [(b"\x07counts|", 2, 200), (b"\x24counts|", 1, 100), (b"\x62counts|", 7, 700),
          (b"\x62counts|", 7 + (1 << 40), 701)]


def fnv1a64(data: bytes) -> int:
    state = 0xcbf29ce484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001b3 % 2**64
    return state


def expect(what: str, got, wanted) -> None:
    if got != wanted:
        sys.exit(f"{what}: got {got!r}, wanted {wanted!r}")


def check_object(path: pathlib.Path, rows: list[tuple], tags: list[str], with_kind: bool) -> None:
    with pyarrow.ipc.open_file(path) as file:
        names = (["row_kind"] if with_kind else []) + ["op_id", "key_bytes", "value_bytes"]
        expect(f"{path.name}: columns", file.schema.names, names)
        expect(f"{path.name}: nullable", [f.nullable for f in file.schema], [False] * len(names))
        metadata = {k.decode(): v.decode() for k, v in file.schema.metadata.items()}
        expect(f"{path.name}: metadata", metadata, {
            "cairn.format_version": "1", "cairn.key_groups": "128", "cairn.key_layout": "1",
            "cairn.slot_hash": "xxh3-64", "cairn.slot_hash_seed": "0123456789abcdef",
            "cairn.state_versions": f"{fnv1a64(b'out/count/0')}|row|1|counts"})
        found = []
        for i in range(file.num_record_batches):
            found.append(file.get_batch_with_custom_metadata(i)[1][b"cairn.frame"].decode())
        expect(f"{path.name}: frame tags", found, tags)
        table = file.read_all()
    table.validate(full=True)
    got = list(zip(*(table[name].to_pylist() for name in names)))
    expect(f"{path.name}: rows", got, rows)
    by_polars = polars.read_ipc(path)
    expect(f"{path.name}: rows by polars", by_polars.rows(), rows)


def check_snapshot(path: pathlib.Path) -> None:
    data = path.read_bytes()
    expect("snapshot: length", len(data), 704)
    expect("snapshot: schema message", struct.unpack_from("<II", data, 0), (0xffffffff, 0x120))
    expect("snapshot: batch message", struct.unpack_from("<II", data, 0x128), (0xffffffff, 0x108))
    expect("snapshot: end", data[0x2b8:], b"\xff\xff\xff\xff\0\0\0\0")
    with pyarrow.ipc.open_stream(path) as stream:
        expect("snapshot: metadata", stream.schema.metadata, {b"clink.format_version": b"1"})
        table = stream.read_all()
    wanted = [{"op_id": 42, "key_bytes": prefix + struct.pack("<q", key),
               "value_bytes": struct.pack("<q", count)}
              for prefix, key, count in (COUNTS[1], COUNTS[0], COUNTS[2])]
    expect("snapshot: rows", table.to_pylist(), wanted)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    directory = pathlib.Path(sys.argv[1])
    count, top = fnv1a64(b"out/count/0"), fnv1a64(b"out/top/0")

    def tag(kind, op, first, last, base, part, end) -> str:
        return f"v1 {kind} {op:016x} {first:04x}-{last:04x} {base} {7:016x} {part:08x} {end}"

    rows = [(count, prefix + struct.pack("<q", key), struct.pack("<q", value))
            for prefix, key, value in COUNTS] + [(top, b"\xffoffsets|split-0", b"17")]
    check_object(directory / "state.arrow", rows,
                 [tag("K", count, 7, 36, "B", 0, "L"), tag("K", count, 98, 98, "B", 0, "+"),
                  tag("K", count, 98, 98, "B", 1, "L"), tag("S", top, 1, 1, "B", 0, "L")], False)
    check_object(directory / "state-delta.arrow",
                 [(1, count, b"\x07counts|" + struct.pack("<q", 2), struct.pack("<q", 201)),
                  (2, count, b"\x24counts|" + struct.pack("<q", 1), b"")],
                 [tag("K", count, 7, 36, "D", 0, "L")], True)
    check_snapshot(directory / "snapshot-v1.snap")
    print(f"golden Arrow files read by pyarrow {pyarrow.__version__} and polars "
          f"{polars.__version__}: ok")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compose golden interchange snapshots byte by byte, from docs/formats/canonical-stream.md and the
Arrow columnar format alone: no Arrow, no FlatBuffers library, nothing of Cairn.

Writes what is missing, changes nothing that is there.

usage: make_snapshots.py DIR
"""
import pathlib
import struct
import sys

INT, BINARY = 2, 4  # members of Arrow's Type union
SCHEMA, RECORD_BATCH = 1, 3  # and of MessageHeader


class Table:
    """A FlatBuffers table: fields by slot number, each ("b"|"h"|"i"|"q", number) or a child."""

    def __init__(self, fields: dict):
        self.fields = fields


class Flat:
    """A FlatBuffers buffer written front to back; offsets to children are filled in as they come."""

    def __init__(self, root: Table):
        self.out = bytearray(4)
        struct.pack_into("<I", self.out, 0, self.table(root))

    def pad(self, boundary: int, shift: int = 0) -> None:
        while (len(self.out) + shift) % boundary:
            self.out.append(0)

    def table(self, table: Table) -> int:
        width = {"b": 1, "h": 2, "i": 4, "q": 8}
        sized = sorted(table.fields.items(), key=lambda item: -width.get(item[1][0], 4)
                       if isinstance(item[1], tuple) else -4)
        places, at = {}, 4
        for slot, value in sized:
            places[slot] = at
            at += width[value[0]] if isinstance(value, tuple) else 4
        slots = max(table.fields, default=-1) + 1
        self.pad(2)
        # The table begins so that its first field, the widest, lies on 8 bytes.
        vtable_bytes = 4 + 2 * slots
        self.pad(8, shift=vtable_bytes + 4)
        vtable = len(self.out)
        self.out += struct.pack("<HH", vtable_bytes, at)
        self.out += b"".join(struct.pack("<H", places.get(slot, 0)) for slot in range(slots))
        begin = len(self.out)
        self.out += bytes(at)
        struct.pack_into("<i", self.out, begin, begin - vtable)
        for slot, value in sized:
            if isinstance(value, tuple):
                struct.pack_into("<" + value[0], self.out, begin + places[slot], value[1])
        for slot, value in sized:
            if not isinstance(value, tuple):
                place = begin + places[slot]
                struct.pack_into("<I", self.out, place, self.child(value) - place)
        return begin

    def child(self, value) -> int:
        if isinstance(value, Table):
            return self.table(value)
        if isinstance(value, str):
            self.pad(4)
            at = len(self.out)
            self.out += struct.pack("<I", len(value.encode())) + value.encode() + b"\0"
            return at
        if isinstance(value, bytes):  # a vector of structs of two int64
            self.pad(8, shift=4)
            at = len(self.out)
            self.out += struct.pack("<I", len(value) // 16) + value
            return at
        self.pad(4)
        at = len(self.out)
        self.out += struct.pack("<I", len(value)) + bytes(4 * len(value))
        for i, element in enumerate(value):
            place = at + 4 + 4 * i
            struct.pack_into("<I", self.out, place, self.child(element) - place)
        return at


def message(header_type: int, header: Table, body: bytes = b"") -> bytes:
    flat = Flat(Table({0: ("h", 4), 1: ("b", header_type), 2: header, 3: ("q", len(body))}))
    flat.pad(8)
    return b"\xff\xff\xff\xff" + struct.pack("<I", len(flat.out)) + bytes(flat.out) + body


def field(name: str, kind: int, details: Table) -> Table:
    return Table({0: name, 2: ("b", kind), 3: details, 5: []})


def schema(metadata: dict, with_kind: bool) -> bytes:
    def integer(bits: int) -> Table:
        return Table({0: ("i", bits), 1: ("b", 0)})
    fields = [field("row_kind", INT, integer(8))] if with_kind else []
    fields += [field("op_id", INT, integer(64)), field("key_bytes", BINARY, Table({})),
               field("value_bytes", BINARY, Table({}))]
    header = {1: fields}
    if metadata:
        header[2] = [Table({0: key, 1: value}) for key, value in metadata.items()]
    return message(SCHEMA, Table(header))


def batch(rows: list, with_kind: bool) -> bytes:
    """rows of (kind, op, key, value)"""
    buffers = []
    def add(data: bytes) -> None:
        offset = sum(len(one) for one, _ in buffers)
        buffers.append((data + bytes(-len(data) % 8), (offset, len(data))))
    def binary(values: list) -> None:
        offsets = [0]
        for value in values:
            offsets.append(offsets[-1] + len(value))
        add(b"")
        add(b"".join(struct.pack("<i", offset) for offset in offsets))
        add(b"".join(values))
    if with_kind:
        add(b"")
        add(bytes(row[0] for row in rows))
    add(b"")
    add(b"".join(struct.pack("<Q", row[1]) for row in rows))
    binary([row[2] for row in rows])
    binary([row[3] for row in rows])
    nodes = struct.pack("<qq", len(rows), 0) * (4 if with_kind else 3)
    places = b"".join(struct.pack("<qq", *place) for _, place in buffers)
    return message(RECORD_BATCH, Table({0: ("q", len(rows)), 1: nodes, 2: places}),
                   b"".join(data for data, _ in buffers))


END = b"\xff\xff\xff\xff\0\0\0\0"


def le64(value: int) -> bytes:
    return struct.pack("<q", value)


def stamps() -> bytes:
    """Version lines of three and four fields, keys of the future, three batches (one of them empty),
    a row with TTL, operator state of 8 bytes that comes twice."""
    metadata = {"a_key_from_the_future": "7", "clink.format_version": "1",
                "clink.state_versions": "7|session|3\n42|count|2|counts"}
    first = [(0, 42, b"\x24counts|" + le64(1), le64(100)),
             (0, 42, b"\xff__file_source_offset__", le64(17))]
    last = [(0, 7, b"\x07ttl|" + le64(2), le64(1_700_000_000_000) + b"value"),
            (0, 42, b"\xff__file_source_offset__", le64(9)),
            (0, 42, b"\x24counts|" + le64(1), le64(101))]
    return (schema(metadata, False) + batch(first, False) + batch([], False) + batch(last, False)
            + END)


def changelog() -> bytes:
    """A materialisation of one snapshot, then puts and erases over it."""
    inner = (schema({"clink.format_version": "1"}, False) +
             batch([(0, 42, b"\x24counts|" + le64(1), le64(100)),
                    (0, 42, b"\x07counts|" + le64(2), le64(200))], False) + END)
    rows = [(0, 0, b"", inner), (1, 42, b"\x62counts|" + le64(7), le64(700)),
            (2, 42, b"\x07counts|" + le64(2), b""), (1, 42, b"\x24counts|" + le64(1), le64(101))]
    return schema({}, True) + batch(rows, True) + END


def main() -> None:
    directory = pathlib.Path(sys.argv[1])
    for name, make in (("snapshot-stamps.snap", stamps), ("snapshot-changelog.snap", changelog)):
        path = directory / name
        if not path.exists():
            path.write_bytes(make())


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compose the golden files of format version 1 that need no Arrow, from docs/formats alone.

Nothing of Cairn is used here, so that the files check Cairn's writers and not themselves. A file that
exists is never changed: a frozen format gets new files only.

usage: make_v1.py DIR
"""
import hashlib
import json
import pathlib
import struct
import sys


def canonical(value) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def length_prefixed(part: bytes) -> bytes:
    return struct.pack("<Q", len(part)) + part


def optional_digest(domain: bytes, value: bytes | None) -> str:
    body = b"\0" if value is None else b"\1" + length_prefixed(value)
    return hashlib.sha256(length_prefixed(domain) + body).hexdigest()


def descriptor_digest(value: bytes | None) -> str:
    return optional_digest(b"cairn/prepared-sink-descriptor/v1", value)


def intent_digest(value: bytes | None) -> str:
    return optional_digest(b"cairn/sink-artifact-intent/v1", value)


def fnv1a64(data: bytes) -> int:
    state = 0xcbf29ce484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001b3 % 2**64
    return state


def operator_id(uid: str) -> str:
    return f"{fnv1a64(uid.encode()):016x}"


def filled(byte: int) -> str:
    return bytes([byte] * 32).hex()


def object_digest(pieces: list[str]) -> str:
    """Digest of an object from the hex digests of prefix, frames by offset and suffix."""
    hashed = length_prefixed(b"cairn/object-digest/v1")
    hashed += b"".join(length_prefixed(bytes.fromhex(piece)) for piece in pieces)
    return hashlib.sha256(hashed).hexdigest()


def keys() -> bytes:
    """Lines: key groups, slot, user key, its group, stored key (bytes in hex)."""
    lines = []
    for groups in (1, 128, 129, 1000, 32768):
        for slot, user_key in (("counts", struct.pack("<q", 1)), ("counts", b""),
                               ("zähler", b"alpha"), ("s", b"a|b\0\n\xff")):
            group = fnv1a64(user_key) % groups
            prefix = struct.pack(">B" if groups <= 128 else ">H", group)
            stored = prefix + slot.encode() + b"|" + user_key
            lines.append(f"{groups} {slot.encode().hex()} {user_key.hex() or '-'} {group} {stored.hex()}")
    return "\n".join(lines).encode() + b"\n"


def rows() -> bytes:
    """The three rows of one column of every type, in hex (docs/formats/row-codec.md)."""
    def nullable(value: bytes | None) -> bytes:
        return b"\0" if value is None else b"\1" + value

    def text(value: bytes) -> bytes:
        return struct.pack("<I", len(value)) + value

    def decimal(value: int) -> bytes:
        return value.to_bytes(16, "little", signed=True)

    q, i, d = (lambda f: lambda v: struct.pack(f, v))("<q"), lambda v: struct.pack("<i", v), \
        lambda v: struct.pack("<d", v)
    table = [
        (q(1), nullable(i(7)), d(0.5), nullable(b"\1"), nullable(q(1_700_000_000_000_000)),
         i(19_000), nullable(decimal(12345)), nullable(text("grün".encode())), text(b"\0\xff")),
        (q(-2), nullable(None), d(-0.0), nullable(b"\0"), nullable(None),
         i(0), nullable(decimal(-1)), nullable(None), text(b"")),
        (q(2**63 - 1), nullable(i(-7)), d(1e300), nullable(None), nullable(q(-1)),
         i(-1), nullable(None), nullable(text(b"")), text(b"x")),
    ]
    return "\n".join(b"".join(row).hex() for row in table).encode() + b"\n"


OWN, FIVE, SEVEN = ({"participant_id": 1, "checkpoint_id": n} for n in (9, 5, 7))
COUNT, TOP = operator_id("out/count/0"), operator_id("out/top/0")


def section(offset: int, length: int, digest: int) -> dict:
    return {"range": {"offset": offset, "length": length}, "sha256": filled(digest)}


def frame(kind, op, first, last, delta, chunk, offset, length, digest) -> dict:
    return {"key": {"kind": kind, "operator_id": op, "first_key_group": first,
                    "last_key_group": last},
            "type": "delta" if delta else "base", "chunk": chunk, "parts": 1, "entry_count": 10,
            "crc32c": digest * 1000, **section(offset, length, digest)}


def prepared(checkpoint: int, subtask: int, value: bytes | None, digest) -> dict:
    return {"sink_name": "out", "checkpoint_id": checkpoint, "subtask": subtask,
            "format_version": 1, "has_payload": value is not None, "sha256": digest(value)}


def segment(partition, origin, first, end, length, digest, event_time=None) -> dict:
    value = {"partition": partition, "origin": origin, "first": first, "end": end,
             "object_length": length, "sha256": filled(digest)}
    if event_time:
        value["event_time"] = {"min": event_time[0], "max": event_time[1]}
    return value


def slot(name, kind, key_codec, value_codec, version, key_columns=(), value_columns=(),
         frame_per_group=False, **ttl) -> dict:
    def columns(of):
        return [{"name": n, "type": t, "nullable": null} for n, t, null in of]
    return {"name": name, "kind": kind, "key_codec": key_codec, "value_codec": value_codec,
            "version": version, "key_columns": columns(key_columns),
            "value_columns": columns(value_columns), "frame_per_group": frame_per_group, **ttl}


def operators(frames: list[dict]) -> list[dict]:
    slots = {
        "out/count/0": [slot("counts", "keyed_value", "row", "row", 1,
                             [("auction", "bigint", False)],
                             [("count", "bigint", False), ("avg", "decimal(38,2)", True)],
                             ttl_ms=3_600_000)],
        "out/top/0": [slot("offsets", "operator_value", "bytes", "bytes", 3),
                      slot("rows", "keyed_value", "row", "topn", 2, frame_per_group=True)],
    }
    records = []
    for uid in slots:
        mine = [f for f in frames if f["key"]["operator_id"] == operator_id(uid)]
        records.append({"operator_id": operator_id(uid), "uid": uid, "slots": slots[uid],
                        "frames": len(mine), "entries": sum(f["entry_count"] for f in mine),
                        "bytes": sum(f["range"]["length"] for f in mine)})
    return sorted(records, key=lambda r: r["operator_id"])


def manifest() -> bytes:
    frames = [  # by kind (meta, state, keyed), operator, base before delta, object, groups
        frame("operator_meta", TOP, 0, 0, False, OWN, 2400, 400, 10),
        frame("operator_state", TOP, 0, 0, False, OWN, 2000, 400, 8),
        frame("operator_state", TOP, 1, 1, False, FIVE, 1512, 400, 9),
        frame("keyed", COUNT, 0, 63, False, FIVE, 512, 1000, 3),
        frame("keyed", COUNT, 64, 127, False, OWN, 512, 800, 4),
        frame("keyed", COUNT, 0, 31, True, SEVEN, 512, 300, 5),
        frame("keyed", COUNT, 32, 40, True, SEVEN, 812, 300, 6),
        frame("keyed", COUNT, 0, 63, True, OWN, 1312, 688, 7),
    ]
    pieces = [filled(n) for n in (1, 4, 7, 8, 10, 30, 31, 2)]  # by offset
    channel = {"participant_id": 1, "idle": False}
    return canonical({
        "format": "cairn-manifest", "version": 1,
        "checkpoint_id": 9, "epoch": 9, "timestamp_ms": 1_700_000_000_123, "participant_id": 1,
        "attempt_id": "018bcfe5-687b-7000-8000-000000000001",
        "deployment_id": "018bcfe5-687b-7000-8000-000000000002",
        "pipeline_identity": {"canonical_version": 1, "sha256": filled(0x11)},
        "partitioning_abi": 1, "key_groups": 128, "parallelism": 2,
        "slot_hash": {"function": "xxh3-64", "seed": "0123456789abcdef"},
        "base_checkpoint_id": 7,
        "operators": operators(frames),
        "node_data": {"chunk": OWN, "object_length": 4000, "sha256": object_digest(pieces),
                      "prefix": section(0, 512, 1), "suffix": section(3600, 400, 2)},
        "state_frames": frames,
        "referenced_chunks": [
            {"chunk": FIVE, "object_length": 2400, "sha256": filled(20), "ref_count": 2},
            {"chunk": SEVEN, "object_length": 1600, "sha256": filled(21), "ref_count": 2}],
        "source_names": ["bid", "rates"], "ended_sources": ["rates"],
        "source_offsets": {
            "bid": {"offsets": {"bids.ndjson#0": {"position": '{"offset":1024,"rows":7}',
                                                  "ended": False},
                                "bids.ndjson#1": {"position": "", "ended": False}},
                    "metadata": {"format": "ndjson"},
                    "input_channels": [b"c0".hex(), b"c1".hex()]},
            "rates": {"offsets": {"rates.csv": {"position": '{"offset":99}', "ended": True}},
                      "metadata": {}, "input_channels": []}},
        "channel_progress": [
            {**channel, "source_name": "bid", "input_channel": b"c0".hex(), "watermark": 5000},
            {**channel, "source_name": "bid", "input_channel": b"c1".hex(), "watermark": -3},
            {**channel, "source_name": "rates", "input_channel": "00", "idle": True}],
        "checkpoint_watermark": -3,
        "sink_names": ["blackhole", "out"],
        "prepared_sinks": [prepared(8, 0, b"files: a", descriptor_digest),
                           prepared(9, 0, b"", descriptor_digest),
                           prepared(9, 1, None, descriptor_digest)],
        "prepared_sink_frame": {"parts": 1, "entry_count": 2, "crc32c": 77,
                                **section(2800, 400, 30)},
        "sink_artifact_intents": [prepared(8, 0, None, intent_digest),
                                  prepared(9, 0, None, intent_digest),
                                  prepared(9, 1, b"dir", intent_digest)],
        "sink_intent_frame": {"parts": 1, "entry_count": 1, "crc32c": 78,
                              **section(3200, 400, 31)},
        "view_logs": [{
            "view": "top10", "generation": "018bcfe5-687b-7000-8000-000000000003",
            "schema_sha256": filled(40), "partitions": 2,
            "segments": [segment(0, 5, 0, 100, 4096, 41, (-5, 5)),
                         segment(0, 9, 100, 150, 2048, 42),
                         segment(1, 7, 40, 60, 1024, 43, (7, 7))]}],
    })


def head() -> bytes:
    def cut(number: int) -> dict:
        return {"id": number, "manifest_sha256": filled(number), "manifest_length": number * 100,
                "exactly_once_output": number % 2 == 1}
    return canonical({
        "version": 1, "deployment_id": "018bcfe5-687b-7000-8000-000000000002", "seq": 12,
        "latest_commit": cut(9), "retained": [cut(7), cut(5)], "floor": 5, "next_id": 65537,
        "pins": [{"kind": "export", "name": "e1", "checkpoint_id": 7},
                 {"kind": "savepoint", "name": "before-upgrade", "checkpoint_id": 5}]})


def store_format() -> bytes:
    return canonical({"format": 1, "profile": "local", "durability": "full",
                      "partitioning_abi": 1, "key_groups": 128})


def identity() -> bytes:
    return canonical({"version": 1, "deployment_id": "018bcfe5-687b-7000-8000-000000000002",
                      "created_ms": 1_700_000_000_000, "pipeline_name": "top \"ten\" für alle",
                      "slot_hash": {"function": "xxh3-64", "seed": "0123456789abcdef"}})


def sidecar() -> bytes:
    """For snapshot-v1.snap; its CRC-32C is computed here bit by bit."""
    payload = pathlib.Path(sys.argv[1], "snapshot-v1.snap").read_bytes()
    crc = 0xffffffff
    for byte in payload:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return (f"clink_checkpoint_meta=1\ncheckpoint_id=1\npayload_bytes={len(payload)}\n"
            f"payload_crc32c={crc ^ 0xffffffff}\n").encode()


FILES = {"keys.txt": keys, "rows.txt": rows, "manifest.json": manifest,
         "decision-head.json": head, "FORMAT": store_format, "identity.json": identity,
         "snapshot-v1.snap.meta": sidecar}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, make in FILES.items():
        path = pathlib.Path(sys.argv[1], name)
        if path.exists():
            same = path.read_bytes() == make()
            print(f"{name}: kept{'' if same else ', DIFFERS from what this script makes'}")
            continue
        path.write_bytes(make())
        print(f"{name}: written")


if __name__ == "__main__":
    main()

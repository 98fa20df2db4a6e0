#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compose checkpoints as the writers before Cairn made them, from docs/formats/whole-checkpoint.md and
docs/formats/partition-manifest.md alone: whole checkpoints with a manifest of version 1, and a manifest of
one object a partition whose paths lack slashes.

Nothing of Cairn is used here. A file that exists is never changed.

usage: make_earlier_manifests.py DIR
"""
import base64
import hashlib
import json
import pathlib
import sys

AGG = bytes(range(256))
JOIN = b""
SIDECAR = b"".join(bytes([i % 251]) for i in range(3000))
UUID = "018f3c2a-7b00-7000-8000-00000000002a"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def inline(data: bytes) -> dict:
    return {"state_b64": b64(data), "external": False, "external_offset": 0, "external_length": 0}


def external(offset: int, length: int) -> dict:
    return {"state_b64": None, "external": True, "external_offset": offset,
            "external_length": length}


def inline_checksum(states: dict) -> str:
    hashed = b"".join(name.encode() + b"\0" + states[name]["state_b64"].encode() + b"\0"
                      for name in sorted(states) if states[name]["state_b64"] is not None)
    return sha256(hashed)


def manifest(checkpoint_id: int, states: dict, checksum) -> dict:
    return {
        "version": 1, "checkpoint_id": checkpoint_id, "epoch": checkpoint_id + 100,
        "timestamp_ms": 1_700_000_000_000 + checkpoint_id,
        "source_offsets": {
            "orders": {"offsets": {"partition-0": "1234", "partition-1": "5678"}, "epoch": 107,
                       "metadata": {"topic": "orders"}},
            "users": {"offsets": {"lsn": "0/1234ABCD"}, "epoch": 107, "metadata": {}}},
        "sink_epochs": {"out": 107, "audit": 106, "lake": 107},
        "sink_commit_statuses": {"out": "Pending", "audit": "Committed",
                                 "lake": {"Failed": "no such table"}},
        "table_offsets": {"rates": {"offsets": {"gtid_set": "a-b:1-5"}, "epoch": 100,
                                    "metadata": {"kind": "mysql"}}},
        "operator_states": states,
        "table_store_checkpoint_path": "/var/lib/tables/7",
        "watermark": -5, "source_watermarks": {"orders": 1_699_999_999_000, "users": -5},
        "source_names": ["orders", "users"], "sink_names": ["audit", "lake", "out"],
        "pipeline_hash": 18_446_744_073_709_551_557, "vnode_count": 256,
        "size_bytes": 0, "is_incremental": False, "parent_id": None, "inflight_data": {},
        "state_checksum": checksum}


def pretty(value) -> bytes:
    return json.dumps(value, indent=2).encode()


def whole_files() -> dict[str, bytes]:
    in_manifest = {"agg": inline(AGG), "join": inline(JOIN)}
    in_sidecar = {"agg": external(0, 1000), "join": external(1000, 2000)}
    in_both = {"agg": inline(AGG), "join": external(500, 1500)}
    return {
        "whole-v1-inline.json": pretty(manifest(7, in_manifest, inline_checksum(in_manifest))),
        "whole-v1-sidecar.json": pretty(manifest(8, in_sidecar, sha256(SIDECAR))),
        "whole-v1-both.json": pretty(manifest(
            9, in_both, sha256(inline_checksum(in_both).encode() + SIDECAR))),
        # Of an early writer: no fields but the first, no checksum, no number of key groups.
        "whole-v1-early.json": pretty({
            "version": 1, "checkpoint_id": 6, "epoch": 6, "timestamp_ms": 1,
            "operator_states": {"agg": {"state_b64": b64(AGG)}}}),
        "whole-v1-state.bin": SIDECAR,
    }


def partition_files() -> dict[str, bytes]:
    entry = {"partition_id": 0, "is_delta": False,
             "path": f"checkpoints/{UUID}operators/agg/partition-0.snap", "size_bytes": len(AGG),
             "sha256": sha256(AGG)}
    early = {"partition_id": 3, "is_delta": False, "path": "operators/agg/partition-3.snap",
             "size_bytes": len(SIDECAR), "sha256": None}
    return {
        "partition-v2.json": pretty({
            "version": 2, "checkpoint_id": UUID, "epoch": 42, "timestamp_ms": 1_700_000_000_042,
            "operators": {"agg": {"partitions": [early, entry],
                                  "total_bytes": len(AGG) + len(SIDECAR)}},
            "source_offsets": {"orders": {"source_type": "kafka",
                                          "offsets": {"partition-0": "1234"}, "epoch": 42}},
            "parent_id": None, "watermark": 5000, "total_size_bytes": len(AGG) + len(SIDECAR)}),
        "partition-v2-early.json": pretty({
            "version": 2, "checkpoint_id": UUID, "epoch": 1, "timestamp_ms": 1000}),
    }


def main() -> None:
    directory = pathlib.Path(sys.argv[1])
    for name, data in {**whole_files(), **partition_files()}.items():
        if not (directory / name).exists():
            (directory / name).write_bytes(data)


if __name__ == "__main__":
    main()

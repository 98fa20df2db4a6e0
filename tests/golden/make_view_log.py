#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compose the golden segment of a view log with pyarrow, from docs/formats/view-log.md alone.

Nothing of Cairn is used here. A file that exists is never changed.

usage: make_view_log.py DIR      (a Python that has pyarrow runs it)
"""
import pathlib
import sys

import pyarrow as pa

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("who", pa.string()),
     pa.field("at", pa.timestamp("us"))],
    metadata={"cairn.view_log.version": "1", "cairn.view_log.view": "orders",
              "cairn.view_log.generation": "018f0000-0000-7000-8000-000000000001",
              "cairn.view_log.partition": "2", "cairn.view_log.first": "40",
              "cairn.view_log.event_time": "at"})


def main() -> None:
    path = pathlib.Path(sys.argv[1]) / "view-log-segment.arrow"
    if path.exists():
        return
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_batch(pa.record_batch(
            [pa.array([1, 2]), pa.array(["ann", None]),
             pa.array([1_500_000, 2_000_999], pa.timestamp("us"))], schema=SCHEMA))
        writer.write_batch(pa.record_batch(
            [pa.array([3]), pa.array([""]), pa.array([None], pa.timestamp("us"))], schema=SCHEMA))


if __name__ == "__main__":
    main()

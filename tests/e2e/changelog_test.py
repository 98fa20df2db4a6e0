# SPDX-License-Identifier: Apache-2.0
"""Changelog snapshots, written here by pyarrow as other programs write them: the state tools read them
with their materialisation inside, beside them, or in a store that is named."""
import json

import pyarrow
import pyarrow.ipc

from harness import EndToEndTest


def binary(values):
    return pyarrow.array(values, pyarrow.binary())


def fields(*kinds):
    columns = [*kinds, ("op_id", pyarrow.uint64()), ("key_bytes", pyarrow.binary()),
               ("value_bytes", pyarrow.binary())]
    return pyarrow.schema([pyarrow.field(name, kind, nullable=False) for name, kind in columns])


def stream(schema, columns) -> bytes:
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pyarrow.record_batch(columns, schema=schema))
    return sink.getvalue().to_pybytes()


def key_of(number: int) -> bytes:
    """The stored key of an int64 user key in slot 'counts' of 128 groups."""
    user_key = number.to_bytes(8, "little", signed=True)
    state = 0xcbf29ce484222325
    for byte in user_key:
        state = ((state ^ byte) * 0x100000001b3) % 2**64
    return bytes([state % 128]) + b"counts|" + user_key


def canonical(rows: dict[int, int]) -> bytes:
    return stream(fields().with_metadata({"clink.format_version": "1"}), [
        pyarrow.array([42] * len(rows), pyarrow.uint64()), binary([key_of(key) for key in rows]),
        binary([value.to_bytes(8, "little") for value in rows.values()])])


def changelog(kind: int, materialisation: bytes, puts: dict[int, int], erased: list[int]) -> bytes:
    kinds = [kind] + [1] * len(puts) + [2] * len(erased)
    keys = [b""] + [key_of(key) for key in puts] + [key_of(key) for key in erased]
    values = [materialisation] + [value.to_bytes(8, "little") for value in puts.values()]
    values += [b""] * len(erased)
    return stream(fields(("row_kind", pyarrow.uint8())), [
        pyarrow.array(kinds, pyarrow.uint8()),
        pyarrow.array([0] + [42] * (len(kinds) - 1), pyarrow.uint64()), binary(keys), binary(values)])


class ChangelogSnapshotTest(EndToEndTest):
    BASE = {1: 10, 2: 20, 3: 30}

    def values(self, *args) -> list[str]:
        done = self.cairn("state", "cat", *args, "--json")
        return sorted(json.dumps(json.loads(line)) for line in done.stdout.splitlines())

    def setUp(self):
        super().setUp()
        (self.dir / "plain.snap").write_bytes(canonical({1: 10, 2: 21, 4: 40}))
        self.expected = self.values("plain.snap")
        self.assertEqual(len(self.expected), 3)

    def test_a_materialisation_inside_is_read(self):
        (self.dir / "log.snap").write_bytes(
            changelog(0, canonical(self.BASE), {2: 21, 4: 40}, [3]))
        self.assertEqual(self.values("log.snap"), self.expected)

    def test_a_materialisation_outside_is_found_beside_the_file_or_where_it_is_said_to_be(self):
        place = self.dir / "place"
        (place / "materializations").mkdir(parents=True)
        # Others write absolute paths: the last part counts.
        (place / "changelog-2.snap").write_bytes(
            changelog(3, b"/gone/materializations/mat-1.bin", {2: 21, 4: 40}, [3]))
        missing = self.cairn("state", "cat", "place/changelog-2.snap", check=False)
        self.assertEqual(missing.returncode, 1)
        self.assertIn("--materialisation-store", missing.stderr)
        for directory, args in ((place / "materializations", []),
                                (self.dir / "elsewhere", ["--materialisation-store", "elsewhere"])):
            directory.mkdir(exist_ok=True)
            base = directory / "mat-1.bin"
            base.write_bytes(canonical(self.BASE))
            self.assertEqual(self.values("place/changelog-2.snap", *args), self.expected)
            exported = self.cairn("state", "export", "place/changelog-2.snap", "--format", "arrow-stream",
                                  "-o", f"{directory.name}.snap", *args)
            self.assertEqual(exported.returncode, 0)
            self.assertEqual(self.values(f"{directory.name}.snap"), self.expected)
            base.unlink()

    def test_a_torn_changelog_is_refused_at_every_length(self):
        whole = changelog(0, canonical(self.BASE), {2: 21}, [3])
        for length in range(1, len(whole), 97):
            (self.dir / "torn.snap").write_bytes(whole[:length])
            done = self.cairn("state", "cat", "torn.snap", check=False)
            self.assertEqual(done.returncode, 3, (length, done.stderr))


if __name__ == "__main__":
    import unittest
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""More than 3 GiB in one key group, so in one binary column: pyarrow writes it, Cairn takes it over, and
pyarrow reads every row back. Of the long tier."""
import hashlib
import random
import unittest

import pyarrow
import pyarrow.ipc

from harness import LONG, EndToEndTest, fresh_seed

COLUMN_BYTES = 3 << 30
VALUE_BYTES = 256 << 10
BATCH_ROWS = 200
COMMAND_S = 1800
SCHEMA = pyarrow.schema([pyarrow.field("op_id", pyarrow.uint64(), False),
                         pyarrow.field("key_bytes", pyarrow.binary(), False),
                         pyarrow.field("value_bytes", pyarrow.binary(), False)],
                        metadata={"clink.format_version": "1"})


def key_group(key: bytes) -> int:
    number = 0xcbf29ce484222325
    for byte in key:
        number = (number ^ byte) * 0x100000001b3 % (1 << 64)
    return number % 128


@unittest.skipUnless(LONG, "CAIRN_LONG=1 writes 3 GiB three times")
class LargeColumnTest(EndToEndTest):

    def write_snapshot(self, path) -> dict[bytes, str]:
        """Write rows of key group 7; returns the MD5 of the value of each user key."""
        values = random.Random(fresh_seed())
        found = (key for key in (b"key %d" % i for i in range(1 << 40)) if key_group(key) == 7)
        hashes = {}
        with pyarrow.ipc.new_stream(path, SCHEMA) as stream:
            while len(hashes) * VALUE_BYTES <= COLUMN_BYTES:
                keys = [next(found) for _ in range(BATCH_ROWS)]
                rows = [values.randbytes(VALUE_BYTES) for _ in keys]
                hashes.update((key, hashlib.md5(row).hexdigest()) for key, row in zip(keys, rows))
                stream.write_batch(pyarrow.record_batch(
                    [pyarrow.array([5] * BATCH_ROWS, pyarrow.uint64()),
                     pyarrow.array([b"\x07rows|" + key for key in keys], pyarrow.binary()),
                     pyarrow.array(rows, pyarrow.binary())], schema=SCHEMA))
        return hashes

    def read_batches(self, batches) -> dict[bytes, str]:
        hashes = {}
        for batch in batches:
            for key, value in zip(batch.column("key_bytes"), batch.column("value_bytes")):
                user_key = key.as_py().partition(b"|")[2]
                self.assertNotIn(user_key, hashes)
                hashes[user_key] = hashlib.md5(value.as_buffer()).hexdigest()
        return hashes

    def test_pyarrow_reads_every_row_of_three_gib(self):
        expected = self.write_snapshot(self.dir / "in.snap")
        self.cairn("state", "import", "in.snap", "--to", "place", timeout=COMMAND_S)
        (self.dir / "in.snap").unlink()

        (path,) = (self.dir / "place").glob("nodes/1/checkpoints/*/state.arrow")
        with pyarrow.memory_map(str(path)) as file, pyarrow.ipc.open_file(file) as reader:
            self.assertGreater(reader.num_record_batches, 1)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            self.assertEqual(self.read_batches(batches), expected)

        self.cairn("state", "export", "place", "--format", "arrow-stream", "-o", "all.snap",
                   timeout=COMMAND_S)
        with pyarrow.ipc.open_stream(self.dir / "all.snap") as reader:
            self.assertEqual(self.read_batches(reader), expected)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Others open what Cairn saves: pyarrow and Polars the data objects, DuckDB the typed exports. And
what was exported imports again to an equal place, which a job can go on from."""
import json
import subprocess

import polars
import pyarrow
import pyarrow.ipc
import pyarrow.parquet

from harness import (CAIRN, EndToEndTest, bid_table, bids_relation, connect, difference, make_bids, netted,
                     sink_table)

ROWS = 40_000


class InteropTest(EndToEndTest):

    def setUp(self):
        super().setUp()
        make_bids(self.dir / "bids.ndjson", ROWS, 13)
        self.job_file = self.job(
            bid_table("bids.ndjson", "ndjson")
            + sink_table("counts", "auction BIGINT, n BIGINT", "counts", True)
            + sink_table("top3", "channel TEXT, auction BIGINT, price BIGINT, rn BIGINT", "top3", True)
            + "INSERT INTO counts SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n"
            "INSERT INTO top3 SELECT channel, auction, price, rn FROM (SELECT *, ROW_NUMBER() OVER "
            "(PARTITION BY channel ORDER BY price DESC) AS rn FROM bid) t WHERE rn <= 3;\n")
        self.cairn("run", self.job_file, "--parallelism", 2)

    def export(self, source: str, *args) -> None:
        self.cairn("state", "export", source, *args)

    def same_file(self, a: str, b: str):
        self.assertEqual((self.dir / a).read_bytes(), (self.dir / b).read_bytes(), (a, b))


class OpenElsewhereTest(InteropTest):

    def objects(self):
        found = sorted((self.dir / "job.cairn").glob("nodes/1/checkpoints/*/state.arrow"))
        self.assertGreater(len(found), 0)
        return found

    def test_pyarrow_opens_every_data_object(self):
        for path in self.objects():
            with pyarrow.ipc.open_file(path) as reader:
                table = reader.read_all()
                table.validate(full=True)
                names = table.schema.names
                self.assertEqual(names[-3:], ["op_id", "key_bytes", "value_bytes"])
                self.assertEqual(table.schema.field("op_id").type, pyarrow.uint64())
                self.assertEqual(table.schema.field("key_bytes").type, pyarrow.binary())
                for batch in (reader.get_batch_with_custom_metadata(i)
                              for i in range(reader.num_record_batches)):
                    self.assertIn(b"cairn.frame", dict(batch.custom_metadata or {}))

    def test_polars_opens_every_data_object(self):
        for path in self.objects():
            frame = polars.read_ipc(path)
            with pyarrow.ipc.open_file(path) as reader:
                self.assertEqual(frame.height, reader.read_all().num_rows)
            self.assertEqual(frame.columns[-3:], ["op_id", "key_bytes", "value_bytes"])

    def test_duckdb_sums_the_count_column_of_a_typed_export(self):
        self.export("job.cairn", "--typed", "--slot", "agg", "-o", "counts.parquet")
        db = connect()
        kind, total, groups = db.execute(
            f"SELECT any_value(typeof(count)), sum(count), count(*) "
            f"FROM '{self.dir}/counts.parquet'").fetchone()
        self.assertEqual((kind, total), ("BIGINT", ROWS))
        bids_relation(db, self.dir / "bids.ndjson")
        self.assertEqual(
            groups, db.execute("SELECT count(DISTINCT auction) FROM bid").fetchone()[0])
        db.execute(f"CREATE TABLE got AS SELECT auction, count FROM '{self.dir}/counts.parquet'")
        self.assertEqual(difference(db, "SELECT auction, count(*) FROM bid GROUP BY auction"),
                         ([], []))

    def test_a_typed_top_n_has_one_row_a_ranked_row(self):
        self.export("job.cairn", "--typed", "-o", "typed")
        self.assertEqual(sorted(p.name for p in (self.dir / "typed").iterdir()),
                         ["agg.parquet", "topn.parquet"])
        db = connect()
        bids_relation(db, self.dir / "bids.ndjson")
        db.execute(f"""CREATE TABLE got AS SELECT channel, price, rank
            FROM '{self.dir}/typed/topn.parquet'""")
        self.assertEqual(difference(db, """SELECT channel, price, rank FROM (SELECT channel, price,
            row_number() OVER (PARTITION BY channel ORDER BY price DESC) AS rank FROM bid)
            WHERE rank <= 3"""), ([], []))

    def test_a_typed_arrow_file_opens_in_polars_and_pyarrow(self):
        self.export("job.cairn", "--typed", "--slot", "agg", "--format", "arrow", "-o", "c.arrow")
        self.assertEqual(polars.read_ipc(self.dir / "c.arrow")["count"].sum(), ROWS)
        table = pyarrow.ipc.open_file(self.dir / "c.arrow").read_all()
        self.assertIn(b"cairn.slot", table.schema.metadata)
        self.assertEqual(table.schema.field("count").type, pyarrow.int64())

    def test_an_export_goes_to_standard_output(self):
        done = subprocess.run([CAIRN, "state", "export", "job.cairn", "--typed", "--slot", "agg",
                               "--format", "arrow"], cwd=self.dir, check=True, capture_output=True)
        table = pyarrow.ipc.open_file(pyarrow.py_buffer(done.stdout)).read_all()
        self.assertEqual(sum(table.column("count").to_pylist()), ROWS)


class RoundTripTest(InteropTest):

    def test_the_canonical_stream_opens_and_imports_to_an_equal_place(self):
        self.export("job.cairn", "--format", "arrow-stream", "-o", "all.snap")
        with pyarrow.ipc.open_stream(self.dir / "all.snap") as reader:
            table = reader.read_all()
        self.assertEqual(table.schema.remove_metadata(), pyarrow.schema([
            pyarrow.field("op_id", pyarrow.uint64(), False),
            pyarrow.field("key_bytes", pyarrow.binary(), False),
            pyarrow.field("value_bytes", pyarrow.binary(), False)]))
        self.assertEqual(table.schema.metadata[b"clink.format_version"], b"1")
        keys = table.column("key_bytes").to_pylist()
        self.assertEqual(len(set(zip(table.column("op_id").to_pylist(), keys))), table.num_rows)
        for key in keys[:100]:
            self.assertLess(key[0], 128)
            self.assertIn(key[1:key.index(b"|")], (b"agg", b"topn"))
        sidecar = dict(line.split("=") for line in
                       (self.dir / "all.snap.meta").read_text().splitlines())
        self.assertEqual(int(sidecar["payload_bytes"]), (self.dir / "all.snap").stat().st_size)

        self.cairn("state", "import", "all.snap", "--to", "copy")
        self.cairn("checkpoint", "verify", "copy")
        self.export("copy", "--format", "arrow-stream", "-o", "again.snap")
        self.same_file("all.snap", "again.snap")
        # A snapshot file is a source of its own.
        self.export("all.snap", "--format", "arrow-stream", "-o", "third.snap")
        self.same_file("all.snap", "third.snap")

    def test_a_damaged_snapshot_is_refused_by_its_sidecar(self):
        self.export("job.cairn", "--format", "arrow-stream", "-o", "all.snap")
        bytes_ = bytearray((self.dir / "all.snap").read_bytes())
        bytes_[len(bytes_) // 2] ^= 1
        (self.dir / "all.snap").write_bytes(bytes_)
        done = self.cairn("state", "ls", "all.snap", check=False)
        self.assertEqual(done.returncode, 3)
        self.assertIn("all.snap.meta", done.stderr)

    def test_tables_import_to_an_equal_place(self):
        for fmt in ("arrow", "parquet"):
            with self.subTest(format=fmt):
                self.export("job.cairn", "--format", fmt, "-o", f"all.{fmt}")
                self.cairn("state", "import", f"all.{fmt}", "--to", f"copy-{fmt}")
                self.export(f"copy-{fmt}", "--format", fmt, "-o", f"again.{fmt}")
                self.same_file(f"all.{fmt}", f"again.{fmt}")

                self.export("job.cairn", "--typed", "--format", fmt, "-o", f"typed-{fmt}")
                files = sorted((self.dir / f"typed-{fmt}").iterdir())
                self.cairn("state", "import", *files, "--to", f"typed-copy-{fmt}")
                self.export(f"typed-copy-{fmt}", "--typed", "--format", fmt, "-o",
                            f"typed-again-{fmt}")
                for file in files:
                    self.same_file(f"typed-{fmt}/{file.name}", f"typed-again-{fmt}/{file.name}")

    def test_a_job_goes_on_from_edited_state(self):
        """Every count is made a thousand greater by DuckDB; 1,000 more bids come; the job goes on."""
        self.export("job.cairn", "--typed", "--slot", "agg", "-o", "agg.parquet")
        connect().execute(f"COPY (SELECT auction, count + 1000 AS count FROM '{self.dir}/agg.parquet') "
                   f"TO '{self.dir}/edited.parquet'")
        self.cairn("state", "import", "edited.parquet", "--like", "job.cairn", "--operator",
                   "counts/group-aggregate/0", "--slot", "agg", "--to", "edited.cairn")
        groups = self.query_total("edited.cairn", "count(*)")
        make_bids(self.dir / "more.ndjson", 1000, 14)
        with open(self.dir / "bids.ndjson", "ab") as bids:
            bids.write((self.dir / "more.ndjson").read_bytes())
        self.cairn("run", self.job_file, "--checkpoints", "edited.cairn")
        self.assertEqual(self.query_total("edited.cairn"), ROWS + 1000 * groups + 1000)
        self.assertGreaterEqual(self.query_total("edited.cairn", "count(*)"), groups)

    def query_total(self, place: str, what: str = "sum(count)") -> int:
        done = self.cairn("state", "query", place, f"SELECT {what} AS x FROM agg")
        return json.loads(done.stdout)["x"]

    def test_an_import_checks_before_it_writes(self):
        self.export("job.cairn", "--typed", "--slot", "agg", "-o", "agg.parquet")
        connect().execute(f"COPY (FROM '{self.dir}/agg.parquet' UNION ALL FROM '{self.dir}/agg.parquet') "
                   f"TO '{self.dir}/twice.parquet'")
        slot = ["--like", "job.cairn", "--operator", "counts/group-aggregate/0", "--slot", "agg"]
        connect().execute(f"COPY (SELECT auction, 'x' AS count FROM '{self.dir}/agg.parquet') "
                   f"TO '{self.dir}/text.parquet'")
        (self.dir / "no.parquet").write_text("nothing of the kind")
        for file, args, code, part in (("twice.parquet", slot, 2, "twice"),
                                       ("text.parquet", slot, 2, "count"),
                                       ("twice.parquet", [], 2, "--like"),
                                       ("no.parquet", [], 2, "no.parquet"),
                                       ("none.parquet", [], 1, "none.parquet")):
            with self.subTest(file=file):
                done = self.cairn("state", "import", file, "--to", "new", *args, check=False)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(part, done.stderr)
                self.assertFalse((self.dir / "new").exists())
        done = self.cairn("state", "import", "agg.parquet", "--to", "job.cairn", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("already holds checkpoint", done.stderr)

    def test_a_job_refuses_an_import_that_names_no_job(self):
        self.export("job.cairn", "-o", "all.parquet")
        self.cairn("state", "import", "all.parquet", "--to", "copy")
        done = self.cairn("run", self.job_file, "--checkpoints", "copy", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("another place", done.stderr)


if __name__ == "__main__":
    import unittest
    unittest.main()

// SPDX-License-Identifier: Apache-2.0
#include "format/canonical_stream.h"

#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <gtest/gtest.h>

#include "base/coding.h"
#include "format/saved_rows_testing.h"

namespace cairn::format {
namespace {

using namespace std::string_literals;

std::string Le64(uint64_t value) {
  std::string bytes;
  base::AppendLE(&bytes, value);
  return bytes;
}

/// The three counts of the published golden snapshot.
std::vector<Row> GoldenRows() {
  return {{0,
           "\x24"
           "counts|" +
               Le64(1),
           Le64(100)},
          {0,
           "\x07"
           "counts|" +
               Le64(2),
           Le64(200)},
          {0,
           "\x62"
           "counts|" +
               Le64(7),
           Le64(700)}};
}

std::string Write(const std::vector<std::vector<Row>>& batches,
                  const std::vector<StateVersion>& versions = {}, uint64_t op = 42) {
  StringSink sink;
  auto writer = CanonicalStreamWriter::Open(&sink, versions);
  EXPECT_TRUE(writer.ok()) << writer.status().ToString();
  for (const auto& rows : batches) {
    EXPECT_TRUE((*writer)->Append(base::OperatorId(op), SavedRowsOf(rows)->Span()).ok());
  }
  EXPECT_TRUE((*writer)->Finish().ok());
  return sink.bytes;
}

std::vector<Row> RowsOf(const std::vector<CanonicalBatch>& batches) {
  std::vector<Row> rows;
  for (const CanonicalBatch& batch : batches) AddSpan(batch.rows, &rows);
  return rows;
}

uint32_t U32(const std::string& bytes, size_t at) {
  return base::LoadLE<uint32_t>(bytes.data() + at);
}

TEST(CanonicalStream, HasThePublishedLayoutByteForByte) {
  const std::string bytes = Write({GoldenRows()});
  ASSERT_EQ(bytes.size(), 704u);
  EXPECT_EQ(U32(bytes, 0), 0xffffffffu);
  EXPECT_EQ(U32(bytes, 4), 0x120u);
  EXPECT_EQ(U32(bytes, 0x128), 0xffffffffu);
  EXPECT_EQ(U32(bytes, 0x12c), 0x108u);
  EXPECT_EQ(bytes.substr(0x2b8), "\xff\xff\xff\xff\0\0\0\0"s);
  const std::string body = bytes.substr(0x238, 128);
  const auto offsets = [](std::initializer_list<int32_t> values) {
    std::string out;
    for (const int32_t value : values) base::AppendLE(&out, value);
    return out;
  };
  EXPECT_EQ(body.substr(0, 24), Le64(42) + Le64(42) + Le64(42));
  EXPECT_EQ(body.substr(24, 16), offsets({0, 16, 32, 48}));
  EXPECT_EQ(body.substr(40, 48), GoldenRows()[0].key + GoldenRows()[1].key + GoldenRows()[2].key);
  EXPECT_EQ(body.substr(88, 16), offsets({0, 8, 16, 24}));
  EXPECT_EQ(body.substr(104, 24), Le64(100) + Le64(200) + Le64(700));
}

TEST(CanonicalStream, ReadsBackBatchesOfSeveralOperators) {
  const std::vector<StateVersion> versions = {{42, "i64", 1, ""}, {42, "list", 2, "items"}};
  StringSink sink;
  auto writer = *CanonicalStreamWriter::Open(&sink, versions);
  const auto rows = SavedRowsOf(GoldenRows());
  ASSERT_TRUE(writer->Append(std::vector<uint64_t>{1, 2, 42}, rows->Span()).ok());
  ASSERT_TRUE(writer->Append(base::OperatorId(9), SavedRowsOf({})->Span()).ok());
  ASSERT_TRUE(writer
                  ->Append(base::OperatorId(9), SavedRowsOf({{0,
                                                              "\xff"
                                                              "off",
                                                              ""}})
                                                    ->Span())
                  .ok());
  EXPECT_EQ(writer->Append(std::vector<uint64_t>{1}, rows->Span()).code(),
            StatusCode::kInvalidArgument);
  ASSERT_TRUE(writer->Finish().ok());
  const auto stream = ReadCanonicalStream(sink.bytes);
  ASSERT_TRUE(stream.ok()) << stream.status().ToString();
  EXPECT_EQ(stream->state_versions, versions);
  EXPECT_EQ(stream->rows, 4u);
  ASSERT_EQ(stream->batches.size(), 3u);
  EXPECT_EQ(stream->batches[0].operator_ids[1], 2u);
  EXPECT_EQ(stream->batches[2].operator_ids[0], 9u);
  std::vector<Row> expected = GoldenRows();
  expected.push_back({0,
                      "\xff"
                      "off",
                      ""});
  EXPECT_EQ(RowsOf(stream->batches), expected);
}

TEST(CanonicalStream, WritesOneEmptyBatchForNoRows) {
  const auto stream = ReadCanonicalStream(Write({}));
  ASSERT_TRUE(stream.ok()) << stream.status().ToString();
  EXPECT_EQ(stream->rows, 0u);
  EXPECT_EQ(stream->batches.size(), 1u);
}

TEST(CanonicalStream, ReadsNoBytesAsTheEmptySnapshot) {
  const auto stream = ReadCanonicalStream("");
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(stream->rows, 0u);
}

TEST(CanonicalStream, RefusesEveryTruncationAndAddition) {
  const std::string bytes = Write({GoldenRows(), GoldenRows()});
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_FALSE(ReadCanonicalStream(std::string_view(bytes).substr(0, size)).ok()) << size;
  }
  EXPECT_EQ(ReadCanonicalStream(bytes + "x").status().code(), StatusCode::kCorruption);
}

/// Write a stream with Arrow alone, as other tools do.
std::string ForeignStream(arrow::FieldVector fields, const std::vector<Row>& rows,
                          std::shared_ptr<arrow::KeyValueMetadata> metadata, bool with_kind) {
  arrow::UInt8Builder kinds;
  arrow::UInt64Builder ids;
  arrow::BinaryBuilder keys, values;
  for (const Row& row : rows) {
    EXPECT_TRUE(kinds.Append(static_cast<uint8_t>(row.kind)).ok() && ids.Append(42).ok() &&
                keys.Append(row.key).ok() && values.Append(row.value).ok());
  }
  std::vector<std::shared_ptr<arrow::Array>> columns;
  if (with_kind) columns.push_back(*kinds.Finish());
  columns.push_back(*ids.Finish());
  columns.push_back(*keys.Finish());
  columns.push_back(*values.Finish());
  const auto schema = arrow::schema(std::move(fields), std::move(metadata));
  auto out = *arrow::io::BufferOutputStream::Create();
  auto writer = *arrow::ipc::MakeStreamWriter(out, schema);
  EXPECT_TRUE(writer
                  ->WriteRecordBatch(
                      *arrow::RecordBatch::Make(schema, static_cast<int64_t>(rows.size()), columns))
                  .ok());
  EXPECT_TRUE(writer->Close().ok());
  return (*out->Finish())->ToString();
}

arrow::FieldVector Fields(bool with_kind, bool nullable = false) {
  arrow::FieldVector fields;
  if (with_kind) fields.push_back(arrow::field("row_kind", arrow::uint8(), nullable));
  fields.push_back(arrow::field("op_id", arrow::uint64(), nullable));
  fields.push_back(arrow::field("key_bytes", arrow::binary(), nullable));
  fields.push_back(arrow::field("value_bytes", arrow::binary(), nullable));
  return fields;
}

StatusCode CodeWithMetadata(const std::string& key, const std::string& value) {
  return ReadCanonicalStream(ForeignStream(Fields(false), GoldenRows(),
                                           arrow::key_value_metadata({key}, {value}), false))
      .status()
      .code();
}

TEST(CanonicalStream, AcceptsAMissingVersionAndUnknownMetadata) {
  EXPECT_EQ(CodeWithMetadata("other", "x"), StatusCode::kOk);
  EXPECT_TRUE(
      ReadCanonicalStream(ForeignStream(Fields(false, true), GoldenRows(), nullptr, false)).ok());
}

TEST(CanonicalStream, JudgesTheVersionAsPublished) {
  const char key[] = "clink.format_version";
  for (const char* good : {"1", "01", "000000001"})
    EXPECT_EQ(CodeWithMetadata(key, good), StatusCode::kOk);
  for (const char* newer : {"2", "10", "999999999"}) {
    EXPECT_EQ(CodeWithMetadata(key, newer), StatusCode::kUnsupportedFormat);
  }
  for (const char* bad : {"", "0", "+1", " 1", "1 ", "1.0", "x", "0000000001"}) {
    EXPECT_EQ(CodeWithMetadata(key, bad), StatusCode::kCorruption) << bad;
  }
  EXPECT_EQ(CodeWithMetadata("clink.state_versions", "1|a"), StatusCode::kCorruption);
}

TEST(CanonicalStream, RefusesOtherColumns) {
  arrow::FieldVector renamed = Fields(false);
  renamed[1] = arrow::field("key", arrow::binary(), false);
  EXPECT_EQ(
      ReadCanonicalStream(ForeignStream(renamed, GoldenRows(), nullptr, false)).status().code(),
      StatusCode::kCorruption);
  EXPECT_EQ(
      ReadCanonicalStream(ForeignStream(Fields(true), GoldenRows(), nullptr, true)).status().code(),
      StatusCode::kCorruption);
}

TEST(CanonicalStream, KeepsTheLargerOffsetOfOperatorStateAndElseTheLaterValue) {
  EXPECT_EQ(ResolveDuplicate("\xff"
                             "off",
                             Le64(9), Le64(7)),
            Le64(9));
  EXPECT_EQ(ResolveDuplicate("\xff"
                             "off",
                             Le64(7), Le64(9)),
            Le64(9));
  EXPECT_EQ(ResolveDuplicate("\xff"
                             "off",
                             Le64(7), Le64(~0ull)),
            Le64(7))
      << "signed";
  EXPECT_EQ(ResolveDuplicate("\xff"
                             "off",
                             "longer than 8", Le64(1)),
            Le64(1));
  EXPECT_EQ(ResolveDuplicate("\x24"
                             "c|k",
                             Le64(9), Le64(7)),
            Le64(7));
}

TEST(ChangelogStream, TakesTheMaterialisationOffTheLog) {
  const std::vector<Row> log = {{1, "k1", "v1"}, {2, "k2", ""}, {1, "k3", ""}};
  for (const int kind : {0, 3}) {
    std::vector<Row> rows = {{kind, "", "inner"}};
    rows.insert(rows.end(), log.begin(), log.end());
    const std::string bytes = ForeignStream(Fields(true), rows, nullptr, true);
    const auto stream = ReadChangelogStream(bytes);
    ASSERT_TRUE(stream.ok()) << stream.status().ToString();
    EXPECT_EQ(static_cast<int>(stream->materialisation), kind);
    EXPECT_EQ(stream->materialisation_value, "inner");
    EXPECT_EQ(RowsOf(stream->batches), log);
    EXPECT_EQ(stream->rows, 3u);
    EXPECT_EQ(stream->batches[0].operator_ids[2], 42u);
  }
}

TEST(ChangelogStream, RefusesRowsOutOfPlaceOfUnknownKindAndErasesWithValues) {
  for (const std::vector<Row>& rows : {std::vector<Row>{},
                                       {{1, "k", "v"}},
                                       {{0, "", ""}, {0, "", ""}},
                                       {{0, "", ""}, {3, "", "h"}},
                                       {{0, "", ""}, {4, "k", "v"}},
                                       {{0, "", ""}, {2, "k", "v"}}}) {
    EXPECT_EQ(ReadChangelogStream(ForeignStream(Fields(true), rows, nullptr, true)).status().code(),
              StatusCode::kCorruption);
  }
}

TEST(Sidecar, HasThePublishedTextAndReadsBack) {
  const SnapshotSidecar sidecar = SidecarOf(7, "123456789");
  EXPECT_EQ(
      SerializeSidecar(sidecar),
      "clink_checkpoint_meta=1\ncheckpoint_id=7\npayload_bytes=9\npayload_crc32c=3808858755\n");
  EXPECT_EQ(*ParseSidecar(SerializeSidecar(sidecar)), sidecar);
  EXPECT_EQ(*ParseSidecar("new_key=whatever\n" + SerializeSidecar(sidecar)), sidecar);
}

TEST(Sidecar, RefusesOtherTextAndNewerVersions) {
  for (const char* bad :
       {"", "hello", "hello\n", "checkpoint_id=7\npayload_bytes=9\npayload_crc32c=1\n",
        "clink_checkpoint_meta=1\ncheckpoint_id=7\npayload_bytes=9\n",
        "clink_checkpoint_meta=1\ncheckpoint_id=x\npayload_bytes=9\npayload_crc32c=1\n",
        "clink_checkpoint_meta=1\ncheckpoint_id=7\npayload_bytes=9\npayload_crc32c=4294967296\n",
        "clink_checkpoint_meta=0\ncheckpoint_id=7\npayload_bytes=9\npayload_crc32c=1\n",
        "clink_checkpoint_meta=1\ncheckpoint_id=7\npayload_bytes=9\npayload_crc32c=1"}) {
    EXPECT_EQ(ParseSidecar(bad).status().code(), StatusCode::kCorruption) << bad;
  }
  EXPECT_EQ(ParseSidecar("clink_checkpoint_meta=2\nnovel=1\n").status().code(),
            StatusCode::kUnsupportedFormat);
}

TEST(Sidecar, JudgesASnapshot) {
  const std::string_view payload = "payload", shorter = "payloa", damaged = "paYload";
  const std::string text = SerializeSidecar(SidecarOf(1, payload));
  const std::string_view sidecar = text, newer = "clink_checkpoint_meta=2\n", other = "text";
  EXPECT_EQ(JudgeSnapshot(&payload, &sidecar), SnapshotVerdict::kValid);
  EXPECT_EQ(JudgeSnapshot(nullptr, &sidecar), SnapshotVerdict::kMissing);
  EXPECT_EQ(JudgeSnapshot(&payload, nullptr), SnapshotVerdict::kIncomplete);
  EXPECT_EQ(JudgeSnapshot(&shorter, &sidecar), SnapshotVerdict::kIncomplete);
  EXPECT_EQ(JudgeSnapshot(&damaged, &sidecar), SnapshotVerdict::kCorrupt);
  EXPECT_EQ(JudgeSnapshot(&payload, &other), SnapshotVerdict::kCorrupt);
  EXPECT_EQ(JudgeSnapshot(&payload, &newer), SnapshotVerdict::kUnsupported);
  EXPECT_EQ(SnapshotVerdictName(SnapshotVerdict::kIncomplete), "incomplete");
}

}  // namespace
}  // namespace cairn::format

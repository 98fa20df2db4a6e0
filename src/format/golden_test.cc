// SPDX-License-Identifier: Apache-2.0
//
// The frozen bytes of format version 1 (testdata/format/v1): read for ever, and written the same by
// this version. With CAIRN_WRITE_GOLDEN=1 a file that is missing is written; none is ever changed.
#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/coding.h"
#include "base/hash.h"
#include "format/canonical_stream.h"
#include "format/changelog_stream.h"
#include "format/manifest_testing.h"
#include "format/row_codec_testing.h"
#include "format/saved_rows_testing.h"
#include "format/store_records.h"
#include "format/view_log_segment.h"

namespace cairn::format {
namespace {

constexpr char kDirectory[] = "testdata/format/v1/";  // tests run in the root of the sources

/// Return a golden file's bytes; `written` is what this version writes.
std::string Golden(const std::string& name, const std::string& written) {
  const std::filesystem::path path = kDirectory + name;
  if (std::getenv("CAIRN_WRITE_GOLDEN") != nullptr && !std::filesystem::exists(path)) {
    std::ofstream(path, std::ios::binary) << written;
  }
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path << " is missing";
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

TEST(Golden, ManifestJson) {
  const std::string written = *SerializeManifest(GoodManifest());
  const std::string golden = Golden("manifest.json", written);
  EXPECT_EQ(written, golden);
  EXPECT_EQ(*ParseManifest(golden), GoodManifest());
}

TEST(Golden, DecisionHeadJson) {
  const auto cut = [](uint64_t id) {
    return CutReference{CheckpointId(id), FilledDigest(static_cast<uint8_t>(id)), id * 100,
                        id % 2 == 1};
  };
  DecisionHead head;
  head.deployment_id = "018bcfe5-687b-7000-8000-000000000002";
  head.seq = 12;
  head.latest_commit = cut(9);
  head.retained = {cut(7), cut(5)};
  head.floor = CheckpointId(5);
  head.next_id = CheckpointId(65537);
  head.pins = {{"export", "e1", CheckpointId(7)}, {"savepoint", "before-upgrade", CheckpointId(5)}};
  const std::string written = *SerializeDecisionHead(head);
  const std::string golden = Golden("decision-head.json", written);
  EXPECT_EQ(written, golden);
  EXPECT_EQ(*ParseDecisionHead(golden), head);
}

TEST(Golden, RecordsOfAPlace) {
  const std::string format = *SerializeStoreFormat({});
  EXPECT_EQ(format, Golden("FORMAT", format));
  const DeploymentIdentity identity{"018bcfe5-687b-7000-8000-000000000002",
                                    1'700'000'000'000,
                                    "top \"ten\" für alle",
                                    {"xxh3-64", 0x0123456789abcdef}};
  const std::string written = *SerializeDeploymentIdentity(identity);
  const std::string golden = Golden("identity.json", written);
  EXPECT_EQ(written, golden);
  EXPECT_EQ(*ParseDeploymentIdentity(golden), identity);
}

TEST(Golden, StoredKeys) {
  std::istringstream lines(Golden("keys.txt", ""));
  uint32_t key_groups = 0, group = 0;
  std::string slot_hex, key_hex, stored_hex;
  int count = 0;
  while (lines >> key_groups >> slot_hex >> key_hex >> group >> stored_hex) {
    std::string slot, user_key, expected, stored;
    ASSERT_TRUE(base::FromHex(slot_hex, &slot) && base::FromHex(stored_hex, &expected));
    ASSERT_TRUE(key_hex == "-" || base::FromHex(key_hex, &user_key));
    EXPECT_EQ(KeyGroupOf(user_key, key_groups), group);
    const KeyLayout layout = *KeyLayout::ForKeyGroups(key_groups);
    layout.AppendKeyed(group, slot, user_key, &stored);
    EXPECT_EQ(stored, expected);
    EXPECT_EQ(layout.Parse(expected), (StoredKey{StoredKeyKind::kKeyed, group, slot, user_key}));
    ++count;
  }
  EXPECT_EQ(count, 20);
}

TEST(Golden, EncodedRows) {
  const RowCodec codec = *RowCodec::Make(AllColumns());
  std::vector<uint32_t> offsets;
  std::vector<char> data;
  ASSERT_TRUE(codec.Encode(AllArrays(), nullptr, &offsets, &data, nullptr).ok());
  std::string written;
  for (size_t row = 0; row < 3; ++row) {
    written += base::ToHex({data.data() + offsets[row], offsets[row + 1] - offsets[row]}) + "\n";
  }
  EXPECT_EQ(written, Golden("rows.txt", written));
}

std::string Fixed64(uint64_t value) {
  std::string bytes;
  base::AppendLE(&bytes, value);
  return bytes;
}

struct ObjectBuilder final : FrameSink {
  ObjectBuilder(bool with_row_kind) {
    schema.slot_hash.seed = 0x0123456789abcdef;
    schema.with_row_kind = with_row_kind;
    schema.state_versions = {{base::OperatorIdOf("out/count/0").value, "row", 1, "counts"}};
    writer = *ObjectWriter::Open(&sink, schema);
  }
  Status TakeFrame(EncodedFrame frame) override {
    CAIRN_ASSIGN_OR_RETURN(const ByteRange range, writer->Append(frame));
    frames.push_back({frame.summary, range});
    return Status();
  }
  FrameEncoder Encoder(FrameKind kind, const char* uid, bool delta) {
    FrameEncoderOptions options;
    options.kind = kind;
    options.operator_id = base::OperatorIdOf(uid);
    options.delta = delta;
    options.checkpoint_id = CheckpointId(7);
    options.frame_bytes_min = 60;
    return FrameEncoder(schema, options, &pool, this);
  }

  RowBufferPool pool;
  StringSink sink;
  ObjectSchema schema;
  std::unique_ptr<ObjectWriter> writer;
  std::vector<ObjectFrame> frames;
};

/// Three counts in three groups (two frames, the second of two parts), operator state of subtask 1.
std::string BaseObject() {
  ObjectBuilder object(false);
  FrameEncoder counts = object.Encoder(FrameKind::kKeyed, "out/count/0", false);
  counts.SetSlot("counts");
  const auto put = [](base::SavedRows* rows, uint64_t key, uint64_t count) {
    AppendRow(rows, base::SavedRowKind::kMaterialised, Fixed64(key), Fixed64(count));
  };
  put(*counts.BeginGroup(7), 2, 200);
  put(*counts.BeginGroup(36), 1, 100);
  base::SavedRows* rows = *counts.BeginGroup(98);
  put(rows, 7, 700);
  EXPECT_TRUE(counts.Flush().ok());
  put(rows, 7 + (1ull << 40), 701);
  EXPECT_TRUE(counts.Finish().ok());
  FrameEncoder state = object.Encoder(FrameKind::kOperatorState, "out/top/0", false);
  state.SetSlot("offsets");
  AppendRow(*state.BeginGroup(1), base::SavedRowKind::kMaterialised, "split-0", "17");
  EXPECT_TRUE(state.Finish().ok());
  EXPECT_TRUE(object.writer->Finish().ok());
  return object.sink.bytes;
}

std::string DeltaObject() {
  ObjectBuilder object(true);
  FrameEncoder counts = object.Encoder(FrameKind::kKeyed, "out/count/0", true);
  counts.SetSlot("counts");
  AppendRow(*counts.BeginGroup(7), base::SavedRowKind::kPut, Fixed64(2), Fixed64(201));
  AppendRow(*counts.BeginGroup(36), base::SavedRowKind::kErase, Fixed64(1), "");
  EXPECT_TRUE(counts.Finish().ok());
  EXPECT_TRUE(object.writer->Finish().ok());
  return object.sink.bytes;
}

TEST(Golden, StateObject) {
  const std::string written = BaseObject();
  const std::string golden = Golden("state.arrow", written);
  EXPECT_TRUE(written == golden) << "the bytes of a state object changed";
  const auto layout = ReadObject(golden);
  ASSERT_TRUE(layout.ok()) << layout.status().ToString();
  ASSERT_EQ(layout->frames.size(), 3u);
  EXPECT_EQ(layout->schema.slot_hash.seed, 0x0123456789abcdefu);
  const FrameSummary& second = layout->frames[1].summary;
  EXPECT_EQ(second.identity.ToString(), "keyed base frame of operator " +
                                            base::ToHex16(base::OperatorIdOf("out/count/0")) +
                                            ", group 98, checkpoint 7");
  EXPECT_EQ(second.parts, 2u);
  std::vector<Row> rows;
  for (const ObjectFrame& frame : layout->frames) {
    const FrameSummary& s = frame.summary;
    const auto read =
        ReadFrame(std::string_view(golden).substr(frame.range.offset, frame.range.length),
                  layout->schema, {s.identity, s.parts, s.entries, s.crc32c, &s.sha256});
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    for (const Row& row : RowsOf(*read)) rows.push_back(row);
  }
  EXPECT_EQ(rows, (std::vector<Row>{{0,
                                     "\x07"
                                     "counts|" +
                                         Fixed64(2),
                                     Fixed64(200)},
                                    {0,
                                     "\x24"
                                     "counts|" +
                                         Fixed64(1),
                                     Fixed64(100)},
                                    {0,
                                     "\x62"
                                     "counts|" +
                                         Fixed64(7),
                                     Fixed64(700)},
                                    {0,
                                     "\x62"
                                     "counts|" +
                                         Fixed64(7 + (1ull << 40)),
                                     Fixed64(701)},
                                    {0,
                                     "\xff"
                                     "offsets|split-0",
                                     "17"}}));
}

TEST(Golden, StateObjectWithDeltas) {
  const std::string written = DeltaObject();
  const std::string golden = Golden("state-delta.arrow", written);
  EXPECT_TRUE(written == golden) << "the bytes of a state object changed";
  const auto layout = ReadObject(golden);
  ASSERT_TRUE(layout.ok()) << layout.status().ToString();
  ASSERT_EQ(layout->frames.size(), 1u);
  EXPECT_TRUE(layout->frames[0].summary.identity.delta);
  EXPECT_EQ(layout->frames[0].summary.entries, 2u);
}

TEST(Golden, CanonicalSnapshotAndSidecar) {
  StringSink sink;
  auto writer = *CanonicalStreamWriter::Open(&sink, {});
  const auto rows = SavedRowsOf({{0,
                                  "\x24"
                                  "counts|" +
                                      Fixed64(1),
                                  Fixed64(100)},
                                 {0,
                                  "\x07"
                                  "counts|" +
                                      Fixed64(2),
                                  Fixed64(200)},
                                 {0,
                                  "\x62"
                                  "counts|" +
                                      Fixed64(7),
                                  Fixed64(700)}});
  base::SavedRowSpan span;
  span.rows = rows->rows();
  span.key_offsets = reinterpret_cast<const int32_t*>(rows->key_offsets().data());
  span.key_data = rows->key_data().data();
  span.value_offsets = reinterpret_cast<const int32_t*>(rows->value_offsets().data());
  span.value_data = rows->value_data().data();
  ASSERT_TRUE(writer->Append(base::OperatorId(42), span).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const std::string golden = Golden("snapshot-v1.snap", sink.bytes);
  EXPECT_TRUE(sink.bytes == golden) << "the bytes of a canonical snapshot changed";
  const std::string sidecar = SerializeSidecar(SidecarOf(1, golden));
  EXPECT_EQ(sidecar, Golden("snapshot-v1.snap.meta", sidecar));
  EXPECT_EQ(ReadCanonicalStream(golden)->rows, 3u);
}

std::vector<Row> AllRows(const std::vector<CanonicalBatch>& batches) {
  std::vector<Row> rows;
  for (const CanonicalBatch& batch : batches) AddSpan(batch.rows, &rows);
  return rows;
}

// Composed byte by byte by tests/golden/make_snapshots.py, without Arrow.
TEST(Golden, SnapshotWithStampsOfThreeAndFourFieldsAndSeveralBatches) {
  const std::string golden = Golden("snapshot-stamps.snap", "");  // the rows point into it
  const auto stream = ReadCanonicalStream(golden);
  ASSERT_TRUE(stream.ok()) << stream.status().ToString();
  EXPECT_EQ(stream->state_versions,
            (std::vector<StateVersion>{{7, "session", 3, ""}, {42, "count", 2, "counts"}}));
  EXPECT_EQ(stream->batches.size(), 3u);
  const std::string count =
      "\x24"
      "counts|" +
      Fixed64(1);
  const std::string offset = "\xff__file_source_offset__";
  EXPECT_EQ(AllRows(stream->batches),
            (std::vector<Row>{{0, count, Fixed64(100)},
                              {0, offset, Fixed64(17)},
                              {0, "\x07ttl|" + Fixed64(2), Fixed64(1'700'000'000'000) + "value"},
                              {0, offset, Fixed64(9)},
                              {0, count, Fixed64(101)}}));
  EXPECT_EQ(ResolveDuplicate(offset, Fixed64(17), Fixed64(9)), Fixed64(17));
}

TEST(Golden, ChangelogOverASnapshotInIt) {
  const std::string golden = Golden("snapshot-changelog.snap", "");
  const auto log = ReadChangelogStream(golden);
  ASSERT_TRUE(log.ok()) << log.status().ToString();
  EXPECT_EQ(log->materialisation, ChangelogRowKind::kMaterialisedInline);
  EXPECT_EQ(AllRows(log->batches), (std::vector<Row>{{1,
                                                      "\x62"
                                                      "counts|" +
                                                          Fixed64(7),
                                                      Fixed64(700)},
                                                     {2,
                                                      "\x07"
                                                      "counts|" +
                                                          Fixed64(2),
                                                      ""},
                                                     {1,
                                                      "\x24"
                                                      "counts|" +
                                                          Fixed64(1),
                                                      Fixed64(101)}}));
  const std::string inner(log->materialisation_value);
  EXPECT_EQ(ReadCanonicalStream(inner)->rows, 2u);
  EXPECT_EQ(ReadCanonicalStream(golden).status().code(), StatusCode::kCorruption);
}

/// A put and an erase behind a materialisation, as this version writes them.
std::string WrittenChangelog(ChangelogRowKind kind, std::string_view materialisation) {
  StringSink sink;
  auto writer = *ChangelogStreamWriter::Open(&sink, kind, materialisation);
  const auto rows = SavedRowsOf({{1,
                                  "\x24"
                                  "counts|" +
                                      Fixed64(1),
                                  Fixed64(101)},
                                 {2,
                                  "\x07"
                                  "counts|" +
                                      Fixed64(2),
                                  ""}});
  const base::SavedRowSpan span{reinterpret_cast<const uint8_t*>(rows->kinds().data()),
                                reinterpret_cast<const int32_t*>(rows->key_offsets().data()),
                                rows->key_data().data(),
                                reinterpret_cast<const int32_t*>(rows->value_offsets().data()),
                                rows->value_data().data(),
                                rows->rows()};
  EXPECT_TRUE(writer->Append({42, 42}, span).ok());
  EXPECT_TRUE(writer->Finish().ok());
  return sink.bytes;
}

TEST(Golden, WrittenChangelogs) {
  const std::string inner = Golden("snapshot-v1.snap", "");
  const struct {
    const char* file;
    ChangelogRowKind kind;
    std::string_view materialisation;
  } logs[] = {{"changelog-inside.snap", ChangelogRowKind::kMaterialisedInline, inner},
              {"changelog-outside.snap", ChangelogRowKind::kMaterialisedHandle, "mat-1.bin"}};
  for (const auto& one : logs) {
    const std::string written = WrittenChangelog(one.kind, one.materialisation);
    const std::string golden = Golden(one.file, written);
    EXPECT_TRUE(written == golden) << "the bytes of a changelog changed: " << one.file;
    const auto log = ReadChangelogStream(golden);
    ASSERT_TRUE(log.ok()) << log.status().ToString();
    EXPECT_EQ(log->materialisation, one.kind);
    EXPECT_EQ(log->materialisation_value, one.materialisation);
    EXPECT_EQ(AllRows(log->batches), (std::vector<Row>{{1,
                                                        "\x24"
                                                        "counts|" +
                                                            Fixed64(1),
                                                        Fixed64(101)},
                                                       {2,
                                                        "\x07"
                                                        "counts|" +
                                                            Fixed64(2),
                                                        ""}}));
  }
}

// SHA256SUMS names every frozen file: none changes, goes, or comes without being named.
TEST(Golden, NoFrozenFileHasChanged) {
  std::map<std::string, std::string> frozen;
  std::ifstream sums(std::string(kDirectory) + "SHA256SUMS");
  ASSERT_TRUE(sums.good());
  for (std::string digest, name; sums >> digest >> name;) frozen[name] = digest;
  EXPECT_GT(frozen.size(), 14u);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kDirectory)) {
    const std::string name = std::filesystem::relative(entry.path(), kDirectory).string();
    if (!entry.is_regular_file() || name == "README.md" || name == "SHA256SUMS") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    const auto found = frozen.find(name);
    ASSERT_NE(found, frozen.end()) << name << " is not in SHA256SUMS: see README.md";
    EXPECT_EQ(base::Sha256::HexOf(bytes.str()), found->second) << name << " has changed";
    frozen.erase(found);
  }
  EXPECT_TRUE(frozen.empty()) << frozen.begin()->first << " is gone";
}

// Composed with pyarrow from docs/formats/view-log.md.
TEST(Golden, SegmentOfAViewLog) {
  const std::string golden = Golden("view-log-segment.arrow", "");
  const auto segment = DecodeViewLogSegment(arrow::Buffer::FromString(golden));
  ASSERT_TRUE(segment.ok()) << segment.status().ToString();
  EXPECT_EQ(segment->id,
            (ViewLogSegmentId{"orders", "018f0000-0000-7000-8000-000000000001", 2, 40}));
  const std::vector<ColumnSpec> columns = {
      {"id", "bigint", false}, {"who", "text", true}, {"at", "timestamp", true}};
  EXPECT_EQ(segment->schema.columns, columns);
  EXPECT_EQ(segment->schema.event_time, "at");
  EXPECT_EQ(segment->rows, 3u);
  EXPECT_EQ(segment->event_time, (EventTimeBounds{1500, 2000}));
  ASSERT_EQ(segment->batches.size(), 2u);
  const auto& who = static_cast<const arrow::StringArray&>(*segment->batches[0]->column(1));
  EXPECT_EQ(who.GetView(0), "ann");
  EXPECT_TRUE(who.IsNull(1));
}

}  // namespace
}  // namespace cairn::format

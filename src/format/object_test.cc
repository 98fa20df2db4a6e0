// SPDX-License-Identifier: Apache-2.0
#include "format/object.h"

#include <gtest/gtest.h>

#include <cstring>

#include "format/saved_rows_testing.h"

namespace cairn::format {
namespace {

using base::CheckpointId;
using base::OperatorId;

ObjectSchema SchemaOf(bool with_row_kind) {
  ObjectSchema schema;
  schema.slot_hash.seed = 0x0123456789abcdef;
  schema.with_row_kind = with_row_kind;
  schema.state_versions = {{42, "row", 1, "counts"}, {42, "topn", 2, ""}};
  return schema;
}

EncodedFrame FrameOf(const ObjectSchema& schema, uint16_t group, size_t rows, size_t value_bytes) {
  std::vector<Row> list;
  for (size_t i = 0; i < rows; ++i) {
    list.push_back({0, std::string(1, static_cast<char>(group)) + "s|" + std::to_string(i),
                    std::string(value_bytes, 'v')});
  }
  auto frame =
      EncodeFrame(schema, {FrameKind::kKeyed, OperatorId(42), group, group, false, CheckpointId(5)},
                  SavedRowsOf(list));
  EXPECT_TRUE(frame.ok()) << frame.status().ToString();
  return *std::move(frame);
}

struct Written {
  std::string bytes;
  std::vector<ByteRange> ranges;
  std::vector<EncodedFrame> frames;
  ObjectSummary summary;
};

Written WriteObject(const ObjectSchema& schema, const std::vector<size_t>& frame_rows,
                    size_t value_bytes = 8) {
  Written written;
  StringSink sink;
  auto writer = ObjectWriter::Open(&sink, schema);
  EXPECT_TRUE(writer.ok()) << writer.status().ToString();
  uint16_t group = 0;
  for (const size_t rows : frame_rows) {
    written.frames.push_back(FrameOf(schema, group++, rows, value_bytes));
    auto range = (*writer)->Append(written.frames.back());
    EXPECT_TRUE(range.ok()) << range.status().ToString();
    written.ranges.push_back(*range);
  }
  auto summary = (*writer)->Finish();
  EXPECT_TRUE(summary.ok()) << summary.status().ToString();
  written.summary = *summary;
  written.bytes = std::move(sink.bytes);
  return written;
}

TEST(ObjectWriter, TilesTheObjectWithPrefixFramesAndSuffix) {
  for (bool with_row_kind : {false, true}) {
    const Written written = WriteObject(SchemaOf(with_row_kind), {3, 100, 1}, 5000);
    uint64_t at = 0;
    EXPECT_EQ(written.summary.prefix.range.offset, 0u);
    at = written.summary.prefix.range.end();
    for (const ByteRange& range : written.ranges) {
      EXPECT_EQ(range.offset, at);
      EXPECT_EQ(range.offset % 8, 0u);
      at = range.end();
    }
    EXPECT_EQ(written.summary.suffix.range.offset, at);
    EXPECT_EQ(written.summary.suffix.range.end(), written.summary.length);
    EXPECT_EQ(written.summary.length, written.bytes.size());
  }
}

TEST(ObjectWriter, HashesSectionsAndFramesAsTheyLie) {
  const Written written = WriteObject(SchemaOf(false), {3, 100}, 5000);
  const auto sha_of = [&](const ByteRange& range) {
    return base::Sha256::Of(std::string_view(written.bytes).substr(range.offset, range.length));
  };
  EXPECT_EQ(written.summary.prefix.sha256, sha_of(written.summary.prefix.range));
  EXPECT_EQ(written.summary.suffix.sha256, sha_of(written.summary.suffix.range));
  for (size_t i = 0; i < written.frames.size(); ++i) {
    EXPECT_EQ(written.frames[i].summary.sha256, sha_of(written.ranges[i]));
  }
}

TEST(ObjectWriter, WritesAnObjectOfNoFrames) {
  const Written written = WriteObject(SchemaOf(false), {});
  EXPECT_EQ(written.summary.prefix.range.end(), written.summary.suffix.range.offset);
  const auto layout = ReadObject(written.bytes);
  ASSERT_TRUE(layout.ok()) << layout.status().ToString();
  EXPECT_TRUE(layout->frames.empty());
}

/// Fail the n-th write.
struct FailingSink final : ByteSink {
  int writes_left = 0;
  Status Append(std::string_view) override {
    return writes_left-- > 0 ? Status() : Status::ResourceExhausted("disk full");
  }
};

TEST(ObjectWriter, ReturnsTheSinksOwnErrorAndStaysFailed) {
  const ObjectSchema schema = SchemaOf(false);
  for (int writes = 0; writes < 4; ++writes) {
    FailingSink sink;
    sink.writes_left = writes;
    auto writer = ObjectWriter::Open(&sink, schema);
    ASSERT_TRUE(writer.ok());
    Status status;
    for (int i = 0; i < 10 && status.ok(); ++i) {
      const auto range = (*writer)->Append(FrameOf(schema, 1, 100, 5000));
      if (!range.ok()) status = range.status();
    }
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
    EXPECT_EQ((*writer)->Append(FrameOf(schema, 1, 1, 1)).status().code(),
              StatusCode::kResourceExhausted);
    EXPECT_EQ((*writer)->Finish().status().code(), StatusCode::kResourceExhausted);
  }
}

TEST(ObjectDigest, IsTheHashOfTheHashes) {
  // sha256(LP(domain) LP(32 x 00) LP(32 x 01) LP(32 x 02)), recomputed with Python's hashlib.
  base::Sha256Digest prefix{}, frame, suffix;
  frame.fill(1);
  suffix.fill(2);
  EXPECT_EQ(base::ToHex(ObjectDigest(prefix, {frame}, suffix)),
            "699cd661a3e60a4b468b9ed3450f3e886ef7cca5bb86b54e547f0ef169f6087f");
  const Written written = WriteObject(SchemaOf(false), {3, 1});
  EXPECT_EQ(written.summary.digest,
            ObjectDigest(written.summary.prefix.sha256,
                         {written.frames[0].summary.sha256, written.frames[1].summary.sha256},
                         written.summary.suffix.sha256));
}

TEST(ReadObject, FindsWhatWasWrittenWithoutAManifest) {
  const Written written = WriteObject(SchemaOf(true), {3, 100, 1}, 5000);
  const auto layout = ReadObject(written.bytes);
  ASSERT_TRUE(layout.ok()) << layout.status().ToString();
  EXPECT_EQ(layout->schema, SchemaOf(true));
  EXPECT_EQ(layout->summary.digest, written.summary.digest);
  EXPECT_EQ(layout->summary.prefix, written.summary.prefix);
  EXPECT_EQ(layout->summary.suffix, written.summary.suffix);
  ASSERT_EQ(layout->frames.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const FrameSummary& found = layout->frames[i].summary;
    const FrameSummary& expected = written.frames[i].summary;
    EXPECT_EQ(layout->frames[i].range, written.ranges[i]);
    EXPECT_EQ(found.identity, expected.identity);
    EXPECT_EQ(found.entries, expected.entries);
    EXPECT_EQ(found.crc32c, expected.crc32c);
    EXPECT_EQ(found.sha256, expected.sha256);
  }
}

TEST(ReadObject, RefusesEveryTruncation) {
  const Written written = WriteObject(SchemaOf(false), {3, 1});
  for (size_t size = 0; size < written.bytes.size(); ++size) {
    const auto layout = ReadObject(std::string_view(written.bytes).substr(0, size));
    ASSERT_FALSE(layout.ok()) << size;
  }
}

TEST(ReadObject, SurvivesEveryFlippedByte) {
  Written written = WriteObject(SchemaOf(false), {3, 1});
  for (char& byte : written.bytes) {
    byte ^= 0x21;
    const auto layout = ReadObject(written.bytes);
    if (layout.ok()) {
      EXPECT_NE(layout->summary.digest, written.summary.digest);
    }
    byte ^= 0x21;
  }
}

TEST(ReadObjectPrefix, ReturnsTheSchemaOfExactlyThePrefix) {
  const Written written = WriteObject(SchemaOf(true), {3});
  const uint64_t length = written.summary.prefix.range.length;
  const auto schema = ReadObjectPrefix(std::string_view(written.bytes).substr(0, length));
  ASSERT_TRUE(schema.ok()) << schema.status().ToString();
  EXPECT_EQ(*schema, SchemaOf(true));
  EXPECT_FALSE(ReadObjectPrefix(std::string_view(written.bytes).substr(0, length + 8)).ok());
}

TEST(ObjectSchemas, RefuseAnotherVersionLayoutOrHash) {
  Written written = WriteObject(SchemaOf(false), {});
  const auto code_with = [&](std::string_view from, std::string_view to) {
    std::string bytes = written.bytes;
    for (size_t at = bytes.find(from); at != std::string::npos; at = bytes.find(from, at + 1)) {
      std::memcpy(bytes.data() + at, to.data(), to.size());
    }
    return ReadObject(bytes).status().code();
  };
  EXPECT_EQ(code_with("xxh3-64", "xxh9-64"), StatusCode::kUnsupportedFormat);
  EXPECT_EQ(code_with("cairn.format_version", "other.format_version"), StatusCode::kCorruption);
  EXPECT_EQ(code_with("value_bytes", "other_bytes"), StatusCode::kCorruption);
  EXPECT_EQ(code_with("0123456789abcdef", "0123456789abcdeg"), StatusCode::kCorruption);
}

TEST(StateVersions, PackSortedLinesOfThreeAndFourFields) {
  const std::vector<StateVersion> versions = {
      {9, "b", 2, ""}, {1, "z", 3, "slot"}, {9, "a", 1, "x"}};
  const std::string text = *PackStateVersions(versions);
  EXPECT_EQ(text, "1|z|3|slot\n9|a|1|x\n9|b|2");
  const auto parsed = ParseStateVersions(text);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*PackStateVersions(*parsed), text);
  EXPECT_EQ(*PackStateVersions({}), "");
  EXPECT_TRUE(ParseStateVersions("")->empty());
}

TEST(StateVersions, RefuseWhatCannotBeReadBack) {
  EXPECT_EQ(PackStateVersions({{1, "a|b", 1, ""}}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(PackStateVersions({{1, "a", 1, "x\ny"}}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(PackStateVersions({{1, "", 1, ""}}).status().code(), StatusCode::kInvalidArgument);
  for (const char* bad : {"1|a", "1|a|2|s|x", "x|a|1", "1|a|x", "1||1", "1|a|1|", "-1|a|1", "\n"}) {
    EXPECT_EQ(ParseStateVersions(bad).status().code(), StatusCode::kCorruption) << bad;
  }
}

}  // namespace
}  // namespace cairn::format

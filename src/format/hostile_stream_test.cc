// SPDX-License-Identifier: Apache-2.0
//
// Streams that lie: cut off, of another format, with offsets and counts that do not fit. Each is a
// clean error in bounded memory, read whole or a batch at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/coding.h"
#include "format/canonical_stream.h"
#include "format/saved_rows_testing.h"

namespace cairn::format {
namespace {

using ::testing::HasSubstr;

std::string GoldenBytes(const std::string& name) {
  std::ifstream in("testdata/format/v1/" + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

/// Bytes in memory as a source, which counts how much was asked for at once.
class StringSource final : public ByteSource {
 public:
  explicit StringSource(std::string_view bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  Status Read(std::span<char> out) override {
    if (fail_at_ <= at_) return Status::Unavailable("the disk is gone");
    if (out.size() > bytes_.size() - at_) return Status::Internal("asked past the end");
    std::memcpy(out.data(), bytes_.data() + at_, out.size());
    at_ += out.size();
    return {};
  }
  void FailAt(size_t at) { fail_at_ = at; }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  size_t fail_at_ = SIZE_MAX;
};

/// Read a batch at a time, to the end.
Result<std::vector<Row>> ReadByBatches(ByteSource* source) {
  CAIRN_ASSIGN_OR_RETURN(const auto reader, CanonicalStreamReader::Open(source));
  std::vector<Row> rows;
  for (;;) {
    CAIRN_ASSIGN_OR_RETURN(const auto batch, reader->Next());
    if (!batch) return rows;
    AddSpan(batch->rows, &rows);
  }
}

Status ReadBothWays(std::string_view bytes) {
  StringSource source(bytes);
  const Status streamed = ReadByBatches(&source).status();
  const Status whole = ReadCanonicalStream(bytes).status();
  EXPECT_EQ(streamed.code(), whole.code()) << streamed.ToString() << " / " << whole.ToString();
  return whole;
}

TEST(HostileStream, ABatchAtATimeReadsWhatTheWholeReads) {
  const std::string bytes = GoldenBytes("snapshot-stamps.snap");
  StringSource source(bytes);
  const auto streamed = ReadByBatches(&source);
  ASSERT_TRUE(streamed.ok()) << streamed.status().ToString();
  std::vector<Row> whole;
  const auto stream = ReadCanonicalStream(bytes);
  for (const CanonicalBatch& batch : stream->batches) AddSpan(batch.rows, &whole);
  EXPECT_EQ(*streamed, whole);
  StringSource again(bytes);
  EXPECT_EQ((*CanonicalStreamReader::Open(&again))->state_versions(), stream->state_versions);
  StringSource empty("");
  EXPECT_TRUE(ReadByBatches(&empty)->empty());
}

TEST(HostileStream, Case58CutAtAnyByteOrAddedToIsRefused) {
  for (const char* name : {"snapshot-v1.snap", "snapshot-stamps.snap"}) {
    const std::string bytes = GoldenBytes(name);
    EXPECT_TRUE(ReadBothWays(bytes).ok());
    for (size_t size = 1; size < bytes.size(); ++size) {
      EXPECT_EQ(ReadBothWays(std::string_view(bytes).substr(0, size)).code(),
                StatusCode::kCorruption)
          << name << " cut at " << size;
    }
    EXPECT_EQ(ReadBothWays(bytes + '\0').code(), StatusCode::kCorruption);
    EXPECT_EQ(ReadBothWays(bytes + bytes).code(), StatusCode::kCorruption);
  }
  const std::string log = GoldenBytes("snapshot-changelog.snap");
  for (size_t size = 1; size < log.size(); ++size) {
    EXPECT_FALSE(ReadChangelogStream(std::string_view(log).substr(0, size)).ok()) << size;
  }
}

/// Rows whose last value ends like the stream itself does, and fill the body to its last byte.
std::string StreamOf(const std::vector<Row>& rows) {
  StringSink sink;
  auto writer = CanonicalStreamWriter::Open(&sink, {});
  EXPECT_TRUE(writer.ok());
  const auto saved = SavedRowsOf(rows);
  base::SavedRowSpan span;
  span.rows = saved->rows();
  span.key_offsets = reinterpret_cast<const int32_t*>(saved->key_offsets().data());
  span.key_data = saved->key_data().data();
  span.value_offsets = reinterpret_cast<const int32_t*>(saved->value_offsets().data());
  span.value_data = saved->value_data().data();
  EXPECT_TRUE((*writer)->Append(base::OperatorId(42), span).ok());
  EXPECT_TRUE((*writer)->Finish().ok());
  return sink.bytes;
}

TEST(HostileStream, Case58CutBehindABodyThatEndsLikeTheStreamIsRefused) {
  const std::string marker("\xff\xff\xff\xff\0\0\0\0", 8);
  const std::string bytes = StreamOf({{0, "\x24s|k", "8 bytes." + marker}});
  EXPECT_TRUE(ReadBothWays(bytes).ok());
  const std::string cut = bytes.substr(0, bytes.size() - marker.size());
  ASSERT_TRUE(cut.ends_with(marker));
  EXPECT_EQ(ReadBothWays(cut).code(), StatusCode::kCorruption);
}

// A stream of 4 MiB in one batch, cut at 200 places.
TEST(HostileStream, Case58ABigStreamCutAnywhereIsRefused) {
  std::vector<Row> rows;
  for (int i = 0; i < 40'000; ++i) {
    rows.push_back({0, "\x24s|" + std::to_string(i), std::string(90, static_cast<char>(i))});
  }
  const std::string bytes = StreamOf(rows);
  ASSERT_GT(bytes.size(), size_t{4} << 20);
  EXPECT_TRUE(ReadBothWays(bytes).ok());
  uint64_t state = 0x9e3779b97f4a7c15u;  // the places are the same in every run
  for (int cut = 0; cut < 200; ++cut) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const size_t length = 1 + (state >> 16) % (bytes.size() - 1);
    EXPECT_EQ(ReadBothWays(std::string_view(bytes).substr(0, length)).code(),
              StatusCode::kCorruption)
        << length << " of " << bytes.size();
  }
}

TEST(HostileStream, AFailingSourceIsNoDamage) {
  const std::string bytes = GoldenBytes("snapshot-v1.snap");
  for (size_t at = 0; at < bytes.size(); at += 8) {
    StringSource source(bytes);
    source.FailAt(at);
    const auto read = ReadByBatches(&source);
    if (read.ok()) continue;  // the reads before `at` took all
    EXPECT_EQ(read.status().code(), StatusCode::kUnavailable) << read.status().ToString();
  }
}

TEST(HostileStream, Case55AnotherVersionNamesFoundAndSupported) {
  std::string newer = GoldenBytes("snapshot-v1.snap");
  const size_t key = newer.find("clink.format_version");
  ASSERT_NE(key, std::string::npos);
  // The value is the only one-character string of the metadata: its length, the digit, its NUL.
  const std::string value("\x01\0\0\0001\0", 6);
  const size_t at = newer.find(value);
  ASSERT_NE(at, std::string::npos);
  newer[at + 4] = '2';
  const Status refused = ReadBothWays(newer);
  EXPECT_EQ(refused.code(), StatusCode::kUnsupportedFormat);
  EXPECT_THAT(refused.message(), HasSubstr("version 2, this build reads 1"));
}

TEST(HostileStream, Case55OtherFormatsAreRefused) {
  const std::string jpeg("\xff\xd8\xff\xe0\0\x10JFIF\0\x01", 12);
  EXPECT_EQ(ReadBothWays(jpeg).code(), StatusCode::kCorruption);
  EXPECT_EQ(ReadBothWays(GoldenBytes("state.arrow")).code(), StatusCode::kCorruption);
  EXPECT_EQ(ReadBothWays("some text that is no snapshot at all").code(), StatusCode::kCorruption);
}

/// The golden snapshot with the int32 at `at` of its body replaced; the body begins at 0x238.
std::string WithOffset(size_t at, int32_t value) {
  std::string bytes = GoldenBytes("snapshot-v1.snap");
  std::memcpy(bytes.data() + 0x238 + at, &value, sizeof(value));
  return bytes;
}

TEST(HostileStream, Case59OffsetsThatDoNotFitAreRefused) {
  constexpr size_t kKeyOffsets = 24, kValueOffsets = 88;
  for (const size_t column : {kKeyOffsets, kValueOffsets}) {
    for (size_t i = 0; i < 4; ++i) {
      for (const int32_t value : {-1, INT32_MIN, INT32_MAX, 1 << 20, 49}) {
        EXPECT_EQ(ReadBothWays(WithOffset(column + 4 * i, value)).code(), StatusCode::kCorruption)
            << "offset " << i << " is " << value;
      }
    }
  }
  // Backwards in the middle, both ends right.
  std::string backwards = WithOffset(kKeyOffsets + 4, 32);
  const int32_t lower = 16;
  std::memcpy(backwards.data() + 0x238 + kKeyOffsets + 8, &lower, sizeof(lower));
  EXPECT_EQ(ReadBothWays(backwards).code(), StatusCode::kCorruption);
}

// Every number of the batch's own description (rows, nulls, buffer places and lengths, the length
// of the body), replaced by values that do not fit.
TEST(HostileStream, Case59CountsAndPlacesThatDoNotFitCostNoMemory) {
  const std::string golden = GoldenBytes("snapshot-v1.snap");
  std::vector<Row> expected;
  const auto stream = ReadCanonicalStream(golden);
  for (const CanonicalBatch& batch : stream->batches) AddSpan(batch.rows, &expected);
  size_t refused = 0;
  for (size_t at = 0x130; at + 8 <= 0x238; at += 4) {
    for (const int64_t value :
         {int64_t{1'000'000'000}, int64_t{-1}, INT64_MAX, INT64_MIN, int64_t{1} << 40}) {
      std::string bytes = golden;
      std::memcpy(bytes.data() + at, &value, sizeof(value));
      StringSource source(bytes);
      const auto read = ReadByBatches(&source);
      if (read.ok()) {
        // A number that no reader needs, such as a vtable's padding.
        EXPECT_EQ(*read, expected) << "byte " << at << " value " << value;
      } else {
        ++refused;
      }
      (void)ReadCanonicalStream(bytes);  // must end, too
    }
  }
  EXPECT_GT(refused, 100u);
}

TEST(HostileStream, Case59EveryByteFlippedIsRefusedOrHarmless) {
  const std::string golden = GoldenBytes("snapshot-stamps.snap");
  for (size_t at = 0; at < golden.size(); ++at) {
    for (const char flip : {'\x01', '\x80', '\x40'}) {
      std::string bytes = golden;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      (void)ReadBothWays(bytes);
    }
  }
}

TEST(SnapshotPart, IsReadBackAndIgnoredByWhoeverDoesNotAsk) {
  StringSink sink;
  const SnapshotPart part{2, 4, "deployment@41"};
  auto writer = CanonicalStreamWriter::Open(&sink, {}, part);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  StringSource source(sink.bytes);
  const auto reader = CanonicalStreamReader::Open(&source);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  EXPECT_EQ((*reader)->part(), part);
  EXPECT_TRUE(ReadCanonicalStream(sink.bytes).ok());
  const std::string whole = StreamOf({{0, "\x24s|k", "v"}});
  StringSource no_part(whole);
  EXPECT_FALSE((*CanonicalStreamReader::Open(&no_part))->part().has_value());
}

TEST(SnapshotPart, ANumberThatNoPartCanHaveIsDamage) {
  StringSink sink;
  auto writer = CanonicalStreamWriter::Open(&sink, {}, SnapshotPart{2, 4, "x"});
  ASSERT_TRUE((*writer)->Finish().ok());
  const size_t at = sink.bytes.find("2/4");
  ASSERT_NE(at, std::string::npos);
  for (const std::string text : {"0/4", "5/4", "2/0", "2x4", "/24", "24/", "-/4"}) {
    std::string bytes = sink.bytes;
    bytes.replace(at, 3, text);
    StringSource source(bytes);
    EXPECT_EQ(CanonicalStreamReader::Open(&source).status().code(), StatusCode::kCorruption)
        << text;
  }
}

}  // namespace
}  // namespace cairn::format

// SPDX-License-Identifier: Apache-2.0
#include "format/frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <thread>

#include "format/object.h"
#include "format/saved_rows_testing.h"

namespace cairn::format {
namespace {

using base::CheckpointId;
using base::OperatorId;
using base::SavedRowKind;

struct FrameList final : FrameSink {
  std::vector<EncodedFrame> frames;
  Status TakeFrame(EncodedFrame frame) override {
    frames.push_back(std::move(frame));
    return Status();
  }
};

FrameEncoderOptions OptionsOf(uint64_t frame_bytes_min = kFrameBytesMin) {
  FrameEncoderOptions options;
  options.operator_id = OperatorId(42);
  options.checkpoint_id = CheckpointId(7);
  options.frame_bytes_min = frame_bytes_min;
  return options;
}

/// Append `count` rows to `group` of the slot "s".
Status AddRows(FrameEncoder* encoder, uint32_t group, int count, size_t value_bytes = 8,
               SavedRowKind kind = SavedRowKind::kMaterialised) {
  encoder->SetSlot("s");
  CAIRN_ASSIGN_OR_RETURN(base::SavedRows * rows, encoder->BeginGroup(group));
  for (int i = 0; i < count; ++i) {
    AppendRow(rows, kind, std::to_string(i), std::string(value_bytes, 'v'));
  }
  return Status();
}

std::vector<std::pair<int, int>> RangesOf(const FrameList& list) {
  std::vector<std::pair<int, int>> ranges;
  for (const EncodedFrame& frame : list.frames) {
    ranges.emplace_back(frame.summary.identity.first_group, frame.summary.identity.last_group);
  }
  return ranges;
}

TEST(FrameEncoder, JoinsNeighbouringGroupsUntilTheFrameIsFull) {
  RowBufferPool pool;
  FrameList list;
  FrameEncoder encoder(ObjectSchema(), OptionsOf(1000), &pool, &list);
  for (uint32_t group : {3u, 4u, 9u, 10u, 11u}) {
    ASSERT_TRUE(AddRows(&encoder, group, 20).ok());  // about 500 bytes
  }
  ASSERT_TRUE(encoder.Finish().ok());
  EXPECT_EQ(RangesOf(list), (std::vector<std::pair<int, int>>{{3, 9}, {10, 11}}));
  EXPECT_EQ(list.frames[0].summary.entries, 60u);
  EXPECT_EQ(list.frames[0].summary.parts, 1u);
}

TEST(FrameEncoder, NamesOnlyGroupsThatHaveRows) {
  RowBufferPool pool;
  FrameList list;
  FrameEncoder encoder(ObjectSchema(), OptionsOf(), &pool, &list);
  for (uint32_t group = 0; group < 20; ++group) {
    ASSERT_TRUE(AddRows(&encoder, group, group == 5 || group == 8 ? 1 : 0).ok());
  }
  ASSERT_TRUE(encoder.Finish().ok());
  EXPECT_EQ(RangesOf(list), (std::vector<std::pair<int, int>>{{5, 8}}));
}

TEST(FrameEncoder, MakesNoFrameOfNoRows) {
  RowBufferPool pool;
  FrameList list;
  FrameEncoder encoder(ObjectSchema(), OptionsOf(), &pool, &list);
  ASSERT_TRUE(AddRows(&encoder, 0, 0).ok());
  ASSERT_TRUE(encoder.Flush().ok());
  ASSERT_TRUE(encoder.Finish().ok());
  EXPECT_TRUE(list.frames.empty());
}

TEST(FrameEncoder, KeepsOneGroupAFrameWhenAsked) {
  RowBufferPool pool;
  FrameList list;
  FrameEncoderOptions options = OptionsOf();
  options.frame_per_group = true;
  FrameEncoder encoder(ObjectSchema(), options, &pool, &list);
  for (uint32_t group : {1u, 2u, 4u}) ASSERT_TRUE(AddRows(&encoder, group, 2).ok());
  ASSERT_TRUE(encoder.Finish().ok());
  EXPECT_EQ(RangesOf(list), (std::vector<std::pair<int, int>>{{1, 1}, {2, 2}, {4, 4}}));
}

TEST(FrameEncoder, CutsAPartAtEachFlushAndMarksOnlyTheLast) {
  RowBufferPool pool;
  FrameList list;
  FrameEncoder encoder(ObjectSchema(), OptionsOf(), &pool, &list);
  ASSERT_TRUE(AddRows(&encoder, 1, 10).ok());
  base::SavedRows* rows = *encoder.BeginGroup(2);
  for (int flush = 0; flush < 3; ++flush) {
    AppendRow(rows, SavedRowKind::kMaterialised, "k" + std::to_string(flush), "v");
    ASSERT_TRUE(encoder.Flush().ok());
    EXPECT_EQ(rows->rows(), 0u) << "the caller's columns stay in place, empty";
  }
  ASSERT_TRUE(AddRows(&encoder, 3, 1).ok());
  ASSERT_TRUE(encoder.Finish().ok());
  ASSERT_EQ(RangesOf(list), (std::vector<std::pair<int, int>>{{1, 2}, {3, 3}}));
  const EncodedFrame& frame = list.frames[0];
  ASSERT_EQ(frame.parts.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(frame.parts[i].tag.part, i);
    EXPECT_EQ(frame.parts[i].tag.last, i == 2);
    EXPECT_EQ(frame.parts[i].entries, i == 0 ? 11u : 1u);
  }
}

TEST(FrameEncoder, PutsGroupAndSlotBeforeEveryKey) {
  RowBufferPool pool;
  FrameList list;
  FrameEncoder encoder(ObjectSchema(), OptionsOf(), &pool, &list);
  for (const char* slot : {"a", "b"}) {
    encoder.SetSlot(slot);
    AppendRow(*encoder.BeginGroup(36), SavedRowKind::kMaterialised, "key", slot);
  }
  ASSERT_TRUE(encoder.Finish().ok());
  EXPECT_EQ(RowsOf(list.frames[0]), (std::vector<Row>{{0,
                                                       "\x24"
                                                       "a|key",
                                                       "a"},
                                                      {0,
                                                       "\x24"
                                                       "b|key",
                                                       "b"}}));
}

TEST(FrameEncoder, PutsAllOnesBeforeOperatorStateAndOneSubtaskInAFrame) {
  RowBufferPool pool;
  FrameList list;
  FrameEncoderOptions options = OptionsOf();
  options.kind = FrameKind::kOperatorState;
  FrameEncoder encoder(ObjectSchema(), options, &pool, &list);
  for (uint32_t subtask : {0u, 1u}) {
    encoder.SetSlot("offsets");
    AppendRow(*encoder.BeginGroup(subtask), SavedRowKind::kMaterialised, "p", "1");
  }
  ASSERT_TRUE(encoder.Finish().ok());
  EXPECT_EQ(RangesOf(list), (std::vector<std::pair<int, int>>{{0, 0}, {1, 1}}));
  EXPECT_EQ(RowsOf(list.frames[0])[0].key,
            "\xff"
            "offsets|p");
}

TEST(FrameEncoder, RefusesGroupsOutOfOrderAndOutOfRange) {
  RowBufferPool pool;
  FrameList list;
  FrameEncoder encoder(ObjectSchema(), OptionsOf(), &pool, &list);
  ASSERT_TRUE(AddRows(&encoder, 5, 1).ok());
  EXPECT_EQ(AddRows(&encoder, 4, 1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(AddRows(&encoder, 128, 1).code(), StatusCode::kInvalidArgument);
}

TEST(FrameEncoder, RefusesKindsThatTheFrameCannotHold) {
  RowBufferPool pool;
  FrameList list;
  FrameEncoder base_encoder(ObjectSchema(), OptionsOf(), &pool, &list);
  ASSERT_TRUE(AddRows(&base_encoder, 1, 1, 8, SavedRowKind::kErase).ok());
  EXPECT_EQ(base_encoder.Finish().code(), StatusCode::kInvalidArgument);

  FrameEncoderOptions delta = OptionsOf();
  delta.delta = true;
  FrameEncoder no_kinds(ObjectSchema(), delta, &pool, &list);
  ASSERT_TRUE(AddRows(&no_kinds, 1, 1, 8, SavedRowKind::kPut).ok());
  EXPECT_EQ(no_kinds.Finish().code(), StatusCode::kInvalidArgument);

  ObjectSchema with_kinds;
  with_kinds.with_row_kind = true;
  FrameEncoder materialised(with_kinds, delta, &pool, &list);
  ASSERT_TRUE(AddRows(&materialised, 1, 1).ok());
  EXPECT_EQ(materialised.Finish().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(list.frames.empty());
}

TEST(FrameEncoder, GivesEqualRowsEqualBytesWhoeverEncodesThem) {
  RowBufferPool pool;
  FrameList one, other;
  FrameEncoder first(ObjectSchema(), OptionsOf(), &pool, &one);
  ASSERT_TRUE(AddRows(&first, 9, 3000).ok());
  ASSERT_TRUE(first.Finish().ok());
  std::thread([&] {
    FrameEncoder second(ObjectSchema(), OptionsOf(), &pool, &other);
    ASSERT_TRUE(AddRows(&second, 9, 3000).ok());
    ASSERT_TRUE(second.Finish().ok());
  }).join();
  EXPECT_EQ(one.frames[0].summary.sha256, other.frames[0].summary.sha256);
  EXPECT_EQ(one.frames[0].summary.crc32c, other.frames[0].summary.crc32c);
}

TEST(RowBufferPool, GivesTheSameMemoryAgainAndOutlivesItsOwner) {
  auto pool = std::make_unique<RowBufferPool>(1);
  auto rows = pool->Take();
  AppendRow(rows.get(), SavedRowKind::kPut, "k", "v");
  const base::SavedRows* address = rows.get();
  rows.reset();
  rows = pool->Take();
  EXPECT_EQ(rows.get(), address);
  EXPECT_EQ(rows->rows(), 0u);
  pool.reset();
  rows.reset();
}

TEST(FrameTag, RoundTripsAtAFixedWidth) {
  FramePartTag tag;
  tag.frame = {FrameKind::kKeyed, OperatorId(0x89cd31291d2aefa4), 0, 127, false, CheckpointId(7)};
  EXPECT_EQ(PackFramePartTag(tag), "v1 K 89cd31291d2aefa4 0000-007f B 0000000000000007 00000000 L");
  for (int kind = 0; kind <= 4; ++kind) {
    for (bool flag : {false, true}) {
      tag.frame = {static_cast<FrameKind>(kind), OperatorId(~0ull), 0xffff, 0xffff, flag,
                   CheckpointId(~0ull)};
      tag.part = 0xffffffff;
      tag.last = flag;
      const std::string text = PackFramePartTag(tag);
      EXPECT_EQ(text.size(), kFrameTagBytes);
      EXPECT_EQ(*ParseFramePartTag(text), tag);
    }
  }
}

TEST(FrameTag, RefusesEverySingleCharacterChange) {
  FramePartTag tag;
  tag.frame = {FrameKind::kKeyed, OperatorId(1), 2, 3, true, CheckpointId(4)};
  const std::string good = PackFramePartTag(tag);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = 'Z';
    EXPECT_FALSE(ParseFramePartTag(bad).ok()) << bad;
  }
  EXPECT_EQ(ParseFramePartTag("v2 anything").status().code(), StatusCode::kUnsupportedFormat);
  EXPECT_EQ(ParseFramePartTag("").status().code(), StatusCode::kCorruption);
}

/// One frame of three rows, written as bytes.
struct WrittenFrame {
  ObjectSchema schema;
  EncodedFrame frame;
  std::string object;
  ByteRange range;
  std::string_view bytes() const {
    return std::string_view(object).substr(range.offset, range.length);
  }
  FrameExpectation expectation() const {
    const FrameSummary& summary = frame.summary;
    return {summary.identity, summary.parts, summary.entries, summary.crc32c, &summary.sha256};
  }
};

WrittenFrame WriteFrame(const std::vector<Row>& rows, FrameIdentity identity,
                        ObjectSchema schema = {}) {
  WrittenFrame written;
  written.schema = schema;
  auto encoded = EncodeFrame(schema, identity, SavedRowsOf(rows));
  EXPECT_TRUE(encoded.ok()) << encoded.status().ToString();
  written.frame = *std::move(encoded);
  StringSink sink;
  auto writer = *ObjectWriter::Open(&sink, schema);
  written.range = *writer->Append(written.frame);
  EXPECT_TRUE(writer->Finish().ok());
  written.object = sink.bytes;
  return written;
}

const FrameIdentity kIdentity{FrameKind::kKeyed, OperatorId(42), 7, 36, false, CheckpointId(3)};
std::vector<Row> ThreeRows() {
  return {{0, "\x07s|b", "2"}, {0, "\x24s|a", "1"}, {0, "\x24s|c", std::string(300, 'x')}};
}

TEST(ReadFrame, ReturnsTheRowsInPlace) {
  const WrittenFrame written = WriteFrame(ThreeRows(), kIdentity);
  const auto rows = ReadFrame(written.bytes(), written.schema, written.expectation());
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  EXPECT_EQ(RowsOf(*rows), ThreeRows());
  const char* key = rows->batches[0].key(0).data();
  EXPECT_TRUE(key > written.object.data() && key < written.object.data() + written.object.size());
}

TEST(ReadFrame, ReadsUnalignedBytes) {
  const WrittenFrame written = WriteFrame(ThreeRows(), kIdentity);
  const std::string shifted = "x" + std::string(written.bytes());
  const auto rows =
      ReadFrame(std::string_view(shifted).substr(1), written.schema, written.expectation());
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  EXPECT_EQ(RowsOf(*rows), ThreeRows());
}

TEST(ReadFrame, RefusesEveryFlippedByteByItsCrc) {
  const WrittenFrame written = WriteFrame(ThreeRows(), kIdentity);
  std::string bytes(written.bytes());
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= 0x40;
    EXPECT_EQ(ReadFrame(bytes, written.schema, written.expectation()).status().code(),
              StatusCode::kCorruption);
    bytes[i] ^= 0x40;
  }
}

TEST(ReadFrame, RefusesEveryFlippedByteOrReadsRowsWhenTheCrcFits) {
  const WrittenFrame written = WriteFrame(ThreeRows(), kIdentity);
  std::string bytes(written.bytes());
  FrameExpectation expected = written.expectation();
  expected.sha256 = nullptr;
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] ^= static_cast<char>(1 << bit);
      expected.crc32c = base::Crc32c(0, bytes);
      const auto rows = ReadFrame(bytes, written.schema, expected);
      if (rows.ok()) {
        EXPECT_EQ(rows->entries, 3u);
      }
      bytes[i] ^= static_cast<char>(1 << bit);
    }
  }
}

TEST(ReadFrame, NamesWhatDiffersFromTheManifest) {
  const WrittenFrame written = WriteFrame(ThreeRows(), kIdentity);
  const auto message_with = [&](auto change) {
    FrameExpectation expected = written.expectation();
    change(&expected);
    const Status status = ReadFrame(written.bytes(), written.schema, expected).status();
    EXPECT_EQ(status.code(), StatusCode::kCorruption);
    return std::string(status.message());
  };
  const base::Sha256Digest other{};
  EXPECT_NE(message_with([](auto* e) { e->crc32c ^= 1; }).find("CRC-32C"), std::string::npos);
  EXPECT_NE(message_with([&](auto* e) { e->sha256 = &other; }).find("SHA-256"), std::string::npos);
  EXPECT_NE(message_with([](auto* e) { e->entries = 4; }).find("3 entries, 4"), std::string::npos);
  EXPECT_NE(message_with([](auto* e) { e->parts = 2; }).find("1 parts, 2"), std::string::npos);
  EXPECT_NE(message_with([](auto* e) {
              e->identity.checkpoint_id = CheckpointId(9);
            }).find("checkpoint 3"),
            std::string::npos);
}

TEST(ReadFrame, RefusesRowsOfOtherGroupsAndOperators) {
  FrameIdentity narrow = kIdentity;
  narrow.last_group = 35;
  const WrittenFrame other_group = WriteFrame(ThreeRows(), narrow);
  const Status status =
      ReadFrame(other_group.bytes(), other_group.schema, other_group.expectation()).status();
  EXPECT_NE(status.message().find("group 36"), std::string::npos) << status.message();

  WrittenFrame written = WriteFrame(ThreeRows(), kIdentity);
  std::string bytes(written.bytes());
  const std::string id("\x2a\0\0\0\0\0\0\0", 8);
  bytes[bytes.find(id)] = '\x2b';
  FrameExpectation expected = written.expectation();
  expected.crc32c = base::Crc32c(0, bytes);
  expected.sha256 = nullptr;
  const Status other_operator = ReadFrame(bytes, written.schema, expected).status();
  EXPECT_NE(other_operator.message().find("another operator"), std::string::npos);
}

TEST(ReadFrame, RefusesTruncationAndTrailingBytesWhenTheCrcFits) {
  const WrittenFrame written = WriteFrame(ThreeRows(), kIdentity);
  FrameExpectation expected = written.expectation();
  expected.sha256 = nullptr;
  for (size_t size = 0; size < written.bytes().size(); ++size) {
    const std::string_view cut = written.bytes().substr(0, size);
    expected.crc32c = base::Crc32c(0, cut);
    ASSERT_EQ(ReadFrame(cut, written.schema, expected).status().code(), StatusCode::kCorruption)
        << size;
  }
  const std::string twice = std::string(written.bytes()) + std::string(written.bytes());
  expected.crc32c = base::Crc32c(0, twice);
  EXPECT_EQ(ReadFrame(twice, written.schema, expected).status().code(), StatusCode::kCorruption);
}

TEST(ReadFrame, ReadsPutsAndErasesOfADelta) {
  ObjectSchema schema;
  schema.with_row_kind = true;
  FrameIdentity identity = kIdentity;
  identity.delta = true;
  const std::vector<Row> rows = {{1, "\x07s|b", "2"}, {2, "\x24s|a", ""}};
  const WrittenFrame written = WriteFrame(rows, identity, schema);
  const auto read = ReadFrame(written.bytes(), written.schema, written.expectation());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(RowsOf(*read), rows);

  const WrittenFrame with_value = WriteFrame({{2, "\x24s|a", "v"}}, identity, schema);
  EXPECT_FALSE(ReadFrame(with_value.bytes(), schema, with_value.expectation()).ok());
}

TEST(ReadFrame, ReadsTwoByteGroups) {
  ObjectSchema schema;
  schema.layout = *KeyLayout::ForKeyGroups(1000);
  const FrameIdentity identity{FrameKind::kKeyed, OperatorId(42), 513, 513, false, CheckpointId(1)};
  const std::vector<Row> rows = {{0, "\x02\x01s|k", "v"}};
  const WrittenFrame written = WriteFrame(rows, identity, schema);
  const auto read = ReadFrame(written.bytes(), schema, written.expectation());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(RowsOf(*read), rows);
}

}  // namespace
}  // namespace cairn::format

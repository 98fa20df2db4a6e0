// SPDX-License-Identifier: Apache-2.0
#include "format/changelog_stream.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/hash.h"

namespace cairn::format {
namespace {

class ChangelogBytes final : public ByteSink {
 public:
  Status Append(std::string_view bytes) override {
    text.append(bytes);
    return {};
  }
  std::string text;
};

void AddLogRow(base::SavedRows* rows, base::SavedRowKind kind, std::string_view key,
               std::string_view value) {
  const base::SavedRows::Slot to = rows->Append(kind, key.size(), value.size());
  std::memcpy(to.key, key.data(), key.size());
  if (!value.empty()) std::memcpy(to.value, value.data(), value.size());
}

/// A put and an erase behind `materialisation`.
std::string WriteLog(ChangelogRowKind kind, std::string_view materialisation) {
  ChangelogBytes sink;
  auto writer = ChangelogStreamWriter::Open(&sink, kind, materialisation);
  EXPECT_TRUE(writer.ok()) << writer.status().ToString();
  base::SavedRows rows;
  AddLogRow(&rows, base::SavedRowKind::kPut, "\x24s|k1", "one");
  AddLogRow(&rows, base::SavedRowKind::kErase, "\x24s|k2", "");
  const base::SavedRowSpan span{reinterpret_cast<const uint8_t*>(rows.kinds().data()),
                                reinterpret_cast<const int32_t*>(rows.key_offsets().data()),
                                rows.key_data().data(),
                                reinterpret_cast<const int32_t*>(rows.value_offsets().data()),
                                rows.value_data().data(),
                                rows.rows()};
  EXPECT_TRUE((*writer)->Append({42, 43}, span).ok());
  EXPECT_FALSE((*writer)->Append({42}, span).ok());
  EXPECT_TRUE((*writer)->Finish().ok());
  return sink.text;
}

std::string EmptySnapshot() {
  ChangelogBytes sink;
  auto writer = CanonicalStreamWriter::Open(&sink, {});
  EXPECT_TRUE(writer.ok() && (*writer)->Finish().ok());
  return sink.text;
}

TEST(ChangelogWriter, WhatIsWrittenReadsBack) {
  for (const ChangelogRowKind kind :
       {ChangelogRowKind::kMaterialisedInline, ChangelogRowKind::kMaterialisedHandle}) {
    for (const std::string& materialisation : {std::string(), std::string("mat-7.bin")}) {
      const std::string bytes = WriteLog(kind, materialisation);
      const auto stream = ReadChangelogStream(bytes);
      ASSERT_TRUE(stream.ok()) << stream.status().ToString();
      EXPECT_EQ(stream->materialisation, kind);
      EXPECT_EQ(stream->materialisation_value, materialisation);
      ASSERT_EQ(stream->rows, 2u);
      const CanonicalBatch& batch = stream->batches.back();
      EXPECT_EQ(batch.operator_ids[1], 43u);
      EXPECT_EQ(batch.rows.kind(0), base::SavedRowKind::kPut);
      EXPECT_EQ(batch.rows.key(0), "\x24s|k1");
      EXPECT_EQ(batch.rows.value(0), "one");
      EXPECT_EQ(batch.rows.kind(1), base::SavedRowKind::kErase);
      EXPECT_EQ(batch.rows.key(1), "\x24s|k2");
    }
  }
}

// The body of row 0 ends with the inner stream's end marker: that is not the end of the log.
TEST(ChangelogWriter, ALogThatIsCutOffBehindAnInnerStreamIsRefused) {
  const std::string whole = WriteLog(ChangelogRowKind::kMaterialisedInline, EmptySnapshot());
  ASSERT_TRUE(ReadChangelogStream(whole).ok());
  for (size_t length = 1; length < whole.size(); ++length) {
    ASSERT_EQ(ReadChangelogStream(std::string_view(whole).substr(0, length)).status().code(),
              StatusCode::kCorruption)
        << length;
  }
}

TEST(ChangelogWriter, OtherFirstRowsAreRefused) {
  ChangelogBytes sink;
  EXPECT_EQ(ChangelogStreamWriter::Open(&sink, ChangelogRowKind::kPut, "").status().code(),
            StatusCode::kInvalidArgument);
  const std::string_view too_long(sink.text.data(), kChangelogInlineBytesMax + 1);
  EXPECT_EQ(ChangelogStreamWriter::Open(&sink, ChangelogRowKind::kMaterialisedInline, too_long)
                .status()
                .code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(sink.text.empty());
}

}  // namespace
}  // namespace cairn::format

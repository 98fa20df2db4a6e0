// SPDX-License-Identifier: Apache-2.0
#include "format/view_log_segment.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/builder.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace cairn::format {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<arrow::Schema> TimesColumns() {
  return arrow::schema({arrow::field("id", arrow::int64(), false),
                        arrow::field("at", arrow::timestamp(arrow::TimeUnit::MICRO), true)});
}

std::shared_ptr<arrow::RecordBatch> TimesBatch(const std::vector<std::optional<int64_t>>& times) {
  arrow::Int64Builder id;
  arrow::TimestampBuilder at(arrow::timestamp(arrow::TimeUnit::MICRO),
                             arrow::default_memory_pool());
  for (size_t i = 0; i < times.size(); ++i) {
    EXPECT_TRUE(id.Append(static_cast<int64_t>(i)).ok());
    EXPECT_TRUE((times[i] ? at.Append(*times[i]) : at.AppendNull()).ok());
  }
  return arrow::RecordBatch::Make(TimesColumns(), static_cast<int64_t>(times.size()),
                                  {*id.Finish(), *at.Finish()});
}

ViewLogSegmentId Id() { return {"orders", "018f0000-0000-7000-8000-000000000001", 3, 100}; }

EncodedViewLogSegment EncodeTimes(const std::vector<std::optional<int64_t>>& times) {
  const ViewLogSchema schema = *ViewLogSchemaOf(*TimesColumns(), "at");
  auto encoder = *ViewLogSegmentEncoder::Open(schema, Id());
  EXPECT_TRUE(encoder->Append(*TimesBatch(times)).ok());
  auto encoded = encoder->Finish();
  EXPECT_TRUE(encoded.ok()) << encoded.status().ToString();
  return *std::move(encoded);
}

std::shared_ptr<arrow::Buffer> Copy(std::string_view bytes) {
  return arrow::Buffer::FromString(std::string(bytes));
}

/// What a manifest says of `encoded`.
std::pair<ViewLog, ViewLogSegment> Saved(const EncodedViewLogSegment& encoded) {
  ViewLog log;
  log.view = Id().view;
  log.generation = Id().generation;
  log.schema_sha256 = view_log_schema_sha256(*ViewLogSchemaOf(*TimesColumns(), "at"));
  log.partitions = 4;
  ViewLogSegment segment;
  segment.partition = 3;
  segment.first = 100;
  segment.end = 100 + encoded.rows;
  segment.object_length = encoded.view().size();
  segment.sha256 = encoded.sha256;
  segment.event_time = encoded.event_time;
  return {log, segment};
}

TEST(ViewLogSegmentFormat, ReadsBackWhatItWrote) {
  const EncodedViewLogSegment encoded = EncodeTimes({5'000, 1'999, std::nullopt});
  EXPECT_EQ(encoded.rows, 3u);
  EXPECT_EQ(encoded.event_time, (EventTimeBounds{1, 5}));
  const auto [log, segment] = Saved(encoded);
  const auto read = OpenViewLogSegment(Copy(encoded.view()), log, segment);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->id, Id());
  EXPECT_EQ(read->rows, 3u);
  ASSERT_EQ(read->batches.size(), 1u);
  EXPECT_TRUE(read->batches[0]->Equals(*TimesBatch({5'000, 1'999, std::nullopt}), true));
}

TEST(ViewLogSegmentFormat, AnyArrowReaderOpensItAndSeesWhoseRowsTheyAre) {
  const EncodedViewLogSegment encoded = EncodeTimes({1});
  arrow::io::BufferReader file(Copy(encoded.view()));
  const auto reader = *arrow::ipc::RecordBatchFileReader::Open(&file);
  EXPECT_EQ(reader->num_record_batches(), 1);
  EXPECT_EQ(*reader->schema()->metadata()->Get("cairn.view_log.view"), "orders");
  EXPECT_EQ(*reader->schema()->metadata()->Get("cairn.view_log.first"), "100");
}

// Milliseconds round down, also before 1970, so that a bound never says more than the rows.
TEST(ViewLogSegmentFormat, BoundsAreMillisecondsRoundedDown) {
  EXPECT_EQ(EncodeTimes({-1, 0}).event_time, (EventTimeBounds{-1, 0}));
  EXPECT_EQ(EncodeTimes({-1'000, -1'001}).event_time, (EventTimeBounds{-2, -1}));
  EXPECT_EQ(EncodeTimes({999, 1'000}).event_time, (EventTimeBounds{0, 1}));
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(EncodeTimes({kLeast, kMost}).event_time,
            (EventTimeBounds{kLeast / 1000 - 1, kMost / 1000}));
  EXPECT_EQ(EncodeTimes({std::nullopt}).event_time, std::nullopt);
}

TEST(ViewLogSegmentFormat, EventTimesMayBeMillisecondsInABigint) {
  const auto columns = arrow::schema({arrow::field("ms", arrow::int64())});
  arrow::Int64Builder builder;
  ASSERT_TRUE(builder.Append(1'234'567).ok() && builder.Append(7).ok());
  auto encoder = *ViewLogSegmentEncoder::Open(*ViewLogSchemaOf(*columns, "ms"), Id());
  ASSERT_TRUE(encoder->Append(*arrow::RecordBatch::Make(columns, 2, {*builder.Finish()})).ok());
  EXPECT_EQ(encoder->Finish()->event_time, (EventTimeBounds{7, 1'234'567}));
}

TEST(ViewLogSegmentFormat, ASchemaThatNoLogCanHaveIsRefusedAndSaysWhy) {
  const auto refused = [](const arrow::Schema& schema, std::optional<std::string> event_time) {
    const auto described = ViewLogSchemaOf(schema, event_time);
    EXPECT_EQ(described.status().code(), StatusCode::kInvalidArgument);
    return std::string(described.status().message());
  };
  EXPECT_THAT(refused(*TimesColumns(), "when"), HasSubstr("no column 'when'"));
  EXPECT_THAT(refused(*arrow::schema({arrow::field("t", arrow::utf8())}), "t"),
              HasSubstr("may be a timestamp"));
  EXPECT_THAT(refused(*arrow::schema(
                          {arrow::field("a", arrow::int64()), arrow::field("a", arrow::int64())}),
                      std::nullopt),
              HasSubstr("two columns"));
  EXPECT_THAT(refused(*arrow::schema({arrow::field("l", arrow::list(arrow::int64()))}), {}),
              HasSubstr("no column type"));
  const auto zoned = arrow::timestamp(arrow::TimeUnit::MICRO, "UTC");
  EXPECT_THAT(refused(*arrow::schema({arrow::field("z", zoned)}), {}), HasSubstr("time zone"));
}

TEST(ViewLogSegmentFormat, TheSchemaDigestTellsEveryDifferenceApart) {
  const ViewLogSchema schema = *ViewLogSchemaOf(*TimesColumns(), "at");
  const auto differs = [&](auto change) {
    ViewLogSchema other = schema;
    change(&other);
    return view_log_schema_sha256(other) != view_log_schema_sha256(schema);
  };
  EXPECT_TRUE(differs([](ViewLogSchema* s) { s->event_time.reset(); }));
  EXPECT_TRUE(differs([](ViewLogSchema* s) { s->columns[0].name = "ID"; }));
  EXPECT_TRUE(differs([](ViewLogSchema* s) { s->columns[0].type = "integer"; }));
  EXPECT_TRUE(differs([](ViewLogSchema* s) { s->columns[0].nullable = true; }));
  EXPECT_TRUE(differs([](ViewLogSchema* s) { std::swap(s->columns[0], s->columns[1]); }));
  // Computed with Python's hashlib from docs/formats/view-log.md.
  EXPECT_EQ(base::ToHex(view_log_schema_sha256(schema)),
            "7bdbe869f81cbd3f139f255c99ef55b73e9c1a44a7ee8171bd03574e9ddcbaa5");
}

TEST(ViewLogSegmentFormat, ASegmentIsRefusedWhereTheManifestSaysOtherwise) {
  const EncodedViewLogSegment encoded = EncodeTimes({1'000, 2'000});
  const auto refused = [&](auto change) {
    auto [log, segment] = Saved(encoded);
    change(&log, &segment);
    const Status read = OpenViewLogSegment(Copy(encoded.view()), log, segment).status();
    EXPECT_EQ(read.code(), StatusCode::kCorruption);
    return std::string(read.message());
  };
  EXPECT_THAT(refused([](ViewLog*, ViewLogSegment* s) { ++s->object_length; }),
              HasSubstr("bytes instead of"));
  EXPECT_THAT(refused([](ViewLog*, ViewLogSegment* s) { s->sha256[0] ^= 1; }),
              HasSubstr("SHA-256"));
  EXPECT_THAT(refused([](ViewLog* l, ViewLogSegment*) { l->view = "bids"; }),
              HasSubstr("rows of view 'orders'"));
  EXPECT_THAT(refused([](ViewLog* l, ViewLogSegment*) { l->generation = "other"; }),
              HasSubstr("generation"));
  EXPECT_THAT(refused([](ViewLog*, ViewLogSegment* s) { s->partition = 2; }),
              HasSubstr("partition 3"));
  EXPECT_THAT(refused([](ViewLog*, ViewLogSegment* s) { s->first = 99; }), HasSubstr("from 100"));
  EXPECT_THAT(refused([](ViewLog* l, ViewLogSegment*) { l->schema_sha256[0] ^= 1; }),
              HasSubstr("columns"));
  EXPECT_THAT(refused([](ViewLog*, ViewLogSegment* s) { ++s->end; }), HasSubstr("2 rows"));
  EXPECT_THAT(refused([](ViewLog*, ViewLogSegment* s) { s->event_time->max = 3; }),
              HasSubstr("event times are 1..2"));
}

TEST(ViewLogSegmentFormat, EveryCutOffFileIsRefused) {
  const EncodedViewLogSegment encoded = EncodeTimes({1, 2, 3});
  for (size_t size = 0; size < encoded.view().size(); ++size) {
    const auto read = DecodeViewLogSegment(Copy(encoded.view().substr(0, size)));
    EXPECT_FALSE(read.ok()) << size << " of " << encoded.view().size() << " bytes";
  }
}

TEST(ViewLogSegmentFormat, AnotherVersionOrAFileOfAnotherKindIsRefused) {
  const auto file_with = [](std::shared_ptr<arrow::KeyValueMetadata> metadata) {
    auto stream = *arrow::io::BufferOutputStream::Create();
    auto writer = *arrow::ipc::MakeFileWriter(stream.get(),
                                              TimesColumns()->WithMetadata(std::move(metadata)));
    EXPECT_TRUE(writer->WriteRecordBatch(*TimesBatch({1})).ok() && writer->Close().ok());
    return *stream->Finish();
  };
  EXPECT_EQ(DecodeViewLogSegment(file_with(nullptr)).status().code(), StatusCode::kCorruption);
  EXPECT_EQ(
      DecodeViewLogSegment(file_with(arrow::key_value_metadata({"cairn.view_log.version"}, {"2"})))
          .status()
          .code(),
      StatusCode::kUnsupportedFormat);
  EXPECT_EQ(
      DecodeViewLogSegment(file_with(arrow::key_value_metadata({"cairn.view_log.version"}, {"1"})))
          .status()
          .code(),
      StatusCode::kCorruption);
}

}  // namespace
}  // namespace cairn::format

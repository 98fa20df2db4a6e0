// SPDX-License-Identifier: Apache-2.0
#include "cli/table_file.h"

#include <arrow/array/builder_binary.h>
#include <arrow/io/memory.h>
#include <arrow/record_batch.h>
#include <gtest/gtest.h>
#include <parquet/file_reader.h>

#include <string>

namespace cairn::cli {
namespace {

class StringSink final : public format::ByteSink {
 public:
  Status Append(std::string_view bytes) override {
    written.append(bytes);
    return {};
  }
  std::string written;
};

TEST(TableFile, ARowGroupOfWideRowsIsClosedByItsBytes) {
  constexpr int kBatches = 40;  // of one row
  const auto schema = arrow::schema({arrow::field("value", arrow::binary(), false)});
  StringSink sink;
  auto writer = TableWriter::Open(TableFormat::kParquet, schema, &sink);
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  size_t before_the_footer = 0;
  for (int i = 0; i < kBatches; ++i) {
    arrow::BinaryBuilder values;
    ASSERT_TRUE(values.Append(std::string(4 << 20, static_cast<char>('a' + i % 26))).ok());
    const auto batch = arrow::RecordBatch::Make(schema, 1, {*values.Finish()});
    ASSERT_TRUE((*writer)->Write(*batch).ok());
    before_the_footer = sink.written.size();
  }
  EXPECT_GT(before_the_footer, 100u) << "groups go to the file as they are filled";
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto reader = parquet::ParquetFileReader::Open(
      std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(sink.written)));
  EXPECT_EQ(reader->metadata()->num_rows(), kBatches);
  EXPECT_EQ(reader->metadata()->num_row_groups(), 3) << "of 15 rows of 4 MiB and a little";
}

}  // namespace
}  // namespace cairn::cli

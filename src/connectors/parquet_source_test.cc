// SPDX-License-Identifier: Apache-2.0
#include <arrow/array/array_primitive.h>

#include "base/coding.h"
#include "connectors/test_tables.h"
#include "env/fault_file_system.h"

namespace cairn::connectors {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class ParquetSourceTest : public testing::Test {
 protected:
  /// Write NDJSON rows as one Parquet file through the sink.
  std::string WriteParquet(const std::string& ndjson, std::vector<TestColumn> columns) {
    WriteFile(&files_, "/rows/f", ndjson);
    const auto rows = Table(columns, {{"path", "/rows/f"}, {"format", "ndjson"}});
    const Status status = WriteThroughSink(
        &files_, Table(columns, {{"path", "/pq"}, {"format", "parquet"}}), Batches(&files_, rows));
    EXPECT_TRUE(status.ok()) << status.ToString();
    return "/pq";
  }
  env::MemoryFileSystem files_;
};

TEST_F(ParquetSourceTest, EveryTypeAndNullComesBack) {
  const std::string rows =
      R"({"b":-5,"i":7,"d":1.5,"t":"x","o":true,"s":"2020-01-02 03:04:05.000006",)"
      R"("a":"2020-01-02","c":12.500})"
      "\n"
      R"({"b":null,"i":null,"d":null,"t":null,"o":null,"s":null,"a":null,"c":null})"
      "\n";
  const std::string path = WriteParquet(rows, AllTypes());
  const ReadResult result =
      ReadAll(&files_, Table(AllTypes(), {{"path", path}, {"format", "parquet"}}));
  ASSERT_TRUE(result.status.ok()) << result.status.ToString();
  EXPECT_EQ(result.lines[0] + "\n" + result.lines[1] + "\n", rows);
}

TEST_F(ParquetSourceTest, RowGroupsAreSplitsAndResumeFromEveryBatch) {
  std::string rows;
  const int count = 300'000;  // three row groups
  for (int i = 0; i < count; ++i) {
    rows += "{\"a\":" + std::to_string(i) + ",\"b\":\"" + std::to_string(i % 97) + "\"}\n";
  }
  const std::vector<TestColumn> columns = {{"a", "bigint"}, {"b", "text"}};
  WriteParquet(rows, columns);
  const auto table = Table(columns, {{"path", "/pq"}, {"format", "parquet"}});
  auto source = MakeSource(table, {0}, &files_);
  auto progress = *(*source)->Discover({});
  EXPECT_THAT(progress, SizeIs(3));
  int64_t next = 0;
  for (;;) {
    auto reader = (*source)->CreateReader(progress);
    auto batch = (*reader)->Next();
    ASSERT_TRUE(batch.ok()) << batch.status().ToString();
    if (*batch == nullptr) break;
    const auto& column = static_cast<const arrow::Int64Array&>(*(*batch)->column(0));
    for (int64_t i = 0; i < column.length(); ++i) ASSERT_EQ(column.Value(i), next++);
    progress = *(*source)->Discover((*reader)->Progress());
  }
  EXPECT_EQ(next, count);
}

TEST_F(ParquetSourceTest, NarrowerTypesWidenAndOthersAreRefused) {
  WriteParquet("{\"a\":5,\"b\":\"7\"}\n", {{"a", "integer"}, {"b", "text"}});
  const std::map<std::string, std::string> options = {{"path", "/pq"}, {"format", "parquet"}};
  EXPECT_THAT(ReadAll(&files_, Table({{"a", "bigint"}}, options)).lines, ElementsAre(R"({"a":5})"));
  EXPECT_THAT(std::string(ReadAll(&files_, Table({{"b", "bigint"}}, options)).status.message()),
              HasSubstr("column b: the file's type string cannot be read as BIGINT"));
  EXPECT_THAT(std::string(ReadAll(&files_, Table({{"z", "bigint"}}, options)).status.message()),
              HasSubstr("has no column z; its schema names: a, b"));
}

TEST_F(ParquetSourceTest, IntegersThatDoNotFitAndNullsInNotNullColumnsAreRefused) {
  WriteParquet("{\"a\":5000000000,\"b\":null}\n", {{"a", "bigint"}, {"b", "text"}});
  const std::map<std::string, std::string> options = {{"path", "/pq"}, {"format", "parquet"}};
  EXPECT_EQ(ReadAll(&files_, Table({{"a", "integer"}}, options)).status.code(),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(ReadAll(&files_, Table({{"b", "text", false}}, options)).status.message()),
      HasSubstr("column b: the column is NOT NULL"));
}

TEST_F(ParquetSourceTest, FilesCutAtEveryLengthAreRefused) {
  WriteParquet("{\"a\":5,\"b\":\"x\"}\n{\"a\":6,\"b\":\"y\"}\n", {{"a", "bigint"}, {"b", "text"}});
  const auto all = files_.AllFiles();
  std::string bytes;
  for (const auto& [path, content] : all) {
    if (path.starts_with("/pq/")) bytes = content;
  }
  ASSERT_FALSE(bytes.empty());
  const auto table =
      Table({{"a", "bigint"}, {"b", "text"}}, {{"path", "/cut/f"}, {"format", "parquet"}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    WriteFile(&files_, "/cut/f", bytes.substr(0, size));
    ASSERT_EQ(ReadAll(&files_, table).status.code(), StatusCode::kInvalidArgument) << size;
  }
  WriteFile(&files_, "/cut/f", bytes);
  EXPECT_THAT(ReadAll(&files_, table).lines, SizeIs(2));
}

TEST_F(ParquetSourceTest, AFlippedByteIsBadInputAndInAPageGivesNoOtherRows) {
  const std::vector<TestColumn> columns = {{"a", "bigint"}, {"b", "text"}};
  std::string rows;
  for (int i = 0; i < 300; ++i) {
    rows += "{\"a\":" + std::to_string(i * 7919) + ",\"b\":\"t" + std::to_string(i) + "\"}\n";
  }
  WriteFile(&files_, "/rows/f", rows);
  for (const char* compression : {"none", "snappy"}) {
    const std::string directory = std::string("/") + compression;
    ASSERT_TRUE(
        WriteThroughSink(
            &files_,
            Table(columns,
                  {{"path", directory}, {"format", "parquet"}, {"compression", compression}}),
            Batches(&files_, Table(columns, {{"path", "/rows"}, {"format", "ndjson"}})))
            .ok());
    const auto written = files_.AllFiles();
    const std::string bytes = written.lower_bound(directory + "/")->second;
    const auto table = Table(columns, {{"path", "/cut/f"}, {"format", "parquet"}});
    WriteFile(&files_, "/cut/f", bytes);
    const Lines expected = ReadAll(&files_, table).lines;
    ASSERT_THAT(expected, SizeIs(300));
    const size_t footer =
        bytes.size() - 8 - base::LoadLE<uint32_t>(bytes.data() + bytes.size() - 8);
    ASSERT_GT(footer, 2000u);
    int refused = 0;
    for (size_t at = 0; at < bytes.size(); at += 3) {
      std::string damaged = bytes;
      damaged[at] ^= 0x10;
      WriteFile(&files_, "/cut/f", damaged);
      const ReadResult result = ReadAll(&files_, table);
      if (result.status.ok()) {
        // Nothing checks the footer's own bytes: the format has no checksum of them.
        if (at < footer) {
          ASSERT_EQ(result.lines, expected) << compression << " byte " << at;
        }
        continue;
      }
      ASSERT_EQ(result.status.code(), StatusCode::kInvalidArgument)
          << compression << " byte " << at << ": " << result.status.ToString();
      ++refused;
    }
    EXPECT_GT(refused, 100);
  }
}

TEST_F(ParquetSourceTest, AFailureOfTheDiskIsNotTakenForADamagedFile) {
  WriteParquet("{\"a\":5}\n", {{"a", "bigint"}});
  env::FaultFileSystem faults(&files_);
  const auto table = Table({{"a", "bigint"}}, {{"path", "/pq"}, {"format", "parquet"}});
  uint64_t call = 0;
  for (;; ++call) {
    faults.Arm({call, env::FaultKind::kFail, false, nullptr});
    const ReadResult result = ReadAll(&faults, table);
    if (!faults.fired()) break;
    EXPECT_EQ(result.status.code(), StatusCode::kUnavailable) << faults.trace().back();
  }
  EXPECT_GT(call, 5u);
}

TEST_F(ParquetSourceTest, AReplacedFileIsRefused) {
  const std::vector<TestColumn> columns = {{"a", "bigint"}};
  const auto sink = Table(columns, {{"path", "/pq"}, {"format", "parquet"}});
  WriteParquet("{\"a\":5}\n", columns);
  auto source = MakeSource(sink, {0}, &files_);
  const auto splits = *(*source)->Discover({});
  std::string path;
  for (const auto& [name, content] : files_.AllFiles()) {
    if (name.starts_with("/pq/")) path = name;
  }
  ASSERT_TRUE(files_.RemoveFile(path).ok());
  WriteFile(&files_, "/rows/f", "{\"a\":6}\n{\"a\":7}\n");
  ASSERT_TRUE(WriteThroughSink(
                  &files_, sink,
                  Batches(&files_, Table(columns, {{"path", "/rows/f"}, {"format", "ndjson"}})))
                  .ok());
  EXPECT_EQ((*source)->Discover(splits).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn::connectors

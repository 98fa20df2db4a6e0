// SPDX-License-Identifier: Apache-2.0
//
// For the connectors' tests: tables from a few words, rows as lines of NDJSON.
#pragma once

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "connectors/factory.h"
#include "connectors/row_text.h"
#include "env/memory_file_system.h"
#include "stream/source.h"
#include "stream/table_definition.h"

namespace cairn::connectors {

using Lines = std::vector<std::string>;

inline std::shared_ptr<arrow::DataType> TypeOf(const std::string& name) {
  if (name == "bigint") return arrow::int64();
  if (name == "integer") return arrow::int32();
  if (name == "double") return arrow::float64();
  if (name == "text") return arrow::utf8();
  if (name == "boolean") return arrow::boolean();
  if (name == "timestamp") return arrow::timestamp(arrow::TimeUnit::MICRO);
  if (name == "date") return arrow::date32();
  return arrow::decimal128(12, 3);
}

struct TestColumn {
  std::string name;
  std::string type;
  bool nullable = true;
};

inline stream::TableDefinition Table(std::vector<TestColumn> columns,
                                     std::map<std::string, std::string> options,
                                     std::string connector = "filesystem") {
  stream::TableDefinition table;
  table.name = "t";
  table.connector = std::move(connector);
  table.options = std::move(options);
  for (const TestColumn& column : columns) {
    table.columns.push_back({column.name, TypeOf(column.type), column.nullable});
  }
  return table;
}

inline std::vector<TestColumn> AllTypes() {
  return {{"b", "bigint"},  {"i", "integer"},   {"d", "double"}, {"t", "text"},
          {"o", "boolean"}, {"s", "timestamp"}, {"a", "date"},   {"c", "decimal"}};
}

/// Create the parent directories and the file.
inline void WriteFile(env::FileSystem* files, const std::string& path, std::string_view bytes) {
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash != 0) {
    ASSERT_TRUE(env::CreateDirectories(files, path.substr(0, slash), false).ok());
  }
  (void)files->RemoveFile(path);
  auto file = files->CreateFile(path);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  ASSERT_TRUE((*file)->Append(bytes).ok());
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Close().ok());
}

inline void AppendLines(const arrow::RecordBatch& batch, Lines* lines) {
  auto text = RowText::Make({}, batch.schema());
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  TextBuffer buffer;
  stream::Batch rows;
  rows.rows = batch.Slice(0);
  ASSERT_TRUE(batch.ValidateFull().ok()) << batch.ValidateFull().ToString();
  ASSERT_TRUE(text->Append(rows, &buffer).ok());
  std::string_view rest = buffer.view();
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    lines->emplace_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
}

inline std::vector<int> AllColumns(const stream::TableDefinition& table) {
  std::vector<int> columns(table.columns.size());
  std::iota(columns.begin(), columns.end(), 0);
  return columns;
}

struct ReadResult {
  Status status;
  Lines lines;
  uint64_t skipped = 0;
  std::vector<stream::SplitProgress> progress;
};

/// Read everything that `saved` leaves, with one reader.
inline ReadResult ReadAll(env::FileSystem* files, const stream::TableDefinition& table,
                          const std::vector<stream::SplitProgress>& saved = {},
                          std::vector<int> columns = {-1}) {
  ReadResult result;
  if (columns == std::vector<int>{-1}) columns = AllColumns(table);
  auto source = MakeSource(table, columns, files);
  if (!source.ok()) return {source.status(), {}, 0, {}};
  auto splits = (*source)->Discover(saved);
  if (!splits.ok()) return {splits.status(), {}, 0, {}};
  auto reader = (*source)->CreateReader(*splits);
  if (!reader.ok()) return {reader.status(), {}, 0, {}};
  for (;;) {
    auto batch = (*reader)->Next();
    result.progress = (*reader)->Progress();
    result.skipped = (*reader)->rows_skipped();
    if (!batch.ok()) {
      result.status = batch.status();
      return result;
    }
    if (*batch == nullptr) return result;
    EXPECT_GT((*batch)->num_rows(), 0);
    AppendLines(**batch, &result.lines);
  }
}

/// Write `lines` of NDJSON through the sink of `table` as checkpoint `id` and commit it.
inline Status WriteThroughSink(env::FileSystem* files, const stream::TableDefinition& table,
                               const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches,
                               uint64_t id = 1, const std::string& writer_id = "w") {
  CAIRN_ASSIGN_OR_RETURN(auto sink, MakeSink(table, false, {writer_id}, files));
  CAIRN_RETURN_IF_ERROR(sink->Recover(base::CheckpointId(), {}));
  CAIRN_ASSIGN_OR_RETURN(auto writer, sink->CreateWriter(0));
  for (const auto& batch : batches) {
    stream::Batch rows;
    rows.rows = batch;
    CAIRN_RETURN_IF_ERROR(writer->Write(rows));
  }
  CAIRN_ASSIGN_OR_RETURN(const auto descriptor, writer->Prepare(base::CheckpointId(id)));
  if (descriptor) CAIRN_RETURN_IF_ERROR(sink->Commit({*descriptor}));
  return {};
}

/// All batches of a table.
inline std::vector<std::shared_ptr<arrow::RecordBatch>> Batches(
    env::FileSystem* files, const stream::TableDefinition& table) {
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  auto source = MakeSource(table, AllColumns(table), files);
  EXPECT_TRUE(source.ok()) << source.status().ToString();
  auto splits = (*source)->Discover({});
  EXPECT_TRUE(splits.ok()) << splits.status().ToString();
  auto reader = (*source)->CreateReader(*splits);
  EXPECT_TRUE(reader.ok());
  for (;;) {
    auto batch = (*reader)->Next();
    EXPECT_TRUE(batch.ok()) << batch.status().ToString();
    if (!batch.ok() || *batch == nullptr) return batches;
    batches.push_back(*batch);
  }
}

}  // namespace cairn::connectors

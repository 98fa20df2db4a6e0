// SPDX-License-Identifier: Apache-2.0
//
// Rows for the tests of the filesystem sink.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "connectors/test_tables.h"
#include "env/memory_file_system.h"

namespace cairn::connectors {

inline stream::TableDefinition NumberTable(std::map<std::string, std::string> options) {
  return Table({{"a", "bigint"}, {"b", "text"}}, std::move(options));
}

/// Rows {first..first+count-1} as one batch.
inline std::shared_ptr<arrow::RecordBatch> Numbers(int64_t first, int64_t count) {
  env::MemoryFileSystem files;
  std::string text;
  for (int64_t i = first; i < first + count; ++i) {
    text += "{\"a\":" + std::to_string(i) + ",\"b\":\"t" + std::to_string(i) + "\"}\n";
  }
  WriteFile(&files, "/f", text);
  return Batches(&files, NumberTable({{"path", "/f"}, {"format", "ndjson"}})).at(0);
}

inline stream::Batch Plain(std::shared_ptr<arrow::RecordBatch> rows) {
  stream::Batch batch;
  batch.rows = std::move(rows);
  return batch;
}

}  // namespace cairn::connectors

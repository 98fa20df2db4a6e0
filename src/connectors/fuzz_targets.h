// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a text file, for libFuzzer (x_fuzz.cc) and for the replay of its findings
// (fuzz_replay_test.cc): however the file is cut into splits, the same rows come out and the same
// number is skipped.
#pragma once

#include <arrow/type.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "connectors/factory.h"
#include "connectors/file_split.h"
#include "connectors/row_text.h"
#include "env/memory_file_system.h"

namespace cairn::connectors {

struct FuzzRead {
  bool ok = false;
  std::string rows;  ///< as NDJSON
  uint64_t skipped = 0;
};

/// Read `/f`; with `resume`, by a new reader for every batch.
inline FuzzRead ReadForFuzz(env::FileSystem* files, const std::string& format, uint64_t split_bytes,
                            bool resume) {
  stream::TableDefinition table;
  table.name = "t";
  table.connector = "filesystem";
  table.columns = {{"a", arrow::int64(), true},
                   {"b", arrow::utf8(), true},
                   {"d", arrow::float64(), true},
                   {"s", arrow::timestamp(arrow::TimeUnit::MICRO), true},
                   {"o", arrow::boolean(), false}};
  table.options = {{"path", "/f"},
                   {"format", format},
                   {"on_error", "skip"},
                   {"split_bytes", std::to_string(split_bytes)}};
  FuzzRead result;
  auto source = MakeSource(table, {0, 1, 2, 3, 4}, files);
  CAIRN_CHECK(source.ok());
  auto splits = (*source)->Discover({});
  if (!splits.ok()) return result;
  auto text = RowText::Make({}, (*source)->schema());
  CAIRN_CHECK(text.ok());
  TextBuffer buffer;
  auto reader = (*source)->CreateReader(*splits);
  for (;;) {
    auto batch = (*reader)->Next();
    if (!batch.ok()) return result;
    if (*batch == nullptr) break;
    CAIRN_CHECK((*batch)->ValidateFull().ok());
    stream::Batch rows;
    rows.rows = *batch;
    CAIRN_CHECK(text->Append(rows, &buffer).ok());
    if (resume) {
      result.skipped += (*reader)->rows_skipped();
      splits = (*source)->Discover((*reader)->Progress());
      CAIRN_CHECK(splits.ok());
      reader = (*source)->CreateReader(*splits);
    }
  }
  result.skipped += (*reader)->rows_skipped();
  result.rows = buffer.view();
  result.ok = true;
  return result;
}

/// A position as it comes from a manifest: what is accepted is written the same again.
inline void FuzzSplitPosition(std::string_view bytes) {
  const auto position = ParseSplitPosition(bytes, "file#0");
  if (!position.ok()) return;
  const std::string json = ToJson(*position);
  const auto again = ParseSplitPosition(json, "file#0");
  CAIRN_CHECK(again.ok() && ToJson(*again) == json);
}

inline void FuzzLines(std::string_view bytes, const std::string& format) {
  env::MemoryFileSystem files;
  {
    auto file = files.CreateFile("/f");
    CAIRN_CHECK(file.ok() && (*file)->Append(bytes).ok() && (*file)->Close().ok());
  }
  const FuzzRead whole = ReadForFuzz(&files, format, uint64_t{1} << 30, false);
  for (const uint64_t split_bytes : {1, 7, 64}) {
    const FuzzRead parts = ReadForFuzz(&files, format, split_bytes, true);
    CAIRN_CHECK(parts.ok == whole.ok);
    CAIRN_CHECK(parts.rows == whole.rows);
    CAIRN_CHECK(!whole.ok || parts.skipped == whole.skipped);
  }
}

}  // namespace cairn::connectors

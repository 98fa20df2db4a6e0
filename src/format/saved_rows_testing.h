// SPDX-License-Identifier: Apache-2.0
//
// Rows as tests write and compare them, and a sink that keeps what it is given.
#pragma once

#include <arrow/ipc/writer.h>

#include <cstring>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/saved_rows.h"
#include "format/frame.h"
#include "format/frame_payload.h"
#include "format/object.h"

namespace cairn::format {

struct Row {
  int kind = 0;
  std::string key;
  std::string value;
  friend bool operator==(const Row&, const Row&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Row& row) {
    return out << row.kind << ' ' << base::ToHex(row.key) << '=' << base::ToHex(row.value);
  }
};

inline void AppendRow(base::SavedRows* rows, base::SavedRowKind kind, std::string_view user_key,
                      std::string_view value) {
  const base::SavedRows::Slot slot = rows->Append(kind, user_key.size(), value.size());
  if (!user_key.empty()) std::memcpy(slot.key, user_key.data(), user_key.size());
  if (!value.empty()) std::memcpy(slot.value, value.data(), value.size());
}

inline std::shared_ptr<base::SavedRows> SavedRowsOf(const std::vector<Row>& rows) {
  auto saved = std::make_shared<base::SavedRows>();
  for (const Row& row : rows) {
    AppendRow(saved.get(), static_cast<base::SavedRowKind>(row.kind), row.key, row.value);
  }
  return saved;
}

inline void AddSpan(const base::SavedRowSpan& span, std::vector<Row>* rows) {
  for (size_t i = 0; i < span.rows; ++i) {
    rows->push_back(
        {static_cast<int>(span.kind(i)), std::string(span.key(i)), std::string(span.value(i))});
  }
}

inline std::vector<Row> RowsOf(const FrameRows& frame) {
  std::vector<Row> rows;
  for (const base::SavedRowSpan& span : frame.batches) AddSpan(span, &rows);
  return rows;
}

struct StringSink final : ByteSink {
  std::string bytes;
  Status Append(std::string_view more) override {
    bytes.append(more);
    return Status();
  }
};

/// Write a frame into an object of its own and read its rows back.
inline std::vector<Row> RowsOf(const EncodedFrame& frame, const ObjectSchema& schema = {}) {
  StringSink sink;
  auto writer = ObjectWriter::Open(&sink, schema);
  if (!writer.ok()) return {};
  auto range = (*writer)->Append(frame);
  if (!range.ok()) return {};
  const FrameSummary& s = frame.summary;
  if (!(*writer)->Finish().ok()) return {};
  auto rows = ReadFrame(std::string_view(sink.bytes).substr(range->offset, range->length), schema,
                        {s.identity, s.parts, s.entries, s.crc32c, &s.sha256});
  return rows.ok() ? RowsOf(*rows) : std::vector<Row>{};
}

}  // namespace cairn::format

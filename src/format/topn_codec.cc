// SPDX-License-Identifier: Apache-2.0
#include "format/topn_codec.h"

#include <cstring>
#include <string>

#include "base/coding.h"

namespace cairn::format {

TopNWriter::TopNWriter(char* out, uint32_t rows) : out_(out) {
  base::StoreLE<uint32_t>(out_, rows);
  out_ += kTopNHeaderBytes;
}

char* TopNWriter::Field(uint32_t bytes) {
  base::StoreLE<uint32_t>(out_, bytes);
  char* at = out_ + sizeof(uint32_t);
  out_ = at + bytes;
  return at;
}

size_t EncodedTopNBytes(std::span<const TopNRow> rows) {
  size_t bytes = kTopNHeaderBytes;
  for (const TopNRow& row : rows) {
    bytes += kTopNRowOverheadBytes + row.sort_key.size() + row.row.size();
  }
  return bytes;
}

void EncodeTopN(std::span<const TopNRow> rows, char* out) {
  TopNWriter writer(out, static_cast<uint32_t>(rows.size()));
  for (const TopNRow& row : rows) {
    // An empty view may hold a null pointer, which memcpy must not see.
    char* key = writer.SortKey(static_cast<uint32_t>(row.sort_key.size()));
    if (!row.sort_key.empty()) std::memcpy(key, row.sort_key.data(), row.sort_key.size());
    char* columns = writer.Row(static_cast<uint32_t>(row.row.size()));
    if (!row.row.empty()) std::memcpy(columns, row.row.data(), row.row.size());
  }
}

Result<std::vector<TopNRow>> DecodeTopN(std::string_view value) {
  base::ByteReader reader(value);
  CAIRN_ASSIGN_OR_RETURN(const uint32_t count, reader.ReadLE<uint32_t>());
  if (count == 0) return Status::Corruption("Top-N value without a row");
  // A damaged count must not decide how much memory is asked for.
  if (count > reader.rest().size() / kTopNRowOverheadBytes) {
    return Status::Corruption("Top-N value of " + std::to_string(value.size()) +
                              " bytes cannot hold its row count " + std::to_string(count));
  }
  std::vector<TopNRow> rows;
  rows.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    TopNRow row;
    CAIRN_ASSIGN_OR_RETURN(row.sort_key, reader.ReadLengthPrefixed());
    CAIRN_ASSIGN_OR_RETURN(row.row, reader.ReadLengthPrefixed());
    if (i > 0 && row.sort_key < rows.back().sort_key) {
      return Status::Corruption("Top-N rows out of order at rank " + std::to_string(i + 1));
    }
    rows.push_back(row);
  }
  if (!reader.empty()) {
    return Status::Corruption(std::to_string(reader.rest().size()) +
                              " bytes left after the rows of a Top-N value");
  }
  return rows;
}

}  // namespace cairn::format

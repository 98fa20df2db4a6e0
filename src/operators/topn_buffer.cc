// SPDX-License-Identifier: Apache-2.0
#include "operators/topn_buffer.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "format/topn_codec.h"

namespace cairn::operators {

Payload Payload::Make(const char* key, uint32_t key_bytes, std::string_view row) {
  const uint32_t row_bytes = static_cast<uint32_t>(row.size());
  void* memory = std::malloc(Block::SizeOf(key_bytes, row_bytes));
  if (memory == nullptr) throw std::bad_alloc();
  Block* block = new (memory) Block{1, key_bytes, row_bytes};
  const uint32_t rest = block->key_rest_bytes();
  if (rest > 0) std::memcpy(block->data(), key + kSortPrefixBytes, rest);
  if (row_bytes > 0) std::memcpy(block->data() + rest, row.data(), row_bytes);
  return Payload(block);
}

void Payload::Release() {
  // The last holder must see what the others did before they let go.
  if (block_->handles.fetch_sub(1, std::memory_order_acq_rel) == 1) std::free(block_);
}

void TopNBuffer::Append(RankedRow row) {
  payload_bytes_ += row.payload.memory_bytes();
  content_bytes_ += row.payload.key_bytes() + row.payload.row().size();
  rows_.push_back(std::move(row));
}

size_t TopNBuffer::saved_bytes() const {
  return format::kTopNHeaderBytes + rows_.size() * format::kTopNRowOverheadBytes + content_bytes_;
}

void TopNBuffer::Save(char* out) const {
  format::TopNWriter writer(out, static_cast<uint32_t>(rows_.size()));
  for (const RankedRow& row : rows_) {
    char* key = writer.SortKey(row.payload.key_bytes());
    StoreSortPrefix(row.prefix, row.payload.key_bytes(), key);
    const std::string_view rest = row.payload.key_rest();
    if (!rest.empty()) std::memcpy(key + kSortPrefixBytes, rest.data(), rest.size());
    const std::string_view columns = row.payload.row();
    char* to = writer.Row(static_cast<uint32_t>(columns.size()));
    if (!columns.empty()) std::memcpy(to, columns.data(), columns.size());
  }
}

Result<TopNBuffer> TopNCodec::Decode(std::string_view bytes) const {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<format::TopNRow> rows, format::DecodeTopN(bytes));
  if (rows.size() > limit_) {
    return Status::Corruption("Top-N value of " + std::to_string(rows.size()) +
                              " rows where at most " + std::to_string(limit_) + " are kept");
  }
  std::vector<format::RowField> fields(rows_->columns().size());
  TopNBuffer buffer;
  buffer.Reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string rank = "rank " + std::to_string(i + 1);
    if (key_bytes_ != 0 && rows[i].sort_key.size() != key_bytes_) {
      return Status::Corruption(rank + ": sort key of " + std::to_string(rows[i].sort_key.size()) +
                                " bytes instead of " + std::to_string(key_bytes_));
    }
    if (Status row = rows_->Split(rows[i].row, fields); !row.ok()) return row.WithContext(rank);
    buffer.Append({SortPrefixOf(rows[i].sort_key),
                   Payload::Make(rows[i].sort_key.data(),
                                 static_cast<uint32_t>(rows[i].sort_key.size()), rows[i].row)});
  }
  return buffer;
}

}  // namespace cairn::operators

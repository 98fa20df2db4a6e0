// SPDX-License-Identifier: Apache-2.0
#include "operators/batch_groups.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "cairn/hash.h"

namespace cairn::operators {
namespace {

constexpr size_t kSlotsMin = 256;

/// Equality of two keys of one length from 8 to 16 bytes: two overlapping words, no call.
struct EqualWords {
  uint32_t size;
  bool operator()(const char* a, const char* b, uint32_t, uint32_t) const {
    uint64_t a_words[2];
    uint64_t b_words[2];
    std::memcpy(&a_words[0], a, 8);
    std::memcpy(&a_words[1], a + size - 8, 8);
    std::memcpy(&b_words[0], b, 8);
    std::memcpy(&b_words[1], b + size - 8, 8);
    return ((a_words[0] ^ b_words[0]) | (a_words[1] ^ b_words[1])) == 0;
  }
};

struct EqualBytes {
  bool operator()(const char* a, const char* b, uint32_t a_size, uint32_t b_size) const {
    return std::string_view(a, a_size) == std::string_view(b, b_size);  // empty ones may be null
  }
};

/// Length of all selected keys when they share one, else 0.
template <class RowAt>
uint32_t CommonSize(const stream::KeyColumn& keys, size_t rows, RowAt row_at) {
  const uint32_t* offsets = keys.offsets.data();
  const uint32_t size = offsets[row_at(0) + 1] - offsets[row_at(0)];
  uint32_t different = 0;
  for (size_t i = 0; i < rows; ++i) {
    const uint32_t row = row_at(i);
    different |= (offsets[row + 1] - offsets[row]) ^ size;
  }
  return different == 0 ? size : 0;
}

}  // namespace

void BatchGroups::Resize(size_t slots) {
  slots_.assign(slots, Slot{0, kEmpty, 0});
  shift_ = 64 - std::countr_zero(slots);
}

void BatchGroups::Assign(const stream::Batch& batch) {
  rows_ = static_cast<size_t>(batch.num_rows());
  // Batches of one stream resemble each other: start with room for the last one's keys.
  const size_t expected = std::min(rows_, groups_.size() + groups_.size() / 4);
  Resize(std::max(kSlotsMin, std::bit_ceil(expected * 2)));
  groups_.clear();
  group_of_.resize(rows_);
  if (rows_ == 0) return;
  if (batch.keys == nullptr) {
    const uint32_t first = batch.selection ? batch.selection->front() : 0;
    groups_.push_back({Fnv1a64({}), {}, first});
    std::fill(group_of_.begin(), group_of_.end(), 0);
    return;
  }
  if (batch.selection != nullptr) {
    AssignRows(*batch.keys, [rows = batch.selection->data()](size_t i) { return rows[i]; });
  } else {
    AssignRows(*batch.keys, [](size_t i) { return static_cast<uint32_t>(i); });
  }
}

template <class RowAt>
void BatchGroups::AssignRows(const stream::KeyColumn& keys, RowAt row_at) {
  const uint32_t size = CommonSize(keys, rows_, row_at);
  if (size >= 8 && size <= 16) {
    AssignKeys(keys, row_at, EqualWords{size});
  } else {
    AssignKeys(keys, row_at, EqualBytes{});
  }
}

template <class RowAt, class Equal>
void BatchGroups::AssignKeys(const stream::KeyColumn& keys, RowAt row_at, Equal equal) {
  const uint32_t* offsets = keys.offsets.data();
  const uint64_t* hashes = keys.hashes.data();
  const char* data = keys.data.data();
  for (size_t i = 0; i < rows_; ++i) {
    const uint32_t row = row_at(i);
    const uint64_t hash = hashes[row];
    const uint32_t offset = offsets[row];
    const uint32_t size = offsets[row + 1] - offset;
    const size_t mask = slots_.size() - 1;
    size_t at = IndexOf(hash);
    while (true) {
      Slot& slot = slots_[at];
      if (slot.group == kEmpty) {
        const uint32_t group = static_cast<uint32_t>(groups_.size());
        slot = {hash, group, offset};
        group_of_[i] = group;
        groups_.push_back({hash, {data + offset, size}, row});
        if (groups_.size() * 2 > slots_.size()) {
          Resize(slots_.size() * 4);
          for (uint32_t g = 0; g < groups_.size(); ++g) {
            size_t to = IndexOf(groups_[g].hash);
            while (slots_[to].group != kEmpty) to = (to + 1) & (slots_.size() - 1);
            slots_[to] = {groups_[g].hash, g, static_cast<uint32_t>(groups_[g].key.data() - data)};
          }
        }
        break;
      }
      if (slot.hash == hash && equal(data + slot.key_offset, data + offset,
                                     static_cast<uint32_t>(groups_[slot.group].key.size()), size)) {
        group_of_[i] = slot.group;
        break;
      }
      at = (at + 1) & mask;
    }
  }
}

void BatchGroups::Bucket(const stream::Batch& batch, Buckets* buckets) const {
  buckets->starts.assign(groups_.size() + 1, 0);
  buckets->rows.resize(rows_);
  uint32_t* starts = buckets->starts.data();
  for (uint32_t group : group_of_) ++starts[group + 1];
  for (size_t g = 0; g < groups_.size(); ++g) starts[g + 1] += starts[g];
  // Each start moves to its end while rows are placed, which is the start of the next group.
  const uint32_t* selection = batch.selection ? batch.selection->data() : nullptr;
  for (size_t i = 0; i < rows_; ++i) {
    buckets->rows[starts[group_of_[i]]++] = selection ? selection[i] : static_cast<uint32_t>(i);
  }
  for (size_t g = groups_.size(); g > 0; --g) starts[g] = starts[g - 1];
  starts[0] = 0;
}

}  // namespace cairn::operators

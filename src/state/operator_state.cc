// SPDX-License-Identifier: Apache-2.0
#include "cairn/operator_state.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace cairn {
inline namespace v0 {
namespace {

// Subtask and parallelism in front of a logical key.
constexpr size_t kOwnerBytes = 8;

uint32_t LoadBE32(std::string_view bytes) {
  uint32_t word;
  std::memcpy(&word, bytes.data(), sizeof(word));
  return __builtin_bswap32(word);
}

void AppendBE32(std::string* out, uint32_t word) {
  word = __builtin_bswap32(word);
  out->append(reinterpret_cast<const char*>(&word), sizeof(word));
}

TableOptions RowOptions(const OperatorStateOptions& options) {
  TableOptions rows;
  rows.key_groups = 1;
  rows.slot_hash_seed = options.slot_hash_seed;
  return rows;
}

}  // namespace

OperatorStateTable::OperatorStateTable(StateDomain* domain, SlotDescriptor descriptor,
                                       OperatorStateOptions options)
    : options_(options),
      owned_groups_(KeyGroupsOfSubtask(options.subtask, options.parallelism, options.key_groups)),
      rows_(domain, std::move(descriptor), RowOptions(options)) {}

std::string OperatorStateTable::OwnKey(std::string_view logical_key) const {
  std::string key;
  AppendBE32(&key, options_.subtask);
  AppendBE32(&key, options_.parallelism);
  key += logical_key;
  return key;
}

bool OperatorStateTable::IsOwn(std::string_view row_key) const {
  return LoadBE32(row_key) == options_.subtask &&
         LoadBE32(row_key.substr(4)) == options_.parallelism;
}

bool OperatorStateTable::IsSaved(const View& view, std::string_view row_key) const {
  if (IsOwn(row_key)) return true;
  // A peer of this very run saves its rows itself.
  if (LoadBE32(row_key.substr(4)) == options_.parallelism) return false;
  const std::string_view logical_key = row_key.substr(kOwnerBytes);
  return owned_groups_.Contains(KeyGroupOf(logical_key, options_.key_groups)) &&
         !rows_.Get(view, OwnKey(logical_key), [](const std::string&) {});
}

Status OperatorStateTable::Put(std::string_view logical_key, std::string_view value) {
  return rows_.Update(OwnKey(logical_key), [&](std::string& to, bool) { to = value; });
}

bool OperatorStateTable::Erase(std::string_view logical_key) {
  return rows_.Erase(OwnKey(logical_key));
}

bool OperatorStateTable::EraseAll(std::string_view logical_key) {
  std::vector<std::string> found;
  rows_.ScanNow(key_groups(), [&](const Bytes& key, const std::string&) {
    if (key.view().substr(kOwnerBytes) == logical_key) found.push_back(key.ToString());
  });
  for (const std::string& key : found) rows_.Erase(key);
  return !found.empty();
}

std::optional<std::string_view> OperatorStateTable::Find(std::string_view logical_key) const {
  if (const std::string* own = rows_.Find(OwnKey(logical_key))) return *own;
  std::optional<OperatorStateRow> best;
  ForEach([&](const OperatorStateRow& row) {
    if (row.logical_key == logical_key && (!best || row.subtask < best->subtask)) best = row;
  });
  if (!best) return std::nullopt;
  return best->value;
}

void OperatorStateTable::ForEach(const std::function<void(const OperatorStateRow&)>& visit) const {
  rows_.ScanNow(key_groups(), [&](const Bytes& key, const std::string& value) {
    const std::string_view bytes = key.view();
    visit({bytes.substr(kOwnerBytes), value, LoadBE32(bytes), IsOwn(bytes)});
  });
}

Status OperatorStateTable::EncodeBase(const View& view, KeyGroupRange range,
                                      SavedRowSink* sink) const {
  if (!range.Contains(0)) return {};
  std::vector<std::pair<std::string, std::string>> saved;
  rows_.Scan(view, range, [&](const Bytes& key, const std::string& value) {
    if (IsSaved(view, key.view())) saved.emplace_back(key.ToString(), value);
  });
  if (saved.empty()) return {};
  const detail::SlotHasher hasher(options_.slot_hash_seed);
  std::sort(saved.begin(), saved.end(), [&](const auto& a, const auto& b) {
    const uint64_t a_hash = hasher.Hash(a.first);
    const uint64_t b_hash = hasher.Hash(b.first);
    return a_hash != b_hash ? a_hash < b_hash : a.first < b.first;
  });
  CAIRN_ASSIGN_OR_RETURN(SavedRows * out, sink->BeginGroup(0));
  for (const auto& [key, value] : saved) {
    const SavedRows::Slot to = out->Append(SavedRowKind::kMaterialised, key.size(), value.size());
    std::memcpy(to.key, key.data(), key.size());
    std::memcpy(to.value, value.data(), value.size());
    if (out->bytes() >= kSavedRowsFlushBytes) CAIRN_RETURN_IF_ERROR(sink->Flush());
  }
  return {};
}

Status OperatorStateTable::EncodeDelta(const View& view, uint64_t since, KeyGroupRange range,
                                       SavedRowSink* sink) const {
  return rows_.EncodeDelta(view, since, range, sink);
}

Status OperatorStateTable::Load(const SavedRowSpan& rows, size_t /*group_prefix_bytes*/,
                                size_t key_prefix_bytes, LoadCounts* counts) {
  for (size_t i = 0; i < rows.rows; ++i) {
    std::string_view key = rows.key(i);
    if (key.size() < key_prefix_bytes + kOwnerBytes) {
      return detail::RowErrorOf(descriptor(), Status::Corruption("shorter than its prefix"),
                                "cannot decode", key);
    }
    key.remove_prefix(key_prefix_bytes);
    if (rows.kind(i) == SavedRowKind::kErase) {
      rows_.Erase(key);
    } else {
      CAIRN_RETURN_IF_ERROR(
          rows_.Update(key, [&](std::string& value, bool) { value = rows.value(i); }));
    }
    ++counts->rows;
  }
  return {};
}

uint64_t OperatorStateTable::CountRows(const View& view) const {
  uint64_t saved = 0;
  rows_.Scan(view, key_groups(), [&](const Bytes& key, const std::string&) {
    saved += IsSaved(view, key.view()) ? 1 : 0;
  });
  return saved;
}

}  // namespace v0
}  // namespace cairn

// SPDX-License-Identifier: Apache-2.0
#include "backend/write_rules.h"

#include <fmt/format.h>

#include "base/coding.h"
#include "base/units.h"
#include "cairn/hash.h"

namespace cairn::backend {
namespace {

using format::KeyLayout;
using format::StoredKey;
using format::StoredKeyKind;

constexpr size_t kKeyBytesShown = 64;

std::string ShowBytes(std::string_view bytes) {
  const std::string_view shown = bytes.substr(0, kKeyBytesShown);
  std::string text;
  bool printable = !shown.empty();
  for (const char c : shown) printable = printable && c >= 0x20 && c <= 0x7E;
  if (printable) {
    text = fmt::format("'{}'", shown);
  } else {
    text = "0x";
    for (const char c : shown) text += fmt::format("{:02x}", static_cast<uint8_t>(c));
  }
  if (shown.size() < bytes.size()) text += fmt::format("... ({} bytes)", bytes.size());
  return text;
}

Status CheckEntry(const BackendOptions& options, const KeyLayout& layout,
                  const KeyGroupRange& owned, const WriteEntry& entry) {
  const auto refuse = [&](const std::string& why) {
    return Status::InvalidArgument(DescribeKey(layout, entry.operator_id, entry.key) + ": " + why);
  };
  if (entry.key.size() > options.key_bytes_max) {
    return refuse(fmt::format("the key has {} bytes, the limit is {}", entry.key.size(),
                              options.key_bytes_max));
  }
  if (entry.value.size() > options.value_bytes_max) {
    return refuse(fmt::format("the value has {}, the limit is {}",
                              base::FormatBytes(entry.value.size()),
                              base::FormatBytes(options.value_bytes_max)));
  }
  const StoredKey key = layout.Parse(entry.key);
  if (key.kind != StoredKeyKind::kKeyed) return {};
  const uint32_t group = KeyGroupOf(key.user_key, layout.key_groups());
  if (group != key.group) {
    return refuse(
        fmt::format("its stored key says key group {}, the key is of group {}", key.group, group));
  }
  if (!owned.Contains(group)) {
    return refuse(fmt::format("key group {} belongs to another subtask; this one holds {} to {}",
                              group, owned.first, owned.last));
  }
  return {};
}

}  // namespace

KeyGroupRange OwnedGroups(const BackendOptions& options) {
  return KeyGroupsOfSubtask(options.subtask, options.parallelism, options.key_groups);
}

Status CheckBatch(const BackendOptions& options, const KeyLayout& layout, const WriteBatch& batch) {
  const KeyGroupRange owned = OwnedGroups(options);
  for (size_t i = 0; i < batch.size(); ++i) {
    CAIRN_RETURN_IF_ERROR(CheckEntry(options, layout, owned, batch[i]));
  }
  return {};
}

Status CheckMerged(const BackendOptions& options, const KeyLayout& layout, const WriteEntry& entry,
                   uint64_t bytes_before) {
  if (bytes_before + entry.value.size() <= options.value_bytes_max) return {};
  return Status::InvalidArgument(fmt::format(
      "{}: appending {} to a value of {} passes the limit of {}",
      DescribeKey(layout, entry.operator_id, entry.key), base::FormatBytes(entry.value.size()),
      base::FormatBytes(bytes_before), base::FormatBytes(options.value_bytes_max)));
}

Result<bool> IsExpired(std::string_view value, int64_t now_ms) {
  if (value.size() < sizeof(now_ms)) {
    return Status::Corruption(fmt::format(
        "the value of an expiring slot has {} bytes, fewer than its expiry time", value.size()));
  }
  return base::LoadLE<int64_t>(value.data()) <= now_ms;
}

std::string DescribeKey(const KeyLayout& layout, OperatorId op, std::string_view stored) {
  const StoredKey key = layout.Parse(stored);
  std::string text = fmt::format("operator {:016x}", op.value);
  if (key.kind == StoredKeyKind::kKeyed) text += fmt::format(", slot {}", key.slot);
  if (key.kind == StoredKeyKind::kOperatorState) text += ", operator state";
  return text + ", key " + ShowBytes(key.user_key);
}

}  // namespace cairn::backend

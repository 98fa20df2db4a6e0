// SPDX-License-Identifier: Apache-2.0
#include "format/keys.h"

#include <fmt/format.h>

#include "base/check.h"
#include "format/utf8.h"

namespace cairn::format {

Status ValidateSlotName(std::string_view slot) {
  if (slot.empty()) return Status::InvalidArgument("slot name is empty: give it a name");
  if (slot.size() > 255) {
    return Status::InvalidArgument(
        fmt::format("slot name has {} bytes: use at most 255", slot.size()));
  }
  for (char c : slot) {
    if (c != '|' && c != '\n' && c != '\0') continue;
    const char* name = c == '|' ? "'|'" : c == '\n' ? "a line feed" : "a NUL";
    return Status::InvalidArgument(fmt::format(
        "slot name holds {}, which separates it from the key: rename slot {:?}", name, slot));
  }
  if (!IsUtf8(slot)) return Status::InvalidArgument("slot name is not UTF-8: rename it");
  return Status();
}

Result<KeyLayout> KeyLayout::ForKeyGroups(uint32_t key_groups) {
  if (key_groups < 1 || key_groups > kMaxKeyGroups) {
    return Status::InvalidArgument(
        fmt::format("key groups must be 1..{}: {} given", kMaxKeyGroups, key_groups));
  }
  return KeyLayout(key_groups);
}

namespace {

void AppendGroup(uint32_t group, size_t bytes, std::string* out) {
  if (bytes == 2) out->push_back(static_cast<char>(group >> 8));
  out->push_back(static_cast<char>(group & 0xff));
}

}  // namespace

std::string KeyLayout::KeyedPrefix(uint32_t group, std::string_view slot) const {
  std::string prefix;
  AppendKeyed(group, slot, {}, &prefix);
  return prefix;
}

std::string KeyLayout::OperatorStatePrefix(std::string_view slot) const {
  std::string prefix(prefix_bytes(), '\xff');
  prefix.append(slot).push_back('|');
  return prefix;
}

void KeyLayout::AppendKeyed(uint32_t group, std::string_view slot, std::string_view user_key,
                            std::string* out) const {
  CAIRN_DCHECK(group < key_groups_);
  AppendGroup(group, prefix_bytes(), out);
  out->append(slot).push_back('|');
  out->append(user_key);
}

void KeyLayout::AppendOperatorState(std::string_view logical_key, std::string* out) const {
  out->append(prefix_bytes(), '\xff').append(logical_key);
}

StoredKey KeyLayout::Parse(std::string_view stored) const {
  StoredKey key;
  key.user_key = stored;
  if (stored.size() < prefix_bytes()) return key;
  uint32_t group = static_cast<uint8_t>(stored[0]);
  if (prefix_bytes() == 2) group = group << 8 | static_cast<uint8_t>(stored[1]);
  const std::string_view rest = stored.substr(prefix_bytes());
  if (group == (prefix_bytes() == 1 ? 0xffu : 0xffffu)) {
    key.kind = StoredKeyKind::kOperatorState;
    key.user_key = rest;
    return key;
  }
  const size_t separator = rest.find('|');
  if (group >= key_groups_ || separator == std::string_view::npos) return key;
  key.kind = StoredKeyKind::kKeyed;
  key.group = group;
  key.slot = rest.substr(0, separator);
  key.user_key = rest.substr(separator + 1);
  return key;
}

}  // namespace cairn::format

// SPDX-License-Identifier: Apache-2.0
#include "cli/slot_row.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coding.h"
#include "cairn/element_row_key.h"
#include "cairn/ttl.h"

namespace cairn::cli {
namespace {

constexpr size_t kDeadlineBytes = 8;
constexpr std::string_view kOrderedPrefix = "ordered_";
constexpr std::string_view kListIndexCodec = "ordered_uint64";

/// How element keys are encoded; empty = as bytes nobody described.
std::string_view ElementCodecOf(const SlotDescriptor& slot) {
  return slot.kind == SlotKind::kKeyedList ? kListIndexCodec : slot.element_key_codec;
}

/// The codec of the numbers that an ordered codec sorts, "" when it is none.
std::string_view NumberOf(std::string_view codec) {
  if (!codec.starts_with(kOrderedPrefix)) return {};
  return codec.substr(kOrderedPrefix.size());
}

std::string_view ColumnTypeOf(std::string_view codec) {
  const std::string_view number = NumberOf(codec);
  const std::string_view plain = number.empty() ? codec : number;
  if (plain == "int64" || plain == "uint64") return "bigint";
  if (plain == "int32") return "integer";
  if (plain == "double") return "double";
  if (plain == "bool") return "boolean";
  if (plain == "string") return "text";
  return "bytes";
}

/// Numbers sort as bytes when they are big-endian, signed ones with the sign flipped and negative
/// floats with all bits flipped.
void FlipSign(std::string_view number, bool encode, std::string* big_endian) {
  auto* first = reinterpret_cast<uint8_t*>(big_endian->data());
  if (number == "uint64" || big_endian->empty()) return;
  const bool was_negative = encode == ((*first & 0x80) != 0);
  if (number == "double" && was_negative) {
    for (char& byte : *big_endian) byte = static_cast<char>(~byte);
  } else {
    *first ^= 0x80;
  }
}

}  // namespace

Result<SlotRow> TakeApart(const SlotDescriptor& slot, std::string_view row_key,
                          std::string_view value) {
  SlotRow row;
  row.user_key = row_key;
  row.value = value;
  if (HasElementRows(slot.kind)) {
    const ElementRowKey key = ElementRowKey::Parse(row_key);
    if (key.user_key.data() == nullptr) {
      return Status::Corruption("the key of a list's or map's row has no such parts");
    }
    row.user_key = key.user_key;
    row.is_header = key.part == ElementRowKey::kHeader;
    row.element_key = key.element_key;
    if (row.is_header) return row;
  }
  if (!slot.ttl.enabled()) return row;
  if (value.size() < kDeadlineBytes) {
    return Status::Corruption("no room for the deadline of a TTL slot");
  }
  row.value.remove_prefix(kDeadlineBytes);
  const auto saved_ms = base::LoadLE<int64_t>(value.data());
  detail::TtlNow now;
  if (slot.ttl_time_ms) now.now_ms = *slot.ttl_time_ms;
  if (slot.ttl_first_ms)
    now.pending_ms = detail::DeadlineAfter(*slot.ttl_first_ms, slot.ttl.ttl_ms);
  row.expired = now.IsDead(saved_ms);
  const int64_t deadline_ms = now.Resolve(saved_ms);
  if (deadline_ms != detail::kPendingDeadline) row.expires_at_ms = deadline_ms;
  return row;
}

SavedSlotRow PutTogether(const SlotDescriptor& slot, const SlotRow& row) {
  SavedSlotRow saved;
  if (HasElementRows(slot.kind)) {
    saved.key.resize(ElementRowKey::Size(row.user_key.size(), 0));
    ElementRowKey::Write(saved.key.data(), row.user_key, ElementRowKey::kElement);
    saved.key.append(row.element_key);
  } else {
    saved.key = row.user_key;
  }
  if (slot.ttl.enabled()) {
    base::AppendLE(&saved.value, row.expires_at_ms.value_or(detail::kPendingDeadline));
  }
  saved.value.append(row.value);
  return saved;
}

SavedSlotRow HeaderRow(std::string_view user_key, uint64_t elements, uint64_t next_index) {
  SavedSlotRow saved;
  saved.key.resize(ElementRowKey::Size(user_key.size(), 0));
  ElementRowKey::Write(saved.key.data(), user_key, ElementRowKey::kHeader);
  base::AppendLE(&saved.value, elements);
  base::AppendLE(&saved.value, next_index);
  return saved;
}

ColumnSpec ElementColumnOf(const SlotDescriptor& slot) {
  return {slot.kind == SlotKind::kKeyedList ? "index" : "map_key",
          std::string(ColumnTypeOf(ElementCodecOf(slot))), false};
}

bool HasOrderedElementKeys(const SlotDescriptor& slot) {
  return !NumberOf(ElementCodecOf(slot)).empty();
}

Result<std::string> PlainElementKey(const SlotDescriptor& slot, std::string_view ordered) {
  const std::string_view number = NumberOf(ElementCodecOf(slot));
  const size_t width = number == "int32" ? 4 : number == "bool" ? 1 : 8;
  if (ordered.size() != width) {
    return Status::Corruption(
        fmt::format("an element key of {} bytes instead of {}", ordered.size(), width));
  }
  std::string plain(ordered);
  if (number == "uint64" && (static_cast<uint8_t>(plain[0]) & 0x80) != 0) {
    return Status::Corruption("an element key over 2^63 - 1");
  }
  if (number != "bool") FlipSign(number, false, &plain);
  std::reverse(plain.begin(), plain.end());
  return plain;
}

std::string OrderedElementKey(const SlotDescriptor& slot, std::string_view plain) {
  const std::string_view number = NumberOf(ElementCodecOf(slot));
  std::string ordered(plain.rbegin(), plain.rend());
  if (number != "bool") FlipSign(number, true, &ordered);
  return ordered;
}

}  // namespace cairn::cli

// SPDX-License-Identifier: Apache-2.0
//
// The tag that every record batch of an object carries:
//
//   v1 K 89cd31291d2aefa4 0000-007f B 0000000000000007 00000000 L
//   |  | operator         groups    | checkpoint       part     L last, + more follow
//   |  kind                         B base, D delta
//   version
#include <fmt/format.h>

#include "format/frame.h"

namespace cairn::format {
namespace {

constexpr std::string_view kKindLetters = "MSKID";  // by FrameKind

/// Parse `digits` lower-case hex digits.
bool ParseHex(std::string_view text, uint64_t* value) {
  *value = 0;
  for (const char c : text) {
    uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint64_t>(c - 'a' + 10);
    } else {
      return false;
    }
    *value = *value << 4 | digit;
  }
  return true;
}

}  // namespace

std::string_view FrameKindName(FrameKind kind) {
  switch (kind) {
    case FrameKind::kOperatorMeta:
      return "operator_meta";
    case FrameKind::kOperatorState:
      return "operator_state";
    case FrameKind::kKeyed:
      return "keyed";
    case FrameKind::kSinkIntent:
      return "sink_intent";
    case FrameKind::kSinkDescriptor:
      return "sink_descriptor";
  }
  return "unknown";
}

std::string FrameIdentity::ToString() const {
  const bool keyed = kind == FrameKind::kKeyed;
  const std::string place = keyed && first_group != last_group
                                ? fmt::format("groups {}..{}", first_group, last_group)
                                : fmt::format("{} {}", keyed ? "group" : "subtask", first_group);
  return fmt::format("{} {} frame of operator {}, {}, checkpoint {}", FrameKindName(kind),
                     delta ? "delta" : "base", base::ToHex16(operator_id), place,
                     checkpoint_id.value);
}

std::string PackFramePartTag(const FramePartTag& tag) {
  return fmt::format("v1 {} {:016x} {:04x}-{:04x} {} {:016x} {:08x} {}",
                     kKindLetters[static_cast<size_t>(tag.frame.kind)], tag.frame.operator_id.value,
                     tag.frame.first_group, tag.frame.last_group, tag.frame.delta ? 'D' : 'B',
                     tag.frame.checkpoint_id.value, tag.part, tag.last ? 'L' : '+');
}

Result<FramePartTag> ParseFramePartTag(std::string_view value) {
  if (value.size() >= 3 && value[0] == 'v' && value.substr(0, 3) != "v1 ") {
    return Status::UnsupportedFormat(
        fmt::format("frame tag '{}' has another version: read it with a newer Cairn", value));
  }
  const auto damaged = [&] {
    return Status::Corruption(fmt::format("frame tag '{}' does not parse", value));
  };
  if (value.size() != kFrameTagBytes) return damaged();
  FramePartTag tag;
  uint64_t id = 0, first = 0, last = 0, checkpoint = 0, part = 0;
  const size_t kind = kKindLetters.find(value[3]);
  if (kind == std::string_view::npos || !ParseHex(value.substr(5, 16), &id) ||
      !ParseHex(value.substr(22, 4), &first) || !ParseHex(value.substr(27, 4), &last) ||
      !ParseHex(value.substr(34, 16), &checkpoint) || !ParseHex(value.substr(51, 8), &part)) {
    return damaged();
  }
  tag.frame.kind = static_cast<FrameKind>(kind);
  tag.frame.operator_id = base::OperatorId(id);
  tag.frame.first_group = static_cast<uint16_t>(first);
  tag.frame.last_group = static_cast<uint16_t>(last);
  tag.frame.delta = value[32] == 'D';
  tag.frame.checkpoint_id = base::CheckpointId(checkpoint);
  tag.part = static_cast<uint32_t>(part);
  tag.last = value[60] == 'L';
  if (PackFramePartTag(tag) != value) return damaged();  // separators and letters
  return tag;
}

}  // namespace cairn::format

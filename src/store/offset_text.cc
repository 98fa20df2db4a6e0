// SPDX-License-Identifier: Apache-2.0
#include "store/offset_text.h"

#include <charconv>

#include "format/utf8.h"

namespace cairn::store {
namespace {

constexpr std::string_view kText = "text:";
constexpr std::string_view kHex = "hex:";
constexpr std::string_view kPartition = "partition-";
constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

std::string OffsetsText(std::string_view offsets) {
  if (format::IsUtf8(offsets)) return std::string(kText) + std::string(offsets);
  std::string text(kHex);
  text.reserve(kHex.size() + 2 * offsets.size());
  for (const char c : offsets) {
    const auto byte = static_cast<uint8_t>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Result<std::string> ParseOffsets(std::string_view text) {
  if (text.starts_with(kText)) return std::string(text.substr(kText.size()));
  const Status wrong = Status::Corruption("offsets begin with text: or hex: and whole bytes");
  if (!text.starts_with(kHex) || (text.size() - kHex.size()) % 2 != 0) return wrong;
  std::string offsets;
  for (size_t i = kHex.size(); i < text.size(); i += 2) {
    const size_t high = kDigits.find(text[i]);
    const size_t low = kDigits.find(text[i + 1]);
    if (high == kDigits.npos || low == kDigits.npos) return wrong;
    offsets += static_cast<char>(high << 4 | low);
  }
  return offsets;
}

std::string PartitionText(uint32_t partition) {
  return std::string(kPartition) + std::to_string(partition);
}

Result<uint32_t> ParsePartition(std::string_view text, uint32_t partitions) {
  uint32_t partition = 0;
  if (text.starts_with(kPartition)) {
    const std::string_view digits = text.substr(kPartition.size());
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), partition);
    if (error == std::errc() && end == digits.data() + digits.size() && partition < partitions) {
      return partition;
    }
  }
  return Status::Corruption("\"" + std::string(text) + "\" is no partition of " +
                            std::to_string(partitions));
}

}  // namespace cairn::store

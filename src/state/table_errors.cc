// SPDX-License-Identifier: Apache-2.0
//
// What every instance of Table says when something is wrong.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cairn/detail/table_types.h"

namespace cairn {
inline namespace v0 {

Status StateTable::ExpectSaved(const SlotDescriptor& saved) {
  if (saved.ttl.enabled() == descriptor().ttl.enabled()) return {};
  return Status::InvalidArgument("operator " + saved.operator_uid + ", slot " + saved.name +
                                 ": saved with a TTL, which this kind of state cannot take off");
}

size_t StateTable::Maintain(size_t) { return 0; }

namespace detail {
namespace {

constexpr size_t kKeyBytesShown = 64;

// Text in quotes when it is printable, else hex; long keys are cut.
std::string ShowKey(std::string_view key) {
  const std::string_view shown = key.substr(0, kKeyBytesShown);
  const bool printable = !shown.empty() && [&] {
    for (char c : shown) {
      if (c < 0x20 || c > 0x7E) return false;
    }
    return true;
  }();
  std::string text;
  if (printable) {
    text = '\'' + std::string(shown) + '\'';
  } else {
    text = "0x";
    for (char c : shown) {
      constexpr char kDigits[] = "0123456789abcdef";
      text += kDigits[static_cast<uint8_t>(c) >> 4];
      text += kDigits[static_cast<uint8_t>(c) & 15];
    }
  }
  if (shown.size() < key.size()) text += "... (" + std::to_string(key.size()) + " bytes)";
  return text;
}

}  // namespace

Status RowErrorOf(const SlotDescriptor& slot, const Status& cause, std::string_view what,
                  std::string_view key_bytes) {
  std::string text = "operator " + slot.operator_uid + ", slot " + slot.name + ": ";
  text += what;
  text += " key " + ShowKey(key_bytes) + " (codecs '" + slot.key_codec + "' and '" +
          slot.value_codec + "')";
  return cause.WithContext(text);
}

std::string SavedValueTooLarge(size_t value_bytes) {
  return "the value has " + std::to_string(value_bytes) + " bytes, at most " +
         std::to_string(kSavedValueBytesMax) + " can be saved";
}

void FailForeignView() {
  std::fputs("cairn: a table was asked to read a view that is closed or of another domain\n",
             stderr);
  std::abort();
}

}  // namespace detail
}  // namespace v0
}  // namespace cairn

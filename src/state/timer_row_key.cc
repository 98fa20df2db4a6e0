// SPDX-License-Identifier: Apache-2.0
#include "cairn/detail/timer_row_key.h"

#include <cstring>

namespace cairn {
inline namespace v0 {
namespace detail {
namespace {

constexpr uint64_t kTimeSign = uint64_t{1} << 63;

}  // namespace

char* TimerRowKey::WriteLength(char* out, size_t user_key_bytes) {
  const uint32_t length = __builtin_bswap32(static_cast<uint32_t>(user_key_bytes));
  std::memcpy(out, &length, kLengthBytes);
  return out + kLengthBytes;
}

char* TimerRowKey::WriteTime(char* out, TimeDomain domain, int64_t time) {
  *out++ = kTimerPart;
  *out++ = static_cast<char>(domain);
  const uint64_t ordered = __builtin_bswap64(static_cast<uint64_t>(time) ^ kTimeSign);
  std::memcpy(out, &ordered, kTimeBytes);
  return out + kTimeBytes;
}

bool TimerRowKey::Parse(std::string_view bytes, TimerRowKey* key) {
  if (bytes.size() < Size(0, 0)) return false;
  uint32_t length;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  length = __builtin_bswap32(length);
  if (length > bytes.size() - Size(0, 0)) return false;
  const char* const at = bytes.data() + kLengthBytes + length;
  if (at[0] != kTimerPart || static_cast<uint8_t>(at[1]) >= kTimeDomains) return false;
  uint64_t ordered;
  std::memcpy(&ordered, at + 2, kTimeBytes);
  key->bytes = bytes;
  key->user_key = bytes.substr(kLengthBytes, length);
  key->domain = static_cast<TimeDomain>(at[1]);
  key->time = static_cast<int64_t>(__builtin_bswap64(ordered) ^ kTimeSign);
  key->ns = bytes.substr(Size(length, 0));
  return true;
}

}  // namespace detail
}  // namespace v0
}  // namespace cairn

// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/layout.h"

#include <charconv>

namespace cairn::checkpoint {
namespace {
constexpr size_t kIdDigits = 20;  // as many as 2^64 needs: names sort as the numbers do
}  // namespace

std::string CheckpointDirectory(base::CheckpointId id) {
  const std::string digits = std::to_string(id.value);
  return std::string(kCheckpointsPrefix) + std::string(kIdDigits - digits.size(), '0') + digits;
}

std::string StateObjectKey(base::CheckpointId id) {
  return CheckpointDirectory(id) + "/state.arrow";
}

std::string ManifestKey(base::CheckpointId id) {
  return CheckpointDirectory(id) + "/manifest.json";
}

std::optional<base::CheckpointId> IdOfKey(std::string_view key) {
  if (!key.starts_with(kCheckpointsPrefix)) return std::nullopt;
  key.remove_prefix(kCheckpointsPrefix.size());
  if (key.size() <= kIdDigits || key[kIdDigits] != '/') return std::nullopt;
  base::CheckpointId id;
  const char* end = key.data() + kIdDigits;
  const auto [at, error] = std::from_chars(key.data(), end, id.value);
  if (error != std::errc() || at != end) return std::nullopt;
  return id;
}

}  // namespace cairn::checkpoint

// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/layout.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "base/hash.h"

namespace cairn::checkpoint {
namespace {
constexpr size_t kIdDigits = 20;  // as many as 2^64 needs: names sort as the numbers do
constexpr size_t kSha256Digits = 64;

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

std::string EscapeName(std::string_view name) {
  std::string escaped;
  for (const char c : name) {
    if (IsPlain(c)) {
      escaped += c;
    } else {
      escaped += fmt::format("%{:02X}", static_cast<uint8_t>(c));
    }
  }
  return escaped;
}

std::optional<std::string> UnescapeName(std::string_view escaped) {
  std::string name;
  for (size_t i = 0; i < escaped.size(); ++i) {
    std::string byte(1, escaped[i]);
    if (escaped[i] == '%') {
      if (!base::FromHex(escaped.substr(i + 1, 2), &byte) || byte.size() != 1) return std::nullopt;
      i += 2;
    }
    name += byte;
  }
  return EscapeName(name) == escaped ? std::optional(name) : std::nullopt;
}

template <class Number>
bool ParseNumber(std::string_view text, Number* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string_view> SplitPath(std::string_view path) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t slash = path.find('/');
    parts.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return parts;
    path.remove_prefix(slash + 1);
  }
}

std::string KeyOfSegment(const ViewLogSegmentName& name) {
  return fmt::format("{}{}/{}/{}/{:020}/{:020}-{:020}-{}.arrow", kViewLogsPrefix,
                     EscapeName(name.view), name.generation, name.partition, name.origin.value,
                     name.first, name.end, name.sha256);
}

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

std::string ViewLogSegmentKey(const format::ViewLog& log, const format::ViewLogSegment& segment) {
  return KeyOfSegment({log.view, log.generation, segment.partition, segment.origin, segment.first,
                       segment.end, base::ToHex(segment.sha256)});
}

std::optional<ViewLogSegmentName> ParseViewLogSegmentKey(std::string_view key) {
  if (!key.starts_with(kViewLogsPrefix)) return std::nullopt;
  const std::vector<std::string_view> parts = SplitPath(key.substr(kViewLogsPrefix.size()));
  constexpr size_t kFileBytes = kIdDigits + 1 + kIdDigits + 1 + kSha256Digits + 6;
  if (parts.size() != 5 || parts[4].size() != kFileBytes) return std::nullopt;
  const std::string_view file = parts[4];
  ViewLogSegmentName name;
  const std::optional<std::string> view = UnescapeName(parts[0]);
  if (!view || !ParseNumber(parts[2], &name.partition) ||
      !ParseNumber(parts[3], &name.origin.value) ||
      !ParseNumber(file.substr(0, kIdDigits), &name.first) ||
      !ParseNumber(file.substr(kIdDigits + 1, kIdDigits), &name.end)) {
    return std::nullopt;
  }
  name.view = *view;
  name.generation = parts[1];
  name.sha256 = file.substr(2 * kIdDigits + 2, kSha256Digits);
  return KeyOfSegment(name) == key ? std::optional(name) : std::nullopt;
}

}  // namespace cairn::checkpoint

// SPDX-License-Identifier: Apache-2.0
#include "connectors/file_split.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/hash.h"

namespace cairn::connectors {
namespace {

constexpr uint64_t kSampleBytes = 1024;
constexpr uint64_t kSplitsPerSize = 64;

Result<uint32_t> SampleCrc(const env::RandomAccessFile& file, Sampled sampled, uint64_t size,
                           uint32_t sample) {
  std::vector<char> bytes(sample);
  const uint64_t offset = sampled == Sampled::kHead ? 0 : size - sample;
  CAIRN_RETURN_IF_ERROR(file.ReadExactly(offset, bytes));
  return base::Crc32c(0, {bytes.data(), bytes.size()});
}

}  // namespace

uint64_t SplitStart(uint64_t index, uint64_t split_bytes) {
  const uint64_t doublings = index / kSplitsPerSize;
  if (doublings >= 32) return UINT64_MAX;  // beyond any file
  const uint64_t whole = kSplitsPerSize * split_bytes * ((uint64_t{1} << doublings) - 1);
  return whole + (index % kSplitsPerSize) * (split_bytes << doublings);
}

std::string SplitName(std::string_view file, uint64_t index) {
  return std::string(file) + '#' + std::to_string(index);
}

Status ParseSplitName(std::string_view split, std::string* file, uint64_t* index) {
  const size_t mark = split.rfind('#');
  if (mark != std::string_view::npos) {
    const char* const end = split.data() + split.size();
    const auto result = std::from_chars(split.data() + mark + 1, end, *index);
    if (result.ec == std::errc() && result.ptr == end) {
      *file = split.substr(0, mark);
      return {};
    }
  }
  return Status::Corruption("saved split \"" + std::string(split) +
                            "\" is not of the form file#number");
}

std::string ToJson(const SplitPosition& position) {
  return "{\"at\":" + std::to_string(position.at) + ",\"size\":" + std::to_string(position.size) +
         ",\"sample\":" + std::to_string(position.sample) +
         ",\"crc\":" + std::to_string(position.crc) + "}";
}

Result<SplitPosition> ParseSplitPosition(std::string_view json, std::string_view split) {
  const nlohmann::json value = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  const auto number = [&value](const char* name, uint64_t max, uint64_t* out) {
    const auto found = value.find(name);
    if (found == value.end() || !found->is_number_unsigned()) return false;
    *out = found->get<uint64_t>();
    return *out <= max;
  };
  SplitPosition position;
  uint64_t sample = 0;
  uint64_t crc = 0;
  if (!value.is_object() || !number("at", UINT64_MAX, &position.at) ||
      !number("size", UINT64_MAX, &position.size) ||
      !number("sample", std::min(position.size, kSampleBytes), &sample) ||
      !number("crc", UINT32_MAX, &crc)) {
    return Status::Corruption("the saved position of split " + std::string(split) +
                              " cannot be read: " + std::string(json.substr(0, 200)));
  }
  position.sample = static_cast<uint32_t>(sample);
  position.crc = static_cast<uint32_t>(crc);
  return position;
}

Result<SplitPosition> Fingerprint(const env::RandomAccessFile& file, Sampled sampled) {
  SplitPosition position;
  position.size = file.size();
  position.sample = static_cast<uint32_t>(std::min(position.size, kSampleBytes));
  CAIRN_ASSIGN_OR_RETURN(position.crc, SampleCrc(file, sampled, position.size, position.sample));
  return position;
}

Status CheckSameFile(const env::RandomAccessFile& file, const std::string& path,
                     const SplitPosition& position, Sampled sampled) {
  const bool tail = sampled == Sampled::kTail;
  if (file.size() < position.size || (tail && file.size() != position.size)) {
    return Status::InvalidArgument(path + " has " + std::to_string(file.size()) +
                                   " bytes and had " + std::to_string(position.size) +
                                   " when the checkpoint was taken: it was cut or replaced. Put "
                                   "the old file back, or start anew with --fresh");
  }
  CAIRN_ASSIGN_OR_RETURN(const uint32_t crc,
                         SampleCrc(file, sampled, position.size, position.sample));
  if (crc != position.crc) {
    return Status::InvalidArgument(path +
                                   " is another file than the one that was read before the "
                                   "checkpoint: its contents changed. Put the old file "
                                   "back, or start anew with --fresh");
  }
  return {};
}

}  // namespace cairn::connectors

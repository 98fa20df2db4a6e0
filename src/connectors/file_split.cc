// SPDX-License-Identifier: Apache-2.0
#include "connectors/file_split.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/coding.h"
#include "base/hash.h"

namespace cairn::connectors {
namespace {

constexpr uint64_t kSampleBytes = 1024;
constexpr uint64_t kSampleBytesMax = 1024 * 1024;
constexpr uint64_t kSplitsPerSize = 64;

Result<uint32_t> SampleCrc(const env::RandomAccessFile& file, uint64_t offset, uint64_t length) {
  std::vector<char> bytes(length);
  CAIRN_RETURN_IF_ERROR(file.ReadExactly(offset, bytes));
  return base::Crc32c(0, {bytes.data(), bytes.size()});
}

Status AddSample(const env::RandomAccessFile& file, uint64_t offset, uint64_t length,
                 SplitPosition* position) {
  if (length == 0) return {};
  CAIRN_ASSIGN_OR_RETURN(const uint32_t crc, SampleCrc(file, offset, length));
  position->samples.push_back({offset, static_cast<uint32_t>(length), crc});
  return {};
}

bool ReadNumber(const nlohmann::json& value, uint64_t max, uint64_t* out) {
  if (!value.is_number_unsigned()) return false;
  *out = value.get<uint64_t>();
  return *out <= max;
}

bool ReadSample(const nlohmann::json& value, uint64_t file_size, FileSample* sample) {
  uint64_t length = 0;
  uint64_t crc = 0;
  if (!value.is_array() || value.size() != 3 || !ReadNumber(value[0], file_size, &sample->offset) ||
      !ReadNumber(value[1], std::min(kSampleBytesMax, file_size - sample->offset), &length) ||
      !ReadNumber(value[2], UINT32_MAX, &crc)) {
    return false;
  }
  sample->length = static_cast<uint32_t>(length);
  sample->crc = static_cast<uint32_t>(crc);
  return true;
}

bool ReadPosition(const nlohmann::json& value, SplitPosition* position) {
  for (const char* name : {"from", "at", "size", "file", "samples"}) {
    if (!value.is_object() || !value.contains(name)) return false;
  }
  if (!ReadNumber(value["size"], UINT64_MAX, &position->size) ||
      !ReadNumber(value["at"], UINT64_MAX, &position->at) ||
      !ReadNumber(value["from"], position->at, &position->from) || !value["file"].is_string() ||
      !value["samples"].is_array()) {
    return false;
  }
  position->file = value["file"].get<std::string>();
  for (const nlohmann::json& one : value["samples"]) {
    if (!ReadSample(one, position->size, &position->samples.emplace_back())) return false;
  }
  return true;
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
  nlohmann::ordered_json json;
  json["from"] = position.from;
  json["at"] = position.at;
  json["size"] = position.size;
  json["file"] = position.file;
  auto& samples = json["samples"] = nlohmann::ordered_json::array();
  for (const FileSample& sample : position.samples) {
    samples.push_back({sample.offset, sample.length, sample.crc});
  }
  return json.dump();
}

Result<SplitPosition> ParseSplitPosition(std::string_view json, std::string_view split) {
  const nlohmann::json value = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  SplitPosition position;
  if (ReadPosition(value, &position)) return position;
  return Status::Corruption("the saved position of split " + std::string(split) +
                            " cannot be read: " + std::string(json.substr(0, 200)));
}

Status SampleText(const env::RandomAccessFile& file, uint64_t header_size,
                  SplitPosition* position) {
  position->samples.clear();
  const uint64_t read = position->at - position->from;
  if (read == 0) return {};
  CAIRN_RETURN_IF_ERROR(AddSample(file, 0, std::min(header_size, kSampleBytes), position));
  CAIRN_RETURN_IF_ERROR(AddSample(file, position->from, std::min(read, kSampleBytes), position));
  if (read <= kSampleBytes) return {};
  return AddSample(file, position->at - kSampleBytes, kSampleBytes, position);
}

Status SampleParquet(const env::RandomAccessFile& file, SplitPosition* position) {
  constexpr uint64_t kFooterEnd = 8;  // the footer's length, then "PAR1"
  const uint64_t size = file.size();
  position->samples.clear();
  uint64_t footer = std::min(size, kSampleBytes);
  if (size >= kFooterEnd) {
    char length[4];
    CAIRN_RETURN_IF_ERROR(file.ReadExactly(size - kFooterEnd, length));
    footer = std::max<uint64_t>(footer, base::LoadLE<uint32_t>(length) + kFooterEnd);
    footer = std::min({footer, size, kSampleBytesMax});
  }
  CAIRN_RETURN_IF_ERROR(AddSample(file, 0, std::min(size, kSampleBytes), position));
  return AddSample(file, size - footer, footer, position);
}

Status CheckSameFile(const env::RandomAccessFile& file, const std::string& path,
                     const SplitPosition& position, bool of_fixed_size) {
  if (file.size() < position.size || (of_fixed_size && file.size() != position.size)) {
    return Status::InvalidArgument(
        path + " has " + std::to_string(file.size()) + " bytes and had " +
        std::to_string(position.size) +
        " when the checkpoint was taken: it was cut or replaced. Put "
        "the old file back, or start anew with another place (--checkpoints)");
  }
  for (const FileSample& sample : position.samples) {
    CAIRN_ASSIGN_OR_RETURN(const uint32_t crc, SampleCrc(file, sample.offset, sample.length));
    if (crc == sample.crc) continue;
    return Status::InvalidArgument(
        path +
        " is another file than the one that was read before the checkpoint: its contents changed "
        "between byte " +
        std::to_string(sample.offset) + " and " + std::to_string(sample.offset + sample.length) +
        ". Put the old file back, or start anew with another place (--checkpoints)");
  }
  return {};
}

}  // namespace cairn::connectors

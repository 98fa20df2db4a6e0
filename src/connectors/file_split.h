// SPDX-License-Identifier: Apache-2.0
//
// The splits of files: which parts a file has, and the saved position that proves a file is still
// the one that was read.
//
// A text file's split k holds the rows that start in [SplitStart(k), SplitStart(k + 1)): the places
// depend on k alone, so a file that grows only gets more splits. Splits are 8 MiB at first and
// double after every 64, so that no file has many hundreds. A Parquet file's split is a row group.
//
// Saved position, JSON: {"at": offset or row, "size": of the file when it was read, "sample": n,
// "crc": CRC-32C of its first n bytes (Parquet: its last n)}.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cairn/status.h"
#include "env/file_system.h"

namespace cairn::connectors {

inline constexpr uint64_t kDefaultSplitBytes = 8 * 1024 * 1024;

/// First byte of a text file's split `index`, for splits that are `split_bytes` long at first.
uint64_t SplitStart(uint64_t index, uint64_t split_bytes);

/// "bids.ndjson#3".
std::string SplitName(std::string_view file, uint64_t index);
Status ParseSplitName(std::string_view split, std::string* file, uint64_t* index);

struct SplitPosition {
  uint64_t at = 0;
  uint64_t size = 0;
  uint32_t sample = 0;
  uint32_t crc = 0;
};

std::string ToJson(const SplitPosition& position);
/// Errors:   kCorruption.
Result<SplitPosition> ParseSplitPosition(std::string_view json, std::string_view split);

/// Which end of a file its fingerprint is taken from.
enum class Sampled : uint8_t { kHead, kTail };

/// Take size and fingerprint of a file as it is now; `at` is left 0.
Result<SplitPosition> Fingerprint(const env::RandomAccessFile& file, Sampled sampled);

/// Check that `file` still is the one of `position`: not shorter and with the same sample.
///
/// Errors:   kInvalidArgument naming the file.
Status CheckSameFile(const env::RandomAccessFile& file, const std::string& path,
                     const SplitPosition& position, Sampled sampled);

}  // namespace cairn::connectors

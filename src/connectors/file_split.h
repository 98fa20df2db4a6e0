// SPDX-License-Identifier: Apache-2.0
//
// The splits of files: which parts a file has, and the saved position that proves a file is still
// the one that was read.
//
// A text file's split k holds the rows that start in [SplitStart(k), SplitStart(k + 1)): the places
// depend on k alone, so a file that grows only gets more splits. Splits are 8 MiB at first and
// double after every 64, so that no file has many hundreds. A Parquet file's split is a row group.
//
// Saved position, JSON: {"from": offset, "at": offset or row, "size": of the file when the run that
// read it began, "file": its identity, "samples": [[offset, length, CRC-32C], …]}. Samples are of
// bytes that were read (Parquet: of both ends), so that what was not read yet may change. A split
// of which nothing was read has no position.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/status.h"
#include "env/file_system.h"

namespace cairn::connectors {

inline constexpr uint64_t kDefaultSplitBytes = 8 * 1024 * 1024;

/// First byte of a text file's split `index`, for splits that are `split_bytes` long at first.
uint64_t SplitStart(uint64_t index, uint64_t split_bytes);

/// "bids.ndjson#3".
std::string SplitName(std::string_view file, uint64_t index);
Status ParseSplitName(std::string_view split, std::string* file, uint64_t* index);

/// A piece of a file and its checksum.
struct FileSample {
  uint64_t offset = 0;
  uint32_t length = 0;
  uint32_t crc = 0;
};

struct SplitPosition {
  uint64_t from = 0;  ///< where the split's first row begins; 0 in its file's first split
  uint64_t at = 0;    ///< where its next row begins; in Parquet how many rows were read
  uint64_t size = 0;
  std::string file;                 ///< env::FileInfo::identity
  std::vector<FileSample> samples;  ///< empty = nothing was read
};

std::string ToJson(const SplitPosition& position);
/// Errors:   kCorruption.
Result<SplitPosition> ParseSplitPosition(std::string_view json, std::string_view split);

/// Sample what a split of text has read, [from, at), at both ends, and the file's first
/// `header_size` bytes.
Status SampleText(const env::RandomAccessFile& file, uint64_t header_size, SplitPosition* position);

/// Sample the first bytes and the footer of a Parquet file.
Status SampleParquet(const env::RandomAccessFile& file, SplitPosition* position);

/// Check that `file` still is the one of `position`: not shorter, or as long when it is
/// `of_fixed_size`, and with the same samples.
///
/// Errors:   kInvalidArgument naming the file.
Status CheckSameFile(const env::RandomAccessFile& file, const std::string& path,
                     const SplitPosition& position, bool of_fixed_size);

}  // namespace cairn::connectors

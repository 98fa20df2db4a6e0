// SPDX-License-Identifier: Apache-2.0
//
// How a manifest, whose texts are UTF-8, holds a caller's offsets, which are any bytes: "text:" and
// the bytes when they are UTF-8, so that a person can read them, else "hex:" and their digits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cairn/status.h"

namespace cairn::store {

std::string OffsetsText(std::string_view offsets);

/// Errors:   kCorruption: a text that OffsetsText never makes.
Result<std::string> ParseOffsets(std::string_view text);

/// "partition-7": the name of a partition's offsets.
std::string PartitionText(uint32_t partition);

/// Errors:   kCorruption: another name, or a number that is not below `partitions`.
Result<uint32_t> ParsePartition(std::string_view text, uint32_t partitions);

}  // namespace cairn::store

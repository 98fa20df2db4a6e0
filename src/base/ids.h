// SPDX-License-Identifier: Apache-2.0
//
// Strong identifiers: two of different kinds never mix in a call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cairn/ids.h"

namespace cairn::base {

using cairn::OperatorId;
using cairn::OperatorIdOf;
using cairn::StrongId;

/// Number of a checkpoint. Starts at 1, grows, is never reused; 0 = none.
using CheckpointId = StrongId<struct CheckpointIdTag, uint64_t>;

/// Print an operator id as 16 lower-case hex digits, as JSON carries it.
std::string ToHex16(OperatorId id);

/// Parse 16 hex digits; false on anything else.
bool ParseHex16(std::string_view text, OperatorId* id);

/// A UUIDv7: time-ordered, so ids sort by creation. `random` supplies 74 random bits.
///
/// Shape:    36 characters, canonical lower-case text form.
std::string MakeUuidV7(uint64_t unix_ms, uint64_t random_high, uint64_t random_low);

/// True for a canonical, non-nil UUID in text form.
bool IsCanonicalUuid(std::string_view text);

}  // namespace cairn::base

// SPDX-License-Identifier: Apache-2.0
//
// What every backend asks of a write, so that they refuse the same ones, and when a row is dead.
//
// Threads: pure functions.
#pragma once

#include "cairn/state_backend.h"
#include "cairn/status.h"
#include "format/keys.h"

namespace cairn::backend {

/// The groups whose keyed rows the subtask of `options` holds.
KeyGroupRange OwnedGroups(const BackendOptions& options);

/// Check every entry of `batch` before the first is applied.
///
/// Errors:   kInvalidArgument, naming operator and key: a group that is not that of the user key or
///           belongs to another subtask; a key or an operand over its limit.
Status CheckBatch(const BackendOptions& options, const format::KeyLayout& layout,
                  const WriteBatch& batch);

/// Check a value that a merge would make.
///
/// Errors:   kInvalidArgument over the limit, naming operator, slot and key.
Status CheckMerged(const BackendOptions& options, const format::KeyLayout& layout,
                   const WriteEntry& entry, uint64_t bytes_before);

/// True when `value`, of a slot whose values begin with their expiry time, is dead at `now_ms`.
///
/// Errors:   kCorruption when it is shorter than that time.
Result<bool> IsExpired(std::string_view value, int64_t now_ms);

/// "operator 00000000000000ab, slot counts, key 'k1'" for messages; long keys are cut.
std::string DescribeKey(const format::KeyLayout& layout, OperatorId op, std::string_view stored);

}  // namespace cairn::backend

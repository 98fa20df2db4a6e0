// SPDX-License-Identifier: Apache-2.0
//
// RemotePool: the durable tier of a remote backend, a series of checkpoints of one subtask, each
// the base before it with some rows changed. RemoteLoader: a read-only one that only answers keys.
//
// Threads:  Read, ReadMany and Scan run beside each other and beside the rest, on any thread. The
//           rest is called by one thread at a time.
// Invariants
//  1. A checkpoint is there whole or not at all, and never changes while it is there.
//  2. Reading a checkpoint that is not there is kNotFound, never "absent". Checkpoint 0 is empty
//  and
//     always there.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/async_reads.h"
#include "cairn/state_backend.h"
#include "cairn/status.h"

namespace cairn::backend {

/// Bytes that are shared and do not change. Null = absent, or erased.
using PoolValue = std::shared_ptr<const std::string>;

/// A key that is not owned, to look up and compare with.
struct StateKeyRef {
  OperatorId operator_id;
  std::string_view key;

  StateKeyRef(OperatorId op, std::string_view key_bytes) : operator_id(op), key(key_bytes) {}
  StateKeyRef(const StateKey& owned)  // NOLINT: implicit, a view of it
      : operator_id(owned.operator_id), key(owned.key) {}
  friend auto operator<=>(const StateKeyRef&, const StateKeyRef&) = default;
};

struct PoolRow {
  StateKey key;
  PoolValue value;
};

/// A checkpoint to be made: its base with changes. No key comes twice.
struct PoolCommit {
  uint64_t id = 0;
  uint64_t base = 0;
  std::vector<PoolRow> changed;
  std::vector<StateKey> deleted;
  std::vector<StateStamp> stamps;
};

/// Keys from `first` on, to `last` (exclusive) or to the end.
struct PoolRange {
  StateKey first;
  std::optional<StateKey> last;
};

/// Some rows of a scan in order of operator and key bytes.
struct PoolPage {
  std::vector<PoolRow> rows;
  bool more = false;  ///< go on behind the last row
};

/// A checkpoint of this or another location, to restore from.
struct PoolPart {
  std::string location;
  uint64_t id = 0;
};

/// What PrepareRestore found in the parts.
struct PoolRestored {
  uint64_t rows = 0;     ///< in the new checkpoint
  uint64_t skipped = 0;  ///< of key groups outside of `groups`
  std::vector<StateStamp> stamps;
};

class RemotePool {
 public:
  virtual ~RemotePool() = default;

  /// Name of the place, by which another subtask's restore finds its checkpoints.
  virtual std::string location() const = 0;

  /// Make checkpoint commit.id; one of that id, from an attempt whose outcome is unknown or from a
  /// run that was given up, is replaced.
  ///
  /// Durable:  yes, when it returns OK.
  /// Errors:   kNotFound without the base · kUnavailable, kResourceExhausted: nothing was made, or
  ///           all, and the caller does not know: commit again or purge.
  /// Cost:     follows the change, amortised; not the state.
  virtual Status Commit(PoolCommit commit) = 0;

  virtual Result<PoolValue> Read(uint64_t id, StateKeyRef key) = 0;

  /// Read many in one round trip. Shape: value i is that of keys[i].
  virtual Result<std::vector<PoolValue>> ReadMany(uint64_t id, std::span<const StateKey> keys) = 0;

  /// Read the next rows of a range, at most `rows_max`.
  virtual Result<PoolPage> ScanCheckpoint(uint64_t id, const PoolRange& range, size_t rows_max) = 0;

  /// Rows of a checkpoint: exact.
  virtual Result<uint64_t> CountRows(uint64_t id) = 0;

  /// Drop a checkpoint and what only it needs. An id that is not there is no error.
  virtual Status Purge(uint64_t id) = 0;

  /// Ids of the checkpoints here, ascending.
  virtual Result<std::vector<uint64_t>> List() = 0;

  /// Make checkpoint `id` here of the parts: the keyed rows of `groups`, and all others. Where
  /// parts hold the same key the earlier part's row is taken. Loads no value.
  ///
  /// Errors:   kNotFound when a part is not there; nothing is made then.
  virtual Result<PoolRestored> PrepareRestore(uint64_t id, std::span<const PoolPart> parts,
                                              KeyGroupRange groups) = 0;
};

/// Answers keys from somewhere else, such as a service.
///
/// Threads:  any, many at a time.
class RemoteLoader {
 public:
  virtual ~RemoteLoader() = default;
  /// Errors:   what keeps it from answering; an absent key is no error.
  virtual Result<StateValue> Load(StateKeyRef key) = 0;
  /// Load many, in one round trip where the loader can.
  virtual Result<std::vector<StateValue>> LoadMany(std::span<const StateKey> keys);
};

}  // namespace cairn::backend

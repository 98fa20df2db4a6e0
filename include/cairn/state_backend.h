// SPDX-License-Identifier: Apache-2.0
//
// StateBackend: the narrow byte contract of everything that keeps state: tables through an adapter,
// cold stores, remote pools. A backend is an ordered map (operator id, stored key) -> bytes of one
// subtask. Keys are stored keys (docs/formats/keys.md): [key group][slot]['|'][user key], operator
// state [FF or FF FF][logical key].
//
// Threads:  one owner calls Apply, Get, GetMany, Scan, Capture, Restore and Close, unless Describe
//           says any_thread. A capture is persisted and dropped on any thread; Describe is any's.
// Invariants
//  1. Get, GetMany and Scan see every write applied before them. Absent is an answer, never an
//     error; a read that could not be made is an error, never "absent".
//  2. Scan goes over an immutable cut in the order of the stored keys' unsigned bytes. Its visitor
//     may call the backend, writes included; it does not see them.
//  3. Capture cuts everything at one moment. What Persist writes never shows a later change.
//     Snapshot(id) is Persist of Capture(id); a checkpoint is acknowledged only after Persist.
//  4. A capture that was dropped, or whose Persist failed, harms nothing: its changes are in the
//     next one. Persist may be called again after an error.
//  5. Restore replaces all content, or changes nothing and returns why.
//  6. A failed call names operator, slot and key where they are known.
//
// Errors every call may return
//  kInvalidArgument    a key that is none (its group is not that of its user key, or outside the
//                      subtask's range), a key or value over the limits, a closed backend
//  kResourceExhausted  over the memory budget or the disk: names the largest owners
//  kUnavailable        the store below did not answer: try again
//  kCorruption         bytes that do not decode or do not match their checksum
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/hash.h"
#include "cairn/ids.h"
#include "cairn/memory_budget.h"
#include "cairn/status.h"

namespace cairn {
inline namespace v0 {

class AsyncReads;  // cairn/async_reads.h

enum class WriteKind : uint8_t { kPut, kErase, kMerge };

/// One change of a batch; the views point into the batch.
struct WriteEntry {
  WriteKind kind = WriteKind::kPut;
  OperatorId operator_id;
  std::string_view key;
  std::string_view value;  ///< of an erase: empty
};

/// Changes in order, in one buffer that is kept across Clear.
///
/// Threads:  one.
class WriteBatch {
 public:
  void Put(OperatorId op, std::string_view key, std::string_view value) {
    Add(WriteKind::kPut, op, key, value);
  }
  void Erase(OperatorId op, std::string_view key) { Add(WriteKind::kErase, op, key, {}); }
  /// Append `operand` to the value; an absent value is empty.
  void Merge(OperatorId op, std::string_view key, std::string_view operand) {
    Add(WriteKind::kMerge, op, key, operand);
  }
  void Clear() {
    entries_.clear();
    bytes_.clear();
  }

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  /// Bytes of keys and values.
  size_t bytes() const { return bytes_.size(); }
  WriteEntry operator[](size_t i) const {
    const Extent& at = entries_[i];
    const std::string_view all(bytes_);
    return {at.kind, at.operator_id, all.substr(at.begin, at.key_bytes),
            all.substr(at.begin + at.key_bytes, at.value_bytes)};
  }

 private:
  struct Extent {
    OperatorId operator_id;
    size_t begin;
    size_t key_bytes;
    size_t value_bytes;
    WriteKind kind;
  };
  void Add(WriteKind kind, OperatorId op, std::string_view key, std::string_view value) {
    entries_.push_back({op, bytes_.size(), key.size(), value.size(), kind});
    bytes_.append(key);
    bytes_.append(value);
  }

  std::vector<Extent> entries_;
  std::string bytes_;
};

/// Stored keys from `first` (inclusive) to `last` (exclusive; nothing = to the end).
struct ScanRange {
  std::string first;
  std::optional<std::string> last;

  static ScanRange All() { return {}; }
  /// Every key that begins with `prefix`.
  static ScanRange OfPrefix(std::string_view prefix);
  bool Contains(std::string_view key) const { return key >= first && (!last || key < *last); }
};

/// Called for each row of a scan; false ends it.
using ScanVisitor = std::function<bool(std::string_view key, std::string_view value)>;

/// How the bytes of a snapshot are to be read.
enum class SnapshotForm : uint8_t {
  kCanonical,  ///< bytes = the interchange stream (docs/formats/canonical-stream.md); none = empty
  kChangelog,  ///< bytes = its changelog variant
  kStored,     ///< kept by a backend: `location`, or that backend's own file of checkpoint_id
};

/// What Persist leaves and Restore takes.
struct BackendSnapshot {
  uint64_t checkpoint_id = 0;
  SnapshotForm form = SnapshotForm::kCanonical;
  std::string bytes;
  std::string location;  ///< of kStored: what the writing backend named it; empty = by id
};

/// A snapshot and the subtask that wrote it.
struct RestorePart {
  BackendSnapshot snapshot;
  uint32_t subtask = 0;
  uint32_t parallelism = 1;
};

/// What a restore did.
struct RestoreCounts {
  uint64_t rows = 0;     ///< applied
  uint64_t skipped = 0;  ///< of key groups that others own
};

/// A cut that was taken and can be saved. Dropping it gives the checkpoint up.
///
/// Threads:  any, one at a time. It may outlive its backend's next Restore, but not the backend.
class CapturedState {
 public:
  virtual ~CapturedState() = default;
  CapturedState(const CapturedState&) = delete;
  CapturedState& operator=(const CapturedState&) = delete;

  virtual uint64_t checkpoint_id() const = 0;

  /// Save the cut.
  ///
  /// Durable:  yes where Describe says so, when it returns OK.
  /// Blocks:   on the write.
  /// Errors:   kCancelled when the backend was restored since the capture · what the writing
  ///           returned. May be called again.
  virtual Result<BackendSnapshot> Persist() = 0;

 protected:
  CapturedState() = default;
};

/// Figures of a backend at one moment.
struct BackendDescription {
  std::string uri;                  ///< canonical: aliases resolved
  bool durable = false;             ///< snapshots survive the process
  bool any_thread = false;          ///< every call may come from any thread
  bool incremental = false;         ///< a snapshot's bytes follow the change, not the state
  uint64_t rows = 0;                ///< live, or an estimate
  uint64_t memory_bytes = 0;        ///< charged to the budget
  uint64_t view_bytes = 0;          ///< of these, kept for open captures and scans
  uint64_t last_checkpoint_id = 0;  ///< persisted or restored last; 0 = none
  uint64_t last_snapshot_bytes = 0;
};

/// A schema stamp: which version of a type a slot holds.
struct StateStamp {
  OperatorId operator_id;
  std::string state_type;
  uint32_t version = 1;
  std::string slot;  ///< may be empty: the stamp is then of the type
  friend bool operator==(const StateStamp&, const StateStamp&) = default;
};

/// Capability: schema stamps ride every snapshot and come back with Restore.
class StateStamps {
 public:
  virtual ~StateStamps() = default;
  /// Errors: kInvalidArgument for '|' or a line feed in a type or slot.
  virtual Status Set(std::vector<StateStamp> stamps) = 0;
  /// Those of the snapshot restored last; none before a restore.
  virtual std::vector<StateStamp> restored() const = 0;
};

/// Capability: snapshots lie in a place of the backend's own.
class SnapshotPlace {
 public:
  virtual ~SnapshotPlace() = default;
  /// Ids of the valid snapshots, ascending.
  virtual Result<std::vector<uint64_t>> List() = 0;
  /// Remove the snapshot of `checkpoint_id` and what only it needs; an unknown id is no error.
  virtual Status Purge(uint64_t checkpoint_id) = 0;
};

/// Capability: rows of declared slots begin with an expiry time (docs/formats/keys.md).
class ExpirySweep {
 public:
  virtual ~ExpirySweep() = default;
  /// Say that values of `slot` begin with 8 bytes of expiry time.
  virtual void Declare(OperatorId op, std::string_view slot) = 0;
  /// Set the time: rows with expiry <= now_ms are absent from reads, scans and later captures.
  virtual void Advance(int64_t now_ms) = 0;
  /// Remove expired rows, looking at no more than about `rows_max`. Returns those removed.
  virtual Result<uint64_t> Sweep(uint64_t rows_max) = 0;
};

/// Capability: the last snapshot's files, for backends that share files between snapshots.
struct SnapshotFiles {
  uint64_t checkpoint_id = 0;
  std::vector<std::string> files;
  uint64_t files_shared = 0;  ///< of these, also in the snapshot before
};
class IncrementalFiles {
 public:
  virtual ~IncrementalFiles() = default;
  virtual SnapshotFiles last_snapshot() const = 0;
};

/// What every backend is opened with.
struct BackendOptions {
  std::string name = "state";      ///< how the budget names it
  MemoryBudget* budget = nullptr;  ///< null = MemoryBudget::Default(); outlives the backend
  uint32_t key_groups = kDefaultKeyGroups;
  uint32_t subtask = 0;
  uint32_t parallelism = 1;
  uint64_t slot_hash_seed = 0;
  uint64_t key_bytes_max = uint64_t{16} << 20;
  uint64_t value_bytes_max = uint64_t{1} << 30;
};

class StateBackend {
 public:
  virtual ~StateBackend() = default;
  StateBackend(const StateBackend&) = delete;
  StateBackend& operator=(const StateBackend&) = delete;

  /// Apply the entries in order.
  ///
  /// Shape:    *applied (may be null) = entries applied: batch.size() on success. After an error
  ///           entries before the refused one are applied, none after it; a malformed entry
  ///           anywhere refuses the whole batch.
  virtual Status Apply(const WriteBatch& batch, size_t* applied) = 0;

  virtual Result<std::optional<std::string>> Get(OperatorId op, std::string_view key) = 0;

  /// Shape:    (*values)[i] is that of keys[i]; on error *values is empty.
  virtual Status GetMany(OperatorId op, std::span<const std::string_view> keys,
                         std::vector<std::optional<std::string>>* values) = 0;

  /// Visit the operator's rows of `range` in order of their stored keys.
  virtual Status Scan(OperatorId op, const ScanRange& range, const ScanVisitor& visit) = 0;

  /// Cut the state as it is now, for checkpoint `checkpoint_id`.
  ///
  /// Cost:     independent of the size of the state, where Describe does not say otherwise.
  virtual Result<std::unique_ptr<CapturedState>> Capture(uint64_t checkpoint_id) = 0;

  /// Replace the content by `parts`, keeping the key groups of this subtask.
  ///
  /// Shape:    no parts = empty. Operator state of all parts is seen; this subtask's own row hides
  ///           its peers' of the same key (cairn/operator_state.h).
  /// Errors:   kNotFound or kCorruption when a part is missing or damaged: never an empty start.
  virtual Result<RestoreCounts> Restore(std::span<const RestorePart> parts) = 0;

  virtual BackendDescription Describe() const = 0;

  /// Give back threads, files and memory. Captures must be gone. Later calls fail.
  virtual Status Close() = 0;

  // Capabilities: null where the backend has none. They live as long as the backend.
  virtual AsyncReads* async_reads() { return nullptr; }
  virtual StateStamps* stamps() { return nullptr; }
  virtual SnapshotPlace* snapshot_place() { return nullptr; }
  virtual ExpirySweep* expiry() { return nullptr; }
  virtual IncrementalFiles* incremental_files() { return nullptr; }

  // Conveniences over the contract.
  Status Put(OperatorId op, std::string_view key, std::string_view value);
  Status Erase(OperatorId op, std::string_view key);
  Status Merge(OperatorId op, std::string_view key, std::string_view operand);
  /// Persist(Capture(id)).
  Result<BackendSnapshot> Snapshot(uint64_t checkpoint_id);

 protected:
  StateBackend() = default;
};

}  // namespace v0
}  // namespace cairn

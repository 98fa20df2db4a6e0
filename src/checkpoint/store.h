// SPDX-License-Identifier: Apache-2.0
//
// CheckpointStore: the one place where a job's cuts live, are decided and are retired.
//
//   store = OpenStoreAt(…);  cut = store->Recover();
//   LoadState(*cut, tables, …) for each subtask;  CheckReceipts(*cut, receipts);
//   loop { id = store->NextId();  capture;
//          persisted = store->Persist(id, captured, executor);   manifest durable, not decided
//          store->Commit(persisted);                             decided: the commit point
//          commit the sinks;  store->Retire(); }
//
// Invariants
//  1. control/decision-head.json alone says which cut is the latest. No listing ever decides.
//  2. A cut references only objects of its own and of the committed cut it was built on.
//  3. An id is never given out twice, whether its checkpoint was committed or not.
//  4. An object is deleted only when the manifests of all retained cuts were read and none names
//  it,
//     or when its id was never committed.
//  5. A failed Persist or Commit leaves the latest cut as it was; the next attempt works.
//
// docs/protocol/checkpoint.md lists every crash window with its outcome and its test.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "cairn/hash.h"
#include "cairn/migration.h"
#include "cairn/status.h"
#include "checkpoint/cut.h"
#include "checkpoint/executor.h"
#include "env/clock.h"
#include "env/file_system.h"
#include "env/object_store.h"

namespace cairn::checkpoint {

/// Where in a checkpoint a process is. The store reports kPersist to kRetire; capture and sink
/// commit are the engine's.
enum class Step : uint8_t { kBetween, kCapture, kPersist, kManifest, kHead, kSinkCommit, kRetire };

/// "between", "capture", "persist", "manifest", "head", "sink-commit", "retire".
std::string_view StepName(Step step);

struct StoreOptions {
  Pipeline pipeline;
  uint32_t key_groups = kDefaultKeyGroups;
  /// Committed cuts kept, 1..16.
  uint32_t retained = 3;
  /// A base is due when a cut would reference this many older objects.
  uint32_t rebase_chunks = 64;
  /// Deltas up to so many bytes an operator never make a base due: changelog backends say 64 KiB.
  uint64_t rebase_bytes_min = 0;
  /// Size at which a segment of a view log is ended.
  uint64_t view_log_segment_bytes = uint64_t{16} << 20;
  /// Most segments of view logs in one cut; 0 = as many as a manifest holds.
  uint32_t view_log_segment_limit = 0;
  /// False marks the place `durability: none`.
  bool fsync = true;
  /// Refuse a place that holds a cut.
  bool fresh = false;
  /// What a restore may do with slots that were saved with another version.
  std::shared_ptr<const MigrationRegistry> migrations;
  /// PLACE@ID whose cut the job begins with; empty = with one of its own, or from the start.
  std::string origin;
  /// Slot-hash seed of a place that is made; nothing = drawn.
  std::optional<uint64_t> slot_hash_seed;
  /// Of a place that is made: the deployment that it goes on with; empty = a new one.
  std::string deployment_id;
  /// Called at the start of every step, on the thread that runs it.
  std::function<void(Step)> observer;
  /// Parts of objects on their way to a bucket at once.
  uint32_t max_concurrent_uploads = 8;
  /// Told what a call to a bucket waits for, on the thread that makes it.
  std::function<void(const std::string&)> on_retry;
  env::Clock* clock = nullptr;    ///< null = SystemClock()
  env::Random* random = nullptr;  ///< null = SystemRandom()
};

/// A cut whose manifest is durable and which no decision names yet.
struct PersistedCut {
  base::CheckpointId id;
  std::string manifest_sha256;
  uint64_t manifest_length = 0;
  uint64_t bytes_new = 0;     ///< frames written now
  uint64_t bytes_reused = 0;  ///< frames of older objects that the cut references
  uint64_t frames_new = 0;
  uint64_t frames_reused = 0;
  uint64_t rows_new = 0;
  bool has_object = false;  ///< false: nothing had changed
  uint64_t view_log_rows_new = 0;
  uint64_t view_log_segments_new = 0;  ///< merged ones too
  uint64_t view_log_bytes_new = 0;
  /// What could not be done and harms no row, one line each: segments that cannot be merged.
  std::vector<std::string> problems;
};

/// What Retire removed.
struct RetireReport {
  std::vector<base::CheckpointId> dropped;  ///< cuts that left the retained list
  uint64_t objects_deleted = 0;
  uint64_t bytes_deleted = 0;
};

class Cut;  // checkpoint/recovery.h

/// Save, decide and find the cuts of one job.
///
/// Threads:  Persist, Commit, Abandon and Retire from one thread at a time (not all the same one);
///           NextId and the accessors from any.
class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;

  /// Load the cut that the decision head names; null = the store holds none and never did.
  ///
  /// Blocks:   on reads of the head and one manifest; frames are read by LoadState.
  /// Errors:   kCorruption (head or manifest missing or damaged: never an empty start) ·
  ///           kInvalidArgument (cut of another pipeline or key-group count: says what differs) ·
  ///           kUnsupportedFormat · kUnavailable.
  virtual Result<std::shared_ptr<const Cut>> Recover() = 0;

  /// Go back to retained cut `id`, of your own decision. The next checkpoint builds on it.
  ///
  /// Errors:   as Recover · kNotFound (lists the retained cuts) · kInvalidArgument when an
  ///           exactly-once sink has committed rows after it: they would come twice.
  virtual Result<std::shared_ptr<const Cut>> RecoverAt(base::CheckpointId id) = 0;

  /// Take the next id. Burnt when its checkpoint fails.
  ///
  /// Blocks:   on one durable write for every 65,536 ids.
  virtual Result<base::CheckpointId> NextId() = 0;

  /// Write the frames and the manifest of `id`. Encodes the subtasks in parallel on `executor`.
  ///
  /// Shape:    a base or a delta per operator; clean frames are references to older objects.
  /// Durable:  yes, but not decided: Recover does not see it before Commit.
  /// Errors:   what a table's codec returned · kResourceExhausted (disk full) · kUnavailable ·
  ///           kFenced · kInternal. What was written is removed at once or at the next open.
  virtual Result<PersistedCut> Persist(base::CheckpointId id, const CapturedCut& captured,
                                       Executor* executor) = 0;

  /// Decide `persisted`: the commit point. On success Recover returns it, on any machine.
  ///
  /// Durable:  yes.
  /// Errors:   kUnavailable (the old cut still stands, try a new checkpoint) · kFenced. When the
  ///           outcome cannot be learnt the store is latched: every later call fails until reopen.
  virtual Status Commit(const PersistedCut& persisted) = 0;

  /// Give up a persisted cut that will not be committed, and remove its objects.
  virtual Status Abandon(const PersistedCut& persisted) = 0;

  /// Drop cuts beyond `retained` and delete what no retained cut references. Off the critical path.
  ///
  /// Errors:   kCorruption when a retained manifest is damaged: then nothing is deleted. Any
  /// failure
  ///           leaves work for the next call; it never harms a retained cut.
  virtual Result<RetireReport> Retire() = 0;

  /// Make the next cut that is persisted write bases of everything. Threads: any.
  virtual void MaterializeNow() = 0;

  /// Id of the latest committed cut; 0 = none.
  virtual base::CheckpointId latest_commit() const = 0;
  /// Seed of the slot hash, fixed when the place was made.
  virtual uint64_t slot_hash_seed() const = 0;
  virtual const std::string& deployment_id() const = 0;
  /// The first id of this open: greater than all that an earlier open of the place could give out.
  virtual base::CheckpointId first_id() const = 0;
  /// What its objects have cost so far. Threads: any.
  virtual env::StoreUse use() const = 0;
  /// About how many bytes the Persist that runs will write: bases by what they held before, 0 =
  /// unknown or little. Threads: any.
  virtual uint64_t expected_bytes() const = 0;
  /// What opening found and repaired, one line each; empty when nothing.
  virtual const std::vector<std::string>& notes() const = 0;
};

/// The objects of a place that no other process writes meanwhile.
struct OwnedObjects {
  std::unique_ptr<env::ObjectStore> objects;
  std::unique_ptr<env::FileLock> lock;  ///< given back first: a lease is, through the objects
};

/// Own the objects of `place`: a directory of `files` (made when missing, locked), or
/// s3://BUCKET/PREFIX (proven to keep its promises, its lease taken). Looks only at fsync,
/// max_concurrent_uploads, on_retry and clock of `options`.
///
/// Blocks:   in a bucket on about 30 requests, and on a lease that was not given back up to its
/// time
///           to live.
/// Errors:   kFenced (another process holds it: names it) · kInvalidArgument (a bucket without
///           conditional writes, a directory within or around another place) · kResourceExhausted ·
///           kUnavailable.
Result<OwnedObjects> OwnPlace(env::FileSystem* files, const std::string& place,
                              const StoreOptions& options = {});

/// Open or make the store of `place`, which is owned until it is closed.
///
/// Errors:   as OwnPlace · kCorruption (damaged store) · kInvalidArgument (other pipeline or key
///           groups; `fresh` and a cut is there) · kUnsupportedFormat.
Result<std::unique_ptr<CheckpointStore>> OpenStoreAt(env::FileSystem* files,
                                                     const std::string& place,
                                                     StoreOptions options);

/// Open or make the store in `objects`. `lock` (may be null) is held until the store is closed.
///
/// Shape:    the lock may use the objects until it is given back.
/// Errors:   as OpenStoreAt.
Result<std::unique_ptr<CheckpointStore>> OpenStore(std::unique_ptr<env::ObjectStore> objects,
                                                   std::unique_ptr<env::FileLock> lock,
                                                   StoreOptions options);

}  // namespace cairn::checkpoint

// SPDX-License-Identifier: Apache-2.0
//
// AsyncReads: reads of a backend that do not hold up the runner while they wait; and the two
// backends-in-between: InlineReads, which gives them to a backend that never waits, and
// CoalescingBackend, which turns many into one round trip.
//
// Threads:  the runner's. Tasks resume there.
// Invariants
//  1. A read that could not be made ends with its error: in every record that awaits it, and never
//     as an absent value.
//  2. A value is never older than the newest write to its key at the time the task resumes.
//  3. A task owns its keys. The reads outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/async_io.h"
#include "cairn/async_task.h"
#include "cairn/ids.h"
#include "cairn/state_backend.h"

namespace cairn {
inline namespace v0 {

using StateValue = std::optional<std::string>;

/// A key of one operator, owned. No aggregate: GCC 12 destroys one twice that is made in a
/// co_await.
struct StateKey {
  StateKey() = default;
  StateKey(OperatorId op, std::string key_bytes) : operator_id(op), key(std::move(key_bytes)) {}

  OperatorId operator_id;
  std::string key;
  friend auto operator<=>(const StateKey&, const StateKey&) = default;
};

/// Capability of a backend whose reads may wait.
class AsyncReads {
 public:
  virtual ~AsyncReads() = default;
  AsyncReads(const AsyncReads&) = delete;
  AsyncReads& operator=(const AsyncReads&) = delete;

  /// Say where tasks resume. Without one every read is made where it is awaited.
  virtual void SetResumeScheduler(std::shared_ptr<ResumeScheduler> scheduler) = 0;

  /// Answer from memory: false when the read would have to wait.
  virtual bool TryGet(OperatorId op, std::string_view key, StateValue* value) = 0;

  /// Read one value. `order_key` is its deadline: reads with lower keys are made, and resume,
  /// first.
  virtual AsyncTask<Result<StateValue>> GetAsync(OperatorId op, std::string key,
                                                 int64_t order_key) = 0;
  AsyncTask<Result<StateValue>> GetAsync(OperatorId op, std::string key) {
    return GetAsync(op, std::move(key), kNoDeadline);
  }

  /// Read many values in one round trip, waiting once.
  ///
  /// Shape:    value i is that of keys[i]; a key may come twice.
  virtual AsyncTask<Result<std::vector<StateValue>>> GetManyAsync(std::vector<StateKey> keys,
                                                                  int64_t order_key) = 0;
  AsyncTask<Result<std::vector<StateValue>>> GetManyAsync(std::vector<StateKey> keys) {
    return GetManyAsync(std::move(keys), kNoDeadline);
  }

  /// Send reads that were held back to be sent together; false when there were none. For whoever
  /// runs the tasks, when none can go on.
  virtual bool FlushPendingReads() { return false; }

 protected:
  AsyncReads() = default;
};

/// The asynchronous reads of a backend whose Get never waits long: tasks resolve where they are
/// awaited.
class InlineReads final : public AsyncReads {
 public:
  explicit InlineReads(StateBackend* backend) : backend_(backend) {}
  void SetResumeScheduler(std::shared_ptr<ResumeScheduler>) override {}
  bool TryGet(OperatorId, std::string_view, StateValue*) override { return false; }
  using AsyncReads::GetAsync;
  using AsyncReads::GetManyAsync;
  AsyncTask<Result<StateValue>> GetAsync(OperatorId op, std::string key,
                                         int64_t order_key) override;
  AsyncTask<Result<std::vector<StateValue>>> GetManyAsync(std::vector<StateKey> keys,
                                                          int64_t order_key) override;

 private:
  StateBackend* const backend_;
};

/// Figures of a CoalescingBackend.
struct CoalescingCounts {
  uint64_t reads = 0;   ///< held back
  uint64_t rounds = 0;  ///< GetManyAsync calls they became
};

/// A backend in front of another whose reads wait: cold GetAsync calls are held back until the
/// runner is out of work or `round_max` are waiting, then sent as one GetManyAsync. A key that is
/// read by several records of a round is read once. All else is passed through.
///
/// Threads:  reads are one runner's; the rest is as the backend behind.
class CoalescingBackend final : public StateBackend {
 public:
  static constexpr size_t kDefaultRoundMax = 8192;

  /// Errors:   kInvalidArgument when `backend` has no asynchronous reads.
  static Result<std::unique_ptr<CoalescingBackend>> Create(std::unique_ptr<StateBackend> backend,
                                                           size_t round_max = kDefaultRoundMax);
  ~CoalescingBackend() override;

  CoalescingCounts counts() const;

  Status Apply(const WriteBatch& batch, size_t* applied) override {
    return backend_->Apply(batch, applied);
  }
  Result<StateValue> Get(OperatorId op, std::string_view key) override {
    return backend_->Get(op, key);
  }
  Status GetMany(OperatorId op, std::span<const std::string_view> keys,
                 std::vector<StateValue>* values) override {
    return backend_->GetMany(op, keys, values);
  }
  Status Scan(OperatorId op, const ScanRange& range, const ScanVisitor& visit) override {
    return backend_->Scan(op, range, visit);
  }
  Result<std::unique_ptr<CapturedState>> Capture(uint64_t checkpoint_id) override {
    return backend_->Capture(checkpoint_id);
  }
  Result<RestoreCounts> Restore(std::span<const RestorePart> parts) override {
    return backend_->Restore(parts);
  }
  BackendDescription Describe() const override { return backend_->Describe(); }
  Status Close() override { return backend_->Close(); }

  AsyncReads* async_reads() override;
  StateStamps* stamps() override { return backend_->stamps(); }
  SnapshotPlace* snapshot_place() override { return backend_->snapshot_place(); }
  ExpirySweep* expiry() override { return backend_->expiry(); }
  IncrementalFiles* incremental_files() override { return backend_->incremental_files(); }

 private:
  class Reads;
  CoalescingBackend(std::unique_ptr<StateBackend> backend, size_t round_max);

  const std::unique_ptr<StateBackend> backend_;
  const std::unique_ptr<Reads> reads_;
};

}  // namespace v0
}  // namespace cairn

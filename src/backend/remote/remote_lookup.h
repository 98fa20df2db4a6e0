// SPDX-License-Identifier: Apache-2.0
//
// How RemoteReadBackend reads: one path for a key and for many, on the caller's thread or by I/O
// threads. Included by the backend's own files only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/remote/remote_read_backend.h"

namespace cairn::backend {

/// Stands for "erased" in checkpoints over a loader, whose own value must not show through.
const PoolValue& ErasedOverLoader();

/// The key under which an operator-state row lies that is older than the prefix; nothing for other
/// keys.
std::optional<std::string> LegacyKeyOf(const format::KeyLayout& layout, std::string_view key);

/// The keys of one read, from memory and then, in as many rounds as writes force, from below.
///
/// A key that is loaded is registered while it is, so that a write to it is noticed even when the
/// written row was committed and evicted before the load came back.
///
/// Threads:  one at a time; its end may be on another thread than its begin.
class RemoteReadBackend::Lookup {
 public:
  Lookup(RemoteReadBackend* backend, std::vector<StateKey> keys);
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  /// Answer what memory can; register the rest. done() when nothing is left.
  Status Begin();
  bool done() const { return missing_.empty(); }

  /// The load of what is left. It owns all it touches.
  auto MakeLoad() const {
    return [pool = backend_->pool_, loader = backend_->loader_, id = checkpoint_,
            keys = missing_keys_] { return Load(pool.get(), loader.get(), id, *keys); };
  }
  /// Take what a load gave.
  Status End(Result<std::vector<PoolValue>> values);

  std::vector<StateValue> TakeValues() { return std::move(values_); }

 private:
  struct Missing {
    size_t key;  // in missing_keys_
    uint64_t version;
    std::vector<size_t> positions;
  };
  static Result<std::vector<PoolValue>> Load(RemotePool* pool, RemoteLoader* loader, uint64_t id,
                                             const std::vector<StateKey>& keys);
  void Unregister();
  Status Settle(size_t position, PoolValue value);

  RemoteReadBackend* const backend_;
  std::vector<StateKey> keys_;
  std::vector<StateValue> values_;
  std::vector<size_t> open_;  // positions without an answer
  std::vector<Missing> missing_;
  std::shared_ptr<std::vector<StateKey>> missing_keys_;
  uint64_t checkpoint_ = 0;
  uint64_t generation_ = 0;
  bool registered_ = false;
};

class RemoteReadBackend::Reads final : public AsyncReads {
 public:
  explicit Reads(RemoteReadBackend* backend) : backend_(backend) {}
  void SetResumeScheduler(std::shared_ptr<ResumeScheduler> scheduler) override {
    scheduler_ = std::move(scheduler);
  }
  bool TryGet(OperatorId op, std::string_view key, StateValue* value) override;
  using AsyncReads::GetAsync;
  using AsyncReads::GetManyAsync;
  AsyncTask<Result<StateValue>> GetAsync(OperatorId op, std::string key,
                                         int64_t order_key) override;
  AsyncTask<Result<std::vector<StateValue>>> GetManyAsync(std::vector<StateKey> keys,
                                                          int64_t order_key) override;

 private:
  RemoteReadBackend* const backend_;
  std::shared_ptr<ResumeScheduler> scheduler_;
};

}  // namespace cairn::backend

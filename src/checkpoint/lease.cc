// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/lease.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "checkpoint/layout.h"
#include "format/store_records.h"

namespace cairn::checkpoint {
namespace {

/// How often a holder's record is looked at while its time to live runs.
constexpr int64_t kLooksPerLife = 10;

struct SeenLease {
  format::Lease lease;
  std::string version;
};

Result<std::optional<SeenLease>> Look(env::ObjectStore* objects) {
  Result<env::VersionedBytes> there =
      objects->Get(std::string(kLeaseKey), format::kSmallRecordBytesMax);
  if (!there.ok()) {
    if (there.status().code() == StatusCode::kNotFound) return std::optional<SeenLease>();
    return std::move(there).status();
  }
  CAIRN_ASSIGN_OR_RETURN(format::Lease lease, format::ParseLease(there->bytes));
  return std::optional<SeenLease>({std::move(lease), std::move(there->version)});
}

bool IsFree(const format::Lease& lease) {
  return lease.released || env::IsGone({.machine = lease.machine,
                                        .id = lease.process,
                                        .started = lease.process_started,
                                        .description = lease.holder});
}

class ThreadRepetition final : public Repetition {
 public:
  ThreadRepetition(int64_t period_ms, std::function<bool()> task)
      : thread_([this, period_ms, task = std::move(task)] { Run(period_ms, task); }) {}

  ~ThreadRepetition() override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      closing_ = true;
    }
    closed_.notify_all();
    thread_.join();
  }

 private:
  void Run(int64_t period_ms, const std::function<bool()>& task) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!closed_.wait_for(lock, std::chrono::milliseconds(period_ms),
                             [this] { return closing_; })) {
      lock.unlock();
      if (!task()) return;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable closed_;
  bool closing_ = false;
  std::thread thread_;  // last: it uses the others
};

class HeldLease final : public env::FileLock {
 public:
  HeldLease(env::ObjectStore* objects, format::Lease lease, std::string version,
            const LeaseOptions& options)
      : objects_(objects), lease_(std::move(lease)), version_(std::move(version)) {
    renewal_ = options.repeat ? options.repeat(options.renew_ms, [this] { return Renew(); })
                              : std::make_unique<ThreadRepetition>(options.renew_ms,
                                                                   [this] { return Renew(); });
  }

  ~HeldLease() override {
    renewal_.reset();
    if (lost_) return;
    lease_.released = true;
    (void)Write();  // else the next holder waits for the time to live
  }

 private:
  /// Another's record ends the renewing; a store that cannot be reached is tried again.
  bool Renew() {
    ++lease_.renewals;
    lost_ = Write().code() == StatusCode::kFenced;
    return !lost_;
  }

  Status Write() {
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeLease(lease_));
    Result<std::string> version = objects_->CompareAndSwap(std::string(kLeaseKey), version_, bytes);
    if (version.ok()) version_ = *std::move(version);
    return std::move(version).status();
  }

  env::ObjectStore* const objects_;
  format::Lease lease_;  // these three: of the renewal until it has ended
  std::string version_;
  bool lost_ = false;
  std::unique_ptr<Repetition> renewal_;
};

/// Watch a lease that is held. OK when it may be taken over, with what is there then in `seen`.
Status WaitUntilFree(env::ObjectStore* objects, env::Clock* clock, std::optional<SeenLease>* seen) {
  const auto held = [](const format::Lease& lease) {
    return Status::Fenced("another process writes here: " + lease.holder +
                          ". Stop it, or choose another place");
  };
  const int64_t ttl_ms = static_cast<int64_t>(std::min<uint64_t>((*seen)->lease.ttl_ms, 3'600'000));
  const int64_t until_ns = clock->MonotonicNanos() + ttl_ms * 1'000'000;
  while (clock->MonotonicNanos() < until_ns) {
    clock->SleepMillis(std::max<int64_t>(ttl_ms / kLooksPerLife, 1));
    CAIRN_ASSIGN_OR_RETURN(std::optional<SeenLease> now, Look(objects));
    const bool changed = !now || now->version != (*seen)->version;
    if (changed && now && !IsFree(now->lease)) return held(now->lease);
    *seen = std::move(now);
    if (changed) return {};  // gone or given back meanwhile
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<env::FileLock>> AcquireLease(env::ObjectStore* objects,
                                                    LeaseOptions options) {
  if (options.clock == nullptr) options.clock = env::SystemClock();
  CAIRN_ASSIGN_OR_RETURN(std::optional<SeenLease> seen, Look(objects));
  if (seen && !IsFree(seen->lease)) {
    CAIRN_RETURN_IF_ERROR(WaitUntilFree(objects, options.clock, &seen));
  }
  format::Lease lease;
  lease.holder = options.holder.description;
  lease.machine = options.holder.machine;
  lease.process = options.holder.id;
  lease.process_started = options.holder.started;
  lease.term = seen ? seen->lease.term + 1 : 1;
  lease.ttl_ms = static_cast<uint64_t>(options.ttl_ms);
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeLease(lease));
  Result<std::string> version = objects->CompareAndSwap(
      std::string(kLeaseKey), seen ? std::optional(seen->version) : std::nullopt, bytes);
  if (!version.ok()) {
    if (version.status().code() != StatusCode::kFenced) return std::move(version).status();
    return Status::Fenced("another process has begun to write here at the same moment");
  }
  return std::unique_ptr<env::FileLock>(
      std::make_unique<HeldLease>(objects, std::move(lease), *std::move(version), options));
}

}  // namespace cairn::checkpoint

// SPDX-License-Identifier: Apache-2.0
//
// bench_state_async [--quick] [--json FILE]: 4,096 cold reads of a remote backend whose tier
// answers after 200 us, as records of a runner, in wall time.
//
// The peer of every case is the same reads made one after another on the runner's thread, in the
// same process. A coalesced run is also checked to have taken one round trip.
#include <sys/prctl.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/remote/layered_pool.h"
#include "backend/remote/remote_read_backend.h"
#include "cairn/async_execution_controller.h"
#include "harness.h"

namespace cairn::bench {
namespace {

using backend::LayeredPool;
using backend::LayeredPoolStore;
using backend::PoolValue;
using backend::RemoteReadBackend;
using backend::StateKeyRef;

constexpr OperatorId kOp{1};
constexpr auto kRoundTrip = std::chrono::microseconds(200);

void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "bench_state_async: %s\n", status.ToString().c_str());
  std::exit(1);
}

/// A pool whose every answer takes a round trip.
class DistantPool final : public backend::RemotePool {
 public:
  explicit DistantPool(std::shared_ptr<LayeredPool> pool) : pool_(std::move(pool)) {}

  std::string location() const override { return pool_->location(); }
  Status Commit(backend::PoolCommit commit) override { return pool_->Commit(std::move(commit)); }
  Result<PoolValue> Read(uint64_t id, StateKeyRef key) override {
    Travel();
    return pool_->Read(id, key);
  }
  Result<std::vector<PoolValue>> ReadMany(uint64_t id, std::span<const StateKey> keys) override {
    Travel();
    return pool_->ReadMany(id, keys);
  }
  Result<backend::PoolPage> ScanCheckpoint(uint64_t id, const backend::PoolRange& range,
                                           size_t rows_max) override {
    return pool_->ScanCheckpoint(id, range, rows_max);
  }
  Result<uint64_t> CountRows(uint64_t id) override { return pool_->CountRows(id); }
  Status Purge(uint64_t id) override { return pool_->Purge(id); }
  Result<std::vector<uint64_t>> List() override { return pool_->List(); }
  Result<backend::PoolRestored> PrepareRestore(uint64_t id,
                                               std::span<const backend::PoolPart> parts,
                                               KeyGroupRange groups) override {
    return pool_->PrepareRestore(id, parts, groups);
  }

 private:
  static void Travel() {
    // The kernel may otherwise let a sleep run 50 us over.
    thread_local const int exact = prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    (void)exact;
    std::this_thread::sleep_for(kRoundTrip);
  }
  const std::shared_ptr<LayeredPool> pool_;
};

/// The keys and the checkpoint they lie in.
class ColdReads {
 public:
  explicit ColdReads(size_t keys) : store_(std::make_shared<LayeredPoolStore>()) {
    auto first = Open(1);
    for (size_t i = 0; i < keys; ++i) {
      const std::string user_key = "key" + std::to_string(i);
      std::string& key = keys_.emplace_back();
      layout_.AppendKeyed(KeyGroupOf(user_key, kDefaultKeyGroups), "s", user_key, &key);
      Check(first->Put(kOp, key, std::string(64, 'v')));
    }
    Result<BackendSnapshot> snapshot = first->Snapshot(1);
    Check(snapshot.status());
    saved_.snapshot = *std::move(snapshot);
  }

  /// Milliseconds of all reads, one after another.
  double Blocking() {
    auto state = OpenCold(1);
    const double begin = WallSeconds();
    for (const std::string& key : keys_) Check(state->Get(kOp, key).status());
    return (WallSeconds() - begin) * 1e3;
  }

  /// Milliseconds of all reads as records of one runner.
  double Overlapped(size_t threads, bool coalesced) {
    std::unique_ptr<RemoteReadBackend> opened = OpenCold(threads);
    RemoteReadBackend* const remote = opened.get();
    std::unique_ptr<StateBackend> state = std::move(opened);
    if (coalesced) {
      Result<std::unique_ptr<CoalescingBackend>> made = CoalescingBackend::Create(std::move(state));
      Check(made.status());
      state = *std::move(made);
    }
    auto queue = std::make_shared<ResumeQueue>();
    AsyncReads* const reads = state->async_reads();
    reads->SetResumeScheduler(queue);
    AsyncExecutionController controller(
        {.max_in_flight = 6000, .queue = queue.get(), .reads = reads, .on_watermark = {}});
    const double begin = WallSeconds();
    for (const std::string& key : keys_) {
      Check(controller.Submit(key, [reads, &key]() { return Record(reads, key); }));
    }
    Check(controller.Drain());
    const double ms = (WallSeconds() - begin) * 1e3;
    if (coalesced && remote->stats().cold_reads != 1) {
      Check(Status::Internal("the coalesced reads took more than one round trip"));
    }
    return ms;
  }

 private:
  static AsyncTask<Status> Record(AsyncReads* reads, std::string key) {
    Result<StateValue> value = co_await reads->GetAsync(kOp, std::move(key));
    if (!value.ok()) co_return value.status();
    if (!*value) co_return Status::Internal("a key is absent");
    co_return Status();
  }
  std::unique_ptr<RemoteReadBackend> Open(size_t threads) {
    backend::RemoteReadOptions options;
    options.io_threads = threads;
    auto pool = std::make_shared<LayeredPool>(store_, store_->MakeLocation("bench"), layout_,
                                              KeyGroupRange{0, kDefaultKeyGroups});
    Result<std::unique_ptr<RemoteReadBackend>> opened =
        RemoteReadBackend::OverPool(std::make_shared<DistantPool>(std::move(pool)), options);
    Check(opened.status());
    return *std::move(opened);
  }
  std::unique_ptr<RemoteReadBackend> OpenCold(size_t threads) {
    auto opened = Open(threads);
    Check(opened->Restore({&saved_, 1}).status());
    return opened;
  }

  const format::KeyLayout layout_;
  const std::shared_ptr<LayeredPoolStore> store_;
  std::vector<std::string> keys_;
  RestorePart saved_;
};

void Run(Report* report) {
  const size_t keys = report->quick() ? 512 : 4096;
  const int rounds = report->quick() ? 1 : 5;
  ColdReads reads(keys);
  struct Case {
    const char* name;
    size_t threads;
    bool coalesced;
    std::vector<double> ms;
  };
  std::vector<Case> cases = {{"async.cold_reads.1", 1, false, {}},
                             {"async.cold_reads.8", 8, false, {}},
                             {"async.cold_reads.16", 16, false, {}},
                             {"async.coalesced", 8, true, {}}};
  std::vector<double> blocking;
  for (int round = 0; round < rounds; ++round) {
    blocking.push_back(reads.Blocking());
    for (Case& one : cases) one.ms.push_back(reads.Overlapped(one.threads, one.coalesced));
  }
  for (const Case& one : cases) {
    report->Add(one.name, Median(one.ms), "ms", "less", "blocking reads in turn", Median(blocking));
  }
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  cairn::bench::Report report("state", argc, argv);
  cairn::bench::Run(&report);
  return 0;
}

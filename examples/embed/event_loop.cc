// SPDX-License-Identifier: Apache-2.0
//
// Your own event loop with exactly-once offsets, on two threads: each partition reads its own
// share of an endless input, a third thread of yours persists. The input is a function of the
// offset, so the program can prove on every start that state and offsets are of one cut: it ends
// with code 3 when they are not. tests/e2e/embedding_test.py kills it again and again.
//
//   event_loop DIRECTORY EVENTS [CHECKPOINT_MS]
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cairn/state_store.h"

namespace {

constexpr int64_t kKeys = 1000;
constexpr uint32_t kPartitions = 2;

/// A thread of the service's own, on which Cairn persists.
class PersistThread {
 public:
  PersistThread() : thread_([this] { Run(); }) {}
  ~PersistThread() {
    Post(nullptr);
    thread_.join();
  }
  void Post(std::function<void()> task) {
    {
      std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    arrival_.notify_one();
  }

 private:
  void Run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      arrival_.wait(lock, [this] { return !tasks_.empty(); });
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!task) return;
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable arrival_;
  std::deque<std::function<void()>> tasks_;
  std::thread thread_;
};

/// Event `offset` of a partition adds its offset to one of the partition's keys.
class Loop {
 public:
  explicit Loop(std::atomic<uint32_t>* covered) : covered_(covered) {}

  cairn::Status Run(cairn::StateStore* store, uint32_t index, int64_t events) {
    CAIRN_ASSIGN_OR_RETURN(cairn::Partition * partition, store->OpenPartition(index));
    CAIRN_ASSIGN_OR_RETURN(auto* sums,
                           (partition->Operator("sum")->keyed_state<int64_t, int64_t>("sums")));
    CAIRN_ASSIGN_OR_RETURN(const cairn::Recovered start, partition->Recover());
    std::vector<int64_t> keys;
    for (int64_t key = 0; key < kKeys; ++key) {
      if (store->PartitionOf(key) == index) keys.push_back(key);
    }
    int64_t offset = start.offsets.empty() ? 0 : std::stoll(start.offsets);
    CAIRN_RETURN_IF_ERROR(Check(*sums, keys, offset));
    std::printf("partition %u resumes at %lld from checkpoint %llu\n", index,
                static_cast<long long>(offset), static_cast<unsigned long long>(start.checkpoint));
    std::fflush(stdout);
    const auto count = static_cast<int64_t>(keys.size());
    for (; offset < events; ++offset) {
      const int64_t key = keys[static_cast<size_t>(offset % count)];
      CAIRN_RETURN_IF_ERROR(
          sums->Update(key, [offset](int64_t& sum, bool) noexcept { sum += offset; }));
      if (offset % 1024 != 0) continue;
      partition->Maintain();
      // One that fails or comes too early harms nothing: the next holds its changes.
      if (partition->CheckpointDue()) (void)partition->Checkpoint(std::to_string(offset + 1));
    }
    CAIRN_RETURN_IF_ERROR(Check(*sums, keys, offset));
    return Finish(partition, offset);
  }

 private:
  /// What the sums must be when the events before `offset` were taken once each.
  static cairn::Status Check(cairn::KeyedState<int64_t, int64_t>& sums,
                             const std::vector<int64_t>& keys, int64_t offset) {
    const auto count = static_cast<int64_t>(keys.size());
    for (int64_t i = 0; i < count; ++i) {
      const int64_t times = offset / count + (offset % count > i ? 1 : 0);
      const int64_t expected = times * i + count * (times * (times - 1) / 2);
      const int64_t* found = sums.Find(keys[static_cast<size_t>(i)]);
      if ((found == nullptr ? 0 : *found) != expected) {
        return cairn::Status::Internal("at offset " + std::to_string(offset) + " key " +
                                       std::to_string(keys[static_cast<size_t>(i)]) + " has " +
                                       std::to_string(found == nullptr ? 0 : *found) +
                                       " instead of " + std::to_string(expected));
      }
    }
    return {};
  }

  /// Go on joining until a checkpoint holds the end of every partition: one that stopped earlier
  /// would leave the others waiting for it.
  cairn::Status Finish(cairn::Partition* partition, int64_t offset) {
    bool covered = false;
    std::optional<cairn::CheckpointHandle> last;
    while (covered_->load() < kPartitions) {
      if (last.has_value() && last->done()) {
        if (last->result().ok() && !covered) {
          covered = true;
          ++*covered_;
        }
        last.reset();
      }
      if (!last.has_value()) {
        auto next = partition->Checkpoint(std::to_string(offset));
        if (next.ok()) {
          last = *std::move(next);
        } else if (next.status().code() != cairn::StatusCode::kUnavailable) {
          return next.status();
        }
      }
      std::this_thread::yield();
    }
    return {};
  }

  std::atomic<uint32_t>* const covered_;  ///< partitions whose end a checkpoint holds
};

}  // namespace

int main(int argc, char** argv) {
  const auto is_number = [](const char* text, long long least) {
    char* end = nullptr;
    return std::strtoll(text, &end, 10) >= least && end != text && *end == '\0';
  };
  const bool whole = argc >= 3 && is_number(argv[2], 0) && (argc == 3 || is_number(argv[3], 1));
  if (!whole) return std::fprintf(stderr, "usage: event_loop DIRECTORY EVENTS [MS]\n"), 2;
  PersistThread persist;
  cairn::StateStore::Options options;
  options.name = "event-loop";
  options.partitions = kPartitions;
  options.executor = [&](std::function<void()> task) { persist.Post(std::move(task)); };
  options.checkpoint.interval = std::chrono::milliseconds(argc > 3 ? std::atoll(argv[3]) : 1000);
  auto store = cairn::StateStore::Open(std::string("file://") + argv[1], options);
  if (!store.ok()) {
    return std::fprintf(stderr, "event_loop: %s\n", store.status().ToString().c_str()), 1;
  }
  std::vector<cairn::Status> ends(kPartitions);
  std::atomic<uint32_t> covered = 0;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kPartitions; ++i) {
    threads.emplace_back([&, i] {
      ends[i] = Loop(&covered).Run(store->get(), i, std::atoll(argv[2]));
      if (!ends[i].ok()) covered = kPartitions;  // nobody waits for it
    });
  }
  for (std::thread& thread : threads) thread.join();
  int code = 0;
  for (const cairn::Status& end : ends) {
    if (end.ok()) continue;
    std::fprintf(stderr, "event_loop: %s\n", end.ToString().c_str());
    code = end.code() == cairn::StatusCode::kInternal ? 3 : 1;
  }
  store->reset();  // before the persist thread goes
  if (code == 0) std::printf("done\n");
  return code;
}

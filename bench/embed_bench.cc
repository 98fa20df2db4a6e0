// SPDX-License-Identifier: Apache-2.0
//
// bench_embed [--quick]: what Partition::Checkpoint costs the thread that calls it, over 1 M rows
// of which some change between two calls, while a thread of the bench persists.
//
// Peer: the same thread copies the flat map that holds the same rows, which is what a checkpoint
// costs a service that has no views.
#include <boost/unordered/unordered_flat_map.hpp>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "cairn/state_store.h"
#include "harness.h"

namespace cairn::bench {
namespace {

[[noreturn]] void FailEmbed(const Status& status) {
  std::fprintf(stderr, "bench_embed: %s\n", status.ToString().c_str());
  std::exit(1);
}

/// Runs what it is given, in order, on one thread.
class TaskThread {
 public:
  TaskThread() : thread_([this] { Run(); }) {}
  ~TaskThread() {
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

int Main(bool quick) {
  const int64_t rows = quick ? 100'000 : 1'000'000;
  const int checkpoints = quick ? 15 : 60;
  const char* base = std::getenv("CAIRN_BENCH_DIR");
  const std::filesystem::path place =
      std::filesystem::path(base != nullptr ? base : std::filesystem::temp_directory_path()) /
      ("cairn-bench-embed-" + std::to_string(std::random_device()()));
  TaskThread persist;
  StateStoreOptions options;
  options.name = "bench";
  options.executor = [&](std::function<void()> task) { persist.Post(std::move(task)); };
  auto store = StateStore::Open("file://" + place.string(), options);
  if (!store.ok()) FailEmbed(store.status());
  Partition* partition = *(*store)->OpenPartition(0);
  auto* table = *partition->Operator("bench")->keyed_state<int64_t, int64_t>("rows");
  if (auto start = partition->Recover(); !start.ok()) FailEmbed(start.status());
  boost::unordered_flat_map<int64_t, int64_t> raw;
  const auto change = [&](int64_t row) {
    const int64_t key = ScatteredKey(static_cast<uint64_t>(row));
    const Status status = table->Update(key, [](int64_t& n, bool) noexcept { ++n; });
    if (!status.ok()) FailEmbed(status);
    ++raw[key];
  };
  for (int64_t row = 0; row < rows; ++row) change(row);
  std::vector<double> call_us;
  std::vector<double> copy_us;
  for (int i = 0; i < checkpoints; ++i) {
    for (int64_t row = 0; row < 1000; ++row) change((row * 7919 + i) % rows);
    const double begin = WallSeconds();
    auto handle = partition->Checkpoint(std::to_string(i));
    call_us.push_back((WallSeconds() - begin) * 1e6);
    if (!handle.ok()) FailEmbed(handle.status());
    if (const Status status = handle->Wait(); !status.ok()) FailEmbed(status);
    if (i % 6 != 0) continue;
    const double copy_begin = WallSeconds();
    const auto copy = raw;
    copy_us.push_back((WallSeconds() - copy_begin) * 1e6);
  }
  const double call = Median(call_us);
  const double copy = Median(copy_us);
  std::printf(
      "{\"suite\": \"state\", \"case\": \"embed.checkpoint\", \"value\": %.3f, "
      "\"unit\": \"us\", \"better\": \"less\", \"peer\": \"copy of a flat map\", "
      "\"peer_value\": %.3f, \"ratio\": %.6f}\n",
      call, copy, call / copy);
  std::fprintf(stderr, "embed.checkpoint: median %.2f us, worst %.2f us of %zu calls\n", call,
               *std::max_element(call_us.begin(), call_us.end()), call_us.size());
  store->reset();
  std::filesystem::remove_all(place);
  return 0;
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  return cairn::bench::Main(argc > 1 && std::string(argv[1]) == "--quick");
}

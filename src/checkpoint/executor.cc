// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/executor.h"

#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace cairn::checkpoint {

void ThreadsExecutor::Run(size_t count, const std::function<void(size_t)>& task) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) task(i);
  };
  std::vector<std::thread> threads;
  try {
    for (size_t i = 1; i < threads_ && i < count; ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // Too many threads on the machine: those there are, and this one, do all the tasks.
  }
  work();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace cairn::checkpoint

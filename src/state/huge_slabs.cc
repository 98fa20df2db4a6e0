// SPDX-License-Identifier: Apache-2.0
#include "state/huge_slabs.h"

#include <sys/mman.h>

#include <cstdint>
#include <system_error>
#include <thread>

namespace cairn {
inline namespace v0 {
namespace detail {

namespace {

// Takes one fault for the whole slab, or one a page where the advice was not taken.
void Touch(char* slab) {
  constexpr size_t kPageBytes = 4096;
  for (size_t at = 0; at < HugeSlabs::kBytes; at += kPageBytes) {
    static_cast<volatile char*>(slab)[at] = 0;
  }
}

}  // namespace

HugeSlabs* HugeSlabs::Default() {
  static HugeSlabs* const slabs = new HugeSlabs;
  return slabs;
}

void* HugeSlabs::Take() {
  std::lock_guard lock(mutex_);
  if (!started_) {
    started_ = true;
    ready_.reserve(kReady);
    try {
      std::thread([this] { Prepare(); }).detach();
    } catch (const std::system_error&) {
      // No thread to be had: every slab has ordinary pages then.
    }
  }
  if (ready_.empty()) return nullptr;
  void* slab = ready_.back();
  ready_.pop_back();
  taken_.notify_one();
  return slab;
}

// Runs as long as the process.
void HugeSlabs::Prepare() {
  std::unique_lock lock(mutex_);
  for (;;) {
    taken_.wait(lock, [this] { return ready_.size() < kReady; });
    lock.unlock();
    void* slab = Map();
    if (slab == nullptr) return;  // the writers will hear the same from the operating system
    Touch(static_cast<char*>(slab));
    lock.lock();
    ready_.push_back(slab);
  }
}

void* HugeSlabs::Map() {
  void* memory =
      mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(memory);
  char* const slab = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(begin) + kBytes - 1) &
                                             ~uintptr_t{kBytes - 1});
  if (slab != begin) munmap(begin, static_cast<size_t>(slab - begin));
  const auto rest = static_cast<size_t>(begin + kBytes - slab);
  if (rest > 0) munmap(slab + kBytes, rest);
  madvise(slab, kBytes, MADV_HUGEPAGE);
  return slab;
}

}  // namespace detail
}  // namespace v0
}  // namespace cairn

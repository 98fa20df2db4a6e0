// SPDX-License-Identifier: Apache-2.0
//
// HugeSlabs: slabs of one 2 MiB page each, touched before anyone waits for them.
//
// Tables are read and written at random, and over 4 KiB pages most of a probe is the walk of the
// page tables. But whoever touches a 2 MiB page first waits until it has been cleared, 0.3 ms and
// up to 13 ms where a hypervisor has to find the memory first. A thread of the process does that
// ahead of the writers: it keeps two slabs ready, and a writer that finds none takes ordinary
// pages instead of waiting.
//
// Threads:  any. The mutex is held for a few instructions.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <vector>

namespace cairn {
inline namespace v0 {
namespace detail {

class HugeSlabs {
 public:
  static constexpr size_t kBytes = size_t{2} << 20;
  static constexpr size_t kReady = 2;  ///< slabs kept ready once the first was asked for

  /// The slabs of the process. Never destroyed.
  static HugeSlabs* Default();

  /// A slab of kBytes, aligned to as many, zero and in memory; null when none is ready now. Its
  /// pages are ordinary ones where the kernel grants no others. The caller unmaps it.
  void* Take();

  /// The same, but not touched yet. Null when the operating system gives no more memory.
  static void* Map();

 private:
  HugeSlabs() = default;
  void Prepare();

  std::mutex mutex_;
  std::condition_variable taken_;
  std::vector<void*> ready_;
  bool started_ = false;
};

}  // namespace detail
}  // namespace v0
}  // namespace cairn

// SPDX-License-Identifier: Apache-2.0
//
// Counters of one subtask: written by its thread, read by the coordinator's.
#pragma once

#include <atomic>
#include <cstdint>

namespace cairn::stream {

struct TaskMetrics {
  std::atomic<uint64_t> rows_in{0};       ///< rows that a source reader returned
  std::atomic<uint64_t> rows_skipped{0};  ///< malformed rows that the table says to skip
  std::atomic<uint64_t> rows_out{0};      ///< rows written to sinks
  std::atomic<uint64_t> state_bytes{0};   ///< memory of the tables, as of the last batch
  std::atomic<uint64_t> memory_waits{0};  ///< batches held back for want of memory
};

/// Add to a counter that only this thread writes.
inline void Add(std::atomic<uint64_t>* counter, uint64_t amount) {
  counter->store(counter->load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

}  // namespace cairn::stream

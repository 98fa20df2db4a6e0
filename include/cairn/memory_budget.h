// SPDX-License-Identifier: Apache-2.0
//
// MemoryBudget: one limit for all that a process keeps in memory for state, charged by name.
//
// Threads:  everything here may be called from any thread.
// Invariants
//  1. The sum of the owners' charges is the budget's total; it passes the limit only by Force.
//  2. A refused charge changes nothing and names the largest owners.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/status.h"

namespace cairn {
inline namespace v0 {

class MemoryBudget {
 public:
  /// One named user of memory. Made by AddOwner; gives back what it still holds when destroyed.
  class Owner {
   public:
    ~Owner();
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;

    /// Take `bytes` of the budget.
    ///
    /// Errors:   kResourceExhausted over the limit, naming the largest owners. Nothing is taken.
    /// Cost:     two atomic adds.
    Status Charge(uint64_t bytes);
    /// Take `bytes` even over the limit: for what frees memory and cannot wait.
    void Force(uint64_t bytes);
    void Release(uint64_t bytes);

    uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
    const std::string& name() const { return name_; }

   private:
    friend class MemoryBudget;
    Owner(MemoryBudget* budget, std::string name) : budget_(budget), name_(std::move(name)) {}
    MemoryBudget* const budget_;
    const std::string name_;
    std::atomic<uint64_t> bytes_{0};
  };

  /// Shape:    limit_bytes 0 = unbounded.
  explicit MemoryBudget(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  ~MemoryBudget();
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  /// The budget of the process, with DefaultLimit unless set_limit changed it. Never destroyed.
  static MemoryBudget* Default();

  /// Half of the memory that the cgroup, else the machine, grants; 64 MiB at least.
  static uint64_t DefaultLimit();

  /// Add an owner. The budget outlives its owners.
  std::unique_ptr<Owner> AddOwner(std::string name);

  uint64_t limit() const { return limit_bytes_.load(std::memory_order_relaxed); }
  /// A limit below the total refuses every charge until enough is released.
  void set_limit(uint64_t limit_bytes) { limit_bytes_.store(limit_bytes); }
  uint64_t total() const { return total_bytes_.load(std::memory_order_relaxed); }

  /// Name the `count` largest owners: "a 12.0 MiB, b 3.5 MiB".
  std::string DescribeLargest(size_t count) const;

 private:
  Status Refuse(const Owner& owner, uint64_t bytes) const;

  std::atomic<uint64_t> limit_bytes_;
  std::atomic<uint64_t> total_bytes_{0};
  mutable std::mutex mutex_;
  std::vector<Owner*> owners_;
};

}  // namespace v0
}  // namespace cairn

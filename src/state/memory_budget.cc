// SPDX-License-Identifier: Apache-2.0
#include "cairn/memory_budget.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/units.h"

namespace cairn {
inline namespace v0 {
namespace {

constexpr uint64_t kFloorBytes = uint64_t{64} << 20;

// The limit a cgroup file states; 0 when there is no file or it says "max".
uint64_t ReadLimit(const char* path) {
  std::ifstream file(path);
  uint64_t bytes = 0;
  return file >> bytes ? bytes : 0;
}

}  // namespace

MemoryBudget::Owner::~Owner() {
  Release(bytes());
  std::lock_guard lock(budget_->mutex_);
  std::erase(budget_->owners_, this);
}

Status MemoryBudget::Owner::Charge(uint64_t bytes) {
  const uint64_t limit = budget_->limit();
  const uint64_t before = budget_->total_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (limit != 0 && before + bytes > limit) {
    budget_->total_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return budget_->Refuse(*this, bytes);
  }
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return {};
}

void MemoryBudget::Owner::Force(uint64_t bytes) {
  budget_->total_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void MemoryBudget::Owner::Release(uint64_t bytes) {
  budget_->total_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

MemoryBudget::~MemoryBudget() = default;

MemoryBudget* MemoryBudget::Default() {
  static MemoryBudget* const budget = new MemoryBudget(DefaultLimit());
  return budget;
}

uint64_t MemoryBudget::DefaultLimit() {
  uint64_t memory =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const uint64_t limit = ReadLimit(path);
    if (limit != 0) memory = std::min(memory, limit);
  }
  return std::max(kFloorBytes, memory / 2);
}

std::unique_ptr<MemoryBudget::Owner> MemoryBudget::AddOwner(std::string name) {
  std::unique_ptr<Owner> owner(new Owner(this, std::move(name)));
  std::lock_guard lock(mutex_);
  owners_.push_back(owner.get());
  return owner;
}

std::string MemoryBudget::DescribeLargest(size_t count) const {
  std::vector<std::pair<uint64_t, std::string>> owners;
  {
    std::lock_guard lock(mutex_);
    for (const Owner* owner : owners_) owners.emplace_back(owner->bytes(), owner->name());
  }
  count = std::min(count, owners.size());
  std::partial_sort(owners.begin(), owners.begin() + static_cast<std::ptrdiff_t>(count),
                    owners.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    text += owners[i].second + " " + base::FormatBytes(owners[i].first);
  }
  return text;
}

Status MemoryBudget::Refuse(const Owner& owner, uint64_t bytes) const {
  return Status::ResourceExhausted(
      "memory budget: " + owner.name() + " asked for " + base::FormatBytes(bytes) + " more, " +
      base::FormatBytes(total()) + " of " + base::FormatBytes(limit()) + " are taken; largest: " +
      DescribeLargest(3) + ". Raise state.memory_budget or keep less state");
}

}  // namespace v0
}  // namespace cairn

// SPDX-License-Identifier: Apache-2.0
//
// The tables of a TestJob subtask made of real ones: operator 0 keeps int64 -> int64 in the slots
// themselves, every other Bytes -> string in boxes. Keys are 8 bytes, so that both can hold them.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/coding.h"
#include "cairn/bytes.h"
#include "cairn/memory_budget.h"
#include "cairn/state_domain.h"
#include "cairn/table.h"
#include "checkpoint/job_testing.h"

namespace cairn::checkpoint::testing {

/// 8 bytes that name row `i`, and 8 that hold a number.
inline std::string Eight(uint64_t i) {
  std::string bytes;
  base::AppendLE(&bytes, i);
  return bytes;
}

class RealTables final : public SubtaskTables {
 public:
  explicit RealTables(const TablesSpec& spec)
      : budget_(0), domain_(StateDomain::Create({.name = "test", .budget = &budget_})) {
    TableOptions options;
    options.key_groups = spec.key_groups;
    options.range = spec.groups;
    options.slot_hash_seed = spec.slot_hash_seed;
    numbers_ = std::make_unique<Numbers>(domain_.get(), spec.slots[0], options);
    for (size_t op = 1; op < spec.slots.size(); ++op) {
      texts_.push_back(std::make_unique<Texts>(domain_.get(), spec.slots[op], options));
    }
    groups_ = spec.groups;
  }

  std::vector<state::StateTable*> tables() override {
    std::vector<state::StateTable*> all = {numbers_.get()};
    for (auto& table : texts_) all.push_back(table.get());
    return all;
  }
  void Put(size_t op, const std::string& key, const std::string& value) override {
    const Status done =
        op == 0 ? numbers_->Update(base::LoadLE<int64_t>(key.data()),
                                   [&](int64_t& now, bool) noexcept {
                                     now = base::LoadLE<int64_t>(value.data());
                                   })
                : texts_[op - 1]->Update(key, [&](std::string& now, bool) { now = value; });
    if (!done.ok()) throw std::runtime_error(done.ToString());
  }
  void Erase(size_t op, const std::string& key) override {
    if (op == 0) {
      numbers_->Erase(base::LoadLE<int64_t>(key.data()));
    } else {
      texts_[op - 1]->Erase(key);
    }
  }
  View Capture() override { return domain_->Capture(); }
  uint64_t EpochOf(const View& view) override { return view.epoch(); }
  void SetCommitted(uint64_t epoch) override { domain_->SetCommitted(epoch); }
  Rows Contents(size_t op) override {
    Rows rows;
    const View now = domain_->Capture();
    if (op == 0) {
      numbers_->Scan(now, groups_, [&](int64_t key, int64_t value) {
        rows[Eight(static_cast<uint64_t>(key))] = Eight(static_cast<uint64_t>(value));
      });
    } else {
      texts_[op - 1]->Scan(now, groups_, [&](const Bytes& key, const std::string& value) {
        rows[key.ToString()] = value;
      });
    }
    return rows;
  }

 private:
  using Numbers = Table<int64_t, int64_t>;
  using Texts = Table<Bytes, std::string>;

  MemoryBudget budget_;
  std::unique_ptr<StateDomain> domain_;
  std::unique_ptr<Numbers> numbers_;
  std::vector<std::unique_ptr<Texts>> texts_;
  KeyGroupRange groups_;
};

}  // namespace cairn::checkpoint::testing

// SPDX-License-Identifier: Apache-2.0
//
// What the tests of time to live share: slots with a TTL, a domain at a time, saving and loading.
#pragma once

#include <gtest/gtest.h>

#include <limits>

#include "cairn/folding_state.h"
#include "cairn/list_state.h"
#include "cairn/map_state.h"
#include "cairn/state_sweep.h"
#include "cairn/value_state.h"
#include "model_world.h"

namespace cairn::ttl {

using model::MemorySink;
using Values = ValueState<int64_t, int64_t>;
using Texts = ValueState<int64_t, std::string>;
using Lists = ListState<int64_t, int64_t>;
using Maps = MapState<int64_t, int64_t, int64_t>;

inline constexpr KeyGroupRange kEvery{0, kMaxKeyGroups};

inline SlotDescriptor Ttl(TtlConfig ttl, const std::string& name = "slot") {
  SlotDescriptor descriptor;
  descriptor.operator_uid = "op";
  descriptor.name = name;
  descriptor.ttl = ttl;
  return descriptor;
}

/// Numbers one after the other.
struct NumbersCodec {
  size_t EncodedSize(const std::vector<int64_t>& value) const { return value.size() * 8; }
  void Encode(const std::vector<int64_t>& value, char* out) const {
    std::memcpy(out, value.data(), value.size() * 8);
  }
  Result<std::vector<int64_t>> Decode(std::string_view bytes) const {
    if (bytes.size() % 8 != 0) return Status::Corruption("no whole numbers");
    std::vector<int64_t> value(bytes.size() / 8);
    std::memcpy(value.data(), bytes.data(), bytes.size());
    return value;
  }
  size_t MemoryBytes(const std::vector<int64_t>& value) const { return value.capacity() * 8; }
};

struct World {
  std::unique_ptr<StateDomain> domain = StateDomain::Create({});
  World() = default;
  explicit World(int64_t event_ms) { domain->AdvanceEventTime(event_ms); }
  void At(int64_t event_ms) { domain->AdvanceEventTime(event_ms); }
  StateDomain* get() { return domain.get(); }
};

inline size_t Rows(const MemorySink& sink) {
  size_t rows = 0;
  for (const auto& part : sink.parts()) rows += part->rows.rows();
  return rows;
}

inline void Restore(const MemorySink& sink, StateTable* table,
                    const SlotDescriptor* saved = nullptr) {
  if (saved != nullptr) {
    ASSERT_TRUE(table->ExpectSaved(*saved).ok());
  }
  LoadCounts counts;
  for (const auto& part : sink.parts()) {
    const Status status = table->Load(part->rows.Span(), 2, 2, &counts);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
}

}  // namespace cairn::ttl

// SPDX-License-Identifier: Apache-2.0
//
// bench_state_kinds [--quick] [--json FILE] [--only GROUP]: lists, maps, folds and time to live
// against raw containers, and against the same state without a TTL. Peers run in the same process,
// interleaved with the measured loop.
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdlib>
#include <memory>
#include <vector>

#include "cairn/folding_state.h"
#include "cairn/list_state.h"
#include "cairn/map_state.h"
#include "cairn/value_state.h"
#include "harness.h"

namespace cairn::bench {
namespace {

void Expect(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "bench_state_kinds: %s\n", status.ToString().c_str());
  std::exit(1);
}

SlotDescriptor SlotNamed(const char* name, int64_t ttl_ms = 0) {
  SlotDescriptor descriptor;
  descriptor.operator_uid = "bench";
  descriptor.name = name;
  descriptor.ttl.ttl_ms = ttl_ms;
  return descriptor;
}

TableOptions SeededOptions() { return {.slot_hash_seed = 0x5eed}; }

constexpr size_t kElements = 100000;  ///< of all collections together

/// Appends to lists of `length`, one after another, until each is a tenth longer.
void ListAppend(Report* report, const char* name, size_t length) {
  const size_t lists = kElements / length;
  const size_t appends = kElements / 10;
  std::vector<double> ours, theirs;
  for (int rep = 0; rep < (report->quick() ? 5 : 15); ++rep) {
    auto domain = StateDomain::Create({});
    ListState<int64_t, int64_t> state(domain.get(), SlotNamed("list"), SeededOptions());
    boost::unordered_flat_map<int64_t, std::vector<int64_t>> raw;
    for (size_t i = 0; i < kElements; ++i) {
      const int64_t key = ScatteredKey(i % lists + 1);
      Expect(state.Append(key, static_cast<int64_t>(i)));
      raw[key].push_back(static_cast<int64_t>(i));
    }
    theirs.push_back(TimeCpu([&] {
      for (size_t i = 0; i < appends; ++i) {
        raw[ScatteredKey(i % lists + 1)].push_back(static_cast<int64_t>(i));
      }
    }));
    ours.push_back(TimeCpu([&] {
      for (size_t i = 0; i < appends; ++i) {
        Expect(state.Append(ScatteredKey(i % lists + 1), static_cast<int64_t>(i)));
      }
    }));
  }
  const double per_op = 1e9 / static_cast<double>(appends);
  report->Add(name, Median(ours) * per_op, "ns", "less", "flat map of std::vector",
              Median(theirs) * per_op);
}

/// Puts to elements that are there, drawn at random, of maps of `size`.
void MapPut(Report* report, const char* name, size_t size) {
  const size_t maps = kElements / size;
  constexpr size_t kPuts = 1000000;
  auto domain = StateDomain::Create({});
  MapState<int64_t, int64_t, int64_t> state(domain.get(), SlotNamed("map"), SeededOptions());
  boost::unordered_flat_map<int64_t, boost::unordered_flat_map<int64_t, int64_t>> raw;
  std::vector<std::pair<int64_t, int64_t>> drawn(kPuts);
  std::mt19937_64 random(3);
  for (auto& [key, map_key] : drawn) {
    key = ScatteredKey(random() % maps + 1);
    map_key = ScatteredKey(random() % size + 1);
  }
  for (size_t i = 0; i < kElements; ++i) {
    const int64_t key = ScatteredKey(i / size + 1);
    const int64_t map_key = ScatteredKey(i % size + 1);
    Expect(state.Put(key, map_key, 0));
    raw[key][map_key] = 0;
  }
  std::vector<double> ours, theirs;
  for (int rep = 0; rep < (report->quick() ? 3 : 7); ++rep) {
    theirs.push_back(TimeCpu([&] {
      for (const auto& [key, map_key] : drawn) raw[key][map_key] = rep;
    }));
    ours.push_back(TimeCpu([&] {
      for (const auto& [key, map_key] : drawn) Expect(state.Put(key, map_key, rep));
    }));
  }
  report->Add(name, Median(ours) * 1e9 / kPuts, "ns", "less", "flat map of flat maps",
              Median(theirs) * 1e9 / kPuts);
}

struct MeanPrice {
  struct Accumulator {
    int64_t count = 0;
    int64_t sum = 0;
  };
  using Input = int64_t;
  void Add(Accumulator& to, const int64_t& price) const noexcept {
    ++to.count;
    to.sum += price;
  }
  double Result(const Accumulator& of) const {
    return static_cast<double>(of.sum) / static_cast<double>(of.count);
  }
};

std::vector<int64_t> DrawKeys(size_t keys, size_t count) {
  std::mt19937_64 random(5);
  std::vector<int64_t> drawn(count);
  for (int64_t& key : drawn) key = ScatteredKey(random() % keys + 1);
  return drawn;
}

void AggregateUpdate(Report* report, size_t keys) {
  auto domain = StateDomain::Create({});
  AggregatingState<int64_t, MeanPrice, Codec<int64_t>, RawCodec<MeanPrice::Accumulator>> state(
      domain.get(), SlotNamed("mean"), SeededOptions());
  boost::unordered_flat_map<int64_t, MeanPrice::Accumulator> raw;
  for (size_t i = 0; i < keys; ++i) {
    Expect(state.Add(ScatteredKey(i + 1), 1));
    raw[ScatteredKey(i + 1)] = {};
  }
  const std::vector<int64_t> drawn = DrawKeys(keys, 2000000);
  const MeanPrice mean;
  std::vector<double> ours, theirs;
  for (int rep = 0; rep < (report->quick() ? 3 : 7); ++rep) {
    theirs.push_back(TimeCpu([&] {
      for (const int64_t key : drawn) mean.Add(raw[key], key);
    }));
    ours.push_back(TimeCpu([&] {
      for (const int64_t key : drawn) Expect(state.Add(key, key));
    }));
  }
  const double per_op = 1e9 / static_cast<double>(drawn.size());
  report->Add("aggregate.update", Median(ours) * per_op, "ns", "less", "boost::unordered_flat_map",
              Median(theirs) * per_op);
}

void TtlUpdate(Report* report, size_t keys) {
  auto domain = StateDomain::Create({});
  domain->AdvanceEventTime(0);
  ValueState<int64_t, int64_t> off(domain.get(), SlotNamed("off"), SeededOptions());
  ValueState<int64_t, int64_t> on(domain.get(), SlotNamed("on", 3600000), SeededOptions());
  const auto increment = [](int64_t& value, bool) noexcept { ++value; };
  for (size_t i = 0; i < keys; ++i) {
    Expect(off.Update(ScatteredKey(i + 1), increment));
    Expect(on.Update(ScatteredKey(i + 1), increment));
  }
  const std::vector<int64_t> drawn = DrawKeys(keys, 2000000);
  std::vector<double> with, without;
  int64_t now_ms = 0;
  for (int rep = 0; rep < (report->quick() ? 5 : 9); ++rep) {
    without.push_back(TimeCpu([&] {
      for (const int64_t key : drawn) Expect(off.Update(key, increment));
    }));
    with.push_back(TimeCpu([&] {
      for (size_t i = 0; i < drawn.size(); ++i) {
        // As a job does: the watermark moves and a little is swept between batches.
        if (i % 1024 == 0) {
          domain->AdvanceEventTime(now_ms += 1000);
          on.Maintain(64);
        }
        Expect(on.Update(drawn[i], increment));
      }
    }));
  }
  const double per_op = 1e9 / static_cast<double>(drawn.size());
  report->Add("ttl.update", Median(with) * per_op, "ns", "less", "without TTL",
              Median(without) * per_op);
}

void TtlSweep(Report* report, size_t keys) {
  std::vector<double> ours, theirs;
  for (int rep = 0; rep < 3; ++rep) {
    auto domain = StateDomain::Create({});
    domain->AdvanceEventTime(0);
    ValueState<int64_t, int64_t> state(domain.get(), SlotNamed("dead", 1000), SeededOptions());
    boost::unordered_flat_map<int64_t, int64_t> raw;
    for (size_t i = 0; i < keys; ++i) {
      Expect(state.Put(ScatteredKey(i + 1), 1));
      raw[ScatteredKey(i + 1)] = 1;
    }
    domain->AdvanceEventTime(10000);
    ours.push_back(TimeCpu([&] {
      while (state.Maintain(1024) > 0) {
      }
    }));
    if (state.size() != 0) Expect(Status::Internal("the sweep has left rows"));
    theirs.push_back(
        TimeCpu([&] { erase_if(raw, [](const auto& row) { return row.second == 1; }); }));
  }
  const double per_million = 1e3 * 1e6 / static_cast<double>(keys);
  report->Add("ttl.sweep.1M", Median(ours) * per_million, "ms", "less", "erase_if of a flat map",
              Median(theirs) * per_million);
}

void RunKinds(Report* report) {
  const size_t keys = report->quick() ? 300000 : 1000000;
  if (report->Wants("list_append")) {
    ListAppend(report, "list_append.10", 10);
    ListAppend(report, "list_append.100k", 100000);
  }
  if (report->Wants("map_put")) {
    MapPut(report, "map_put.10", 10);
    MapPut(report, "map_put.100k", 100000);
  }
  if (report->Wants("aggregate")) AggregateUpdate(report, keys);
  if (report->Wants("ttl.update")) TtlUpdate(report, keys);
  if (report->Wants("ttl.sweep")) TtlSweep(report, keys);
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  cairn::bench::Report report("state", argc, argv);
  cairn::bench::RunKinds(&report);
  return 0;
}

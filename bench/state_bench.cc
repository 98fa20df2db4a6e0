// SPDX-License-Identifier: Apache-2.0
//
// bench_state [--quick] [--json FILE] [--only GROUP]: tables and views against a raw hash map.
//
// Peers run in the same process, interleaved with the measured loop. "at rest" is the same loop
// without a checkpoint; "full copy" is the time to copy the raw map, which is what a checkpoint
// without views costs its writer.
#include <sys/mman.h>

#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

#include "cairn/table.h"
#include "harness.h"

namespace cairn::bench {
namespace {

struct Value64 {
  int64_t count;
  char rest[56];
};

using Numbers = Table<int64_t, int64_t>;
using Strings = Table<Bytes, int64_t>;
using Wides = Table<int64_t, Value64, Codec<int64_t>, RawCodec<Value64>>;
using RawNumbers = boost::unordered_flat_map<int64_t, int64_t>;
using RawStrings = boost::unordered_flat_map<std::string, int64_t>;

/// Gives a raw map the 2 MiB pages that tables ask for.
template <class T>
struct HugePages {
  using value_type = T;
  HugePages() = default;
  template <class U>
  HugePages(const HugePages<U>&) {}
  T* allocate(size_t count) {
    constexpr size_t kPageBytes = size_t{2} << 20;
    const size_t bytes = (count * sizeof(T) + kPageBytes - 1) & ~(kPageBytes - 1);
    void* memory = std::aligned_alloc(kPageBytes, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    madvise(memory, bytes, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { std::free(memory); }
  friend bool operator==(HugePages, HugePages) { return true; }
};
using HugeNumbers =
    boost::unordered_flat_map<int64_t, int64_t, boost::hash<int64_t>, std::equal_to<int64_t>,
                              HugePages<std::pair<const int64_t, int64_t>>>;

constexpr KeyGroupRange kAll{0, kDefaultKeyGroups};

void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "bench_state: %s\n", status.ToString().c_str());
  std::exit(1);
}

SlotDescriptor Descriptor() {
  SlotDescriptor descriptor;
  descriptor.operator_uid = "bench";
  descriptor.name = "count";
  return descriptor;
}

TableOptions Options() { return {.slot_hash_seed = 0x5eed}; }

/// Encodes rows and throws them away, reusing its buffers.
class DroppingSink : public SavedRowSink {
 public:
  Result<SavedRows*> BeginGroup(uint32_t group) override {
    if (rows_.bytes() >= kSavedRowsFlushBytes) rows_.Clear();
    const char prefix[] = {static_cast<char>(group), 'c', 'o', 'u', 'n', 't', '|'};
    rows_.SetKeyPrefix({prefix, sizeof(prefix)});
    return &rows_;
  }
  Status Flush() override {
    rows_.Clear();
    return {};
  }

 private:
  SavedRows rows_;
};

/// Persists views on a thread of its own, as a job does: a base first, then deltas.
class Persister {
 public:
  Persister(StateDomain* domain, const StateTable* table)
      : domain_(domain), table_(table), thread_([this] { Run(); }) {}
  ~Persister() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  /// Capture and hand over; nothing when the last checkpoint still runs. The writer's.
  bool Trigger(bool base) {
    if (busy_.load(std::memory_order_acquire)) return false;
    if (done_epoch_ != 0) domain_->SetCommitted(done_epoch_);
    std::lock_guard lock(mutex_);
    view_ = domain_->Capture();
    since_ = base ? 0 : domain_->committed_epoch();
    busy_.store(true, std::memory_order_release);
    changed_.notify_all();
    return true;
  }
  bool busy() const { return busy_.load(std::memory_order_acquire); }

 private:
  void Run() {
    DroppingSink sink;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || view_; });
      if (stop_) return;
      View view = std::move(view_);
      const uint64_t since = since_;
      lock.unlock();
      Check(since == 0 ? table_->EncodeBase(view, kAll, &sink)
                       : table_->EncodeDelta(view, since, kAll, &sink));
      done_epoch_ = view.epoch();
      view.Release();
      lock.lock();
      busy_.store(false, std::memory_order_release);
    }
  }

  StateDomain* const domain_;
  const StateTable* const table_;
  std::mutex mutex_;
  std::condition_variable changed_;
  View view_;
  uint64_t since_ = 0;
  uint64_t done_epoch_ = 0;
  std::atomic<bool> busy_{false};
  bool stop_ = false;
  std::thread thread_;
};

/// Indexes into the keys, drawn beforehand.
std::vector<uint32_t> Draw(size_t keys, size_t ops, bool zipf, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint32_t> draws(ops);
  if (zipf) {
    const Zipf ranks(keys);
    for (uint32_t& draw : draws) {
      draw = static_cast<uint32_t>(static_cast<uint64_t>(ScatteredKey(ranks.Next(&random))) % keys);
    }
  } else {
    for (uint32_t& draw : draws) draw = static_cast<uint32_t>(random() % keys);
  }
  return draws;
}

constexpr auto kIncrement = [](int64_t& value, bool) noexcept { ++value; };

/// CPU nanoseconds an operation of loop(begin, end) over `ops` with a checkpoint a second.
double PersistingNs(StateDomain* domain, const StateTable* table, size_t ops, double seconds,
                    const std::function<void(size_t, size_t)>& loop) {
  constexpr size_t kSlice = 20000;
  domain->SetCommitted(0);
  Persister persister(domain, table);
  const double wall = WallSeconds();
  double next = wall;
  double cpu = 0;
  uint64_t done = 0;
  bool base = true;
  for (size_t at = 0; WallSeconds() - wall < seconds; at = (at + kSlice) % (ops - kSlice)) {
    if (WallSeconds() >= next && persister.Trigger(base)) {
      next += 1;
      base = false;
    }
    cpu += TimeCpu([&] { loop(at, at + kSlice); });
    domain->Poll(1);
    done += kSlice;
  }
  return cpu * 1e9 / static_cast<double>(done);
}

// --- update, get, update_batch -----------------------------------------------------------------

/// Keys in the order they are updated, and their hashes.
struct DrawnKeys {
  std::vector<int64_t> keys;
  std::vector<uint64_t> hashes;
};

DrawnKeys DrawKeys(const std::vector<int64_t>& all, size_t ops, bool zipf) {
  DrawnKeys drawn;
  for (const uint32_t draw : Draw(all.size(), ops, zipf, 7)) {
    drawn.keys.push_back(all[draw]);
    drawn.hashes.push_back(detail::FnvOfObject(all[draw]));
  }
  return drawn;
}

/// What one size and distribution of int64 keys costs.
void Int64Cases(Report* report, size_t keys, const char* size, bool get_and_batch) {
  const size_t ops = std::min<size_t>(4000000, keys * 4);
  const int reps = report->quick() ? 5 : 7;
  auto domain = StateDomain::Create({});
  Numbers table(domain.get(), Descriptor(), Options());
  RawNumbers raw;
  HugeNumbers raw_huge;
  std::vector<int64_t> all(keys);
  for (size_t i = 0; i < keys; ++i) {
    all[i] = ScatteredKey(i + 1);
    Check(table.Update(all[i], kIncrement));
    raw[all[i]] = 0;
    raw_huge[all[i]] = 0;
  }
  for (const bool zipf : {false, true}) {
    const std::string suffix = std::string(size) + (zipf ? ".zipf" : ".uniform");
    const auto [drawn, hashes] = DrawKeys(all, ops, zipf);
    const auto update = [&, &drawn = drawn](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) Check(table.Update(drawn[i], kIncrement));
    };
    std::vector<double> ours, theirs, huge, get, raw_get, batch;
    int64_t sum = 0;
    for (int rep = 0; rep < reps; ++rep) {
      theirs.push_back(TimeCpu([&] {
        for (int64_t key : drawn) ++raw[key];
      }));
      huge.push_back(TimeCpu([&] {
        for (int64_t key : drawn) ++raw_huge[key];
      }));
      ours.push_back(TimeCpu([&] { update(0, ops); }));
      if (!get_and_batch) continue;
      batch.push_back(TimeCpu([&] {
        for (size_t i = 0; i < ops; i += 1024) {
          const size_t rows = std::min<size_t>(1024, ops - i);
          Check(table.UpdateBatch(std::span<const int64_t>(&drawn[i], rows),
                                  std::span<const uint64_t>(&hashes[i], rows),
                                  [](size_t, int64_t& value, bool) noexcept { ++value; }));
        }
      }));
      raw_get.push_back(TimeCpu([&] {
        for (int64_t key : drawn) sum += raw.find(key)->second;
      }));
      get.push_back(TimeCpu([&] {
        for (int64_t key : drawn) sum += *table.Find(key);
      }));
    }
    if (sum == 1) std::puts("");
    const double per_op = 1e9 / static_cast<double>(ops);
    const double at_rest = Median(ours) * per_op;
    const double boost = Median(theirs) * per_op;
    report->Add("update.int64." + suffix, at_rest, "ns", "less", "boost::unordered_flat_map",
                boost);
    report->Add("update.int64." + suffix + ".huge_pages", at_rest, "ns", "less",
                "the same map in 2 MiB pages", Median(huge) * per_op);
    if (get_and_batch) {
      report->Add("update_batch.int64." + suffix, Median(batch) * per_op, "ns", "less",
                  "boost::unordered_flat_map", boost);
      report->Add("get.int64." + suffix, Median(get) * per_op, "ns", "less",
                  "boost::unordered_flat_map", Median(raw_get) * per_op);
    }
    const double persisting =
        PersistingNs(domain.get(), &table, ops, report->quick() ? 2.5 : 6, update);
    report->Add("update.int64." + suffix + ".persisting", persisting, "ns", "less", "at rest",
                at_rest);
  }
}

void String15Cases(Report* report, size_t keys) {
  const size_t ops = std::min<size_t>(4000000, keys * 4);
  auto domain = StateDomain::Create({});
  Strings table(domain.get(), Descriptor(), Options());
  RawStrings raw;
  std::vector<std::string> all(keys);
  for (size_t i = 0; i < keys; ++i) {
    char text[32];
    std::snprintf(text, sizeof(text), "k%014llx",
                  static_cast<unsigned long long>(ScatteredKey(i + 1)) & 0xffffffffffffff);
    all[i].assign(text, 15);
    Check(table.Update(all[i], kIncrement));
    raw[all[i]] = 0;
  }
  // Keys lie packed one after another, as in a column of a batch; the raw map's are objects.
  std::vector<char> packed(ops * 15);
  std::vector<std::string> drawn(ops);
  const std::vector<uint32_t> draws = Draw(keys, ops, false, 9);
  for (size_t i = 0; i < ops; ++i) {
    drawn[i] = all[draws[i]];
    std::memcpy(&packed[i * 15], drawn[i].data(), 15);
  }
  const auto update = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      Check(table.Update(std::string_view(&packed[i * 15], 15), kIncrement));
    }
  };
  std::vector<double> ours, theirs;
  for (int rep = 0; rep < (report->quick() ? 5 : 7); ++rep) {
    theirs.push_back(TimeCpu([&] {
      for (const std::string& key : drawn) ++raw[key];
    }));
    ours.push_back(TimeCpu([&] { update(0, ops); }));
  }
  const double per_op = 1e9 / static_cast<double>(ops);
  const double at_rest = Median(ours) * per_op;
  report->Add("update.str15.1M.uniform", at_rest, "ns", "less", "boost::unordered_flat_map",
              Median(theirs) * per_op);
  report->Add("update.str15.1M.uniform.persisting",
              PersistingNs(domain.get(), &table, ops, report->quick() ? 2.5 : 6, update), "ns",
              "less", "at rest", at_rest);
}

// --- growth and views --------------------------------------------------------------------------

double FullCopyUs(size_t keys) {
  RawNumbers raw;
  raw.reserve(keys);
  for (size_t i = 0; i < keys; ++i) raw[ScatteredKey(i + 1)] = 0;
  std::vector<double> times;
  for (int rep = 0; rep < 5; ++rep) {
    std::optional<RawNumbers> copy;
    times.push_back(TimeCpu([&] { copy.emplace(raw); }));
  }
  return Median(times) * 1e6;
}

void GrowCase(Report* report, size_t keys) {
  std::vector<double> worst;
  for (int rep = 0; rep < 5; ++rep) {
    auto domain = StateDomain::Create({});
    Numbers table(domain.get(), Descriptor(), Options());
    WorstTime time;
    for (size_t i = 0; i < keys; ++i) {
      const int64_t key = ScatteredKey(i + 1);
      time.Time([&] { Check(table.Update(key, kIncrement)); });
    }
    worst.push_back(time.worst_us());
  }
  report->Add("grow.5M.worst", Median(worst), "us", "less", "full copy", FullCopyUs(keys));
}

void ViewCases(Report* report, size_t keys, const char* size) {
  auto domain = StateDomain::Create({});
  Numbers table(domain.get(), Descriptor(), Options());
  for (size_t i = 0; i < keys; ++i) Check(table.Update(ScatteredKey(i + 1), kIncrement));
  std::vector<double> times;
  std::mt19937_64 random(1);
  const uint64_t memory = domain->MemoryBytes() + domain->ViewBytes();
  uint64_t copied = 0;
  for (int i = 0; i < 401; ++i) {
    WorstTime ticks;
    View view;
    ticks.Time([&] { view = domain->Capture(); });
    times.push_back(ticks.worst_us());
    // What the capture itself wrote: the roots in the view, and whatever it took from the pools.
    copied = view.node()->cuts.size() * sizeof(detail::TableCut) +
             (i == 0 ? domain->MemoryBytes() + domain->ViewBytes() - memory : 0);
    for (int j = 0; j < 20; ++j) {
      Check(table.Update(ScatteredKey(random() % keys + 1), kIncrement));
    }
    view.Release();
    domain->Poll(4);
  }
  const double copy_us = FullCopyUs(keys);
  report->Add(std::string("view.") + size, Median(times), "us", "less", "full copy", copy_us);
  report->Add(std::string("view.bytes_copied.") + size, static_cast<double>(copied), "B", "less",
              "full copy", static_cast<double>(table.MemoryBytes()));
}

// --- puts beside a persist ---------------------------------------------------------------------

/// 2 M values of 64 bytes, uniform, the writer at full speed while views are encoded back to back.
void PersistingCases(Report* report, size_t keys) {
  auto domain = StateDomain::Create({});
  Wides table(domain.get(), Descriptor(), Options());
  boost::unordered_flat_map<int64_t, Value64> raw;
  std::vector<int64_t> all(keys);
  for (size_t i = 0; i < keys; ++i) {
    all[i] = ScatteredKey(i + 1);
    Check(table.Update(all[i], [](Value64& value, bool) noexcept { ++value.count; }));
    raw[all[i]].count = 1;
  }
  const std::vector<uint32_t> draws = Draw(keys, 4000000, false, 3);
  const auto put = [&](size_t i) {
    Check(table.Update(all[draws[i]], [](Value64& value, bool) noexcept { ++value.count; }));
  };
  std::vector<double> copies;
  for (int rep = 0; rep < 3; ++rep) {
    std::optional<boost::unordered_flat_map<int64_t, Value64>> copy;
    copies.push_back(TimeCpu([&] { copy.emplace(raw); }));
  }
  std::vector<double> rest, during, worst, extra;
  size_t at = 0;
  for (int rep = 0; rep < 5; ++rep) {
    rest.push_back(TimeCpu([&] {
                     for (size_t i = 0; i < 1000000; ++i) put(i);
                   }) /
                   1e6);
    Persister persister(domain.get(), &table);
    WorstTime time;
    uint64_t puts = 0;
    double cpu = 0;
    uint64_t most = 0;
    for (int view = 0; view < 3; ++view) {
      if (!persister.Trigger(true)) break;
      time.Resume();
      while (persister.busy()) {
        constexpr size_t kSlice = 500;
        if (at + kSlice > draws.size()) at = 0;
        const double begin = CpuSeconds();
        for (size_t i = at; i < at + kSlice; ++i) time.Time([&] { put(i); });
        cpu += CpuSeconds() - begin;
        at += kSlice;
        puts += kSlice;
        most = std::max(most, domain->ViewBytes());
      }
      domain->Poll(100000);
    }
    during.push_back(cpu / static_cast<double>(puts));
    worst.push_back(time.worst_us());
    extra.push_back(static_cast<double>(most));
  }
  report->Add("put.persisting.worst", Median(worst), "us", "less", "full copy",
              Median(copies) * 1e6);
  report->Add("put.persisting.rate", 1e-6 / Median(during), "M/s", "more", "at rest",
              1e-6 / Median(rest));
  report->Add("view.memory", Median(extra) / 1048576, "MiB", "less", "state",
              static_cast<double>(table.MemoryBytes()) / 1048576);
}

// --- deltas ------------------------------------------------------------------------------------

void DeltaCases(Report* report, size_t keys) {
  auto domain = StateDomain::Create({});
  Numbers table(domain.get(), Descriptor(), Options());
  for (size_t i = 0; i < keys; ++i) Check(table.Update(ScatteredKey(i + 1), kIncrement));
  std::mt19937_64 random(5);
  DroppingSink sink;
  for (const size_t touched : {size_t{500}, size_t{50000}}) {
    std::vector<double> delta, base;
    for (int rep = 0; rep < 7; ++rep) {
      const uint64_t since = domain->Capture().epoch();
      for (size_t i = 0; i < touched; ++i) {
        Check(table.Update(ScatteredKey(random() % keys + 1), kIncrement));
      }
      const View view = domain->Capture();
      delta.push_back(TimeCpu([&] { Check(table.EncodeDelta(view, since, kAll, &sink)); }));
      base.push_back(TimeCpu([&] { Check(table.EncodeBase(view, kAll, &sink)); }));
    }
    report->Add(touched == 500 ? "delta.500_of_1M" : "delta.50k_of_1M", Median(delta) * 1e3, "ms",
                "less", "full encode", Median(base) * 1e3);
  }
}

void Run(Report* report) {
  const bool quick = report->quick();
  if (report->Wants("int64.1M")) Int64Cases(report, quick ? 300000 : 1000000, "1M", true);
  if (report->Wants("str15")) String15Cases(report, quick ? 300000 : 1000000);
  if (report->Wants("grow")) GrowCase(report, quick ? 1000000 : 5000000);
  if (report->Wants("view.500k")) ViewCases(report, quick ? 100000 : 500000, "500k");
  if (report->Wants("view.10M")) ViewCases(report, quick ? 1000000 : 10000000, "10M");
  if (report->Wants("put.persisting")) PersistingCases(report, quick ? 400000 : 2000000);
  if (report->Wants("delta")) DeltaCases(report, quick ? 300000 : 1000000);
  if (report->Wants("int64.10M")) Int64Cases(report, quick ? 2000000 : 10000000, "10M", false);
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  cairn::bench::Report report("state", argc, argv);
  cairn::bench::Run(&report);
  return 0;
}

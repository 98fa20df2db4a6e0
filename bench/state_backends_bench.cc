// SPDX-License-Identifier: Apache-2.0
//
// bench_state_backends [--quick] [--json FILE]: the byte backends: what a changelog writes for
// 500 and 50,000 changed rows of a million, against the bytes of those rows; and puts into
// memory+sharded:// from one and two threads, against memory:// and one map under one mutex.
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backend/changelog/changelog_backend.h"
#include "backend/table/table_backend.h"
#include "cairn/state_backend.h"
#include "env/memory_file_system.h"
#include "format/keys.h"
#include "harness.h"

namespace cairn::bench {
namespace {

constexpr OperatorId kOp{42};
constexpr char kSlot[] = "counts";
constexpr size_t kBatchRows = 256;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench_state_backends: %s\n", what.c_str());
  std::exit(1);
}
void Check(const Status& status) {
  if (!status.ok()) Fail(status.ToString());
}
template <class T>
T Check(Result<T> result) {
  if (!result.ok()) Fail(result.status().ToString());
  return *std::move(result);
}

/// The stored key of row i: an int64 user key.
std::string KeyOfRow(uint64_t i) {
  const int64_t number = ScatteredKey(i);
  const std::string_view user_key(reinterpret_cast<const char*>(&number), sizeof(number));
  std::string key;
  format::KeyLayout().AppendKeyed(KeyGroupOf(user_key, kDefaultKeyGroups), kSlot, user_key, &key);
  return key;
}

void PutRows(StateBackend* backend, uint64_t first, uint64_t step, uint64_t count, int64_t value) {
  WriteBatch batch;
  for (uint64_t i = 0; i < count; ++i) {
    batch.Put(kOp, KeyOfRow(first + i * step),
              {reinterpret_cast<const char*>(&value), sizeof(value)});
    if (batch.size() == kBatchRows || i + 1 == count) {
      Check(backend->Apply(batch, nullptr));
      batch.Clear();
    }
  }
}

// --- changelog ---------------------------------------------------------------------------------

void Changelog(Report* report, uint64_t rows) {
  env::MemoryFileSystem files;
  MemoryBudget budget(0);
  backend::ChangelogOptions options;
  options.tables.state.budget = &budget;
  options.tables.files = &files;
  options.tables.directory = "/state/0";
  const auto backend = Check(backend::ChangelogBackend::Open(options));
  PutRows(backend.get(), 0, 1, rows, 1);
  uint64_t id = 1;
  Check(backend->Snapshot(id++).status());
  const double row_bytes = static_cast<double>(sizeof(uint64_t) + KeyOfRow(0).size() + 8);
  for (const auto& [name, changed] : {std::pair<const char*, uint64_t>{"500", 500},
                                      std::pair<const char*, uint64_t>{"50k", 50'000}}) {
    PutRows(backend.get(), id, rows / changed, changed, static_cast<int64_t>(id));
    Check(backend->Snapshot(id++).status());
    const BackendDescription after = backend->Describe();
    report->Add(std::string("changelog.") + name + "_of_1M",
                static_cast<double>(after.last_snapshot_bytes), "bytes", "less", "changed rows",
                row_bytes * static_cast<double>(changed));
    backend->MaterializeNow();
    Check(backend->Snapshot(id++).status());
  }
}

// --- sharded -----------------------------------------------------------------------------------

/// The seed's way: one map under one mutex.
class MutexMap {
 public:
  void Put(const std::string& key, std::string_view value) {
    std::lock_guard lock(mutex_);
    rows_[key] = value;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::string> rows_;
};

/// Wall seconds of `threads` threads that each run body(thread).
template <class Body>
double TimeThreads(int threads, const Body& body) {
  const double begin = WallSeconds();
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : running) thread.join();
  return WallSeconds() - begin;
}

std::unique_ptr<backend::TableBackend> OpenTables(size_t shards, MemoryBudget* budget) {
  backend::TableBackendOptions options;
  options.state.budget = budget;
  options.shards = shards;
  return Check(backend::TableBackend::Open(options));
}

/// Batches made beforehand: what is measured is the backend.
std::vector<std::vector<WriteBatch>> MakeBatches(int threads, uint64_t keys, uint64_t puts) {
  std::vector<std::vector<WriteBatch>> batches(threads);
  const int64_t value = 7;
  for (int t = 0; t < threads; ++t) {
    std::mt19937_64 random(t + 1);
    for (uint64_t done = 0; done < puts; done += kBatchRows) {
      WriteBatch& batch = batches[t].emplace_back();
      for (size_t i = 0; i < kBatchRows; ++i) {
        batch.Put(kOp, KeyOfRow(random() % keys),
                  {reinterpret_cast<const char*>(&value), sizeof(value)});
      }
    }
  }
  return batches;
}

void Sharded(Report* report, uint64_t keys, uint64_t puts, int repetitions) {
  MemoryBudget budget(0);
  for (const int threads : {1, 2}) {
    const auto sharded = OpenTables(backend::kShards, &budget);
    const auto memory = OpenTables(1, &budget);
    MutexMap map;
    PutRows(sharded.get(), 0, 1, keys, 1);
    PutRows(memory.get(), 0, 1, keys, 1);
    for (uint64_t i = 0; i < keys; ++i) map.Put(KeyOfRow(i), "12345678");
    const auto batches = MakeBatches(threads, keys, puts);
    const auto apply = [&](StateBackend* backend, int t) {
      for (const WriteBatch& batch : batches[t]) Check(backend->Apply(batch, nullptr));
    };
    const double total = static_cast<double>(threads) * static_cast<double>(puts) / 1e6;
    std::vector<double> ours;
    std::vector<double> theirs;
    for (int i = 0; i < repetitions; ++i) {
      ours.push_back(total / TimeThreads(threads, [&](int t) { apply(sharded.get(), t); }));
      theirs.push_back(total / TimeThreads(threads, [&](int t) {
                         if (threads == 1) return apply(memory.get(), t);
                         for (const WriteBatch& batch : batches[t]) {
                           for (size_t k = 0; k < batch.size(); ++k) {
                             map.Put(std::string(batch[k].key), batch[k].value);
                           }
                         }
                       }));
    }
    report->Add("sharded.put." + std::to_string(threads) + "_threads", Median(ours), "M/s", "more",
                threads == 1 ? "memory://" : "one map, one mutex", Median(theirs));
  }
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  cairn::bench::Report report("state", argc, argv);
  const bool quick = report.quick();
  if (report.Wants("changelog")) cairn::bench::Changelog(&report, 1'000'000);
  if (report.Wants("sharded")) {
    cairn::bench::Sharded(&report, 500'000, quick ? 200'000 : 1'000'000, quick ? 3 : 5);
  }
  return 0;
}

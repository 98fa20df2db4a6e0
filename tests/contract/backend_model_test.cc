// SPDX-License-Identifier: Apache-2.0
//
// Every backend against a plain map by random operations (backend_model_run.h), where a seed leaves
// the same trace on each; beside writers on threads; and with its budget used up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "backend_cases.h"
#include "backend_model_run.h"

namespace cairn::contract {
namespace {

uint64_t NumberOf(const char* variable, uint64_t otherwise) {
  const char* chosen = std::getenv(variable);
  return chosen == nullptr ? otherwise : std::strtoull(chosen, nullptr, 10);
}

constexpr int kSteps = 500;
constexpr int kRestartedSteps = 120;  // a restart after each write is slow

/// The trace after kRestartedSteps and after kSteps.
struct Traces {
  uint32_t early = 0;
  uint32_t late = 0;
};

Traces RunSeed(const BackendCase& one, uint64_t seed) {
  Traces traces;
  ModelRun run(one, seed);
  const int steps = one.restart ? kRestartedSteps : kSteps;
  for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    run.Step();
    (step < kRestartedSteps ? traces.early : traces.late) = run.trace();
  }
  if (!::testing::Test::HasFailure()) run.Finish();
  return traces;
}

/// What memory:// leaves of a seed.
Traces ReferenceOf(uint64_t seed) {
  static auto* const known = new std::map<uint64_t, Traces>;
  const auto at = known->find(seed);
  if (at != known->end()) return at->second;
  return (*known)[seed] = RunSeed(PlainBackends().front(), seed);
}

class BackendModel : public ::testing::TestWithParam<BackendCase> {};

INSTANTIATE_TEST_SUITE_P(Every, BackendModel, ::testing::ValuesIn(AllBackends()),
                         [](const auto& info) { return info.param.name; });

// CAIRN_SEED: the first seed. CAIRN_ROUNDS: how many; by default 2, in long runs more.
TEST_P(BackendModel, EqualsAMapAndLeavesTheTraceThatItsSeedLeavesOnEveryBackend) {
  const uint64_t first = NumberOf("CAIRN_SEED", 20'261'130);
  const bool is_long = std::getenv("CAIRN_LONG") != nullptr;
  const uint64_t rounds = NumberOf("CAIRN_ROUNDS", is_long ? 60 : GetParam().restart ? 1 : 2);
  for (uint64_t seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " (CAIRN_SEED)");
    const Traces reference = ReferenceOf(seed);
    ASSERT_FALSE(HasFailure()) << "on memory://";
    const Traces traces = RunSeed(GetParam(), seed);
    ASSERT_FALSE(HasFailure());
    ASSERT_EQ(traces.early, reference.early);
    if (!GetParam().restart) {
      ASSERT_EQ(traces.late, reference.late);
    }
  }
}

TEST_P(BackendModel, TheSameSeedLeavesTheSameTraceTwiceAndAnotherOneAnother) {
  const Traces once = RunSeed(GetParam(), 7);
  const Traces again = RunSeed(GetParam(), 7);
  EXPECT_EQ(once.early, again.early);
  EXPECT_EQ(once.late, again.late);
  EXPECT_NE(once.early, RunSeed(GetParam(), 8).early);
}

// Writers on two operators, captures at random moments: each snapshot equals the model at its cut.
TEST_P(BackendModel, CutsBesideWritersLoseNothing) {
  if (GetParam().restart || !GetParam().scans) return;
  BackendWorld world;
  Result<std::unique_ptr<StateBackend>> opened = OpenCase(GetParam(), &world);
  ASSERT_TRUE(opened.ok());
  StateBackend* backend = opened->get();
  if (!backend->Describe().any_thread) return;  // one owner: the model above covers it
  std::shared_mutex cut_mutex;  // a writer holds it shared over one batch and its model's change
  std::atomic<bool> cut_wanted{false};  // writers stand back then: readers of the mutex go first
  std::map<std::string, std::string> models[2];
  std::vector<std::jthread> writers;  // told to stop and joined on every way out
  for (int w = 0; w < 2; ++w) {
    writers.emplace_back([&, w](const std::stop_token& stop) {
      std::mt19937_64 random(w + 1);
      while (!stop.stop_requested()) {
        WriteBatch batch;
        cut_wanted.wait(true);
        std::shared_lock lock(cut_mutex);
        for (int i = 0; i < 8; ++i) {
          const std::string key = Row("s", std::to_string(random() % 500));
          if (random() % 4 == 0) {
            batch.Erase(OperatorId(42 + w), key);
            models[w].erase(key);
          } else {
            const std::string value = std::to_string(random());
            batch.Put(OperatorId(42 + w), key, value);
            models[w][key] = value;
          }
        }
        EXPECT_OK(backend->Apply(batch, nullptr));
      }
    });
  }
  for (uint64_t id = 1; id <= 100; ++id) {
    std::unique_ptr<CapturedState> captured;
    Rows expected[2];
    {
      cut_wanted = true;
      std::unique_lock lock(cut_mutex);
      captured = *backend->Capture(id);
      for (int w = 0; w < 2; ++w) expected[w].assign(models[w].begin(), models[w].end());
      cut_wanted = false;
      cut_wanted.notify_all();
    }
    const Result<BackendSnapshot> snapshot = captured->Persist();
    ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
    Result<std::unique_ptr<StateBackend>> fresh = OpenCase(GetParam(), &world);
    ASSERT_TRUE(fresh.ok());
    const RestorePart part{*snapshot, 0, 1};
    ASSERT_OK((*fresh)->Restore({&part, 1}).status());
    for (int w = 0; w < 2; ++w) {
      EXPECT_EQ(ScanRows(fresh->get(), OperatorId(42 + w)), expected[w]);
    }
  }
}

// With the budget used up, writes are refused naming their owner, reads and erases go on, and what
// was applied stays.
TEST_P(BackendModel, AFullBudgetRefusesByNameAndRecovers) {
  if (GetParam().restart || GetParam().budget_bytes == 0) return;
  BackendWorld world;
  Result<std::unique_ptr<StateBackend>> opened = OpenCase(GetParam(), &world);
  ASSERT_TRUE(opened.ok());
  StateBackend* backend = opened->get();
  const OperatorId op{42};
  uint64_t written = 0;
  Status status;
  for (; status.ok() && written < 1'000'000; ++written) {
    status = backend->Put(op, Row("s", std::to_string(written)), std::string(1000, 'v'));
  }
  ASSERT_EQ(status.code(), StatusCode::kResourceExhausted);
  --written;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("slot s, key"));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("largest: state"));
  EXPECT_LE(world.budget.total(), GetParam().budget_bytes);
  ASSERT_EQ(backend->Describe().rows, written);
  WriteBatch batch;
  batch.Erase(op, Row("s", "0"));
  for (int i = 0; i < 5000; ++i) batch.Put(op, Row("t", std::to_string(i)), std::string(1000, 'w'));
  size_t applied = 0;
  EXPECT_EQ(backend->Apply(batch, &applied).code(), StatusCode::kResourceExhausted);
  EXPECT_GE(applied, 1u);
  EXPECT_LT(applied, 5001u);
  EXPECT_EQ(Read(backend, op, Row("s", "0")), std::nullopt);
  EXPECT_EQ(Read(backend, op, Row("s", "1")), std::string(1000, 'v'));
  for (uint64_t i = 0; i < written; ++i) ASSERT_OK(backend->Erase(op, Row("s", std::to_string(i))));
  if (GetParam().exact_rows) {
    EXPECT_EQ(backend->Describe().rows, applied - 1);
  }
  ASSERT_OK(backend->Put(op, Row("s", "again"), std::string(1000, 'v')));
}

}  // namespace
}  // namespace cairn::contract

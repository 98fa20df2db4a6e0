// SPDX-License-Identifier: Apache-2.0
//
// A control stream connected with the keyed rows of every partition: StateStore::Broadcast.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "store/store_testing.h"

namespace cairn {
namespace {

using store::testing::StoreWorld;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Rows are numbers. A rule is a digit: rows that end in it are no longer counted.
struct FilteringService {
  std::unique_ptr<StateStore> store;
  std::vector<Partition*> partitions;
  std::vector<BroadcastState<std::string>*> rules;   ///< digits, one after another
  std::vector<BroadcastState<int64_t>*> rules_read;  ///< how many
  std::vector<KeyedState<int64_t, int64_t>*> counts;
  std::vector<Recovered> starts;

  FilteringService(StoreWorld* world, uint32_t count) {
    StateStoreOptions options;
    options.partitions = count;
    store = *world->Open(std::move(options));
    for (uint32_t i = 0; i < count; ++i) {
      partitions.push_back(*store->OpenPartition(i));
      RuntimeContext* context = partitions[i]->Operator("filter");
      rules.push_back(*context->broadcast_state<std::string>("rules"));
      rules_read.push_back(*context->broadcast_state<int64_t>("rules read"));
      counts.push_back(*context->keyed_state<int64_t, int64_t>("counts"));
      const Result<Recovered> start = partitions[i]->Recover();
      EXPECT_TRUE(start.ok()) << start.status().ToString();
      starts.push_back(start.ok() ? *start : Recovered());
    }
  }

  void Post(char digit) {
    store->Broadcast([this, digit](Partition* partition) -> Status {
      const uint32_t i = partition->index();
      CAIRN_RETURN_IF_ERROR(rules[i]->Put(RulesOf(i) + digit));
      return rules_read[i]->Put(RulesRead(i) + 1);
    });
  }
  void Count(int64_t row) {
    const uint32_t i = store->PartitionOf(row);
    EXPECT_TRUE(partitions[i]->RunBroadcasts().ok());
    if (RulesOf(i).find(static_cast<char>('0' + row % 10)) != std::string::npos) return;
    EXPECT_TRUE(counts[i]->Update(row, [](int64_t& n, bool) noexcept { ++n; }).ok());
  }
  void Checkpoint(const std::string& offsets) {
    std::optional<CheckpointHandle> handle;
    for (Partition* partition : partitions) handle = *partition->Checkpoint(offsets);
    EXPECT_TRUE(handle->Wait().ok());
  }

  std::string RulesOf(uint32_t i) const { return rules[i]->Get()->value_or(""); }
  int64_t RulesRead(uint32_t i) const { return rules_read[i]->Get()->value_or(0); }
  std::vector<std::string> AllRules() const {
    std::vector<std::string> all;
    for (uint32_t i = 0; i < rules.size(); ++i) all.push_back(RulesOf(i));
    return all;
  }
  std::map<int64_t, int64_t> AllCounts() const {
    std::map<int64_t, int64_t> all;
    for (uint32_t i = 0; i < counts.size(); ++i) {
      counts[i]->ScanNow(partitions[i]->key_groups(),
                         [&](int64_t row, int64_t n) { all[row] += n; });
    }
    return all;
  }
};

constexpr int64_t kRows = 5000;
int64_t RowAt(int64_t position) { return position * 7919 % 300; }

/// The control stream: each rule, and the position in the rows at which it comes.
struct Rule {
  int64_t at;
  char digit;
};
constexpr Rule kRules[] = {{500, '3'}, {1499, '7'}, {1500, '0'}, {2600, '9'}, {4100, '1'}};

/// Run from what was recovered up to `end`, reading both streams from there.
void RunTo(int64_t end, FilteringService* service) {
  const Recovered& start = service->starts[0];
  int64_t position = start.checkpoint == 0 ? 0 : std::stoll(start.all_offsets[0]);
  for (size_t next = static_cast<size_t>(service->RulesRead(0)); position < end; ++position) {
    for (; next < std::size(kRules) && kRules[next].at == position; ++next) {
      service->Post(kRules[next].digit);
    }
    service->Count(RowAt(position));
    if (position % 400 == 399) service->Checkpoint(std::to_string(position + 1));
  }
}

TEST(BroadcastConnect, Behaviour38RulesFilterTheRowsOfEveryPartitionAcrossRestoreAndRescale) {
  std::map<int64_t, int64_t> expected;
  std::string rules;
  for (int64_t position = 0; position < kRows; ++position) {
    for (const Rule& rule : kRules) {
      if (rule.at == position) rules += rule.digit;
    }
    const int64_t row = RowAt(position);
    if (rules.find(static_cast<char>('0' + row % 10)) == std::string::npos) ++expected[row];
  }

  StoreWorld world;
  int64_t end = 0;
  for (const uint32_t partitions : {3u, 3u, 5u, 1u, 4u}) {
    FilteringService service(&world, partitions);
    const std::string recovered = rules.substr(0, static_cast<size_t>(service.RulesRead(0)));
    EXPECT_THAT(service.AllRules(), Each(recovered));
    end += kRows / 5;
    RunTo(end, &service);  // what it did after its last checkpoint is lost with it
    if (end == kRows) {
      for (Partition* partition : service.partitions) ASSERT_TRUE(partition->RunBroadcasts().ok());
      EXPECT_THAT(service.AllRules(), Each(rules));
      EXPECT_EQ(service.AllCounts(), expected);
    }
  }
}

TEST(BroadcastConnect, ACheckpointHoldsAnEventInAllPartitionsOrInNone) {
  StoreWorld world;
  {
    FilteringService service(&world, 3);
    Partition *first = service.partitions[0], *second = service.partitions[1],
              *third = service.partitions[2];
    service.Post('1');
    EXPECT_EQ(*first->RunBroadcasts(), 1u);
    auto handle = first->Checkpoint("");
    service.Post('2');
    EXPECT_EQ(*first->RunBroadcasts(), 1u) << "it has joined and goes on";
    EXPECT_EQ(*second->RunBroadcasts(), 1u) << "the second event waits for its checkpoint";
    EXPECT_THAT(service.AllRules(), ElementsAre("12", "1", ""));
    ASSERT_TRUE(second->Checkpoint("").ok());
    EXPECT_EQ(*second->RunBroadcasts(), 1u);
    ASSERT_TRUE(third->Checkpoint("").ok()) << "runs what the checkpoint holds";
    EXPECT_THAT(service.AllRules(), ElementsAre("12", "12", "1"));
    ASSERT_TRUE(handle->Wait().ok());
    EXPECT_EQ(*third->RunBroadcasts(), 1u);
  }
  EXPECT_THAT(FilteringService(&world, 3).AllRules(), Each("1"));
  EXPECT_THAT(FilteringService(&world, 2).AllRules(), Each("1"));
}

TEST(BroadcastConnect, AFunctionThatFailsStaysAndKeepsItsPartitionOutOfTheCheckpoint) {
  StoreWorld world;
  {
    FilteringService service(&world, 2);
    bool works = false;
    service.store->Broadcast([&](Partition* partition) -> Status {
      if (partition->index() == 1 && !works) return Status::ResourceExhausted("no room for rules");
      return service.rules[partition->index()]->Put("5");
    });
    service.Post('6');
    auto handle = service.partitions[0]->Checkpoint("");
    ASSERT_TRUE(handle.ok());
    const Status refused = service.partitions[1]->Checkpoint("").status();
    EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused.ToString();
    EXPECT_FALSE(handle->done());
    EXPECT_THAT(service.AllRules(), ElementsAre("56", ""));
    works = true;
    ASSERT_TRUE(service.partitions[1]->Checkpoint("").ok());
    ASSERT_TRUE(handle->Wait().ok());
  }
  EXPECT_THAT(FilteringService(&world, 2).AllRules(), Each("56"));
}

TEST(BroadcastConnect, RunsNothingBeforeRecoverNorInsideAnotherFunction) {
  StoreWorld world;
  auto store = *world.Open();
  Partition* partition = *store->OpenPartition(0);
  Status inside;
  store->Broadcast([&](Partition* self) -> Status {
    inside = self->Checkpoint("").status();
    return {};
  });
  EXPECT_EQ(partition->RunBroadcasts().status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(partition->Recover().ok());
  EXPECT_EQ(*partition->RunBroadcasts(), 1u);
  EXPECT_EQ(inside.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(inside.ToString(), HasSubstr("runs no other"));
  EXPECT_EQ(*partition->RunBroadcasts(), 0u);
}

TEST(BroadcastConnect, EventsOfManyThreadsHaveOneOrderInEveryCheckpoint) {
  constexpr uint32_t kPartitions = 4;
  constexpr int kEventsOfEach = 500;
  StoreWorld world;
  {
    StateStoreOptions options;
    options.partitions = kPartitions;
    auto store = *world.Open(std::move(options));
    std::vector<BroadcastState<std::string>*> rules(kPartitions);
    const auto run = [&](uint32_t i) {
      Partition* partition = *store->OpenPartition(i);
      RuntimeContext* context = partition->Operator("filter");
      rules[i] = *context->broadcast_state<std::string>("rules");
      ASSERT_TRUE(partition->Recover().ok());
      for (int event = 0; store->stats().committed < 5 || event < kEventsOfEach; ++event) {
        if (event < kEventsOfEach) {
          store->Broadcast([&rules, i](Partition* self) {
            BroadcastState<std::string>* state = rules[self->index()];
            return state->Put(state->Get()->value_or("") + static_cast<char>('a' + i));
          });
        }
        ASSERT_TRUE(partition->RunBroadcasts().ok());
        const Status joined = partition->Checkpoint("").status();
        ASSERT_TRUE(joined.ok() || joined.code() == StatusCode::kUnavailable) << joined.ToString();
        store->Poll();
      }
    };
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < kPartitions; ++i) threads.emplace_back(run, i);
    for (std::thread& thread : threads) thread.join();
    EXPECT_GE(store->stats().committed, 5u);
  }
  auto store = *world.Open([] {
    StateStoreOptions options;
    options.partitions = kPartitions;
    return options;
  }());
  std::vector<std::string> restored;
  for (uint32_t i = 0; i < kPartitions; ++i) {
    Partition* partition = *store->OpenPartition(i);
    auto* rules = *partition->Operator("filter")->broadcast_state<std::string>("rules");
    ASSERT_TRUE(partition->Recover().ok());
    restored.push_back(rules->Get()->value_or(""));
  }
  EXPECT_THAT(restored, Each(restored[0]));
  EXPECT_FALSE(restored[0].empty());
}

TEST(BroadcastConnect, Behaviour38BroadcastStateIsRefusedWithoutABackend) {
  RuntimeContext context({.uid = "filter"});
  const Status refused = context.broadcast_state<std::string>("rules").status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.ToString(), HasSubstr("no state backend"));
}

}  // namespace
}  // namespace cairn

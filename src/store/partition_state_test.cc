// SPDX-License-Identifier: Apache-2.0
//
// What a partition keeps beside plain values: the other kinds of state, time to live, timers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "store/store_testing.h"

namespace cairn {
namespace {

using store::testing::StoreWorld;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Declares one slot of every kind.
struct KindsService {
  struct Sum {
    using Accumulator = int64_t;
    using Input = int64_t;
    void Add(int64_t& sum, int64_t value) const noexcept { sum += value; }
    int64_t Result(int64_t sum) const { return sum; }
  };
  struct Max {
    int64_t operator()(int64_t a, int64_t b) const noexcept { return std::max(a, b); }
  };

  std::unique_ptr<StateStore> store;
  Partition* partition = nullptr;
  KeyedList<std::string, int64_t>* list = nullptr;
  KeyedMap<std::string, int64_t, std::string>* map = nullptr;
  KeyedReduction<std::string, int64_t, Max>* max = nullptr;
  KeyedAggregate<std::string, Sum>* sum = nullptr;
  BroadcastState<std::string>* rules = nullptr;

  explicit KindsService(StoreWorld* world) {
    store = *world->Open();
    partition = *store->OpenPartition(0);
    RuntimeContext* context = partition->Operator("kinds");
    list = *context->list_state<std::string, int64_t>("list");
    map = *context->map_state<std::string, int64_t, std::string>("map");
    max = *context->reducing_state<std::string, int64_t>("max", Max());
    sum = *context->aggregating_state<std::string, Sum>("sum");
    rules = *context->broadcast_state<std::string>("rules");
    const Result<Recovered> start = partition->Recover();
    EXPECT_TRUE(start.ok()) << start.status().ToString();
  }
};

TEST(StateStoreKinds, AllOfThemComeBack) {
  StoreWorld world;
  {
    KindsService service(&world);
    for (const int64_t value : {3, 9, 5}) {
      ASSERT_TRUE(service.list->Append("a", value).ok());
      ASSERT_TRUE(service.map->Put("a", value, std::to_string(value)).ok());
      ASSERT_TRUE(service.max->Add("a", value).ok());
      ASSERT_TRUE(service.sum->Add("a", value).ok());
    }
    ASSERT_TRUE(service.rules->Put("none").ok());
    ASSERT_TRUE(service.partition->Checkpoint("")->Wait().ok());
    ASSERT_TRUE(service.list->Append("a", 7).ok());
    ASSERT_TRUE(service.partition->Checkpoint("")->Wait().ok());
  }
  KindsService service(&world);
  std::vector<int64_t> list;
  service.list->ForEach("a", [&](uint64_t, const int64_t& value) { list.push_back(value); });
  EXPECT_THAT(list, ElementsAre(3, 9, 5, 7));
  std::vector<int64_t> keys;
  service.map->ForRange("a", 4, 10, [&](int64_t key, const std::string& value) {
    EXPECT_EQ(value, std::to_string(key));
    keys.push_back(key);
  });
  EXPECT_THAT(keys, ElementsAre(5, 9));
  EXPECT_EQ(*service.max->Find("a"), 9);
  EXPECT_EQ(service.sum->Get("a"), 17);
  EXPECT_EQ(**service.rules->Get(), "none");
}

TEST(StateStoreKinds, AnotherTypeOfMapKeysIsRefused) {
  StoreWorld world;
  {
    KindsService service(&world);
    ASSERT_TRUE(service.map->Put("a", 1, "b").ok());
    ASSERT_TRUE(service.partition->Checkpoint("")->Wait().ok());
  }
  auto store = *world.Open();
  Partition* partition = *store->OpenPartition(0);
  ASSERT_TRUE(
      (partition->Operator("kinds")->map_state<std::string, std::string, std::string>("map")).ok());
  const Status refused = partition->Recover().status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.ToString(), HasSubstr("saved with map keys"));
}

TEST(StateStoreTtl, MaintainFreesWhatItsTimeHasEnded) {
  for (const TtlClock clock : {TtlClock::kEvent, TtlClock::kWall}) {
    StoreWorld world;
    auto store = *world.Open();
    Partition* partition = *store->OpenPartition(0);
    TtlConfig ttl;
    ttl.ttl_ms = 1000;
    ttl.clock = clock;
    auto* seen = *partition->Operator("op")->keyed_state<int64_t, int64_t>("seen", ttl);
    ASSERT_TRUE(partition->Recover().ok());
    const auto pass = [&](int64_t time_ms) {
      world.clock.Advance(time_ms);
      if (clock == TtlClock::kEvent) {
        ASSERT_TRUE(partition->AdvanceWatermark(world.clock.UnixMillis()).ok());
      }
      for (int i = 0; i < 100; ++i) partition->Maintain(std::chrono::milliseconds(1));
    };
    pass(1);
    for (int64_t key = 0; key < 1000; ++key) {
      ASSERT_TRUE(seen->Update(key, [](int64_t& n, bool) noexcept { ++n; }).ok());
    }
    pass(999);
    EXPECT_NE(seen->Find(7), nullptr);
    EXPECT_EQ(seen->size(), 1000U);
    pass(1 + 1000 / 32);  // swept a sixty-fourth of the TTL behind the deadline at most
    EXPECT_EQ(seen->Find(7), nullptr);
    EXPECT_EQ(seen->size(), 0U);
  }
}

/// A partition with timers on names; notes what fires.
struct AlarmService {
  std::unique_ptr<StateStore> store;
  Partition* partition = nullptr;
  KeyedTimers<std::string>* timers = nullptr;
  std::vector<std::string> fired;

  explicit AlarmService(StoreWorld* world) {
    store = *world->Open();
    partition = *store->OpenPartition(0);
    timers =
        *partition->Operator("alarm")->timers<std::string>("alarms", [this](const auto& timer) {
          fired.push_back(std::string(timer.key) + "@" + std::to_string(timer.time));
        });
  }
};

TEST(StateStoreTimers, FireOnceInOrderAcrossARecovery) {
  StoreWorld world;
  {
    AlarmService service(&world);
    ASSERT_TRUE(service.partition->Recover().ok());
    for (const auto& [name, time] : {std::pair("c", 30), {"a", 10}, {"b", 20}, {"d", 40}}) {
      ASSERT_TRUE(service.timers->Register(TimeDomain::kEvent, name, time).ok());
    }
    EXPECT_EQ(service.partition->NextTimer(TimeDomain::kEvent), 10);
    ASSERT_TRUE(service.partition->AdvanceWatermark(20).ok());
    EXPECT_THAT(service.fired, ElementsAre("a@10", "b@20"));
    ASSERT_TRUE(service.partition->Checkpoint("")->Wait().ok());
    ASSERT_TRUE(service.partition->AdvanceWatermark(30).ok());  // after the cut: fires again
  }
  AlarmService service(&world);
  EXPECT_EQ(service.partition->AdvanceWatermark(25).code(), StatusCode::kInvalidArgument)
      << "nothing fires before Recover";
  ASSERT_TRUE(service.partition->Recover().ok());
  ASSERT_TRUE(service.partition->AdvanceWatermark(25).ok());
  EXPECT_THAT(service.fired, ElementsAre());
  EXPECT_EQ(service.partition->NextTimer(TimeDomain::kEvent), 30);
  ASSERT_TRUE(service.partition->AdvanceWatermark(100).ok());
  EXPECT_THAT(service.fired, ElementsAre("c@30", "d@40"));
  EXPECT_EQ(service.partition->Operator("alarm")->watermark(), 100);
  EXPECT_EQ(service.partition->NextTimer(TimeDomain::kEvent), std::nullopt);
}

TEST(StateStoreTimers, OfProcessingTimeGoByTheClockThatTheCallerGives) {
  StoreWorld world;
  AlarmService service(&world);
  ASSERT_TRUE(service.partition->Recover().ok());
  ASSERT_TRUE(service.timers->Register(TimeDomain::kProcessing, "a", 10).ok());
  ASSERT_TRUE(service.partition->AdvanceWatermark(1000).ok());
  EXPECT_THAT(service.fired, ElementsAre());
  ASSERT_TRUE(service.partition->AdvanceClock(10).ok());
  EXPECT_THAT(service.fired, ElementsAre("a@10"));
}

}  // namespace
}  // namespace cairn

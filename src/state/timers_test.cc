// SPDX-License-Identifier: Apache-2.0
#include "cairn/timers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace cairn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kTimeMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kTimeMax = std::numeric_limits<int64_t>::max();
constexpr TimeDomain kEvent = TimeDomain::kEvent;
constexpr TimeDomain kProcessing = TimeDomain::kProcessing;

SlotDescriptor TimerSlot() {
  SlotDescriptor descriptor;
  descriptor.operator_uid = "sink/window/0";
  descriptor.name = "timers";
  descriptor.key_codec = "int64";
  descriptor.value_codec = "int64";
  return descriptor;
}

/// Timers of integer keys with an integer namespace, and what has fired.
class TimersTest : public testing::Test {
 protected:
  using Timers = TimerService<int64_t, int64_t>;

  void Register(int64_t key, int64_t time, int64_t ns = 0, TimeDomain domain = kEvent) {
    const Status status = timers_.Register(domain, key, time, ns);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  /// Times of the timers that Advance fires.
  std::vector<int64_t> Advance(int64_t time, TimeDomain domain = kEvent) {
    return AdvanceWith(time, domain, [](const Timers::Timer&) {});
  }
  template <class Fn>
  std::vector<int64_t> AdvanceWith(int64_t time, TimeDomain domain, Fn&& fn) {
    std::vector<int64_t> fired;
    const Status status = timers_.Advance(domain, time, [&](const Timers::Timer& timer) {
      fired.push_back(timer.time);
      fn(timer);
    });
    EXPECT_TRUE(status.ok()) << status.ToString();
    return fired;
  }

  MemoryBudget budget_{0};
  std::unique_ptr<StateDomain> domain_ = StateDomain::Create({.name = "t", .budget = &budget_});
  Timers timers_{domain_.get(), TimerSlot()};
};

TEST_F(TimersTest, FireInTimeOrderWhenTheirTimeIsReached) {
  for (int64_t time : {30, 10, 20, 40}) Register(time % 7, time);
  EXPECT_THAT(Advance(9), IsEmpty());
  EXPECT_THAT(Advance(30), ElementsAre(10, 20, 30));
  EXPECT_THAT(Advance(30), IsEmpty());
  EXPECT_THAT(Advance(100), ElementsAre(40));
  EXPECT_EQ(timers_.size(), 0u);
}

TEST_F(TimersTest, OfOneTimeFireInAnOrderThatRegistrationDoesNotDecide) {
  std::vector<int64_t> orders[2];
  for (int round = 0; round < 2; ++round) {
    for (int64_t i = 0; i < 100; ++i) {
      const int64_t key = round == 0 ? i : 99 - i;
      Register(key, 5, key % 3);
    }
    AdvanceWith(5, kEvent, [&](const Timers::Timer& timer) { orders[round].push_back(timer.key); });
  }
  EXPECT_EQ(orders[0].size(), 100u);
  EXPECT_EQ(orders[0], orders[1]);
}

TEST_F(TimersTest, CarryKeyTimeDomainAndNamespace) {
  TimerService<Bytes, std::string, Codec<Bytes>, Codec<std::string>> timers(domain_.get(),
                                                                            TimerSlot());
  const std::string key(100, 'k');
  ASSERT_TRUE(timers.Register(kProcessing, key, -7, "window").ok());
  int fired = 0;
  ASSERT_TRUE(timers
                  .Advance(kProcessing, 0,
                           [&](const auto& timer) {
                             ++fired;
                             EXPECT_EQ(timer.key, key);
                             EXPECT_EQ(timer.time, -7);
                             EXPECT_EQ(timer.domain, kProcessing);
                             EXPECT_EQ(timer.ns, "window");
                           })
                  .ok());
  EXPECT_EQ(fired, 1);
}

TEST_F(TimersTest, RegisteredTwiceFireOnceAndDoNotEnterTheNextDelta) {
  Register(1, 10);
  const View view = domain_->Capture();
  domain_->SetCommitted(view.epoch());
  Register(1, 10);
  EXPECT_EQ(timers_.size(), 1u);
  struct CountingSink : SavedRowSink {
    SavedRows rows;
    Result<SavedRows*> BeginGroup(uint32_t) override { return &rows; }
    Status Flush() override { return {}; }
  } sink;
  ASSERT_TRUE(
      timers_.EncodeDelta(domain_->Capture(), view.epoch(), timers_.key_groups(), &sink).ok());
  EXPECT_EQ(sink.rows.rows(), 0u);
  EXPECT_THAT(Advance(10), ElementsAre(10));
}

TEST_F(TimersTest, DifferInKeyTimeNamespaceOrDomain) {
  Register(1, 10);
  Register(2, 10);
  Register(1, 11);
  Register(1, 10, 5);
  Register(1, 10, 0, kProcessing);
  EXPECT_EQ(timers_.size(), 5u);
  EXPECT_THAT(Advance(11), ElementsAre(10, 10, 10, 11));
  EXPECT_THAT(Advance(11, kProcessing), ElementsAre(10));
}

TEST_F(TimersTest, DeletedDoNotFire) {
  Register(1, 10);
  Register(1, 20);
  EXPECT_TRUE(timers_.Delete(kEvent, 1, 10));
  EXPECT_FALSE(timers_.Delete(kEvent, 1, 10));
  EXPECT_FALSE(timers_.Delete(kEvent, 1, 20, 1));
  EXPECT_FALSE(timers_.IsPending(kEvent, 1, 10));
  EXPECT_TRUE(timers_.IsPending(kEvent, 1, 20));
  EXPECT_THAT(Advance(100), ElementsAre(20));
}

TEST_F(TimersTest, DeletedAndRegisteredAnewFireOnce) {
  for (int i = 0; i < 5; ++i) {
    Register(1, 10);
    ASSERT_TRUE(timers_.Delete(kEvent, 1, 10));
  }
  Register(1, 10);
  EXPECT_THAT(Advance(10), ElementsAre(10));
  EXPECT_THAT(Advance(10), IsEmpty());
}

TEST_F(TimersTest, TimeNeverGoesBack) {
  EXPECT_EQ(timers_.now(kEvent), kTimeMin);
  EXPECT_THAT(Advance(100), IsEmpty());
  Register(1, 90);
  EXPECT_THAT(Advance(50), ElementsAre(90));
  EXPECT_EQ(timers_.now(kEvent), 100);
  EXPECT_EQ(timers_.now(kProcessing), kTimeMin);
}

TEST_F(TimersTest, StatisticsCountAndNameTheNext) {
  Register(1, 30);
  Register(1, 20);
  Register(2, 5, 0, kProcessing);
  TimerStatistics statistics = timers_.Statistics();
  EXPECT_EQ(statistics.pending[0], 2u);
  EXPECT_EQ(statistics.pending[1], 1u);
  EXPECT_EQ(statistics.next_due[0], 20);
  EXPECT_EQ(statistics.next_due[1], 5);
  EXPECT_GT(statistics.bytes, 0u);
  ASSERT_TRUE(timers_.Delete(kEvent, 1, 20));
  EXPECT_EQ(timers_.NextDue(kEvent), 30);
  Advance(30);
  EXPECT_EQ(timers_.NextDue(kEvent), std::nullopt);
  EXPECT_EQ(timers_.Statistics().pending[0], 0u);
}

// --- callbacks ---------------------------------------------------------------------------------

TEST_F(TimersTest, RegisteredByACallbackFireInTheirPlace) {
  Register(1, 10);
  Register(1, 30);
  const auto fired = AdvanceWith(30, kEvent, [&](const Timers::Timer& timer) {
    if (timer.time == 10) {
      Register(1, 20);
      Register(1, 31);
    }
  });
  EXPECT_THAT(fired, ElementsAre(10, 20, 30));
  EXPECT_THAT(Advance(31), ElementsAre(31));
}

TEST_F(TimersTest, RegisteredLateByACallbackFireNext) {
  Register(1, 10);
  Register(1, 30);
  const auto fired = AdvanceWith(30, kEvent, [&](const Timers::Timer& timer) {
    if (timer.time == 10) Register(1, -5);
  });
  EXPECT_THAT(fired, ElementsAre(10, -5, 30));
}

TEST_F(TimersTest, RegisteredAgainByTheirOwnCallbackWaitForTheNextAdvance) {
  Register(1, 10);
  const auto again = [&](const Timers::Timer& timer) { Register(timer.key, timer.time); };
  EXPECT_THAT(AdvanceWith(50, kEvent, again), ElementsAre(10));
  EXPECT_THAT(AdvanceWith(50, kEvent, again), ElementsAre(10));
  EXPECT_THAT(Advance(50), ElementsAre(10));
  EXPECT_EQ(timers_.size(), 0u);
}

TEST_F(TimersTest, ThatRegisterEachOtherEnd) {
  Register(1, 10);
  const auto other = [&](const Timers::Timer& timer) { Register(1, 30 - timer.time); };
  EXPECT_THAT(AdvanceWith(50, kEvent, other), ElementsAre(10, 20, 10));
  EXPECT_EQ(timers_.size(), 1u);
  EXPECT_THAT(Advance(50), ElementsAre(20));
}

TEST_F(TimersTest, ThatRegisterEverEarlierOnesEnd) {
  Register(1, 10);
  const auto earlier = [&](const Timers::Timer& timer) { Register(1, timer.time - 1); };
  EXPECT_THAT(AdvanceWith(10, kEvent, earlier), ElementsAre(10, 9));
  EXPECT_THAT(Advance(10), ElementsAre(8));
}

TEST_F(TimersTest, ARepeatingOneCatchesUp) {
  Register(1, 10);
  const auto repeat = [&](const Timers::Timer& timer) { Register(1, timer.time + 10); };
  EXPECT_THAT(AdvanceWith(45, kEvent, repeat), ElementsAre(10, 20, 30, 40));
  EXPECT_EQ(timers_.NextDue(kEvent), 50);
}

TEST_F(TimersTest, DeletedByACallbackDoNotFire) {
  Register(1, 10);
  Register(1, 20);
  const auto fired = AdvanceWith(20, kEvent, [&](const Timers::Timer& timer) {
    if (timer.time == 10) {
      EXPECT_TRUE(timers_.Delete(kEvent, 1, 20));
      EXPECT_FALSE(timers_.Delete(kEvent, 1, 10)) << "it is no longer pending";
    }
  });
  EXPECT_THAT(fired, ElementsAre(10));
}

TEST_F(TimersTest, OfTheOtherDomainRegisteredByACallbackWaitForItsTime) {
  Advance(100, kProcessing);
  Register(1, 10);
  const auto fired =
      AdvanceWith(20, kEvent, [&](const Timers::Timer&) { Register(1, 50, 0, kProcessing); });
  EXPECT_THAT(fired, ElementsAre(10));
  EXPECT_THAT(Advance(100, kProcessing), ElementsAre(50));
}

TEST_F(TimersTest, ACallbackThatFailsLeavesItsTimerAndTheLaterOnesPending) {
  for (int64_t time : {10, 20, 30}) Register(1, time);
  const Status status = timers_.Advance(kEvent, 30, [&](const Timers::Timer& timer) -> Status {
    if (timer.time == 20) return Status::Unavailable("not now");
    return {};
  });
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Advance(30), ElementsAre(20, 30));
}

TEST_F(TimersTest, ACallbackThatThrowsLeavesItsTimerPending) {
  for (int64_t time : {10, 20}) Register(1, time);
  EXPECT_THROW((void)timers_.Advance(kEvent, 30,
                                     [](const Timers::Timer&) { throw std::runtime_error("x"); }),
               std::runtime_error);
  EXPECT_EQ(timers_.Statistics().pending[0], 2u);
  EXPECT_THAT(Advance(30), ElementsAre(10, 20));
}

TEST_F(TimersTest, ACallbackCannotAdvanceItsOwnSlot) {
  Register(1, 10);
  const auto fired = AdvanceWith(10, kEvent, [&](const Timers::Timer&) {
    EXPECT_EQ(timers_.Advance(kProcessing, 1, [](const Timers::Timer&) {}).code(),
              StatusCode::kInvalidArgument);
  });
  EXPECT_THAT(fired, ElementsAre(10));
}

// --- the ends of time --------------------------------------------------------------------------

TEST_F(TimersTest, AtTheEndsOfTimeFire) {
  Register(1, kTimeMax);
  Register(1, kTimeMin);
  EXPECT_THAT(Advance(kTimeMin), ElementsAre(kTimeMin));
  EXPECT_THAT(Advance(kTimeMax - 1), IsEmpty());
  EXPECT_THAT(Advance(kTimeMax), ElementsAre(kTimeMax));
}

TEST_F(TimersTest, AtTheEndOfTimeWhatCallbacksRegisterFiresToo) {
  Register(1, 10);
  const auto fired = AdvanceWith(kTimeMax, kEvent, [&](const Timers::Timer& timer) {
    if (timer.time < 1000) Register(1, timer.time + 600);
  });
  EXPECT_THAT(fired, ElementsAre(10, 610, 1210));
}

TEST_F(TimersTest, ARepeatingOneAtTheEndOfTimeIsAnErrorThatSaysSo) {
  Register(1, 10);
  Register(2, kTimeMax);
  const Status status = timers_.Advance(kEvent, kTimeMax, [&](const Timers::Timer& timer) {
    return timers_.Register(kEvent, timer.key, TimeAfter(timer.time, 60000), timer.ns);
  });
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.ToString(), HasSubstr("end of time"));
  EXPECT_THAT(status.ToString(), HasSubstr("sink/window/0"));
  EXPECT_EQ(timers_.size(), 2u) << "what was pending stays so";
}

TEST(TimeAfter, IsHeldAtTheEndsOfTime) {
  EXPECT_EQ(TimeAfter(5, -7), -2);
  EXPECT_EQ(TimeAfter(kTimeMax - 1, 5), kTimeMax);
  EXPECT_EQ(TimeAfter(kTimeMin + 1, -5), kTimeMin);
}

TEST(TimeFloor, RoundsTowardsThePast) {
  EXPECT_EQ(TimeFloor(19, 10), 10);
  EXPECT_EQ(TimeFloor(20, 10), 20);
  EXPECT_EQ(TimeFloor(-1, 10), -10);
  EXPECT_EQ(TimeFloor(-10, 10), -10);
  EXPECT_EQ(TimeFloor(kTimeMin, 10), kTimeMin);
  EXPECT_EQ(TimeFloor(kTimeMax, kTimeMax), kTimeMax);
  EXPECT_EQ(TimeFloor(kTimeMin, kTimeMax), kTimeMin);
}

// --- memory ------------------------------------------------------------------------------------

TEST_F(TimersTest, DeletedByTheThousandKeepNoMemory) {
  const auto domain = StateDomain::Create({.budget = &budget_, .track_deltas = false});
  Timers timers(domain.get(), TimerSlot());
  ASSERT_TRUE(timers.Register(kEvent, 1, 1 << 30).ok());
  for (int64_t i = 0; i < 200000; ++i) {
    ASSERT_TRUE(timers.Register(kEvent, 2, i).ok());
    ASSERT_TRUE(timers.Delete(kEvent, 2, i));
  }
  EXPECT_LT(timers.MemoryBytes(), 256u * 1024);
  EXPECT_EQ(timers.NextDue(kEvent), 1 << 30);
}

TEST_F(TimersTest, OverTheBudgetAreRefusedAndNothingChanges) {
  Register(0, 0);
  budget_.set_limit(budget_.total() + (1 << 20));
  int64_t next = 1;
  Status status;
  while ((status = timers_.Register(kEvent, next, next)).ok()) ASSERT_LT(++next, 1000000);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(timers_.IsPending(kEvent, next, next));
  EXPECT_EQ(timers_.size(), static_cast<uint64_t>(next));
  EXPECT_EQ(Advance(kTimeMax - 1).size(), static_cast<size_t>(next));
}

TEST_F(TimersTest, AreChargedToTheBudgetWithTheirHeap) {
  MemoryBudget budget(0);
  auto domain = StateDomain::Create({.budget = &budget});
  auto timers = std::make_unique<Timers>(domain.get(), TimerSlot());
  for (int64_t i = 0; i < 5000; ++i) ASSERT_TRUE(timers->Register(kEvent, i, i).ok());
  EXPECT_GT(budget.total(), timers->MemoryBytes() - 4096);
  EXPECT_GT(timers->MemoryBytes(), timers->size() * (sizeof(detail::TimerEntry) + 48));
  timers.reset();
  domain.reset();
  EXPECT_EQ(budget.total(), 0u);
}

TEST_F(TimersTest, OfAKeyOfAnotherSubtaskAreRefused) {
  Timers half(domain_.get(), TimerSlot(), {.range = {0, 64}});
  int64_t key = 0;
  while (KeyGroupOf({reinterpret_cast<const char*>(&key), 8}, 128) < 64) ++key;
  EXPECT_EQ(half.Register(kEvent, key, 1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(half.size(), 0u);
}

}  // namespace
}  // namespace cairn

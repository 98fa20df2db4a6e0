// SPDX-License-Identifier: Apache-2.0
//
// Timers that are saved and come back, and the fault cases that timers answer.
#include "cairn/timers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "model_world.h"

namespace cairn {
namespace {

using model::MemorySink;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr KeyGroupRange kEveryGroup{0, kMaxKeyGroups};
constexpr int64_t kFirstTime = std::numeric_limits<int64_t>::min();
constexpr int64_t kLastTime = std::numeric_limits<int64_t>::max();

/// Timers of one subtask.
struct TimersSubtask {
  using Timers = TimerService<int64_t, int64_t>;

  explicit TimersSubtask(KeyGroupRange range = {}, uint32_t key_groups = 128)
      : domain(StateDomain::Create({})),
        timers(domain.get(), Descriptor(), {.key_groups = key_groups, .range = range}) {}
  static SlotDescriptor Descriptor() {
    SlotDescriptor descriptor;
    descriptor.operator_uid = "sink/window/0";
    descriptor.name = "timers";
    descriptor.key_codec = "int64";
    descriptor.value_codec = "int64";
    return descriptor;
  }

  void Register(int64_t key, int64_t time, int64_t ns = 0) {
    const Status status = timers.Register(TimeDomain::kEvent, key, time, ns);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  std::vector<int64_t> Advance(int64_t time) {
    std::vector<int64_t> fired;
    const Status status = timers.Advance(
        TimeDomain::kEvent, time, [&](const Timers::Timer& timer) { fired.push_back(timer.time); });
    EXPECT_TRUE(status.ok()) << status.ToString();
    return fired;
  }
  std::unique_ptr<MemorySink> Save() {
    auto sink = std::make_unique<MemorySink>();
    EXPECT_TRUE(timers.EncodeBase(domain->Capture(), kEveryGroup, sink.get()).ok());
    return sink;
  }
  Status Load(const MemorySink& sink) {
    LoadCounts counts;
    for (const auto& part : sink.parts()) {
      CAIRN_RETURN_IF_ERROR(timers.Load(part->rows.Span(), 2, 2, &counts));
    }
    return {};
  }

  std::unique_ptr<StateDomain> domain;
  Timers timers;
};

TEST(SavedTimers, AreKeysAloneUnderTheGroupOfTheUserKey) {
  TimersSubtask subtask;
  subtask.Register(42, 5, -1);
  const auto sink = subtask.Save();
  ASSERT_EQ(sink->parts().size(), 1u);
  const SavedRowSpan rows = sink->parts()[0]->rows.Span();
  ASSERT_EQ(rows.rows, 1u);
  EXPECT_EQ(sink->parts()[0]->group, KeyGroupOf(std::string("\x2a\0\0\0\0\0\0\0", 8), 128));
  EXPECT_EQ(rows.key(0).substr(2), std::string("\0\0\0\x08"
                                               "\x2a\0\0\0\0\0\0\0"
                                               "\x01\0"
                                               "\x80\0\0\0\0\0\0\x05"
                                               "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
                                               30));
  EXPECT_EQ(rows.value(0), "");
}

TEST(SavedTimers, OfADeltaAreThoseThatCameOrWent) {
  TimersSubtask subtask;
  for (int64_t i = 0; i < 1000; ++i) subtask.Register(i, i);
  const View base = subtask.domain->Capture();
  subtask.domain->SetCommitted(base.epoch());
  subtask.Register(2000, 5000);
  EXPECT_TRUE(subtask.timers.Delete(TimeDomain::kEvent, 900, 900));
  EXPECT_THAT(subtask.Advance(1), ElementsAre(0, 1));
  MemorySink sink;
  ASSERT_TRUE(
      subtask.timers.EncodeDelta(subtask.domain->Capture(), base.epoch(), kEveryGroup, &sink).ok());
  int puts = 0;
  int erases = 0;
  for (const auto& part : sink.parts()) {
    const SavedRowSpan rows = part->rows.Span();
    for (size_t i = 0; i < rows.rows; ++i) {
      ++(rows.kind(i) == SavedRowKind::kErase ? erases : puts);
    }
  }
  EXPECT_EQ(puts, 1);
  EXPECT_EQ(erases, 3);
}

TEST(SavedTimers, ACutFromACallbackHoldsTheTimersThatHaveNotFired) {
  TimersSubtask subtask;
  for (int64_t time : {10, 20, 30}) subtask.Register(1, time);
  MemorySink sink;
  ASSERT_TRUE(subtask.timers
                  .Advance(TimeDomain::kEvent, 100,
                           [&](const TimersSubtask::Timers::Timer& timer) -> Status {
                             if (timer.time != 20) return {};
                             return subtask.timers.EncodeBase(subtask.domain->Capture(),
                                                              kEveryGroup, &sink);
                           })
                  .ok());
  TimersSubtask restored;
  ASSERT_TRUE(restored.Load(sink).ok());
  EXPECT_THAT(restored.Advance(100), ElementsAre(30));
}

TEST(SavedTimers, OfAnotherGroupOrShapeAreCorruption) {
  const auto load = [](uint32_t group, std::string_view key, std::string_view value) {
    SavedRows rows;
    rows.SetKeyPrefix(MemorySink::Prefix(group));
    const SavedRows::Slot at = rows.Append(SavedRowKind::kMaterialised, key.size(), value.size());
    std::copy(key.begin(), key.end(), at.key);
    std::copy(value.begin(), value.end(), at.value);
    TimersSubtask subtask;
    LoadCounts counts;
    return subtask.timers.Load(rows.Span(), 2, 2, &counts);
  };
  TimersSubtask subtask;
  subtask.Register(42, 5, -1);
  const auto sink = subtask.Save();
  const uint32_t group = sink->parts()[0]->group;
  const std::string good(sink->parts()[0]->rows.Span().key(0).substr(2));
  ASSERT_TRUE(load(group, good, "").ok());
  EXPECT_EQ(load(group + 1, good, "").code(), StatusCode::kCorruption);
  EXPECT_EQ(load(group, good, "x").code(), StatusCode::kCorruption);
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_EQ(load(group, good.substr(0, bytes), "").code(), StatusCode::kCorruption) << bytes;
  }
  std::string bad = good;
  bad[13] = 2;  // a third time domain
  const Status status = load(group, bad, "");
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(status.ToString(), HasSubstr("sink/window/0"));
  bad = good;
  bad[0] = '\x7f';  // a user key of 2 GiB
  EXPECT_EQ(load(group, bad, "").code(), StatusCode::kCorruption);
}

TEST(SavedTimers, ThatTheBudgetCannotHoldAreRefusedAtLoad) {
  TimersSubtask subtask;
  for (int64_t i = 0; i < 20000; ++i) subtask.Register(i, i);
  const auto sink = subtask.Save();
  MemoryBudget budget(1 << 20);
  auto domain = StateDomain::Create({.budget = &budget});
  TimersSubtask::Timers timers(domain.get(), TimersSubtask::Descriptor());
  Status status;
  LoadCounts counts;
  for (const auto& part : sink->parts()) {
    status = timers.Load(part->rows.Span(), 2, 2, &counts);
    if (!status.ok()) break;
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
}

// --- fault cases -------------------------------------------------------------------------------

TEST(TimerFaults, Case50ATimerAtOrBeforeNowFiresOnceInOrder) {
  TimersSubtask subtask;
  EXPECT_THAT(subtask.Advance(100), IsEmpty());
  for (int64_t time : {50, 100, 101, -5}) subtask.Register(time, time);
  const auto sink = subtask.Save();
  const auto check = [](TimersSubtask* of) {
    EXPECT_THAT(of->Advance(100), ElementsAre(-5, 50, 100));
    EXPECT_THAT(of->Advance(100), IsEmpty());
    EXPECT_THAT(of->Advance(101), ElementsAre(101));
    EXPECT_THAT(of->Advance(kLastTime), IsEmpty());
  };
  check(&subtask);

  TimersSubtask restored;
  ASSERT_TRUE(restored.Load(*sink).ok());
  EXPECT_THAT(restored.Advance(-100), IsEmpty());
  check(&restored);

  for (uint32_t q = 1; q <= 16; ++q) {
    std::vector<int64_t> at_100;
    std::vector<int64_t> at_101;
    for (uint32_t i = 0; i < q; ++i) {
      TimersSubtask rescaled(KeyGroupsOfSubtask(i, q, 128));
      ASSERT_TRUE(rescaled.Load(*sink).ok());
      const auto first = rescaled.Advance(100);
      EXPECT_TRUE(std::is_sorted(first.begin(), first.end()));
      at_100.insert(at_100.end(), first.begin(), first.end());
      const auto second = rescaled.Advance(101);
      at_101.insert(at_101.end(), second.begin(), second.end());
      EXPECT_THAT(rescaled.Advance(kLastTime), IsEmpty());
    }
    EXPECT_THAT(at_100, testing::UnorderedElementsAre(-5, 50, 100)) << q;
    EXPECT_THAT(at_101, ElementsAre(101)) << q;
  }
}

TEST(TimerFaults, Case53ExtremeTimesAreHeldAtTheEndsAndCleanUpEnds) {
  // A window of size 10 and its cleanup timer, for rows at the ends of time and around 0.
  struct Case {
    int64_t row, start, end;
  };
  for (const Case& c :
       {Case{-1, -10, 0}, Case{-10, -10, 0}, Case{0, 0, 10},
        Case{kFirstTime, kFirstTime, kFirstTime + 10}, Case{kLastTime, kLastTime - 7, kLastTime}}) {
    const int64_t start = TimeFloor(c.row, 10);
    const int64_t end = TimeAfter(start, 10);
    EXPECT_EQ(start, c.start);
    EXPECT_EQ(end, c.end);
    TimersSubtask subtask;
    const int64_t cleanup = TimeAfter(end, kLastTime - 5);  // an allowed lateness without end
    subtask.Register(1, cleanup);
    // The callback puts the next cleanup after this one, which the end of time does not allow.
    const auto cleaning = [&](const TimersSubtask::Timers::Timer& timer) {
      subtask.Register(1, TimeAfter(timer.time, kLastTime));
    };
    int fired = 0;
    ASSERT_TRUE(subtask.timers
                    .Advance(TimeDomain::kEvent, kLastTime,
                             [&](const TimersSubtask::Timers::Timer& timer) {
                               ASSERT_LT(++fired, 10);
                               cleaning(timer);
                             })
                    .ok());
    EXPECT_GE(fired, 1);
    EXPECT_EQ(subtask.timers.size(), 1u) << "the one at the end of time has not fired itself anew";
  }
}

}  // namespace
}  // namespace cairn

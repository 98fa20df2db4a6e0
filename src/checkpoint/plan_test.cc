// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/state_domain.h"
#include "checkpoint/job_testing.h"

namespace cairn::checkpoint {
namespace {

using testing::ModelTable;
using testing::SlotOf;

/// Builds the manifest of a base cut: frames and objects by hand.
class PlanTest : public ::testing::Test {
 protected:
  PlanTest() {
    base_.checkpoint_id = base::CheckpointId(9);
    base_.node_data.chunk.checkpoint_id = base_.checkpoint_id;
    base_.parallelism = 1;
    captured_.parallelism = 1;
    captured_.subtasks.resize(1);
    captured_.subtasks[0].committed_epoch = 3;
  }

  ModelTable* AddOperator(const std::string& uid) {
    const state::SlotDescriptor slot = SlotOf(uid);
    tables_.push_back(std::make_unique<ModelTable>(slot, KeyGroupRange{0, 128}, 128, 7));
    captured_.subtasks[0].tables.push_back(tables_.back().get());
    format::OperatorRecord record;
    record.operator_id = slot.operator_id;
    record.uid = uid;
    record.slots = {ToSlotRecord(slot)};
    base_.operators.push_back(record);
    return tables_.back().get();
  }

  void AddFrame(const std::string& uid, uint64_t chunk, uint64_t bytes, bool delta) {
    format::StateFrame frame;
    frame.key.operator_id = base::OperatorIdOf(uid);
    frame.delta = delta;
    frame.chunk.checkpoint_id = base::CheckpointId(chunk);
    frame.range = {0, bytes};
    base_.state_frames.push_back(frame);
    lengths_[chunk] += bytes;
  }

  /// Objects get the length of their live frames, and `dead` more.
  void Objects(std::map<uint64_t, uint64_t> dead = {}) {
    base_.referenced_chunks.clear();
    for (const auto& [chunk, length] : lengths_) {
      const uint64_t whole = length + dead[chunk];
      if (chunk == base_.checkpoint_id.value) {
        base_.node_data.object_length = whole;
      } else {
        base_.referenced_chunks.push_back(
            {{1, base::CheckpointId(chunk)}, whole, base::Sha256::Of({}), 1});
      }
    }
  }

  bool IsDelta(const std::string& uid, PlanOptions options = {}) {
    Result<CutPlan> plan = PlanCut(captured_, &base_, options);
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    for (const OperatorPlan& one : plan->operators) {
      if (one.uid == uid) return one.delta;
    }
    ADD_FAILURE() << "no plan for " << uid;
    return false;
  }

  format::CheckpointManifest base_;
  CapturedCut captured_;
  std::vector<std::unique_ptr<ModelTable>> tables_;
  std::map<uint64_t, uint64_t> lengths_;
};

TEST_F(PlanTest, TheFirstCutIsWrittenWhole) {
  AddOperator("a");
  Result<CutPlan> plan = PlanCut(captured_, nullptr, {});
  ASSERT_TRUE(plan.ok());
  EXPECT_FALSE(plan->operators[0].delta);
  EXPECT_FALSE(plan->with_row_kind);
  EXPECT_TRUE(plan->rewrite_operator_state);
}

TEST_F(PlanTest, AnOperatorWithABaseGetsADelta) {
  AddOperator("a");
  AddFrame("a", 5, 1000, false);
  Objects();
  EXPECT_TRUE(IsDelta("a"));
}

TEST_F(PlanTest, ASubtaskThatIsInNoCommittedCutMakesABase) {
  AddOperator("a");
  AddFrame("a", 5, 1000, false);
  Objects();
  captured_.subtasks[0].committed_epoch.reset();
  EXPECT_FALSE(IsDelta("a"));
}

TEST_F(PlanTest, AnOperatorSavedWithoutRowsGetsABase) {
  AddOperator("a");
  Objects();
  EXPECT_FALSE(IsDelta("a"));
}

TEST_F(PlanTest, AChangedSlotMakesABase) {
  AddOperator("a");
  AddFrame("a", 5, 1000, false);
  Objects();
  base_.operators[0].slots[0].version = 2;
  EXPECT_FALSE(IsDelta("a"));
}

/// A slot whose TTL goes by the watermark, in two subtasks that got so far.
class PlanTtlTest : public PlanTest {
 protected:
  PlanTtlTest() {
    slot_.ttl.ttl_ms = 100;
    captured_.parallelism = base_.parallelism = 2;
    captured_.subtasks.resize(2);
    for (size_t i = 0; i < 2; ++i) {
      captured_.subtasks[i].committed_epoch = 3;
      tables_.push_back(std::make_unique<ModelTable>(
          slot_, KeyGroupRange{static_cast<uint32_t>(i) * 64, static_cast<uint32_t>(i) * 64 + 64},
          128, 7));
      captured_.subtasks[i].tables.push_back(tables_.back().get());
      domains_.push_back(StateDomain::Create({}));
    }
  }
  void Capture() {
    for (size_t i = 0; i < 2; ++i) captured_.subtasks[i].view = domains_[i]->Capture();
  }
  format::SlotRecord Planned() {
    Result<CutPlan> plan = PlanCut(captured_, nullptr, {});
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return plan->operators.front().slots.front();
  }

  state::SlotDescriptor slot_ = SlotOf("a");
  std::vector<std::unique_ptr<StateDomain>> domains_;
};

TEST_F(PlanTtlTest, TheTimeThatAllSubtasksHadReachedIsSaved) {
  domains_[0]->AdvanceEventTime(40);
  Capture();
  EXPECT_EQ(Planned().ttl_time_ms, std::nullopt) << "one has no time yet";
  EXPECT_EQ(Planned().ttl_first_ms, std::nullopt);
  domains_[1]->AdvanceEventTime(50);
  domains_[1]->AdvanceEventTime(60);
  Capture();
  EXPECT_EQ(Planned().ttl_time_ms, 40);
  EXPECT_EQ(Planned().ttl_first_ms, 50);
}

TEST_F(PlanTtlTest, AClockThatWentOnMakesNoBase) {
  for (const auto& domain : domains_) domain->AdvanceEventTime(40);
  Capture();
  format::OperatorRecord record;
  record.operator_id = slot_.operator_id;
  record.uid = "a";
  record.slots = {Planned()};
  base_.operators.push_back(record);
  AddFrame("a", 5, 1000, false);
  Objects();
  for (const auto& domain : domains_) domain->AdvanceEventTime(50);
  Capture();
  EXPECT_TRUE(IsDelta("a"));
  base_.operators[0].slots[0].ttl_ms = 99;
  EXPECT_FALSE(IsDelta("a")) << "the same rows read otherwise";
}

TEST_F(PlanTest, DeltasOfHalfTheBaseAreStillFineAndOneByteMoreIsNot) {
  AddOperator("a");
  AddFrame("a", 5, 1000, false);
  AddFrame("a", 6, 500, true);
  Objects();
  EXPECT_TRUE(IsDelta("a"));
  AddFrame("a", 7, 1, true);
  Objects();
  EXPECT_FALSE(IsDelta("a"));
}

TEST_F(PlanTest, AChangelogWaitsFor64KiBOfDeltasOrHalfABaseThatIsLarger) {
  const PlanOptions changelog{.rebase_bytes_min = 64 << 10};
  AddOperator("small");
  AddOperator("large");
  AddFrame("small", 5, 1000, false);
  AddFrame("large", 5, 1'000'000, false);
  AddFrame("small", 6, 64 << 10, true);
  AddFrame("large", 6, 500'000, true);
  Objects();
  EXPECT_FALSE(IsDelta("small"));
  EXPECT_TRUE(IsDelta("small", changelog));
  EXPECT_TRUE(IsDelta("large", changelog));
  AddFrame("small", 7, 1, true);
  AddFrame("large", 7, 1, true);
  Objects();
  EXPECT_FALSE(IsDelta("small", changelog));
  EXPECT_FALSE(IsDelta("large", changelog));
}

TEST_F(PlanTest, ARequestedMaterialisationMakesABaseOfEverything) {
  AddOperator("a");
  AddFrame("a", 5, 1000, false);
  Objects();
  EXPECT_TRUE(IsDelta("a"));
  EXPECT_FALSE(IsDelta("a", {.rebase_all = true}));
}

TEST_F(PlanTest, EightDeltasAreTheMost) {
  AddOperator("a");
  AddFrame("a", 1, 1'000'000, false);
  for (uint64_t chunk = 2; chunk <= 8; ++chunk) AddFrame("a", chunk, 1, true);
  Objects();
  EXPECT_TRUE(IsDelta("a"));
  AddFrame("a", 9, 1, true);
  Objects();
  EXPECT_FALSE(IsDelta("a"));
}

TEST_F(PlanTest, AMostlyDeadObjectIsLeftWhenThatFreesWhatItCosts) {
  AddOperator("small");
  AddFrame("small", 1, 1000, false);
  Objects({{1, 900}});
  EXPECT_TRUE(IsDelta("small"));  // 900 of 1,900 bytes dead: less than half
  Objects({{1, 1100}});
  EXPECT_FALSE(IsDelta("small"));
}

TEST_F(PlanTest, ASmallOperatorsRebaseDoesNotDragALargeOneAlong) {
  AddOperator("large");
  AddOperator("small");
  AddFrame("large", 1, 1'000'000, false);
  AddFrame("small", 2, 1000, false);
  // Both have a delta in object 3; that of the small one is due for a new base.
  AddFrame("large", 3, 10, true);
  AddFrame("small", 3, 600, true);
  Objects();
  EXPECT_FALSE(IsDelta("small"));
  EXPECT_TRUE(IsDelta("large"));
}

TEST_F(PlanTest, TheSmallOneLeavesAnObjectThatALargeOneLeft) {
  AddOperator("large");
  AddOperator("small");
  AddFrame("large", 1, 1'000'000, false);
  AddFrame("small", 1, 1000, false);
  AddFrame("large", 2, 600'000, true);
  Objects();
  EXPECT_FALSE(IsDelta("large"));
  EXPECT_FALSE(IsDelta("small"));  // else a million dead bytes stay for a thousand
}

TEST_F(PlanTest, TooManyObjectsMakeBases) {
  AddOperator("a");
  AddOperator("b");
  for (uint64_t chunk = 1; chunk <= 4; ++chunk) {
    AddFrame("a", chunk, 1'000'000 >> (chunk == 1 ? 0 : 15), chunk > 1);
  }
  AddFrame("b", 5, 1000, false);
  Objects();
  EXPECT_TRUE(IsDelta("a", {.rebase_chunks = 6}));
  EXPECT_FALSE(IsDelta("a", {.rebase_chunks = 5}));
  EXPECT_TRUE(IsDelta("b", {.rebase_chunks = 5}));
}

TEST_F(PlanTest, AnOperatorThatIsNotCapturedIsRefused) {
  AddOperator("a");
  AddOperator("b");
  captured_.subtasks[0].tables.pop_back();
  const Status refused = PlanCut(captured_, &base_, {}).status();
  EXPECT_EQ(refused.code(), StatusCode::kInternal);
  EXPECT_THAT(refused.message(), ::testing::HasSubstr("operator b"));
}

TEST_F(PlanTest, TwoTablesOfOneSlotAreRefused) {
  AddOperator("a");
  captured_.subtasks[0].tables.push_back(tables_[0].get());
  EXPECT_EQ(PlanCut(captured_, &base_, {}).status().code(), StatusCode::kInternal);
}

TEST_F(PlanTest, SubtasksThatDeclareASlotDifferentlyAreRefused) {
  AddOperator("a");
  state::SlotDescriptor other = SlotOf("a");
  other.version = 2;
  ModelTable table(other, {0, 128}, 128, 7);
  captured_.subtasks.push_back({1, {&table}, {}, 3});
  EXPECT_EQ(PlanCut(captured_, &base_, {}).status().code(), StatusCode::kInternal);
}

TEST_F(PlanTest, OnlyABaseHasAFrameForEveryGroup) {
  state::SlotDescriptor slot = SlotOf("a");
  slot.frame_per_group = true;
  ModelTable table(slot, {0, 128}, 128, 7);
  captured_.subtasks[0].tables = {&table};
  Result<CutPlan> plan = PlanCut(captured_, nullptr, {});
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->operators[0].frame_per_group);
  format::OperatorRecord record;
  record.operator_id = slot.operator_id;
  record.uid = "a";
  record.slots = {ToSlotRecord(slot)};
  base_.operators = {record};
  AddFrame("a", 5, 1000, false);
  Objects();
  plan = PlanCut(captured_, &base_, {});
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->operators[0].delta);
  EXPECT_FALSE(plan->operators[0].frame_per_group);
}

TEST_F(PlanTest, AnotherParallelismRewritesOperatorState) {
  AddOperator("a");
  AddFrame("a", 5, 1000, false);
  Objects();
  EXPECT_FALSE(PlanCut(captured_, &base_, {})->rewrite_operator_state);
  base_.parallelism = 2;
  EXPECT_TRUE(PlanCut(captured_, &base_, {})->rewrite_operator_state);
}

}  // namespace
}  // namespace cairn::checkpoint

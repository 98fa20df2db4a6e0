// SPDX-License-Identifier: Apache-2.0
//
// What a changed job takes over from a saved one, and what it refuses to lose.
#include "engine/restore_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"
#include "checkpoint/plan.h"

namespace cairn::engine {
namespace {

using checkpoint::Pipeline;
using ::testing::HasSubstr;
using ::testing::Not;

SlotDescriptor Slot(const std::string& uid, const std::string& name = "agg") {
  SlotDescriptor slot;
  slot.operator_uid = uid;
  slot.operator_id = base::OperatorIdOf(uid);
  slot.name = name;
  slot.key_codec = "row";
  slot.key_columns = {{"auction", "bigint", true}};
  slot.value_codec = "row";
  slot.value_columns = {{"count", "bigint", false}};
  return slot;
}

class RestorePlanTest : public ::testing::Test {
 protected:
  RestorePlanTest() {
    saved_.components = {{"source", "bid", R"({"path":"b"})", false},
                         {"operator", "counts/calc/0", R"({"text":"price > 1"})", false},
                         {"operator", "counts/group-aggregate/1", R"({"keys":["auction"]})", false},
                         {"sink", "counts", R"({"path":"c"})", true}};
    now_ = saved_;
    manifest_.key_groups = 128;
    manifest_.source_names = {"bid"};
    manifest_.source_offsets["bid"].offsets["b#0"].ended = true;
    manifest_.source_offsets["bid"].offsets["b#1"].position = "17";
    manifest_.prepared_sinks.push_back({.sink_name = "counts"});
    SaveSlot(Slot("counts/group-aggregate/1"));
    slots_ = {Slot("counts/group-aggregate/1")};
  }

  void SaveSlot(const SlotDescriptor& slot) {
    manifest_.operators.push_back(
        {slot.operator_id, slot.operator_uid, {checkpoint::ToSlotRecord(slot)}});
  }

  RestorePlan Plan(const RestoreConsent& consent = {}) {
    auto plan = PlanRestore(saved_, manifest_, now_, slots_, key_groups_, consent);
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return plan.ok() ? *std::move(plan) : RestorePlan();
  }

  static const RestoreItem& Find(const RestorePlan& plan, const std::string& kind,
                                 const std::string& name) {
    static const RestoreItem kNone;
    for (const RestoreItem& item : plan.items) {
      if (item.kind == kind && item.name == name) return item;
    }
    ADD_FAILURE() << "no " << kind << " " << name;
    return kNone;
  }

  /// The job's sink and what is before it are called `name` now.
  void RenameSink(const std::string& name) {
    now_.components[1].name = name + "/calc/0";
    now_.components[2].name = name + "/group-aggregate/1";
    now_.components[3].name = name;
    slots_ = {Slot(name + "/group-aggregate/1")};
  }

  Pipeline saved_;
  Pipeline now_;
  format::CheckpointManifest manifest_;
  std::vector<SlotDescriptor> slots_;
  uint32_t key_groups_ = 128;
};

TEST_F(RestorePlanTest, TheSameJobKeepsEverything) {
  const RestorePlan plan = Plan();
  EXPECT_TRUE(plan.restorable()) << plan.Refusals();
  EXPECT_EQ(Find(plan, "source", "bid").says, "1 of 2 splits done");
  EXPECT_EQ(Find(plan, "slot", "counts/group-aggregate/1").fate, Fate::kKept);
  EXPECT_EQ(Find(plan, "sink", "counts").says, "1 prepared piece");
  EXPECT_TRUE(plan.mapping.operators.empty());
  EXPECT_TRUE(plan.mapping.sources.empty());
  EXPECT_TRUE(plan.given_up_sinks.empty());
}

TEST_F(RestorePlanTest, WhatWouldBeLostIsRefusedUntilItIsGivenUpByName) {
  saved_.components.push_back({"operator", "top/top-n/0", R"({"limit":3})", false});
  SaveSlot(Slot("top/top-n/0", "topn"));
  const RestorePlan refused = Plan();
  EXPECT_FALSE(refused.restorable());
  EXPECT_THAT(refused.Refusals(), HasSubstr("--allow-non-restored top/top-n/0.topn"));
  EXPECT_THAT(refused.Refusals(), Not(HasSubstr("--rename")));
  for (const std::string& name : {std::string("top/top-n/0"), std::string("top/top-n/0.topn"),
                                  base::ToHex16(base::OperatorIdOf("top/top-n/0"))}) {
    RestoreConsent consent;
    consent.non_restored = {name};
    const RestorePlan plan = Plan(consent);
    EXPECT_TRUE(plan.restorable()) << name << ": " << plan.Refusals();
    EXPECT_EQ(Find(plan, "slot", "top/top-n/0").fate, Fate::kDropped);
    EXPECT_TRUE(plan.mapping.LeavesOut(base::OperatorIdOf("top/top-n/0"), "topn"));
  }
}

TEST_F(RestorePlanTest, ANameThatNothingHasIsNoConsent) {
  RestoreConsent consent;
  consent.non_restored = {"counts/group-aggregate/1.nope"};
  const auto plan = PlanRestore(saved_, manifest_, now_, slots_, 128, consent);
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("nothing of that name"));
}

TEST_F(RestorePlanTest, ARenamedSinkIsSuspectedAndTakenOverOnTheUsersWord) {
  RenameSink("totals");
  const RestorePlan refused = Plan();
  EXPECT_THAT(refused.Refusals(), HasSubstr("--rename counts=totals takes it over"));
  RestoreConsent consent;
  consent.renames = {"counts=totals"};
  const RestorePlan plan = Plan(consent);
  EXPECT_TRUE(plan.restorable()) << plan.Refusals();
  const RestoreItem& slot = Find(plan, "slot", "totals/group-aggregate/1");
  EXPECT_EQ(slot.fate, Fate::kMoved);
  EXPECT_EQ(slot.saved_as, "counts/group-aggregate/1");
  EXPECT_EQ(Find(plan, "sink", "totals").fate, Fate::kRenamed);
  EXPECT_EQ(plan.mapping.OperatorFor(base::OperatorIdOf("counts/group-aggregate/1")),
            base::OperatorIdOf("totals/group-aggregate/1"));
}

TEST_F(RestorePlanTest, AnOperatorWhosePlaceInItsStatementChangedIsRenamedByItsUid) {
  now_.components.erase(now_.components.begin() + 1);  // the calc before it is gone
  now_.components[1].name = "counts/group-aggregate/0";
  slots_ = {Slot("counts/group-aggregate/0")};
  EXPECT_THAT(Plan().Refusals(),
              HasSubstr("--rename counts/group-aggregate/1=counts/group-aggregate/0"));
  RestoreConsent consent;
  consent.renames = {"counts/group-aggregate/1=counts/group-aggregate/0"};
  // It looks like the same, and counts rows now that the calc left out.
  EXPECT_THAT(Find(Plan(consent), "slot", "counts/group-aggregate/0").refusal,
              HasSubstr("such as a WHERE before it"));
  consent.accept_changes = true;
  const RestorePlan plan = Plan(consent);
  EXPECT_TRUE(plan.restorable()) << plan.Refusals();
  EXPECT_EQ(Find(plan, "slot", "counts/group-aggregate/0").fate, Fate::kMoved);
  EXPECT_EQ(Find(plan, "operator", "counts/calc/0").fate, Fate::kDropped);
}

TEST_F(RestorePlanTest, RenamesThatMeanNothingOrTheSameAreErrors) {
  for (const std::string text : {"counts", "=x", "x=", "nope=counts", "counts=nope"}) {
    RestoreConsent consent;
    consent.renames = {text};
    EXPECT_EQ(PlanRestore(saved_, manifest_, now_, slots_, 128, consent).status().code(),
              StatusCode::kInvalidArgument)
        << text;
  }
  saved_.components.push_back({"sink", "other", "{}", true});
  RestoreConsent consent;
  consent.renames = {"other=counts"};  // which the saved counts is, too
  EXPECT_EQ(PlanRestore(saved_, manifest_, now_, slots_, 128, consent).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(RestorePlanTest, ARedefinedOperatorNeedsTheUsersWord) {
  now_.components[1].definition = R"({"text":"price > 2"})";
  EXPECT_THAT(Plan().Refusals(), HasSubstr("--accept-changes"));
  const RestorePlan plan = Plan({.accept_changes = true});
  EXPECT_TRUE(plan.restorable());
  EXPECT_EQ(Find(plan, "operator", "counts/calc/0").fate, Fate::kRedefined);
}

TEST_F(RestorePlanTest, AddedColumnsAreMigratedAndOthersRefused) {
  slots_[0].value_columns.push_back({"sum", "bigint", true});
  const RestorePlan plan = Plan();
  EXPECT_TRUE(plan.restorable()) << plan.Refusals();
  EXPECT_EQ(Find(plan, "slot", "counts/group-aggregate/1").fate, Fate::kMigrated);
  slots_[0].value_columns = {{"count", "text", true}};
  EXPECT_THAT(Plan().Refusals(), HasSubstr("was saved as row version 1"));
  RestoreConsent consent;
  consent.non_restored = {"counts/group-aggregate/1.agg"};
  const RestorePlan given_up = Plan(consent);
  EXPECT_TRUE(given_up.restorable()) << given_up.Refusals();
  EXPECT_TRUE(given_up.mapping.LeavesOut(base::OperatorIdOf("counts/group-aggregate/1"), "agg"));
}

TEST_F(RestorePlanTest, OffsetsOfASourceThatIsGoneAreState) {
  now_.components[0].name = "other";
  now_.components[0].definition = R"({"path":"o"})";
  EXPECT_THAT(Plan().Refusals(), HasSubstr("its offsets would be lost"));
  RestoreConsent consent;
  consent.non_restored = {"bid"};
  const RestorePlan plan = Plan(consent);
  EXPECT_TRUE(plan.restorable()) << plan.Refusals();
  EXPECT_EQ(plan.mapping.sources.at("bid"), "");
  EXPECT_EQ(Find(plan, "source", "other").fate, Fate::kNew);
}

TEST_F(RestorePlanTest, PreparedRowsOfAChangedSinkArePublishedUnlessTheyAreGivenUpByName) {
  now_.components[3].definition = R"({"path":"elsewhere"})";
  const RestorePlan plan = Plan();
  EXPECT_TRUE(plan.restorable()) << plan.Refusals();
  EXPECT_EQ(Find(plan, "sink", "counts").fate, Fate::kRedefined);
  EXPECT_EQ(Find(plan, "sink", "counts").says, "1 prepared piece, published as it was saved");
  EXPECT_TRUE(plan.given_up_sinks.empty());
  RestoreConsent consent;
  consent.non_restored = {"counts"};
  consent.accept_changes = true;
  const RestorePlan given_up = Plan(consent);
  EXPECT_THAT(given_up.given_up_sinks, testing::ElementsAre("counts"));
  EXPECT_EQ(Find(given_up, "sink", "counts").says, "1 prepared piece, given up, as allowed");
}

TEST_F(RestorePlanTest, OtherKeyGroupsAreRefused) {
  key_groups_ = 256;
  EXPECT_THAT(Plan().Refusals(), HasSubstr("--set state.key_groups=128"));
}

}  // namespace
}  // namespace cairn::engine

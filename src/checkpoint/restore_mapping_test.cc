// SPDX-License-Identifier: Apache-2.0
//
// A cut restored by a job that is not quite the one that saved it: nothing goes astray unsaid.
#include "checkpoint/restore_mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/job_testing.h"
#include "checkpoint/loaded_cut.h"
#include "checkpoint/place.h"
#include "env/local_object_store.h"

namespace cairn::checkpoint {
namespace {

using ::testing::HasSubstr;
using testing::ModelTables;
using testing::Rows;
using testing::SlotOf;
using testing::TestJob;

constexpr size_t kSlotA = 0, kSlotB = 1, kSlotC = 2;

/// Operator "one" with two slots, operator "two" with one.
std::vector<state::SlotDescriptor> ThreeSlots() {
  std::vector<state::SlotDescriptor> slots = {SlotOf("one"), SlotOf("one"), SlotOf("two")};
  slots[kSlotB].name = "rows2";
  return slots;
}

class RestoreMappingTest : public ::testing::Test {
 protected:
  /// Bases and deltas of all slots, rows prepared by the sink "out", offsets of the source "in".
  void SetUp() override {
    const Status started = job_.Start(2);
    ASSERT_TRUE(started.ok()) << started.ToString();
    for (int i = 0; i < 500; ++i) {
      for (size_t slot : {kSlotA, kSlotB, kSlotC}) {
        job_.Put(slot, "key" + std::to_string(i), "s" + std::to_string(slot));
      }
    }
    ASSERT_TRUE(job_.Checkpoint().ok());
    for (int i = 0; i < 9; ++i) job_.Put(kSlotA, "key" + std::to_string(i), "delta");
    job_.Erase(kSlotC, "key7");
    job_.prepared = {{base::CheckpointId(2), 0, "piece"}};
    job_.offset = 77;
    ASSERT_TRUE(job_.Checkpoint().ok());
    job_.store.reset();
    auto objects = env::LocalObjectStore::Open(&job_.files, job_.directory, {});
    ASSERT_TRUE(objects.ok());
    objects_ = *std::move(objects);
  }

  void OpenWith(RestoreMapping mapping) {
    const auto place = ReadPlace(objects_.get());
    ASSERT_TRUE(place.ok());
    const auto manifest = ReadManifest(objects_.get(), *place, place->Cuts().front());
    ASSERT_TRUE(manifest.ok());
    auto cut = LoadedCut::Open(objects_.get(), *manifest, nullptr, std::move(mapping));
    ASSERT_TRUE(cut.ok()) << cut.status().ToString();
    cut_ = *std::move(cut);
  }

  /// Load the cut into tables of `slots` at parallelism 3. Return the rows of each slot.
  Result<std::vector<Rows>> LoadInto(const std::vector<state::SlotDescriptor>& slots) {
    std::vector<std::unique_ptr<ModelTables>> subtasks;
    std::vector<std::vector<state::StateTable*>> tables;
    for (uint32_t i = 0; i < 3; ++i) {
      subtasks.push_back(std::make_unique<ModelTables>(
          testing::TablesSpec{slots, i, KeyGroupsOfSubtask(i, 3, 128), 128, 1}));
      tables.push_back(subtasks.back()->tables());
    }
    CAIRN_ASSIGN_OR_RETURN(receipts_, LoadState(*cut_, tables, &job_.executor));
    std::vector<Rows> loaded(slots.size());
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      for (const auto& subtask : subtasks) {
        for (auto& [key, value] : subtask->Contents(slot)) {
          EXPECT_TRUE(loaded[slot].emplace(key, value).second) << key << " came twice";
        }
      }
    }
    return loaded;
  }

  TestJob job_{ThreeSlots()};
  std::unique_ptr<env::ObjectStore> objects_;
  std::shared_ptr<const LoadedCut> cut_;
  std::vector<LoadReceipt> receipts_;
};

TEST_F(RestoreMappingTest, AnotherOperatorTakesTheStateWhole) {
  RestoreMapping mapping;
  mapping.operators[base::OperatorIdOf("one")] = base::OperatorIdOf("renamed");
  OpenWith(std::move(mapping));
  std::vector<state::SlotDescriptor> slots = {SlotOf("renamed"), SlotOf("renamed"), SlotOf("two")};
  slots[kSlotB].name = "rows2";
  const auto loaded = LoadInto(slots);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(*loaded, job_.whole_model());
}

TEST_F(RestoreMappingTest, OperatorsCanSwapTheirState) {
  RestoreMapping mapping;
  mapping.operators[base::OperatorIdOf("one")] = base::OperatorIdOf("two");
  mapping.operators[base::OperatorIdOf("two")] = base::OperatorIdOf("one");
  OpenWith(std::move(mapping));
  std::vector<state::SlotDescriptor> slots = {SlotOf("two"), SlotOf("two"), SlotOf("one")};
  slots[kSlotB].name = "rows2";
  const auto loaded = LoadInto(slots);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(*loaded, job_.whole_model());
}

TEST_F(RestoreMappingTest, ASlotGivenUpIsAccountedForBesideItsSibling) {
  RestoreMapping mapping;
  mapping.left_out_slots.emplace(base::OperatorIdOf("one"), "rows2");
  OpenWith(std::move(mapping));
  const auto loaded = LoadInto({SlotOf("one"), SlotOf("two")});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ((*loaded)[0], job_.model(kSlotA));
  EXPECT_EQ((*loaded)[1], job_.model(kSlotC));
  uint64_t left_out = 0;
  for (const FrameReceipt& frame : receipts_[0].frames) left_out += frame.left_out;
  EXPECT_GT(left_out, 0u);
}

TEST_F(RestoreMappingTest, AnOperatorGivenUpWholeIsNotRead) {
  RestoreMapping mapping;
  mapping.left_out_slots = {{base::OperatorIdOf("one"), "rows"},
                            {base::OperatorIdOf("one"), "rows2"}};
  OpenWith(std::move(mapping));
  const auto loaded = LoadInto({SlotOf("two")});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ((*loaded)[0], job_.model(kSlotC));
  for (const LoadReceipt& receipt : receipts_) {
    for (const FrameReceipt& frame : receipt.frames) {
      EXPECT_EQ(frame.operator_id, base::OperatorIdOf("two"));
    }
  }
}

TEST_F(RestoreMappingTest, WhatIsNotGivenUpIsRefusedAsBefore) {
  RestoreMapping mapping;
  mapping.left_out_slots.emplace(base::OperatorIdOf("one"), "rows");  // not rows2
  OpenWith(std::move(mapping));
  const auto loaded = LoadInto({SlotOf("two")});
  EXPECT_EQ(loaded.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("operator one"));
}

TEST_F(RestoreMappingTest, SourcesGoByTheirPresentNamesAndSinksByTheirSavedOnes) {
  RestoreMapping mapping;
  mapping.sources["in"] = "input";
  OpenWith(std::move(mapping));
  ASSERT_EQ(cut_->sources().size(), 1u);
  EXPECT_EQ(cut_->sources()[0].source, "input");
  EXPECT_EQ(cut_->sources()[0].splits[0].position, "77");
  ASSERT_EQ(cut_->sinks().size(), 1u);
  EXPECT_EQ(cut_->sinks()[0].sink, "out");
  EXPECT_EQ(cut_->sinks()[0].pieces, job_.prepared);
}

TEST_F(RestoreMappingTest, SourcesThatAreGivenUpAreGone) {
  RestoreMapping mapping;
  mapping.sources["in"] = "";
  OpenWith(std::move(mapping));
  EXPECT_TRUE(cut_->sources().empty());
}

}  // namespace
}  // namespace cairn::checkpoint

// SPDX-License-Identifier: Apache-2.0
//
// Saved state edited, seeded and regrouped without the job, in fixed memory.
#include "checkpoint/savepoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/cut_builder.h"
#include "checkpoint/inspect.h"
#include "checkpoint/row_sorter.h"
#include "restore_world.h"

namespace cairn::checkpoint {
namespace {

using testing::DeclareSlot;
using ::testing::HasSubstr;
using testing::RestoreWorld;
using testing::RowMap;

std::vector<SlotDescriptor> TwoSlotsAndOffsets() {
  return {DeclareSlot("job/count/0", "a"), DeclareSlot("job/count/0", "b"),
          DeclareSlot("job/source", "pos", SlotKind::kOperatorValue)};
}

RowMap RowsOfSlot(const SavepointReader& reader, size_t slot) {
  RowMap rows;
  EXPECT_TRUE(reader
                  .Scan(slot,
                        [&](const SavepointRow& row) -> Status {
                          EXPECT_TRUE(rows.emplace(row.key, row.value).second);
                          return {};
                        })
                  .ok());
  return rows;
}

/// Number of the slot `name` in a reader, whose order is by operator id.
size_t SlotNumber(const SavepointReader& reader, const std::string& name) {
  for (size_t i = 0; i < reader.slots().size(); ++i) {
    if (reader.slots()[i].name == name) return i;
  }
  ADD_FAILURE() << "no slot " << name;
  return 0;
}

void BuildSavepoint(RestoreWorld* world, int keys) {
  ASSERT_TRUE(world->Start(2).ok());
  for (int i = 0; i < keys; ++i) {
    world->Put(0, "key" + std::to_string(i), "a" + std::to_string(i));
    world->Put(1, "key" + std::to_string(i), "b" + std::to_string(i));
  }
  ASSERT_TRUE(world->subtasks[1].operator_state[2]->Put("p1", "offset").ok());
  ASSERT_TRUE(world->Checkpoint().ok());
  world->Erase(0, "key1");
  world->Put(0, "key2", "later");
  ASSERT_TRUE(world->Checkpoint().ok());
}

TEST(Savepoint, Behaviour91ReadsTheSlotsOfARealJob) {
  RestoreWorld world(TwoSlotsAndOffsets());
  BuildSavepoint(&world, 200);
  const auto reader = OpenSavepoint(&world.disk, "/place", 0);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  EXPECT_EQ((*reader)->checkpoint_id(), 2u);
  EXPECT_EQ((*reader)->slots().size(), 3u);
  const size_t a = SlotNumber(**reader, "a");
  EXPECT_EQ(RowsOfSlot(**reader, a), world.model[0]);
  EXPECT_EQ(RowsOfSlot(**reader, SlotNumber(**reader, "b")), world.model[1]);
  EXPECT_EQ(RowsOfSlot(**reader, SlotNumber(**reader, "pos")).size(), 1u);
  EXPECT_EQ(*(*reader)->Get(a, "key2"), "later");
  EXPECT_EQ(*(*reader)->Get(a, "key1"), std::nullopt);
  const auto first = OpenSavepoint(&world.disk, "/place", 1);
  EXPECT_EQ(*(*first)->Get(a, "key1"), "a1");
  EXPECT_EQ(OpenSavepoint(&world.disk, "/place", 9).status().code(), StatusCode::kNotFound);
}

TEST(Savepoint, AnEditedSlotAndTheRestAreWhatTheJobGoesOnFrom) {
  RestoreWorld world(TwoSlotsAndOffsets());
  BuildSavepoint(&world, 200);
  world.Stop();
  const auto reader = OpenSavepoint(&world.disk, "/place", 0);
  auto writer = CreateSavepoint(&world.disk, "/edited", {.like = "/place"});
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  const size_t a = SlotNumber(**reader, "a");
  const size_t slot = *(*writer)->AddSlot((*reader)->slots()[a]);
  ASSERT_TRUE((*reader)
                  ->Scan(a,
                         [&](const SavepointRow& row) -> Status {
                           if (row.key == "key3") return {};
                           return (*writer)->Put(slot, row.key, std::string(row.value) + "!");
                         })
                  .ok());
  ASSERT_TRUE((*writer)->Put(slot, "new", "row").ok());
  ASSERT_TRUE((*writer)->CopyRest(**reader).ok());
  const auto committed = (*writer)->Commit();
  ASSERT_TRUE(committed.ok()) << committed.status().ToString();
  EXPECT_EQ(committed->rows, world.model[0].size() + world.model[1].size() + 1);

  world.model[0].erase("key3");
  for (auto& [key, value] : world.model[0]) value += "!";
  world.model[0]["new"] = "row";
  world.place = "/edited";
  for (uint32_t p : {1u, 3u}) {
    ASSERT_TRUE(world.Start(p).ok());
    EXPECT_EQ(world.Contents(0), world.model[0]);
    EXPECT_EQ(world.Contents(1), world.model[1]);
    for (auto& subtask : world.subtasks) {
      EXPECT_EQ(subtask.operator_state[2]->Find("p1"), "offset");
    }
    ASSERT_EQ(world.cut->sources().size(), 1u) << "offsets are taken over";
    ASSERT_TRUE(world.Checkpoint().ok());
  }
}

TEST(Savepoint, RegroupingKeepsEveryRowAtAnyNumberOfKeyGroups) {
  RestoreWorld world(TwoSlotsAndOffsets());
  BuildSavepoint(&world, 300);
  world.Stop();
  std::string from = "/place";
  for (const uint32_t key_groups : {1000u, 32768u, 1u, 128u}) {
    const auto reader = OpenSavepoint(&world.disk, from, 0);
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    const std::string to = "/place-" + std::to_string(key_groups);
    auto writer = CreateSavepoint(&world.disk, to, {.like = from, .key_groups = key_groups});
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    ASSERT_TRUE((*writer)->CopyRest(**reader).ok());
    ASSERT_TRUE((*writer)->Commit().ok());
    world.place = to;
    world.options.key_groups = key_groups;
    const Status started = world.Start(std::min(3u, key_groups));
    ASSERT_TRUE(started.ok()) << started.ToString();
    EXPECT_EQ(world.Contents(0), world.model[0]);
    EXPECT_EQ(world.Contents(1), world.model[1]);
    world.Put(0, "after " + to, "v");
    ASSERT_TRUE(world.Checkpoint().ok());
    world.Stop();
    from = to;
  }
}

TEST(Savepoint, TheSameRowsInAnyOrderAndMemoryAreTheSameBytes) {
  std::string object;
  for (const uint64_t memory_bytes : {uint64_t{1} << 20, uint64_t{4096}, uint64_t{1}}) {
    RestoreWorld world(TwoSlotsAndOffsets());
    CutBuilderOptions options;
    options.files = &world.disk;
    options.place = "/sorted";
    options.memory_bytes = memory_bytes;
    options.pipeline = world.options.pipeline;
    options.clock = &world.clock;
    options.random = &world.random;
    auto builder = CutBuilder::Open(options);
    ASSERT_TRUE(builder.ok());
    for (const SlotDescriptor& slot : world.slots) ASSERT_TRUE((*builder)->AddSlot(slot).ok());
    constexpr int kRows = 500;
    for (int i = 0; i < kRows; ++i) {
      const std::string number = std::to_string(memory_bytes == 4096 ? kRows - 1 - i : i);
      ASSERT_TRUE((*builder)->Add(0, "key" + number, "a" + number).ok());
      ASSERT_TRUE((*builder)->Add(1, "key" + number, "b" + number).ok());
    }
    const auto built = (*builder)->Commit();
    ASSERT_TRUE(built.ok()) << built.status().ToString();
    EXPECT_EQ(built->rows, 2u * kRows);
    builder->reset();
    std::string bytes;
    for (const auto& [path, content] : world.disk.AllFiles()) {
      EXPECT_EQ(path.find("scratch"), std::string::npos) << path << " is left";
      if (path.find("state.arrow") != std::string::npos) bytes = content;
    }
    ASSERT_FALSE(bytes.empty());
    if (object.empty()) object = bytes;
    EXPECT_TRUE(bytes == object) << "with " << memory_bytes << " bytes of memory";
  }
}

// A part of a frame holds 64 MiB at most, so one key group of more is several record batches.
TEST(Savepoint, Case56AGroupOfMoreThanOneBatchKeepsEveryRow) {
  RestoreWorld world({DeclareSlot("job/count/0", "rows")}, /*key_groups=*/1);
  CutBuilderOptions options;
  options.files = &world.disk;
  options.place = "/place";
  options.memory_bytes = uint64_t{8} << 20;
  options.key_groups = 1;
  options.pipeline = world.options.pipeline;
  auto builder = *CutBuilder::Open(options);
  ASSERT_TRUE(builder->AddSlot(world.slots[0]).ok());
  for (int i = 0; i < 80; ++i) {
    const std::string value(size_t{1} << 20, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(builder->Add(0, "key" + std::to_string(i), value).ok());
    world.model[0]["key" + std::to_string(i)] = value;
  }
  ASSERT_TRUE(builder->Commit().ok());
  builder.reset();
  const auto cut = CutReader::Open(&world.disk, "/place", std::nullopt);
  ASSERT_TRUE(cut.ok()) << cut.status().ToString();
  ASSERT_EQ((*cut)->manifest().state_frames.size(), 1u);
  EXPECT_GT((*cut)->manifest().state_frames[0].parts, 1u);
  ASSERT_TRUE(world.Start(1).ok());
  EXPECT_TRUE(world.Contents(0) == world.model[0]);
}

TEST(Savepoint, Behaviour51EmptyStateIsACutThatVerifiesAndRestores) {
  RestoreWorld world(TwoSlotsAndOffsets());
  ASSERT_TRUE(world.Start(2).ok());
  ASSERT_TRUE(world.Checkpoint().ok());
  world.Stop();
  const auto cut = CutReader::Open(&world.disk, "/place", std::nullopt);
  ASSERT_TRUE(cut.ok()) << cut.status().ToString();
  EXPECT_TRUE((*cut)->Verify(nullptr).problems.empty());
  ASSERT_TRUE(world.Start(3).ok());
  EXPECT_TRUE(world.Contents(0).empty());
}

TEST(Savepoint, AKeyThatComesTwiceMakesNoPlace) {
  RestoreWorld world(TwoSlotsAndOffsets());
  for (const uint64_t memory_bytes : {uint64_t{1} << 20, uint64_t{1}}) {
    auto writer = CreateSavepoint(&world.disk, "/twice", {.memory_bytes = memory_bytes});
    const size_t slot = *(*writer)->AddSlot(world.slots[0]);
    EXPECT_EQ((*writer)->AddSlot(world.slots[0]).status().code(), StatusCode::kInvalidArgument);
    for (const char* key : {"one", "two", "one"}) {
      ASSERT_TRUE((*writer)->Put(slot, key, "v").ok());
    }
    const Status refused = (*writer)->Commit().status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.message(), HasSubstr("operator job/count/0 slot a has key one twice"));
    writer->reset();
    EXPECT_TRUE(world.disk.AllFiles().empty());
  }
}

TEST(Savepoint, APlaceThatHoldsACheckpointIsRefused) {
  RestoreWorld world(TwoSlotsAndOffsets());
  BuildSavepoint(&world, 3);
  world.Stop();
  const auto refused = CreateSavepoint(&world.disk, "/place", {});
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("already holds checkpoint 2"));
}

TEST(Savepoint, Behaviour08OfASnapshotALaterRowWinsAndOffsetsNeverGoBack) {
  RestoreWorld world(TwoSlotsAndOffsets());
  for (const bool reversed : {false, true}) {
    CutBuilderOptions options;
    options.files = &world.disk;
    options.place = reversed ? "/merged-back" : "/merged";
    options.memory_bytes = 1;  // every row is a run of its own
    auto builder = *CutBuilder::Open(options);
    const size_t keyed = *builder->AddSlot(world.slots[0]);
    const size_t offsets = *builder->AddSlot(world.slots[2]);
    const std::string low(8, '\x01'), high(8, '\x02');
    for (const std::string& value : {reversed ? high : low, reversed ? low : high}) {
      ASSERT_TRUE(builder->Add(keyed, "key", value, DuplicateRule::kLaterWins).ok());
      ASSERT_TRUE(builder->Add(offsets, "pos", value, DuplicateRule::kLaterWins).ok());
    }
    ASSERT_TRUE(builder->Commit().ok());
    const auto reader = OpenSavepoint(&world.disk, options.place, 0);
    EXPECT_EQ(RowsOfSlot(**reader, SlotNumber(**reader, "a")),
              (RowMap{{"key", reversed ? low : high}}));
    EXPECT_EQ(RowsOfSlot(**reader, SlotNumber(**reader, "pos")), (RowMap{{"pos", high}}));
  }
}

}  // namespace
}  // namespace cairn::checkpoint

// SPDX-License-Identifier: Apache-2.0
//
// Slots that were saved with another version or other columns: migrated exactly once, whole or not
// at all, before any operator opens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/coding.h"
#include "format/row_codec.h"
#include "restore_world.h"

namespace cairn::checkpoint {
namespace {

using testing::DeclareSlot;
using ::testing::HasSubstr;
using testing::RestoreWorld;
using testing::RowMap;

constexpr size_t kCounts = 0, kSibling = 1, kOther = 2;

/// Three slots of two operators. The sibling's name begins with that of the migrated slot.
std::vector<SlotDescriptor> ThreeSlots() {
  return {DeclareSlot("job/count/0", "rows"), DeclareSlot("job/count/0", "rows2"),
          DeclareSlot("job/other/0", "rows")};
}

MigrationStep AppendText(std::string text) {
  return
      [text](std::string_view value) -> Result<std::string> { return std::string(value) + text; };
}

std::shared_ptr<const MigrationRegistry> OneToTwo() {
  auto migrations = std::make_shared<MigrationRegistry>();
  EXPECT_TRUE(migrations->Register("text", 1, 2, AppendText("+2")).ok());
  return migrations;
}

void FillAll(RestoreWorld* world, int keys) {
  for (size_t slot = 0; slot < world->slots.size(); ++slot) {
    if (world->slots[slot].kind != SlotKind::kKeyedValue) continue;
    for (int i = 0; i < keys; ++i) {
      world->Put(slot, "key" + std::to_string(i), "s" + std::to_string(slot));
    }
  }
}

void ExpectModels(const RestoreWorld& world) {
  for (size_t slot = 0; slot < world.slots.size(); ++slot) {
    if (world.slots[slot].kind != SlotKind::kKeyedValue) continue;
    ASSERT_EQ(world.Contents(slot), world.model[slot]) << "slot " << slot;
  }
}

void AppendToModel(RestoreWorld* world, size_t slot, const std::string& text) {
  for (auto& [key, value] : world->model[slot]) value += text;
}

TEST(Migration, Behaviour90MigratesTheNamedSlotAndLeavesItsSiblingsByteForByte) {
  RestoreWorld world(ThreeSlots());
  ASSERT_TRUE(world.Start(2).ok());
  FillAll(&world, 300);
  ASSERT_TRUE(world.Checkpoint().ok());
  world.Put(kCounts, "key7", "changed");  // a delta over the base
  world.Erase(kCounts, "key8");
  ASSERT_TRUE(world.Checkpoint().ok());

  world.slots[kCounts].version = 2;
  world.options.migrations = OneToTwo();
  ASSERT_TRUE(world.Start(3).ok());
  AppendToModel(&world, kCounts, "+2");
  ExpectModels(world);
}

TEST(Migration, MigratesExactlyOnceThoughTheJobRestartsTwice) {
  RestoreWorld world(ThreeSlots());
  ASSERT_TRUE(world.Start(2).ok());
  FillAll(&world, 100);
  ASSERT_TRUE(world.Checkpoint().ok());
  world.slots[kCounts].version = 2;
  world.options.migrations = OneToTwo();
  ASSERT_TRUE(world.Start(2).ok());
  AppendToModel(&world, kCounts, "+2");
  ASSERT_TRUE(world.Checkpoint().ok());
  for (uint32_t p : {2u, 5u}) {
    ASSERT_TRUE(world.Start(p).ok());
    ExpectModels(world);
    world.Put(kCounts, "key" + std::to_string(p), "new");
    ASSERT_TRUE(world.Checkpoint().ok());
  }
  ASSERT_TRUE(world.Start(1).ok());
  ExpectModels(world);
}

TEST(Migration, AnUncommittedMigrationIsDoneAnewFromTheOldCut) {
  RestoreWorld world(ThreeSlots());
  ASSERT_TRUE(world.Start(1).ok());
  FillAll(&world, 50);
  ASSERT_TRUE(world.Checkpoint().ok());
  world.slots[kCounts].version = 2;
  world.options.migrations = OneToTwo();
  AppendToModel(&world, kCounts, "+2");
  for (int restart = 0; restart < 3; ++restart) {
    ASSERT_TRUE(world.Start(1).ok());
    ExpectModels(world);
  }
}

TEST(Migration, AJobBornAtVersionTwoRestartsTwiceWithoutAMigration) {
  std::vector<SlotDescriptor> slots = ThreeSlots();
  slots[kCounts].version = 2;
  RestoreWorld world(slots);
  ASSERT_TRUE(world.Start(2).ok());
  FillAll(&world, 100);
  ASSERT_TRUE(world.Checkpoint().ok());
  for (int restart = 0; restart < 2; ++restart) {
    ASSERT_TRUE(world.Start(2).ok());
    ExpectModels(world);
    world.Put(kCounts, "key1", "restart " + std::to_string(restart));
    ASSERT_TRUE(world.Checkpoint().ok());
  }
}

TEST(Migration, Behaviour88AMissingPathIsRefusedNamingCodecAndVersions) {
  RestoreWorld world(ThreeSlots());
  ASSERT_TRUE(world.Start(1).ok());
  FillAll(&world, 5);
  ASSERT_TRUE(world.Checkpoint().ok());
  world.slots[kCounts].version = 3;
  world.options.migrations = OneToTwo();
  const Status refused = world.Start(1);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("operator job/count/0"));
  EXPECT_THAT(refused.message(), HasSubstr("slot rows was saved as text version 1"));
  EXPECT_THAT(refused.message(), HasSubstr("this job declares text version 3"));
  EXPECT_THAT(refused.message(),
              HasSubstr("no migration of text leads from version 1 to version 3"));
}

TEST(Migration, Behaviour90AFailingStepChangesNothingAndNamesTheSlot) {
  RestoreWorld world(ThreeSlots());
  ASSERT_TRUE(world.Start(2).ok());
  FillAll(&world, 100);
  ASSERT_TRUE(world.Checkpoint().ok());
  const auto before = world.disk.AllFiles();
  auto migrations = std::make_shared<MigrationRegistry>();
  int calls = 0;
  ASSERT_TRUE(migrations
                  ->Register("text", 1, 2,
                             [&](std::string_view value) -> Result<std::string> {
                               if (++calls == 42) return Status::Corruption("an odd value");
                               return std::string(value);
                             })
                  .ok());
  world.slots[kCounts].version = 2;
  world.options.migrations = migrations;
  const Status refused = world.Start(2);
  EXPECT_EQ(refused.code(), StatusCode::kCorruption);
  EXPECT_THAT(refused.message(), HasSubstr("migration of slot rows: an odd value"));
  for (const auto& [path, bytes] : before) {
    if (path.find("/nodes/") != std::string::npos) {
      EXPECT_EQ(world.disk.AllFiles()[path], bytes) << path;
    }
  }
  world.slots[kCounts].version = 1;
  ASSERT_TRUE(world.Start(2).ok());
  ExpectModels(world);
}

TEST(Migration, AStepThatThrowsFailsTheRestore) {
  RestoreWorld world(ThreeSlots());
  ASSERT_TRUE(world.Start(1).ok());
  FillAll(&world, 5);
  ASSERT_TRUE(world.Checkpoint().ok());
  auto migrations = std::make_shared<MigrationRegistry>();
  ASSERT_TRUE(migrations
                  ->Register("text", 1, 2,
                             [](std::string_view) -> Result<std::string> {
                               throw std::runtime_error("thrown by a step");
                             })
                  .ok());
  world.slots[kCounts].version = 2;
  world.options.migrations = migrations;
  EXPECT_THAT(world.Start(1).message(), HasSubstr("thrown by a step"));
}

TEST(Migration, EmptyStateTakesTheNewVersionToo) {
  RestoreWorld world(ThreeSlots());
  ASSERT_TRUE(world.Start(1).ok());
  ASSERT_TRUE(world.Checkpoint().ok());
  world.slots[kCounts].version = 2;
  world.options.migrations = OneToTwo();
  ASSERT_TRUE(world.Start(1).ok());
  world.Put(kCounts, "key", "born at 2");
  ASSERT_TRUE(world.Checkpoint().ok());
  world.options.migrations = nullptr;
  ASSERT_TRUE(world.Start(1).ok());
  ExpectModels(world);
}

TEST(Migration, OperatorStateIsMigratedOnceAndWrittenAnewThoughNothingChangedIt) {
  RestoreWorld world({DeclareSlot("job/source/0", "offsets", SlotKind::kOperatorValue)});
  ASSERT_TRUE(world.Start(2).ok());
  for (auto& subtask : world.subtasks) {
    ASSERT_TRUE(subtask.operator_state[0]->Put("pos", "v1").ok());
  }
  ASSERT_TRUE(world.Checkpoint().ok());
  world.slots[0].version = 2;
  world.options.migrations = OneToTwo();
  for (int restart = 0; restart < 3; ++restart) {
    ASSERT_TRUE(world.Start(2).ok());
    for (auto& subtask : world.subtasks) {
      EXPECT_EQ(subtask.operator_state[0]->Find("pos"), "v1+2") << "restart " << restart;
    }
    ASSERT_TRUE(world.Checkpoint().ok());
  }
}

/// A slot with declared columns, its values in the row codec.
SlotDescriptor TypedSlot(std::vector<ColumnSpec> columns, uint32_t version = 1) {
  SlotDescriptor slot = DeclareSlot("job/typed/0", "rows");
  slot.value_codec = "row";
  slot.version = version;
  slot.value_columns = std::move(columns);
  return slot;
}

std::string TypedRow(int32_t n) {
  std::string row;
  format::AppendFixedField<int32_t>(n, false, &row);
  return row;
}

TEST(Migration, Behaviour89AddedNullableColumnsAndWiderIntegersNeedNoStep) {
  RestoreWorld world({TypedSlot({{"n", "integer", false}})});
  ASSERT_TRUE(world.Start(2).ok());
  world.Put(0, "a", TypedRow(-5));
  world.Put(0, "b", TypedRow(9));
  ASSERT_TRUE(world.Checkpoint().ok());
  world.slots[0] = TypedSlot({{"n", "bigint", false}, {"note", "text", true}});
  const auto evolved = [](int64_t n) {
    std::string row;
    format::AppendFixedField<int64_t>(n, false, &row);
    format::AppendNullField(&row);
    return row;
  };
  world.model[0] = {{"a", evolved(-5)}, {"b", evolved(9)}};
  for (int restart = 0; restart < 3; ++restart) {
    ASSERT_TRUE(world.Start(2).ok());
    ExpectModels(world);
    ASSERT_TRUE(world.Checkpoint().ok());
  }
}

TEST(Migration, Behaviour89ARemovedColumnIsRefusedWithBothSchemas) {
  RestoreWorld world({TypedSlot({{"n", "integer", false}, {"m", "bigint", true}})});
  ASSERT_TRUE(world.Start(1).ok());
  ASSERT_TRUE(world.Checkpoint().ok());
  for (uint32_t version : {1u, 2u}) {
    world.slots[0] = TypedSlot({{"n", "integer", false}}, version);
    const Status refused = world.Start(1);
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.message(), HasSubstr("column 'm' was removed"));
    EXPECT_THAT(refused.message(), HasSubstr("(n integer not null, m bigint)"));
    EXPECT_THAT(refused.message(), HasSubstr("(n integer not null)"));
  }
}

TEST(Migration, Behaviour88AnExplicitStepBeatsTheAdditiveRule) {
  RestoreWorld world({TypedSlot({{"n", "integer", false}})});
  ASSERT_TRUE(world.Start(1).ok());
  world.Put(0, "a", TypedRow(5));
  ASSERT_TRUE(world.Checkpoint().ok());
  world.slots[0] = TypedSlot({{"n", "bigint", false}}, 2);
  std::string thousandfold;
  format::AppendFixedField<int64_t>(5000, false, &thousandfold);
  auto migrations = std::make_shared<MigrationRegistry>();
  ASSERT_TRUE(migrations
                  ->Register("row", 1, 2,
                             [](std::string_view value) -> Result<std::string> {
                               std::string row;
                               format::AppendFixedField<int64_t>(
                                   base::LoadLE<int32_t>(value.data()) * 1000, false, &row);
                               return row;
                             })
                  .ok());
  world.options.migrations = migrations;
  ASSERT_TRUE(world.Start(1).ok());
  EXPECT_EQ(world.Contents(0), (RowMap{{"a", thousandfold}}));
}

TEST(Migration, Case49NullEmptyAndAbsentStayApart) {
  RestoreWorld world({TypedSlot({{"t", "text", true}, {"b", "bytes", true}})});
  const auto row = [](std::optional<std::string> text, std::optional<std::string> bytes) {
    std::string encoded;
    for (const auto& field : {text, bytes}) {
      if (field) {
        format::AppendBytesField(*field, true, &encoded);
      } else {
        format::AppendNullField(&encoded);
      }
    }
    return encoded;
  };
  ASSERT_TRUE(world.Start(2).ok());
  world.Put(0, "null", row(std::nullopt, std::nullopt));
  world.Put(0, "empty", row("", ""));
  world.Put(0, "", row("", std::nullopt));
  world.Put(0, "erased", row("x", "y"));
  ASSERT_TRUE(world.Checkpoint().ok());
  world.Erase(0, "erased");
  ASSERT_TRUE(world.Checkpoint().ok());
  ASSERT_TRUE(world.Start(3).ok());
  ExpectModels(world);

  world.slots[0] = TypedSlot({{"t", "text", true}, {"b", "bytes", true}, {"n", "bigint", true}});
  for (auto& [key, value] : world.model[0]) format::AppendNullField(&value);
  ASSERT_TRUE(world.Start(2).ok());
  ExpectModels(world);
  EXPECT_FALSE(world.Contents(0).contains("absent"));
  ASSERT_TRUE(world.Checkpoint().ok());
  ASSERT_TRUE(world.Start(1).ok());
  ExpectModels(world);
}

TEST(Migration, KeysNeverMigrate) {
  RestoreWorld world(ThreeSlots());
  ASSERT_TRUE(world.Start(1).ok());
  FillAll(&world, 5);
  ASSERT_TRUE(world.Checkpoint().ok());
  world.slots[kOther].key_codec = "int64";
  const Status refused = world.Start(1);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("Keys do not migrate"));
  world.slots[kOther] = ThreeSlots()[kOther];
  world.slots[kSibling].value_codec = "int64";
  EXPECT_THAT(world.Start(1).message(), HasSubstr("another codec is another kind of value"));
}

}  // namespace
}  // namespace cairn::checkpoint

// SPDX-License-Identifier: Apache-2.0
#include "cairn/operator_state.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cairn {
namespace {

class RowsSink : public SavedRowSink {
 public:
  Result<SavedRows*> BeginGroup(uint32_t group) override {
    EXPECT_EQ(group, 0u);
    rows.SetKeyPrefix("\xFFslot|");
    return &rows;
  }
  Status Flush() override { return {}; }
  SavedRows rows;
};

constexpr size_t kPrefixBytes = 6;

struct Subtask {
  Subtask(uint32_t subtask, uint32_t parallelism)
      : domain(StateDomain::Create({})),
        table(domain.get(), Descriptor(),
              {.subtask = subtask, .parallelism = parallelism, .key_groups = 128}) {}
  static SlotDescriptor Descriptor() {
    SlotDescriptor descriptor;
    descriptor.operator_uid = "source";
    descriptor.name = "slot";
    descriptor.kind = SlotKind::kOperatorValue;
    return descriptor;
  }
  std::unique_ptr<RowsSink> Save() {
    auto sink = std::make_unique<RowsSink>();
    const View view = domain->Capture();
    EXPECT_TRUE(table.EncodeBase(view, table.key_groups(), sink.get()).ok());
    EXPECT_EQ(table.CountRows(view), sink->rows.rows());
    return sink;
  }
  void Load(const RowsSink& sink) {
    LoadCounts counts;
    EXPECT_TRUE(table.Load(sink.rows.Span(), 1, kPrefixBytes, &counts).ok());
  }

  std::unique_ptr<StateDomain> domain;
  OperatorStateTable table;
};

std::vector<std::unique_ptr<Subtask>> Restore(uint32_t parallelism,
                                              const std::vector<std::unique_ptr<RowsSink>>& saved) {
  std::vector<std::unique_ptr<Subtask>> subtasks;
  for (uint32_t i = 0; i < parallelism; ++i) {
    subtasks.push_back(std::make_unique<Subtask>(i, parallelism));
    for (const auto& sink : saved) subtasks.back()->Load(*sink);
  }
  return subtasks;
}

std::vector<std::unique_ptr<RowsSink>> SaveAll(
    const std::vector<std::unique_ptr<Subtask>>& subtasks) {
  std::vector<std::unique_ptr<RowsSink>> saved;
  for (const auto& subtask : subtasks) saved.push_back(subtask->Save());
  return saved;
}

size_t TotalRows(const std::vector<std::unique_ptr<RowsSink>>& saved) {
  size_t rows = 0;
  for (const auto& sink : saved) rows += sink->rows.rows();
  return rows;
}

TEST(OperatorState, AnOwnRowWinsOverAPeersRow) {
  auto before = Restore(2, {});
  ASSERT_TRUE(before[0]->table.Put("offset", "zero").ok());
  ASSERT_TRUE(before[1]->table.Put("offset", "one").ok());
  auto after = Restore(2, SaveAll(before));
  EXPECT_EQ(after[0]->table.Find("offset"), "zero");
  EXPECT_EQ(after[1]->table.Find("offset"), "one");
}

TEST(OperatorState, APeersRowIsReadButNotErased) {
  auto before = Restore(2, {});
  ASSERT_TRUE(before[1]->table.Put("k", "one").ok());
  auto after = Restore(2, SaveAll(before));
  EXPECT_EQ(after[0]->table.Find("k"), "one");
  EXPECT_FALSE(after[0]->table.Erase("k"));
  EXPECT_EQ(after[0]->table.Find("k"), "one");
}

TEST(OperatorState, EveryRowIsSavedOnceHoweverOftenItIsRestored) {
  auto subtasks = Restore(3, {});
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(
        subtasks[static_cast<size_t>(i) % 3]->table.Put("row" + std::to_string(i), "v").ok());
  }
  auto saved = SaveAll(subtasks);
  ASSERT_EQ(TotalRows(saved), 50u);
  for (uint32_t parallelism : {3u, 5u, 1u, 2u}) {
    subtasks = Restore(parallelism, saved);
    saved = SaveAll(subtasks);
    ASSERT_EQ(TotalRows(saved), 50u) << "at parallelism " << parallelism;
  }
}

TEST(OperatorState, AfterARescaleRowsArePreviousForEverySubtask) {
  auto before = Restore(2, {});
  ASSERT_TRUE(before[0]->table.Put("a", "from 0").ok());
  auto after = Restore(3, SaveAll(before));
  for (const auto& subtask : after) {
    size_t rows = 0;
    subtask->table.ForEach([&](const OperatorStateRow& row) {
      ++rows;
      EXPECT_FALSE(row.own);
      EXPECT_EQ(row.subtask, 0u);
      EXPECT_EQ(row.logical_key, "a");
      EXPECT_EQ(row.value, "from 0");
    });
    EXPECT_EQ(rows, 1u);
  }
}

TEST(OperatorState, AClaimedRowIsSavedByItsClaimantOnly) {
  auto before = Restore(1, {});
  ASSERT_TRUE(before[0]->table.Put("a", "old").ok());
  auto after = Restore(2, SaveAll(before));
  const uint32_t owner = OwnerOfKeyGroup(KeyGroupOf("a", 128), 2, 128);
  ASSERT_TRUE(after[owner]->table.Put("a", "new").ok());
  const auto saved = SaveAll(after);
  EXPECT_EQ(TotalRows(saved), 1u);
  EXPECT_EQ(saved[owner]->rows.Span().value(0), "new");
}

TEST(OperatorState, ADeltaTellsWhetherAnythingChanged) {
  Subtask subtask(0, 1);
  ASSERT_TRUE(subtask.table.Put("a", "1").ok());
  const View first = subtask.domain->Capture();
  RowsSink unchanged;
  ASSERT_TRUE(
      subtask.table.EncodeDelta(subtask.domain->Capture(), first.epoch(), {0, 1}, &unchanged).ok());
  EXPECT_EQ(unchanged.rows.rows(), 0u);
  ASSERT_TRUE(subtask.table.Erase("a"));
  RowsSink changed;
  ASSERT_TRUE(
      subtask.table.EncodeDelta(subtask.domain->Capture(), first.epoch(), {0, 1}, &changed).ok());
  EXPECT_EQ(changed.rows.rows(), 1u);
}

TEST(OperatorState, ARowWithoutItsOwnerIsCorruption) {
  Subtask subtask(0, 1);
  RowsSink sink;
  sink.rows.SetKeyPrefix("\xFFslot|");
  std::memcpy(sink.rows.Append(SavedRowKind::kMaterialised, 3, 0).key, "abc", 3);
  LoadCounts counts;
  const Status status = subtask.table.Load(sink.rows.Span(), 1, kPrefixBytes, &counts);
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_NE(status.ToString().find("source"), std::string::npos);
}

// A codec copies an empty value with memcpy, which may not be given null.
TEST(SavedRows, RowsWithoutBytesHaveAPlaceAllTheSame) {
  SavedRows rows;
  const SavedRows::Slot first = rows.Append(SavedRowKind::kPut, 0, 0);
  EXPECT_NE(first.key, nullptr);
  EXPECT_NE(first.value, nullptr);
  rows.Clear();
  SavedRows::Run run(&rows, 1, 0, 0);
  const SavedRows::Slot second = run.Append(SavedRowKind::kPut, 0, 0);
  EXPECT_NE(second.key, nullptr);
  EXPECT_NE(second.value, nullptr);
  run.Finish();
  EXPECT_EQ(rows.rows(), 1u);
}

}  // namespace
}  // namespace cairn

// SPDX-License-Identifier: Apache-2.0
//
// What happens at the limits that docs/limits.md states.
#include <gtest/gtest.h>

#include "cairn/list_state.h"
#include "cairn/map_state.h"
#include "cairn/value_state.h"
#include "model_world.h"

namespace cairn::limits {
namespace {

using model::MemorySink;

constexpr KeyGroupRange kWhole{0, kMaxKeyGroups};

SlotDescriptor Named(const std::string& name) {
  SlotDescriptor descriptor;
  descriptor.operator_uid = "op";
  descriptor.name = name;
  return descriptor;
}

/// Fails on 42, whichever way it goes.
struct Picky {
  size_t EncodedSize(const std::string& value) const {
    if (value == "42") throw std::runtime_error("not 42");
    return value.size();
  }
  void Encode(const std::string& value, char* out) const { value.copy(out, value.size()); }
  Result<std::string> Decode(std::string_view bytes) const {
    if (bytes == "43") return Status::Corruption("not 43");
    return std::string(bytes);
  }
  size_t MemoryBytes(const std::string& value) const { return value.size(); }
};

TEST(Limits, ACodecThatFailsOnOneKeyFailsTheSaveAndNamesIt) {
  auto domain = StateDomain::Create({});
  Table<int64_t, std::string, Codec<int64_t>, Picky> table(domain.get(), Named("picky"));
  ASSERT_TRUE(table.Update(42, [](std::string& value, bool) { value = "42"; }).ok());
  ASSERT_TRUE(table.Update(1, [](std::string& value, bool) { value = "1"; }).ok());
  MemorySink sink;
  const Status status = table.EncodeBase(domain->Capture(), kWhole, &sink);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("slot picky"), std::string::npos) << status.ToString();
  EXPECT_NE(status.ToString().find("0x2a00000000000000"), std::string::npos) << status.ToString();
  ASSERT_TRUE(table.Update(42, [](std::string& value, bool) { value = "ok"; }).ok());
  MemorySink again;
  EXPECT_TRUE(table.EncodeBase(domain->Capture(), kWhole, &again).ok()) << "nothing was harmed";
}

TEST(Limits, AValueThatDoesNotDecodeIsAnErrorNotAnAbsentKey) {
  auto domain = StateDomain::Create({});
  Table<int64_t, std::string> writer(domain.get(), Named("picky"));
  ASSERT_TRUE(writer.Update(42, [](std::string& value, bool) { value = "43"; }).ok());
  MemorySink sink;
  ASSERT_TRUE(writer.EncodeBase(domain->Capture(), kWhole, &sink).ok());
  auto other = StateDomain::Create({});
  Table<int64_t, std::string, Codec<int64_t>, Picky> reader(other.get(), Named("picky"));
  LoadCounts counts;
  const Status status = reader.Load(sink.parts().front()->rows.Span(), 2, 2, &counts);
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_NE(status.ToString().find("0x2a00000000000000"), std::string::npos) << status.ToString();
}

TEST(Limits, AValueOverTheLimitIsRefusedAndTheOldOneStays) {
  auto domain = StateDomain::Create({});
  TableOptions options;
  options.value_bytes_max = 1000;
  ValueState<Bytes, std::string> state(domain.get(), Named("texts"), options);
  ASSERT_TRUE(state.Put("k", std::string(900, 'a')).ok());
  const Status status = state.Put("k", std::string(1001, 'b'));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("slot texts"), std::string::npos) << status.ToString();
  EXPECT_NE(status.ToString().find("'k'"), std::string::npos) << status.ToString();
  EXPECT_EQ(*state.Find("k"), std::string(900, 'a'));
  EXPECT_FALSE(state.Put("new", std::string(1001, 'b')).ok());
  EXPECT_EQ(state.Find("new"), nullptr);
}

TEST(Limits, AListThatGrowsOverItsLimitRefusesTheAppendAndStaysUsable) {
  auto domain = StateDomain::Create({});
  TableOptions options;
  options.collection_bytes_max = 8 << 20;
  ListState<Bytes, std::string> lists(domain.get(), Named("lists"), options);
  const std::string element(1 << 20, 'e');
  Status status;
  uint64_t appended = 0;
  while ((status = lists.Append("key", element)).ok() && appended < 100) ++appended;
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(appended, 7u);
  EXPECT_NE(status.ToString().find("slot lists"), std::string::npos) << status.ToString();
  EXPECT_NE(status.ToString().find("'key'"), std::string::npos) << status.ToString();
  EXPECT_EQ(lists.Size("key"), appended);
  MemorySink sink;
  ASSERT_TRUE(lists.EncodeBase(domain->Capture(), kWhole, &sink).ok());
  auto other = StateDomain::Create({});
  ListState<Bytes, std::string> restored(other.get(), Named("lists"), options);
  LoadCounts counts;
  for (const auto& part : sink.parts()) {
    ASSERT_TRUE(restored.Load(part->rows.Span(), 2, 2, &counts).ok());
  }
  EXPECT_EQ(restored.Size("key"), appended);
}

TEST(Limits, AnElementOverTheLimitIsRefused) {
  auto domain = StateDomain::Create({});
  TableOptions options;
  options.value_bytes_max = 10;
  MapState<Bytes, std::string, std::string> maps(domain.get(), Named("maps"), options);
  ASSERT_TRUE(maps.Put("k", "m", "short").ok());
  EXPECT_EQ(maps.Put("k", "m", "longer than ten").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(*maps.Find("k", "m"), "short");
}

TEST(Limits, OverTheMemoryBudgetAnAppendIsRefusedAndChangesNothing) {
  MemoryBudget budget(4 << 20);
  auto domain = StateDomain::Create({.name = "small", .budget = &budget});
  ListState<int64_t, std::string> lists(domain.get(), Named("lists"));
  Status status;
  uint64_t appended = 0;
  while ((status = lists.Append(1, std::string(1000, 'x'))).ok() && appended < 100000) ++appended;
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.ToString().find("small"), std::string::npos) << status.ToString();
  EXPECT_EQ(lists.Size(1), appended);
  EXPECT_GT(appended, 1000u);
}

TEST(Limits, AKeyOfAMebibyteIsAKeyLikeAnyOther) {
  auto domain = StateDomain::Create({});
  ValueState<Bytes, int64_t> state(domain.get(), Named("keys"));
  const std::string key(1 << 20, 'k');
  ASSERT_TRUE(state.Put(key, 1).ok());
  ASSERT_TRUE(state.Put(key + "2", 2).ok());
  MemorySink sink;
  ASSERT_TRUE(state.EncodeBase(domain->Capture(), kWhole, &sink).ok());
  auto other = StateDomain::Create({});
  ValueState<Bytes, int64_t> restored(other.get(), Named("keys"));
  LoadCounts counts;
  for (const auto& part : sink.parts()) {
    ASSERT_TRUE(restored.Load(part->rows.Span(), 2, 2, &counts).ok());
  }
  EXPECT_EQ(*restored.Find(key), 1);
  EXPECT_EQ(*restored.Find(key + "2"), 2);
}

TEST(Limits, AKeyOverTheLimitIsRefused) {
  auto domain = StateDomain::Create({});
  ValueState<Bytes, int64_t> state(domain.get(), Named("keys"));
  const std::string key(kKeyBytesMax + 1, 'k');
  const Status status = state.Put(key, 1);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_LT(status.ToString().size(), 1000u) << "the key is not in the message as a whole";
  EXPECT_EQ(state.size(), 0u);
}

TEST(Limits, AThousandSlotsShareAViewAndCostLittleEach) {
  MemoryBudget budget(0);
  auto domain = StateDomain::Create({.budget = &budget});
  std::vector<std::unique_ptr<ValueState<int64_t, int64_t>>> slots;
  for (int i = 0; i < 1000; ++i) {
    slots.push_back(std::make_unique<ValueState<int64_t, int64_t>>(
        domain.get(), Named("slot" + std::to_string(i))));
    ASSERT_TRUE(slots.back()->Put(i, i).ok());
  }
  const View view = domain->Capture();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(slots[i]->Put(i, -1).ok());
    int64_t seen = 0;
    ASSERT_TRUE(slots[i]->Get(view, i, [&](const int64_t& value) { seen = value; }));
    ASSERT_EQ(seen, i);
  }
  EXPECT_LT(domain->MemoryBytes(), 16u << 20);
}

TEST(Limits, EmptyStateIsSavedAsNothingAndRestoresToNothing) {
  auto domain = StateDomain::Create({});
  ValueState<int64_t, int64_t> values(domain.get(), Named("values"));
  ListState<int64_t, int64_t> lists(domain.get(), Named("lists"));
  const View view = domain->Capture();
  for (const StateTable* table :
       {static_cast<const StateTable*>(&values), static_cast<const StateTable*>(&lists)}) {
    MemorySink sink;
    ASSERT_TRUE(table->EncodeBase(view, kWhole, &sink).ok());
    EXPECT_TRUE(sink.parts().empty());
    EXPECT_EQ(table->CountRows(view), 0u);
  }
  LoadCounts counts;
  EXPECT_TRUE(values.Load(SavedRowSpan{}, 2, 2, &counts).ok());
  EXPECT_TRUE(lists.Load(SavedRowSpan{}, 2, 2, &counts).ok());
}

TEST(Limits, OneKeyGroupMayHoldEverything) {
  auto domain = StateDomain::Create({});
  TableOptions options;
  options.key_groups = 1;
  ListState<int64_t, int64_t> lists(domain.get(), Named("lists"), options);
  for (int64_t i = 0; i < 50000; ++i) ASSERT_TRUE(lists.Append(i, i).ok());
  MemorySink sink;
  const View view = domain->Capture();
  ASSERT_TRUE(lists.EncodeBase(view, kWhole, &sink).ok());
  ASSERT_EQ(sink.parts().size(), 1u);
  EXPECT_EQ(sink.parts().front()->rows.rows(), 100000u);
  EXPECT_EQ(lists.CountRows(view), 100000u);
}

TEST(Limits, RowKeysOfCollectionsThatDoNotAddUpAreErrors) {
  auto domain = StateDomain::Create({});
  TableOptions options;
  options.key_groups = 1;
  ListState<Bytes, std::string> lists(domain.get(), Named("lists"), options);
  using std::string_literals::operator""s;
  for (const std::string& row_key : {""s, "\0"s, "\0\0\0\5abc\1"s, "\xff\xff\xff\xff\1"s,
                                     "\0\0\0\0\2"s, "\0\0\0\0\0x"s, "\0\0\0\1a\1short"s}) {
    SavedRows rows;
    rows.SetKeyPrefix(std::string(2, '\0'));
    const SavedRows::Slot to = rows.Append(SavedRowKind::kMaterialised, row_key.size(), 0);
    row_key.copy(to.key, row_key.size());
    LoadCounts counts;
    EXPECT_EQ(lists.Load(rows.Span(), 2, 2, &counts).code(), StatusCode::kCorruption);
  }
  EXPECT_EQ(lists.size(), 0u);
}

}  // namespace
}  // namespace cairn::limits

// SPDX-License-Identifier: Apache-2.0
//
// What the calls of a table promise, one promise a test.
#include "cairn/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "model_world.h"

namespace cairn {
namespace {

using model::MemorySink;

SlotDescriptor Descriptor(const std::string& name = "slot") {
  SlotDescriptor descriptor;
  descriptor.operator_uid = "sink/count/0";
  descriptor.name = name;
  descriptor.key_codec = "int64";
  descriptor.value_codec = "test";
  return descriptor;
}

constexpr KeyGroupRange kAll{0, kMaxKeyGroups};

std::string Saved(const StateTable& table, const View& view) {
  MemorySink sink;
  EXPECT_TRUE(table.EncodeBase(view, kAll, &sink).ok());
  return sink.Flat();
}

/// Fails on one value: at encoding by a throw, at decoding by a status.
struct PickyCodec {
  size_t EncodedSize(const int64_t&) const { return 8; }
  void Encode(const int64_t& value, char* out) const {
    if (value == 42) throw std::runtime_error("42 is not allowed");
    std::memcpy(out, &value, 8);
  }
  Result<int64_t> Decode(std::string_view bytes) const {
    int64_t value;
    std::memcpy(&value, bytes.data(), 8);
    if (value == 43) return Status::Corruption("43 is not allowed");
    return value;
  }
  size_t MemoryBytes(const int64_t&) const { return 0; }
};

// --- saved rows --------------------------------------------------------------------------------

TEST(SavedRows, OfEqualStatesAreEqualBytesHoweverTheyCameAbout) {
  constexpr int64_t kRows = 30000;
  std::vector<int64_t> keys(kRows);
  for (int64_t i = 0; i < kRows; ++i) keys[static_cast<size_t>(i)] = i * i;
  std::string first;
  for (uint32_t order = 0; order < 3; ++order) {
    auto domain = StateDomain::Create({});
    Table<int64_t, std::string> table(
        domain.get(), Descriptor(),
        {.slot_hash_seed = 9, .segment_bytes_max = order == 2 ? 1024u : 16384u});
    std::shuffle(keys.begin(), keys.end(), std::mt19937(order));
    for (int64_t key : keys) {
      ASSERT_TRUE(table.Update(key, [&](std::string& v, bool) { v = std::to_string(key); }).ok());
      if (order == 1) {  // with detours: other rows that come and go
        ASSERT_TRUE(table.Update(-key - 1, [](std::string& v, bool) { v = "gone"; }).ok());
        if (key % 3 == 0) domain->Capture();
      }
    }
    if (order == 1) {
      for (int64_t key : keys) ASSERT_TRUE(table.Erase(-key - 1));
    }
    const std::string saved = Saved(table, domain->Capture());
    if (order == 0) first = saved;
    ASSERT_EQ(saved == first, true) << "order " << order;
  }
}

TEST(SavedRows, AscendBySlotHashThenKeyWithinAGroup) {
  auto domain = StateDomain::Create({});
  Table<Bytes, int64_t> table(domain.get(), Descriptor(), {.key_groups = 4, .slot_hash_seed = 5});
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(table
                    .Update(model::KeyOf<Bytes>::Make(static_cast<uint64_t>(i)),
                            [&](int64_t& v, bool) { v = i; })
                    .ok());
  }
  MemorySink sink;
  ASSERT_TRUE(table.EncodeBase(domain->Capture(), kAll, &sink).ok());
  const detail::SlotHasher hasher(5);
  size_t rows = 0;
  for (const auto& part : sink.parts()) {
    const SavedRowSpan span = part->rows.Span();
    for (size_t i = 0; i < span.rows; ++i, ++rows) {
      const std::string_view key = span.key(i).substr(2);
      EXPECT_EQ(KeyGroupOf(key, 4), part->group);
      if (i > 0) {
        EXPECT_LT(hasher.Hash(span.key(i - 1).substr(2)), hasher.Hash(key));
      }
    }
  }
  EXPECT_EQ(rows, 5000u);
}

TEST(SavedRows, AThrowingCodecNamesOperatorSlotKeyAndCodec) {
  auto domain = StateDomain::Create({});
  Table<int64_t, int64_t, Codec<int64_t>, PickyCodec> table(domain.get(), Descriptor());
  for (int64_t key = 0; key < 100; ++key) {
    ASSERT_TRUE(table.Update(key, [&](int64_t& value, bool) { value = key; }).ok());
  }
  MemorySink sink;
  const Status status = table.EncodeBase(domain->Capture(), kAll, &sink);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  for (const char* part : {"sink/count/0", "slot", "0x2a00000000000000", "test", "42 is not"}) {
    EXPECT_NE(status.ToString().find(part), std::string::npos) << status.ToString();
  }
}

TEST(Load, ARowThatDoesNotDecodeIsCorruptionAndNamed) {
  auto domain = StateDomain::Create({});
  Table<int64_t, int64_t, Codec<int64_t>, PickyCodec> table(domain.get(), Descriptor());
  for (int64_t key = 0; key < 3000; ++key) {
    ASSERT_TRUE(
        table.Update(key, [&](int64_t& value, bool) { value = key == 7 ? 43 : -key; }).ok());
  }
  MemorySink sink;
  ASSERT_TRUE(table.EncodeBase(domain->Capture(), kAll, &sink).ok());
  Table<int64_t, int64_t, Codec<int64_t>, PickyCodec> restored(domain.get(), Descriptor());
  Status status;
  for (const auto& part : sink.parts()) {
    LoadCounts counts;
    status = restored.Load(part->rows.Span(), 2, 2, &counts);
    if (!status.ok()) break;
  }
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_NE(status.ToString().find("0x0700000000000000"), std::string::npos) << status.ToString();
}

TEST(Load, AKeyInAnotherGroupThanItsOwnIsCorruption) {
  auto domain = StateDomain::Create({});
  Table<int64_t, int64_t> table(domain.get(), Descriptor());
  SavedRows rows;
  const int64_t key = 1;  // of group 36
  rows.SetKeyPrefix(MemorySink::Prefix(35));
  const SavedRows::Slot to = rows.Append(SavedRowKind::kMaterialised, 8, 8);
  std::memcpy(to.key, &key, 8);
  std::memcpy(to.value, &key, 8);
  LoadCounts counts;
  EXPECT_EQ(table.Load(rows.Span(), 2, 2, &counts).code(), StatusCode::kCorruption);
  EXPECT_EQ(table.size(), 0u);
}

TEST(Load, ABaseThatHoldsAKeyTwiceIsCorruption) {
  auto domain = StateDomain::Create({});
  Table<int64_t, int64_t> table(domain.get(), Descriptor());
  SavedRows rows;
  rows.SetKeyPrefix(MemorySink::Prefix(36));
  const int64_t key = 1;
  for (int64_t value : {5, 6}) {
    const SavedRows::Slot to = rows.Append(SavedRowKind::kMaterialised, 8, 8);
    std::memcpy(to.key, &key, 8);
    std::memcpy(to.value, &value, 8);
  }
  LoadCounts counts;
  const Status status = table.Load(rows.Span(), 2, 2, &counts);
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_NE(status.ToString().find("saved twice"), std::string::npos) << status.ToString();
}

TEST(Load, TakesRowsInAnyOrderAndInAnyNumberOfParts) {
  auto domain = StateDomain::Create({});
  Table<int64_t, int64_t> table(domain.get(), Descriptor(), {.key_groups = 2});
  for (int64_t key = 0; key < 5000; ++key) {
    ASSERT_TRUE(table.Update(key, [&](int64_t& value, bool) { value = -key; }).ok());
  }
  MemorySink sink;
  ASSERT_TRUE(table.EncodeBase(domain->Capture(), {0, 2}, &sink).ok());
  for (const bool backwards : {false, true}) {
    Table<int64_t, int64_t> restored(domain.get(), Descriptor(), {.key_groups = 2});
    LoadCounts counts;
    for (const auto& part : sink.parts()) {
      constexpr size_t kPart = 100;
      const SavedRowSpan all = part->rows.Span();
      const size_t parts = (all.rows + kPart - 1) / kPart;
      for (size_t i = 0; i < parts; ++i) {
        const size_t first = (backwards ? parts - 1 - i : i) * kPart;
        SavedRowSpan some = all;
        some.kinds += first;
        some.key_offsets += first;
        some.value_offsets += first;
        some.rows = std::min(kPart, all.rows - first);
        ASSERT_TRUE(restored.Load(some, 2, 2, &counts).ok());
      }
    }
    EXPECT_EQ(counts.rows, 5000u);
    ASSERT_EQ(restored.size(), 5000u);
    for (int64_t key = 0; key < 5000; ++key) ASSERT_EQ(*restored.Find(key), -key);
  }
}

TEST(Load, SkipsAndCountsRowsOfOtherGroups) {
  auto domain = StateDomain::Create({});
  Table<int64_t, int64_t> table(domain.get(), Descriptor());
  for (int64_t key = 0; key < 1000; ++key) {
    ASSERT_TRUE(table.Update(key, [&](int64_t& value, bool) { value = key; }).ok());
  }
  MemorySink sink;
  ASSERT_TRUE(table.EncodeBase(domain->Capture(), kAll, &sink).ok());
  uint64_t rows = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    Table<int64_t, int64_t> part(domain.get(), Descriptor(),
                                 {.range = KeyGroupsOfSubtask(i, 3, kDefaultKeyGroups)});
    LoadCounts counts;
    for (const auto& saved : sink.parts()) {
      ASSERT_TRUE(part.Load(saved->rows.Span(), 2, 2, &counts).ok());
    }
    EXPECT_EQ(counts.rows, part.size());
    EXPECT_EQ(counts.rows + counts.skipped, 1000u);
    rows += counts.rows;
  }
  EXPECT_EQ(rows, 1000u);
}

// --- changes -----------------------------------------------------------------------------------

TEST(Update, ACallbackThatThrowsChangesNothing) {
  auto domain = StateDomain::Create({});
  Table<int64_t, int64_t> numbers(domain.get(), Descriptor("numbers"));
  Table<int64_t, std::string> strings(domain.get(), Descriptor("strings"));
  ASSERT_TRUE(numbers.Update(1, [](int64_t& value, bool) { value = 5; }).ok());
  ASSERT_TRUE(strings.Update(1, [](std::string& value, bool) { value = "five"; }).ok());
  const View view = domain->Capture();
  for (int64_t key : {1, 2}) {
    EXPECT_THROW((void)numbers.Update(key,
                                      [](int64_t& value, bool) {
                                        value = 6;
                                        throw std::runtime_error("no");
                                      }),
                 std::runtime_error);
    EXPECT_THROW((void)strings.Update(key,
                                      [](std::string& value, bool) {
                                        value = "six";
                                        throw std::runtime_error("no");
                                      }),
                 std::runtime_error);
  }
  EXPECT_EQ(*numbers.Find(1), 5);
  EXPECT_EQ(numbers.Find(2), nullptr);
  EXPECT_EQ(*strings.Find(1), "five");
  EXPECT_EQ(strings.Find(2), nullptr);
  EXPECT_EQ(numbers.size() + strings.size(), 2u);
  size_t changed = 0;
  numbers.Delta(domain->Capture(), view.epoch(), [&](auto, auto&, auto) { ++changed; });
  strings.Delta(domain->Capture(), view.epoch(), [&](auto, auto&, auto) { ++changed; });
  EXPECT_EQ(changed, 0u);
}

struct CopyThrows {
  int64_t number = 0;
  std::string text;
  static inline bool armed = false;
  CopyThrows() = default;
  CopyThrows(const CopyThrows& other) : number(other.number), text(other.text) {
    if (armed) throw std::bad_alloc();
  }
  CopyThrows& operator=(const CopyThrows&) = default;
};
struct CopyThrowsCodec {
  size_t EncodedSize(const CopyThrows&) const { return 0; }
  void Encode(const CopyThrows&, char*) const {}
  Result<CopyThrows> Decode(std::string_view) const { return CopyThrows{}; }
  size_t MemoryBytes(const CopyThrows&) const { return 0; }
};

TEST(Update, AValueThatCannotBeCopiedForAViewLeavesSegmentAndViewAlone) {
  auto domain = StateDomain::Create({});
  Table<int64_t, CopyThrows, Codec<int64_t>, CopyThrowsCodec> table(domain.get(), Descriptor());
  const auto set = [](CopyThrows& value, bool) noexcept { value.number = 1; };
  ASSERT_TRUE(table.Update(1, set).ok());
  const View view = domain->Capture();
  CopyThrows::armed = true;
  EXPECT_THROW((void)table.Update(1, set), std::bad_alloc);
  CopyThrows::armed = false;
  // A segment left busy would hang this read.
  EXPECT_TRUE(table.Get(view, 1, [](const CopyThrows& value) { EXPECT_EQ(value.number, 1); }));
  EXPECT_TRUE(table.Update(1, [](CopyThrows& value, bool) noexcept { value.number = 2; }).ok());
  EXPECT_TRUE(table.Get(view, 1, [](const CopyThrows& value) { EXPECT_EQ(value.number, 1); }));
  EXPECT_EQ(table.Find(1)->number, 2);
}

TEST(Update, AKeyOfAnotherSubtasksGroupIsRefused) {
  auto domain = StateDomain::Create({});
  Table<int64_t, int64_t> table(domain.get(), Descriptor(), {.range = {0, 64}});
  const auto set = [](int64_t& value, bool) { value = 1; };
  EXPECT_TRUE(table.Update(1, set).ok());                                // group 36
  EXPECT_EQ(table.Update(0, set).code(), StatusCode::kInvalidArgument);  // group 69
  const std::vector<int64_t> keys = {2, 0};
  std::vector<uint64_t> hashes;
  for (const int64_t& key : keys) hashes.push_back(detail::FnvOfObject(key));
  size_t applied = 0;
  const Status status = table.UpdateBatch(std::span<const int64_t>(keys), hashes,
                                          [&](size_t, int64_t&, bool) { ++applied; });
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(applied, 1u);
  EXPECT_EQ(table.size(), 2u);
}

TEST(UpdateBatch, ARepeatedKeyMeetsItsEarlierChange) {
  auto domain = StateDomain::Create({});
  Table<Bytes, int64_t> table(domain.get(), Descriptor());
  const std::vector<std::string> names = {"a", "b", "a long name that is not inline",
                                          "a", "b", "a long name that is not inline"};
  const Status status = table.UpdateBatch(
      6000, [&](size_t i) { return std::string_view(names[i % 6]); },
      [&](size_t i) { return Fnv1a64(names[i % 6]); },
      [&](size_t i, int64_t& count, bool inserted) {
        EXPECT_EQ(inserted, i < 3);
        EXPECT_EQ(count, static_cast<int64_t>(i / 3));
        ++count;
      });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(table.size(), 3u);
}

TEST(FindBatch, SeesWhatFindSees) {
  auto domain = StateDomain::Create({});
  Table<int64_t, int64_t> table(domain.get(), Descriptor());
  for (int64_t key = 0; key < 5000; key += 2) {
    ASSERT_TRUE(table.Update(key, [&](int64_t& value, bool) { value = key * 3; }).ok());
  }
  size_t calls = 0;
  table.FindBatch(
      5000, [](size_t i) { return static_cast<int64_t>(i); },
      [](size_t i) { return detail::FnvOfObject(static_cast<int64_t>(i)); },
      [&](size_t i, const int64_t* value) {
        EXPECT_EQ(i, calls++);
        EXPECT_EQ(value, table.Find(static_cast<int64_t>(i)));
        EXPECT_EQ(value != nullptr, i % 2 == 0);
      });
  EXPECT_EQ(calls, 5000u);
}

// --- memory ------------------------------------------------------------------------------------

TEST(Memory, AnInsertOverTheBudgetIsRefusedAndChangesNothing) {
  MemoryBudget budget(512 * 1024);
  auto other = budget.AddOwner("the other owner");
  ASSERT_TRUE(other->Charge(100 * 1024).ok());
  auto domain = StateDomain::Create({.name = "count subtask 0", .budget = &budget});
  Table<int64_t, int64_t> table(domain.get(), Descriptor());
  Status status;
  int64_t key = 0;
  while (status.ok()) {
    status = table.Update(key, [&](int64_t& value, bool) { value = key; });
    if (status.ok()) ++key;
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.ToString().find("count subtask 0"), std::string::npos) << status.ToString();
  EXPECT_NE(status.ToString().find("the other owner"), std::string::npos) << status.ToString();
  EXPECT_LE(budget.total(), budget.limit());
  EXPECT_GT(key, 3000);
  EXPECT_EQ(table.size(), static_cast<uint64_t>(key));
  EXPECT_EQ(table.Find(key), nullptr);
  for (int64_t i = 0; i < key; ++i) ASSERT_EQ(*table.Find(i), i);
  // Existing rows go on, erases free room, and a raised limit lets inserts go on.
  EXPECT_TRUE(table.Update(0, [](int64_t& value, bool) { value = -1; }).ok());
  budget.set_limit(8 << 20);
  for (int64_t i = 0; i < 20000; ++i) {
    ASSERT_TRUE(table.Update(key + i, [](int64_t& value, bool) { value = 0; }).ok());
  }
}

TEST(Memory, ARefusalNamesTheOldestViewWhenViewsHoldMemory) {
  MemoryBudget budget(768 * 1024);
  auto domain = StateDomain::Create({.budget = &budget});
  Table<int64_t, int64_t> table(domain.get(), Descriptor());
  for (int64_t key = 0; key < 5000; ++key) {
    ASSERT_TRUE(table.Update(key, [](int64_t& value, bool) { value = 0; }).ok());
  }
  std::vector<View> views;
  Status status;
  for (int64_t round = 1; status.ok(); ++round) {
    views.push_back(domain->Capture());
    for (int64_t key = 0; key < 5000 && status.ok(); ++key) {
      status = table.Update(key, [&](int64_t& value, bool) noexcept { value = round; });
    }
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.ToString().find("oldest is that of epoch 1"), std::string::npos)
      << status.ToString();
  // Erasing goes over the budget when it must, and nothing a view shows has changed.
  EXPECT_TRUE(table.Erase(4999));
  table.Scan(views[0], kAll, [](const int64_t&, const int64_t& value) { EXPECT_EQ(value, 0); });
  EXPECT_EQ(table.CountRows(views[0]), 5000u);
}

TEST(Memory, AHeldViewCostsWhatChangedAndAtMostAboutTheState) {
  auto domain = StateDomain::Create({});
  Table<int64_t, int64_t> table(domain.get(), Descriptor());
  constexpr int64_t kKeys = 100000;
  const auto touch = [&](int64_t from, int64_t to) {
    for (int64_t key = from; key < to; ++key) {
      ASSERT_TRUE(table.Update(key, [](int64_t& value, bool) noexcept { ++value; }).ok());
    }
  };
  touch(0, kKeys);
  const uint64_t state = table.MemoryBytes();
  const View held = domain->Capture();
  touch(0, 1000);
  EXPECT_LE(domain->ViewBytes(), 1000u * 24 + 64 * 1024);
  // Many short views beside the held one.
  for (int i = 0; i < 30; ++i) {
    View shortlived = domain->Capture();
    touch(0, kKeys);
    shortlived.Release();
    domain->Poll(1000000);
    EXPECT_LE(domain->ViewBytes(), state * 5 / 4 + state * 5 / 4) << "round " << i;
  }
}

TEST(Memory, ViewsThatAreGoneLeaveNothingBehind) {
  MemoryBudget budget(0);
  auto domain = StateDomain::Create({.budget = &budget});
  {
    Table<Bytes, std::string> table(domain.get(), Descriptor(), {.log_chunk_rows = 8});
    const std::string long_key(100, 'k');
    std::vector<View> views;
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < 2000; ++i) {
        const std::string key = long_key + std::to_string(i);
        ASSERT_TRUE(table.Update(key, [&](std::string& v, bool) { v.assign(300, 'v'); }).ok());
        if ((i + round) % 7 == 0) {
          ASSERT_TRUE(table.Erase(key));
        }
      }
      views.push_back(domain->Capture());
    }
    views.clear();
    domain->Poll(1000000);
    EXPECT_LE(domain->ViewBytes(), 1024u);  // at most the chunk in use
  }
  domain->Poll(1000000);
  EXPECT_EQ(domain->ViewBytes(), 0u);
  domain.reset();
  EXPECT_EQ(budget.total(), 0u);
}

TEST(Memory, WithoutDeltasErasedKeysAreForgotten) {
  auto domain = StateDomain::Create({.track_deltas = false});
  Table<int64_t, int64_t> table(domain.get(), Descriptor(), {.key_groups = 1});
  uint64_t most = 0;
  for (int64_t key = 0; key < 200000; ++key) {
    ASSERT_TRUE(table.Update(key, [](int64_t& value, bool) { value = 1; }).ok());
    if (key >= 1000) {
      ASSERT_TRUE(table.Erase(key - 1000));
    }
    most = std::max(most, table.MemoryBytes());
  }
  EXPECT_EQ(table.size(), 1000u);
  EXPECT_LE(most, 300000u);
}

TEST(Memory, CommittedErasesAreForgottenAndUncommittedOnesAreNot) {
  auto domain = StateDomain::Create({});
  Table<int64_t, int64_t> table(domain.get(), Descriptor(), {.key_groups = 1});
  uint64_t most = 0;
  for (int64_t key = 0; key < 200000; ++key) {
    ASSERT_TRUE(table.Update(key, [](int64_t& value, bool) { value = 1; }).ok());
    if (key >= 1000) {
      ASSERT_TRUE(table.Erase(key - 1000));
    }
    if (key % 1000 == 999) domain->SetCommitted(domain->Capture().epoch());
    most = std::max(most, table.MemoryBytes());
  }
  EXPECT_LE(most, 600000u);
}

TEST(MemoryBudget, RefusesOverTheLimitAndTakesNothing) {
  MemoryBudget budget(1000);
  auto a = budget.AddOwner("a");
  auto b = budget.AddOwner("b");
  ASSERT_TRUE(a->Charge(700).ok());
  const Status status = b->Charge(301);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.ToString().find("a 700 B"), std::string::npos) << status.ToString();
  EXPECT_EQ(budget.total(), 700u);
  EXPECT_TRUE(b->Charge(300).ok());
  b->Force(50);
  EXPECT_EQ(budget.total(), 1050u);
  a.reset();
  EXPECT_EQ(budget.total(), 350u);
}

TEST(MemoryBudget, DefaultsToHalfOfMemoryButNoLessThan64MiB) {
  EXPECT_GE(MemoryBudget::DefaultLimit(), uint64_t{64} << 20);
  EXPECT_EQ(MemoryBudget::Default()->limit(), MemoryBudget::DefaultLimit());
}

// --- views -------------------------------------------------------------------------------------

TEST(View, OutlivesTablesAndDomain) {
  MemoryBudget budget(0);
  auto domain = StateDomain::Create({.budget = &budget});
  auto table = std::make_unique<Table<int64_t, std::string>>(domain.get(), Descriptor());
  ASSERT_TRUE(table->Update(1, [](std::string& value, bool) { value.assign(1000, 'x'); }).ok());
  View view = domain->Capture();
  View copy = view;
  table.reset();
  domain.reset();
  EXPECT_EQ(copy.epoch(), 1u);
  view.Release();
  EXPECT_GT(budget.total(), 0u);
  copy.Release();
  EXPECT_EQ(budget.total(), 0u);
}

TEST(View, ShowsNothingOfATableMadeAfterIt) {
  auto domain = StateDomain::Create({});
  const View before = domain->Capture();
  Table<int64_t, int64_t> table(domain.get(), Descriptor());
  ASSERT_TRUE(table.Update(1, [](int64_t& value, bool) { value = 1; }).ok());
  EXPECT_EQ(table.CountRows(before), 0u);
  EXPECT_FALSE(table.Get(before, 1, [](const int64_t&) {}));
}

TEST(View, OldestAndNumberOfOpenViewsAreTold) {
  auto domain = StateDomain::Create({});
  EXPECT_EQ(domain->oldest_view_epoch(), 0u);
  View a = domain->Capture();
  View b = domain->Capture();
  EXPECT_EQ(domain->oldest_view_epoch(), 1u);
  EXPECT_EQ(domain->open_views(), 2u);
  a.Release();
  EXPECT_EQ(domain->oldest_view_epoch(), 2u);
  b.Release();
  EXPECT_EQ(domain->oldest_view_epoch(), 0u);
  EXPECT_EQ(domain->current_epoch(), 3u);
}

// --- bytes -------------------------------------------------------------------------------------

TEST(Bytes, CompareAsStringsAtEveryLength) {
  std::mt19937_64 random(3);
  std::vector<std::string> strings;
  for (size_t size = 0; size <= 40; ++size) {
    for (int i = 0; i < 6; ++i) {
      std::string text(size, 'a');
      for (char& c : text) c = static_cast<char>(random() % 3 == 0 ? 'b' : i % 2 == 0 ? '\0' : 'a');
      strings.push_back(text);
    }
  }
  for (const std::string& a : strings) {
    const Bytes key(a);
    ASSERT_EQ(key.ToString(), a);
    ASSERT_EQ(key.size(), a.size());
    ASSERT_EQ(key.is_inline(), a.size() <= Bytes::kInlineBytes);
    for (const std::string& b : strings) {
      const std::string copy = b;  // other memory
      ASSERT_EQ(key == Bytes(copy), a == b);
      ASSERT_EQ(key < Bytes(copy), a < b);
    }
  }
}

}  // namespace
}  // namespace cairn

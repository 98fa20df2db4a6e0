// SPDX-License-Identifier: Apache-2.0
//
// Behaviours of the kinds of state, one a test. The model test checks them all at random.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "cairn/broadcast_state.h"
#include "cairn/folding_state.h"
#include "cairn/list_state.h"
#include "cairn/map_state.h"
#include "cairn/ordered_codec.h"
#include "cairn/value_state.h"
#include "model_world.h"

namespace cairn::kinds {
namespace {

using model::MemorySink;

constexpr KeyGroupRange kAll{0, kMaxKeyGroups};

SlotDescriptor Slot(const std::string& name = "slot") {
  SlotDescriptor descriptor;
  descriptor.operator_uid = "op";
  descriptor.name = name;
  descriptor.key_codec = "key";
  descriptor.value_codec = "value";
  return descriptor;
}

template <class List>
std::vector<std::string> ElementsOf(const List& list, std::string_view key) {
  std::vector<std::string> all;
  list.ForEach(key, [&](uint64_t, const std::string& value) { all.push_back(value); });
  return all;
}

size_t RowsOf(const MemorySink& sink) {
  size_t rows = 0;
  for (const auto& part : sink.parts()) rows += part->rows.rows();
  return rows;
}

void LoadAll(const MemorySink& sink, StateTable* table) {
  LoadCounts counts;
  for (const auto& part : sink.parts()) {
    const Status status = table->Load(part->rows.Span(), 2, 2, &counts);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
}

using Lists = ListState<Bytes, std::string>;
using Maps = MapState<Bytes, std::string, int64_t>;
using TextMaps = MapState<Bytes, std::string, int64_t, Codec<Bytes>, OrderedTextCodec<std::string>>;

// --- lists -------------------------------------------------------------------------------------

TEST(ListStateTest, KeepsOrderAndDuplicates) {
  auto domain = StateDomain::Create({});
  Lists lists(domain.get(), Slot());
  for (const char* value : {"b", "a", "b", "b"}) ASSERT_TRUE(lists.Append("k", value).ok());
  EXPECT_EQ(ElementsOf(lists, "k"), (std::vector<std::string>{"b", "a", "b", "b"}));
  EXPECT_EQ(lists.Size("k"), 4u);
}

TEST(ListStateTest, ReplacePutsANewListInThePlaceOfTheOld) {
  auto domain = StateDomain::Create({});
  Lists lists(domain.get(), Slot());
  ASSERT_TRUE(lists.Append("k", "old").ok());
  ASSERT_TRUE(lists.Replace("k", {"x", "y"}).ok());
  EXPECT_EQ(ElementsOf(lists, "k"), (std::vector<std::string>{"x", "y"}));
  ASSERT_TRUE(lists.Replace("k", {}).ok());
  EXPECT_EQ(lists.size(), 0u) << "an empty list is absent";
}

TEST(ListStateTest, RemovesFromTheFrontAndFromTheMiddle) {
  auto domain = StateDomain::Create({});
  Lists lists(domain.get(), Slot());
  for (const char* value : {"a", "b", "c"}) ASSERT_TRUE(lists.Append("k", value).ok());
  EXPECT_EQ(*lists.RemoveAt("k", 1), true);
  EXPECT_EQ(*lists.RemoveAt("k", 1), false) << "gone already";
  EXPECT_EQ(**lists.PopFront("k"), "a");
  EXPECT_EQ(ElementsOf(lists, "k"), std::vector<std::string>{"c"});
  EXPECT_EQ(**lists.PopFront("k"), "c");
  EXPECT_EQ(*lists.PopFront("k"), std::nullopt);
}

TEST(ListStateTest, AViewShowsTheListOfItsCapture) {
  auto domain = StateDomain::Create({});
  Lists lists(domain.get(), Slot());
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(lists.Append("k", std::to_string(i)).ok());
  const View view = domain->Capture();
  ASSERT_TRUE(lists.Append("k", "new").ok());
  ASSERT_TRUE(lists.Set("k", 7, "changed").ok());
  ASSERT_TRUE(lists.RemoveAt("k", 100).ok());
  EXPECT_EQ(lists.Size(view, "k"), 200u);
  const auto expect_own = [](uint64_t index, const std::string& value) {
    EXPECT_EQ(value, std::to_string(index));
  };
  lists.ForEach(view, "k", expect_own);
  EXPECT_EQ(lists.Size("k"), 200u);
}

TEST(ListStateTest, AFirstTouchUnderAViewCopiesOneChunkNotTheList) {
  auto domain = StateDomain::Create({});
  ListState<int64_t, int64_t> lists(domain.get(), Slot());
  for (int64_t i = 0; i < 100000; ++i) ASSERT_TRUE(lists.Append(1, i).ok());
  const View view = domain->Capture();
  const uint64_t before = lists.MemoryBytes();
  ASSERT_TRUE(lists.Append(1, 0).ok());
  ASSERT_TRUE(lists.Set(1, 50000, 0).ok());
  EXPECT_LT(lists.MemoryBytes() - before, 64u * 1024) << "of a list of " << before;
}

TEST(ListStateTest, ADeltaHoldsOnlyTheHeaderAndTheChangedElements) {
  auto domain = StateDomain::Create({});
  Lists lists(domain.get(), Slot());
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(lists.Append("k", "v").ok());
  domain->SetCommitted(domain->Capture().epoch());
  ASSERT_TRUE(lists.Append("k", "w").ok());
  ASSERT_TRUE(lists.RemoveAt("k", 3).ok());
  MemorySink delta;
  ASSERT_TRUE(lists.EncodeDelta(domain->Capture(), domain->committed_epoch(), kAll, &delta).ok());
  EXPECT_EQ(RowsOf(delta), 3u);
}

TEST(ListStateTest, ARestoredListContinuesItsSequence) {
  auto domain = StateDomain::Create({});
  Lists lists(domain.get(), Slot());
  for (const char* value : {"a", "b", "c"}) ASSERT_TRUE(lists.Append("k", value).ok());
  ASSERT_TRUE(lists.RemoveAt("k", 2).ok());
  MemorySink base;
  ASSERT_TRUE(lists.EncodeBase(domain->Capture(), kAll, &base).ok());
  auto other = StateDomain::Create({});
  Lists restored(other.get(), Slot());
  LoadAll(base, &restored);
  ASSERT_TRUE(restored.Append("k", "d").ok());
  uint64_t last = 0;
  restored.ForEach("k", [&](uint64_t index, const std::string&) { last = index; });
  EXPECT_EQ(last, 3u) << "index 2 was used before the restore";
  EXPECT_EQ(ElementsOf(restored, "k"), (std::vector<std::string>{"a", "b", "d"}));
}

TEST(ListStateTest, AClearedListLeavesNothingBehindOnceCommitted) {
  auto domain = StateDomain::Create({});
  Lists lists(domain.get(), Slot());
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(lists.Append("k", "v").ok());
  View view = domain->Capture();
  domain->SetCommitted(view.epoch());
  view.Release();
  ASSERT_TRUE(lists.Clear("k").ok());
  view = domain->Capture();
  MemorySink delta;
  ASSERT_TRUE(lists.EncodeDelta(view, domain->committed_epoch(), kAll, &delta).ok());
  EXPECT_EQ(RowsOf(delta), 1001u) << "every element and the header are erased";
  domain->SetCommitted(view.epoch());
  view.Release();
  lists.Maintain(100);
  view = domain->Capture();
  domain->SetCommitted(view.epoch());
  view.Release();
  lists.Maintain(1000);
  EXPECT_LT(lists.MemoryBytes(), 16u * 1024);
  EXPECT_EQ(lists.CountRows(domain->Capture()), 0u);
}

TEST(ListStateTest, ClearedFilledAndClearedAgainIsErasedInTheNextDelta) {
  auto domain = StateDomain::Create({});
  Lists lists(domain.get(), Slot());
  const auto commit = [&] {
    View view = domain->Capture();
    domain->SetCommitted(view.epoch());
  };
  ASSERT_TRUE(lists.Append("k", "first").ok());
  ASSERT_TRUE(lists.Clear("k").ok());
  ASSERT_TRUE(lists.Append("k", "second").ok());
  commit();
  ASSERT_TRUE(lists.Clear("k").ok());
  lists.Maintain(100);
  MemorySink delta;
  const View view = domain->Capture();
  ASSERT_TRUE(lists.EncodeDelta(view, domain->committed_epoch(), kAll, &delta).ok());
  // The header, the element that the committed cut has, and the one it never had.
  EXPECT_EQ(RowsOf(delta), 2u);
  for (size_t i = 0; i < RowsOf(delta); ++i) {
    EXPECT_EQ(delta.parts().front()->rows.Span().kind(i), SavedRowKind::kErase);
  }
}

TEST(ListStateTest, AQueueKeepsOnlyWhatIsInIt) {
  auto domain = StateDomain::Create({.track_deltas = false});
  ListState<int64_t, int64_t> lists(domain.get(), Slot());
  for (int64_t i = 0; i < 100; ++i) ASSERT_TRUE(lists.Append(1, i).ok());
  const uint64_t before = lists.MemoryBytes();
  for (int64_t i = 0; i < 100000; ++i) {
    ASSERT_TRUE(lists.Append(1, i).ok());
    ASSERT_TRUE(lists.PopFront(1).ok());
  }
  EXPECT_EQ(lists.Size(1), 100u);
  EXPECT_LT(lists.MemoryBytes(), before + 16 * 1024);
}

TEST(ListStateTest, AThrowingCopyLeavesTheListAsItWas) {
  struct Fragile {
    int64_t number = 0;
    bool throws = false;
    Fragile() = default;
    Fragile(int64_t n, bool t) : number(n), throws(t) {}
    Fragile(const Fragile& other) : number(other.number), throws(other.throws) {
      if (throws) throw std::runtime_error("copied");
    }
    Fragile(Fragile&&) noexcept = default;
    Fragile& operator=(const Fragile&) = default;
    Fragile& operator=(Fragile&&) noexcept = default;
  };
  struct FragileCodec {
    size_t EncodedSize(const Fragile&) const { return 8; }
    void Encode(const Fragile& value, char* out) const { std::memcpy(out, &value.number, 8); }
    Result<Fragile> Decode(std::string_view) const { return Fragile(0, false); }
    size_t MemoryBytes(const Fragile&) const { return 0; }
  };
  auto domain = StateDomain::Create({});
  ListState<int64_t, Fragile, Codec<int64_t>, FragileCodec> lists(domain.get(), Slot());
  ASSERT_TRUE(lists.Append(1, Fragile(1, true)).ok());
  const View view = domain->Capture();  // the next append copies the chunk
  EXPECT_THROW((void)lists.Append(1, Fragile(2, false)), std::runtime_error);
  EXPECT_EQ(lists.Size(1), 1u);
}

// --- maps --------------------------------------------------------------------------------------

TEST(MapStateTest, PutsFindsRemovesAndListsElements) {
  auto domain = StateDomain::Create({});
  Maps maps(domain.get(), Slot());
  ASSERT_TRUE(maps.Put("k", "a", 1).ok());
  ASSERT_TRUE(maps.Put("k", "b", 2).ok());
  ASSERT_TRUE(maps.Update("k", "a",
                          [](int64_t& value, bool inserted) {
                            EXPECT_FALSE(inserted);
                            value += 10;
                          })
                  .ok());
  EXPECT_EQ(*maps.Find("k", "a"), 11);
  EXPECT_TRUE(maps.Contains("k", "b"));
  EXPECT_EQ(*maps.Remove("k", "b"), true);
  EXPECT_EQ(*maps.Remove("k", "b"), false);
  EXPECT_EQ(maps.Find("k", "b"), nullptr);
  EXPECT_EQ(maps.Size("k"), 1u);
  EXPECT_EQ(maps.Size("other"), 0u);
}

TEST(MapStateTest, AnUpdateThatThrowsChangesNothing) {
  auto domain = StateDomain::Create({});
  Maps maps(domain.get(), Slot());
  ASSERT_TRUE(maps.Put("k", "a", 1).ok());
  const auto throws = [](int64_t& value, bool) {
    value = 666;
    throw std::runtime_error("on purpose");
  };
  EXPECT_THROW((void)maps.Update("k", "a", throws), std::runtime_error);
  EXPECT_THROW((void)maps.Update("k", "new", throws), std::runtime_error);
  EXPECT_EQ(*maps.Find("k", "a"), 1);
  EXPECT_EQ(maps.Size("k"), 1u);
}

TEST(MapStateTest, AbsentEmptyAndZeroLengthDiffer) {
  auto domain = StateDomain::Create({});
  MapState<Bytes, std::string, std::string> maps(domain.get(), Slot());
  ASSERT_TRUE(maps.Put("", "", "").ok());
  ASSERT_TRUE(maps.Put("emptied", "x", "y").ok());
  ASSERT_TRUE(maps.Remove("emptied", "x").ok());
  MemorySink base;
  ASSERT_TRUE(maps.EncodeBase(domain->Capture(), kAll, &base).ok());
  EXPECT_EQ(RowsOf(base), 2u) << "one header, one element";
  auto other = StateDomain::Create({});
  MapState<Bytes, std::string, std::string> restored(other.get(), Slot());
  LoadAll(base, &restored);
  ASSERT_NE(restored.Find("", ""), nullptr);
  EXPECT_EQ(*restored.Find("", ""), "");
  EXPECT_EQ(restored.Find("", "x"), nullptr);
  EXPECT_EQ(restored.Size("emptied"), 0u);
}

TEST(MapStateTest, KeysThatBeginAlikeDoNotShareElements) {
  auto domain = StateDomain::Create({});
  MapState<Bytes, std::string, std::string> maps(domain.get(), Slot());
  const std::vector<std::string> keys = {"key",
                                         "key2",
                                         "key|",
                                         "key|2",
                                         "ke",
                                         "",
                                         "\x1f",
                                         std::string("\0", 1),
                                         std::string("key\0", 4),
                                         "\xff",
                                         "\xc3\xa9",
                                         std::string(1 << 20, 'K')};
  for (const std::string& key : keys) {
    for (const std::string& map_key : keys) {
      ASSERT_TRUE(maps.Put(key, map_key, key + "/" + map_key).ok());
    }
  }
  ASSERT_TRUE(maps.Clear("key").ok());
  MemorySink base;
  ASSERT_TRUE(maps.EncodeBase(domain->Capture(), kAll, &base).ok());
  auto other = StateDomain::Create({});
  MapState<Bytes, std::string, std::string> restored(other.get(), Slot());
  LoadAll(base, &restored);
  for (const std::string& key : keys) {
    EXPECT_EQ(restored.Size(key), key == "key" ? 0 : keys.size());
    for (const std::string& map_key : keys) {
      const std::string* found = restored.Find(key, map_key);
      ASSERT_EQ(found != nullptr, key != "key");
      if (found != nullptr) {
        EXPECT_EQ(*found, key + "/" + map_key);
      }
    }
  }
}

TEST(MapStateTest, AnOrderedMapIsReadByRangeAndByPrefixNowAndInAView) {
  auto domain = StateDomain::Create({});
  TextMaps maps(domain.get(), Slot());
  for (int i = 0; i < 500; ++i) {
    char text[16];
    std::snprintf(text, sizeof(text), "%03d", (i * 37) % 500);
    ASSERT_TRUE(maps.Put("k", text, (i * 37) % 500).ok());
  }
  const View view = domain->Capture();
  ASSERT_TRUE(maps.Clear("k").ok());
  std::vector<int64_t> seen;
  const auto collect = [&](const std::string&, int64_t value) { seen.push_back(value); };
  maps.ForRange(view, "k", "095", "105", collect);
  std::vector<int64_t> expected(10);
  std::iota(expected.begin(), expected.end(), 95);
  EXPECT_EQ(seen, expected);
  seen.clear();
  maps.ForPrefix(view, "k", "49", collect);
  expected.resize(10);
  std::iota(expected.begin(), expected.end(), 490);
  EXPECT_EQ(seen, expected);
  seen.clear();
  maps.ForRange("k", {}, {}, collect);
  EXPECT_TRUE(seen.empty());
}

// --- ordered codecs ----------------------------------------------------------------------------

template <class C, class T>
std::string Encoded(const C& codec, const T& value) {
  std::string bytes(codec.EncodedSize(value), '\0');
  codec.Encode(value, bytes.data());
  return bytes;
}

template <class C, class T>
void ExpectAscending(const C& codec, const std::vector<T>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string bytes = Encoded(codec, values[i]);
    const Result<T> back = codec.Decode(bytes);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(Encoded(codec, *back), bytes);
    if (i == 0) continue;
    EXPECT_LT(Encoded(codec, values[i - 1]), bytes) << i;
    EXPECT_TRUE(codec.Less(values[i - 1], values[i])) << i;
    EXPECT_FALSE(codec.Less(values[i], values[i - 1])) << i;
  }
}

TEST(OrderedCodecs, NumbersAndNullsSortAsDocumented) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ExpectAscending(OrderedInt64Codec(), std::vector<int64_t>{kMin, -1, 0, 1, kMax});
  ExpectAscending(OrderedDoubleCodec(), std::vector<double>{std::copysign(nan, -1.0), -kInf, -1e300,
                                                            -0.0, 0.0, 1e-300, kInf, nan});
  ExpectAscending(OrderedTextCodec<std::string>(),
                  std::vector<std::string>{"", std::string("\0", 1), "a", "aa", "b", "\xff"});
  ExpectAscending(OrderedOptionalCodec<int64_t, OrderedInt64Codec>(),
                  std::vector<std::optional<int64_t>>{std::nullopt, kMin, -1, kMax});
}

TEST(OrderedCodecs, AValueStateIsScannedByRangeAndPrefix) {
  auto domain = StateDomain::Create({});
  ValueState<int64_t, int64_t, OrderedInt64Codec> numbers(domain.get(), Slot("numbers"));
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  for (const int64_t key : {int64_t{5}, int64_t{-1}, int64_t{0}, kMin, int64_t{-5}, int64_t{4}}) {
    ASSERT_TRUE(numbers.Put(key, key).ok());
  }
  ValueState<Bytes, int64_t, OrderedTextCodec<Bytes>> texts(domain.get(), Slot("texts"));
  for (const char* key : {"ab", "abc", "ac", "b"}) ASSERT_TRUE(texts.Put(key, 1).ok());
  const View view = domain->Capture();
  std::vector<int64_t> seen;
  numbers.ScanRange(view, -5, 5, [&](int64_t key, int64_t) { seen.push_back(key); });
  EXPECT_EQ(seen, (std::vector<int64_t>{-5, -1, 0, 4}));
  std::vector<std::string> found;
  texts.ScanPrefix(view, "ab", [&](const Bytes& key, int64_t) { found.push_back(key.ToString()); });
  EXPECT_EQ(found, (std::vector<std::string>{"ab", "abc"}));
}

template <class State>
concept RangeScannable = requires(State state, const View& view) {
  state.ScanRange(view, std::nullopt, std::nullopt, [](const auto&, const auto&) {});
};
static_assert(RangeScannable<ValueState<int64_t, int64_t, OrderedInt64Codec>>);
static_assert(!RangeScannable<ValueState<int64_t, int64_t>>, "refused where it is declared");

// --- folds, broadcast --------------------------------------------------------------------------

struct Average {
  struct Accumulator {
    int64_t count = 0;
    int64_t sum = 0;
  };
  using Input = int64_t;
  void Add(Accumulator& to, const int64_t& value) const noexcept {
    ++to.count;
    to.sum += value;
  }
  double Result(const Accumulator& of) const {
    return static_cast<double>(of.sum) / static_cast<double>(of.count);
  }
};

TEST(FoldingStates, ReduceAndAggregateFoldAndSurviveARestore) {
  auto domain = StateDomain::Create({});
  using Sum = ReducingState<int64_t, int64_t, std::plus<int64_t>>;
  using Mean = AggregatingState<int64_t, Average, Codec<int64_t>, RawCodec<Average::Accumulator>>;
  Sum sums(domain.get(), Slot("sum"));
  Mean means(domain.get(), Slot("mean"));
  for (int64_t i = 1; i <= 4; ++i) {
    ASSERT_TRUE(sums.Add(7, i).ok());
    ASSERT_TRUE(means.Add(7, i).ok());
  }
  EXPECT_EQ(*sums.Find(7), 10);
  EXPECT_EQ(means.Get(7), 2.5);
  EXPECT_EQ(means.Get(8), std::nullopt);
  MemorySink sum_rows, mean_rows;
  const View view = domain->Capture();
  ASSERT_TRUE(sums.state().EncodeBase(view, kAll, &sum_rows).ok());
  ASSERT_TRUE(means.state().EncodeBase(view, kAll, &mean_rows).ok());
  auto other = StateDomain::Create({});
  Sum sums_back(other.get(), Slot("sum"));
  Mean means_back(other.get(), Slot("mean"));
  LoadAll(sum_rows, &sums_back.state());
  LoadAll(mean_rows, &means_back.state());
  EXPECT_EQ(*sums_back.Find(7), 10);
  ASSERT_TRUE(means_back.Add(7, 100).ok());
  EXPECT_EQ(means_back.Get(7), 22.0);
}

TEST(FoldingStates, AReductionThatThrowsChangesNothing) {
  struct Throws {
    int64_t operator()(const int64_t&, const int64_t&) const { throw std::runtime_error("no"); }
  };
  auto domain = StateDomain::Create({});
  ReducingState<int64_t, int64_t, Throws> state(domain.get(), Slot());
  ASSERT_TRUE(state.Add(1, 5).ok());
  EXPECT_THROW((void)state.Add(1, 6), std::runtime_error);
  EXPECT_EQ(*state.Find(1), 5);
}

TEST(BroadcastStateTest, OneValueASlotRoundTripsAndSlotsDoNotCollide) {
  auto domain = StateDomain::Create({});
  BroadcastState<std::string> rules(domain.get(), Slot("rules"), {});
  BroadcastState<std::string> limits(domain.get(), Slot("rules2"), {});
  ASSERT_TRUE(rules.Get().ok());
  EXPECT_EQ(*rules.Get(), std::nullopt);
  ASSERT_TRUE(rules.Put("a").ok());
  ASSERT_TRUE(rules.Put("b").ok());
  EXPECT_EQ(**rules.Get(), "b");
  EXPECT_EQ(*limits.Get(), std::nullopt);
}

TEST(BroadcastStateTest, FiveRecoveriesAtThreeParallelismsDoNotMakeItGrow) {
  std::vector<std::unique_ptr<MemorySink>> saved;
  for (const uint32_t parallelism : {2u, 2u, 5u, 3u, 2u}) {
    std::vector<std::unique_ptr<MemorySink>> next;
    size_t rows = 0;
    for (uint32_t subtask = 0; subtask < parallelism; ++subtask) {
      auto domain = StateDomain::Create({});
      BroadcastState<std::string> rules(domain.get(), Slot(),
                                        {.subtask = subtask, .parallelism = parallelism});
      for (const auto& sink : saved) LoadAll(*sink, &rules);
      if (!saved.empty()) {
        ASSERT_EQ(**rules.Get(), "rule");
      }
      ASSERT_TRUE(rules.Put("rule").ok());
      next.push_back(std::make_unique<MemorySink>());
      ASSERT_TRUE(rules.EncodeBase(domain->Capture(), {0, 1}, next.back().get()).ok());
      rows += RowsOf(*next.back());
    }
    EXPECT_EQ(rows, parallelism) << "an own row each, which hides those of others";
    saved = std::move(next);
  }
}

TEST(BroadcastStateTest, ClearedAfterARestoreItIsAbsentThoughPeersWereLoaded) {
  std::vector<std::unique_ptr<MemorySink>> saved;
  for (const uint32_t subtask : {0u, 1u}) {
    auto domain = StateDomain::Create({});
    BroadcastState<std::string> rules(domain.get(), Slot(), {.subtask = subtask, .parallelism = 2});
    ASSERT_TRUE(rules.Put("rule").ok());
    saved.push_back(std::make_unique<MemorySink>());
    ASSERT_TRUE(rules.EncodeBase(domain->Capture(), {0, 1}, saved.back().get()).ok());
  }
  for (const uint32_t parallelism : {1u, 2u, 3u}) {
    for (uint32_t subtask = 0; subtask < parallelism; ++subtask) {
      auto domain = StateDomain::Create({});
      BroadcastState<std::string> rules(domain.get(), Slot(),
                                        {.subtask = subtask, .parallelism = parallelism});
      for (const auto& sink : saved) LoadAll(*sink, &rules);
      ASSERT_EQ(**rules.Get(), "rule");
      EXPECT_TRUE(rules.Clear());
      EXPECT_EQ(*rules.Get(), std::nullopt);
      EXPECT_FALSE(rules.Clear());
      MemorySink rows;
      ASSERT_TRUE(rules.EncodeBase(domain->Capture(), {0, 1}, &rows).ok());
      EXPECT_EQ(RowsOf(rows), 0u);
    }
  }
}

}  // namespace
}  // namespace cairn::kinds

// SPDX-License-Identifier: Apache-2.0
#include "operators/topn.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "format/topn_codec.h"
#include "operators/operator_factory.h"
#include "operators/operator_harness.h"
#include "operators/topn_buffer.h"

namespace cairn::operators {
namespace {

using stream::RowKind;
using stream::SortSpec;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::shared_ptr<arrow::Schema>& Bids() {
  static const auto schema = arrow::schema(
      {arrow::field("auction", arrow::int64()), arrow::field("price", arrow::int64()),
       arrow::field("url", arrow::utf8()), arrow::field("id", arrow::int32(), false),
       arrow::field("flag", arrow::boolean()), arrow::field("fee", arrow::decimal128(10, 2))});
  return schema;
}

stream::TopNNode Node(std::vector<SortSpec> sort, int64_t limit, bool emit_rank,
                      std::vector<int> partition = {0}) {
  stream::TopNNode node;
  node.partition = std::move(partition);
  node.sort = std::move(sort);
  node.limit = limit;
  node.emit_rank = emit_rank;
  arrow::FieldVector fields = Bids()->fields();
  if (emit_rank) fields.push_back(arrow::field("rn", arrow::int64(), false));
  node.output = arrow::schema(fields);
  return node;
}

const std::vector<SortSpec> kByPriceDescending = {{1, true, false}};

stream::Batch BidBatch(const std::string& json) {
  stream::Batch batch;
  batch.rows = BatchFromJson(Bids(), json);
  return batch;
}

/// Bids of auction 1 with the given prices, numbered from `id`.
stream::Batch Prices(std::initializer_list<int> prices, int id) {
  std::string json;
  for (int price : prices) {
    json += (json.empty() ? "" : ",") + std::string("[1, ") + std::to_string(price) + ", \"u\", " +
            std::to_string(id++) + ", true, \"1.50\"]";
  }
  return BidBatch("[" + json + "]");
}

/// Kind, price, id and, when there is one, rank of each change.
std::vector<std::string> Brief(const Result<std::vector<TextChange>>& changes) {
  EXPECT_TRUE(changes.ok()) << changes.status().ToString();
  std::vector<std::string> brief;
  for (const auto& [kind, row] : *changes) {
    brief.push_back(kind + " " + row[1] + " #" + row[3] + (row.size() > 6 ? " rn" + row[6] : ""));
  }
  return brief;
}

TEST(TopNTest, WithoutRankSendsRowsThatEnterAndLeave) {
  OperatorHarness top(Node(kByPriceDescending, 2, false), Bids());
  EXPECT_THAT(Brief(top.Feed(Prices({5, 9, 1}, 0))), ElementsAre("+I 9 #1", "+I 5 #0"));
  EXPECT_THAT(Brief(top.Feed(Prices({7}, 3))), ElementsAre("-D 5 #0", "+I 7 #3"));
  EXPECT_THAT(Brief(top.Feed(Prices({6, 2}, 4))), IsEmpty());
}

TEST(TopNTest, WithRankSendsAPairForEveryRankThatChanges) {
  OperatorHarness top(Node(kByPriceDescending, 3, true), Bids());
  EXPECT_THAT(Brief(top.Feed(Prices({5, 9}, 0))), ElementsAre("+I 9 #1 rn1", "+I 5 #0 rn2"));
  EXPECT_THAT(Brief(top.Feed(Prices({7}, 2))),
              ElementsAre("-U 5 #0 rn2", "+U 7 #2 rn2", "+I 5 #0 rn3"));
  EXPECT_THAT(Brief(top.Feed(Prices({8}, 3))),
              ElementsAre("-U 7 #2 rn2", "+U 8 #3 rn2", "-U 5 #0 rn3", "+U 7 #2 rn3"));
}

TEST(TopNTest, EqualKeysRankByArrival) {
  OperatorHarness top(Node(kByPriceDescending, 3, true), Bids());
  EXPECT_THAT(Brief(top.Feed(Prices({5, 5}, 0))), ElementsAre("+I 5 #0 rn1", "+I 5 #1 rn2"));
  EXPECT_THAT(Brief(top.Feed(Prices({5, 5}, 2))), ElementsAre("+I 5 #2 rn3"));
}

TEST(TopNTest, ARowThatComesAndGoesWithinABatchIsNeverSeen) {
  OperatorHarness top(Node(kByPriceDescending, 1, false), Bids());
  EXPECT_THAT(Brief(top.Feed(Prices({1, 2, 3, 4}, 0))), ElementsAre("+I 4 #3"));
  EXPECT_THAT(Brief(top.Feed(Prices({5, 6, 7}, 4))), ElementsAre("-D 4 #3", "+I 7 #6"));
}

TEST(TopNTest, WithoutPartitionAllRowsAreRankedTogether) {
  OperatorHarness top(Node(kByPriceDescending, 1, false, {}), Bids());
  EXPECT_THAT(
      Brief(top.Feed(BidBatch(R"([[1, 5, "a", 0, null, null], [2, 6, "b", 1, null, null]])"))),
      ElementsAre("+I 6 #1"));
}

TEST(TopNTest, RanksRowsThatAreNothingButTheirPartition) {
  const auto schema = arrow::schema({arrow::field("auction", arrow::int64())});
  stream::TopNNode node;
  node.partition = {0};
  node.sort = {{0, true, true}};
  node.limit = 2;
  node.emit_rank = true;
  node.output = arrow::schema({schema->field(0), arrow::field("rn", arrow::int64(), false)});
  auto top = std::make_unique<OperatorHarness>(node, schema);
  stream::Batch batch;
  batch.rows = BatchFromJson(schema, "[[1], [2]]");
  EXPECT_THAT(*top->Feed(batch),
              ElementsAre(TextChange{"+I", {"1", "1"}}, TextChange{"+I", {"2", "1"}}));
  const SavedTable saved = top->Save();
  top = std::make_unique<OperatorHarness>(node, schema);
  ASSERT_TRUE(top->Load(saved).ok());
  EXPECT_THAT(*top->Feed(batch),
              ElementsAre(TextChange{"+I", {"1", "2"}}, TextChange{"+I", {"2", "2"}}));
  EXPECT_THAT(*top->FeedRaw(batch), IsEmpty());
}

TEST(TopNTest, OutputRowsHoldEveryColumnWhateverTheirOrigin) {
  OperatorHarness top(Node(kByPriceDescending, 2, true), Bids());
  ASSERT_TRUE(top.Feed(BidBatch(R"([[1, 5, "five", 0, true, "1.25"],
                                   [1, 3, null, 1, null, null]])"))
                  .ok());
  const auto changes = top.Feed(BidBatch(R"([[1, 7, "seven", 2, false, "9.00"]])"));
  ASSERT_TRUE(changes.ok());
  EXPECT_THAT(*changes,
              ElementsAre(TextChange{"-U", {"1", "5", "five", "0", "true", "1.25", "1"}},
                          TextChange{"+U", {"1", "7", "seven", "2", "false", "9.00", "1"}},
                          TextChange{"-U", {"1", "3", "null", "1", "null", "null", "2"}},
                          TextChange{"+U", {"1", "5", "five", "0", "true", "1.25", "2"}}));
}

/// A row of the model, in the order of arrival.
struct ModelRow {
  std::optional<int64_t> auction, price;
  std::optional<std::string> url;
  int id;
  std::string Json() const {
    const auto number = [](const auto& value) {
      return value.has_value() ? std::to_string(*value) : std::string("null");
    };
    return "[" + number(auction) + "," + number(price) + "," + (url ? "\"" + *url + "\"" : "null") +
           "," + std::to_string(id) + ",false,null]";
  }
  TextRow Text() const {
    const auto number = [](const auto& value) {
      return value.has_value() ? std::to_string(*value) : std::string("null");
    };
    return {number(auction),    number(price), url.value_or("null"),
            std::to_string(id), "false",       "null"};
  }
};

template <class T>
int Compare(const std::optional<T>& a, const std::optional<T>& b, const SortSpec& sort) {
  if (a.has_value() != b.has_value()) return a.has_value() == sort.nulls_first ? 1 : -1;
  if (!a.has_value() || *a == *b) return 0;
  return (*a < *b) == sort.descending ? 1 : -1;
}

bool ModelBefore(const ModelRow& a, const ModelRow& b, const std::vector<SortSpec>& sort) {
  for (const SortSpec& spec : sort) {
    const int order = spec.column == 1   ? Compare(a.price, b.price, spec)
                      : spec.column == 2 ? Compare(a.url, b.url, spec)
                                         : Compare(std::optional(a.id), std::optional(b.id), spec);
    if (order != 0) return order < 0;
  }
  return false;
}

/// Feed random batches, moving the state to a fresh operator now and then; what is left of the
/// changes must be the batch answer over all rows so far.
void RunModel(uint64_t seed, const std::vector<SortSpec>& sort, int64_t limit, bool emit_rank) {
  SCOPED_TRACE("seed " + std::to_string(seed) + " limit " + std::to_string(limit));
  std::mt19937_64 random(seed);
  const stream::TopNNode node = Node(sort, limit, emit_rank);
  auto top = std::make_unique<OperatorHarness>(node, Bids());
  std::map<std::optional<int64_t>, std::vector<ModelRow>> model;
  std::vector<TextChange> changes;
  int id = 0;
  for (int round = 0; round < 25; ++round) {
    std::string json;
    auto selection = std::make_shared<std::vector<uint32_t>>();
    const uint32_t rows = 1 + random() % 80;
    for (uint32_t i = 0; i < rows; ++i) {
      ModelRow row{};
      if (random() % 8 != 0) row.auction = random() % 6;
      if (random() % 8 != 0) row.price = static_cast<int64_t>(random() % 300) - 150;
      if (random() % 4 != 0) row.url = std::string(random() % 30, 'a' + random() % 2);
      row.id = id++;
      json += (i > 0 ? "," : "") + row.Json();
      if (random() % 4 == 0) continue;
      selection->push_back(i);
      model[row.auction].push_back(row);
    }
    stream::Batch batch = BidBatch("[" + json + "]");
    batch.selection = selection;
    const auto more = top->Feed(batch);
    ASSERT_TRUE(more.ok()) << more.status().ToString();
    changes.insert(changes.end(), more->begin(), more->end());
    std::map<TextRow, int> expected;
    for (const auto& [auction, arrived] : model) {
      std::vector<ModelRow> ranked = arrived;
      // Ids grow with arrival, which decides between equal keys.
      std::sort(ranked.begin(), ranked.end(), [&](const ModelRow& a, const ModelRow& b) {
        if (ModelBefore(a, b, sort)) return true;
        return !ModelBefore(b, a, sort) && a.id < b.id;
      });
      for (size_t i = 0; i < ranked.size() && i < static_cast<size_t>(limit); ++i) {
        TextRow row = ranked[i].Text();
        if (emit_rank) row.push_back(std::to_string(i + 1));
        ++expected[row];
      }
    }
    ASSERT_EQ(Net(changes), expected) << "round " << round;
    if (random() % 4 == 0) {
      const SavedTable saved = top->Save();
      top = std::make_unique<OperatorHarness>(node, Bids());
      ASSERT_TRUE(top->Load(saved).ok());
    }
  }
}

TEST(TopNTest, OneColumnEqualsTheModelAcrossRestores) {
  uint64_t seed = 1;
  for (bool emit_rank : {false, true}) {
    for (bool descending : {false, true}) {
      for (bool nulls_first : {false, true}) {
        RunModel(seed++, {{1, descending, nulls_first}}, 4, emit_rank);
      }
    }
  }
}

TEST(TopNTest, KeysLongerThanThePrefixEqualTheModelAcrossRestores) {
  uint64_t seed = 100;
  for (bool emit_rank : {false, true}) {
    RunModel(seed++, {{2, false, true}}, 5, emit_rank);
    RunModel(seed++, {{2, true, false}, {1, false, false}}, 5, emit_rank);
    RunModel(seed++, {{1, true, true}, {2, false, false}, {3, true, false}}, 3, emit_rank);
  }
}

TEST(TopNTest, ALimitOfOneAndALargeOneEqualTheModelAcrossRestores) {
  RunModel(200, kByPriceDescending, 1, true);
  RunModel(201, kByPriceDescending, 1, false);
  RunModel(202, kByPriceDescending, 1000, true);
}

TEST(TopNTest, AViewKeepsTheRowsItSawWhileTheyAreReplaced) {
  OperatorHarness top(Node(kByPriceDescending, 2, false), Bids());
  ASSERT_TRUE(top.Feed(Prices({5, 9}, 0)).ok());
  const View view = top.domain().Capture();
  const auto encode = [&] {
    SavedTable saved("topn");
    EXPECT_TRUE(top.table().EncodeBase(view, top.table().key_groups(), &saved).ok());
    return std::string(saved.span().value(0));
  };
  const std::string before = encode();
  ASSERT_TRUE(top.Feed(Prices({20, 30, 40}, 2)).ok());
  EXPECT_EQ(encode(), before);
}

TEST(TopNTest, SavesTheDocumentedLayoutAndDeclaresIt) {
  OperatorHarness top(Node(kByPriceDescending, 2, false), Bids());
  ASSERT_TRUE(top.Feed(Prices({5, 9}, 0)).ok());
  const SlotDescriptor& slot = top.table().descriptor();
  EXPECT_EQ(slot.name, "topn");
  EXPECT_EQ(slot.value_codec, "topn");
  EXPECT_TRUE(slot.frame_per_group);
  EXPECT_THAT(slot.key_columns, ElementsAre(base::ColumnSpec{"auction", "bigint", true}));
  ASSERT_EQ(slot.value_columns.size(), 5u);
  EXPECT_EQ(slot.value_columns[0].name, "price");
  const SavedTable saved = top.Save();
  ASSERT_EQ(saved.span().rows, 1u);
  const auto rows = format::DecodeTopN(saved.span().value(0));
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].sort_key.size(), 9u);
  const auto codec = format::RowCodec::Make(slot.value_columns);
  ASSERT_TRUE(codec.ok());
  std::vector<format::RowField> fields(5);
  ASSERT_TRUE(codec->Split((*rows)[0].row, fields).ok());
  int64_t price;
  std::memcpy(&price, fields[0].bytes.data(), 8);
  EXPECT_EQ(price, 9);
}

/// A saved table with one row whose value went through `damage`.
SavedTable Damaged(const SavedTable& saved, const std::function<void(std::string*)>& damage) {
  std::string value(saved.span().value(0));
  damage(&value);
  const std::string_view key = saved.span().key(0).substr(saved.key_prefix_bytes());
  SavedTable copy("topn");
  SavedRows* rows = *copy.BeginGroup(static_cast<uint8_t>(saved.span().key(0)[0]));
  const auto slot = rows->Append(SavedRowKind::kMaterialised, key.size(), value.size());
  std::memcpy(slot.key, key.data(), key.size());
  std::memcpy(slot.value, value.data(), value.size());
  return copy;
}

TEST(TopNTest, DamagedStateNamesOperatorSlotAndReason) {
  OperatorHarness top(Node(kByPriceDescending, 2, false), Bids());
  ASSERT_TRUE(top.Feed(Prices({5, 9}, 0)).ok());
  const SavedTable saved = top.Save();
  const std::vector<std::pair<std::function<void(std::string*)>, std::string>> damages = {
      {[](std::string* v) { v->pop_back(); }, "ends early"},
      {[](std::string* v) { v->push_back('x'); }, "left after"},
      {[](std::string* v) { (*v)[4 + 4 + 9 + 4] = '\7'; }, "rank 1"},  // null flag of price
      {[](std::string* v) { (*v)[0] = '\0'; }, "without a row"},
  };
  for (const auto& [damage, reason] : damages) {
    OperatorHarness fresh(Node(kByPriceDescending, 2, false), Bids());
    const Status loaded = fresh.Load(Damaged(saved, damage));
    EXPECT_EQ(loaded.code(), StatusCode::kCorruption) << reason;
    EXPECT_THAT(loaded.ToString(), HasSubstr(reason));
    EXPECT_THAT(loaded.ToString(), HasSubstr("sink/top-n/0"));
    EXPECT_THAT(loaded.ToString(), HasSubstr("topn"));
  }
}

TEST(TopNTest, RefusesSavedRowsBeyondItsLimit) {
  OperatorHarness three(Node(kByPriceDescending, 3, false), Bids());
  ASSERT_TRUE(three.Feed(Prices({5, 9, 7}, 0)).ok());
  OperatorHarness two(Node(kByPriceDescending, 2, false), Bids());
  const Status loaded = two.Load(three.Save());
  EXPECT_EQ(loaded.code(), StatusCode::kCorruption);
  EXPECT_THAT(loaded.ToString(), HasSubstr("at most 2"));
}

TEST(TopNTest, RefusesWhatItCannotRankAndSaysWhy) {
  const auto updating = MakeOperator(Node(kByPriceDescending, 2, false), Bids(), true);
  EXPECT_EQ(updating.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(updating.status().ToString(), HasSubstr("updating input"));
  const auto none = MakeOperator(Node(kByPriceDescending, 0, false), Bids(), false);
  EXPECT_EQ(none.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(none.status().ToString(), HasSubstr("limited to 0"));
}

TEST(TopNBufferTest, CountsTheMemoryAndSavedBytesOfItsRows) {
  TopNBuffer buffer;
  buffer.Reserve(2);
  buffer.Append(
      {SortPrefixOf("0123456789abcdefXYZ"), Payload::Make("0123456789abcdefXYZ", 19, "row")});
  buffer.Append({SortPrefixOf("1"), Payload::Make("1", 1, "")});
  EXPECT_EQ(buffer.rows()[0].payload.key_rest(), "XYZ");
  EXPECT_EQ(buffer.rows()[0].payload.row(), "row");
  EXPECT_GE(buffer.memory_bytes(), 2 * sizeof(RankedRow) + 6);
  std::string saved(buffer.saved_bytes(), '?');
  buffer.Save(saved.data());
  const auto rows = format::DecodeTopN(saved);
  ASSERT_TRUE(rows.ok()) << rows.status().ToString();
  EXPECT_THAT(*rows,
              ElementsAre(format::TopNRow{"0123456789abcdefXYZ", "row"}, format::TopNRow{"1", ""}));
}

TEST(TopNTest, Behaviour35AnExpiredPartitionRanksAnew) {
  OperatorHarness top(Node(kByPriceDescending, 1, false), Bids(), false,
                      {.ttl_ms = 10, .clock = TtlClock::kWall});
  top.domain().AdvanceWallTime(0);
  ASSERT_TRUE(top.Feed(Prices({9}, 1)).ok());
  top.domain().AdvanceWallTime(9);
  EXPECT_THAT(*top.Feed(Prices({5}, 2)), IsEmpty()) << "9 is still the first";
  top.domain().AdvanceWallTime(10);
  const auto changes = top.Feed(Prices({5}, 3));
  ASSERT_TRUE(changes.ok()) << changes.status().ToString();
  ASSERT_EQ(changes->size(), 1u);
  EXPECT_EQ(changes->front().first, "+I");
}

}  // namespace
}  // namespace cairn::operators

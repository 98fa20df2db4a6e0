// SPDX-License-Identifier: Apache-2.0
#include "operators/group_aggregate.h"

#include <arrow/array/builder_primitive.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "base/coding.h"
#include "format/row_codec.h"
#include "operators/operator_factory.h"
#include "operators/operator_harness.h"

namespace cairn::operators {
namespace {

using stream::AggregateCall;
using stream::AggregateFunction;
using stream::RowKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::shared_ptr<arrow::Schema>& Bids() {
  static const auto schema = arrow::schema(
      {arrow::field("auction", arrow::int64()), arrow::field("channel", arrow::utf8()),
       arrow::field("price", arrow::int64()), arrow::field("quantity", arrow::int32()),
       arrow::field("rate", arrow::float64()), arrow::field("fee", arrow::decimal128(10, 2)),
       arrow::field("day", arrow::date32()),
       arrow::field("at", arrow::timestamp(arrow::TimeUnit::MICRO))});
  return schema;
}

AggregateCall Call(AggregateFunction function, int column, std::string name,
                   std::shared_ptr<arrow::DataType> type) {
  return {function, column, false, std::move(name), std::move(type)};
}

AggregateCall CountStar() { return Call(AggregateFunction::kCountStar, -1, "n", arrow::int64()); }

stream::GroupAggregateNode Node(std::vector<int> keys, std::vector<AggregateCall> calls) {
  stream::GroupAggregateNode node;
  node.keys = std::move(keys);
  arrow::FieldVector fields;
  for (int key : node.keys) fields.push_back(Bids()->field(key));
  for (const AggregateCall& call : calls) fields.push_back(arrow::field(call.name, call.type));
  node.calls = std::move(calls);
  node.output = arrow::schema(fields);
  return node;
}

stream::Batch BatchOf(const std::string& json) {
  stream::Batch batch;
  batch.rows = BatchFromJson(Bids(), json);
  return batch;
}

/// A bid with only auction and price.
std::string Bid(const std::string& auction, const std::string& price) {
  return "[" + auction + ", null, " + price + ", null, null, null, null, null]";
}

std::vector<RowKind> Kinds(std::initializer_list<RowKind> kinds) { return kinds; }

TEST(GroupAggregateTest, SendsAnInsertFirstAndThenOnePairABatch) {
  OperatorHarness group(Node({0}, {CountStar()}), Bids());
  const auto first =
      group.Feed(BatchOf("[" + Bid("1", "5") + "," + Bid("2", "5") + "," + Bid("1", "5") + "]"));
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_THAT(*first, ElementsAre(TextChange{"+I", {"1", "2"}}, TextChange{"+I", {"2", "1"}}));
  const auto second = group.Feed(BatchOf("[" + Bid("1", "5") + "," + Bid("1", "5") + "]"));
  EXPECT_THAT(*second, ElementsAre(TextChange{"-U", {"1", "2"}}, TextChange{"+U", {"1", "4"}}));
}

TEST(GroupAggregateTest, AResultThatStaysSendsNothing) {
  OperatorHarness group(Node({0}, {Call(AggregateFunction::kMax, 2, "hi", arrow::int64()),
                                   Call(AggregateFunction::kCount, 2, "c", arrow::int64())}),
                        Bids());
  EXPECT_THAT(*group.Feed(BatchOf("[" + Bid("1", "5") + "]")),
              ElementsAre(TextChange{"+I", {"1", "5", "1"}}));
  EXPECT_THAT(*group.FeedRaw(BatchOf("[" + Bid("1", "null") + "]")), IsEmpty());
}

TEST(GroupAggregateTest, WithoutCallsSendsEveryKeyOnce) {
  OperatorHarness group(Node({0}, {}), Bids());
  EXPECT_THAT(*group.Feed(BatchOf("[" + Bid("1", "5") + "," + Bid("1", "5") + "]")),
              ElementsAre(TextChange{"+I", {"1"}}));
  OperatorHarness fresh(Node({0}, {}), Bids());
  ASSERT_TRUE(fresh.Load(group.Save()).ok());
  EXPECT_THAT(*fresh.FeedRaw(BatchOf("[" + Bid("1", "5") + "]")), IsEmpty());
}

TEST(GroupAggregateTest, ANullKeyIsAGroupOfItsOwn) {
  OperatorHarness group(Node({0}, {CountStar()}), Bids());
  EXPECT_THAT(*group.Feed(BatchOf("[" + Bid("null", "1") + "," + Bid("0", "1") + "," +
                                  Bid("null", "1") + "]")),
              ElementsAre(TextChange{"+I", {"null", "2"}}, TextChange{"+I", {"0", "1"}}));
}

TEST(GroupAggregateTest, WithoutKeysAllRowsAreOneGroup) {
  OperatorHarness group(
      Node({}, {CountStar(), Call(AggregateFunction::kSum, 2, "total", arrow::decimal128(38, 0))}),
      Bids());
  EXPECT_THAT(*group.Feed(BatchOf("[" + Bid("1", "9223372036854775807") + "," +
                                  Bid("2", "9223372036854775807") + "]")),
              ElementsAre(TextChange{"+I", {"2", "18446744073709551614"}}));
}

std::vector<AggregateCall> CountAndSum() {
  return {CountStar(), Call(AggregateFunction::kSum, 2, "total", arrow::decimal128(38, 0))};
}

TEST(GroupAggregateTest, WithoutKeysNoRowsGiveOneResultAtTheEnd) {
  OperatorHarness group(Node({}, CountAndSum()), Bids());
  EXPECT_THAT(*group.EndInput(), ElementsAre(TextChange{"+I", {"0", "null"}}));
  OperatorHarness resumed(Node({}, CountAndSum()), Bids());
  ASSERT_TRUE(resumed.Load(group.Save()).ok());
  EXPECT_THAT(*resumed.EndInput(), IsEmpty());
  EXPECT_THAT(*resumed.Feed(BatchOf("[" + Bid("1", "5") + "]")),
              ElementsAre(TextChange{"-U", {"0", "null"}}, TextChange{"+U", {"1", "5"}}));
}

TEST(GroupAggregateTest, WithoutKeysATextOfNoRowsIsNull) {
  OperatorHarness group(Node({}, {Call(AggregateFunction::kMin, 1, "low", arrow::utf8())}), Bids());
  EXPECT_THAT(*group.EndInput(), ElementsAre(TextChange{"+I", {"null"}}));
}

TEST(GroupAggregateTest, WithKeysNoRowsGiveNoResult) {
  OperatorHarness group(Node({0}, CountAndSum()), Bids());
  EXPECT_THAT(*group.EndInput(), IsEmpty());
}

TEST(GroupAggregateTest, WithoutKeysTheResultOutlivesItsRows) {
  OperatorHarness group(Node({}, CountAndSum()), Bids(), true);
  ASSERT_TRUE(group.Feed(BatchOf("[" + Bid("1", "5") + "]")).ok());
  stream::Batch gone = BatchOf("[" + Bid("1", "5") + "]");
  gone.kinds = std::make_shared<std::vector<RowKind>>(Kinds({RowKind::kDelete}));
  EXPECT_THAT(*group.Feed(std::move(gone)),
              ElementsAre(TextChange{"-U", {"1", "5"}}, TextChange{"+U", {"0", "null"}}));
}

TEST(GroupAggregateTest, ZeroAndNegativeZeroAreOneKeyAndShowOneValue) {
  OperatorHarness group(Node({4}, {CountStar()}), Bids());
  const auto row = [](const std::string& rate) {
    return "[null, null, null, null, " + rate + ", null, null, null]";
  };
  EXPECT_THAT(*group.Feed(BatchOf("[" + row("-0.0") + "," + row("0.0") + "]")),
              ElementsAre(TextChange{"+I", {"0", "2"}}));
}

TEST(GroupAggregateTest, ACountIsSavedAsItsEightBytes) {
  OperatorHarness group(Node({0}, {CountStar()}), Bids());
  ASSERT_TRUE(group.Feed(BatchOf("[" + Bid("7", "1") + "," + Bid("7", "1") + "]")).ok());
  const SavedTable saved = group.Save();
  ASSERT_EQ(saved.span().rows, 1u);
  ASSERT_EQ(saved.span().value(0).size(), 8u);
  EXPECT_EQ(base::LoadLE<int64_t>(saved.span().value(0).data()), 2);
  EXPECT_THAT(group.table().descriptor().value_columns,
              ElementsAre(base::ColumnSpec{"n", "bigint", false}));
  EXPECT_THAT(group.table().descriptor().key_columns,
              ElementsAre(base::ColumnSpec{"auction", "bigint", true}));
}

std::vector<AggregateCall> AllCalls() {
  using enum AggregateFunction;
  return {CountStar(),
          Call(kCount, 2, "c", arrow::int64()),
          Call(kSum, 2, "s", arrow::decimal128(38, 0)),
          Call(kAvg, 2, "m", arrow::float64()),
          Call(kMin, 2, "lo", arrow::int64()),
          Call(kMax, 2, "hi", arrow::int64()),
          Call(kSum, 3, "sq", arrow::int64()),
          Call(kMin, 3, "loq", arrow::int32()),
          Call(kMax, 4, "hir", arrow::float64()),
          Call(kAvg, 5, "mfee", arrow::float64()),
          Call(kSum, 5, "sfee", arrow::decimal128(38, 2)),
          Call(kMax, 5, "hfee", arrow::decimal128(10, 2)),
          Call(kMin, 6, "lod", arrow::date32()),
          Call(kMax, 7, "hit", arrow::timestamp(arrow::TimeUnit::MICRO))};
}

std::vector<AggregateCall> TextCalls() {
  return {Call(AggregateFunction::kMin, 1, "lo", arrow::utf8()),
          Call(AggregateFunction::kMax, 1, "hi", arrow::utf8()), CountStar()};
}

/// Calls whose accumulators need a retraction to undo.
std::vector<AggregateCall> RetractableCalls() {
  using enum AggregateFunction;
  return {Call(kCount, 2, "c", arrow::int64()), Call(kSum, 2, "s", arrow::decimal128(38, 0)),
          Call(kAvg, 3, "m", arrow::float64()), Call(kSum, 5, "sfee", arrow::decimal128(38, 2))};
}

/// One random bid, kept as JSON values and as numbers for the model.
struct ModelBid {
  std::optional<int64_t> auction, price, quantity, fee_cents, day, at;
  std::optional<double> rate;
  std::optional<std::string> channel;

  std::string Json() const {
    const auto number = [](const auto& value) {
      return value.has_value() ? std::to_string(*value) : std::string("null");
    };
    std::string fee = "null";
    if (fee_cents.has_value()) {
      fee = "\"" + std::to_string(*fee_cents / 100) + "." + std::to_string(*fee_cents / 10 % 10) +
            std::to_string(*fee_cents % 10) + "\"";
    }
    return "[" + number(auction) + "," + (channel ? "\"" + *channel + "\"" : "null") + "," +
           number(price) + "," + number(quantity) + "," + number(rate) + "," + fee + "," +
           number(day) + "," + number(at) + "]";
  }
};

template <class T, class Random>
std::optional<T> Maybe(Random& random, T value) {
  return random() % 5 == 0 ? std::nullopt : std::optional<T>(std::move(value));
}

template <class Random>
ModelBid RandomBid(Random& random) {
  ModelBid bid;
  bid.auction = Maybe<int64_t>(random, random() % 12);
  bid.price = Maybe<int64_t>(random, static_cast<int64_t>(random() % 2001) - 1000);
  bid.quantity = Maybe<int64_t>(random, random() % 50);
  bid.rate = Maybe<double>(random, static_cast<double>(random() % 64) / 8);
  bid.fee_cents = Maybe<int64_t>(random, random() % 100000);
  bid.day = Maybe<int64_t>(random, random() % 100);
  bid.at = Maybe<int64_t>(random, random() % 1000000);
  bid.channel = Maybe<std::string>(random, std::string(random() % 4, 'a' + random() % 3));
  return bid;
}

/// Values of one column of a group, null ones left out.
template <class T>
std::vector<T> ValuesOf(const std::vector<ModelBid>& bids, std::optional<T> ModelBid::* column) {
  std::vector<T> values;
  for (const ModelBid& bid : bids) {
    if ((bid.*column).has_value()) values.push_back(*(bid.*column));
  }
  return values;
}

template <class T>
std::string MinText(const std::vector<T>& values, const std::shared_ptr<arrow::DataType>& type) {
  if (values.empty()) return "null";
  return arrow::MakeScalar(type, *std::min_element(values.begin(), values.end()))
      .ValueOrDie()
      ->ToString();
}
template <class T>
std::string MaxText(const std::vector<T>& values, const std::shared_ptr<arrow::DataType>& type) {
  if (values.empty()) return "null";
  return arrow::MakeScalar(type, *std::max_element(values.begin(), values.end()))
      .ValueOrDie()
      ->ToString();
}
int64_t Sum(const std::vector<int64_t>& values) {
  int64_t sum = 0;
  for (int64_t value : values) sum += value;
  return sum;
}
std::string SumText(const std::vector<int64_t>& values) {
  return values.empty() ? "null" : std::to_string(Sum(values));
}
std::string CentsText(int64_t cents) {
  const std::string digits = std::to_string(cents % 100);
  return std::to_string(cents / 100) + "." + (digits.size() < 2 ? "0" : "") + digits;
}
std::string MeanText(const std::vector<int64_t>& values, double scale) {
  if (values.empty()) return "null";
  return arrow::DoubleScalar(static_cast<double>(Sum(values)) / scale /
                             static_cast<double>(values.size()))
      .ToString();
}

TextRow ModelRow(const std::vector<ModelBid>& bids) {
  const auto prices = ValuesOf(bids, &ModelBid::price);
  const auto quantities = ValuesOf(bids, &ModelBid::quantity);
  const auto fees = ValuesOf(bids, &ModelBid::fee_cents);
  std::vector<int32_t> days;
  for (int64_t day : ValuesOf(bids, &ModelBid::day)) days.push_back(static_cast<int32_t>(day));
  std::vector<int32_t> narrow(quantities.begin(), quantities.end());
  return {bids[0].auction ? std::to_string(*bids[0].auction) : "null",
          std::to_string(bids.size()),
          std::to_string(prices.size()),
          SumText(prices),
          MeanText(prices, 1),
          MinText(prices, arrow::int64()),
          MaxText(prices, arrow::int64()),
          SumText(quantities),
          MinText(narrow, arrow::int32()),
          MaxText(ValuesOf(bids, &ModelBid::rate), arrow::float64()),
          MeanText(fees, 100),
          fees.empty() ? "null" : CentsText(Sum(fees)),
          fees.empty() ? "null" : CentsText(*std::max_element(fees.begin(), fees.end())),
          MinText(days, arrow::date32()),
          MaxText(ValuesOf(bids, &ModelBid::at), arrow::timestamp(arrow::TimeUnit::MICRO))};
}

TextRow ModelTextRow(const std::vector<ModelBid>& bids) {
  const auto channels = ValuesOf(bids, &ModelBid::channel);
  return {bids[0].auction ? std::to_string(*bids[0].auction) : "null",
          channels.empty() ? "null" : *std::min_element(channels.begin(), channels.end()),
          channels.empty() ? "null" : *std::max_element(channels.begin(), channels.end()),
          std::to_string(bids.size())};
}

TextRow ModelRetractableRow(const std::vector<ModelBid>& bids) {
  const auto prices = ValuesOf(bids, &ModelBid::price);
  const auto fees = ValuesOf(bids, &ModelBid::fee_cents);
  return {bids[0].auction ? std::to_string(*bids[0].auction) : "null",
          std::to_string(prices.size()), SumText(prices),
          MeanText(ValuesOf(bids, &ModelBid::quantity), 1),
          fees.empty() ? "null" : CentsText(Sum(fees))};
}

using Model = std::map<std::optional<int64_t>, std::vector<ModelBid>>;

std::map<TextRow, int> Expected(const Model& model,
                                TextRow (*row_of)(const std::vector<ModelBid>&)) {
  std::map<TextRow, int> rows;
  for (const auto& [key, bids] : model) {
    if (!bids.empty()) rows[row_of(bids)] = 1;
  }
  return rows;
}

/// Feed random batches, moving the state to a fresh operator now and then; what is left of the
/// changes must be what the model says after every batch.
void RunAppendingModel(uint64_t seed, const std::vector<AggregateCall>& calls,
                       TextRow (*row_of)(const std::vector<ModelBid>&)) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  auto group = std::make_unique<OperatorHarness>(Node({0}, calls), Bids());
  Model model;
  std::vector<TextChange> changes;
  for (int round = 0; round < 30; ++round) {
    std::string json;
    auto selection = std::make_shared<std::vector<uint32_t>>();
    const uint32_t rows = 1 + random() % 60;
    const bool select = random() % 2 == 0;
    for (uint32_t row = 0; row < rows; ++row) {
      const ModelBid bid = RandomBid(random);
      json += (row > 0 ? "," : "") + bid.Json();
      if (select && random() % 3 == 0) continue;
      selection->push_back(row);
      model[bid.auction].push_back(bid);
    }
    stream::Batch batch = BatchOf("[" + json + "]");
    if (select) batch.selection = selection;
    const auto more = group->Feed(batch);
    ASSERT_TRUE(more.ok()) << more.status().ToString();
    std::set<TextRow> touched;
    for (const auto& [kind, row] : *more) {
      if (kind[0] == '-') continue;
      EXPECT_TRUE(touched.insert({row[0]}).second) << "a key sent twice";
    }
    changes.insert(changes.end(), more->begin(), more->end());
    ASSERT_EQ(Net(changes), Expected(model, row_of)) << "round " << round;
    if (random() % 4 == 0) {
      const SavedTable saved = group->Save();
      group = std::make_unique<OperatorHarness>(Node({0}, calls), Bids());
      ASSERT_TRUE(group->Load(saved).ok());
    }
  }
}

TEST(GroupAggregateTest, EveryFunctionEqualsTheModelAcrossRestores) {
  for (uint64_t seed = 1; seed <= 5; ++seed) RunAppendingModel(seed, AllCalls(), ModelRow);
}

TEST(GroupAggregateTest, TextExtremesEqualTheModelAcrossRestores) {
  for (uint64_t seed = 1; seed <= 5; ++seed) RunAppendingModel(seed, TextCalls(), ModelTextRow);
}

TEST(GroupAggregateTest, AnUpdatingInputEqualsTheModelAcrossRestores) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto make = [] {
      return std::make_unique<OperatorHarness>(Node({0}, RetractableCalls()), Bids(), true);
    };
    auto group = make();
    Model model;
    std::vector<TextChange> changes;
    for (int round = 0; round < 40; ++round) {
      std::string json;
      auto kinds = std::make_shared<std::vector<RowKind>>();
      const auto add = [&](const ModelBid& bid, RowKind kind) {
        json += (json.empty() ? "" : ",") + bid.Json();
        kinds->push_back(kind);
      };
      const size_t rows = 1 + random() % 30;
      for (size_t i = 0; i < rows; ++i) {
        std::vector<ModelBid>& old = model[Maybe<int64_t>(random, random() % 6)];
        if (random() % 2 == 0 && !old.empty()) {
          const bool update = random() % 2 == 0;
          add(old.back(), update ? RowKind::kUpdateBefore : RowKind::kDelete);
          ModelBid changed = old.back();
          old.pop_back();
          if (!update) continue;
          changed.price = Maybe<int64_t>(random, random() % 100);
          add(changed, RowKind::kUpdateAfter);
          old.push_back(changed);
          continue;
        }
        const ModelBid bid = RandomBid(random);
        add(bid, RowKind::kInsert);
        model[bid.auction].push_back(bid);
      }
      stream::Batch batch = BatchOf("[" + json + "]");
      batch.kinds = kinds;
      const auto more = group->Feed(batch);
      ASSERT_TRUE(more.ok()) << more.status().ToString();
      changes.insert(changes.end(), more->begin(), more->end());
      ASSERT_EQ(Net(changes), Expected(model, ModelRetractableRow)) << "round " << round;
      if (random() % 4 == 0) {
        const SavedTable saved = group->Save();
        group = make();
        ASSERT_TRUE(group->Load(saved).ok());
      }
    }
  }
}

TEST(GroupAggregateTest, TheLastRetractionDeletesTheGroup) {
  OperatorHarness group(Node({0}, {CountStar()}), Bids(), true);
  ASSERT_TRUE(group.Feed(BatchOf("[" + Bid("1", "5") + "]")).ok());
  stream::Batch batch = BatchOf("[" + Bid("1", "5") + "]");
  batch.kinds = std::make_shared<std::vector<RowKind>>(Kinds({RowKind::kDelete}));
  EXPECT_THAT(*group.Feed(batch), ElementsAre(TextChange{"-D", {"1", "1"}}));
  EXPECT_EQ(group.Save().span().rows, 0u);
}

TEST(GroupAggregateTest, ARowThatComesAndGoesWithinABatchLeavesNothing) {
  OperatorHarness group(Node({0}, {CountStar()}), Bids(), true);
  stream::Batch batch = BatchOf("[" + Bid("1", "5") + "," + Bid("1", "5") + "]");
  batch.kinds = std::make_shared<std::vector<RowKind>>(Kinds({RowKind::kInsert, RowKind::kDelete}));
  EXPECT_THAT(*group.FeedRaw(batch), IsEmpty());
  EXPECT_EQ(group.Save().span().rows, 0u);
}

TEST(GroupAggregateTest, ARetractionOfAnUnknownRowIsAnError) {
  OperatorHarness group(Node({0}, {CountStar()}), Bids(), true);
  stream::Batch batch = BatchOf("[" + Bid("1", "5") + "]");
  batch.kinds = std::make_shared<std::vector<RowKind>>(Kinds({RowKind::kDelete}));
  EXPECT_EQ(group.Feed(batch).status().code(), StatusCode::kInternal);
}

TEST(GroupAggregateTest, ASumThatLeavesItsTypeIsAnError) {
  auto schema = arrow::schema({arrow::field("d", arrow::decimal128(38, 0))});
  stream::GroupAggregateNode node;
  node.calls = {Call(AggregateFunction::kSum, 0, "s", arrow::decimal128(38, 0))};
  node.output = arrow::schema({arrow::field("s", arrow::decimal128(38, 0))});
  OperatorHarness wide(node, schema);
  const std::string nines = "\"" + std::string(38, '9') + "\"";
  stream::Batch batch;
  batch.rows = BatchFromJson(schema, "[[" + nines + "]]");
  ASSERT_TRUE(wide.Feed(batch).ok());
  const auto over = wide.Feed(batch);
  EXPECT_EQ(over.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(over.status().ToString(), HasSubstr("sum(d)"));
  EXPECT_THAT(over.status().ToString(), HasSubstr("operator sink/group-aggregate/0"));
}

TEST(GroupAggregateTest, ANarrowSumThatLeavesBigintIsAnError) {
  auto schema = arrow::schema({arrow::field("x", arrow::int64())});
  stream::GroupAggregateNode node;
  node.calls = {Call(AggregateFunction::kSum, 0, "s", arrow::int64())};
  node.output = arrow::schema({arrow::field("s", arrow::int64())});
  OperatorHarness narrow(node, schema);
  stream::Batch batch;
  batch.rows = BatchFromJson(schema, "[[9223372036854775807], [1]]");
  EXPECT_EQ(narrow.Feed(batch).status().code(), StatusCode::kInvalidArgument);
}

TEST(GroupAggregateTest, DamagedStateNamesOperatorSlotAndKey) {
  OperatorHarness group(Node({0}, AllCalls()), Bids());
  ASSERT_TRUE(group.Feed(BatchOf("[" + Bid("7", "1") + "]")).ok());
  const SavedTable saved = group.Save();
  SavedTable cut("agg");
  SavedRows* rows = *cut.BeginGroup(static_cast<uint8_t>(saved.span().key(0)[0]));
  const std::string_view key = saved.span().key(0).substr(saved.key_prefix_bytes());
  const std::string_view value = saved.span().value(0);
  const auto slot = rows->Append(SavedRowKind::kMaterialised, key.size(), value.size() - 1);
  std::memcpy(slot.key, key.data(), key.size());
  std::memcpy(slot.value, value.data(), value.size() - 1);
  OperatorHarness fresh(Node({0}, AllCalls()), Bids());
  const Status loaded = fresh.Load(cut);
  EXPECT_EQ(loaded.code(), StatusCode::kCorruption);
  EXPECT_THAT(loaded.ToString(), HasSubstr("sink/group-aggregate/0"));
  EXPECT_THAT(loaded.ToString(), HasSubstr("agg"));
}

TEST(GroupAggregateTest, SavedRowsAreWhatTheRowCodecReads) {
  OperatorHarness group(Node({0}, AllCalls()), Bids());
  ASSERT_TRUE(group.Feed(BatchOf("[" + Bid("7", "41") + "," + Bid("7", "null") + "]")).ok());
  const SavedTable saved = group.Save();
  const auto codec = format::RowCodec::Make(group.table().descriptor().value_columns);
  ASSERT_TRUE(codec.ok());
  std::vector<format::RowField> fields(codec->columns().size());
  const Status split = codec->Split(saved.span().value(0), fields);
  ASSERT_TRUE(split.ok()) << split.ToString();
  std::map<std::string, format::RowField> by_name;
  for (size_t i = 0; i < fields.size(); ++i) by_name[codec->columns()[i].name] = fields[i];
  EXPECT_EQ(base::LoadLE<int64_t>(by_name["n"].bytes.data()), 2);
  EXPECT_EQ(base::LoadLE<int64_t>(by_name["c"].bytes.data()), 1);
  EXPECT_EQ(base::LoadLE<Int128>(by_name["m_sum"].bytes.data()), 41);
  EXPECT_EQ(base::LoadLE<int64_t>(by_name["m_count"].bytes.data()), 1);
  EXPECT_TRUE(by_name["sq"].null);
}

void ExpectRefusal(const AggregateCall& call, bool input_updates, const std::string& message) {
  const auto made = MakeOperator(Node({0}, {call}), Bids(), input_updates);
  EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(made.status().ToString(), HasSubstr(message));
}

TEST(GroupAggregateTest, RefusesWhatItCannotAggregateAndSaysWhy) {
  AggregateCall distinct = Call(AggregateFunction::kCount, 2, "c", arrow::int64());
  distinct.distinct = true;
  ExpectRefusal(distinct, false, "count(DISTINCT price)");
  ExpectRefusal(Call(AggregateFunction::kSum, 1, "s", arrow::float64()), false, "sum(channel)");
  ExpectRefusal(Call(AggregateFunction::kMin, 2, "lo", arrow::int64()), true,
                "min(price) is not supported over an updating input");
}

// --- TTL ---------------------------------------------------------------------------------------

constexpr TtlConfig kTenMs{.ttl_ms = 10, .clock = TtlClock::kWall};

TEST(GroupAggregateTest, Behaviour35AnExpiredGroupStartsAnewAndItsMemoryIsGivenBack) {
  OperatorHarness group(Node({0}, {CountStar()}), Bids(), false, kTenMs);
  group.domain().AdvanceWallTime(0);
  for (int key = 0; key < 1000; ++key) {
    ASSERT_TRUE(group.Feed(BatchOf("[" + Bid(std::to_string(key), "5") + "]")).ok());
  }
  group.domain().AdvanceWallTime(5);
  EXPECT_THAT(*group.Feed(BatchOf("[" + Bid("1", "5") + "]")),
              ElementsAre(TextChange{"-U", {"1", "1"}}, TextChange{"+U", {"1", "2"}}));
  group.domain().AdvanceWallTime(14);
  EXPECT_THAT(*group.Feed(BatchOf("[" + Bid("1", "5") + "]")),
              ElementsAre(TextChange{"-U", {"1", "2"}}, TextChange{"+U", {"1", "3"}}))
      << "a row refreshes its group";
  EXPECT_THAT(*group.Feed(BatchOf("[" + Bid("2", "5") + "]")),
              ElementsAre(TextChange{"+I", {"2", "1"}}));
  while (group.table().Maintain(100) > 0) {
  }
  const View view = group.domain().Capture();
  EXPECT_EQ(group.table().CountRows(view), 2u);
}

TEST(GroupAggregateTest, Behaviour35BeforeTheFirstTimeNothingExpiresAndThenAWholeTtlIsLeft) {
  OperatorHarness group(Node({0}, CountAndSum()), Bids(), false, {.ttl_ms = 10});
  ASSERT_TRUE(group.Feed(BatchOf("[" + Bid("1", "5") + "]")).ok());
  group.domain().AdvanceEventTime(500);
  ASSERT_TRUE(group.Feed(BatchOf("[" + Bid("2", "5") + "]")).ok());
  group.domain().AdvanceEventTime(509);
  group.domain().AdvanceEventTime(100);  // never back
  EXPECT_EQ(group.table().CountRows(group.domain().Capture()), 2u);
  group.domain().AdvanceEventTime(510);
  EXPECT_EQ(group.table().CountRows(group.domain().Capture()), 0u);
}

TEST(GroupAggregateTest, Behaviour35ARowOfAForgottenGroupMayBeRetracted) {
  OperatorHarness group(Node({0}, CountAndSum()), Bids(), true, kTenMs);
  group.domain().AdvanceWallTime(0);
  ASSERT_TRUE(group.Feed(BatchOf("[" + Bid("1", "5") + "]")).ok());
  group.domain().AdvanceWallTime(10);
  stream::Batch gone = BatchOf("[" + Bid("1", "5") + "]");
  gone.kinds = std::make_shared<std::vector<RowKind>>(Kinds({RowKind::kDelete}));
  EXPECT_THAT(*group.Feed(std::move(gone)), IsEmpty());
  EXPECT_THAT(*group.Feed(BatchOf("[" + Bid("1", "7") + "]")),
              ElementsAre(TextChange{"+I", {"1", "1", "7"}}));
}

TEST(GroupAggregateTest, Behaviour35ARestoreKeepsDeadlinesAndBringsNothingBack) {
  OperatorHarness group(Node({0}, {CountStar()}), Bids(), false, kTenMs);
  group.domain().AdvanceWallTime(0);
  ASSERT_TRUE(group.Feed(BatchOf("[" + Bid("1", "5") + "]")).ok());
  const auto saved = group.Save();
  OperatorHarness restored(Node({0}, {CountStar()}), Bids(), false, kTenMs);
  ASSERT_TRUE(restored.Load(saved).ok());
  restored.domain().AdvanceWallTime(9);
  EXPECT_EQ(restored.table().CountRows(restored.domain().Capture()), 1u);
  restored.domain().AdvanceWallTime(10);
  EXPECT_EQ(restored.table().CountRows(restored.domain().Capture()), 0u);
}

}  // namespace
}  // namespace cairn::operators

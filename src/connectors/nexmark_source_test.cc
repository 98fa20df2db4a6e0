// SPDX-License-Identifier: Apache-2.0
#include "connectors/nexmark_source.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_primitive.h>

#include <map>
#include <set>

#include "connectors/test_tables.h"
#include "env/manual_clock.h"

namespace cairn::connectors {
namespace {

using stream::SplitProgress;
using testing::HasSubstr;

std::vector<TestColumn> BidColumns() {
  return {{"auction", "bigint"}, {"bidder", "bigint"}, {"price", "bigint"},
          {"channel", "text"},   {"url", "text"},      {"date_time", "timestamp"},
          {"extra", "text"}};
}

stream::TableDefinition Bids(uint64_t events, uint64_t seed = 1) {
  return Table(
      BidColumns(),
      {{"table", "bid"}, {"events", std::to_string(events)}, {"seed", std::to_string(seed)}},
      "nexmark");
}

TEST(NexmarkSource, OneReaderGivesTheBidsInOrderOfTime) {
  const ReadResult result = ReadAll(nullptr, Bids(50'000), {}, {5});
  ASSERT_TRUE(result.status.ok()) << result.status.ToString();
  ASSERT_EQ(result.lines.size(), 50'000u);
  EXPECT_EQ(result.lines.front(), R"({"date_time":"2015-07-15 00:00:00.000400"})");
  EXPECT_TRUE(std::is_sorted(result.lines.begin(), result.lines.end()));
}

TEST(NexmarkSource, AnyDivisionAmongReadersGivesTheSameBids) {
  const auto table = Bids(40'000);
  Lines expected = ReadAll(nullptr, table).lines;
  ASSERT_EQ(expected.size(), 40'000u);
  std::sort(expected.begin(), expected.end());
  for (const size_t readers : {2, 3, 5}) {
    auto source = MakeSource(table, AllColumns(table), nullptr);
    const auto splits = *(*source)->Discover({});
    Lines all;
    for (size_t r = 0; r < readers; ++r) {
      std::vector<SplitProgress> mine;
      for (size_t i = r; i < splits.size(); i += readers) mine.push_back(splits[i]);
      auto reader = (*source)->CreateReader(mine);
      for (;;) {
        auto batch = (*reader)->Next();
        ASSERT_TRUE(batch.ok());
        if (*batch == nullptr) break;
        AppendLines(**batch, &all);
      }
    }
    std::sort(all.begin(), all.end());
    ASSERT_TRUE(all == expected) << readers << " readers";
  }
}

TEST(NexmarkSource, ReadersResumeBehindWhatWasReturned) {
  const auto table = Bids(20'001);
  const Lines expected = ReadAll(nullptr, table).lines;
  auto source = MakeSource(table, AllColumns(table), nullptr);
  auto progress = *(*source)->Discover({});
  Lines all;
  for (;;) {
    auto reader = (*source)->CreateReader(progress);
    auto batch = (*reader)->Next();
    ASSERT_TRUE(batch.ok());
    if (*batch == nullptr) break;
    AppendLines(**batch, &all);
    progress = *(*source)->Discover((*reader)->Progress());
  }
  EXPECT_TRUE(all == expected);
  for (const SplitProgress& split : progress) EXPECT_TRUE(split.ended);
}

TEST(NexmarkSource, MoreEventsAddBidsAndChangeNone) {
  const Lines fewer = ReadAll(nullptr, Bids(5'000)).lines;
  const ReadResult first = ReadAll(nullptr, Bids(5'000));
  const ReadResult more = ReadAll(nullptr, Bids(9'000), first.progress);
  Lines all = first.lines;
  all.insert(all.end(), more.lines.begin(), more.lines.end());
  EXPECT_TRUE(all == ReadAll(nullptr, Bids(9'000)).lines);
}

TEST(NexmarkSource, TheSeedChangesTheBidsAndColumnsDoNotDependOnEachOther) {
  EXPECT_NE(ReadAll(nullptr, Bids(100, 1), {}, {2}).lines,
            ReadAll(nullptr, Bids(100, 2), {}, {2}).lines);
  const Lines whole = ReadAll(nullptr, Bids(100)).lines;
  const Lines price = ReadAll(nullptr, Bids(100), {}, {2}).lines;
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_THAT(whole[i], HasSubstr(price[i].substr(1, price[i].size() - 2)));
  }
}

TEST(NexmarkSource, BidsFollowTheGeneratorsRules) {
  const int64_t count = 200'000;
  const auto table = Bids(static_cast<uint64_t>(count));
  auto source = MakeSource(table, AllColumns(table), nullptr);
  auto reader = (*source)->CreateReader(*(*source)->Discover({}));
  std::set<int64_t> auctions;
  std::map<int64_t, int64_t> bidders;
  std::map<std::string, int64_t> channels;
  int64_t bid = 0;
  int64_t hot_auctions = 0;
  double price_logs = 0;
  for (;;) {
    auto next = (*reader)->Next();
    ASSERT_TRUE(next.ok());
    if (*next == nullptr) break;
    const arrow::RecordBatch& batch = **next;
    const auto& auction = static_cast<const arrow::Int64Array&>(*batch.column(0));
    const auto& bidder = static_cast<const arrow::Int64Array&>(*batch.column(1));
    const auto& price = static_cast<const arrow::Int64Array&>(*batch.column(2));
    const auto& channel = static_cast<const arrow::StringArray&>(*batch.column(3));
    const auto& url = static_cast<const arrow::StringArray&>(*batch.column(4));
    const auto& extra = static_cast<const arrow::StringArray&>(*batch.column(6));
    for (int64_t i = 0; i < batch.num_rows(); ++i, ++bid) {
      const int64_t newest = 1000 + bid / 46 * 3 + 2;
      ASSERT_GE(auction.Value(i), std::max<int64_t>(1000, newest - 102));
      ASSERT_LE(auction.Value(i), newest + 10);
      ASSERT_LE(bidder.Value(i), 1000 + bid / 46 + 11);
      ASSERT_GE(price.Value(i), 100);
      ASSERT_LE(price.Value(i), 100'000'000);
      ASSERT_GE(extra.Value(i).size(), 54u);
      ASSERT_LE(extra.Value(i).size(), 81u);
      ASSERT_TRUE(url.Value(i).starts_with("https://www.nexmark.com/"));
      hot_auctions += auction.Value(i) == 1000 + (newest - 1000) / 100 * 100;
      auctions.insert(auction.Value(i));
      ++channels[std::string(channel.Value(i))];
      price_logs += std::log10(static_cast<double>(price.Value(i)));
    }
  }
  ASSERT_EQ(bid, count);
  // Half of the bids are hot, a few of the others hit the hot auction by chance.
  EXPECT_NEAR(static_cast<double>(hot_auctions) / count, 0.505, 0.01);
  EXPECT_NEAR(static_cast<double>(auctions.size()), count / 46.0 * 3, count / 46.0 * 3 * 0.02);
  EXPECT_NEAR(price_logs / count, 2 + 3, 0.02);
  for (const char* hot : {"apple", "google", "facebook", "baidu"}) {
    EXPECT_NEAR(static_cast<double>(channels[hot]) / count, 0.125, 0.005) << hot;
  }
  EXPECT_NEAR(static_cast<double>(channels.size()), 10'004, 10);
}

TEST(NexmarkSource, TheRateHoldsOverAllReaders) {
  env::ManualClock clock;
  auto table = Bids(30'000);
  table.options["rate"] = "10000";
  auto source = MakeSource(table, {0}, nullptr, &clock);
  const auto splits = *(*source)->Discover({});
  // Half of the splits: half of the rate.
  auto reader = (*source)->CreateReader({splits.begin(), splits.begin() + 16});
  const int64_t began = clock.UnixMillis();
  int64_t rows = 0;
  for (;;) {
    auto batch = (*reader)->Next();
    if (*batch == nullptr) break;
    rows += (*batch)->num_rows();
    EXPECT_LE((*batch)->num_rows(), 100);
    const double seconds = static_cast<double>(clock.UnixMillis() - began) / 1000;
    ASSERT_LE(static_cast<double>(rows), 5000 * seconds + 100 + 5);
  }
  const double seconds = static_cast<double>(clock.UnixMillis() - began) / 1000;
  EXPECT_NEAR(static_cast<double>(rows) / seconds, 5000, 100);
}

TEST(NexmarkSource, ColumnsItDoesNotHaveAreRefused) {
  auto table = Bids(10);
  table.columns.push_back({"colour", arrow::utf8(), true});
  EXPECT_THAT(std::string(MakeSource(table, {0}, nullptr).status().message()),
              HasSubstr("has no column colour"));
  table = Bids(10);
  table.columns[2].type = arrow::utf8();
  EXPECT_THAT(std::string(MakeSource(table, {0}, nullptr).status().message()),
              HasSubstr("nexmark column price has the type BIGINT, not TEXT"));
}

TEST(NexmarkSource, PositionsOfOtherSplitsAreCorruption) {
  auto source = MakeSource(Bids(10'000), {0}, nullptr);
  for (const char* position : {"x", "{}", "{\"bid\":-1}", "{\"bid\":1024}"}) {
    EXPECT_EQ((*source)->Discover({{"bid#0", position, false}}).status().code(),
              StatusCode::kCorruption)
        << position;
  }
  EXPECT_EQ((*source)->Discover({{"bid#32", "{\"bid\":0}", false}}).status().code(),
            StatusCode::kCorruption);
}

}  // namespace
}  // namespace cairn::connectors

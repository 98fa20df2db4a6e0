// SPDX-License-Identifier: Apache-2.0
//
// Whole texts: the plans they give, written out line by line, and what is refused and where.
#include "sql/compile.h"

#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sql/plan_text.h"

namespace cairn::sql {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kBid =
    "CREATE TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, url TEXT, "
    "date_time TIMESTAMP, extra TEXT) WITH (connector = 'filesystem', path = 'bids.ndjson');\n";

// The plan of the last statement, or the error.
std::string PlanOf(const std::string& statement) {
  const auto plan = Compile(kBid + statement);
  if (!plan.ok()) return std::string(plan.status().message());
  return plan->pipelines.empty() ? "no pipeline" : PipelineText(plan->pipelines.back());
}

std::string ErrorOf(const std::string& text) {
  const auto plan = Compile(text);
  return plan.ok() ? "no error" : std::string(plan.status().message());
}

TEST(Plan, AFilterWithAComputedColumnReadsFourColumns) {
  EXPECT_EQ(
      PlanOf("SELECT auction, price * 0.908 AS price_eur, channel FROM bid "
             "WHERE price > 10000 AND channel IN ('apple', 'a|b') OR url LIKE 'u1%'"),
      "scan bid -> auction BIGINT, price BIGINT, channel TEXT, url TEXT\n"
      "calc where (((price > 10000) and (channel in ('apple', 'a|b'))) or "
      "starts_with(url; 'u1')) select auction, (cast(price as DECIMAL(19,0)) * "
      "0.908::DECIMAL(3,3)), channel -> auction BIGINT, price_eur DECIMAL(23,3), channel TEXT\n"
      "sink select\n");
}

TEST(Plan, CaseAndUpper) {
  EXPECT_EQ(PlanOf("SELECT auction, CASE WHEN price >= 100000 THEN 'high' WHEN price IS NULL THEN "
                   "'none' ELSE 'low' END AS band, upper(channel) AS ch FROM bid"),
            "scan bid -> auction BIGINT, price BIGINT, channel TEXT\n"
            "calc select auction, if_else(coalesce((price >= 100000), false), 'high', "
            "if_else(is_null(price), 'none', 'low')), utf8_upper(channel) -> auction BIGINT, band "
            "TEXT not null, ch TEXT\n"
            "sink select\n");
}

TEST(Plan, ACountReadsOnlyItsKey) {
  EXPECT_EQ(PlanOf("SELECT auction, count(*) AS n FROM bid GROUP BY auction"),
            "scan bid -> auction BIGINT\n"
            "group-aggregate keys (auction), count(*) -> auction BIGINT, n BIGINT not null\n"
            "sink select\n");
}

TEST(Plan, AggregatesHaveTheirOwnTypes) {
  EXPECT_EQ(
      PlanOf("SELECT channel, count(*) AS n, min(price) AS lo, max(price) AS hi, sum(price) AS "
             "total, avg(price) AS mean FROM bid GROUP BY channel"),
      "scan bid -> price BIGINT, channel TEXT\n"
      "group-aggregate keys (channel), count(*), min(price), max(price), sum(price), "
      "avg(price) -> channel TEXT, n BIGINT not null, lo BIGINT, hi BIGINT, total "
      "DECIMAL(38,0), mean DOUBLE\n"
      "sink select\n");
}

TEST(Plan, AFilterBeforeAGroupDropsTheColumnItAloneNeeds) {
  EXPECT_EQ(PlanOf("SELECT auction, bidder, count(*) AS n, max(date_time) AS last FROM bid WHERE "
                   "price % 2 = 0 GROUP BY auction, bidder"),
            "scan bid -> auction BIGINT, bidder BIGINT, price BIGINT, date_time TIMESTAMP\n"
            "calc where ((price % 2) = 0) select auction, bidder, date_time -> auction BIGINT, "
            "bidder BIGINT, date_time TIMESTAMP\n"
            "group-aggregate keys (auction, bidder), count(*), max(date_time) -> auction BIGINT, "
            "bidder BIGINT, n BIGINT not null, last TIMESTAMP\n"
            "sink select\n");
}

TEST(Plan, AGlobalAggregateHasNoKeys) {
  EXPECT_EQ(PlanOf("SELECT count(*) AS n, sum(price) AS total FROM bid"),
            "scan bid -> price BIGINT\n"
            "group-aggregate keys (), count(*), sum(price) -> n BIGINT not null, total "
            "DECIMAL(38,0)\n"
            "sink select\n");
}

TEST(Plan, TopNWithItsRank) {
  EXPECT_EQ(PlanOf("SELECT auction, price, url, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "
                   "auction ORDER BY price DESC) AS rn FROM bid) t WHERE rn <= 10"),
            "scan bid -> auction BIGINT, price BIGINT, url TEXT\n"
            "top-n partition (auction) sort (price desc nulls last) limit 10 with rank -> auction "
            "BIGINT, price BIGINT, url TEXT, rn BIGINT not null\n"
            "sink select\n");
}

TEST(Plan, TopNWithoutItsRankProjectsItsSortColumnsAway) {
  EXPECT_EQ(
      PlanOf("SELECT channel, auction, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "
             "channel ORDER BY price DESC, date_time, url) AS rn FROM bid) t WHERE rn <= 3"),
      "scan bid -> auction BIGINT, price BIGINT, channel TEXT, url TEXT, date_time TIMESTAMP\n"
      "top-n partition (channel) sort (price desc nulls last, date_time asc nulls last, url "
      "asc nulls last) limit 3 -> auction BIGINT, price BIGINT, channel TEXT, url TEXT, "
      "date_time TIMESTAMP\n"
      "calc select channel, auction, price -> channel TEXT, auction BIGINT, price BIGINT\n"
      "sink select\n");
}

TEST(Plan, AQueryThatNeedsNoColumnReadsTheCheapest) {
  EXPECT_EQ(PlanOf("SELECT count(*) FROM bid"),
            "scan bid -> auction BIGINT\n"
            "group-aggregate keys (), count(*) -> count BIGINT not null\n"
            "sink select\n");
  EXPECT_THAT(PlanOf("SELECT 1 AS one FROM bid"),
              StartsWith("scan bid -> auction BIGINT\ncalc select 1 -> one BIGINT not null\n"));
}

TEST(Plan, SubqueriesBecomeOneCalcAndUnusedWorkIsDropped) {
  EXPECT_EQ(PlanOf("SELECT p + 1 AS q FROM (SELECT price * 2 AS p, upper(url) AS u FROM bid WHERE "
                   "auction > 5) x"),
            "scan bid -> auction BIGINT, price BIGINT\n"
            "calc where (auction > 5) select ((price * 2) + 1) -> q BIGINT\n"
            "sink select\n");
}

TEST(Plan, AnExpressionThatIsUsedTwiceIsComputedOnce) {
  EXPECT_EQ(PlanOf("SELECT p, p + 1 AS q FROM (SELECT price * 2 AS p FROM bid) x WHERE p > 10"),
            "scan bid -> price BIGINT\n"
            "calc select (price * 2) -> p BIGINT\n"
            "calc where (p > 10) select p, (p + 1) -> p BIGINT, q BIGINT\n"
            "sink select\n");
}

TEST(Plan, AnOuterFilterIsNotMovedToRowsThatAnInnerOneDrops) {
  EXPECT_EQ(
      PlanOf("SELECT auction FROM (SELECT * FROM bid WHERE url LIKE '1%') x WHERE "
             "CAST(url AS BIGINT) > 10"),
      "scan bid -> auction BIGINT, url TEXT\n"
      "calc where starts_with(url; '1') -> auction BIGINT, url TEXT\n"
      "calc where (cast(ascii_trim_whitespace(url) as BIGINT) > 10) select auction -> auction "
      "BIGINT\n"
      "sink select\n");
}

TEST(Plan, ARenamedColumnKeepsItsNameInTheOutput) {
  EXPECT_EQ(PlanOf("SELECT auction AS a FROM bid"),
            "scan bid -> auction BIGINT\ncalc select auction -> a BIGINT\nsink select\n");
  EXPECT_EQ(PlanOf("SELECT * FROM bid b (a, b)"),
            "scan bid -> auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, url TEXT, "
            "date_time TIMESTAMP, extra TEXT\n"
            "calc select auction, bidder, price, channel, url, date_time, extra -> a BIGINT, b "
            "BIGINT, price BIGINT, channel TEXT, url TEXT, date_time TIMESTAMP, extra TEXT\n"
            "sink select\n");
  EXPECT_THAT(PlanOf("SELECT auction FROM bid"), "scan bid -> auction BIGINT\nsink select\n");
}

TEST(Plan, GroupsByExpressionOrdinalAndAlias) {
  const char* expected =
      "scan bid -> price BIGINT\n"
      "calc select (price / 100) -> band BIGINT\n"
      "group-aggregate keys (band), count(*) -> band BIGINT, count BIGINT not null\n"
      "sink select\n";
  EXPECT_EQ(PlanOf("SELECT price / 100 AS band, count(*) FROM bid GROUP BY 1"), expected);
  EXPECT_EQ(PlanOf("SELECT price / 100 AS band, count(*) FROM bid GROUP BY band"), expected);
  EXPECT_EQ(PlanOf("SELECT bid.price / 100 AS band, count(*) FROM bid GROUP BY price / 100"),
            "scan bid -> price BIGINT\n"
            "calc select (price / 100) -> ?column? BIGINT\n"
            "group-aggregate keys (?column?), count(*) -> band BIGINT, count BIGINT not null\n"
            "sink select\n");
}

TEST(Plan, ExpressionsOverAggregatesShareTheirCalls) {
  EXPECT_EQ(PlanOf("SELECT sum(price) / count(*) AS mean, count(*) + 1 AS n, upper(channel) AS ch "
                   "FROM bid GROUP BY channel HAVING count(*) > 1 AND max(price) IS NOT NULL"),
            "scan bid -> price BIGINT, channel TEXT\n"
            "group-aggregate keys (channel), sum(price), count(*), max(price) -> channel TEXT, "
            "sum_price DECIMAL(38,0), count BIGINT not null, max_price BIGINT\n"
            "calc where ((count > 1) and invert(is_null(max_price))) select (cast(sum_price as "
            "DOUBLE) / if_else((cast(count as DOUBLE) = 0::DOUBLE), null::DOUBLE, cast(count as "
            "DOUBLE))), (count + 1), utf8_upper(channel) -> mean DOUBLE, n BIGINT not null, ch "
            "TEXT\n"
            "sink select\n");
}

TEST(Plan, FilterOfAnAggregateMakesItsArgumentNull) {
  EXPECT_EQ(
      PlanOf("SELECT count(*) FILTER (WHERE price > 5) AS n, sum(price) FILTER (WHERE auction "
             "= 1) AS s FROM bid"),
      "scan bid -> auction BIGINT, price BIGINT\n"
      "calc select if_else(coalesce((price > 5), false), true, null::BOOLEAN), "
      "if_else(coalesce((auction = 1), false), price, null::BIGINT) -> count_of BOOLEAN, price "
      "BIGINT\n"
      "group-aggregate keys (), count(count_of), sum(price) -> n BIGINT not null, s "
      "DECIMAL(38,0)\n"
      "sink select\n");
}

TEST(Plan, DistinctIsAGroupWithoutCalls) {
  EXPECT_EQ(PlanOf("SELECT DISTINCT auction, channel FROM bid"),
            "scan bid -> auction BIGINT, channel TEXT\n"
            "group-aggregate keys (auction, channel) -> auction BIGINT, channel TEXT\n"
            "sink select\n");
}

TEST(Plan, AProjectionOverAnAggregateOverAFilterIsOneChain) {
  EXPECT_EQ(
      PlanOf("SELECT n * 2 AS m FROM (SELECT auction, count(*) AS n, max(price) AS unused FROM "
             "(SELECT * FROM bid WHERE price > 5) x GROUP BY auction) y WHERE n > 3"),
      "scan bid -> auction BIGINT, price BIGINT\n"
      "calc where (price > 5) select auction -> auction BIGINT\n"
      "group-aggregate keys (auction), count(*) -> auction BIGINT, count BIGINT not null\n"
      "calc where (count > 3) select (count * 2) -> m BIGINT not null\n"
      "sink select\n");
}

TEST(Plan, AnAggregateOverUpdatedRowsIsRetracted) {
  EXPECT_EQ(PlanOf("SELECT n, count(*) AS auctions FROM (SELECT count(*) AS n FROM bid GROUP BY "
                   "auction) x GROUP BY n"),
            "scan bid -> auction BIGINT\n"
            "group-aggregate keys (auction), count(*) -> auction BIGINT, count BIGINT not null\n"
            "calc select count -> n BIGINT not null\n"
            "group-aggregate keys (n), count(*) -> n BIGINT not null, auctions BIGINT not null\n"
            "sink select\n");
}

struct RankLimit {
  const char* where;
  const char* top_n;  ///< what the Top-N line ends with, before its columns
  const char* rest;   ///< of the WHERE, after it
};

TEST(Plan, RankLimitsOfEveryShape) {
  const RankLimit limits[] = {
      {"rn <= 3", "limit 3 ->", ""},
      {"rn < 4", "limit 3 ->", ""},
      {"4 > rn", "limit 3 ->", ""},
      {"3 >= t.rn", "limit 3 ->", ""},
      {"rn = 1", "limit 1 ->", ""},
      {"rn BETWEEN 1 AND 3", "limit 3 ->", ""},
      {"rn <= 5 AND rn <= 3", "limit 3 ->", ""},
      {"rn <= 3 AND price > 7", "limit 3 ->", "where (price > 7)"},
      {"rn = 2", "limit 2 with rank ->", "where (rn = 2)"},
      {"rn BETWEEN 2 AND 3", "limit 3 with rank ->", "where ((rn >= 2) and (rn <= 3))"},
  };
  for (const RankLimit& limit : limits) {
    const std::string plan = PlanOf(
        "SELECT price FROM (SELECT price, ROW_NUMBER() OVER (ORDER BY price) AS rn FROM bid) t "
        "WHERE " +
        std::string(limit.where));
    EXPECT_THAT(plan, HasSubstr(std::string("top-n partition () sort (price asc nulls last) ") +
                                limit.top_n))
        << limit.where;
    EXPECT_THAT(plan, HasSubstr(limit.rest)) << limit.where;
  }
}

TEST(Plan, TopNOverExpressionsComputesThemFirst) {
  EXPECT_EQ(
      PlanOf("SELECT auction, rn FROM (SELECT auction, ROW_NUMBER() OVER (PARTITION BY price / "
             "100 ORDER BY lower(channel) DESC NULLS FIRST, price NULLS FIRST) AS rn FROM bid "
             "WHERE bidder > 0) t WHERE rn = 1"),
      "scan bid -> auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT\n"
      "calc where (bidder > 0) select auction, (price / 100), utf8_lower(channel), price -> "
      "auction BIGINT, ?column? BIGINT, lower TEXT, price BIGINT\n"
      "top-n partition (?column?) sort (lower desc nulls first, price asc nulls first) limit 1 "
      "with rank -> auction BIGINT, ?column? BIGINT, lower TEXT, price BIGINT, rn BIGINT not "
      "null\n"
      "calc select auction, rn -> auction BIGINT, rn BIGINT not null\n"
      "sink select\n");
}

TEST(Insert, ConvertsToTheColumnsOfTheSink) {
  EXPECT_EQ(
      PlanOf("CREATE TABLE s (n BIGINT NOT NULL, total BIGINT, t TIMESTAMP, d DOUBLE, i INTEGER, "
             "x DECIMAL(21,2)) WITH (connector = 'blackhole');\n"
             "INSERT INTO s SELECT price, 5, '2020-01-01', 1, 2, auction FROM bid"),
      "scan bid -> auction BIGINT, price BIGINT\n"
      "calc select cairn_require_not_null(price, 'n'), 5, 2020-01-01 00:00:00.000000::TIMESTAMP, "
      "1::DOUBLE, 2::INTEGER, cast(auction as DECIMAL(21,2)) -> n "
      "BIGINT not null, total BIGINT not null, t TIMESTAMP not null, d DOUBLE not null, i "
      "INTEGER not null, x DECIMAL(21,2)\n"
      "sink s\n");
}

TEST(Insert, ASumFitsABigintColumnAndIsChecked) {
  EXPECT_EQ(
      PlanOf("CREATE TABLE s (c TEXT, total BIGINT) WITH (connector = 'filesystem', changelog = "
             "true);\nINSERT INTO s SELECT channel, sum(price) FROM bid GROUP BY channel"),
      "scan bid -> price BIGINT, channel TEXT\n"
      "group-aggregate keys (channel), sum(price) -> channel TEXT, sum_price DECIMAL(38,0)\n"
      "calc select channel, cast(sum_price as BIGINT) -> c TEXT, total BIGINT\n"
      "sink s\n");
}

TEST(Insert, AColumnListFillsTheOthersWithNull) {
  EXPECT_EQ(PlanOf("CREATE TABLE s (a BIGINT, b TEXT, c BIGINT) WITH (connector = 'blackhole');\n"
                   "INSERT INTO s (c, a) SELECT price, auction FROM bid"),
            "scan bid -> auction BIGINT, price BIGINT\n"
            "calc select auction, null::TEXT, price -> a BIGINT, b TEXT, c BIGINT\n"
            "sink s\n");
}

TEST(Insert, DistinctRowsAreConvertedAfterwards) {
  EXPECT_EQ(PlanOf("CREATE TABLE s (a DECIMAL(30,0)) WITH (connector = 'filesystem');\n"
                   "INSERT INTO s SELECT DISTINCT price FROM bid"),
            "scan bid -> price BIGINT\n"
            "group-aggregate keys (price) -> price BIGINT\n"
            "calc select cast(price as DECIMAL(30,0)) -> a DECIMAL(30,0)\n"
            "sink s\n");
}

TEST(Text, HoldsOptionsTablesAndPipelinesInTheirOrder) {
  const auto plan = Compile(
      "-- a job\nSET cairn.checkpoint.interval = '1s';\nSET cairn.state.key_groups TO 256;\n"
      "SET cairn.fs.fsync = off; SET cairn.view.staleness = 0;\n"
      "CREATE TABLE \"Src\" (a BIGINT NOT NULL, b DECIMAL(10,0), c VARCHAR) WITH (connector = "
      "'Filesystem', Path = 'x y', rate = 0, low = - 5, ratio = 0.5, skip = true, bare);\n"
      "/* two */ SELECT a FROM \"Src\";\n  SELECT c FROM \"Src\" -- end\n;\n");
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  std::vector<std::string> options;
  for (const auto& option : plan->options) {
    options.push_back(option.name + "=" + option.value + "@" +
                      std::to_string(option.position.line) + ":" +
                      std::to_string(option.position.column));
  }
  EXPECT_THAT(options, ElementsAre("checkpoint.interval=1s@2:1", "state.key_groups=256@3:1",
                                   "fs.fsync=off@4:1", "view.staleness=0@4:27"));
  ASSERT_EQ(plan->tables.size(), 1u);
  const stream::TableDefinition& table = plan->tables.front();
  EXPECT_EQ(table.name, "Src");
  EXPECT_EQ(table.connector, "filesystem");
  EXPECT_EQ(table.position.line, 5);
  EXPECT_THAT(table.options, ElementsAre(std::pair("bare", "true"), std::pair("low", "-5"),
                                         std::pair("path", "x y"), std::pair("rate", "0"),
                                         std::pair("ratio", "0.5"), std::pair("skip", "true")));
  EXPECT_FALSE(table.columns[0].nullable);
  EXPECT_TRUE(table.columns[1].type->Equals(*arrow::decimal128(10, 0)));
  EXPECT_TRUE(table.columns[2].type->Equals(*arrow::utf8()));
  ASSERT_EQ(plan->pipelines.size(), 2u);
  EXPECT_EQ(plan->pipelines[0].sink.name, "select");
  EXPECT_EQ(plan->pipelines[0].sink.connector, "print");
  EXPECT_EQ(plan->pipelines[1].sink.name, "select_2");
  EXPECT_EQ(plan->pipelines[0].text, "SELECT a FROM \"Src\"");
  EXPECT_EQ(plan->pipelines[1].position.line, 7);
  EXPECT_EQ(plan->pipelines[1].position.column, 3);
}

TEST(Text, CompilesAgainAfterAnError) {
  // The parser keeps thread-local memory; a second call on the thread must find it clean.
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(ErrorOf("SELECT FROM"), HasSubstr("1:12: syntax error at end of input"));
    EXPECT_THAT(PlanOf("SELECT auction FROM bid"), StartsWith("scan bid"));
  }
}

TEST(Errors, NameTheFileAndShowThePlace) {
  const auto plan = Compile(
      "CREATE TABLE t (a BIGINT) WITH (connector = 'print');\n"
      "SELECT prise\n  FROM t",
      {.name = "job.sql"});
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(plan.status().message(),
            "job.sql:2:8: column \"prise\" does not exist; the columns are a\n"
            "  SELECT prise\n"
            "         ^");
}

TEST(Text, PrintedColumnsHaveNamesOfTheirOwn) {
  const auto plan = Compile(
      "CREATE TABLE t (a BIGINT, op TEXT) WITH (connector = 'x');\n"
      "SELECT a + 1, a + 2, a + 3 FROM t;\n"
      "SELECT op, count(*) FROM t GROUP BY op;\n"
      "SELECT op FROM t;\n");
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  std::vector<std::vector<std::string>> names;
  for (const auto& pipeline : plan->pipelines) {
    names.emplace_back();
    for (const auto& column : pipeline.sink.columns) names.back().push_back(column.name);
  }
  EXPECT_THAT(names, ElementsAre(ElementsAre("?column?", "?column?_2", "?column?_3"),
                                 ElementsAre("op_2", "count"), ElementsAre("op")));
}

TEST(Errors, SuggestTheNearestColumn) {
  EXPECT_THAT(PlanOf("SELECT pirce FROM bid"), HasSubstr("did you mean \"price\"?"));
}

TEST(Errors, WatermarkForIsRefused) {
  // PostgreSQL's grammar takes WITH (changelog = true) but not WATERMARK FOR.
  EXPECT_THAT(ErrorOf("CREATE TABLE t (a TIMESTAMP, WATERMARK FOR a AS a) WITH (connector = 'x')"),
              HasSubstr("1:40: syntax error at or near \"FOR\"; say WITH (watermark = 'COLUMN', "
                        "watermark_delay = '4s')"));
  EXPECT_THAT(
      ErrorOf("CREATE TABLE t (a TIMESTAMP) WITH (connector = 'filesystem', changelog = true)"),
      "no error");
}

struct Refusal {
  const char* statement;
  const char* message;
};

TEST(Errors, QueriesThatAreNotSupportedAreRefusedAtTheirPlace) {
  const Refusal refusals[] = {
      {"SELECT 1", "2:1: FROM is missing: a query reads one table"},
      {"SELECT FROM bid", "2:1: the SELECT list is empty"},
      {"SELECT * FROM nosuch", "2:15: table \"nosuch\" does not exist; the tables are bid"},
      {"SELECT * FROM s.bid", "a schema name is not supported"},
      {"SELECT * FROM ONLY bid", "FROM ONLY is not supported"},
      {"SELECT * FROM bid a JOIN bid b ON true", "2:21: JOIN is not supported yet"},
      {"SELECT * FROM bid a, bid b", "2:22: a second table in FROM is a join"},
      {"SELECT * FROM LATERAL (SELECT * FROM bid) x", "LATERAL is not supported"},
      {"SELECT * FROM tumble(bid, date_time)", "2:15: table functions (TUMBLE, HOP, SESSION, ...)"},
      {"SELECT * FROM bid TABLESAMPLE system(1)", "TABLESAMPLE is not supported"},
      {"SELECT * FROM bid ORDER BY price", "2:28: ORDER BY outside of ROW_NUMBER()"},
      {"SELECT * FROM bid LIMIT 5", "2:25: LIMIT is not supported"},
      {"SELECT * FROM bid OFFSET 5", "2:26: OFFSET is not supported"},
      {"SELECT * FROM bid FETCH FIRST 3 ROWS ONLY", "LIMIT is not supported"},
      {"SELECT * FROM bid FOR UPDATE", "2:19: FOR UPDATE / FOR SHARE is not supported"},
      {"WITH x AS (SELECT 1) SELECT * FROM x", "WITH (common table expressions) is not supported"},
      {"SELECT auction FROM bid UNION SELECT price FROM bid",
       "2:25: UNION / INTERSECT / EXCEPT is not supported"},
      {"VALUES (1)", "VALUES is not supported"},
      {"SELECT * INTO x FROM bid", "SELECT INTO is not supported"},
      {"SELECT DISTINCT ON (auction) * FROM bid", "2:21: DISTINCT ON is not supported"},
      {"SELECT price FROM bid GROUP BY auction",
       "2:8: column \"price\" must be in GROUP BY or inside an aggregate function"},
      {"SELECT * FROM bid GROUP BY auction", "2:8: column \"bidder\" must be in GROUP BY"},
      {"SELECT count(*) FROM bid GROUP BY ROLLUP (auction)",
       "2:35: GROUPING SETS, ROLLUP and CUBE are not supported"},
      {"SELECT count(*) FROM bid GROUP BY 2", "2:35: GROUP BY position is not in the SELECT list"},
      {"SELECT count(*) FROM bid GROUP BY 'x'", "2:35: GROUP BY needs a column, not a constant"},
      {"SELECT count(*) FROM bid GROUP BY 1", "aggregates are not allowed in GROUP BY"},
      {"SELECT auction FROM bid WHERE count(*) > 1",
       "2:31: aggregates are not allowed in WHERE: use HAVING"},
      {"SELECT sum(max(price)) FROM bid", "2:12: an aggregate cannot stand inside another"},
      {"SELECT count(DISTINCT price) FROM bid", "2:8: count(DISTINCT ...) is not supported yet"},
      {"SELECT sum(channel) FROM bid", "2:8: there is no function sum(TEXT)"},
      {"SELECT sum(*) FROM bid", "2:8: sum() takes one argument"},
      {"SELECT count(price, 1) FROM bid", "2:8: count() takes one argument, or *"},
      {"SELECT count(price ORDER BY price) FROM bid",
       "ORDER BY inside a function call is not supported"},
      {"SELECT max(n) FROM (SELECT count(*) AS n FROM bid GROUP BY auction) x",
       "2:8: max() over rows that are updated"},
      {"SELECT auction FROM bid WHERE price", "2:31: WHERE must be BOOLEAN, not BIGINT"},
      {"SELECT x FROM (SELECT auction AS x, price AS x FROM bid) t",
       "2:8: column \"x\" is ambiguous"},
      {"SELECT y.auction FROM bid x", "2:8: there is no table \"y\" in FROM; it is called \"x\""},
      {"SELECT a.b.c FROM bid", "2:8: a column is written name or table.name"},
      {"SELECT date_time - date_time AS d FROM bid", "2:18: an INTERVAL cannot be a column"},
      {"DELETE FROM bid", "2:1: this statement is not supported; the statements are CREATE TABLE"},
      {"CREATE MATERIALIZED VIEW v AS SELECT 1",
       "2:1: CREATE MATERIALIZED VIEW is not supported yet"},
      {"CREATE TABLE v AS SELECT 1", "2:1: CREATE TABLE AS is not supported"},
  };
  for (const Refusal& refusal : refusals) {
    EXPECT_THAT(PlanOf(refusal.statement), HasSubstr(refusal.message)) << refusal.statement;
  }
}

TEST(Errors, RankingsThatAreNotSupportedAreRefusedAtTheirPlace) {
  const auto ranked = [](const std::string& call, const std::string& around) {
    return PlanOf("SELECT * FROM (SELECT *, " + call + " AS rn FROM bid) t" + around);
  };
  EXPECT_THAT(ranked("ROW_NUMBER() OVER (ORDER BY price)", ""),
              HasSubstr("2:26: ROW_NUMBER() needs a constant limit in the WHERE"));
  EXPECT_THAT(ranked("ROW_NUMBER() OVER (ORDER BY price)", " WHERE rn <= price"),
              HasSubstr("2:26: ROW_NUMBER() needs a constant limit in the WHERE"));
  EXPECT_THAT(ranked("ROW_NUMBER() OVER (ORDER BY price)", " WHERE rn <= 3 OR price > 1"),
              HasSubstr("2:26: ROW_NUMBER() needs a constant limit in the WHERE"));
  EXPECT_THAT(ranked("ROW_NUMBER() OVER (ORDER BY price)", " WHERE rn < 1"),
              HasSubstr("the limit of \"rn\" must be from 1 to 2147483647"));
  EXPECT_THAT(ranked("RANK() OVER (ORDER BY price)", " WHERE rn <= 3"),
              HasSubstr("2:26: the window function rank() is not supported: use ROW_NUMBER()"));
  EXPECT_THAT(ranked("ROW_NUMBER() OVER (ORDER BY price ROWS 3 PRECEDING)", " WHERE rn <= 3"),
              HasSubstr("a window frame is not supported"));
  EXPECT_THAT(ranked("ROW_NUMBER() OVER w", " WHERE rn <= 3"), HasSubstr("a named window"));
  EXPECT_THAT(ranked("ROW_NUMBER() OVER (ORDER BY 1)", " WHERE rn <= 3"),
              HasSubstr("ORDER BY needs a column, not a constant"));
  EXPECT_THAT(ranked("ROW_NUMBER() OVER (PARTITION BY 'x' ORDER BY price)", " WHERE rn <= 3"),
              HasSubstr("PARTITION BY needs a column, not a constant"));
  EXPECT_THAT(ranked("ROW_NUMBER() OVER (ORDER BY price) + 1", " WHERE rn <= 3"),
              HasSubstr("a window function stands only as ROW_NUMBER() OVER (...)"));
  EXPECT_THAT(ranked("ROW_NUMBER() OVER (ORDER BY price) AS r2, ROW_NUMBER() OVER (ORDER BY url)",
                     " WHERE rn <= 3"),
              HasSubstr("only one ROW_NUMBER() is supported"));
  EXPECT_THAT(PlanOf("SELECT ROW_NUMBER() OVER (ORDER BY price) FROM bid"),
              HasSubstr("2:8: ROW_NUMBER() stands in a subquery in FROM, limited around it"));
  EXPECT_THAT(PlanOf("SELECT * FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n) AS rn FROM (SELECT "
                     "auction, count(*) AS n FROM bid GROUP BY auction) x) y WHERE rn <= 3"),
              HasSubstr("2:26: ROW_NUMBER() over rows that are updated (those of GROUP BY or of "
                        "another Top-N) needs a retracting Top-N, which is not built yet"));
}

TEST(Errors, TablesThatAreNotSupportedAreRefusedAtTheirPlace) {
  const Refusal refusals[] = {
      {"CREATE TABLE t (a BIGINT)", "1:14: table \"t\" has no connector"},
      {"CREATE TABLE t () WITH (connector = 'x')", "1:14: table \"t\" has no columns"},
      {"CREATE TABLE t (a BIGINT, a TEXT) WITH (connector = 'x')",
       "1:27: column \"a\" is there twice"},
      {"CREATE TABLE t (a BIGINT PRIMARY KEY) WITH (connector = 'x')",
       "1:26: this constraint is not supported"},
      {"CREATE TABLE t (a BIGINT DEFAULT 3) WITH (connector = 'x')",
       "1:26: this constraint is not supported"},
      {"CREATE TABLE t (a BIGINT, PRIMARY KEY (a)) WITH (connector = 'x')",
       "1:27: table constraints are not supported"},
      {"CREATE TABLE t (LIKE u) WITH (connector = 'x')", "LIKE is not supported"},
      {"CREATE TABLE t (a nosuch) WITH (connector = 'x')", "1:19: type \"nosuch\" does not exist"},
      {"CREATE TABLE t (a TEXT COLLATE \"C\") WITH (connector = 'x')", "COLLATE is not supported"},
      {"CREATE TABLE t (a BIGINT) WITH (connector = 'x', p = 1, P = 2)",
       "1:57: option \"p\" is there twice"},
      {"CREATE TABLE t (a BIGINT) WITH (connector = 'x', connector = 'y')",
       "1:50: connector is there twice"},
      {"CREATE TABLE IF NOT EXISTS t (a BIGINT) WITH (connector = 'x')",
       "1:14: IF NOT EXISTS is not supported"},
      {"CREATE TEMP TABLE t (a BIGINT) WITH (connector = 'x')",
       "1:1: TEMPORARY and UNLOGGED tables are not supported"},
      {"CREATE TABLE t (a BIGINT) INHERITS (u) WITH (connector = 'x')",
       "INHERITS is not supported"},
      {"CREATE TABLE t (a BIGINT) PARTITION BY LIST (a)", "PARTITION BY of a table"},
      {"CREATE TABLE t (a BIGINT) WITH (connector = 'x'); CREATE TABLE t (a BIGINT) WITH "
       "(connector = "
       "'x')",
       "1:64: table \"t\" is there twice"},
      {"SET work_mem = 5", "1:1: only options of Cairn can be set: SET cairn.NAME = value"},
      {"SET LOCAL cairn.x = 5", "SET LOCAL is not supported"},
      {"SET cairn.x TO DEFAULT", "1:1: RESET and SET ... TO DEFAULT are not supported"},
      {"SET cairn.x = 1, 2", "1:1: SET takes one value"},
      {"SET cairn.x = 10s", "1:15: trailing junk after numeric literal"},
  };
  for (const Refusal& refusal : refusals) {
    EXPECT_THAT(ErrorOf(refusal.statement), HasSubstr(refusal.message)) << refusal.statement;
  }
}

TEST(Errors, InsertsThatDoNotFitAreRefusedAtTheirPlace) {
  const char* sink =
      "CREATE TABLE s (a BIGINT, i INTEGER, t TEXT NOT NULL) WITH (connector = 'filesystem'); ";
  const Refusal refusals[] = {
      {"INSERT INTO s SELECT auction FROM bid",
       "2:88: the query has 1 columns, but 3 are to be written to table \"s\""},
      {"INSERT INTO s SELECT auction, price, url FROM bid",
       "2:118: column \"i\" is INTEGER, but the value is BIGINT: write CAST(... AS INTEGER)"},
      {"INSERT INTO s SELECT url, 1, url FROM bid",
       "2:109: column \"a\" is BIGINT, but the value is TEXT: write CAST(... AS BIGINT)"},
      {"INSERT INTO s SELECT 1.5, 1, url FROM bid",
       "2:109: 1.5 is not a value of column \"a\", which is BIGINT"},
      {"INSERT INTO s SELECT 1, 3000000000, url FROM bid", "2:112: "},
      {"INSERT INTO s SELECT 'x', 1, url FROM bid", "2:109: 'x' is not a valid BIGINT"},
      {"INSERT INTO s (a, i) SELECT 1, 1 FROM bid",
       "column \"t\" is declared NOT NULL, but a row has NULL for it"},
      {"INSERT INTO s (a, nosuch) SELECT 1, 1 FROM bid", "table \"s\" has no column \"nosuch\""},
      {"INSERT INTO s (a, a) SELECT 1, 1 FROM bid", "column \"a\" is there twice"},
      {"INSERT INTO nosuch SELECT 1 FROM bid", "table \"nosuch\" does not exist"},
      {"INSERT INTO s VALUES (1, 2, 'x')", "VALUES is not supported"},
      {"INSERT INTO s DEFAULT VALUES", "DEFAULT VALUES is not supported"},
      {"INSERT INTO s SELECT a, i, t FROM s", "table \"s\" is read and written by one statement"},
      {"INSERT INTO s SELECT 1, 1, 'x' FROM bid ON CONFLICT DO NOTHING",
       "ON CONFLICT is not supported"},
      {"INSERT INTO s SELECT 1, 1, 'x' FROM bid RETURNING a", "RETURNING is not supported"},
      {"INSERT INTO s AS x SELECT 1, 1, 'x' FROM bid", "\"alias\" is not supported"},
      {"INSERT INTO s SELECT auction, 1, 'x' FROM bid GROUP BY auction, price",
       "2:88: the query updates rows that it gave before, and table \"s\" only takes new ones: add "
       "changelog = true to its WITH (...)"},
  };
  for (const Refusal& refusal : refusals) {
    EXPECT_THAT(PlanOf(sink + std::string(refusal.statement)), HasSubstr(refusal.message))
        << refusal.statement;
  }
}

}  // namespace
}  // namespace cairn::sql

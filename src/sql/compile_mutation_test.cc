// SPDX-License-Identifier: Apache-2.0
//
// Statements that compile are damaged at random: bytes and words are deleted, repeated, swapped and
// exchanged between statements. Whatever comes out is compiled or refused with a place; it is never
// a crash and never kInternal.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "sql/compile.h"
#include "sql/plan_text.h"

namespace cairn::sql {
namespace {

constexpr const char* kTables =
    "CREATE TABLE bid (auction BIGINT, bidder INTEGER NOT NULL, price BIGINT, ratio DOUBLE, "
    "fee DECIMAL(10,2), channel TEXT, url TEXT, date_time TIMESTAMP, day DATE, hot BOOLEAN) "
    "WITH (connector = 'filesystem', path = 'bids', rate = 0);\n"
    "CREATE TABLE s (a BIGINT, b TEXT NOT NULL, c DECIMAL(38,0)) WITH (connector = 'filesystem', "
    "changelog = true);\n";

const char* const kStatements[] = {
    "SELECT auction, price * 0.908 AS p, channel FROM bid WHERE price > 10000 AND channel IN "
    "('apple', 'a|b') OR url LIKE 'u1%'",
    "SELECT CASE WHEN price >= 100 THEN 'high' WHEN price IS NULL THEN 'none' ELSE 'low' END FROM "
    "bid",
    "SELECT channel, count(*) AS n, min(price), sum(fee) + 1, avg(ratio) FROM bid GROUP BY channel",
    "SELECT auction % 7, count(*) FILTER (WHERE hot) FROM bid GROUP BY 1 HAVING max(day) > "
    "'2020-01-01'",
    "SELECT auction, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price "
    "DESC "
    "NULLS FIRST, url) AS rn FROM bid) t WHERE rn <= 10 AND price > 5",
    "INSERT INTO s SELECT price, channel, sum(auction) FROM bid GROUP BY price, channel",
    "INSERT INTO s (b, a) SELECT DISTINCT upper(channel) || '-' || url, bidder FROM bid x",
    "SELECT extract(year FROM date_time), date_trunc('day', date_time) + INTERVAL '1 day', day - 1 "
    "FROM bid WHERE date_time BETWEEN '2020-01-01' AND '2021-01-01'",
    "SELECT COALESCE(price, auction, -1), NULLIF(fee, 1.5), CAST(url AS DECIMAL(12,3)), fee::TEXT, "
    "round(fee, 1), -ratio / 0, trim(BOTH 'x' FROM url), substring(url, 2, 3) FROM bid",
    "SELECT a IS DISTINCT FROM b, a NOT IN (1, NULL), NOT c FROM (SELECT auction AS a, price AS b, "
    "hot AS c FROM bid) q (a, b)",
    "SET cairn.checkpoint.interval = '1s'",
    "SELECT fee * fee * price % 7 + ratio - 1e3, greatest(fee, 1), b'1' FROM bid",
};

const char* const kFragments[] = {"(",
                                  ")",
                                  ",",
                                  "'",
                                  "\"",
                                  ";",
                                  "--",
                                  "/*",
                                  "*/",
                                  "::",
                                  "*",
                                  "-",
                                  "%",
                                  "NULL",
                                  "DISTINCT",
                                  "OVER",
                                  "ORDER BY",
                                  "GROUP BY",
                                  "SELECT",
                                  "FROM",
                                  "WHERE",
                                  "9223372036854775807",
                                  "-9223372036854775808",
                                  "0",
                                  "1e400",
                                  "0.00000000000000000000000000000000000001",
                                  "99999999999999999999999999999999999999",
                                  "''",
                                  "INTERVAL",
                                  "DATE",
                                  "DECIMAL(38,38)",
                                  "BIGINT",
                                  "LIKE",
                                  "ESCAPE",
                                  "\\",
                                  "\xc3\xa9",
                                  "\xff",
                                  "ROW_NUMBER()",
                                  "count(*)",
                                  "sum(",
                                  "JOIN",
                                  "UNION",
                                  "LIMIT 1",
                                  "$1",
                                  "ARRAY[1]",
                                  "CASE",
                                  "END"};

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string Next() {
    std::string text = Pick(kStatements);
    const size_t changes = 1 + Below(4);
    for (size_t i = 0; i < changes; ++i) Change(&text);
    return text;
  }

 private:
  size_t Below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  template <size_t N>
  std::string Pick(const char* const (&choices)[N]) {
    return choices[Below(N)];
  }

  static bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  // Bounds of the word or symbol at a random place.
  std::pair<size_t, size_t> Word(const std::string& text) {
    size_t begin = Below(text.size());
    while (begin > 0 && IsWord(text[begin]) && IsWord(text[begin - 1])) --begin;
    size_t end = begin;
    while (end < text.size() && IsWord(text[end])) ++end;
    return {begin, std::max<size_t>(end - begin, 1)};
  }

  void Change(std::string* text) {
    if (text->empty()) *text = "SELECT";
    const auto [begin, size] = Word(*text);
    switch (Below(7)) {
      case 0:
        text->erase(begin, size);
        break;
      case 1:
        text->insert(begin, text->substr(begin, size) + " ");
        break;
      case 2:
        text->insert(begin, " " + Pick(kFragments) + " ");
        break;
      case 3:
        text->replace(begin, size, Pick(kFragments));
        break;
      case 4: {
        const std::string other = Pick(kStatements);
        const auto [from, count] = Word(other);
        text->replace(begin, size, other.substr(from, count));
        break;
      }
      case 5:
        (*text)[begin] = static_cast<char>(random_());
        break;
      default:
        text->resize(begin);
    }
  }

  std::mt19937_64 random_;
};

uint64_t FreshSeed() {
  if (const char* seed = std::getenv("CAIRN_SEED")) return std::strtoull(seed, nullptr, 10);
  return std::random_device()();
}

void CompileMutations(uint64_t seed, int count) {
  Mutator mutator(seed);
  int compiled = 0;
  for (int i = 0; i < count; ++i) {
    const std::string text = mutator.Next();
    const auto plan = Compile(kTables + text);
    if (plan.ok()) {
      ++compiled;
      for (const auto& pipeline : plan->pipelines) EXPECT_NE(PipelineText(pipeline), "");
      continue;
    }
    ASSERT_EQ(plan.status().code(), StatusCode::kInvalidArgument)
        << "seed " << seed << ": " << plan.status().ToString() << "\n"
        << text;
    const std::string message(plan.status().message());
    ASSERT_TRUE(std::isdigit(static_cast<unsigned char>(message.front())) ||
                message.find("the SQL text") == 0)
        << "seed " << seed << ": no place in: " << message;
  }
  // Some damage leaves a good statement, most does not: both paths were walked.
  EXPECT_GT(compiled, count / 50);
  EXPECT_LT(compiled, count * 9 / 10);
}

TEST(Mutations, OfGoodStatementsCompileOrAreRefusedWithAPlace) {
  for (const char* statement : kStatements) {
    if (std::string(statement).find("b'1'") != std::string::npos) continue;
    EXPECT_TRUE(Compile(kTables + std::string(statement)).ok()) << statement;
  }
  CompileMutations(1, 4000);
}

TEST(Mutations, OfAFreshSeedCompileOrAreRefusedWithAPlace) {
  const uint64_t seed = FreshSeed();
  std::cout << "seed " << seed << " (CAIRN_SEED repeats it)\n";
  CompileMutations(seed, 4000);
}

}  // namespace
}  // namespace cairn::sql

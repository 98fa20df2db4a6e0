// SPDX-License-Identifier: Apache-2.0
//
// Jobs with custom operators: what they compute at any parallelism, and what is refused.
#include "engine/operator_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "engine/run_job.h"

namespace cairn::engine {
namespace {

using ::testing::HasSubstr;

/// For each row of (user TEXT, amount BIGINT): the user's total so far.
class Totals final : public cairn::Operator {
 public:
  Status Open(RuntimeContext* context) override {
    EXPECT_TRUE(context->has_backend());
    EXPECT_LT(context->subtask(), context->parallelism());
    CAIRN_ASSIGN_OR_RETURN(totals_, (context->keyed_state<Bytes, int64_t>("totals")));
    return {};
  }
  Status Process(const InputRows& in, OutputRows* out) override {
    for (size_t row = 0; row < in.rows(); ++row) {
      int64_t total = 0;
      const int64_t amount = in.IsNull(row, 1) ? 0 : in.Integer(row, 1);
      CAIRN_RETURN_IF_ERROR(totals_->Update(
          in.Key(row), [&](int64_t& sum, bool) noexcept { total = sum += amount; }));
      out->SetInteger(1, total);
      if (!in.IsNull(row, 0)) out->SetText(0, in.Text(row, 0));
      CAIRN_RETURN_IF_ERROR(out->EndRow());
    }
    return {};
  }

 private:
  KeyedState<Bytes, int64_t>* totals_ = nullptr;
};

/// Holds every row back until Flush, then sends how many there were.
class Batches final : public cairn::Operator {
 public:
  Status Open(RuntimeContext*) override { return {}; }
  Status Process(const InputRows& in, OutputRows*) override {
    rows_ += static_cast<int64_t>(in.rows());
    return {};
  }
  Status Flush(OutputRows* out) override {
    if (rows_ == 0) return {};
    out->SetText(0, "all");
    out->SetInteger(1, std::exchange(rows_, 0));
    return out->EndRow();
  }

 private:
  int64_t rows_ = 0;
};

/// For each user: how many rows came when event time reached the time of its first one plus 100 ms.
/// Column 1 of the input is a TIMESTAMP.
class Alarms final : public cairn::Operator {
 public:
  Status Open(RuntimeContext* context) override {
    context_ = context;
    CAIRN_ASSIGN_OR_RETURN(rows_, (context->keyed_state<Bytes, int64_t>("rows")));
    CAIRN_ASSIGN_OR_RETURN(alarms_,
                           (context->timers<Bytes, int64_t>("alarms", [this](const auto& timer) {
                             context_->output()->SetText(0, std::to_string(timer.ns));
                             context_->output()->SetInteger(1, *rows_->Find(timer.key));
                             return context_->output()->EndRow();
                           })));
    return {};
  }
  Status Process(const InputRows& in, OutputRows*) override {
    for (size_t row = 0; row < in.rows(); ++row) {
      bool first = false;
      CAIRN_RETURN_IF_ERROR(rows_->Update(in.Key(row), [&](int64_t& rows, bool inserted) noexcept {
        first = inserted;
        ++rows;
      }));
      const int64_t time_ms = in.Integer(row, 1) / 1000;
      if (!first) continue;
      CAIRN_RETURN_IF_ERROR(
          alarms_->Register(TimeDomain::kEvent, in.Key(row), time_ms + 100, time_ms));
    }
    return {};
  }

 private:
  RuntimeContext* context_ = nullptr;
  KeyedState<Bytes, int64_t>* rows_ = nullptr;
  KeyedTimers<Bytes, int64_t>* alarms_ = nullptr;
};

/// Does what is wrong in the way its name says.
class Wrong final : public cairn::Operator {
 public:
  explicit Wrong(std::string way) : way_(std::move(way)) {}
  Status Open(RuntimeContext* context) override {
    if (way_ == "opens") return (context->keyed_state<int64_t, int64_t>("a|b")).status();
    return {};
  }
  Status Process(const InputRows& in, OutputRows* out) override {
    if (way_ == "throws") throw std::runtime_error("no such luck");
    if (way_ == "reads") (void)in.Integer(0, 0);
    if (way_ == "column") out->SetInteger(7, 1);
    if (way_ == "sets") out->SetDouble(1, 1.5);
    return out->EndRow();
  }

 private:
  const std::string way_;
};

class OperatorTableTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(RegisterOperator("totals", [] { return std::make_unique<Totals>(); }).ok());
    ASSERT_TRUE(RegisterOperator("batches", [] { return std::make_unique<Batches>(); }).ok());
    ASSERT_TRUE(RegisterOperator("alarms", [] { return std::make_unique<Alarms>(); }).ok());
    for (const char* way : {"opens", "throws", "reads", "column", "sets"}) {
      ASSERT_TRUE(RegisterOperator(way, [way] { return std::make_unique<Wrong>(way); }).ok());
    }
  }
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "cairn-operator-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    std::ofstream file(dir_ / "in.ndjson");
    for (int i = 0; i < 5000; ++i) {
      file << R"({"user":"u)" << i % 37 << R"(","amount":)" << i << "}\n";
    }
    file << R"({"user":null,"amount":7})" << "\n";
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string Input() const {
    return "CREATE TABLE payment (\"user\" TEXT, amount BIGINT) WITH (connector = 'filesystem', "
           "path = '" +
           (dir_ / "in.ndjson").string() + "', format = 'ndjson', split_bytes = 65536);\n";
  }
  static std::string OperatorTableOf(const std::string& options,
                                     const std::string& name = "total") {
    return "CREATE TABLE " + name + " (\"user\" TEXT, sum BIGINT) WITH (connector = 'operator', " +
           options + ");\n";
  }
  std::string Insert(const std::string& sink, const std::string& query) const {
    return "CREATE TABLE " + sink +
           " (\"user\" TEXT, sum BIGINT) WITH (connector = 'filesystem', "
           "path = '" +
           (dir_ / sink).string() + "', format = 'ndjson');\nINSERT INTO " + sink + " " + query +
           ";\n";
  }
  JobSpec Spec(const std::string& sql, uint32_t parallelism = 1) const {
    JobSpec spec;
    spec.name = "job";
    spec.sql = sql;
    spec.checkpoints = (dir_ / "job.cairn").string();
    spec.parallelism = parallelism;
    spec.settings = {{"fs.fsync", "false"}};
    return spec;
  }
  Status Run(const std::string& sql, uint32_t parallelism = 1) const {
    return RunJob(Spec(sql, parallelism), {}).status();
  }
  /// Rows of a sink, each with the number of its copies.
  std::map<std::string, int> Rows(const std::string& sink) const {
    std::map<std::string, int> rows;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / sink)) {
      if (entry.path().filename().string()[0] == '.') continue;
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) ++rows[nlohmann::json::parse(line).dump()];
    }
    return rows;
  }

  std::filesystem::path dir_;
};

constexpr const char* kTotals = "operator = 'totals', input = 'payment', key = 'user'";

TEST_F(OperatorTableTest, GivesTheRowsOfOneKeyToOneSubtaskInOrder) {
  for (const uint32_t parallelism : {1U, 3U}) {
    const std::string sink = "out" + std::to_string(parallelism);
    JobSpec spec =
        Spec(Input() + OperatorTableOf(kTotals) + Insert(sink, "SELECT \"user\", sum FROM total"),
             parallelism);
    spec.checkpoints += std::to_string(parallelism);
    const Result<JobResult> done = RunJob(spec, {});
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    std::map<std::string, int> expected;
    std::map<int, int64_t> sums;
    for (int i = 0; i < 5000; ++i) {
      sums[i % 37] += i;
      ++expected[nlohmann::json({{"user", "u" + std::to_string(i % 37)}, {"sum", sums[i % 37]}})
                     .dump()];
    }
    ++expected[nlohmann::json({{"user", nullptr}, {"sum", 7}}).dump()];
    if (parallelism == 1) {
      EXPECT_EQ(Rows(sink), expected);
    } else {
      // Splits are read side by side: sums on the way differ, the last one of a user does not.
      std::map<std::string, int64_t> last;
      for (const auto& [text, copies] : Rows(sink)) {
        const nlohmann::json row = nlohmann::json::parse(text);
        int64_t& sum = last[row["user"].is_null() ? "" : row["user"].get<std::string>()];
        sum = std::max(sum, row["sum"].get<int64_t>());
      }
      ASSERT_EQ(last.size(), 38U);
      for (const auto& [user, sum] : sums) EXPECT_EQ(last["u" + std::to_string(user)], sum);
    }
  }
}

TEST_F(OperatorTableTest, RunsOnceForAllItsReadersAndFeedsOtherOperators) {
  const Status done = Run(Input() + OperatorTableOf(kTotals) +
                          OperatorTableOf("operator = 'batches', input = 'total'", "counted") +
                          Insert("low", "SELECT \"user\", sum FROM total WHERE sum < 100") +
                          Insert("high", "SELECT \"user\", sum FROM total WHERE sum >= 100") +
                          Insert("count", "SELECT \"user\", sum FROM counted"));
  ASSERT_TRUE(done.ok()) << done.ToString();
  int rows = 0;
  for (const char* sink : {"low", "high"}) {
    for (const auto& [row, copies] : Rows(sink)) rows += copies;
  }
  EXPECT_EQ(rows, 5001);
  int64_t counted = 0;
  for (const auto& [row, copies] : Rows("count")) {
    counted += nlohmann::json::parse(row)["sum"].get<int64_t>() * copies;
  }
  EXPECT_EQ(counted, 5001);
}

TEST_F(OperatorTableTest, RefusesWhatItsOptionsGetWrong) {
  const auto explain = [&](const std::string& tables) {
    return ExplainJob(Spec(Input() + tables + Insert("out", "SELECT \"user\", sum FROM total")))
        .status()
        .ToString();
  };
  EXPECT_THAT(explain(OperatorTableOf("operator = 'nothing', input = 'payment'")),
              HasSubstr("it has alarms, batches, "));
  EXPECT_THAT(explain(OperatorTableOf("operator = 'totals'")), HasSubstr("needs operator"));
  EXPECT_THAT(explain(OperatorTableOf("operator = 'totals', input = 'paymint'")),
              HasSubstr("no table \"paymint\""));
  EXPECT_THAT(explain(OperatorTableOf(std::string(kTotals) + ", path = 'x'")),
              HasSubstr("unknown option 'path'"));
  EXPECT_THAT(explain(OperatorTableOf("operator = 'totals', input = 'payment', key = 'usr'")),
              HasSubstr("no column \"usr\""));
  EXPECT_THAT(explain(OperatorTableOf("operator = 'totals', input = 'total'")),
              HasSubstr("leads back to itself"));
}

/// Users 0 to 9 in turn, a row every 10 ms of event time.
std::string Clicks(const std::filesystem::path& dir, const std::string& options) {
  std::ofstream file(dir / "clicks.ndjson");
  for (int i = 0; i < 1000; ++i) {
    char time[32];
    std::snprintf(time, sizeof(time), "1970-01-01 00:00:%02d.%03d", i / 100, i % 100 * 10);
    file << R"({"user":)" << i % 10 << R"(,"at":")" << time << "\"}\n";
  }
  return "CREATE TABLE click (\"user\" BIGINT, at TIMESTAMP) WITH (connector = "
         "'filesystem', path = '" +
         (dir / "clicks.ndjson").string() + "', format = 'ndjson'" + options + ");\n";
}

constexpr const char* kAlarms = "operator = 'alarms', input = 'click', key = 'user'";

TEST_F(OperatorTableTest, FiresTimersOfEventTimeAsTheWatermarkOfItsInputGrows) {
  const std::string text =
      Clicks(dir_, ", watermark = 'at', watermark_delay = '50ms', split_bytes = 10000000") +
      OperatorTableOf(kAlarms) + Insert("out", "SELECT \"user\", sum FROM total");
  const Status done = Run(text);
  ASSERT_TRUE(done.ok()) << done.ToString();
  const std::map<std::string, int> rows = Rows("out");
  ASSERT_EQ(rows.size(), 10U);
  for (int64_t user = 0; user < 10; ++user) {
    // The input comes in one batch, so all of it is counted when the first watermark passes.
    const nlohmann::json row = {{"user", std::to_string(user * 10)}, {"sum", 100}};
    EXPECT_EQ(rows.count(row.dump()), 1U) << row;
  }
}

TEST_F(OperatorTableTest, FiresTimersOfEventTimeAtTheEndOfAnInputWithoutWatermarks) {
  const Status done = Run(Clicks(dir_, "") + OperatorTableOf(kAlarms) +
                              Insert("out", "SELECT \"user\", sum FROM total"),
                          2);
  ASSERT_TRUE(done.ok()) << done.ToString();
  EXPECT_EQ(Rows("out").size(), 10U);
}

TEST_F(OperatorTableTest, ReadsTheColumnOfTheWatermarkThoughNoQueryDoes) {
  const std::string text = Clicks(dir_, ", watermark = 'at'") +
                           "CREATE TABLE users (\"user\" BIGINT) WITH (connector = 'filesystem', "
                           "path = '" +
                           (dir_ / "users").string() +
                           "', format = 'ndjson');\n"
                           "INSERT INTO users SELECT \"user\" FROM click WHERE \"user\" = 3;\n";
  const Status done = Run(text);
  ASSERT_TRUE(done.ok()) << done.ToString();
  EXPECT_EQ(Rows("users"), (std::map<std::string, int>{{R"({"user":3})", 100}}));
}

TEST_F(OperatorTableTest, RefusesWatermarksThatCannotBe) {
  const auto explain = [&](const std::string& options) {
    return ExplainJob(Spec(Clicks(dir_, options) + OperatorTableOf(kAlarms) +
                           Insert("out", "SELECT \"user\", sum FROM total")))
        .status()
        .ToString();
  };
  EXPECT_THAT(explain(", watermark = 'when'"), HasSubstr("there is no column \"when\""));
  EXPECT_THAT(explain(", watermark = 'user'"), HasSubstr("event time is told by a TIMESTAMP"));
  EXPECT_THAT(explain(", watermark_delay = '1s'"), HasSubstr("needs watermark = 'COLUMN'"));
  EXPECT_THAT(explain(", watermark = 'at', watermark_delay = 'soon'"),
              HasSubstr("watermark_delay"));
  EXPECT_THAT(explain(", watermark = 'at', watermark_delay = '367d'"), HasSubstr("at most"));
}

TEST_F(OperatorTableTest, NamesTheOperatorAndWhatItsCodeDidWrong) {
  const auto run = [&](const std::string& name) {
    return Run(Input() +
               OperatorTableOf("operator = '" + name + "', input = 'payment', key = 'user'") +
               Insert("out", "SELECT \"user\", sum FROM total"))
        .ToString();
  };
  EXPECT_THAT(run("opens"), HasSubstr("total/opens/0"));
  EXPECT_THAT(run("throws"), HasSubstr("the custom operator threw: no such luck"));
  EXPECT_THAT(run("reads"), HasSubstr("InputRows::Integer of column user: it is of type text"));
  EXPECT_THAT(run("column"), HasSubstr("OutputRows::SetInteger of column 7: there are 2"));
  EXPECT_THAT(run("sets"), HasSubstr("OutputRows::SetDouble of column 1"));
}

TEST_F(OperatorTableTest, IsRegisteredOnceByName) {
  EXPECT_EQ(RegisterOperator("totals", [] { return std::make_unique<Totals>(); }).code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(RegisterOperator("", [] { return std::make_unique<Totals>(); }).code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn::engine

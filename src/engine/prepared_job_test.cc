// SPDX-License-Identifier: Apache-2.0
//
// What is refused before a job begins, and what its explanation says.
#include "engine/prepared_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "env/memory_file_system.h"

namespace cairn::engine {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class PreparedJobTest : public ::testing::Test {
 protected:
  JobSpec Spec(const std::string& settings, const std::string& watermark = "") {
    JobSpec spec;
    spec.name = "job";
    spec.sql_name = "job.sql";
    spec.sql =
        settings +
        "CREATE TABLE bid (auction BIGINT, date_time TIMESTAMP) WITH (connector = 'nexmark', "
        "table = 'bid', events = 10" +
        watermark +
        ");\nCREATE TABLE out (auction BIGINT, n BIGINT) WITH (connector = 'blackhole', "
        "changelog = true);\n"
        "INSERT INTO out SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n";
    spec.files = &files_;
    return spec;
  }
  std::string Refusal(const JobSpec& spec) {
    const auto job = PrepareJob(spec, &files_);
    EXPECT_EQ(job.status().code(), StatusCode::kInvalidArgument);
    return std::string(job.status().message());
  }

  env::MemoryFileSystem files_;
};

TEST_F(PreparedJobTest, AnUnknownOptionOfTheTextIsShownAtItsPlace) {
  const std::string message = Refusal(Spec("SET cairn.fs.fsync = false;\n  SET cairn.nope = 1;\n"));
  EXPECT_THAT(message, StartsWith("job.sql:2:3: no option is named 'nope'; there are: "));
  EXPECT_THAT(message, EndsWith("\n    SET cairn.nope = 1;\n    ^"));
}

TEST_F(PreparedJobTest, AValueOutOfBoundsIsShownAtItsPlace) {
  EXPECT_THAT(Refusal(Spec("SET cairn.checkpoint.retained = 99;\n")),
              StartsWith("job.sql:1:1: option checkpoint.retained = '99': give a whole number"));
}

TEST_F(PreparedJobTest, AnOptionGivenTwiceWithTwoValuesIsRefused) {
  const std::string in_text =
      Refusal(Spec("SET cairn.state.key_groups = 64;\nSET cairn.state.key_groups = 256;\n"));
  EXPECT_THAT(in_text, StartsWith("job.sql:2:1: "));
  EXPECT_THAT(in_text, HasSubstr("is '256' here and '64' before; give it once"));
  JobSpec spec = Spec("");
  spec.settings = {{"state.key_groups", "64"}, {"state.key_groups", "256"}};
  EXPECT_THAT(Refusal(spec), StartsWith("--set: option state.key_groups is '256' here"));
}

TEST_F(PreparedJobTest, TheSameValueTwiceIsNoContradictionAndSetWinsOverTheText) {
  JobSpec spec = Spec("SET cairn.state.key_groups = 64;\nSET cairn.state.key_groups = 64;\n");
  spec.settings = {{"state.key_groups", "256"}, {"state.key_groups", "256"}};
  const auto job = PrepareJob(spec, &files_);
  ASSERT_TRUE(job.ok()) << job.status().ToString();
  EXPECT_EQ((*job)->options.state_key_groups, 256u);
}

TEST_F(PreparedJobTest, AClockWithoutATtlIsRefusedWhoeverSetsIt) {
  for (const std::string clock : {"wall", "event", "auto"}) {
    EXPECT_THAT(Refusal(Spec("SET cairn.state.ttl_clock = '" + clock + "';\n")),
                HasSubstr("state.ttl_clock is set and state.ttl is not"));
    JobSpec spec = Spec("");
    spec.settings = {{"state.ttl_clock", clock}};
    EXPECT_THAT(Refusal(spec), HasSubstr("Set state.ttl, such as 10m"));
  }
  JobSpec spec = Spec("SET cairn.state.ttl = '10s';\n");
  spec.settings = {{"state.ttl_clock", "wall"}};
  EXPECT_TRUE(PrepareJob(spec, &files_).ok());
}

TEST_F(PreparedJobTest, TheExplanationNamesWatermarksTtlAndClock) {
  const auto kept = ExplainJob(Spec(""));
  ASSERT_TRUE(kept.ok()) << kept.status().ToString();
  EXPECT_THAT(*kept, HasSubstr("source bid\n"));
  EXPECT_THAT(*kept, HasSubstr("state: 128 key groups over 1 subtask; a key is kept for ever\n"));
  EXPECT_THAT(*kept, HasSubstr("checkpoints: ./job.cairn, every 10.0 s at least, 3 retained\n"));
  JobSpec spec =
      Spec("SET cairn.state.ttl = '10s';\n", ", watermark = 'date_time', watermark_delay = '4s'");
  spec.checkpoints = "none";
  spec.parallelism = 2;
  const auto timed = ExplainJob(spec);
  ASSERT_TRUE(timed.ok()) << timed.status().ToString();
  EXPECT_THAT(*timed, HasSubstr("source bid (watermark date_time - 4.00 s)\n"));
  EXPECT_THAT(*timed, HasSubstr("over 2 subtasks; a key is forgotten 10.0 s after its last row, by "
                                "event time: the watermark\ncheckpoints: none\n"));
  spec.settings = {{"state.ttl_clock", "stopped_while_down"}};
  EXPECT_THAT(*ExplainJob(spec), HasSubstr("by the time that the job runs"));
}

}  // namespace
}  // namespace cairn::engine

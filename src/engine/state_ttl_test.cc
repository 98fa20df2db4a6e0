// SPDX-License-Identifier: Apache-2.0
//
// By which clock the state of SQL operators lives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/run_job.h"

namespace cairn::engine {
namespace {

using ::testing::HasSubstr;

Result<TtlClock> ClockOfState(const std::string& settings, const std::string& source_options) {
  JobSpec spec;
  spec.name = "job";
  spec.sql = "SET cairn.state.ttl = '2h';\n" + settings +
             "CREATE TABLE bid (auction BIGINT, date_time TIMESTAMP) WITH (connector = 'nexmark', "
             "table = 'bid', events = 10" +
             source_options +
             ");\nCREATE TABLE counts (auction BIGINT, n BIGINT) WITH (connector = 'blackhole');\n"
             "INSERT INTO counts SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n";
  CAIRN_ASSIGN_OR_RETURN(const auto shape, DescribeJob(spec));
  return shape.slots.front().ttl.clock;
}

constexpr const char* kWatermarkOptions = ", watermark = 'date_time', watermark_delay = '4s'";

TEST(StateTtl, GoesByEventTimeWhereEverySourceHasItAndElseByTheWall) {
  const auto event = ClockOfState("", kWatermarkOptions);
  ASSERT_TRUE(event.ok()) << event.status().ToString();
  EXPECT_EQ(*event, TtlClock::kEvent);
  EXPECT_EQ(*ClockOfState("", ""), TtlClock::kWall);
  EXPECT_EQ(*ClockOfState("SET cairn.state.ttl_clock = 'wall';\n", kWatermarkOptions),
            TtlClock::kWall);
}

TEST(StateTtl, ByEventTimeIsRefusedWhereNothingTellsIt) {
  const Status refused = ClockOfState("SET cairn.state.ttl_clock = 'event';\n", "").status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("would never expire"));
}

}  // namespace
}  // namespace cairn::engine

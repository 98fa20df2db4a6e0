// SPDX-License-Identifier: Apache-2.0
#include "cli/run_command.h"

#include <gtest/gtest.h>

namespace cairn::cli {
namespace {

TEST(RunCommandTest, AJobIsNamedAfterItsFile) {
  EXPECT_EQ(JobNameOf("job.sql"), "job");
  EXPECT_EQ(JobNameOf("/etc/jobs/top.10.sql"), "top.10");
  EXPECT_EQ(JobNameOf("dir.d/plain"), "plain");
  EXPECT_EQ(JobNameOf(".hidden"), ".hidden");
}

TEST(RunCommandTest, SettingsAreSplitAtTheFirstEqualsSign) {
  EXPECT_EQ(*ParseSetting("checkpoint.interval=5s"),
            (std::pair<std::string, std::string>("checkpoint.interval", "5s")));
  EXPECT_EQ(ParseSetting("cairn.x=a=b")->first, "x");
  EXPECT_EQ(ParseSetting("cairn.x=a=b")->second, "a=b");
  EXPECT_EQ(ParseSetting("x=")->second, "");
  EXPECT_EQ(ParseSetting("novalue").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseSetting("=v").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn::cli

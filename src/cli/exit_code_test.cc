// SPDX-License-Identifier: Apache-2.0
#include "cli/exit_code.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

const std::vector<std::pair<StatusCode, int>>& Table() {
  static const std::vector<std::pair<StatusCode, int>> table{
      {StatusCode::kOk, 0},          {StatusCode::kInvalidArgument, 2},
      {StatusCode::kNotFound, 1},    {StatusCode::kAlreadyExists, 2},
      {StatusCode::kUnavailable, 4}, {StatusCode::kResourceExhausted, 4},
      {StatusCode::kFenced, 4},      {StatusCode::kUnsupportedFormat, 3},
      {StatusCode::kCorruption, 3},  {StatusCode::kCancelled, 130},
      {StatusCode::kInternal, 70},
  };
  return table;
}

TEST(ExitCodeTest, EveryStatusCodeHasItsExitCode) {
  for (const auto& [code, exit_code] : Table()) {
    EXPECT_EQ(static_cast<int>(ExitCodeOf(code)), exit_code) << StatusCodeName(code);
  }
}

TEST(ExitCodeTest, TheTableNamesEveryStatusCode) {
  for (int code = 0; code <= static_cast<int>(StatusCode::kInternal); ++code) {
    EXPECT_EQ(static_cast<int>(Table()[static_cast<size_t>(code)].first), code);
  }
  EXPECT_EQ(Table().size(), static_cast<size_t>(StatusCode::kInternal) + 1);
}

TEST(ExitCodeTest, ThePageOfErrorsListsTheSameTable) {
  std::ifstream page("docs/errors.md");
  std::stringstream text;
  text << page.rdbuf();
  for (const auto& [code, exit_code] : Table()) {
    const std::string row =
        "| " + std::string(StatusCodeName(code)) + " | " + std::to_string(exit_code) + " |";
    EXPECT_NE(text.str().find(row), std::string::npos) << "docs/errors.md lacks: " << row;
  }
}

}  // namespace
}  // namespace cairn::cli

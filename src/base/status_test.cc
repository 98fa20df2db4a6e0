// SPDX-License-Identifier: Apache-2.0
#include "cairn/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace cairn {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return Status::InvalidArgument("odd number: " + std::to_string(n));
  return n / 2;
}

Result<int> Quarter(int n) {
  CAIRN_ASSIGN_OR_RETURN(int half, Half(n));
  return Half(half);
}

TEST(Status, OkIsOnePointerAndPrintsOk) {
  EXPECT_EQ(sizeof(Status), sizeof(void*));
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().ToString(), "ok");
  EXPECT_EQ(Status().WithContext("x").ToString(), "ok");
}

TEST(Status, KeepsCodeAndCauseChain) {
  const Status status = Status::Corruption("bad crc").WithContext("frame 3").WithContext("cut 7");
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_EQ(status.ToString(), "corruption: cut 7: frame 3: bad crc");
  const Status copy = status;
  EXPECT_EQ(copy.ToString(), status.ToString());
}

TEST(Status, AContextThatTheMessageBeginsWithIsNotRepeated) {
  const Status status = Status::Corruption("operator a, slot s: cannot decode key 'k'");
  EXPECT_EQ(status.WithContext("operator a").ToString(), status.ToString());
  EXPECT_EQ(status.WithContext("operator a, slot s").ToString(), status.ToString());
  EXPECT_EQ(status.WithContext("operator").message(), "operator: " + std::string(status.message()));
  EXPECT_EQ(status.WithContext("operator b").message(),
            "operator b: " + std::string(status.message()));
  EXPECT_EQ(Status::Internal("x").WithContext("x").message(), "x: x");
}

TEST(Result, PropagatesTheFirstError) {
  EXPECT_EQ(Quarter(8).value(), 2);
  EXPECT_EQ(Quarter(6).status().ToString(), "invalid argument: odd number: 3");
  EXPECT_EQ(Result<int>(Status()).status().code(), StatusCode::kInternal);
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  ASSERT_TRUE(result.ok());
  std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 3);
}

}  // namespace
}  // namespace cairn

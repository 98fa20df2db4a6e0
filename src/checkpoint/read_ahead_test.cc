// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/read_ahead.h"

#include <gtest/gtest.h>

#include <random>

#include "env/fault_object_store.h"
#include "env/memory_object_store.h"

namespace cairn::checkpoint {
namespace {

class ReadAheadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::mt19937_64 random(3);
    for (const char* key : {"a", "b"}) {
      std::string& bytes = bytes_[key];
      bytes.resize(key[0] == 'a' ? 1000 : 77);
      for (char& c : bytes) c = static_cast<char>(random());
      ASSERT_TRUE(store_.CreateIfAbsent(key, bytes).ok());
      lengths_[key] = bytes.size();
    }
  }
  std::shared_ptr<env::MemoryObjectStore> memory_ = std::make_shared<env::MemoryObjectStore>();
  env::FaultObjectStore store_{memory_};
  std::map<std::string, std::string> bytes_;
  std::map<std::string, uint64_t> lengths_;
};

TEST_F(ReadAheadTest, GivesTheBytesThatAreThereInWhateverOrderTheyAreAskedFor) {
  std::mt19937_64 random(4);
  ReadAhead ahead(&store_, lengths_, 64);
  for (int i = 0; i < 100; ++i) {
    const std::string key = random() % 4 == 0 ? "b" : "a";
    const uint64_t offset = random() % (lengths_[key] + 1);
    std::string out(random() % (lengths_[key] - offset + 1), '\0');
    ASSERT_TRUE(ahead.ReadRange(key, offset, out).ok());
    ASSERT_EQ(out, bytes_[key].substr(offset, out.size()));
  }
}

TEST_F(ReadAheadTest, ReadsOfTheWholeInOrderAreFewRequests) {
  store_.Disarm();
  ReadAhead ahead(&store_, lengths_, 250);
  for (uint64_t at = 0; at < 1000; at += 10) {
    std::string out(10, '\0');
    ASSERT_TRUE(ahead.ReadRange("a", at, out).ok());
    ASSERT_EQ(out, bytes_["a"].substr(at, 10));
  }
  EXPECT_EQ(store_.calls(), 4u);
}

TEST_F(ReadAheadTest, WhatIsMissingOrCutOffIsReportedAsByTheStore) {
  std::map<std::string, uint64_t> lengths = {{"a", 2000}, {"c", 5}};
  ReadAhead ahead(&store_, lengths, 64);
  std::string out(10, '\0');
  EXPECT_EQ(ahead.ReadRange("c", 0, std::span<char>(out).first(5)).code(), StatusCode::kNotFound);
  EXPECT_EQ(ahead.ReadRange("unlisted", 0, out).code(), StatusCode::kNotFound);
  EXPECT_EQ(ahead.ReadRange("a", 1995, out).code(), StatusCode::kCorruption);
  EXPECT_EQ(ahead.ReadRange("a", 1500, out).code(), StatusCode::kCorruption);
  EXPECT_TRUE(ahead.ReadRange("a", 0, out).ok());
}

TEST_F(ReadAheadTest, AFailedPieceThatWasNotWantedHarmsNothing) {
  ReadAhead ahead(&store_, lengths_, 100);
  std::string out(10, '\0');
  store_.Arm({.call = 1, .kind = env::ObjectFault::kLostBefore});  // the piece behind the first
  ASSERT_TRUE(ahead.ReadRange("a", 0, out).ok());
  ASSERT_TRUE(ahead.ReadRange("b", 0, out).ok());
  ASSERT_TRUE(ahead.ReadRange("a", 100, out).ok());
  EXPECT_EQ(out, bytes_["a"].substr(100, 10));
}

}  // namespace
}  // namespace cairn::checkpoint

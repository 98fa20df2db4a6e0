// SPDX-License-Identifier: Apache-2.0
#include "engine/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/memory_budget.h"

namespace cairn::engine {
namespace {

using ::testing::HasSubstr;

TEST(Options, DefaultsAreTheDocumentedOnes) {
  const Options options;
  EXPECT_EQ(options.checkpoint_interval_ms, 10'000);
  EXPECT_EQ(options.checkpoint_timeout_ms, 120'000);
  EXPECT_EQ(options.checkpoint_retained, 3u);
  EXPECT_EQ(options.checkpoint_rebase_chunks, 64u);
  EXPECT_EQ(options.checkpoint_max_concurrent_uploads, 8u);
  EXPECT_EQ(options.state_key_groups, 128u);
  EXPECT_EQ(options.state_memory_budget, MemoryBudget::DefaultLimit());
  EXPECT_TRUE(options.state_async_snapshots);
  EXPECT_TRUE(options.fs_fsync);
}

TEST(Options, EveryDocumentedDefaultThatIsAValueMayBeSet) {
  for (const OptionInfo& info : KnownOptions()) {
    Options options;
    if (info.name == "state.memory_budget") continue;
    EXPECT_TRUE(SetOption(info.name, info.default_text, &options).ok()) << info.name;
  }
}

TEST(Options, ValuesAreTaken) {
  Options options;
  ASSERT_TRUE(SetOption("checkpoint.interval", "250ms", &options).ok());
  ASSERT_TRUE(SetOption("state.memory_budget", "512MiB", &options).ok());
  ASSERT_TRUE(SetOption("fs.fsync", "false", &options).ok());
  EXPECT_EQ(options.checkpoint_interval_ms, 250);
  EXPECT_EQ(options.state_memory_budget, uint64_t{512} << 20);
  EXPECT_FALSE(options.fs_fsync);
  ASSERT_TRUE(SetOption("state.ttl", "2h", &options).ok());
  ASSERT_TRUE(SetOption("state.ttl_clock", "stopped_while_down", &options).ok());
  EXPECT_EQ(options.state_ttl_ms, 7'200'000);
  EXPECT_EQ(options.state_ttl_clock, TtlClock::kStoppedWhileDown);
  ASSERT_TRUE(SetOption("state.ttl_clock", "auto", &options).ok());
  EXPECT_EQ(options.state_ttl_clock, std::nullopt);
  EXPECT_FALSE(SetOption("state.ttl_clock", "sun", &options).ok());
  ASSERT_TRUE(SetOption("state.ttl", "0", &options).ok());
  EXPECT_EQ(options.state_ttl_ms, 0);
}

TEST(Options, WhatHasNoEffectYetIsUnknown) {
  for (const char* name : {"view.staleness", "queryable.missing_is_404"}) {
    Options options;
    EXPECT_EQ(SetOption(name, "true", &options).code(), StatusCode::kInvalidArgument) << name;
  }
}

TEST(Options, AnUnknownNameListsTheKnownOnes) {
  Options options;
  const Status status = SetOption("checkpoint.intervall", "10s", &options);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  for (const OptionInfo& info : KnownOptions()) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(info.name));
  }
}

TEST(Options, ABadValueIsRefusedSayingWhatMayBeGivenAndChangesNothing) {
  const std::pair<const char*, const char*> bad[] = {{"checkpoint.interval", "10"},
                                                     {"checkpoint.interval", "99ms"},
                                                     {"checkpoint.retained", "0"},
                                                     {"checkpoint.retained", "17"},
                                                     {"checkpoint.retained", "3x"},
                                                     {"state.key_groups", "32769"},
                                                     {"state.memory_budget", "1MiB"},
                                                     {"state.async_snapshots", "yes"},
                                                     {"checkpoint.max_concurrent_uploads", "0"},
                                                     {"checkpoint.timeout", "-1ms"},
                                                     {"state.ttl", "-5s"},
                                                     {"state.ttl", "forever"},
                                                     {"state.ttl_clock", "moon"}};
  for (const auto& [name, value] : bad) {
    Options options;
    const Status status = SetOption(name, value, &options);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << name << " = " << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr("give ")) << name;
    EXPECT_EQ(options.checkpoint_interval_ms, 10'000);
    EXPECT_EQ(options.checkpoint_retained, 3u);
  }
}

}  // namespace
}  // namespace cairn::engine

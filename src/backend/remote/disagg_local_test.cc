// SPDX-License-Identifier: Apache-2.0
#include "backend/remote/disagg_local.h"

#include <gtest/gtest.h>

#include "backend/remote/remote_testing.h"

namespace cairn::backend::remote {
namespace {

std::unique_ptr<StateBackend> OpenLocal(const std::string& name, uint32_t subtask, uint32_t p) {
  DisaggLocalOptions options;
  options.state.name = name;
  options.state.subtask = subtask;
  options.state.parallelism = p;
  options.io_threads = 1;
  return *OpenDisaggLocal(options);
}

TEST(DisaggLocal, RestoresWhatABackendOfTheSameProcessSaved) {
  RowMap model;
  for (uint32_t subtask = 0; subtask < 2; ++subtask) {
    auto backend = OpenLocal("restores", subtask, 2);
    const KeyGroupRange owned = KeyGroupsOfSubtask(subtask, 2, kDefaultKeyGroups);
    for (int i = 0; i < 100; ++i) {
      if (!owned.Contains(static_cast<uint8_t>(KeyOf(i)[0]))) continue;
      ASSERT_TRUE(backend->Put(kOp, KeyOf(i), "v").ok());
      model[KeyOf(i)] = "v";
    }
    MustSnapshot(backend.get(), 5);
  }
  // Twice: a restore changes nothing where it reads.
  for (int round = 0; round < 2; ++round) {
    RowMap seen;
    for (uint32_t subtask = 0; subtask < 3; ++subtask) {
      auto backend = OpenLocal("restores", subtask, 3);
      const Result<std::vector<RestorePart>> parts = FindDisaggLocal("restores", 5, 2);
      ASSERT_TRUE(parts.ok());
      MustRestore(backend.get(), *parts);
      seen.merge(*ScanAll(backend.get(), kOp));
    }
    EXPECT_EQ(seen, model);
  }
}

TEST(DisaggLocal, FindsNothingWhereAParticipantIsMissing) {
  auto backend = OpenLocal("misses", 0, 2);
  ASSERT_TRUE(backend->Put(kOp, OperatorKeyOf("p"), "v").ok());
  MustSnapshot(backend.get(), 1);
  EXPECT_EQ(FindDisaggLocal("misses", 1, 2).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(FindDisaggLocal("misses", 2, 1).status().code(), StatusCode::kNotFound);
}

TEST(DisaggLocal, SaysWhatItIs) {
  auto backend = OpenLocal("describes", 0, 1);
  const BackendDescription description = backend->Describe();
  EXPECT_EQ(description.uri, "disagg-local://");
  EXPECT_FALSE(description.durable);
  EXPECT_TRUE(description.incremental);
  EXPECT_NE(backend->async_reads(), nullptr);
}

}  // namespace
}  // namespace cairn::backend::remote

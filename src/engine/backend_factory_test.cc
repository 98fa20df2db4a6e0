// SPDX-License-Identifier: Apache-2.0
#include "engine/backend_factory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "env/memory_file_system.h"
#include "format/keys.h"

namespace cairn::engine {
namespace {

using ::testing::HasSubstr;

constexpr OperatorId kOp{42};

std::string RowOf(std::string_view user_key) {
  std::string key;
  format::KeyLayout().AppendKeyed(KeyGroupOf(user_key, kDefaultKeyGroups), "s", user_key, &key);
  return key;
}

std::string OffsetRow(std::string_view logical_key) {
  std::string key;
  format::KeyLayout().AppendOperatorState(logical_key, &key);
  return key;
}

class BackendFactoryTest : public ::testing::TestWithParam<const char*> {
 protected:
  BackendSpec Spec(const std::string& uri, uint32_t subtask = 0, uint32_t parallelism = 1) {
    BackendSpec spec;
    spec.uri = uri;
    spec.files = &disk_;
    spec.state.budget = &budget_;
    spec.state.subtask = subtask;
    spec.state.parallelism = parallelism;
    return spec;
  }

  std::unique_ptr<StateBackend> Build(const BackendSpec& spec) {
    Result<std::unique_ptr<StateBackend>> built = registry_.Build(spec);
    EXPECT_TRUE(built.ok()) << built.status().ToString();
    return built.ok() ? *std::move(built) : nullptr;
  }

  /// Save `keys` rows and an offset of each subtask as checkpoint `id` at parallelism `p`.
  void SaveJob(const std::string& uri, uint32_t p, uint64_t id, int keys) {
    for (uint32_t subtask = 0; subtask < p; ++subtask) {
      const auto backend = Build(Spec(uri, subtask, p));
      for (int i = 0; i < keys; ++i) {
        const std::string key = std::to_string(i);
        if (OwnerOfKeyGroup(KeyGroupOf(key, 128), p, 128) != subtask) continue;
        ASSERT_TRUE(backend->Put(kOp, RowOf(key), key).ok());
      }
      const std::string mine = std::to_string(subtask);
      ASSERT_TRUE(backend->Put(kOp, OffsetRow("pos"), mine).ok());
      ASSERT_TRUE(backend->Put(kOp, OffsetRow("part" + mine), mine).ok());
      ASSERT_TRUE(backend->Snapshot(id).ok());
    }
  }

  std::map<std::string, std::string> StateFiles(const std::string& directory) {
    std::map<std::string, std::string> files;
    for (const auto& [path, bytes] : disk_.AllFiles()) {
      if (path.starts_with(directory) && !path.ends_with("LOCK")) files[path] = bytes;
    }
    return files;
  }

  env::MemoryFileSystem disk_;
  MemoryBudget budget_{0};
  BackendRegistry registry_;
};

INSTANTIATE_TEST_SUITE_P(Directories, BackendFactoryTest,
                         ::testing::Values("file:///state", "changelog+file:///state"));

TEST_F(BackendFactoryTest, EveryBuiltSchemeAndNothingOpens) {
  const std::pair<const char*, bool> uris[] = {
      {"", false},  {"memory://", false},    {"memory+sharded://", false}, {"file:///a", true},
      {"/b", true}, {"changelog://", false}, {"changelog+file:///c", true}};
  for (const auto& [uri, durable] : uris) {
    const auto backend = Build(Spec(uri));
    ASSERT_NE(backend, nullptr) << uri;
    EXPECT_TRUE(backend->Put(kOp, RowOf("k"), "v").ok()) << uri;
    EXPECT_EQ(backend->Describe().durable, durable) << uri;
  }
  EXPECT_TRUE(registry_.Has("memory"));
  EXPECT_FALSE(registry_.Has("rocksdb"));
}

TEST_F(BackendFactoryTest, DisaggLocalTakesItsNumbersAndBeginsWithASavedCheckpoint) {
  BackendSpec spec = Spec("disagg-local://?io_threads=2&hot_max_bytes=65536");
  spec.state.name = "factory test";
  {
    const auto backend = Build(spec);
    ASSERT_NE(backend, nullptr);
    ASSERT_TRUE(backend->Put(kOp, RowOf("k"), "v").ok());
    ASSERT_TRUE(backend->Snapshot(3).ok());
  }
  spec.restore = BackendRestore{"", 3, 1};
  const auto backend = Build(spec);
  ASSERT_NE(backend, nullptr);
  EXPECT_EQ(**backend->Get(kOp, RowOf("k")), "v");
  for (const char* uri : {"disagg-local://?io_threads=", "disagg-local://?io_threads=99999",
                          "disagg-local://?io_threads=two", "disagg-local://?hot_max_bytes=-1"}) {
    EXPECT_EQ(registry_.Build(Spec(uri)).status().code(), StatusCode::kInvalidArgument) << uri;
  }
}

TEST_F(BackendFactoryTest, AnUnknownOrUnbuiltSchemeListsWhatThereIs) {
  const Status unknown = registry_.Build(Spec("redis://x")).status();
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("'redis'"));
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("memory+sharded://"));
  const Status unbuilt = registry_.Build(Spec("forst:///x")).status();
  EXPECT_THAT(std::string(unbuilt.message()), HasSubstr("rocksdb:// is not built yet"));
  EXPECT_THAT(std::string(unbuilt.message()), HasSubstr("changelog+file://"));
}

TEST_F(BackendFactoryTest, ASchemeWithAMeaningCanBeGivenABuilderOnce) {
  int built = 0;
  const BackendBuilder builder = [&](const BackendUri& uri, const BackendSpec& spec) {
    ++built;
    EXPECT_EQ(uri.scheme, "rocksdb");
    EXPECT_EQ(uri.path, "/db");
    EXPECT_EQ(uri.parameters.at("io_threads"), "4");
    BackendSpec memory = spec;
    memory.uri = "memory://";
    return BackendRegistry().Build(memory);
  };
  ASSERT_TRUE(registry_.Register("forst", builder).ok());
  EXPECT_TRUE(registry_.Has("rocksdb"));
  EXPECT_NE(Build(Spec("forst:///db?io_threads=4")), nullptr);
  EXPECT_NE(Build(Spec("rocksdb:///db?io_threads=4")), nullptr);
  EXPECT_EQ(built, 2);
  EXPECT_EQ(registry_.Register("rocksdb", builder).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(registry_.Register("mine", builder).code(), StatusCode::kInvalidArgument);
}

TEST_F(BackendFactoryTest, ADirectoryIsOpenOnce) {
  const auto first = Build(Spec("file:///state"));
  EXPECT_EQ(registry_.Build(Spec("file:///state")).status().code(), StatusCode::kFenced);
}

// What tables in memory saved is gone with the process: a job keeps them with --checkpoints.
TEST_F(BackendFactoryTest, Behaviour69TablesInMemoryBeginWithNoCheckpointOfAnotherProcess) {
  for (const char* uri : {"memory://", "memory+sharded://", "changelog://"}) {
    {
      const auto backend = Build(Spec(uri));
      ASSERT_TRUE(backend->Put(kOp, RowOf("k"), "v").ok());
      ASSERT_TRUE(backend->Snapshot(1).ok());
    }
    BackendSpec spec = Spec(uri);
    for (const char* from : {"", "file:///state"}) {
      spec.restore = BackendRestore{from, 1, 1};
      const Status refused = registry_.Build(spec).status();
      EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << uri << " from " << from;
      EXPECT_THAT(std::string(refused.message()), HasSubstr("cannot begin with checkpoint 1"));
    }
  }
}

TEST_P(BackendFactoryTest, ARescaleKeepsEveryRowOnceAndAllOperatorState) {
  constexpr int kKeys = 1000;
  for (const uint32_t p : {1u, 2u, 3u, 5u}) {
    for (const uint32_t q : {1u, 2u, 4u, 16u}) {
      const std::string from = std::string(GetParam()) + "/" + std::to_string(p);
      const std::string to = from + "to" + std::to_string(q);
      if (q == 1) SaveJob(from, p, 7, kKeys);
      const std::map<std::string, std::string> before =
          StateFiles("/state/" + std::to_string(p) + "/");
      ASSERT_FALSE(before.empty());
      std::map<std::string, int> seen;
      for (uint32_t subtask = 0; subtask < q; ++subtask) {
        BackendSpec spec = Spec(to, subtask, q);
        spec.restore = BackendRestore{from, 7, p};
        const auto backend = Build(spec);
        ASSERT_NE(backend, nullptr);
        ASSERT_TRUE(backend
                        ->Scan(kOp, ScanRange::All(),
                               [&](std::string_view key, std::string_view) {
                                 if (static_cast<uint8_t>(key[0]) < 128) ++seen[std::string(key)];
                                 return true;
                               })
                        .ok());
        for (uint32_t part = 0; part < p; ++part) {
          const std::string theirs = std::to_string(part);
          EXPECT_EQ(**backend->Get(kOp, OffsetRow("part" + theirs)), theirs);
        }
        // The own row wins where there is one; after a rescale the lowest subtask's is seen.
        EXPECT_EQ(**backend->Get(kOp, OffsetRow("pos")), p == q ? std::to_string(subtask) : "0");
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(kKeys)) << p << " to " << q;
      for (const auto& [key, times] : seen) ASSERT_EQ(times, 1);
      EXPECT_EQ(StateFiles("/state/" + std::to_string(p) + "/"), before);
    }
  }
}

TEST_P(BackendFactoryTest, OperatorRowsDoNotMultiplyOverRecoveries) {
  constexpr uint32_t kSubtasks = 10;
  SaveJob(GetParam(), kSubtasks, 1, 0);
  uint64_t rows_before = 0;
  for (uint64_t id = 1; id <= 5; ++id) {
    uint64_t saved = 0;
    for (uint32_t subtask = 0; subtask < kSubtasks; ++subtask) {
      BackendSpec spec = Spec(GetParam(), subtask, kSubtasks);
      spec.restore = BackendRestore{"", id, kSubtasks};
      const auto backend = Build(spec);
      ASSERT_NE(backend, nullptr);
      EXPECT_EQ(**backend->Get(kOp, OffsetRow("pos")), std::to_string(subtask));
      ASSERT_TRUE(backend->Snapshot(id + 1).ok());
      saved += backend->Describe().last_snapshot_bytes;
    }
    if (id > 1) {
      EXPECT_EQ(saved, rows_before) << id;
    }
    rows_before = saved;
  }
}

TEST_P(BackendFactoryTest, AMissingOrDamagedParticipantIsAnErrorThatNamesIt) {
  SaveJob(GetParam(), 2, 5, 100);
  SaveJob(GetParam(), 2, 6, 100);
  const bool changelog = std::string_view(GetParam()).starts_with("changelog");
  const std::string path =
      std::string("/state/1/") + (changelog ? "changelog" : "checkpoint") + "-6.snap";
  BackendSpec spec = Spec(GetParam(), 0, 1);
  spec.restore = BackendRestore{"", 6, 2};
  ASSERT_TRUE(disk_.FlipByte(path, 200).ok());
  Status status = registry_.Build(spec).status();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the newest older valid one is 5"));
  ASSERT_TRUE(disk_.RemoveFile(path).ok());
  status = registry_.Build(spec).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path + " is missing"));
}

}  // namespace
}  // namespace cairn::engine

// SPDX-License-Identifier: Apache-2.0
//
// Whole places as they were frozen (testdata/format/v1/{place,whole,partitioned}): read for ever,
// and written the same by this version from the same seeds and clock. With CAIRN_WRITE_GOLDEN=1
// files that are missing are written; none is ever changed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "checkpoint/file_system_checkpoint_store.h"
#include "checkpoint/job_testing.h"
#include "checkpoint/layout.h"
#include "checkpoint/lease.h"
#include "checkpoint/object_store_checkpointer.h"
#include "checkpoint/whole_checkpoint_testing.h"
#include "env/memory_object_store.h"

namespace cairn::checkpoint {
namespace {

using testing::SlotOf;
using testing::TestJob;
using testing::WholeManifest;

using GoldenFiles = std::map<std::string, std::string>;  // by path below the golden directory

std::filesystem::path GoldenRoot(const std::string& name) {
  return std::filesystem::path("testdata/format/v1") /
         name;  // tests run in the root of the sources
}

/// The frozen files of a directory; `written` is what this version writes.
GoldenFiles ReadGolden(const std::string& name, const GoldenFiles& written) {
  const std::filesystem::path root = GoldenRoot(name);
  if (std::getenv("CAIRN_WRITE_GOLDEN") != nullptr) {
    for (const auto& [path, bytes] : written) {
      if (std::filesystem::exists(root / path)) continue;
      std::filesystem::create_directories((root / path).parent_path());
      std::ofstream(root / path, std::ios::binary) << bytes;
    }
  }
  GoldenFiles files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    files[std::filesystem::relative(entry.path(), root).string()] = bytes.str();
  }
  return files;
}

void ExpectSameFiles(const GoldenFiles& written, const GoldenFiles& golden) {
  for (const auto& [path, bytes] : golden) {
    const auto found = written.find(path);
    ASSERT_NE(found, written.end()) << path << " is not written any more";
    EXPECT_TRUE(found->second == bytes) << path << " is written otherwise";
  }
  EXPECT_EQ(written.size(), golden.size());
}

/// Files of `disk` below `directory`, without the lock.
GoldenFiles FilesBelow(env::MemoryFileSystem* disk, const std::string& directory) {
  GoldenFiles files;
  for (const auto& [path, bytes] : disk->AllFiles()) {
    const std::string below = path.substr(std::min(directory.size() + 1, path.size()));
    if (path.starts_with(directory + "/") && below != kLockName) files[below] = bytes;
  }
  return files;
}

std::vector<state::SlotDescriptor> GoldenSlots() {
  return {SlotOf("out/count/0"), SlotOf("out/top/0"),
          SlotOf("out/top/partitions", state::SlotKind::kOperatorValue)};
}

/// Two subtasks: a base, a delta with an erase and a prepared sink, a cut in which nothing changed.
void WriteGoldenPlace(TestJob* job) {
  ASSERT_TRUE(job->Start(2).ok());
  for (int i = 0; i < 40; ++i) job->Put(0, "key" + std::to_string(i), "count " + std::to_string(i));
  for (int i = 0; i < 5; ++i) job->Put(1, "top" + std::to_string(i), std::string(3, '\0'));
  job->Put(2, "p0", "12");
  job->offset = 100;
  ASSERT_TRUE(job->Checkpoint().ok());
  job->clock.Advance(1000);
  job->Put(0, "key7", "changed");
  job->Erase(0, "key8");
  job->offset = 150;
  job->prepared = {{base::CheckpointId(2), 0, "{\"staged\":\"a\"}"},
                   {base::CheckpointId(2), 1, "{\"staged\":\"b\"}"}};
  ASSERT_TRUE(job->Checkpoint().ok());
  job->clock.Advance(1000);
  job->prepared.clear();
  ASSERT_TRUE(job->Checkpoint().ok());
  job->store.reset();
}

TEST(GoldenPlace, AWholePlaceIsWrittenTheSameAndAnyParallelismRestoresIt) {
  TestJob writer(GoldenSlots());
  WriteGoldenPlace(&writer);
  const GoldenFiles written = FilesBelow(&writer.disk(), writer.directory);
  const GoldenFiles golden = ReadGolden("place", written);
  ExpectSameFiles(written, golden);
  for (const uint32_t p : {1u, 2u, 3u}) {
    TestJob reader(GoldenSlots());
    for (const auto& [path, bytes] : golden) {
      const std::string at = reader.directory + "/" + path;
      ASSERT_TRUE(env::CreateDirectories(&reader.disk(), at.substr(0, at.rfind('/')), false).ok());
      auto file = reader.disk().CreateFile(at);
      ASSERT_TRUE(file.ok() && (*file)->Append(bytes).ok() && (*file)->Close().ok());
    }
    const Status started = reader.Start(p, base::CheckpointId(2));
    ASSERT_TRUE(started.ok()) << started.ToString();
    EXPECT_EQ(reader.cut->sources()[0].splits[0].position, "150");
    ASSERT_EQ(reader.cut->sinks().size(), 1u);
    EXPECT_EQ(reader.cut->sinks()[0].pieces[1].descriptor, "{\"staged\":\"b\"}");
    ASSERT_TRUE(reader.Start(p).ok());
    EXPECT_EQ(reader.cut->id().value, 3u);
    EXPECT_EQ(reader.Contents(0), writer.model(0));
    EXPECT_EQ(reader.Contents(1), writer.model(1));
    for (auto& subtask : reader.subtasks) {
      EXPECT_EQ(subtask.tables->Contents(2), writer.model(2));
    }
    reader.Put(0, "key1", "goes on");
    EXPECT_TRUE(reader.Checkpoint().ok());
  }
}

TEST(GoldenPlace, ALeaseIsWrittenTheSame) {
  env::MemoryObjectStore objects;
  env::ManualClock clock;
  LeaseOptions options;
  options.holder = {"boot/4026531836", 4711, 99, "process 4711 on build-3"};
  options.clock = &clock;
  options.renew_ms = 3'600'000;
  GoldenFiles written;
  {
    const auto lease = AcquireLease(&objects, options);
    ASSERT_TRUE(lease.ok());
    written["held.json"] = objects.Get(std::string(kLeaseKey), 1 << 16)->bytes;
  }
  written["released.json"] = objects.Get(std::string(kLeaseKey), 1 << 16)->bytes;
  const GoldenFiles golden = ReadGolden("lease", written);
  ExpectSameFiles(written, golden);
  // A holder elsewhere that does not renew is waited for, one that has given it back is not.
  for (const auto& [name, bytes] : golden) {
    env::MemoryObjectStore there;
    ASSERT_TRUE(there.CreateIfAbsent(std::string(kLeaseKey), bytes).ok());
    const int64_t before = clock.UnixMillis();
    options.holder.description = "the next";
    ASSERT_TRUE(AcquireLease(&there, options).ok()) << name;
    EXPECT_EQ(clock.UnixMillis() - before >= 10'000, name == "held.json") << name;
  }
}

TEST(GoldenPlace, WholeCheckpointsAreWrittenTheSameAndRead) {
  env::MemoryFileSystem disk;
  {
    FileSystemCheckpointStore store(&disk, "/base", 0);
    ASSERT_TRUE(store.SaveWithState(WholeManifest(7), {{"whole ", "state"}}).ok());
    ASSERT_TRUE(store.Save(WholeManifest(8)).ok());
    format::SinkStatuses sinks;
    sinks["out"] = {format::SinkCommitState::kFailed, "no \"space\""};
    ASSERT_TRUE(store.UpdateManifest(WholeManifest(8), sinks).ok());
  }
  const GoldenFiles written = FilesBelow(&disk, "/base");
  const GoldenFiles golden = ReadGolden("whole", written);
  ExpectSameFiles(written, golden);
  FileSystemCheckpointStore store(env::PosixFileSystem(), GoldenRoot("whole").string(), 0);
  EXPECT_EQ(*store.ListIds(), (std::vector<uint64_t>{7, 8}));
  EXPECT_EQ(*store.LoadLatest(), WholeManifest(8));
  EXPECT_EQ(*store.LoadStateData(7), "whole state");
  EXPECT_EQ(store.LoadSinkStatuses(8)->at("out").message, "no \"space\"");
  EXPECT_TRUE(store.ValidateCheckpoint(7)->valid());
}

TEST(GoldenPlace, PartitionedCheckpointsAreWrittenTheSameAndRead) {
  constexpr const char* kFirst = "01890000-0000-7000-8000-000000000001";
  constexpr const char* kSecond = "01890000-0001-7000-8000-000000000002";
  env::MemoryObjectStore objects;
  ObjectStoreCheckpointer checkpointer(&objects, {}, 2);
  for (const std::string id : {kFirst, kSecond}) {
    const bool is_delta = id == kSecond;
    const auto entries = checkpointer.SavePartitionsConcurrent(
        id, {{"count", 0, is_delta, "state 0"}, {"count", 1, is_delta, ""}});
    ASSERT_TRUE(entries.ok()) << entries.status().ToString();
    format::CheckpointManifestV2 manifest;
    manifest.checkpoint_id = id;
    manifest.epoch = is_delta ? 2 : 1;
    manifest.timestamp_ms = 1'700'000'000'000;
    if (is_delta) manifest.parent_id = kFirst;
    for (const auto& [op, entry] : *entries) {
      manifest.operators[op].partitions.push_back(entry);
      manifest.operators[op].total_bytes += entry.size_bytes;
      manifest.total_size_bytes += entry.size_bytes;
    }
    ASSERT_TRUE(checkpointer.SaveManifest(manifest).ok());
    ASSERT_TRUE(checkpointer.UpdateLatest(id).ok());
  }
  GoldenFiles written;
  const auto listed = objects.List("");
  for (const env::ObjectInfo& object : *listed) {
    written[object.key] = objects.Get(object.key, 1 << 20)->bytes;
  }
  const GoldenFiles golden = ReadGolden("partitioned", written);
  ExpectSameFiles(written, golden);
  env::MemoryObjectStore frozen;
  for (const auto& [key, bytes] : golden) ASSERT_TRUE(frozen.CreateIfAbsent(key, bytes).ok());
  ObjectStoreCheckpointer reader(&frozen, {}, 2);
  EXPECT_EQ(*reader.ReadLatest(), kSecond);
  const auto manifest = reader.LoadManifest(kFirst);
  ASSERT_TRUE(manifest.ok()) << manifest.status().ToString();
  EXPECT_EQ(*reader.LoadVerified(manifest->operators.at("count").partitions.front()), "state 0");
}

}  // namespace
}  // namespace cairn::checkpoint

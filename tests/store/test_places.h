// SPDX-License-Identifier: Apache-2.0
//
// The places that the store suite runs on: a directory of this machine, objects in memory, and a
// bucket of a real S3 server that the program starts. PlacedJob is a TestJob in one of them.
//
// Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../objects/s3_server.h"
#include "checkpoint/job_testing.h"
#include "checkpoint/layout.h"
#include "env/fault_object_store.h"
#include "env/memory_object_store.h"
#include "env/object_place.h"

namespace cairn::checkpoint::testing {

enum class PlaceKind { kDirectory, kMemory, kS3 };

inline std::string PlaceName(const ::testing::TestParamInfo<PlaceKind>& info) {
  switch (info.param) {
    case PlaceKind::kDirectory:
      return "LocalDirectory";
    case PlaceKind::kMemory:
      return "Memory";
    case PlaceKind::kS3:
      return "S3";
  }
  return "";
}

/// The S3 server of this program, started by the first test that needs it; its endpoint and
/// credentials are in the environment, and no other credentials are asked for. Null when there is
/// none.
inline cairn::testing::S3Server* SharedS3Server() {
  struct Started {
    std::unique_ptr<cairn::testing::S3Server> server;
    Started() {
      setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
      auto started = cairn::testing::S3Server::Start();
      if (!started.ok()) {
        std::printf("%s\n", started.status().ToString().c_str());
        return;
      }
      server = *std::move(started);
      setenv("AWS_ACCESS_KEY_ID", cairn::testing::S3Server::kAccessKey, 1);
      setenv("AWS_SECRET_ACCESS_KEY", cairn::testing::S3Server::kSecretKey, 1);
      setenv("AWS_ENDPOINT_URL", server->endpoint().c_str(), 1);
    }
  };
  static Started started;
  return started.server.get();
}

/// A new, empty place, removed with this object. Objects are looked at and damaged over a
/// connection of its own, as an operator would.
class TestPlace {
 public:
  explicit TestPlace(PlaceKind kind) : kind_(kind) {
    // Without a server the test fails, or is skipped, in its SetUp.
    const bool no_server = kind == PlaceKind::kS3 && SharedS3Server() == nullptr;
    if (no_server || kind == PlaceKind::kMemory) {
      memory_ = std::make_shared<env::MemoryObjectStore>();
      return;
    }
    if (kind == PlaceKind::kDirectory) {
      char directory[] = "/tmp/cairn-store-XXXXXX";
      EXPECT_NE(mkdtemp(directory), nullptr);
      root_ = directory;
      name_ = root_ + "/place";
    } else {
      static int places = 0;
      name_ = std::string("s3://") + cairn::testing::S3Server::kBucket + "/store/" +
              std::to_string(++places);
    }
    auto objects = env::OpenObjects(env::PosixFileSystem(), name_);
    EXPECT_TRUE(objects.ok()) << objects.status().ToString();
    if (objects.ok()) own_ = *std::move(objects);
  }
  ~TestPlace() {
    if (!root_.empty()) std::filesystem::remove_all(root_);
  }
  TestPlace(const TestPlace&) = delete;
  TestPlace& operator=(const TestPlace&) = delete;

  /// Open the store as a process of its own does.
  Result<std::unique_ptr<CheckpointStore>> Open(const StoreOptions& options) {
    if (own_) return OpenStoreAt(env::PosixFileSystem(), name_, options);
    return OpenStore(std::make_unique<env::FaultObjectStore>(memory_), nullptr, options);
  }
  PlaceKind kind() const { return kind_; }
  /// What OpenStoreAt takes; empty in memory.
  const std::string& name() const { return name_; }
  env::ObjectStore* objects() { return memory_ ? memory_.get() : own_.get(); }

  /// Every object but the lock: key -> bytes.
  std::map<std::string, std::string> All() {
    std::map<std::string, std::string> all;
    const auto found = objects()->List("");
    EXPECT_TRUE(found.ok()) << found.status().ToString();
    if (!found.ok()) return all;
    for (const env::ObjectInfo& object : *found) {
      if (object.key != kLockName && object.key != kLeaseKey) all[object.key] = Read(object.key);
    }
    return all;
  }
  bool Has(const std::string& key) { return objects()->Head(key).ok(); }
  std::string Read(const std::string& key) {
    const auto there = objects()->Get(key, 1 << 26);
    EXPECT_TRUE(there.ok()) << there.status().ToString();
    return there.ok() ? there->bytes : "";
  }
  void Write(const std::string& key, const std::string& bytes) {
    const Status written = objects()->PutHint(key, bytes);
    EXPECT_TRUE(written.ok()) << written.ToString();
  }
  void Remove(const std::string& key) {
    EXPECT_TRUE(Has(key)) << key;
    const Status removed = objects()->Delete(key);
    EXPECT_TRUE(removed.ok()) << removed.ToString();
  }
  void FlipByte(const std::string& key, size_t at) {
    std::string bytes = Read(key);
    ASSERT_LT(at, bytes.size());
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    Write(key, bytes);
  }

 private:
  PlaceKind kind_;
  std::string root_;  ///< of a directory: what is removed
  std::string name_;
  std::shared_ptr<env::MemoryObjectStore> memory_;
  std::unique_ptr<env::ObjectStore> own_;
};

/// A TestJob in a new place.
class PlacedJob final : public TestJob {
 public:
  explicit PlacedJob(PlaceKind kind,
                     std::vector<state::SlotDescriptor> slots = {SlotOf("out/count/0")})
      : TestJob(std::move(slots)), place_(kind) {
    open = [this](const StoreOptions& asked) { return place_.Open(asked); };
  }
  ~PlacedJob() { Stop(); }  // before the place goes

  TestPlace& place() { return place_; }

 private:
  TestPlace place_;
};

/// Skips where the machine has no S3 server.
class PlaceTest : public ::testing::TestWithParam<PlaceKind> {
 protected:
  void SetUp() override {
    if (GetParam() == PlaceKind::kS3 && cairn::testing::S3Server::Unavailable()) {
      GTEST_SKIP() << "no S3 server on this machine";
    }
    if (GetParam() == PlaceKind::kS3) {
      ASSERT_NE(SharedS3Server(), nullptr) << "the S3 server did not start";
    }
  }
};

}  // namespace cairn::checkpoint::testing

// SPDX-License-Identifier: Apache-2.0
#include "env/local_object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "env/fault_file_system.h"
#include "env/manual_clock.h"
#include "env/memory_file_system.h"

namespace cairn::env {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LocalObjectStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open(LocalObjectStoreOptions options = {}) {
    options.sweep_directories = {"d", "missing"};
    store_.reset();
    Result<std::unique_ptr<LocalObjectStore>> store =
        LocalObjectStore::Open(&files_, "/store", options);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_ = *std::move(store);
  }
  std::string Get(const std::string& key) {
    Result<VersionedBytes> found = store_->Get(key, 1 << 20);
    return found.ok() ? found->bytes : std::string(StatusCodeName(found.status().code()));
  }
  void CutPower() {
    memory_.PowerCut(Unsynced::kDrop);
    memory_.PowerOn();
    files_.Disarm();
    Open();
  }

  MemoryFileSystem memory_;
  FaultFileSystem files_{&memory_};
  std::unique_ptr<LocalObjectStore> store_;
};

TEST_F(LocalObjectStoreTest, ACreatedObjectSurvivesAPowerCut) {
  ASSERT_TRUE(store_->CreateIfAbsent("a/b/c", "1").ok());
  CutPower();
  EXPECT_EQ(Get("a/b/c"), "1");
}

TEST_F(LocalObjectStoreTest, CreatingAgainIsSuccessOnlyWithEqualBytes) {
  ASSERT_TRUE(store_->CreateIfAbsent("k", "1").ok());
  EXPECT_TRUE(store_->CreateIfAbsent("k", "1").ok());
  EXPECT_EQ(store_->CreateIfAbsent("k", "2").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Get("k"), "1");
}

TEST_F(LocalObjectStoreTest, OfManyCreatorsOneWins) {
  std::vector<Status> outcome(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < outcome.size(); ++i) {
    threads.emplace_back(
        [&, i] { outcome[i] = store_->CreateIfAbsent("k", "writer " + std::to_string(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  int won = 0;
  for (size_t i = 0; i < outcome.size(); ++i) {
    if (outcome[i].ok()) {
      ++won;
      EXPECT_EQ(Get("k"), "writer " + std::to_string(i));
    } else {
      EXPECT_EQ(outcome[i].code(), StatusCode::kAlreadyExists);
    }
  }
  EXPECT_EQ(won, 1);
}

TEST_F(LocalObjectStoreTest, ASwapNeedsTheVersionThatIsThere) {
  Result<std::string> first = store_->CompareAndSwap("head", std::nullopt, "1");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(store_->CompareAndSwap("head", std::nullopt, "x").status().code(), StatusCode::kFenced);
  Result<std::string> second = store_->CompareAndSwap("head", *first, "2");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(store_->CompareAndSwap("head", *first, "x").status().code(), StatusCode::kFenced);
  EXPECT_EQ(store_->Get("head", 100)->version, *second);
  CutPower();
  EXPECT_EQ(Get("head"), "2");
}

TEST_F(LocalObjectStoreTest, OfManySwappersOneWinsEachRound) {
  ASSERT_TRUE(store_->CompareAndSwap("head", std::nullopt, "0").ok());
  for (int round = 0; round < 20; ++round) {
    const std::string version = store_->Get("head", 100)->version;
    std::vector<std::thread> threads;
    std::atomic<int> won = 0;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const std::string bytes = std::to_string(round) + "." + std::to_string(i);
        if (store_->CompareAndSwap("head", version, bytes).ok()) ++won;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(won, 1);
  }
}

TEST_F(LocalObjectStoreTest, AStreamedObjectIsInvisibleBeforeFinish) {
  Result<std::unique_ptr<ObjectWriter>> writer = store_->NewWriter("d/data");
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Append("ab").ok());
  EXPECT_EQ(store_->Head("d/data").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(store_->List("")->empty());
  ASSERT_TRUE((*writer)->Append("cd").ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(Get("d/data"), "abcd");
  char middle[2];
  ASSERT_TRUE(store_->ReadRange("d/data", 1, middle).ok());
  EXPECT_EQ(std::string(middle, 2), "bc");
}

TEST_F(LocalObjectStoreTest, AStreamedNameIsDurableWithTheNextCreateBesideIt) {
  Result<std::unique_ptr<ObjectWriter>> writer = store_->NewWriter("d/data");
  ASSERT_TRUE((*writer)->Append("ab").ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  ASSERT_TRUE(store_->CreateIfAbsent("d/manifest", "m").ok());
  CutPower();
  EXPECT_EQ(Get("d/data"), "ab");
  EXPECT_EQ(Get("d/manifest"), "m");
}

TEST_F(LocalObjectStoreTest, AnAbandonedWriterLeavesNothing) {
  {
    Result<std::unique_ptr<ObjectWriter>> writer = store_->NewWriter("data");
  }
  EXPECT_TRUE(memory_.AllFiles().empty());
  EXPECT_EQ(memory_.open_handles(), 0u);
}

TEST_F(LocalObjectStoreTest, OpeningSweepsTemporaryNamesAndNothingElse) {
  ASSERT_TRUE(store_->CreateIfAbsent("d/k", "1").ok());
  files_.Arm({.call = 0, .kind = FaultKind::kNone});
  {
    Result<std::unique_ptr<ObjectWriter>> writer = store_->NewWriter("d/data");
    ASSERT_TRUE((*writer)->Append("half").ok());
    files_.Arm({.call = 0, .kind = FaultKind::kFail, .for_ever = true});
  }
  files_.Disarm();
  EXPECT_EQ(memory_.AllFiles().size(), 2u);
  Open({.sweep = false});
  EXPECT_EQ(memory_.AllFiles().size(), 2u);
  Open();
  EXPECT_EQ(store_->swept(), 1u);
  EXPECT_EQ(memory_.AllFiles().size(), 1u);
  EXPECT_EQ(Get("d/k"), "1");
}

TEST_F(LocalObjectStoreTest, OpeningLooksIntoItsOwnDirectoriesOnly) {
  for (const char* name : {"other", "d", "d/deep"}) {
    ASSERT_TRUE(CreateDirectories(&memory_, std::string("/store/") + name, true).ok());
    ASSERT_TRUE(memory_.CreateFile(std::string("/store/") + name + "/.cairn-tmp-9").ok());
  }
  ASSERT_TRUE(memory_.CreateFile("/store/.cairn-tmp-9").ok());
  Open();
  EXPECT_EQ(store_->swept(), 3u);
  EXPECT_THAT(memory_.AllFiles(), ElementsAre(::testing::Pair("/store/other/.cairn-tmp-9", "")));
}

TEST_F(LocalObjectStoreTest, ListingGivesSortedKeysUnderAPrefix) {
  for (const char* key : {"a/2", "a/1", "ab", "b/x/y"}) {
    ASSERT_TRUE(store_->CreateIfAbsent(key, key).ok());
  }
  std::vector<std::string> keys;
  Result<std::vector<ObjectInfo>> listed = store_->List("a");
  ASSERT_TRUE(listed.ok());
  for (const ObjectInfo& info : *listed) keys.push_back(info.key);
  EXPECT_THAT(keys, ElementsAre("a/1", "a/2", "ab"));
  EXPECT_EQ(store_->List("b/x/")->size(), 1u);
  EXPECT_EQ(store_->List("nothing")->size(), 0u);
}

TEST_F(LocalObjectStoreTest, DeletingIsIdempotentAndRemovesAnEmptyDirectory) {
  ASSERT_TRUE(store_->CreateIfAbsent("a/b/c", "1").ok());
  EXPECT_TRUE(store_->Delete("a/b/c").ok());
  EXPECT_TRUE(store_->Delete("a/b/c").ok());
  EXPECT_EQ(memory_.Stat("/store/a/b").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(store_->CreateIfAbsent("a/b/c", "2").ok());
  CutPower();
  EXPECT_EQ(Get("a/b/c"), "2");
}

TEST_F(LocalObjectStoreTest, KeysCannotLeaveTheStore) {
  for (const char* key : {"", "/a", "a//b", "../a", "a/../../b", ".", "a/", ".cairn-tmp-1"}) {
    EXPECT_EQ(store_->CreateIfAbsent(key, "x").code(), StatusCode::kInvalidArgument) << key;
    EXPECT_EQ(store_->Get(key, 10).status().code(), StatusCode::kInvalidArgument) << key;
  }
}

TEST_F(LocalObjectStoreTest, AFailedDirectorySyncPoisonsTheDirectoryUntilReopen) {
  ASSERT_TRUE(store_->CreateIfAbsent("d/k", "1").ok());
  files_.Arm({});
  ASSERT_TRUE(store_->CreateIfAbsent("d/l", "1").ok());
  const std::vector<std::string> calls = files_.trace();
  const auto sync = std::find(calls.begin(), calls.end(), "fsync-directory d");
  ASSERT_NE(sync, calls.end());
  files_.Arm({.call = static_cast<uint64_t>(sync - calls.begin()), .kind = FaultKind::kFail});
  EXPECT_EQ(store_->CreateIfAbsent("d/m", "1").code(), StatusCode::kUnavailable);
  files_.Disarm();
  const Status later = store_->CreateIfAbsent("d/n", "1");
  EXPECT_EQ(later.code(), StatusCode::kUnavailable);
  EXPECT_THAT(later.message(), HasSubstr("restart"));
  EXPECT_EQ(store_->Get("d/k", 10).status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(store_->CreateIfAbsent("e/k", "1").ok());
  Open();
  EXPECT_TRUE(store_->CreateIfAbsent("d/n", "1").ok());
}

TEST_F(LocalObjectStoreTest, WithoutFsyncNothingIsSynced) {
  Open({.fsync = false});
  files_.Disarm();
  ASSERT_TRUE(store_->CreateIfAbsent("d/k", "1").ok());
  ASSERT_TRUE(store_->CompareAndSwap("d/h", std::nullopt, "1").ok());
  EXPECT_EQ(files_.Count("fsync"), 0u);
}

TEST_F(LocalObjectStoreTest, APreparedDirectoryCostsLaterWritesNothing) {
  ASSERT_TRUE(store_->PrepareFor("a/b/x").ok());
  files_.Disarm();
  ASSERT_TRUE(store_->CreateIfAbsent("a/b/k", "1").ok());
  EXPECT_EQ(files_.Count("fsync"), 2u);
  CutPower();
  EXPECT_EQ(Get("a/b/k"), "1");
}

TEST_F(LocalObjectStoreTest, SyncsPerCallAreAsCounted) {
  ASSERT_TRUE(store_->CreateIfAbsent("d/k", "1").ok());
  files_.Disarm();
  ASSERT_TRUE(store_->CreateIfAbsent("d/l", "1").ok());
  EXPECT_EQ(files_.Count("fsync"), 2u);
  files_.Disarm();
  ASSERT_TRUE(store_->CompareAndSwap("d/h", std::nullopt, "1").ok());
  EXPECT_EQ(files_.Count("fsync"), 2u);
  files_.Disarm();
  ASSERT_TRUE(store_->PutHint("d/hint", "1").ok());
  EXPECT_EQ(files_.Count("fsync"), 0u);
}

// Every call of a create and of a swap fails once, and is cut off once: the object is whole or
// absent, the swapped one old or new, and nothing temporary outlives the next open.
TEST_F(LocalObjectStoreTest, EveryFaultLeavesOldOrNewAndNeverHalf) {
  for (FaultKind kind : {FaultKind::kFail, FaultKind::kFailAfter, FaultKind::kShortWrite,
                         FaultKind::kNoSpace, FaultKind::kCallback}) {
    uint64_t call = 0;
    for (bool more = true; more; ++call) {
      ASSERT_LT(call, 100u);
      MemoryFileSystem memory;
      FaultFileSystem files(&memory);
      LocalObjectStoreOptions options;
      options.sweep_directories = {"d"};
      auto store = *LocalObjectStore::Open(&files, "/s", options);
      const std::string old_version = *store->CompareAndSwap("h", std::nullopt, "old");
      files.Arm(
          {.call = call, .kind = kind, .after = [&] { memory.PowerCut(Unsynced::kRandom, call); }});
      const Status created = store->CreateIfAbsent("d/k", "whole");
      const Result<std::string> swapped = store->CompareAndSwap("h", old_version, "new");
      more = files.fired();
      files.Disarm();
      memory.PowerOn();
      memory.PowerCut(Unsynced::kRandom, call + 1);
      memory.PowerOn();
      store = *LocalObjectStore::Open(&files, "/s", options);
      Result<VersionedBytes> object = store->Get("d/k", 100);
      if (object.ok()) {
        EXPECT_EQ(object->bytes, "whole") << "call " << call;
      } else {
        EXPECT_EQ(object.status().code(), StatusCode::kNotFound);
        EXPECT_FALSE(created.ok()) << "call " << call;
      }
      Result<VersionedBytes> head = store->Get("h", 100);
      ASSERT_TRUE(head.ok()) << "call " << call << ": " << head.status().ToString();
      if (swapped.ok()) {
        EXPECT_EQ(head->bytes, "new") << "call " << call;
      } else {
        EXPECT_TRUE(head->bytes == "old" || head->bytes == "new") << "call " << call;
      }
      for (const auto& [path, bytes] : memory.AllFiles()) {
        EXPECT_EQ(path.find(".cairn-tmp-"), std::string::npos) << path;
      }
    }
  }
}

TEST(ManualClockTest, MovesOnlyWhenTold) {
  ManualClock clock(1'000);
  EXPECT_EQ(clock.UnixMillis(), 1'000);
  clock.SleepMillis(50);
  EXPECT_EQ(clock.UnixMillis(), 1'050);
  SeededRandom a(7);
  SeededRandom b(7);
  EXPECT_EQ(a.Next(), b.Next());
}

TEST_F(LocalObjectStoreTest, SyncsAndBytesAreCounted) {
  ASSERT_TRUE(store_->PrepareFor("d/any").ok());
  const StoreUse before = store_->use();
  ASSERT_TRUE(store_->CreateIfAbsent("d/record", "12345").ok());  // its bytes, its directory
  EXPECT_EQ(store_->use() - before, (StoreUse{.syncs = 2, .bytes_written = 5}));
  auto writer = store_->NewWriter("d/object");
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Append("123").ok());
  EXPECT_EQ((store_->use() - before).bytes_written, 8u) << "counted as they are written";
  ASSERT_TRUE((*writer)->Finish().ok());  // its bytes; the name rides on the next create
  EXPECT_EQ(store_->use() - before, (StoreUse{.syncs = 3, .bytes_written = 8}));
  Open({.fsync = false});
  ASSERT_TRUE(store_->CreateIfAbsent("d/other", "1").ok());
  EXPECT_EQ(store_->use(), (StoreUse{.bytes_written = 1}));
}

}  // namespace
}  // namespace cairn::env

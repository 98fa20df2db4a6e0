// SPDX-License-Identifier: Apache-2.0
//
// One suite over every object store: a local directory, memory and a real S3 server.
#include "env/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "env/local_object_store.h"
#include "env/memory_object_store.h"
#include "env/s3/s3_object_store.h"
#include "env/store_probe.h"
#include "s3_server.h"

namespace cairn::env {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

enum class Kind { kLocal, kMemory, kS3 };

std::string KindName(const ::testing::TestParamInfo<Kind>& info) {
  switch (info.param) {
    case Kind::kLocal:
      return "LocalDirectory";
    case Kind::kMemory:
      return "Memory";
    case Kind::kS3:
      return "S3";
  }
  return "";
}

/// Parts small enough that a test reaches the multipart path.
constexpr uint64_t kPartBytes = 5 << 20;

class ObjectStoreContract : public ::testing::TestWithParam<Kind> {
 protected:
  static void TearDownTestSuite() { server_.reset(); }

  void SetUp() override {
    if (GetParam() == Kind::kS3 && cairn::testing::S3Server::Unavailable()) {
      GTEST_SKIP() << "no S3 server on this machine";
    }
    prefix_ = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    prefix_ = prefix_.substr(0, prefix_.find('/'));
    Result<std::unique_ptr<ObjectStore>> store = Open();
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_ = *std::move(store);
  }

  void TearDown() override {
    store_.reset();
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  Result<std::unique_ptr<ObjectStore>> Open() {
    if (GetParam() == Kind::kMemory) {
      return std::unique_ptr<ObjectStore>(std::make_unique<MemoryObjectStore>());
    }
    if (GetParam() == Kind::kLocal) {
      char directory[] = "/tmp/cairn-objects-XXXXXX";
      if (mkdtemp(directory) == nullptr) return Status::Unavailable("mkdtemp failed");
      directory_ = directory;
      CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<LocalObjectStore> store,
                             LocalObjectStore::Open(PosixFileSystem(), directory_, {}));
      return std::unique_ptr<ObjectStore>(std::move(store));
    }
    if (server_ == nullptr) {
      CAIRN_ASSIGN_OR_RETURN(server_, cairn::testing::S3Server::Start());
    }
    S3StoreOptions options;
    options.location = {cairn::testing::S3Server::kBucket,
                        "some prefix/" + prefix_,
                        server_->endpoint(),
                        "us-east-1",
                        true,
                        false};
    options.credentials = [] {
      return S3Credentials{cairn::testing::S3Server::kAccessKey,
                           cairn::testing::S3Server::kSecretKey, "", "the test"};
    };
    options.part_bytes = kPartBytes;
    CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<S3ObjectStore> store,
                           S3ObjectStore::Open(std::move(options)));
    return std::unique_ptr<ObjectStore>(std::move(store));
  }

  std::string Get(const std::string& key) {
    Result<VersionedBytes> found = store_->Get(key, 1 << 20);
    return found.ok() ? found->bytes : std::string(StatusCodeName(found.status().code()));
  }

  Status Stream(const std::string& key, std::string_view bytes, size_t step) {
    CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<ObjectWriter> writer, store_->NewWriter(key));
    for (size_t at = 0; at < bytes.size(); at += step) {
      CAIRN_RETURN_IF_ERROR(writer->Append(bytes.substr(at, step)));
    }
    return writer->Finish();
  }

  static std::unique_ptr<cairn::testing::S3Server> server_;
  std::string prefix_;
  std::string directory_;
  std::unique_ptr<ObjectStore> store_;
};

std::unique_ptr<cairn::testing::S3Server> ObjectStoreContract::server_;

TEST_P(ObjectStoreContract, PassesTheProbe) {
  const std::vector<ProbeFinding> findings = ProbeStore(store_.get(), SystemRandom(), 8);
  for (const ProbeFinding& finding : findings) {
    EXPECT_TRUE(finding.status.ok()) << finding.promise << ": " << finding.status.ToString();
  }
  EXPECT_EQ(findings.size(), 11u);
  EXPECT_TRUE(VerdictOf(findings).ok());
  Result<std::vector<ObjectInfo>> left = store_->List("");
  ASSERT_TRUE(left.ok());
  EXPECT_TRUE(left->empty());
}

TEST_P(ObjectStoreContract, CreatingAgainIsSuccessOnlyWithEqualBytes) {
  ASSERT_TRUE(store_->CreateIfAbsent("k", "1").ok());
  EXPECT_TRUE(store_->CreateIfAbsent("k", "1").ok());
  const Status other = store_->CreateIfAbsent("k", "2");
  EXPECT_EQ(other.code(), StatusCode::kAlreadyExists) << other.ToString();
  EXPECT_EQ(Get("k"), "1");
}

TEST_P(ObjectStoreContract, ASwapNeedsTheVersionThatIsThere) {
  Result<std::string> first = store_->CompareAndSwap("head", std::nullopt, "1");
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  Result<std::string> second = store_->CompareAndSwap("head", *first, "2");
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_EQ(store_->CompareAndSwap("head", *first, "3").status().code(), StatusCode::kFenced);
  EXPECT_EQ(store_->CompareAndSwap("head", std::nullopt, "3").status().code(), StatusCode::kFenced);
  EXPECT_EQ(Get("head"), "2");
  ASSERT_TRUE(store_->Delete("head").ok());
  EXPECT_EQ(store_->CompareAndSwap("head", *second, "3").status().code(), StatusCode::kFenced);
}

TEST_P(ObjectStoreContract, TheVersionThatIsReadIsTheOneToSwap) {
  ASSERT_TRUE(store_->CreateIfAbsent("head", "1").ok());
  Result<VersionedBytes> there = store_->Get("head", 10);
  ASSERT_TRUE(there.ok());
  EXPECT_TRUE(store_->CompareAndSwap("head", there->version, "2").ok());
}

TEST_P(ObjectStoreContract, EqualBytesOfAnotherSwapAreNotTakenForOurs) {
  ASSERT_TRUE(store_->CreateIfAbsent("head", "same").ok());
  EXPECT_EQ(store_->CompareAndSwap("head", std::nullopt, "same").status().code(),
            StatusCode::kFenced);
}

TEST_P(ObjectStoreContract, OfManySwapsOfOneVersionOneWins) {
  Result<std::string> version = store_->CompareAndSwap("head", std::nullopt, "0");
  ASSERT_TRUE(version.ok());
  std::vector<Status> outcomes(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    threads.emplace_back([&, i] {
      outcomes[i] =
          store_->CompareAndSwap("head", *version, "writer " + std::to_string(i)).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  int won = 0;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].ok()) {
      ++won;
      EXPECT_EQ(Get("head"), "writer " + std::to_string(i));
    } else {
      EXPECT_EQ(outcomes[i].code(), StatusCode::kFenced) << outcomes[i].ToString();
    }
  }
  EXPECT_EQ(won, 1);
}

TEST_P(ObjectStoreContract, AStreamedObjectIsInvisibleUntilItIsFinished) {
  Result<std::unique_ptr<ObjectWriter>> writer = store_->NewWriter("data");
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Append("half ").ok());
  EXPECT_EQ(Get("data"), "not found");
  ASSERT_TRUE((*writer)->Append("and half").ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(Get("data"), "half and half");
}

TEST_P(ObjectStoreContract, AnAbandonedObjectLeavesNothing) {
  {
    Result<std::unique_ptr<ObjectWriter>> writer = store_->NewWriter("data");
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Append(std::string(2 * kPartBytes, 'x')).ok());
  }
  EXPECT_EQ(Get("data"), "not found");
  EXPECT_TRUE(store_->CreateIfAbsent("data", "1").ok());
}

TEST_P(ObjectStoreContract, AnObjectOfManyPartsIsReadBackWholeAndInRanges) {
  std::string bytes(3 * kPartBytes + 12'345, '\0');
  std::mt19937_64 random(7);
  for (char& c : bytes) c = static_cast<char>(random());
  ASSERT_TRUE(Stream("dir/data", bytes, 1'000'003).ok());
  Result<ObjectInfo> info = store_->Head("dir/data");
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_EQ(info->size, bytes.size());
  std::string read(bytes.size(), '\0');
  ASSERT_TRUE(store_->ReadRange("dir/data", 0, read).ok());
  EXPECT_TRUE(read == bytes);
  std::string part(1000, '\0');
  ASSERT_TRUE(store_->ReadRange("dir/data", kPartBytes - 500, part).ok());
  EXPECT_TRUE(part == bytes.substr(kPartBytes - 500, 1000));
}

TEST_P(ObjectStoreContract, AnObjectOfManyPartsDoesNotReplaceAnother) {
  ASSERT_TRUE(store_->CreateIfAbsent("data", "1").ok());
  const Status streamed = Stream("data", std::string(2 * kPartBytes, 'x'), kPartBytes);
  EXPECT_EQ(streamed.code(), StatusCode::kAlreadyExists) << streamed.ToString();
  EXPECT_EQ(Get("data"), "1");
}

TEST_P(ObjectStoreContract, AnObjectOfExactlyOnePartAndAnEmptyOneAreStored) {
  const std::string bytes(kPartBytes, 'y');
  ASSERT_TRUE(Stream("part", bytes, 999'999).ok());
  EXPECT_EQ(store_->Head("part")->size, bytes.size());
  ASSERT_TRUE(Stream("empty", "", 1).ok());
  EXPECT_EQ(store_->Head("empty")->size, 0u);
  EXPECT_EQ(Get("empty"), "");
}

TEST_P(ObjectStoreContract, AReadBeyondTheEndIsDamageAndOfNothingIsNotFound) {
  ASSERT_TRUE(store_->CreateIfAbsent("k", "12345").ok());
  std::string out(3, '\0');
  EXPECT_EQ(store_->ReadRange("k", 3, out).code(), StatusCode::kCorruption);
  EXPECT_EQ(store_->ReadRange("k", 9, out).code(), StatusCode::kCorruption);
  EXPECT_EQ(store_->ReadRange("absent", 0, out).code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->Get("absent", 10).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->Head("absent").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(store_->ReadRange("k", 2, std::span<char>()).ok());
}

TEST_P(ObjectStoreContract, ARecordLongerThanAllowedIsRefused) {
  ASSERT_TRUE(store_->CreateIfAbsent("k", "12345").ok());
  EXPECT_TRUE(store_->Get("k", 5).ok());
  EXPECT_EQ(store_->Get("k", 4).status().code(), StatusCode::kCorruption);
}

TEST_P(ObjectStoreContract, ListsByPrefixInOrderWithSizes) {
  for (const char* key : {"a/2", "a/1", "a/b/3", "ab", "b"}) {
    ASSERT_TRUE(store_->CreateIfAbsent(key, key).ok());
  }
  Result<std::vector<ObjectInfo>> found = store_->List("a/");
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  std::vector<std::string> keys;
  for (const ObjectInfo& object : *found) {
    keys.push_back(object.key);
    EXPECT_EQ(object.size, object.key.size());
    EXPECT_GT(object.modified_unix_ms, 1'700'000'000'000);
  }
  EXPECT_THAT(keys, ElementsAre("a/1", "a/2", "a/b/3"));
  EXPECT_EQ(store_->List("")->size(), 5u);
  EXPECT_TRUE(store_->List("zzz")->empty());
}

TEST_P(ObjectStoreContract, KeysMayHoldAnythingThatAFileNameMay) {
  const std::string key = "a b/ö=%41+&?#~'(x)/$";
  ASSERT_TRUE(store_->CreateIfAbsent(key, "1").ok());
  EXPECT_EQ(Get(key), "1");
  Result<std::vector<ObjectInfo>> found = store_->List("a b/");
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().key, key);
  ASSERT_TRUE(store_->Delete(key).ok());
  EXPECT_EQ(Get(key), "not found");
}

TEST_P(ObjectStoreContract, AHintIsOverwritten) {
  ASSERT_TRUE(store_->PutHint("latest.txt", "1").ok());
  ASSERT_TRUE(store_->PutHint("latest.txt", "22").ok());
  EXPECT_EQ(Get("latest.txt"), "22");
}

TEST_P(ObjectStoreContract, DeletingWhatIsNotThereIsNoError) {
  EXPECT_TRUE(store_->Delete("absent/key").ok());
}

INSTANTIATE_TEST_SUITE_P(Stores, ObjectStoreContract,
                         ::testing::Values(Kind::kLocal, Kind::kMemory, Kind::kS3), KindName);

}  // namespace
}  // namespace cairn::env

// SPDX-License-Identifier: Apache-2.0
//
// What a process that dies leaves of a large object in a real S3 server, and who may end it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "env/s3/s3_object_store.h"
#include "s3_server.h"

namespace cairn::env {
namespace {

class S3Uploads : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cairn::testing::S3Server::Unavailable()) GTEST_SKIP() << "no S3 server on this machine";
    auto server = cairn::testing::S3Server::Start();
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = *std::move(server);
  }

  std::unique_ptr<S3ObjectStore> Connect(const std::string& prefix) {
    S3StoreOptions options;
    options.location = {
        cairn::testing::S3Server::kBucket, prefix, server_->endpoint(), "us-east-1", true, false};
    options.credentials = [] {
      return S3Credentials{cairn::testing::S3Server::kAccessKey,
                           cairn::testing::S3Server::kSecretKey, "", "the test"};
    };
    options.part_bytes = 5 << 20;
    auto store = S3ObjectStore::Open(std::move(options));
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return *std::move(store);
  }

  /// A process sends two parts of an object and dies.
  void DieWhileWriting(const std::string& prefix, const std::string& key) {
    const pid_t process = fork();
    if (process == 0) {
      const auto store = Connect(prefix);
      auto writer = store->NewWriter(key);
      const bool sent = writer.ok() && (*writer)->Append(std::string(11 << 20, 'x')).ok();
      if (sent) raise(SIGKILL);
      _exit(1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(process, &status, 0), process);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }

  std::unique_ptr<cairn::testing::S3Server> server_;
};

TEST_F(S3Uploads, ThoseOfADeadProcessAreEndedBelowThePrefixAndOnce) {
  DieWhileWriting("mine", "nodes/1/a");
  DieWhileWriting("mine", "nodes/1/b");
  DieWhileWriting("mine", "other/c");
  DieWhileWriting("theirs", "nodes/1/d");
  const auto mine = Connect("mine");
  const auto every = [](const std::string&, int64_t) { return true; };
  const auto ended = mine->EndUnfinished("nodes/", every);
  ASSERT_TRUE(ended.ok()) << ended.status().ToString();
  EXPECT_EQ(*ended, 2u);
  EXPECT_EQ(*mine->EndUnfinished("nodes/", every), 0u);
  EXPECT_EQ(*mine->EndUnfinished("", every), 1u);
  EXPECT_EQ(*Connect("theirs")->EndUnfinished("", every), 1u);
}

TEST_F(S3Uploads, ThoseThatWereBegunJustNowAreLeftToTheirWriter) {
  const auto store = Connect("mine");
  auto writer = store->NewWriter("data");
  ASSERT_TRUE(writer.ok());
  const std::string bytes(11 << 20, 'x');
  ASSERT_TRUE((*writer)->Append(bytes).ok());
  std::vector<std::string> seen;
  EXPECT_EQ(*store->EndUnfinished("",
                                  [&](const std::string& key, int64_t age_ms) {
                                    seen.push_back(key);
                                    return age_ms > 600'000;
                                  }),
            0u);
  EXPECT_EQ(seen, std::vector<std::string>{"data"});
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(store->Head("data")->size, bytes.size());
}

TEST_F(S3Uploads, AWriterWhoseUploadWasEndedFailsAndPublishesNothing) {
  const auto store = Connect("mine");
  auto writer = store->NewWriter("data");
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Append(std::string(11 << 20, 'x')).ok());
  // The parts travel on threads of their own: begun they are.
  EXPECT_EQ(*store->EndUnfinished("", [](const std::string&, int64_t) { return true; }), 1u);
  EXPECT_FALSE((*writer)->Finish().ok());
  EXPECT_EQ(store->Head("data").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace cairn::env

// SPDX-License-Identifier: Apache-2.0
//
// What the store tells of its calls: requests counted, pauses announced. How it copes with faults
// of a real server is in tests/objects.
#include "env/s3/s3_object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "env/manual_clock.h"

namespace cairn::env {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// Answers what it is told to.
class AnsweringHttp final : public HttpClient {
 public:
  Result<HttpResponse> Send(const HttpRequest&) override {
    if (!reachable) return Status::Unavailable("connect to 127.0.0.1 port 9: refused");
    HttpResponse response;
    response.status = status;
    response.headers = {{"etag", "\"1\""}};
    return response;
  }
  bool reachable = true;
  int status = 200;
};

/// Time that passes only in pauses.
class PausedClock final : public Clock {
 public:
  int64_t UnixMillis() const override { return 0; }
  int64_t MonotonicNanos() const override { return now_ms_ * 1'000'000; }
  void SleepMillis(int64_t ms) override { now_ms_ += ms; }

 private:
  int64_t now_ms_ = 0;
};

class S3ObjectStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    S3StoreOptions options;
    options.location = {"bucket", "job", "http://127.0.0.1:9", "us-east-1", true, true};
    options.http = &http_;
    options.clock = &clock_;
    options.random = &random_;
    options.deadline_ms = 15'000;
    options.on_retry = [this](const std::string& text) { told_.push_back(text); };
    auto store = S3ObjectStore::Open(std::move(options));
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_ = *std::move(store);
  }

  AnsweringHttp http_;
  PausedClock clock_;
  SeededRandom random_{7};
  std::vector<std::string> told_;
  std::unique_ptr<S3ObjectStore> store_;
};

TEST_F(S3ObjectStoreTest, RequestsAreCountedByWhatTheyCost) {
  ASSERT_TRUE(store_->PutHint("a", "12345").ok());
  ASSERT_TRUE(store_->CreateIfAbsent("b", "678").ok());
  ASSERT_TRUE(store_->Head("a").ok());
  ASSERT_TRUE(store_->Get("a", 100).ok());
  ASSERT_TRUE(store_->Delete("a").ok());
  EXPECT_EQ(store_->use(), (StoreUse{.puts = 2, .gets = 2, .deletes = 1, .bytes_written = 8}));
}

TEST_F(S3ObjectStoreTest, BytesThatWereNotTakenAreNotWritten) {
  http_.status = 403;
  EXPECT_FALSE(store_->PutHint("a", "12345").ok());
  EXPECT_EQ(store_->use(), (StoreUse{.puts = 1}));
}

TEST_F(S3ObjectStoreTest, ACallThatWaitsSaysForWhatAndForHowLong) {
  http_.reachable = false;
  EXPECT_EQ(store_->Head("a").status().code(), StatusCode::kUnavailable);
  // The first two pauses, of a tenth and two tenths of a second, are not worth a word.
  ASSERT_THAT(told_, SizeIs(::testing::Gt(2)));
  EXPECT_THAT(told_[0],
              HasSubstr("connect to 127.0.0.1 port 9: refused; attempt 4, giving up in "));
  EXPECT_THAT(told_[0], EndsWith("giving up in 15 s"));
  EXPECT_THAT(told_[1], HasSubstr("attempt 5"));
}

TEST_F(S3ObjectStoreTest, ACallThatIsAnsweredSaysNothing) {
  ASSERT_TRUE(store_->Head("a").ok());
  http_.status = 404;
  EXPECT_EQ(store_->Head("a").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(told_.empty());
}

}  // namespace
}  // namespace cairn::env

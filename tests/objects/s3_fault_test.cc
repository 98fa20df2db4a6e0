// SPDX-License-Identifier: Apache-2.0
//
// What S3 answers, and what it does not: every request of every call fails in every way, in front
// of a real server. A call either did its work or says that it did not, and never both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "env/s3/s3_object_store.h"
#include "env/store_probe.h"
#include "s3_server.h"

namespace cairn::env {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

enum class Fault {
  kLostBefore,  ///< the request does not arrive
  kLostAfter,   ///< it is carried out, its answer does not arrive
  kStatus,      ///< answered with `status`, not carried out
  kStatusAfter  ///< carried out and answered with `status`
};

/// Sends through curl, but for one request or all from one on.
class FaultyHttp final : public HttpClient {
 public:
  Result<HttpResponse> Send(const HttpRequest& request) override {
    const uint64_t call = calls++;
    requests.push_back(request.method + " " + request.url);
    HttpRequest sent = request;
    if (ignores_conditions) {
      std::erase_if(sent.headers,
                    [](const auto& header) { return header.first.starts_with("If-"); });
    }
    if (call != at && !(for_ever && call > at)) return real_->Send(sent);
    if (fault == Fault::kLostAfter || fault == Fault::kStatusAfter) (void)real_->Send(sent);
    if (fault == Fault::kLostBefore || fault == Fault::kLostAfter) {
      return Status::Unavailable("the test lost it");
    }
    HttpResponse response;
    response.status = status;
    response.body = body;
    return response;
  }

  Fault fault = Fault::kLostBefore;
  int status = 0;
  std::string body;
  uint64_t at = UINT64_MAX;
  bool for_ever = false;
  bool ignores_conditions = false;
  uint64_t calls = 0;
  std::vector<std::string> requests;

 private:
  std::unique_ptr<HttpClient> real_ = CurlHttpClient();
};

/// Time that passes only while a call pauses between its tries.
class PausedClock final : public Clock {
 public:
  int64_t UnixMillis() const override { return SystemClock()->UnixMillis(); }
  int64_t MonotonicNanos() const override { return now_ms_ * 1'000'000; }
  void SleepMillis(int64_t ms) override {
    now_ms_ += ms;
    ++pauses;
  }
  int pauses = 0;

 private:
  int64_t now_ms_ = 0;
};

class S3Faults : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (cairn::testing::S3Server::Unavailable()) return;
    Result<std::unique_ptr<cairn::testing::S3Server>> server = cairn::testing::S3Server::Start();
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = *std::move(server);
  }
  static void TearDownTestSuite() { server_.reset(); }

  void SetUp() override {
    if (cairn::testing::S3Server::Unavailable()) GTEST_SKIP() << "no S3 server on this machine";
    ASSERT_NE(server_, nullptr);
    Open();
  }

  void Open() {
    S3StoreOptions options;
    options.location = {cairn::testing::S3Server::kBucket,
                        "f" + std::to_string(++places_),
                        server_->endpoint(),
                        "us-east-1",
                        true,
                        false};
    options.credentials = [this]() -> Result<S3Credentials> {
      ++credentials_asked_;
      return S3Credentials{cairn::testing::S3Server::kAccessKey,
                           cairn::testing::S3Server::kSecretKey, "", "the test"};
    };
    options.part_bytes = 5 << 20;
    options.max_concurrent_uploads = 1;  // so that requests come in one order
    options.http = &http_;
    options.clock = &clock_;
    Result<std::unique_ptr<S3ObjectStore>> store = S3ObjectStore::Open(options);
    ASSERT_TRUE(store.ok());
    store_ = *std::move(store);
    http_.at = UINT64_MAX;
    http_.for_ever = false;
    http_.calls = 0;
    http_.requests.clear();
  }

  std::string Get(const std::string& key) {
    http_.at = UINT64_MAX;
    Result<VersionedBytes> found = store_->Get(key, 100 << 20);
    return found.ok() ? found->bytes : std::string(StatusCodeName(found.status().code()));
  }

  /// Run `work` on a fresh place with each fault at each of its requests.
  template <class Work>
  void AtEveryRequest(Work work) {
    const std::pair<Fault, int> faults[] = {{Fault::kLostBefore, 0},   {Fault::kLostAfter, 0},
                                            {Fault::kStatus, 409},     {Fault::kStatus, 500},
                                            {Fault::kStatus, 503},     {Fault::kStatusAfter, 500},
                                            {Fault::kStatusAfter, 409}};
    for (const auto& [fault, status] : faults) {
      for (uint64_t n = 0;; ++n) {
        ASSERT_LT(n, 50u);
        SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)) + " status " +
                     std::to_string(status) + " at request " + std::to_string(n));
        Open();
        work([&] {
          http_.calls = 0;
          http_.at = n;
          http_.fault = fault;
          http_.status = status;
        });
        if (::testing::Test::HasFailure() || http_.calls <= n) break;
      }
    }
  }

  static std::unique_ptr<cairn::testing::S3Server> server_;
  static int places_;
  FaultyHttp http_;
  PausedClock clock_;
  int credentials_asked_ = 0;
  std::unique_ptr<S3ObjectStore> store_;
};

std::unique_ptr<cairn::testing::S3Server> S3Faults::server_;
int S3Faults::places_ = 0;

TEST_F(S3Faults, ACreateSucceedsThroughAnySingleFault) {
  AtEveryRequest([&](auto arm) {
    arm();
    const Status created = store_->CreateIfAbsent("k", "mine");
    const uint64_t calls = http_.calls;
    EXPECT_TRUE(created.ok()) << created.ToString();
    EXPECT_EQ(Get("k"), "mine");
    http_.calls = calls;
  });
}

TEST_F(S3Faults, ACreateThatLosesSaysSoThroughAnySingleFault) {
  AtEveryRequest([&](auto arm) {
    ASSERT_TRUE(store_->CreateIfAbsent("k", "theirs").ok());
    arm();
    const Status created = store_->CreateIfAbsent("k", "mine");
    const uint64_t calls = http_.calls;
    EXPECT_EQ(created.code(), StatusCode::kAlreadyExists) << created.ToString();
    EXPECT_EQ(Get("k"), "theirs");
    http_.calls = calls;
  });
}

TEST_F(S3Faults, ASwapSucceedsThroughAnySingleFaultAndReturnsTheVersion) {
  AtEveryRequest([&](auto arm) {
    Result<std::string> first = store_->CompareAndSwap("head", std::nullopt, "1");
    ASSERT_TRUE(first.ok());
    arm();
    Result<std::string> second = store_->CompareAndSwap("head", *first, "2");
    const uint64_t calls = http_.calls;
    ASSERT_TRUE(second.ok()) << second.status().ToString();
    EXPECT_EQ(Get("head"), "2");
    EXPECT_TRUE(store_->CompareAndSwap("head", *second, "3").ok());
    http_.calls = calls;
  });
}

TEST_F(S3Faults, AStaleSwapIsRefusedThroughAnySingleFault) {
  AtEveryRequest([&](auto arm) {
    Result<std::string> first = store_->CompareAndSwap("head", std::nullopt, "1");
    ASSERT_TRUE(store_->CompareAndSwap("head", *first, "theirs").ok());
    arm();
    const Status swapped = store_->CompareAndSwap("head", *first, "mine").status();
    const uint64_t calls = http_.calls;
    EXPECT_EQ(swapped.code(), StatusCode::kFenced) << swapped.ToString();
    EXPECT_EQ(Get("head"), "theirs");
    http_.calls = calls;
  });
}

TEST_F(S3Faults, AnObjectOfManyPartsIsWholeThroughAnySingleFault) {
  const std::string bytes(2 * (5 << 20) + 7, 'z');
  AtEveryRequest([&](auto arm) {
    arm();
    Result<std::unique_ptr<ObjectWriter>> writer = store_->NewWriter("data");
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Append(bytes).ok());
    const Status finished = (*writer)->Finish();
    const uint64_t calls = http_.calls;
    EXPECT_TRUE(finished.ok()) << finished.ToString();
    EXPECT_TRUE(Get("data") == bytes);
    http_.calls = calls;
  });
}

TEST_F(S3Faults, WhatCannotBeLearntIsUnavailableNotAnAnswer) {
  ASSERT_TRUE(store_->CreateIfAbsent("k", "theirs").ok());
  for (const Fault fault : {Fault::kLostBefore, Fault::kLostAfter}) {
    http_.calls = 0;
    http_.at = 0;
    http_.for_ever = true;
    http_.fault = fault;
    EXPECT_EQ(store_->CreateIfAbsent("k", "mine").code(), StatusCode::kUnavailable);
    EXPECT_EQ(store_->CompareAndSwap("k", "v", "mine").status().code(), StatusCode::kUnavailable);
    EXPECT_EQ(store_->Get("k", 10).status().code(), StatusCode::kUnavailable);
    EXPECT_EQ(store_->List("").status().code(), StatusCode::kUnavailable);
    EXPECT_EQ(store_->Delete("x").code(), StatusCode::kUnavailable);
    http_.for_ever = false;
  }
  EXPECT_EQ(Get("k"), "theirs");
  EXPECT_GT(clock_.pauses, 10);
}

TEST_F(S3Faults, AccessDeniedIsNotTriedAgainAndNamesNoSecret) {
  http_.at = 0;
  http_.for_ever = true;
  http_.fault = Fault::kStatus;
  http_.status = 403;
  http_.body = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
  const Status created = store_->CreateIfAbsent("k", "mine");
  EXPECT_EQ(created.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(created.ToString(), HasSubstr("AccessDenied"));
  EXPECT_THAT(created.ToString(), HasSubstr("check the credentials"));
  EXPECT_THAT(created.ToString(), Not(HasSubstr(cairn::testing::S3Server::kSecretKey)));
  EXPECT_EQ(http_.calls, 1u);
}

TEST_F(S3Faults, ExpiredCredentialsAreReadAgainOnce) {
  ASSERT_EQ(credentials_asked_, 1);
  http_.at = 0;
  http_.fault = Fault::kStatus;
  http_.status = 400;
  http_.body = "<Error><Code>ExpiredToken</Code></Error>";
  EXPECT_TRUE(store_->CreateIfAbsent("k", "mine").ok());
  EXPECT_EQ(credentials_asked_, 2);
  http_.calls = 0;
  EXPECT_TRUE(store_->List("").ok());
  EXPECT_EQ(credentials_asked_, 3);
  http_.calls = 0;
  http_.for_ever = true;
  EXPECT_FALSE(store_->List("").ok());
  EXPECT_EQ(credentials_asked_, 4);
}

TEST_F(S3Faults, AShortAnswerIsDamageNeverShortBytes) {
  ASSERT_TRUE(store_->CreateIfAbsent("k", "0123456789").ok());
  http_.calls = 0;
  http_.at = 0;
  http_.fault = Fault::kStatus;
  http_.status = 206;
  http_.body = "012";
  std::string out(10, '\0');
  EXPECT_EQ(store_->ReadRange("k", 0, out).code(), StatusCode::kCorruption);
  http_.calls = 0;
  http_.status = 200;
  http_.body = "0123456789";
  EXPECT_EQ(store_->ReadRange("k", 0, out).code(), StatusCode::kUnavailable);
}

TEST_F(S3Faults, AStoreThatIgnoresConditionsIsRefused) {
  http_.ignores_conditions = true;
  const std::vector<ProbeFinding> findings = ProbeStore(store_.get(), SystemRandom(), 2);
  EXPECT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings.back().promise, "a create does not replace an object");
  const Status verdict = VerdictOf(findings);
  EXPECT_EQ(verdict.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(verdict.ToString(), HasSubstr("a store with conditional writes"));
}

TEST_F(S3Faults, AWrongBucketOrKeySaysWhatToCorrect) {
  S3StoreOptions options;
  options.location = {"nosuchbucket", "", server_->endpoint(), "us-east-1", true, false};
  options.credentials = [] {
    return S3Credentials{cairn::testing::S3Server::kAccessKey, cairn::testing::S3Server::kSecretKey,
                         "", "the test"};
  };
  Result<std::unique_ptr<S3ObjectStore>> store = S3ObjectStore::Open(options);
  ASSERT_TRUE(store.ok());
  const Status status = (*store)->CreateIfAbsent("k", "1");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
  EXPECT_THAT(status.ToString(), HasSubstr("create the bucket"));

  options.location.bucket = cairn::testing::S3Server::kBucket;
  options.credentials = [] { return S3Credentials{"tester", "wrong", "", "the test"}; };
  store = S3ObjectStore::Open(options);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ((*store)->Get("k", 10).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn::env

// SPDX-License-Identifier: Apache-2.0
//
// Objects in a bucket of an S3-compatible server, with the two conditional writes that a commit
// protocol needs: If-None-Match: * creates, If-Match replaces.
//
// Invariants
//  1. A named record is never written without a condition, on any path; only hints are.
//  2. An answer that is lost (timeout, cut connection, 409, 5xx) leaves the outcome open. It is
//     then read back and compared; it is never taken for a failure or for a success.
//  3. Everything is tried again with growing, jittered pauses until the call's deadline, but for
//     answers that will not change (access denied, no such bucket, a condition that fails).
//  4. A secret is in no message.
//
// Permissions, on the prefix only: s3:GetObject, s3:PutObject, s3:DeleteObject,
// s3:AbortMultipartUpload; s3:ListBucket on the bucket (without it a missing object is answered
// with "access denied"), and, to find unfinished uploads, s3:ListBucketMultipartUploads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <string_view>
#include <vector>

#include "env/clock.h"
#include "env/http_client.h"
#include "env/object_store.h"
#include "env/s3/settings.h"

namespace cairn::env {

struct S3StoreOptions {
  S3Location location;
  /// Asked at open and again when the server calls the credentials expired. Unused if anonymous.
  std::function<Result<S3Credentials>()> credentials;
  /// Requests that carry parts of large objects, at most so many at once.
  uint32_t max_concurrent_uploads = 8;
  /// Size of a part; an object up to it is one request. S3's least is 5 MiB.
  uint64_t part_bytes = 8 << 20;
  /// One request, of up to part_bytes.
  int64_t request_timeout_ms = 30'000;
  /// One call, with all its tries.
  int64_t deadline_ms = 120'000;
  int64_t first_pause_ms = 100;
  int64_t longest_pause_ms = 10'000;
  /// Told before a call is tried again: what went wrong, which try comes and how long tries go on.
  /// From any thread that makes a call.
  std::function<void(const std::string&)> on_retry;
  HttpClient* http = nullptr;  ///< outlives the store; null = a client of its own
  Clock* clock = nullptr;      ///< null = SystemClock()
  Random* random = nullptr;    ///< null = SystemRandom()
};

class S3ObjectStore final : public ObjectStore {
 public:
  /// Ready the store. Sends nothing.
  ///
  /// Errors:   what `credentials` returned.
  static Result<std::unique_ptr<S3ObjectStore>> Open(S3StoreOptions options);
  ~S3ObjectStore() override;

  bool is_remote() const override { return true; }
  StoreUse use() const override { return use_.Read(); }
  Status CreateIfAbsent(const std::string& key, std::string_view bytes) override;
  Result<std::string> CompareAndSwap(const std::string& key,
                                     const std::optional<std::string>& expected,
                                     std::string_view bytes) override;
  Status PutHint(const std::string& key, std::string_view bytes) override;
  /// Parts are uploaded while Append goes on; Append waits when max_concurrent_uploads are under
  /// way. Finish creates the object if no other has.
  Result<std::unique_ptr<ObjectWriter>> NewWriter(const std::string& key) override {
    return NewLargeWriter(key, 0);
  }
  Result<std::unique_ptr<ObjectWriter>> NewLargeWriter(const std::string& key,
                                                       uint64_t bytes) override;
  Result<VersionedBytes> Get(const std::string& key, uint64_t max_bytes) override;
  Status ReadRange(const std::string& key, uint64_t offset, std::span<char> out) override;
  Result<ObjectInfo> Head(const std::string& key) override;
  Result<std::vector<ObjectInfo>> List(const std::string& prefix) override;
  Status Delete(const std::string& key) override;
  Result<uint64_t> EndUnfinished(const std::string& prefix,
                                 const AbandonedObjects& is_abandoned) override;

 private:
  friend class S3ObjectWriter;
  class Tries;
  struct Call;

  explicit S3ObjectStore(S3StoreOptions options);

  std::string Name(const std::string& key) const;
  std::string UrlOf(const std::string& object, const std::string& query) const;
  Result<HttpResponse> SendSigned(const Call& call);
  /// Send, and once more with new credentials when the server calls the old ones expired.
  Result<HttpResponse> SendOnce(const Call& call);
  Result<HttpResponse> SendUntilAnswered(const Call& call);
  Status ErrorOf(const Call& call, const HttpResponse& response) const;
  /// What is said when the deadline has come: nobody knows more than the last answer.
  Status GivenUp(const Call& call, const Result<HttpResponse>& last) const;
  Status RenewCredentials();
  /// As Get, with the answer's headers.
  Result<VersionedBytes> GetRecord(const std::string& key, uint64_t max_bytes,
                                   HttpResponse* answer);
  Result<std::string> PutIf(const std::string& key, const std::optional<std::string>& expected,
                            std::string_view bytes, bool equal_is_success);
  Result<std::string> StartMultipart(const std::string& key, const std::string& token);
  Result<std::string> UploadPart(const std::string& key, const std::string& upload, uint32_t part,
                                 std::string_view bytes);
  Status CompleteMultipart(const std::string& key, const std::string& upload,
                           const std::vector<std::string>& etags, const std::string& token);
  Status AbortMultipart(const std::string& key, const std::string& upload);
  std::string FullKey(const std::string& key) const;

  S3StoreOptions options_;
  std::unique_ptr<HttpClient> own_http_;
  std::counting_semaphore<1024> upload_slots_;
  StoreUseCounter use_;

  std::mutex mutex_;  // guards credentials_
  S3Credentials credentials_;
};

}  // namespace cairn::env

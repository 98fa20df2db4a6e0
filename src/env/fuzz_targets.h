// SPDX-License-Identifier: Apache-2.0
//
// Fuzz targets of this module: what an S3 server or the machine's credential services may answer,
// and what a settings file or a place's URI may hold.
#pragma once

#include <string>
#include <string_view>

#include "base/check.h"
#include "env/http_client.h"
#include "env/manual_clock.h"
#include "env/memory_file_system.h"
#include "env/s3/s3_object_store.h"
#include "env/s3/service_credentials.h"
#include "env/s3/settings.h"

namespace cairn::env {

/// Answers everything with the same bytes, a few times; then with "not found".
class AnswersWith final : public HttpClient {
 public:
  explicit AnswersWith(std::string_view bytes) : bytes_(bytes) {}
  Result<HttpResponse> Send(const HttpRequest&) override {
    if (++answers_ > 4) return HttpResponse{404, {}, ""};
    const std::string first(bytes_.substr(0, 64));
    return HttpResponse{
        answers_ % 2 == 0 ? 200 : 206,
        {{"etag", first}, {"content-length", first}, {"date", first}, {"last-modified", first}},
        std::string(bytes_)};
  }

 private:
  std::string_view bytes_;
  int answers_ = 0;
};

inline void FuzzS3Answers(std::string_view bytes) {
  ManualClock clock;
  SeededRandom random(1);
  for (int call = 0; call < 7; ++call) {
    AnswersWith http(bytes);
    S3StoreOptions options;
    options.location = {"bucket", "prefix", "http://any", "us-east-1", true, true};
    options.http = &http;
    options.clock = &clock;
    options.random = &random;
    (void)http.Send({});  // the first answer is 206: the others begin with 200
    const auto store = *S3ObjectStore::Open(std::move(options));
    char part[16];
    switch (call) {
      case 0:
        (void)store->List("");
        break;
      case 1:
        (void)store->EndUnfinished("", [](const std::string&, int64_t age) { return age > 0; });
        break;
      case 2:
        (void)store->Get("key", 1 << 10);
        break;
      case 3:
        (void)store->Head("key");
        break;
      case 4:
        (void)store->ReadRange("key", 0, part);
        break;
      case 5:
        (void)store->CreateIfAbsent("key", "bytes");
        break;
      default:
        (void)store->CompareAndSwap("key", "version", "bytes");
    }
  }
  for (const char* variable :
       {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_EC2_METADATA_SERVICE_ENDPOINT"}) {
    AnswersWith http(bytes);
    (void)http.Send({});
    MemoryFileSystem files;
    const auto found = FindServiceCredentials(
        &files,
        [&](const std::string& name) -> std::optional<std::string> {
          return name == variable ? std::optional<std::string>("http://127.0.0.1") : std::nullopt;
        },
        &http);
    if (found.ok() && *found) CAIRN_CHECK(!(*found)->access_key.empty());
  }
}

inline void FuzzS3Settings(std::string_view bytes) {
  MemoryFileSystem files;
  auto file = files.CreateFile("/config");
  CAIRN_CHECK(file.ok() && (*file)->Append(bytes).ok() && (*file)->Close().ok());
  const EnvironmentLookup environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "AWS_CONFIG_FILE" || name == "AWS_SHARED_CREDENTIALS_FILE") return "/config";
    return std::nullopt;
  };
  const auto found = FindS3Credentials(&files, environment, nullptr);
  if (found.ok()) CAIRN_CHECK(!found->access_key.empty() && !found->secret_key.empty());
  (void)ResolveS3Uri("s3://bucket", &files, environment);
  const auto location = ResolveS3Uri("s3://" + std::string(bytes), &files, environment);
  if (location.ok()) CAIRN_CHECK(!location->bucket.empty());
}

struct EnvFuzzTarget {
  const char* name;  ///< of its folder in testdata/fuzz
  void (*run)(std::string_view bytes);
};
inline constexpr EnvFuzzTarget kEnvFuzzTargets[] = {{"s3_answers", FuzzS3Answers},
                                                    {"s3_settings", FuzzS3Settings}};

}  // namespace cairn::env

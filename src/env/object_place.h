// SPDX-License-Identifier: Apache-2.0
//
// Places of objects by name: a directory, or a bucket as s3://BUCKET/PREFIX?NAME=VALUE.
//
// Threads: free functions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cairn/status.h"
#include "env/file_system.h"
#include "env/object_store.h"

namespace cairn::env {

/// True when `place` names a bucket, false when it names a directory.
bool IsBucket(std::string_view place);

/// How long a call is tried again when somebody waits for its answer, and when a checkpoint does.
inline constexpr int64_t kImpatientMs = 15'000;
inline constexpr int64_t kPatientMs = 120'000;

/// Told what a call waits for when it has to be tried again; from any thread.
using RetryObserver = std::function<void(const std::string&)>;

struct BucketOptions {
  int64_t deadline_ms = kImpatientMs;  ///< of one call, with all its tries
  uint32_t max_concurrent_uploads = 8;
  RetryObserver on_retry;
};

/// Open the objects of a bucket with the credentials of the environment (env/s3/settings.h). Sends
/// nothing.
///
/// Errors:   kInvalidArgument (the URI, no credentials) · kUnavailable.
Result<std::unique_ptr<ObjectStore>> OpenBucket(FileSystem* files, const std::string& place,
                                                BucketOptions bucket = {});

/// Open the objects of `place` to read them: nothing is swept, synced or proven. Of a bucket,
/// impatiently.
///
/// Errors:   as OpenBucket.
Result<std::unique_ptr<ObjectStore>> OpenObjects(FileSystem* files, const std::string& place,
                                                 RetryObserver on_retry = {});

}  // namespace cairn::env

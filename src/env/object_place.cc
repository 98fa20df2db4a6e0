// SPDX-License-Identifier: Apache-2.0
#include "env/object_place.h"

#include <utility>

#include "env/local_object_store.h"
#include "env/s3/s3_object_store.h"

namespace cairn::env {

bool IsBucket(std::string_view place) { return place.starts_with("s3://"); }

Result<std::unique_ptr<ObjectStore>> OpenBucket(FileSystem* files, const std::string& place,
                                                BucketOptions bucket) {
  S3StoreOptions options;
  options.deadline_ms = bucket.deadline_ms;
  options.max_concurrent_uploads = bucket.max_concurrent_uploads;
  options.on_retry = std::move(bucket.on_retry);
  CAIRN_ASSIGN_OR_RETURN(options.location, ResolveS3Uri(place, files, ProcessEnvironment()));
  options.credentials = [files] {
    const std::unique_ptr<HttpClient> http = CurlHttpClient();
    return FindS3Credentials(files, ProcessEnvironment(), http.get());
  };
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<S3ObjectStore> store,
                         S3ObjectStore::Open(std::move(options)));
  return std::unique_ptr<ObjectStore>(std::move(store));
}

Result<std::unique_ptr<ObjectStore>> OpenObjects(FileSystem* files, const std::string& place,
                                                 RetryObserver on_retry) {
  if (IsBucket(place)) return OpenBucket(files, place, {.on_retry = std::move(on_retry)});
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<LocalObjectStore> store,
                         LocalObjectStore::Open(files, place, {.fsync = false, .sweep = false}));
  return std::unique_ptr<ObjectStore>(std::move(store));
}

}  // namespace cairn::env

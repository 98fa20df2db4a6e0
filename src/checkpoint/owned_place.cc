// SPDX-License-Identifier: Apache-2.0
//
// Own a place and open its store: LOCK in a directory, the lease in a bucket.
#include <string>
#include <utility>

#include "checkpoint/layout.h"
#include "checkpoint/lease.h"
#include "checkpoint/nested_place.h"
#include "checkpoint/store.h"
#include "env/local_object_store.h"
#include "env/object_place.h"
#include "env/store_probe.h"

namespace cairn::checkpoint {
namespace {

Result<OwnedObjects> OwnDirectory(env::FileSystem* files, const std::string& directory,
                                  bool fsync) {
  CAIRN_RETURN_IF_ERROR(RefuseNestedPlace(files, directory));
  CAIRN_RETURN_IF_ERROR(env::CreateDirectories(files, directory, fsync));
  OwnedObjects owned;
  CAIRN_ASSIGN_OR_RETURN(owned.lock, files->Lock(env::JoinPath(directory, kLockName)));
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<env::LocalObjectStore> objects,
                         env::LocalObjectStore::Open(files, directory,
                                                     {.fsync = fsync,
                                                      .sweep = true,
                                                      .sweep_directories = {"control", "deployment",
                                                                            "nodes", "view-log"}}));
  owned.objects = std::move(objects);
  return owned;
}

Result<OwnedObjects> OwnBucket(env::FileSystem* files, const std::string& place,
                               const StoreOptions& options) {
  env::BucketOptions bucket{.max_concurrent_uploads = options.max_concurrent_uploads,
                            .on_retry = options.on_retry};
  CAIRN_ASSIGN_OR_RETURN(const auto probed, env::OpenBucket(files, place, bucket));
  CAIRN_RETURN_IF_ERROR(env::VerdictOf(env::ProbeStore(probed.get(), env::SystemRandom())));
  bucket.deadline_ms = env::kPatientMs;
  OwnedObjects owned;
  CAIRN_ASSIGN_OR_RETURN(owned.objects, env::OpenBucket(files, place, bucket));
  CAIRN_ASSIGN_OR_RETURN(owned.lock, AcquireLease(owned.objects.get(), {.clock = options.clock}));
  return owned;
}

}  // namespace

Result<OwnedObjects> OwnPlace(env::FileSystem* files, const std::string& place,
                              const StoreOptions& options) {
  Result<OwnedObjects> owned = env::IsBucket(place) ? OwnBucket(files, place, options)
                                                    : OwnDirectory(files, place, options.fsync);
  if (!owned.ok()) return owned.status().WithContext("checkpoints at " + place);
  return owned;
}

Result<std::unique_ptr<CheckpointStore>> OpenStoreAt(env::FileSystem* files,
                                                     const std::string& place,
                                                     StoreOptions options) {
  if (env::IsBucket(place)) options.fsync = true;  // a bucket has no other way
  CAIRN_ASSIGN_OR_RETURN(OwnedObjects owned, OwnPlace(files, place, options));
  env::ObjectStore* objects = owned.objects.get();
  Result<std::unique_ptr<CheckpointStore>> store =
      OpenStore(std::move(owned.objects), std::move(owned.lock), std::move(options));
  const std::string context = "checkpoints at " + place;
  if (!store.ok()) return store.status().WithContext(context);
  // The directories that all checkpoints share are no checkpoint's cost.
  const Status prepared = objects->PrepareFor(std::string(kCheckpointsPrefix) + "any");
  if (!prepared.ok()) return prepared.WithContext(context);
  return store;
}

}  // namespace cairn::checkpoint

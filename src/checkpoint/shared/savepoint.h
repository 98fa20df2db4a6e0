// SPDX-License-Identifier: Apache-2.0
//
// A savepoint of a cut of several participants: a copy that needs nothing outside itself.
//
//   <name>/FORMAT, deployment/identity.json         those of the place
//   <name>/nodes/<n>/checkpoints/<id>/…             one object a participant, its manifest names no
//   other <name>/committed/<id>/<sha256>.json             the index over them <name>/COMPLETE names
//   the index; written last
//
// Without COMPLETE the folder is nothing and may be deleted. The folder can be moved: no name in it
// says where it lies.
//
// A job that starts from a savepoint borrows: it reads state and offsets (RestoreShare), calls
// Participant::AdoptForeignState in a place of its own, writes everything with its first cut, and
// never deletes here. A job that recovers from its own place owns what it finds.
//
// Threads: free functions.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/shared/cluster_cut.h"
#include "checkpoint/shared/decision.h"

namespace cairn::checkpoint::shared {

inline constexpr std::string_view kSavepointsPrefix = "savepoints/";

struct SavepointOptions {
  std::string name;   ///< of one folder: not empty, no '/'
  std::string owner;  ///< boot UUID of the process that copies
  uint64_t pin_ttl_ms = 60'000;
};

/// Copy a kept cut. It is pinned meanwhile, renewed before each participant, and unpinned after.
///
/// Durable:  when it returns OK.
/// Errors:   kInvalidArgument: the name · kAlreadyExists: another savepoint has it · kNotFound: the
///           cut is kept no more · kCorruption · kUnavailable: call again, it goes on.
Status WriteSavepoint(const Seams& seams, const SharedPlace& place, base::CheckpointId cut,
                      const SavepointOptions& options);

/// A savepoint open for reading, wherever its folder lies now.
struct Savepoint {
  std::shared_ptr<env::ObjectStore> objects;  ///< the folder, by the names above
  Seams seams;                                ///< over `objects`
  SharedPlace place;
  std::shared_ptr<const ClusterCut> cut;
};

/// Open the savepoint in folder `folder` ("savepoints/before/") of `seams.objects`.
///
/// Errors:   kNotFound: there is none, or it was not completed · kCorruption · kUnavailable.
Result<Savepoint> OpenSavepoint(const Seams& seams, const std::string& folder);

}  // namespace cairn::checkpoint::shared

// SPDX-License-Identifier: Apache-2.0
//
// ForeignCut: a cut of another place that a job begins with in its own. It is only read, and it
// stays locked, where it has a lock that this process may take, so that its job cannot go on beside
// the one that goes on from it.
//
// Threads: one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "cairn/status.h"
#include "checkpoint/cut.h"
#include "checkpoint/place.h"
#include "checkpoint/recovery.h"
#include "engine/prepared_job.h"
#include "engine/restore_plan.h"
#include "env/file_system.h"
#include "env/object_store.h"

namespace cairn::engine {

/// What --from says.
struct Origin {
  std::optional<base::CheckpointId> id;
  std::string place;  ///< empty = the job's own
};

/// Parse ID, PLACE or PLACE@ID; empty = nothing.
///
/// Errors:   as ParsePlaceUri.
Result<Origin> ParseOrigin(std::string_view from);

/// The cut that `origin` names among those of `place`: the newest, or the one with its id.
///
/// Errors:   kNotFound (lists those there are) · kInvalidArgument when a later one has published
///           rows of an exactly-once sink.
Result<format::CutReference> ChooseCut(const checkpoint::Place& place, const Origin& origin);

class ForeignCut {
 public:
  /// Open the cut for `job`, as `consent` allows.
  ///
  /// Errors:   kInvalidArgument: what of the cut would be lost or does not fit, each with what to
  ///           do · kFenced while its job runs · as ChooseCut and as reading a place.
  static Result<std::unique_ptr<ForeignCut>> Open(env::FileSystem* files, const Origin& origin,
                                                  const PreparedJob& job,
                                                  const RestoreConsent& consent);

  std::shared_ptr<const checkpoint::Cut> cut() const { return cut_; }
  const std::string& place() const { return place_; }
  const std::string& deployment_id() const { return deployment_id_; }
  /// The job that saved it.
  const checkpoint::Pipeline& saved() const { return saved_; }
  const RestorePlan& plan() const { return plan_; }

 private:
  ForeignCut() = default;
  Status TakeLock(env::FileSystem* files, const Origin& origin);
  Result<std::unique_ptr<env::FileLock>> LockOf(env::FileSystem* files, const std::string& place);

  std::unique_ptr<env::ObjectStore> objects_;
  std::unique_ptr<env::FileLock> lock_;  // of objects_, where they are in a bucket
  std::shared_ptr<const checkpoint::Cut> cut_;
  std::string place_;
  std::string deployment_id_;
  checkpoint::Pipeline saved_;
  RestorePlan plan_;  // empty: every part under its own name
};

}  // namespace cairn::engine

// SPDX-License-Identifier: Apache-2.0
//
// Retention of several participants: a cut is retired by a plan that is durable before anything is
// deleted, and can be gone on with by any later leader.
//
//   idle -> plan (delete_data)   the protected cuts were verified
//        -> the head drops the cut, its floor rises      unless it was pinned meanwhile
//        -> objects that no kept cut names are deleted
//        -> delete_metadata -> manifests, then the index are deleted -> idle
//
// What is deleted follows from the retired cut's manifests and those of all kept cuts. A listing
// only nominates orphans (Sweep), and only what is older than a grace period goes.
//
// Threads: free functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/shared/cluster_cut.h"
#include "checkpoint/shared/decision.h"

namespace cairn::checkpoint::shared {

/// Since when this process has seen a pin unrenewed: another's clock is never asked.
class PinWatch {
 public:
  /// True while the pin counts: it was renewed, or not watched for its time to live yet.
  bool IsLive(const format::SharedPin& pin, int64_t now_ns);

 private:
  struct Watched {
    uint64_t renew_seq = 0;
    std::string owner;
    int64_t since_ns = 0;
  };
  std::map<std::string, Watched> watched_;  // by kind and name
};

struct RetireOutcome {
  base::CheckpointId retired;  ///< 0 = nothing was to be retired
  uint64_t objects_deleted = 0;
};

struct RetireOptions {
  uint32_t retained = 3;
  uint64_t node = 0;  ///< for the observer
};

/// Retire one cut beyond `retained`, or go on with the plan that is there. Expired pins are
/// removed.
///
/// Errors:   kCorruption: a kept cut is damaged, so nothing is deleted · kFenced · kUnavailable:
///           the plan stays and is gone on with.
Result<RetireOutcome> RetireOneCut(const Seams& seams, const SharedPlace& place,
                                   const format::LeaderProof& leader, const RetireOptions& options,
                                   PinWatch* pins);

struct SweepOutcome {
  std::vector<std::string> deleted;
};

/// Delete what lies below nodes/ and committed/, is of no attempt that may still be decided, is
/// named by no kept cut, and is older than `grace_ms`.
///
/// Errors:   as RetireOneCut.
Result<SweepOutcome> SweepOrphans(const Seams& seams, const SharedPlace& place, int64_t grace_ms);

}  // namespace cairn::checkpoint::shared

// SPDX-License-Identifier: Apache-2.0
//
// Prove that a store keeps the promises that exactly-once stands on, with objects of our own under
// control/probe-…, or say which it breaks.
//
// Threads: free functions.
#pragma once

#include <string>
#include <vector>

#include "cairn/status.h"
#include "env/clock.h"
#include "env/object_store.h"

namespace cairn::env {

/// One promise and what was seen.
struct ProbeFinding {
  std::string promise;  ///< "a create does not replace an object"
  Status status;        ///< OK, or how it is broken
};

/// Try every promise, in an order in which a later one needs only those before it; stop at the
/// first that is broken. Removes what it wrote.
///
/// Blocks:   on about 20 requests, one after another; `writers` creators race for one key.
/// Errors:   in the findings: kCorruption = the store breaks a promise · what a call returned
///           (unreachable, access denied).
std::vector<ProbeFinding> ProbeStore(ObjectStore* store, Random* random, uint32_t writers = 4);

/// OK when all findings are, else the broken promise and what to do.
Status VerdictOf(const std::vector<ProbeFinding>& findings);

}  // namespace cairn::env

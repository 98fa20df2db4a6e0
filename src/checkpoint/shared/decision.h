// SPDX-License-Identifier: Apache-2.0
//
// The decision head and the allocator of several participants: read, and changed by
// compare-and-swap with what becomes of a lost answer.
//
// Threads: free functions.
#pragma once

#include <functional>
#include <string>

#include "checkpoint/shared/place.h"

namespace cairn::checkpoint::shared {

using SeenHead = Seen<format::SharedHead>;

/// Read the head, and check that it belongs to the place.
///
/// Shape:    no record = no leader has ever been; then nothing else may be there.
/// Errors:   kCorruption: damaged, of another deployment, or missing beside checkpoints ·
///           kUnavailable.
Result<SeenHead> ReadHead(const Seams& seams, const SharedPlace& place);

/// Change the head it is given. False = nothing has to change.
using HeadChange = std::function<Result<bool>(format::SharedHead*)>;

/// Read the head, let `change` alter it, swap it, and again when another process was faster.
///
/// Shape:    `leader` null = any process (pins). Else the head must name that leader.
/// Durable:  yes.
/// Errors:   what `change` returned · kFenced: another leader took over · kUnavailable: in doubt,
///           the change may yet turn out done. Calling again finds out, so `change` must recognise
///           what it has already done.
Result<format::SharedHead> ChangeHead(const Seams& seams, const SharedPlace& place,
                                      const format::LeaderProof* leader, const HeadChange& change);

/// Write `leader` into the head: from now on no other leader's change succeeds. Makes the head of a
/// fresh place.
///
/// Errors:   as ChangeHead · kFenced: a newer leader was here.
Result<format::SharedHead> ClaimHead(const Seams& seams, const SharedPlace& place,
                                     const format::LeaderProof& leader);

/// Take a checkpoint id that nobody has ever had. One whose taking stays in doubt is burnt.
///
/// Errors:   kUnavailable · kCorruption.
Result<base::CheckpointId> AllocateId(const Seams& seams);

/// Keep a cut from retention, or show that it is still wanted. A pin that is not renewed for its
/// time to live counts as gone, by the leader's own clock.
///
/// Errors:   kNotFound: the head does not name the cut (any more) · kAlreadyExists: another owner's
///           pin of that name · kResourceExhausted · kUnavailable.
Status PinCut(const Seams& seams, const SharedPlace& place, const format::SharedPin& pin);
/// Errors:   kUnavailable. A pin that is not there is success.
Status UnpinCut(const Seams& seams, const SharedPlace& place, std::string_view kind,
                std::string_view name);

}  // namespace cairn::checkpoint::shared

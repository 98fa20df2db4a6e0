// SPDX-License-Identifier: Apache-2.0
//
// A participant's manifest key, which goes through states and never back:
//
//   (absent) -> intents -> manifest      PutIntents, PutManifest: the participant
//   any of them -> abort seal            SealNode: a leader that aborts
//   seal -> seal, cleaned up             MarkCleanedUp
//
// Threads: free functions.
#pragma once

#include <string>

#include "checkpoint/shared/place.h"
#include "format/participant_records.h"

namespace cairn::checkpoint::shared {

using SeenNode = Seen<format::NodeRecord>;

/// Read what a node's manifest key holds for an attempt.
///
/// Errors:   kCorruption: also of another attempt than the key says · kUnavailable.
Result<SeenNode> ReadNode(env::ObjectStore* objects, uint64_t node, base::CheckpointId id);

/// Create the intents. There already is success.
///
/// Errors:   kCancelled: the attempt was aborted · kFenced: another process writes as this node ·
///           kUnavailable.
Status PutIntents(env::ObjectStore* objects, const format::SinkIntentRecord& record);

/// Create the manifest, or put it in the place of the attempt's intents. There already is success.
///
/// Errors:   as PutIntents.
Status PutManifest(env::ObjectStore* objects, const format::CheckpointManifest& manifest);

/// Put a seal over whatever is there; the seal keeps it. There already is success.
///
/// Shape:    `seal` names the attempt and the leader; returns the seal that is there now.
/// Errors:   kCorruption · kUnavailable.
Result<format::AbortSeal> SealNode(env::ObjectStore* objects, format::AbortSeal seal);

/// Note in a seal that the sinks are rolled back. Noted already is success.
Status MarkCleanedUp(env::ObjectStore* objects, const format::AbortSeal& seal);

}  // namespace cairn::checkpoint::shared

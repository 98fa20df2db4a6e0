// SPDX-License-Identifier: Apache-2.0
//
// What is done to sinks on behalf of participants: rolling back those of a sealed attempt, and
// publishing those of a committed cut again. Both are idempotent.
//
// Threads: free functions.
#pragma once

#include <functional>
#include <string_view>

#include "checkpoint/shared/cluster_cut.h"
#include "checkpoint/shared/two_phase_sink.h"

namespace cairn::checkpoint::shared {

/// Find the sink of a name; null = there is nobody who could act for it.
using SinkLookup = std::function<TwoPhaseSink*(std::string_view name)>;

/// Roll back every sink that a sealed participant may have begun: by descriptor where the seal
/// keeps a manifest, else by intent.
///
/// Errors:   kUnavailable: a sink has nobody to roll it back, or did not answer · what it returned.
Status RollBackSinks(const Seams& seams, const SharedPlace& place, const format::AbortSeal& seal,
                     uint64_t fencing_token, const SinkLookup& sinks);

/// Publish what a participant of a committed cut prepared. What is published already stays so.
///
/// Errors:   as RollBackSinks.
Status PublishSinks(const Seams& seams, const SharedPlace& place,
                    const format::CheckpointManifest& manifest, uint64_t fencing_token,
                    const SinkLookup& sinks);

}  // namespace cairn::checkpoint::shared

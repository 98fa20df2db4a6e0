// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shared/sink_cleanup.h"

#include <string>

namespace cairn::checkpoint::shared {
namespace {

Result<TwoPhaseSink*> FindSink(const SinkLookup& sinks, const std::string& name,
                               const SinkEpoch& epoch) {
  TwoPhaseSink* sink = sinks ? sinks(name) : nullptr;
  if (sink != nullptr) return sink;
  return Status::Unavailable("sink '" + name + "' of participant " +
                             std::to_string(epoch.participant_id) + " may hold rows of epoch " +
                             std::to_string(epoch.epoch.value) +
                             ", and there is nobody here to settle it");
}

}  // namespace

Status RollBackSinks(const Seams& seams, const SharedPlace& place, const format::AbortSeal& seal,
                     uint64_t fencing_token, const SinkLookup& sinks) {
  const SinkEpoch epoch{place.identity.deployment_id, seal.participant_id, seal.checkpoint_id,
                        fencing_token};
  std::vector<PreparedSink> prepared;
  if (seal.manifest) {
    CAIRN_ASSIGN_OR_RETURN(prepared, ReadPreparedSinks(seams.objects, place, *seal.manifest));
  } else if (seal.intents) {
    for (const format::SinkIntent& intent : seal.intents->intents) {
      prepared.push_back({intent.sink_name, intent.intent, std::nullopt});
    }
  }
  // All are rolled back, whatever becomes of the others; the first error counts.
  Status first;
  for (const PreparedSink& one : prepared) {
    Status done;
    if (Result<TwoPhaseSink*> sink = FindSink(sinks, one.name, epoch); sink.ok()) {
      done = (*sink)->Rollback(epoch, {one.intent, one.descriptor});
    } else {
      done = std::move(sink).status();
    }
    if (first.ok()) first = done;
  }
  return first;
}

Status PublishSinks(const Seams& seams, const SharedPlace& place,
                    const format::CheckpointManifest& manifest, uint64_t fencing_token,
                    const SinkLookup& sinks) {
  if (manifest.prepared_sinks.empty()) return {};
  const SinkEpoch epoch{place.identity.deployment_id, manifest.participant_id,
                        manifest.checkpoint_id, fencing_token};
  CAIRN_ASSIGN_OR_RETURN(const std::vector<PreparedSink> prepared,
                         ReadPreparedSinks(seams.objects, place, manifest));
  Status first;
  for (const PreparedSink& one : prepared) {
    Status done;
    if (Result<TwoPhaseSink*> sink = FindSink(sinks, one.name, epoch); sink.ok()) {
      done = (*sink)->Commit(epoch, one.descriptor);
    } else {
      done = std::move(sink).status();
    }
    if (first.ok()) first = done;
  }
  return first;
}

}  // namespace cairn::checkpoint::shared

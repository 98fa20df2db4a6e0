// SPDX-License-Identifier: Apache-2.0
#include "engine/restore_dry_run.h"

#include <vector>

#include "stream/source.h"

namespace cairn::engine {
namespace {

RestoreItem* ItemOf(std::string_view kind, const std::string& saved_as, RestorePlan* plan) {
  for (RestoreItem& item : plan->items) {
    if (item.kind == kind && item.saved_as == saved_as) return &item;
  }
  return nullptr;
}

void TrySource(const stream::StageSpec& stage, const checkpoint::SourceOffsets& offsets,
               RestoreItem* item) {
  std::vector<stream::SplitProgress> saved;
  for (const checkpoint::SplitOffset& split : offsets.splits) {
    saved.push_back({split.split, split.position, split.ended});
  }
  const Result<std::vector<stream::SplitProgress>> splits = stage.source->Discover(saved);
  if (splits.ok()) {
    item->says = stream::DescribeSplits(saved, *splits);
  } else if (item->refusal.empty()) {
    item->refusal = std::string(splits.status().message());
  }
}

}  // namespace

void TryRestore(const checkpoint::Cut& cut, const SavedSinks& saved_sinks, const PreparedJob& job,
                RestorePlan* plan) {
  for (const checkpoint::SourceOffsets& offsets : cut.sources()) {
    RestoreItem* item = ItemOf("source", offsets.source, plan);
    if (item == nullptr || item->fate == Fate::kDropped) continue;
    const auto given_up = plan->mapping.sources.find(offsets.source);
    if (given_up != plan->mapping.sources.end() && given_up->second.empty()) continue;
    for (const stream::StageSpec& stage : job.built.graph.stages) {
      if (stage.source == nullptr || stage.source_name != item->name) continue;
      TrySource(stage, offsets, item);
    }
  }
  for (const auto& [sink, objection] : saved_sinks.Objections(cut)) {
    RestoreItem* item = ItemOf("sink", sink, plan);
    if (item != nullptr && item->refusal.empty()) item->refusal = objection;
  }
}

}  // namespace cairn::engine

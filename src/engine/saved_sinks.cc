// SPDX-License-Identifier: Apache-2.0
#include "engine/saved_sinks.h"

#include <utility>

#include "connectors/factory.h"
#include "engine/graph_builder.h"

namespace cairn::engine {

Result<SavedSinks> SavedSinks::Make(const checkpoint::Pipeline& saved,
                                    const std::set<std::string>& given_up,
                                    const std::string& deployment, const std::string& successor,
                                    env::FileSystem* files) {
  SavedSinks sinks;
  for (const checkpoint::PipelineComponent& component : saved.components) {
    if (component.kind != "sink" || given_up.contains(component.name)) continue;
    Result<std::unique_ptr<stream::SavedSink>> sink =
        connectors::MakeSavedSink(component.definition, WriterNameOf(deployment, component.name),
                                  WriterNameOf(successor, component.name), files);
    if (!sink.ok()) return sink.status().WithContext("sink " + component.name);
    if (*sink != nullptr) sinks.sinks_.push_back({component.name, *std::move(sink)});
  }
  return sinks;
}

std::map<std::string, std::string> SavedSinks::Objections(base::CheckpointId id) const {
  std::map<std::string, std::string> objections;
  for (const Named& named : sinks_) {
    const Status status = named.sink->Check(id);
    if (!status.ok()) objections[named.name] = std::string(status.message());
  }
  return objections;
}

Status SavedSinks::Recover(const checkpoint::Cut& cut) const {
  for (const Named& named : sinks_) {
    std::vector<std::string> committed;
    for (const checkpoint::PreparedSink& prepared : cut.sinks()) {
      if (prepared.sink != named.name) continue;
      for (const auto& piece : prepared.pieces) committed.push_back(piece.descriptor);
    }
    const Status recovered = named.sink->Recover(cut.id(), committed);
    CAIRN_RETURN_IF_ERROR(recovered.WithContext("sink " + named.name));
  }
  return {};
}

Status SavedSinks::TakeOver() const {
  for (const Named& named : sinks_) {
    CAIRN_RETURN_IF_ERROR(named.sink->TakeOver().WithContext("sink " + named.name));
  }
  return {};
}

}  // namespace cairn::engine

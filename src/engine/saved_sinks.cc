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
    if (component.kind != "sink") continue;
    Result<std::unique_ptr<stream::SavedSink>> sink =
        connectors::MakeSavedSink(component.definition, WriterNameOf(deployment, component.name),
                                  WriterNameOf(successor, component.name), files);
    if (!sink.ok()) return sink.status().WithContext("sink " + component.name);
    if (*sink == nullptr) continue;
    sinks.sinks_.push_back({component.name, *std::move(sink), given_up.contains(component.name)});
  }
  return sinks;
}

std::vector<std::string> SavedSinks::Named::PreparedIn(const checkpoint::Cut& cut) const {
  std::vector<std::string> descriptors;
  if (given_up) return descriptors;
  for (const checkpoint::PreparedSink& prepared : cut.sinks()) {
    if (prepared.sink != name) continue;
    for (const auto& piece : prepared.pieces) descriptors.push_back(piece.descriptor);
  }
  return descriptors;
}

Status SavedSinks::Named::Explain(const Status& status) const {
  if (status.code() != StatusCode::kCorruption) return status;
  return Status::Corruption(std::string(status.message()) +
                            "; or go on without what it prepared: " + "--allow-non-restored " +
                            name);
}

std::map<std::string, std::string> SavedSinks::Objections(const checkpoint::Cut& cut) const {
  std::map<std::string, std::string> objections;
  for (const Named& named : sinks_) {
    const Status status = named.Explain(named.sink->Check(cut.id(), named.PreparedIn(cut)));
    if (!status.ok()) objections[named.name] = std::string(status.message());
  }
  return objections;
}

Status SavedSinks::Check(const checkpoint::Cut& cut) const {
  for (const Named& named : sinks_) {
    const Status status = named.sink->Check(cut.id(), named.PreparedIn(cut));
    CAIRN_RETURN_IF_ERROR(named.Explain(status).WithContext("sink " + named.name));
  }
  return {};
}

Status SavedSinks::Recover(const checkpoint::Cut& cut) const {
  for (const Named& named : sinks_) {
    const Status recovered = named.sink->Recover(cut.id(), named.PreparedIn(cut));
    CAIRN_RETURN_IF_ERROR(named.Explain(recovered).WithContext("sink " + named.name));
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

// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/saved_pipeline.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "checkpoint/layout.h"
#include "checkpoint/pipeline.h"
#include "env/object_place.h"

namespace cairn::checkpoint {
namespace {

constexpr uint64_t kDescriptionBytesMax = uint64_t{16} << 20;

}  // namespace

Result<Pipeline> PipelineOfManifest(env::ObjectStore* objects, const Place& place,
                                    const format::CheckpointManifest& manifest,
                                    const std::string& directory) {
  Result<env::VersionedBytes> found = objects->Get(std::string(kPipelineKey), kDescriptionBytesMax);
  if (found.status().code() == StatusCode::kUnavailable) return found.status();
  const env::VersionedBytes text = found.ok() ? *std::move(found) : env::VersionedBytes();
  Pipeline pipeline;
  pipeline.job = place.identity->pipeline_name;
  const auto json = nlohmann::json::parse(text.bytes, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) {
    for (const auto& [name, definition] : json.items()) {
      const size_t space = name.find(' ');
      if (space == std::string::npos) continue;
      PipelineComponent component;
      component.kind = name.substr(0, space);
      component.name = name.substr(space + 1);
      component.definition = definition.dump();
      // Not on record. True only makes going back behind this cut harder, never wrong.
      component.exactly_once = component.kind == "sink";
      pipeline.components.push_back(std::move(component));
    }
  }
  const auto identity = IdentityOf(pipeline, manifest.key_groups);
  if (identity.ok() && *identity == manifest.pipeline_identity) return pipeline;
  return Status::Corruption(fmt::format(
      "'{}' does not describe the pipeline of checkpoint {}, so a copy could not be resumed. Run "
      "the job on that place once more, which writes it anew",
      env::JoinPath(directory, kPipelineKey), manifest.checkpoint_id.value));
}

Result<Pipeline> PipelineOfCut(env::FileSystem* files, const CutReader& cut) {
  CAIRN_ASSIGN_OR_RETURN(const auto objects, env::OpenObjects(files, cut.directory()));
  return PipelineOfManifest(objects.get(), cut.place(), cut.manifest(), cut.directory());
}

}  // namespace cairn::checkpoint

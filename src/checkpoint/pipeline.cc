// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/pipeline.h"

#include <map>
#include <nlohmann/json.hpp>

namespace cairn::checkpoint {
namespace {

using Json = nlohmann::json;

// Kind and name, as a person reads them and as identity tells components apart.
std::string NameOf(const PipelineComponent& component) {
  return component.kind + " " + component.name;
}

std::map<std::string, Json> ByName(const Pipeline& pipeline) {
  std::map<std::string, Json> by_name;
  for (const PipelineComponent& component : pipeline.components) {
    by_name[NameOf(component)] = Json::parse(component.definition, nullptr, false);
  }
  return by_name;
}

}  // namespace

Result<format::PipelineIdentity> IdentityOf(const Pipeline& pipeline, uint32_t key_groups) {
  format::PipelineDescription description;
  description.key_groups = key_groups;
  for (const PipelineComponent& component : pipeline.components) {
    description.operators.push_back({NameOf(component), component.definition});
  }
  return format::IdentityOf(description);
}

Result<std::string> DescribePipeline(const Pipeline& pipeline) {
  Json text = Json::object();
  for (const auto& [name, definition] : ByName(pipeline)) {
    if (definition.is_discarded()) {
      return Status::InvalidArgument(name + ": its definition is not JSON");
    }
    text[name] = definition;
  }
  return text.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string DifferenceOf(std::string_view saved_description, const Pipeline& pipeline) {
  const Json saved = Json::parse(saved_description, nullptr, false);
  if (!saved.is_object()) return "";
  std::string difference;
  const auto say = [&](const std::string& name, std::string_view what) {
    difference += (difference.empty() ? "" : "; ") + name + " " + std::string(what);
  };
  const std::map<std::string, Json> now = ByName(pipeline);
  for (const auto& [name, definition] : saved.items()) {
    const auto found = now.find(name);
    if (found == now.end()) {
      say(name, "is gone");
    } else if (found->second != definition) {
      say(name, "changed");
    }
  }
  for (const auto& [name, definition] : now) {
    if (!saved.contains(name)) say(name, "is new");
  }
  return difference;
}

}  // namespace cairn::checkpoint

// SPDX-License-Identifier: Apache-2.0
#include "format/pipeline_identity.h"

#include <fmt/format.h>

#include <algorithm>

#include "format/json_fields.h"

namespace cairn::format {
namespace {

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

Json OptionsToJson(const std::map<std::string, std::string>& options) {
  Json json = Json::object();
  for (const auto& [name, value] : options) {
    const std::string lower = LowerCase(name);
    if (!IsCredentialOption(lower)) json[lower] = value;
  }
  return json;
}

Json SchemaToJson(const std::vector<base::ColumnSpec>& columns) {
  Json json = Json::array();
  for (const base::ColumnSpec& column : columns) {
    json.push_back({{"name", column.name}, {"nullable", column.nullable}, {"type", column.type}});
  }
  return json;
}

/// True when every number in `json` is an integer, so that it prints the same everywhere.
bool HoldsOnlyIntegers(const Json& json) {
  if (json.is_structured()) return std::all_of(json.begin(), json.end(), HoldsOnlyIntegers);
  return !json.is_number_float();
}

/// Sort by name and refuse two of one name.
template <class T>
Status SortByName(std::vector<T>* list, std::string T::* name, const char* what) {
  std::sort(list->begin(), list->end(),
            [name](const T& a, const T& b) { return a.*name < b.*name; });
  for (size_t i = 1; i < list->size(); ++i) {
    if ((*list)[i - 1].*name != (*list)[i].*name) continue;
    return Status::InvalidArgument(
        fmt::format("two {}s are called '{}': rename one", what, (*list)[i].*name));
  }
  return Status();
}

template <class Endpoint>
Json EndpointsToJson(const std::vector<Endpoint>& endpoints) {
  Json json = Json::array();
  for (const Endpoint& endpoint : endpoints) {
    json.push_back({{"connector", LowerCase(endpoint.connector)},
                    {"name", endpoint.name},
                    {"options", OptionsToJson(endpoint.options)},
                    {"schema", SchemaToJson(endpoint.schema)}});
  }
  return json;
}

Result<Json> OperatorsToJson(const std::vector<OperatorIdentity>& operators) {
  Json json = Json::array();
  for (const OperatorIdentity& op : operators) {
    Json identity = Json::parse(op.identity_json, nullptr, /*allow_exceptions=*/false);
    if (identity.is_discarded() || !HoldsOnlyIntegers(identity)) {
      return Status::InvalidArgument(
          fmt::format("operator '{}': its identity is not JSON of texts and integers", op.uid));
    }
    json.push_back({{"identity", std::move(identity)}, {"uid", op.uid}});
  }
  return json;
}

}  // namespace

bool IsCredentialOption(std::string_view name) {
  constexpr std::string_view kSecretParts[] = {
      "password",    "passwd",    "secret",     "token",      "api_key",
      "access_key",  "api.key",   "access.key", "credential", "private_key",
      "private.key", "sasl.jaas", "ssl.key"};
  return std::any_of(std::begin(kSecretParts), std::end(kSecretParts), [&](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
}

Result<std::string> CanonicalPipelineJson(const PipelineDescription& pipeline) {
  PipelineDescription sorted = pipeline;
  CAIRN_RETURN_IF_ERROR(SortByName(&sorted.sources, &SourceIdentity::name, "source"));
  CAIRN_RETURN_IF_ERROR(SortByName(&sorted.operators, &OperatorIdentity::uid, "operator"));
  CAIRN_RETURN_IF_ERROR(SortByName(&sorted.sinks, &SinkIdentity::name, "sink"));
  CAIRN_ASSIGN_OR_RETURN(Json operators, OperatorsToJson(sorted.operators));
  return DumpCanonical({{"canonical_version", kPipelineIdentityVersion},
                        {"key_groups", sorted.key_groups},
                        {"operators", std::move(operators)},
                        {"partitioning_abi", sorted.partitioning_abi},
                        {"sinks", EndpointsToJson(sorted.sinks)},
                        {"sources", EndpointsToJson(sorted.sources)},
                        {"state_abi", kStateAbiVersion}},
                       "pipeline");
}

Result<PipelineIdentity> IdentityOf(const PipelineDescription& pipeline) {
  CAIRN_ASSIGN_OR_RETURN(const std::string json, CanonicalPipelineJson(pipeline));
  return PipelineIdentity{kPipelineIdentityVersion, base::Sha256::Of(json)};
}

}  // namespace cairn::format

// SPDX-License-Identifier: Apache-2.0
#include "format/whole_manifest_v1.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "format/json_fields.h"

namespace cairn::format {
namespace {

constexpr std::string_view kManifestV1 = "manifest.json (version 1)";
/// What every manifest of Cairn's own has, and no other.
constexpr std::array<std::string_view, 4> kOwnFields = {"format", "attempt_id", "node_data",
                                                        "state_frames"};

/// Takes fields of one JSON object. What is absent, or null where that may be, keeps its default.
class TolerantReader {
 public:
  TolerantReader(const Json& object, std::string path, Status* status)
      : object_(object), path_(std::move(path)), status_(status) {
    if (!object.is_object()) Fail("is no object");
  }

  template <class T>
  void Required(const char* name, T* value) {
    if (!status_->ok()) return;
    const Json* json = Find(name);
    if (json == nullptr) return Fail(fmt::format("has no {}", name));
    Take(*json, name, value);
  }
  template <class T>
  void Read(const char* name, T* value) {
    if (!status_->ok()) return;
    if (const Json* json = Find(name)) Take(*json, name, value);
  }
  template <class T>
  void Read(const char* name, std::optional<T>* value) {
    if (!status_->ok()) return;
    const Json* json = Find(name);
    if (json != nullptr && !json->is_null()) Take(*json, name, &value->emplace());
  }
  /// Read each member of an object.
  template <class Value, class ReadValue>
  void ReadMap(const char* name, std::map<std::string, Value>* map, const ReadValue& read) {
    if (!status_->ok()) return;
    const Json* json = Find(name);
    if (json == nullptr) return;
    if (!json->is_object()) return Fail(fmt::format("{} is no object", name));
    for (const auto& [key, element] : json->items()) {
      read(element, fmt::format("{}.{}.{}", path_, name, key), &(*map)[key]);
    }
  }
  template <class Value>
  void ReadScalars(const char* name, std::map<std::string, Value>* map) {
    ReadMap(name, map, [&](const Json& element, const std::string&, Value* value) {
      if (status_->ok()) Take(element, name, value);
    });
  }
  const Json* Find(const char* name) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  void Fail(const std::string& what) {
    if (status_->ok()) *status_ = Status::Corruption(fmt::format("{} {}", path_, what));
  }

 private:
  void Take(const Json& json, const char* name, std::string* value) {
    if (!json.is_string()) return Fail(fmt::format("{} is no text", name));
    *value = json.get_ref<const std::string&>();
  }
  void Take(const Json& json, const char* name, bool* value) {
    if (!json.is_boolean()) return Fail(fmt::format("{} is neither true nor false", name));
    *value = json.get<bool>();
  }
  template <class Number>
    requires std::is_integral_v<Number>
  void Take(const Json& json, const char* name, Number* value) {
    if constexpr (std::is_signed_v<Number>) {
      if (json.is_number_integer() &&
          !(json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{INT64_MAX})) {
        *value = json.get<Number>();
        return;
      }
    } else if (json.is_number_unsigned() &&
               json.get<uint64_t>() <= std::numeric_limits<Number>::max()) {
      *value = json.get<Number>();
      return;
    }
    Fail(fmt::format("{} is no number that it may be", name));
  }
  void Take(const Json& json, const char* name, std::vector<std::string>* value) {
    if (!json.is_array()) return Fail(fmt::format("{} is no array", name));
    for (const Json& element : json) {
      value->emplace_back();
      Take(element, name, &value->back());
    }
  }

  const Json& object_;
  const std::string path_;
  Status* const status_;
};

SinkCommitStatus ReadSinkStatus(const Json& json, const std::string& path, Status* status) {
  if (json == "Pending") return {SinkCommitState::kPending, {}};
  if (json == "Committed") return {SinkCommitState::kCommitted, {}};
  SinkCommitStatus failed{SinkCommitState::kFailed, {}};
  const auto message = json.is_object() ? json.find("Failed") : json.end();
  if (json.is_object() && message != json.end() && message->is_string()) {
    failed.message = message->get_ref<const std::string&>();
  } else if (status->ok()) {
    *status = Status::Corruption(path + " is no status of a sink");
  }
  return failed;
}

void ReadConnectors(TolerantReader* in, const char* name, Status* status,
                    std::map<std::string, ConnectorOffsetsV1>* connectors) {
  in->ReadMap(name, connectors,
              [&](const Json& element, const std::string& path, ConnectorOffsetsV1* value) {
                TolerantReader connector(element, path, status);
                uint64_t epoch = 0;
                if (connector.Find("offsets") == nullptr) connector.Fail("has no offsets");
                connector.ReadScalars("offsets", &value->offsets);
                connector.Required("epoch", &epoch);
                connector.ReadScalars("metadata", &value->metadata);
                value->epoch = epoch;
              });
}

void ReadFields(const Json& json, WholeManifestV1* m, Status* status) {
  TolerantReader in(json, std::string(kManifestV1), status);
  in.Required("version", &m->version);
  in.Required("checkpoint_id", &m->checkpoint_id);
  in.Required("epoch", &m->epoch);
  in.Required("timestamp_ms", &m->timestamp_ms);
  ReadConnectors(&in, "source_offsets", status, &m->source_offsets);
  in.ReadScalars("sink_epochs", &m->sink_epochs);
  in.ReadMap("sink_commit_statuses", &m->sink_commit_statuses,
             [&](const Json& element, const std::string& path, SinkCommitStatus* value) {
               *value = ReadSinkStatus(element, path, status);
             });
  ReadConnectors(&in, "table_offsets", status, &m->table_offsets);
  in.ReadMap("operator_states", &m->operator_states,
             [&](const Json& element, const std::string& path, OperatorStateV1* value) {
               TolerantReader op(element, path, status);
               op.Read("state_b64", &value->state_b64);
               op.Read("external", &value->external);
               op.Read("external_offset", &value->external_offset);
               op.Read("external_length", &value->external_length);
             });
  in.Read("table_store_checkpoint_path", &m->table_store_checkpoint_path);
  in.Read("watermark", &m->watermark);
  in.ReadScalars("source_watermarks", &m->source_watermarks);
  in.Read("source_names", &m->source_names);
  in.Read("sink_names", &m->sink_names);
  in.Read("pipeline_hash", &m->pipeline_hash);
  in.Read("vnode_count", &m->vnode_count);
  in.Read("state_checksum", &m->state_checksum);
}

/// Refuse what means that the checkpoint is more than its manifest and sidecar hold.
Status CheckWhole(const Json& json, const WholeManifestV1& manifest) {
  const auto refuse = [](std::string_view what) {
    return Status::UnsupportedFormat(fmt::format("{} {}", kManifestV1, what));
  };
  if (manifest.version > 1) return refuse(fmt::format("has version {}", manifest.version));
  if (const auto delta = json.find("is_incremental"); delta != json.end() && *delta == true) {
    return refuse("holds changes to another checkpoint only");
  }
  if (const auto events = json.find("inflight_data"); events != json.end() && !events->empty()) {
    return refuse("holds events in flight, which would be lost");
  }
  return {};
}

constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::array<int8_t, 256> Base64Values() {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (size_t i = 0; i < kBase64Digits.size(); ++i) {
    values[static_cast<uint8_t>(kBase64Digits[i])] = static_cast<int8_t>(i);
  }
  return values;
}

}  // namespace

bool WholeManifestV1::NeedsSidecar() const {
  return std::any_of(operator_states.begin(), operator_states.end(),
                     [](const auto& state) { return state.second.external; });
}

bool IsWholeManifestV1(std::string_view bytes) {
  if (bytes.starts_with("{\"attempt_id\"")) return false;  // Cairn's own, told without parsing
  const Result<Json> json = ParseRecord(bytes, kWholeManifestV1BytesMax, kManifestV1);
  // Several fields, so that no damage to one of them makes another manifest of Cairn's own.
  return json.ok() && json->contains("version") && json->contains("checkpoint_id") &&
         std::none_of(kOwnFields.begin(), kOwnFields.end(),
                      [&](std::string_view field) { return json->contains(field); });
}

Result<WholeManifestV1> ParseWholeManifestV1(std::string_view bytes) {
  CAIRN_ASSIGN_OR_RETURN(const Json json,
                         ParseRecord(bytes, kWholeManifestV1BytesMax, kManifestV1));
  WholeManifestV1 manifest;
  Status status;
  ReadFields(json, &manifest, &status);
  if (!status.ok()) return status;
  CAIRN_RETURN_IF_ERROR(CheckWhole(json, manifest));
  return manifest;
}

std::vector<std::string> WarningsOf(const WholeManifestV1& m, uint16_t expected_vnodes) {
  std::vector<std::string> warnings;
  if (m.version == 0) warnings.emplace_back("its version is 0");
  if (m.timestamp_ms == 0) warnings.emplace_back("its timestamp is 0");
  for (const auto& [sink, epoch] : m.sink_epochs) {
    if (m.sink_commit_statuses.empty() || m.sink_commit_statuses.contains(sink)) continue;
    warnings.push_back(fmt::format("sink '{}' has an epoch but no status", sink));
  }
  for (const auto& [source, offsets] : m.source_offsets) {
    if (m.source_names.empty() ||
        std::find(m.source_names.begin(), m.source_names.end(), source) != m.source_names.end()) {
      continue;
    }
    warnings.push_back(fmt::format("it has offsets of '{}', which is none of its sources", source));
  }
  if (m.vnode_count == 0) {
    warnings.emplace_back("it does not say its number of key groups");
  } else if (m.vnode_count != expected_vnodes) {
    warnings.push_back(fmt::format("it is of {} key groups, this store expects {}", m.vnode_count,
                                   expected_vnodes));
  }
  return warnings;
}

Result<std::optional<std::string>> InlineStateOf(const WholeManifestV1& manifest,
                                                 const std::string& name) {
  const auto found = manifest.operator_states.find(name);
  if (found == manifest.operator_states.end() || found->second.external) {
    return std::optional<std::string>();
  }
  if (!found->second.state_b64) {
    return Status::Corruption(
        fmt::format("operator '{}' is in the manifest without a state", name));
  }
  std::optional<std::string> state = DecodeBase64(*found->second.state_b64);
  if (!state) {
    return Status::Corruption(
        fmt::format("the state of operator '{}' is damaged: it is no base64", name));
  }
  return state;
}

std::optional<std::string> InlineChecksumOf(const WholeManifestV1& manifest) {
  base::Sha256 hash;
  bool any = false;
  for (const auto& [name, state] : manifest.operator_states) {  // by name
    if (!state.state_b64) continue;
    any = true;
    const std::string_view end("\0", 1);
    hash.Update(name);
    hash.Update(end);
    hash.Update(*state.state_b64);
    hash.Update(end);
  }
  if (!any) return std::nullopt;
  return base::ToHex(hash.Finish());
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  static const std::array<int8_t, 256> kValues = Base64Values();
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_padding = i >= text.size() - padding;
    const int8_t value = is_padding ? int8_t{0} : kValues[static_cast<uint8_t>(text[i])];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if (i % 4 != 3) continue;
    for (int shift = 16; shift >= 0; shift -= 8) bytes += static_cast<char>(bits >> shift);
    bits = 0;
  }
  // What the padding covers has to be zero: else two texts would mean the same bytes.
  for (size_t i = 0; i < padding; ++i) {
    if (bytes.back() != '\0') return std::nullopt;
    bytes.pop_back();
  }
  return bytes;
}

}  // namespace cairn::format

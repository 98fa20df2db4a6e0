// SPDX-License-Identifier: Apache-2.0
#include "format/checkpoint_sidecars.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "format/json_fields.h"

namespace cairn::format {
namespace {

constexpr uint32_t kSidecarsVersion = 1;
constexpr char kStateRecord[] = "state.json";
constexpr char kSinkStatusRecord[] = "sink-status.json";
constexpr const char* kSinkStateNames[] = {"pending", "committed", "failed"};

}  // namespace

Result<std::string> SerializeStateSidecar(const StateSidecar& sidecar) {
  return DumpCanonical(
      {{"length", sidecar.length}, {"sha256", sidecar.sha256}, {"version", kSidecarsVersion}},
      kStateRecord);
}

Result<StateSidecar> ParseStateSidecar(std::string_view bytes) {
  StateSidecar sidecar;
  CAIRN_RETURN_IF_ERROR(ReadRecord(bytes, kSidecarRecordBytesMax, kStateRecord, kSidecarsVersion,
                                   "version", [&](FieldReader* in) {
                                     in->Read("length", &sidecar.length);
                                     in->Read("sha256", &sidecar.sha256);
                                   }));
  return sidecar;
}

Result<std::string> SerializeSinkStatuses(const SinkStatuses& statuses) {
  Json sinks = Json::object();
  for (const auto& [name, status] : statuses) {
    sinks[name] = {{"state", kSinkStateNames[static_cast<size_t>(status.state)]}};
    if (status.state == SinkCommitState::kFailed) sinks[name]["message"] = status.message;
  }
  return DumpCanonical({{"sinks", std::move(sinks)}, {"version", kSidecarsVersion}},
                       kSinkStatusRecord);
}

Result<SinkStatuses> ParseSinkStatuses(std::string_view bytes) {
  SinkStatuses statuses;
  CAIRN_RETURN_IF_ERROR(ReadRecord(
      bytes, kSidecarRecordBytesMax, kSinkStatusRecord, kSidecarsVersion, "version",
      [&](FieldReader* in) {
        in->ReadMembers("sinks", [&](const std::string& name, FieldReader* sink) {
          SinkCommitStatus& status = statuses[name];
          std::string state;
          sink->Read("state", &state);
          const auto* found =
              std::find(std::begin(kSinkStateNames), std::end(kSinkStateNames), state);
          if (found == std::end(kSinkStateNames)) {
            sink->Fail("state", "is not pending, committed or failed");
            return;
          }
          status.state = static_cast<SinkCommitState>(found - std::begin(kSinkStateNames));
          if (status.state == SinkCommitState::kFailed) sink->Read("message", &status.message);
        });
      }));
  return statuses;
}

}  // namespace cairn::format

// SPDX-License-Identifier: Apache-2.0
#include "cli/store_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/json_line.h"
#include "engine/backend_uri.h"
#include "env/local_object_store.h"
#include "env/object_place.h"
#include "env/store_probe.h"

namespace cairn::cli {
namespace {

/// Creators that race for one key, as a checkpoint's participants might.
constexpr uint32_t kRacingWriters = 8;

Result<std::unique_ptr<env::ObjectStore>> OpenToCheck(env::FileSystem* files,
                                                      const std::string& place) {
  if (env::IsBucket(place)) return env::OpenBucket(files, place);
  const Result<env::FileInfo> info = files->Stat(place);
  if (!info.ok() || !info->is_directory) {
    return Status::NotFound(fmt::format("there is no directory '{}'", place));
  }
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<env::LocalObjectStore> store,
                         env::LocalObjectStore::Open(files, place, {.sweep = false}));
  return std::unique_ptr<env::ObjectStore>(std::move(store));
}

void Print(const std::vector<env::ProbeFinding>& findings, bool json, Output* out) {
  for (const env::ProbeFinding& finding : findings) {
    const bool kept = finding.status.ok();
    if (json) {
      PrintJsonLine(nlohmann::ordered_json({{"promise", finding.promise},
                                            {"kept", kept},
                                            {"seen", std::string(finding.status.message())}}),
                    out);
    } else {
      out->Line(fmt::format("{:6}{}", kept ? "yes" : "NO", finding.promise));
    }
  }
}

}  // namespace

Result<ExitCode> CheckStore(env::FileSystem* files, const StoreCheckOptions& options, Output* out) {
  CAIRN_ASSIGN_OR_RETURN(const std::string place, engine::ParsePlaceUri(options.place));
  CAIRN_ASSIGN_OR_RETURN(const auto store, OpenToCheck(files, place));
  const std::vector<env::ProbeFinding> findings =
      env::ProbeStore(store.get(), env::SystemRandom(), kRacingWriters);
  // Where not even the first object can be created, nothing is said of the store.
  const Status& last = findings.back().status;
  if (!last.ok() && last.code() != StatusCode::kCorruption && findings.size() <= 2) {
    if (env::IsBucket(place)) return last;
    return Status::InvalidArgument(
        fmt::format("'{}' cannot be written: {}. Choose a directory that this user may write in",
                    place, last.message()));
  }
  Print(findings, options.json, out);
  const Status verdict = env::VerdictOf(findings);
  if (!verdict.ok() && last.code() != StatusCode::kCorruption) return verdict;
  if (!options.json) {
    out->Line(verdict.ok() ? fmt::format("'{}' can hold checkpoints", options.place)
                           : fmt::format("'{}': {}", options.place, verdict.message()));
  }
  return verdict.ok() ? ExitCode::kDone : ExitCode::kNegative;
}

}  // namespace cairn::cli

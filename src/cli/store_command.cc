// SPDX-License-Identifier: Apache-2.0
#include "cli/store_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/json_line.h"
#include "cli/staged_file.h"
#include "engine/backend_uri.h"
#include "env/local_object_store.h"
#include "env/object_place.h"
#include "env/store_probe.h"

namespace cairn::cli {
namespace {

/// Creators that race for one key, as a checkpoint's participants might.
constexpr uint32_t kRacingWriters = 8;

/// Directories that are there for a check only: `cairn run` makes its place, so one that is not
/// there yet is judged as it would be.
class BorrowedDirectories {
 public:
  explicit BorrowedDirectories(env::FileSystem* files) : files_(files) {}
  ~BorrowedDirectories() {
    // One that another has put something into meanwhile stays.
    for (auto made = made_.rbegin(); made != made_.rend(); ++made) {
      if (!files_->RemoveDirectory(*made).ok()) break;
    }
  }

  /// Make `path` and its missing parents.
  Status Make(const std::string& path) {
    const Result<env::FileInfo> there = files_->Stat(path);
    if (there.ok()) {
      return there->is_directory
                 ? Status()
                 : Status::InvalidArgument(fmt::format("'{}' is a file. Name a directory", path));
    }
    if (there.status().code() != StatusCode::kNotFound) return there.status();
    CAIRN_RETURN_IF_ERROR(Make(DirectoryOf(path)));
    const Status made = files_->CreateDirectory(path);
    if (made.ok()) made_.push_back(path);
    return made.code() == StatusCode::kAlreadyExists ? Status() : made;
  }
  bool any() const { return !made_.empty(); }

 private:
  env::FileSystem* files_;
  std::vector<std::string> made_;
};

Result<std::unique_ptr<env::ObjectStore>> OpenToCheck(env::FileSystem* files,
                                                      const std::string& place,
                                                      BorrowedDirectories* borrowed) {
  if (env::IsBucket(place)) return env::OpenBucket(files, place);
  const Status made = borrowed->Make(files->CanonicalPath(place));
  if (!made.ok()) {
    if (made.code() == StatusCode::kInvalidArgument) return made;
    return Status::InvalidArgument(
        fmt::format("'{}' is not there and cannot be made: {}. Choose a directory that this user "
                    "may write in",
                    place, made.message()));
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
  BorrowedDirectories borrowed(files);
  CAIRN_ASSIGN_OR_RETURN(const auto store, OpenToCheck(files, place, &borrowed));
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
    out->Line(verdict.ok() ? fmt::format("'{}' can hold checkpoints{}", options.place,
                                         borrowed.any() ? "; it is not there yet and is made by "
                                                          "what writes the first one"
                                                        : "")
                           : fmt::format("'{}': {}", options.place, verdict.message()));
  }
  return verdict.ok() ? ExitCode::kDone : ExitCode::kNegative;
}

}  // namespace cairn::cli

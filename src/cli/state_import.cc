// SPDX-License-Identifier: Apache-2.0
#include "cli/state_import.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/units.h"
#include "checkpoint/cut_builder.h"
#include "cli/import_input.h"
#include "cli/import_target.h"
#include "cli/state_source.h"
#include "engine/backend_uri.h"

namespace cairn::cli {
namespace {

Status CheckImport(const ImportOptions& options) {
  if (!options.like.empty() && !options.job.file.empty()) {
    return Status::InvalidArgument(
        "--like and --job exclude each other: either the cut is for the job of a place, or for one "
        "that never ran. `cairn state migrate` takes the state of a place to another job text");
  }
  if (options.files.empty() && options.like.empty() && options.job.file.empty()) {
    return Status::InvalidArgument("name a FILE or a place to import, or --like or --job");
  }
  if (options.key_groups > kMaxKeyGroups) {
    return Status::InvalidArgument(fmt::format("--key-groups {}: a job has 1 to {} key groups",
                                               options.key_groups, kMaxKeyGroups));
  }
  return {};
}

}  // namespace

Result<ExitCode> ImportState(env::FileSystem* files, const ImportOptions& options) {
  CAIRN_RETURN_IF_ERROR(CheckImport(options));
  checkpoint::CutBuilderOptions build;
  build.files = files;
  CAIRN_ASSIGN_OR_RETURN(build.place, engine::ParsePlaceUri(options.place));
  CAIRN_RETURN_IF_ERROR(checkpoint::RefuseUsedPlace(files, build.place));
  build.pipeline.job = "import";

  std::optional<JobDeclaration> declared;
  std::unique_ptr<StateSource> like;
  if (!options.like.empty()) {
    CAIRN_ASSIGN_OR_RETURN(like, OpenStateSource(files, options.like));
    if (like->cut() == nullptr) {
      return Status::InvalidArgument("--like must name a checkpoint place, not a snapshot file");
    }
    CAIRN_ASSIGN_OR_RETURN(declared, DeclarationOfCut(files, *like->cut()));
    CAIRN_RETURN_IF_ERROR(checkpoint::GoOnFrom(*like->cut(), &build));
  } else if (!options.job.file.empty()) {
    CAIRN_ASSIGN_OR_RETURN(declared, DeclarationOfJob(files, options.job));
  }
  if (declared) {
    build.pipeline = *declared->pipeline;
    build.key_groups = declared->key_groups;
  }
  if (options.key_groups != 0) build.key_groups = options.key_groups;
  ImportTarget target(std::move(build), options.key_groups != 0 || declared.has_value(),
                      declared ? &*declared : nullptr);
  SnapshotParts parts;
  for (const std::string& file : options.files) {
    CAIRN_RETURN_IF_ERROR(TakeInput(files, file, {options.op, options.slot},
                                    options.materialisation_store, &target, &parts)
                              .WithContext("'" + file + "'"));
  }
  CAIRN_RETURN_IF_ERROR(parts.CheckWhole());
  if (like != nullptr) CAIRN_RETURN_IF_ERROR(target.TakeSource(*like, true));
  CAIRN_ASSIGN_OR_RETURN(const checkpoint::BuiltCut cut, target.Commit());
  fmt::print(stderr, "cairn: imported {} rows of {} slots into {} as checkpoint {}\n",
             base::FormatCount(cut.rows), target.slots(), options.place, cut.id.value);
  return ExitCode::kDone;
}

}  // namespace cairn::cli

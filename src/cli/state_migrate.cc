// SPDX-License-Identifier: Apache-2.0
#include "cli/state_migrate.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "checkpoint/cut_builder.h"
#include "checkpoint/plan.h"
#include "checkpoint/slot_migration.h"
#include "cli/import_target.h"
#include "cli/json_line.h"
#include "cli/slot_json.h"
#include "cli/state_source.h"
#include "connectors/factory.h"
#include "engine/backend_uri.h"
#include "operators/operator_factory.h"

namespace cairn::cli {
namespace {

using Json = nlohmann::ordered_json;

/// What becomes of one slot.
struct SlotVerdict {
  SlotDescriptor slot;
  std::optional<uint32_t> saved_version;
  std::optional<uint32_t> declared_version;
  bool fits = true;
  std::string says;  ///< "as saved", "new: starts empty", or why not
};

std::string UidOf(const SlotDescriptor& slot) {
  return slot.operator_uid.empty() ? base::ToHex16(slot.operator_id) : slot.operator_uid;
}

/// A snapshot says less than a declaration: what it leaves out is not compared.
SlotDescriptor Completed(SlotDescriptor saved, const SlotDescriptor& declared) {
  if (saved.key_columns.empty()) {
    saved.key_codec = declared.key_codec;
    saved.key_columns = declared.key_columns;
  }
  if (saved.value_columns.empty()) saved.value_columns = declared.value_columns;
  return saved;
}

std::vector<SlotVerdict> Compare(const StateSource& source, const JobDeclaration& declared) {
  std::vector<SlotVerdict> verdicts;
  for (SlotDescriptor saved : source.slots()) {
    SlotVerdict verdict{saved, saved.version, std::nullopt, false, "is not declared"};
    const SlotDescriptor* wanted = declared.Find(saved.operator_id, saved.name);
    if (wanted != nullptr) {
      verdict.slot = *wanted;
      verdict.declared_version = wanted->version;
      if (source.cut() == nullptr) saved = Completed(std::move(saved), *wanted);
      const auto plan = checkpoint::SlotMigration::Plan(checkpoint::ToSlotRecord(saved),
                                                        checkpoint::ToSlotRecord(*wanted), nullptr);
      verdict.fits = plan.ok();
      verdict.says = plan.ok() ? plan->Describe() : std::string(plan.status().message());
    }
    verdicts.push_back(std::move(verdict));
  }
  for (const SlotDescriptor& wanted : declared.slots) {
    bool saved = false;
    for (const SlotDescriptor& slot : source.slots()) {
      saved |= slot.operator_id == wanted.operator_id && slot.name == wanted.name;
    }
    if (!saved) {
      verdicts.push_back({wanted, std::nullopt, wanted.version, true, "new: starts empty"});
    }
  }
  return verdicts;
}

/// A component of the saved job that is another one now, or gone, or new.
struct PipelineDifference {
  std::string kind;
  std::string name;
  std::string what;  ///< "changed" | "is gone" | "is new"
};

std::vector<PipelineDifference> DifferencesOf(const checkpoint::Pipeline& saved,
                                              const checkpoint::Pipeline& now) {
  using Id = std::pair<std::string, std::string>;
  std::map<Id, nlohmann::json> before, after;
  for (const auto& one : saved.components) {
    before[{one.kind, one.name}] = nlohmann::json::parse(one.definition, nullptr, false);
  }
  for (const auto& one : now.components) {
    after[{one.kind, one.name}] = nlohmann::json::parse(one.definition, nullptr, false);
  }
  std::vector<PipelineDifference> differences;
  for (const auto& [id, definition] : before) {
    const auto found = after.find(id);
    if (found == after.end()) {
      differences.push_back({id.first, id.second, "is gone"});
    } else if (found->second != definition) {
      differences.push_back({id.first, id.second, "changed"});
    }
  }
  for (const auto& [id, definition] : after) {
    if (!before.contains(id)) differences.push_back({id.first, id.second, "is new"});
  }
  return differences;
}

/// What the state must fit; nothing when neither was asked for.
Result<std::optional<JobDeclaration>> WantedOf(env::FileSystem* files, const JobText& job,
                                               const std::string& expected) {
  if (!job.file.empty() && !expected.empty()) {
    return Status::InvalidArgument("--job and --expected exclude each other");
  }
  if (!job.file.empty()) {
    CAIRN_ASSIGN_OR_RETURN(JobDeclaration declared, DeclarationOfJob(files, job));
    return std::optional<JobDeclaration>(std::move(declared));
  }
  if (expected.empty()) return std::optional<JobDeclaration>();
  CAIRN_ASSIGN_OR_RETURN(JobDeclaration declared, DeclarationOfList(files, expected));
  return std::optional<JobDeclaration>(std::move(declared));
}

void PrintStamps(const StateSource& source, const CheckOptions& options, Output* out) {
  if (options.quiet) return;
  TextTable table("<<<<>");
  table.Row({"OPERATOR", "SLOT", "KIND", "VALUE", "VERSION"});
  bool stamped = false;
  for (const SlotDescriptor& slot : source.slots()) {
    // A snapshot may not say; a place always does.
    bool known = source.cut() != nullptr;
    for (const format::StateVersion& version : source.state_versions()) {
      known |= version.operator_id == slot.operator_id.value &&
               (version.slot == slot.name || version.slot.empty());
    }
    stamped |= known;
    if (options.json) {
      Json line = SlotToJson(slot);
      line["stamped"] = known;
      PrintJsonLine(line, out);
    } else {
      table.Row({UidOf(slot), slot.name, std::string(IsKeyed(slot.kind) ? "keyed" : "operator"),
                 known ? slot.value_codec : "unknown", known ? std::to_string(slot.version) : "-"});
    }
  }
  if (options.json) return;
  table.Print(out);
  if (!stamped) out->Line("no stamps");
}

void PrintVerdict(const SlotVerdict& verdict, bool json, Output* out) {
  if (!json) {
    out->Line(fmt::format("{}  {} slot {}: {}", verdict.fits ? "fits   " : "REFUSED",
                          UidOf(verdict.slot), verdict.slot.name, verdict.says));
    return;
  }
  Json line{{"operator", base::ToHex16(verdict.slot.operator_id)},
            {"uid", verdict.slot.operator_uid},
            {"slot", verdict.slot.name},
            {"fits", verdict.fits},
            {"says", verdict.says}};
  if (verdict.saved_version) line["saved_version"] = *verdict.saved_version;
  if (verdict.declared_version) line["declared_version"] = *verdict.declared_version;
  PrintJsonLine(line, out);
}

void PrintDifference(const PipelineDifference& difference, bool json, Output* out) {
  if (!json) {
    out->Line(fmt::format("REFUSED  {} {} {}", difference.kind, difference.name, difference.what));
    return;
  }
  PrintJsonLine(Json{{"component", difference.kind + " " + difference.name},
                     {"fits", false},
                     {"says", difference.what}},
                out);
}

}  // namespace

Result<ExitCode> CheckState(env::FileSystem* files, const CheckOptions& options, Output* out) {
  CAIRN_ASSIGN_OR_RETURN(const auto source,
                         OpenStateSource(files, options.source, options.materialisation_store));
  CAIRN_ASSIGN_OR_RETURN(const auto declared, WantedOf(files, options.job, options.expected));
  if (!declared) {
    PrintStamps(*source, options, out);
    return ExitCode::kDone;
  }
  bool fits = true;
  for (const SlotVerdict& verdict : Compare(*source, *declared)) {
    fits &= verdict.fits;
    if (!options.quiet || !verdict.fits) PrintVerdict(verdict, options.json, out);
  }
  if (declared->pipeline && source->cut() != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(const JobDeclaration saved, DeclarationOfCut(files, *source->cut()));
    for (const auto& difference : DifferencesOf(*saved.pipeline, *declared->pipeline)) {
      fits = false;
      PrintDifference(difference, options.json, out);
    }
    if (declared->key_groups != source->key_groups()) {
      fits = false;
      PrintDifference({"job", "",
                       fmt::format("has {} key groups, the state {}", declared->key_groups,
                                   source->key_groups())},
                      options.json, out);
    }
  }
  return fits ? ExitCode::kDone : ExitCode::kNegative;
}

namespace {

/// Decide what of the saved job may be taken over by the declared one.
class Takeover {
 public:
  Takeover(const MigrateOptions& options, checkpoint::CutBuilderOptions* build)
      : options_(options), build_(build) {}

  /// Errors:   kInvalidArgument, listing everything that needs the user's word.
  Status Run(const JobDeclaration& saved, const JobDeclaration& declared,
             const checkpoint::CutReader& cut) {
    std::set<std::string> lost_sources, lost_sinks, changed_sinks;
    for (const PipelineDifference& one : DifferencesOf(*saved.pipeline, *declared.pipeline)) {
      const bool gone = one.what == "is gone";
      if (one.what == "changed" && one.kind == "sink") {
        changed_sinks.insert(one.name);
      } else if (const Status serves = SavedServes(saved, declared, one); !serves.ok()) {
        Object({one.kind, one.name, "changed: " + std::string(serves.message())},
               one.kind == "source" ? "put it back as it was"
                                    : "`cairn run --from` can begin it empty");
      } else if (one.what == "changed" && !options_.accept_changes) {
        Object(one, "--accept-changes keeps its state and offsets as they are");
      } else if (gone && one.kind != "operator") {
        (one.kind == "source" ? lost_sources : lost_sinks).insert(one.name);
        if (!options_.drop) Object(one, "--drop leaves out its progress");
      }
    }
    CAIRN_RETURN_IF_ERROR(checkpoint::GoOnFrom(cut, build_));
    std::erase_if(build_->sources, [&](const checkpoint::SourceOffsets& source) {
      return lost_sources.contains(source.source);
    });
    std::erase_if(build_->sinks, [&](const checkpoint::PreparedSink& sink) {
      const bool changed = changed_sinks.contains(sink.sink);
      if (!changed && !lost_sinks.contains(sink.sink)) return false;
      if (changed && CommitsForSaved(saved, declared, sink.sink)) return false;
      if (changed && !options_.drop) {
        Object({"sink", sink.sink, "writes elsewhere, and the checkpoint lists rows it prepared"},
               "`cairn run --from` publishes them where they lie; --drop gives them up");
      }
      fmt::print(stderr, "cairn: sink {}: the rows it prepared are given up\n", sink.sink);
      return true;
    });
    return objections_.empty() ? Status() : Status::InvalidArgument(objections_);
  }

 private:
  static std::string DefinitionIn(const JobDeclaration& job, const std::string& kind,
                                  const std::string& name) {
    for (const checkpoint::PipelineComponent& one : job.pipeline->components) {
      if (one.kind == kind && one.name == name) return one.definition;
    }
    return "";
  }

  static bool CommitsForSaved(const JobDeclaration& saved, const JobDeclaration& declared,
                              const std::string& sink) {
    return connectors::CommitsFor(DefinitionIn(declared, "sink", sink),
                                  DefinitionIn(saved, "sink", sink));
  }

  /// Whether what a changed source or operator has saved can serve it at all.
  static Status SavedServes(const JobDeclaration& saved, const JobDeclaration& declared,
                            const PipelineDifference& changed) {
    const std::string before = DefinitionIn(saved, changed.kind, changed.name);
    const std::string now = DefinitionIn(declared, changed.kind, changed.name);
    if (changed.kind == "source") return connectors::CheckSavedOffsets(before, now);
    return changed.kind == "operator" ? operators::CheckSavedState(before, now) : Status();
  }

  void Object(const PipelineDifference& difference, std::string_view remedy) {
    objections_ += fmt::format("{}{} {} {} ({})", objections_.empty() ? "" : "; ", difference.kind,
                               difference.name, difference.what, remedy);
  }

  const MigrateOptions& options_;
  checkpoint::CutBuilderOptions* build_;
  std::string objections_;
};

/// Take every declared slot; the others are refused or left out.
Status TakeDeclaredSlots(const StateSource& source, const JobDeclaration& declared, bool drop,
                         ImportTarget* target) {
  std::vector<std::optional<ImportTarget::Slot>> slots;
  for (const SlotDescriptor& slot : source.slots()) {
    if (declared.Find(slot.operator_id, slot.name) == nullptr && drop) {
      fmt::print(stderr, "cairn: operator {} slot {} is not declared any more: left out\n",
                 UidOf(slot), slot.name);
      slots.emplace_back();
      continue;
    }
    Result<ImportTarget::Slot> taken = target->SlotFor(slot);
    if (!taken.ok()) {
      return taken.status().WithContext(declared.Find(slot.operator_id, slot.name) == nullptr
                                            ? "--drop leaves out what is not declared"
                                            : "nothing was migrated");
    }
    slots.emplace_back(*std::move(taken));
  }
  return source.ScanAll([&](const StateRow& row) -> Status {
    return slots[row.slot] ? slots[row.slot]->Add(row.user_key, row.value) : Status();
  });
}

}  // namespace

Result<ExitCode> MigrateState(env::FileSystem* files, const MigrateOptions& options) {
  CAIRN_ASSIGN_OR_RETURN(const auto declared, WantedOf(files, options.job, options.expected));
  if (!declared) {
    return Status::InvalidArgument(
        "say what the state is to fit: --job JOB.sql, or --expected with a list of slots or a "
        "SOURCE");
  }
  checkpoint::CutBuilderOptions build;
  build.files = files;
  CAIRN_ASSIGN_OR_RETURN(build.place, engine::ParsePlaceUri(options.place));
  CAIRN_RETURN_IF_ERROR(checkpoint::RefuseUsedPlace(files, build.place));
  CAIRN_ASSIGN_OR_RETURN(const auto source,
                         OpenStateSource(files, options.source, options.materialisation_store));
  build.key_groups = declared->pipeline ? declared->key_groups : source->key_groups();
  build.pipeline.job = "import";
  if (source->cut() != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(const JobDeclaration saved, DeclarationOfCut(files, *source->cut()));
    JobDeclaration target_job = *declared;
    if (!target_job.pipeline) target_job.pipeline = saved.pipeline;
    build.pipeline = *target_job.pipeline;
    CAIRN_RETURN_IF_ERROR(Takeover(options, &build).Run(saved, target_job, *source->cut()));
  } else if (declared->pipeline) {
    build.pipeline = *declared->pipeline;
  }
  ImportTarget target(std::move(build), true, &*declared);
  CAIRN_RETURN_IF_ERROR(TakeDeclaredSlots(*source, *declared, options.drop, &target));
  CAIRN_ASSIGN_OR_RETURN(const checkpoint::BuiltCut cut, target.Commit());
  fmt::print(stderr, "cairn: migrated {} rows of {} slots from {} into {} as checkpoint {}\n",
             base::FormatCount(cut.rows), target.slots(), source->Name(), options.place,
             cut.id.value);
  return ExitCode::kDone;
}

}  // namespace cairn::cli

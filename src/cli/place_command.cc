// SPDX-License-Identifier: Apache-2.0
#include "cli/place_command.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/units.h"
#include "checkpoint/copy_cut.h"
#include "checkpoint/damage_advice.h"
#include "checkpoint/inspect.h"
#include "checkpoint/inventory.h"
#include "checkpoint/layout.h"
#include "checkpoint/place.h"
#include "checkpoint/repair.h"
#include "checkpoint/store.h"
#include "cli/json_line.h"
#include "cli/source_reference.h"
#include "cli/value_text.h"
#include "engine/backend_uri.h"
#include "env/clock.h"
#include "env/object_place.h"

namespace cairn::cli {
namespace {

using checkpoint::InventoryItem;

/// Cuts may be retired between the read of the head and that of what they need: read both again.
constexpr int kInventoryAttempts = 8;

/// "7, 6", "nothing", "an attempt that is not decided", "not Cairn's", "MISSING, needed by 7".
std::string ReasonOf(const InventoryItem& item) {
  if (item.foreign) return "not Cairn's: never touched";
  std::string cuts;
  for (const base::CheckpointId id : item.needed_by) {
    cuts += (cuts.empty() ? "" : ", ") + std::to_string(id.value);
  }
  if (!cuts.empty() && item.segment) {
    cuts += fmt::format(" (log of view {}, partition {}, rows {} to {}, written by {})",
                        PrintableBytes(item.segment->view), item.segment->partition,
                        item.segment->first, item.segment->end - 1, item.checkpoint.value);
  }
  if (item.missing) return "MISSING, needed by " + cuts;
  if (!cuts.empty()) return cuts;
  return item.undecided ? "an attempt that is not decided" : "nothing";
}

nlohmann::ordered_json JsonOf(const InventoryItem& item) {
  nlohmann::ordered_json cuts = nlohmann::ordered_json::array();
  for (const base::CheckpointId id : item.needed_by) cuts.push_back(id.value);
  nlohmann::ordered_json json = {{"object", item.key},
                                 {"bytes", item.bytes},
                                 {"checkpoint", item.checkpoint.value},
                                 {"needed_by", cuts},
                                 {"undecided", item.undecided},
                                 {"garbage", item.IsGarbage()},
                                 {"missing", item.missing}};
  if (item.segment) {
    json["view_log"] = {{"view", item.segment->view},
                        {"generation", item.segment->generation},
                        {"partition", item.segment->partition},
                        {"first", item.segment->first},
                        {"end", item.segment->end}};
  }
  return json;
}

/// What a place holds, with the records that say so.
struct PlaceContent {
  std::unique_ptr<env::ObjectStore> objects;
  checkpoint::Place records;
  checkpoint::Inventory inventory;
};

Result<PlaceContent> ContentOf(env::FileSystem* files, const std::string& place) {
  PlaceContent content;
  CAIRN_ASSIGN_OR_RETURN(content.objects, env::OpenObjects(files, place));
  CAIRN_ASSIGN_OR_RETURN(content.records, checkpoint::OpenPlace(files, place));
  for (int attempt = 1;; ++attempt) {
    CAIRN_ASSIGN_OR_RETURN(content.inventory,
                           checkpoint::TakeInventory(content.objects.get(), content.records));
    const bool whole = content.inventory.unreadable.empty() && !content.inventory.AnyMissing();
    if (whole || attempt == kInventoryAttempts) return content;
    CAIRN_ASSIGN_OR_RETURN(checkpoint::Place now, checkpoint::OpenPlace(files, place));
    if (now.head == content.records.head) return content;
    content.records = std::move(now);
  }
}

/// Say of each cut that lacks something what to do: damage, when there is one.
ExitCode AdviseOn(const PlaceContent& content, const std::string& object) {
  std::map<base::CheckpointId, Status> damaged;
  for (const auto& [id, why] : content.inventory.unreadable) damaged.emplace(id, why);
  for (const InventoryItem& item : content.inventory.items) {
    if (!item.missing || (!object.empty() && item.key != object)) continue;
    for (const base::CheckpointId id : item.needed_by) {
      damaged.emplace(id, Status::Corruption(fmt::format("checkpoint {} needs {}, which is missing",
                                                         id.value, item.key)));
    }
  }
  for (const auto& [id, why] : damaged) {
    fmt::print(stderr, "cairn: {}\n",
               checkpoint::AdviseOnCut(why, content.objects.get(), content.records, id).message());
  }
  return damaged.empty() ? ExitCode::kDone : ExitCode::kDamaged;
}

/// Say "45.0 MiB of 210.0 MiB copied" once a second.
std::function<void(uint64_t, uint64_t)> EverySecond(std::string_view done_word, std::FILE* file) {
  return [=, reported_ns = env::SystemClock()->MonotonicNanos()](uint64_t done,
                                                                 uint64_t total) mutable {
    const int64_t now = env::SystemClock()->MonotonicNanos();
    if (now - reported_ns < 1'000'000'000) return;
    reported_ns = now;
    fmt::print(file, "cairn: {} of {} {}\n", base::FormatBytes(done), base::FormatBytes(total),
               done_word);
  };
}

Result<std::string> PlaceOf(env::FileSystem* files, const std::string& source) {
  CAIRN_ASSIGN_OR_RETURN(const SourceReference reference, ResolveSource(files, source));
  if (reference.is_file || reference.id) {
    return Status::InvalidArgument(
        fmt::format("'{}': name a place of checkpoints, without '@'", source));
  }
  return reference.path;
}

void PrintItem(const InventoryItem& item, bool json, TextTable* table, Output* out) {
  if (json) return PrintJsonLine(JsonOf(item), out);
  table->Row({item.key, base::FormatBytes(item.bytes), ReasonOf(item)});
}

}  // namespace

Result<ExitCode> ExplainObjects(env::FileSystem* files, const PlaceOptions& options, Output* out) {
  CAIRN_ASSIGN_OR_RETURN(const std::string place, PlaceOf(files, options.source));
  CAIRN_ASSIGN_OR_RETURN(const PlaceContent content, ContentOf(files, place));
  TextTable table("<><");
  table.Row({"OBJECT", "BYTES", "KEPT BY"});
  bool found = false;
  for (const InventoryItem& item : content.inventory.items) {
    if (!options.object.empty() && item.key != options.object) continue;
    found = true;
    PrintItem(item, options.json, &table, out);
  }
  if (!found && !options.object.empty()) {
    (void)AdviseOn(content, options.object);  // a cut that cannot be read may need it
    return Status::NotFound(
        fmt::format("'{}' has no object '{}', and no checkpoint that can be read needs it", place,
                    options.object));
  }
  if (!options.json) table.Print(out);
  return AdviseOn(content, options.object);
}

Result<ExitCode> CollectPlace(env::FileSystem* files, const PlaceOptions& options, Output* out) {
  CAIRN_ASSIGN_OR_RETURN(const std::string place, PlaceOf(files, options.source));
  if (options.dry_run) {
    CAIRN_ASSIGN_OR_RETURN(const PlaceContent content, ContentOf(files, place));
    if (!content.inventory.unreadable.empty()) {
      const auto& [id, why] = content.inventory.unreadable.front();
      return checkpoint::AdviseOnCut(why, content.objects.get(), content.records, id)
          .WithContext("nothing would be deleted, as what a checkpoint needs is not known");
    }
    TextTable table("<><");
    table.Row({"OBJECT", "BYTES", "KEPT BY"});
    uint64_t objects = 0;
    uint64_t bytes = 0;
    for (const InventoryItem& item : content.inventory.items) {
      if (!item.IsGarbage() && !item.undecided) continue;
      ++objects;
      bytes += item.bytes;
      PrintItem(item, options.json, &table, out);
    }
    if (options.json) return ExitCode::kDone;
    if (objects > 0) table.Print(out);
    out->Line(fmt::format("{} objects, {}, would be deleted", base::FormatCount(objects),
                          base::FormatBytes(bytes)));
    return ExitCode::kDone;
  }
  CAIRN_RETURN_IF_ERROR(checkpoint::OpenPlace(files, place).status());
  CAIRN_ASSIGN_OR_RETURN(const checkpoint::OwnedObjects owned, checkpoint::OwnPlace(files, place));
  CAIRN_ASSIGN_OR_RETURN(const checkpoint::CollectReport report,
                         checkpoint::CollectGarbage(owned.objects.get()));
  if (options.json) {
    PrintJsonLine(nlohmann::ordered_json({{"deleted", report.objects},
                                          {"bytes", report.bytes},
                                          {"uploads_ended", report.uploads}}),
                  out);
  } else {
    out->Line(fmt::format("{} objects, {}, deleted", base::FormatCount(report.objects),
                          base::FormatBytes(report.bytes)));
    if (report.uploads > 0) {
      out->Line(fmt::format("{} unfinished uploads ended", base::FormatCount(report.uploads)));
    }
    if (!report.uploads_status.ok()) {
      out->Line(fmt::format("unfinished uploads could not be looked for: {}",
                            report.uploads_status.message()));
    }
  }
  return ExitCode::kDone;
}

Result<ExitCode> CopyCheckpoint(env::FileSystem* files, const PlaceOptions& options,
                                std::FILE* progress) {
  CAIRN_ASSIGN_OR_RETURN(const SourceReference source, ResolveSource(files, options.source));
  if (source.is_file) {
    return Status::InvalidArgument(
        fmt::format("'{}' is a snapshot file: copy it as a file", source.path));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string target, engine::ParsePlaceUri(options.to));
  CAIRN_ASSIGN_OR_RETURN(const auto cut,
                         checkpoint::CutReader::Open(files, source.path, source.id));
  const format::CutReference* reference = cut->place().Find(cut->manifest().checkpoint_id);
  CAIRN_ASSIGN_OR_RETURN(const checkpoint::OwnedObjects owned, checkpoint::OwnPlace(files, target));
  std::string pipeline;
  if (const auto records = env::OpenObjects(files, source.path); records.ok()) {
    const auto text =
        (*records)->Get(std::string(checkpoint::kPipelineKey), format::kManifestBytesMax);
    if (text.ok()) pipeline = text->bytes;
  }
  CAIRN_ASSIGN_OR_RETURN(
      const checkpoint::CopyReport report,
      checkpoint::CopyCut(cut->objects(), cut->place(), cut->manifest(), pipeline,
                          owned.objects.get(), EverySecond("copied", progress)));
  CAIRN_ASSIGN_OR_RETURN(const auto copy,
                         checkpoint::CutReader::Open(files, target, reference->id));
  const checkpoint::CutVerdict verdict = copy->Verify(EverySecond("verified", progress));
  if (!verdict.problems.empty()) {
    return Status::Corruption(fmt::format("the copy is damaged: {}", verdict.problems.front()));
  }
  fmt::print(progress,
             "cairn: checkpoint {} copied to {} and verified: {} objects, {} entries, {}. It is of "
             "the same deployment: run the job from the one place or from the other, not from "
             "both\n",
             reference->id.value, options.to, report.objects, base::FormatCount(verdict.entries),
             base::FormatBytes(verdict.bytes));
  return ExitCode::kDone;
}

Result<ExitCode> UpgradePlace(env::FileSystem* files, const PlaceOptions& options, Output* out) {
  CAIRN_ASSIGN_OR_RETURN(const std::string path, PlaceOf(files, options.source));
  CAIRN_ASSIGN_OR_RETURN(const checkpoint::Place place, checkpoint::OpenPlace(files, path));
  const std::vector<format::CutReference> cuts = place.Cuts();
  std::set<std::string> objects;
  for (const format::CutReference& reference : cuts) {
    // What is read whole is of the version that this build reads: every reader refuses others.
    CAIRN_ASSIGN_OR_RETURN(const auto cut, checkpoint::CutReader::Open(files, path, reference.id));
    const checkpoint::CutVerdict verdict = cut->Verify({});
    if (!verdict.problems.empty()) {
      return Status::Corruption(
          fmt::format("{}: checkpoint {}: {}", path, reference.id.value, verdict.problems.front()));
    }
    for (const checkpoint::StoredObject& object : checkpoint::StoredObjectsOf(cut->manifest())) {
      objects.insert(object.key);
    }
  }
  if (options.json) {
    PrintJsonLine(nlohmann::ordered_json({{"format_version", format::kCheckpointManifestVersion},
                                          {"checkpoints", cuts.size()},
                                          {"objects", objects.size()},
                                          {"to_upgrade", 0}}),
                  out);
  } else {
    out->Line(
        fmt::format("nothing to upgrade: {} checkpoints and {} objects are of format version "
                    "{}, the newest",
                    cuts.size(), objects.size(), format::kCheckpointManifestVersion));
  }
  return ExitCode::kDone;
}

Result<ExitCode> RebuildHead(env::FileSystem* files, const PlaceOptions& options, Output* out) {
  CAIRN_ASSIGN_OR_RETURN(const std::string place, PlaceOf(files, options.source));
  checkpoint::OwnedObjects owned;
  std::unique_ptr<env::ObjectStore> reader;
  if (options.write) {
    CAIRN_ASSIGN_OR_RETURN(owned, checkpoint::OwnPlace(files, place));
  } else {
    CAIRN_ASSIGN_OR_RETURN(reader, env::OpenObjects(files, place));
  }
  env::ObjectStore* objects = options.write ? owned.objects.get() : reader.get();
  CAIRN_ASSIGN_OR_RETURN(const checkpoint::FoundHead found, checkpoint::FindHead(objects));
  const base::CheckpointId latest = found.head.latest_commit->id;
  for (const checkpoint::LeftOutCut& cut : found.left_out) {
    out->Line(fmt::format("left out{}: checkpoint {}: {}", cut.id > latest ? ", though newer" : "",
                          cut.id.value, cut.why));
  }
  std::string retained;
  for (const format::CutReference& cut : found.head.retained) {
    retained += (retained.empty() ? ", retained " : ", ") + std::to_string(cut.id.value);
  }
  out->Line(fmt::format("latest {}{}", latest.value, retained));
  if (!found.left_out.empty() && found.left_out.front().id > latest) {
    out->Line(
        fmt::format("a job would go back to checkpoint {}; a sink that has published rows of "
                    "a newer one refuses it",
                    latest.value));
  }
  if (!options.write) {
    out->Line("nothing was written; run again with --write");
    return ExitCode::kDone;
  }
  CAIRN_RETURN_IF_ERROR(checkpoint::WriteFoundHead(objects, found));
  out->Line("control/decision-head.json is written; check it with `cairn checkpoint verify`");
  return ExitCode::kDone;
}

}  // namespace cairn::cli

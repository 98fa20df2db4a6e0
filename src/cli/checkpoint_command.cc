// SPDX-License-Identifier: Apache-2.0
#include "cli/checkpoint_command.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "backend/snapshot_files.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/units.h"
#include "checkpoint/damage_advice.h"
#include "checkpoint/inspect.h"
#include "checkpoint/layout.h"
#include "cli/json_line.h"
#include "cli/slot_json.h"
#include "cli/source_reference.h"
#include "cli/value_text.h"
#include "env/clock.h"
#include "env/object_place.h"
#include "format/manifest.h"

namespace cairn::cli {
namespace {

using Json = nlohmann::ordered_json;

Result<SourceReference> ResolvePlace(env::FileSystem* files, const std::string& text) {
  CAIRN_ASSIGN_OR_RETURN(SourceReference source, ResolveSource(files, text));
  if (source.is_file) {
    return Status::InvalidArgument(
        fmt::format("'{}' is a file, not a place of checkpoints. Name its directory", source.path));
  }
  return source;
}

/// What one line of `ls` says of a cut.
struct CutSummary {
  uint64_t bytes_new = 0;
  uint64_t bytes_reused = 0;
  uint64_t entries = 0;
  uint64_t objects_reused = 0;
  uint64_t frames_new = 0;
  uint64_t frames_reused = 0;
};

CutSummary Summarise(const format::CheckpointManifest& manifest) {
  CutSummary summary;
  summary.bytes_new = manifest.node_data.object_length;
  summary.objects_reused = manifest.referenced_chunks.size();
  for (const auto& frame : manifest.state_frames) {
    summary.entries += frame.entry_count;
    const bool is_new = frame.chunk == manifest.node_data.chunk;
    ++(is_new ? summary.frames_new : summary.frames_reused);
    if (!is_new) summary.bytes_reused += frame.range.length;
  }
  return summary;
}

bool HasEnded(const format::CheckpointManifest& manifest) {
  return !manifest.source_names.empty() &&
         manifest.ended_sources.size() == manifest.source_names.size();
}

std::string AgeOf(uint64_t timestamp_ms) {
  const int64_t now = env::SystemClock()->UnixMillis();
  return base::FormatDurationMs(now - static_cast<int64_t>(timestamp_ms)) + " ago";
}

Json CutLine(const format::CheckpointManifest& manifest, bool newest) {
  const CutSummary summary = Summarise(manifest);
  return {{"id", manifest.checkpoint_id.value},
          {"newest", newest},
          {"time_ms", manifest.timestamp_ms},
          {"time", base::FormatUtcMs(static_cast<int64_t>(manifest.timestamp_ms))},
          {"bytes_new", summary.bytes_new},
          {"bytes_reused", summary.bytes_reused},
          {"objects_new", summary.bytes_new > 0 ? 1 : 0},
          {"objects_reused", summary.objects_reused},
          {"frames_new", summary.frames_new},
          {"frames_reused", summary.frames_reused},
          {"entries", summary.entries},
          {"parallelism", manifest.parallelism},
          {"ended", HasEnded(manifest)}};
}

std::string_view BaseOrDelta(const format::StateFrame& frame) {
  return frame.delta ? "delta" : "base";
}

Json FrameJson(const format::StateFrame& frame) {
  return {{"kind", format::FrameKindName(frame.key.kind)},
          {"operator", base::ToHex16(frame.key.operator_id)},
          {"type", BaseOrDelta(frame)},
          {"first_group", frame.key.first_key_group},
          {"last_group", frame.key.last_key_group},
          {"entries", frame.entry_count},
          {"object", checkpoint::CutReader::ObjectKey(frame.chunk)},
          {"offset", frame.range.offset},
          {"bytes", frame.range.length},
          {"parts", frame.parts},
          {"crc32c", frame.crc32c},
          {"sha256", base::ToHex(frame.sha256)}};
}

Json SourcesJson(const format::CheckpointManifest& manifest) {
  auto sources = Json::array();
  const std::set<std::string> ended(manifest.ended_sources.begin(), manifest.ended_sources.end());
  for (const std::string& name : manifest.source_names) {
    auto splits = Json::array();
    const auto found = manifest.source_offsets.find(name);
    if (found != manifest.source_offsets.end()) {
      for (const auto& [split, offset] : found->second.offsets) {
        splits.push_back(
            {{"split", split}, {"position", offset.position}, {"ended", offset.ended}});
      }
    }
    sources.push_back({{"source", name}, {"ended", ended.count(name) > 0}, {"splits", splits}});
  }
  return sources;
}

Json OperatorsJson(const format::CheckpointManifest& manifest) {
  auto operators = Json::array();
  for (const auto& op : manifest.operators) {
    auto slots = Json::array();
    for (const auto& slot : op.slots) slots.push_back(SlotToJson(SlotOf(op, slot)));
    operators.push_back({{"operator", base::ToHex16(op.operator_id)},
                         {"uid", op.uid},
                         {"frames", op.frames},
                         {"entries", op.entries},
                         {"bytes", op.bytes},
                         {"slots", slots}});
  }
  return operators;
}

std::vector<const checkpoint::PreparedPiece*> PiecesOf(
    const std::string& sink, const std::vector<checkpoint::PreparedSink>& prepared) {
  std::vector<const checkpoint::PreparedPiece*> pieces;
  for (const auto& of_sink : prepared) {
    if (of_sink.sink != sink) continue;
    for (const auto& piece : of_sink.pieces) pieces.push_back(&piece);
  }
  return pieces;
}

Json SinksJson(const format::CheckpointManifest& manifest,
               const std::vector<checkpoint::PreparedSink>& prepared) {
  auto sinks = Json::array();
  for (const std::string& name : manifest.sink_names) {
    auto pieces = Json::array();
    for (const auto* piece : PiecesOf(name, prepared)) {
      pieces.push_back({{"checkpoint", piece->checkpoint.value},
                        {"subtask", piece->subtask},
                        {"descriptor", PrintableBytes(piece->descriptor)}});
    }
    sinks.push_back({{"sink", name}, {"prepared", pieces}});
  }
  return sinks;
}

Json ViewLogsJson(const format::CheckpointManifest& manifest) {
  auto logs = Json::array();
  for (const format::ViewLog& log : manifest.view_logs) {
    uint64_t bytes = 0;
    uint64_t rows = 0;
    for (const auto& segment : log.segments) {
      bytes += segment.object_length;
      rows += segment.end - segment.first;
    }
    logs.push_back({{"view", log.view},
                    {"generation", log.generation},
                    {"partitions", log.partitions},
                    {"segments", log.segments.size()},
                    {"rows", rows},
                    {"bytes", bytes}});
  }
  return logs;
}

Json CutJson(const checkpoint::CutReader& cut, bool newest,
             const std::vector<checkpoint::PreparedSink>& prepared) {
  const format::CheckpointManifest& manifest = cut.manifest();
  Json json = CutLine(manifest, newest);
  json["job"] = cut.place().identity->pipeline_name;
  json["deployment"] = manifest.deployment_id;
  json["attempt"] = manifest.attempt_id;
  json["pipeline_sha256"] = base::ToHex(manifest.pipeline_identity.sha256);
  json["durability"] = cut.place().format->durability;
  json["key_groups"] = manifest.key_groups;
  json["partitioning_abi"] = manifest.partitioning_abi;
  json["slot_hash"] = {{"function", manifest.slot_hash.function},
                       {"seed", manifest.slot_hash.seed}};
  json["base_checkpoint"] = manifest.base_checkpoint_id.value;
  json["watermark_ms"] =
      manifest.checkpoint_watermark ? Json(*manifest.checkpoint_watermark) : Json(nullptr);
  json["operators"] = OperatorsJson(manifest);
  json["frames"] = Json::array();
  for (const auto& frame : manifest.state_frames) json["frames"].push_back(FrameJson(frame));
  json["object"] = manifest.node_data.object_length == 0
                       ? Json(nullptr)
                       : Json({{"key", checkpoint::CutReader::ObjectKey(manifest.node_data.chunk)},
                               {"bytes", manifest.node_data.object_length},
                               {"sha256", base::ToHex(manifest.node_data.sha256)}});
  json["referenced_objects"] = Json::array();
  for (const auto& chunk : manifest.referenced_chunks) {
    json["referenced_objects"].push_back({{"key", checkpoint::CutReader::ObjectKey(chunk.chunk)},
                                          {"bytes", chunk.object_length},
                                          {"sha256", base::ToHex(chunk.sha256)},
                                          {"frames", chunk.ref_count}});
  }
  json["sources"] = SourcesJson(manifest);
  json["sinks"] = SinksJson(manifest, prepared);
  json["view_logs"] = ViewLogsJson(manifest);
  return json;
}

std::string ColumnsText(const std::vector<ColumnSpec>& columns, const std::string& codec) {
  if (columns.empty()) return codec;
  std::string text;
  for (const ColumnSpec& column : columns) {
    text += (text.empty() ? "" : ", ") + column.name + " " + column.type +
            (column.nullable ? "" : " not null");
  }
  return text;
}

void PrintIdentity(const checkpoint::CutReader& cut, bool newest, Output* out) {
  const format::CheckpointManifest& manifest = cut.manifest();
  const CutSummary summary = Summarise(manifest);
  TextTable table("<<");
  table.Row(
      {"checkpoint", fmt::format("{}{}", manifest.checkpoint_id.value, newest ? " (newest)" : "")});
  table.Row({"taken",
             fmt::format("{} ({})", base::FormatUtcMs(static_cast<int64_t>(manifest.timestamp_ms)),
                         AgeOf(manifest.timestamp_ms))});
  table.Row({"job", cut.place().identity->pipeline_name});
  table.Row({"pipeline", base::ToHex(manifest.pipeline_identity.sha256)});
  table.Row({"deployment", manifest.deployment_id});
  table.Row({"parallelism",
             fmt::format("{} over {} key groups", manifest.parallelism, manifest.key_groups)});
  table.Row({"new", fmt::format("{} in {}", base::FormatBytes(summary.bytes_new),
                                summary.bytes_new == 0
                                    ? "no object: nothing had changed"
                                    : checkpoint::CutReader::ObjectKey(manifest.node_data.chunk))});
  table.Row(
      {"reused", fmt::format("{} of {} older objects", base::FormatBytes(summary.bytes_reused),
                             summary.objects_reused)});
  table.Row({"entries", base::FormatCount(summary.entries)});
  table.Row({"watermark", manifest.checkpoint_watermark
                              ? base::FormatUtcMs(*manifest.checkpoint_watermark)
                              : "none"});
  if (cut.place().format->durability != "full") {
    table.Row({"durability", cut.place().format->durability});
  }
  table.Print(out);
}

void PrintOperators(const format::CheckpointManifest& manifest, Output* out) {
  out->Line("\noperators");
  for (const auto& op : manifest.operators) {
    out->Line(fmt::format("  {}  {}  {} frames, {} entries, {}", base::ToHex16(op.operator_id),
                          op.uid, op.frames, base::FormatCount(op.entries),
                          base::FormatBytes(op.bytes)));
    for (const auto& slot : op.slots) {
      out->Line(fmt::format("    slot {} ({}, version {}): {} -> {}", slot.name, slot.value_codec,
                            slot.version, ColumnsText(slot.key_columns, slot.key_codec),
                            ColumnsText(slot.value_columns, slot.value_codec)));
    }
  }
}

void PrintFrames(const format::CheckpointManifest& manifest, Output* out) {
  out->Line("\nframes");
  TextTable table("<<<<>><");
  table.Row({"  operator", "kind", "type", "groups", "entries", "bytes", "object"});
  for (const auto& frame : manifest.state_frames) {
    table.Row({"  " + base::ToHex16(frame.key.operator_id),
               std::string(format::FrameKindName(frame.key.kind)), std::string(BaseOrDelta(frame)),
               fmt::format("{}..{}", frame.key.first_key_group, frame.key.last_key_group),
               base::FormatCount(frame.entry_count), base::FormatCount(frame.range.length),
               fmt::format("{}@{}", frame.chunk.checkpoint_id.value, frame.range.offset)});
  }
  table.Print(out);
}

void PrintSourcesAndSinks(const format::CheckpointManifest& manifest,
                          const std::vector<checkpoint::PreparedSink>& prepared, Output* out) {
  out->Line("\nsources");
  const std::set<std::string> ended(manifest.ended_sources.begin(), manifest.ended_sources.end());
  for (const std::string& name : manifest.source_names) {
    out->Line(fmt::format("  {}{}", name, ended.count(name) > 0 ? " (ended)" : ""));
    const auto found = manifest.source_offsets.find(name);
    if (found == manifest.source_offsets.end()) continue;
    for (const auto& [split, offset] : found->second.offsets) {
      out->Line(fmt::format("    {}: {}{}", split,
                            offset.position.empty() ? "not begun" : PrintableBytes(offset.position),
                            offset.ended ? " (ended)" : ""));
    }
  }
  out->Line("\nsinks");
  for (const std::string& name : manifest.sink_names) {
    out->Line("  " + name);
    for (const auto* piece : PiecesOf(name, prepared)) {
      out->Line(fmt::format("    prepared by checkpoint {}, subtask {}: {}",
                            piece->checkpoint.value, piece->subtask,
                            PrintableBytes(piece->descriptor)));
    }
  }
}

void PrintViewLogs(const format::CheckpointManifest& manifest, Output* out) {
  if (manifest.view_logs.empty()) return;
  out->Line("\nview logs");
  TextTable table("<>>>>");
  table.Row({"  view", "partitions", "segments", "rows", "bytes"});
  for (const Json& log : ViewLogsJson(manifest)) {
    table.Row({"  " + PrintableBytes(log["view"].get<std::string>()), log["partitions"].dump(),
               log["segments"].dump(), base::FormatCount(log["rows"].get<uint64_t>()),
               base::FormatBytes(log["bytes"].get<uint64_t>())});
  }
  table.Print(out);
}

/// The newest cut's id, and what this cut is to it.
bool IsNewest(const checkpoint::CutReader& cut) {
  const auto& head = *cut.place().head;
  return head.latest_commit && head.latest_commit->id == cut.manifest().checkpoint_id;
}

}  // namespace

Result<ExitCode> ListCheckpoints(env::FileSystem* files, const CheckpointOptions& options,
                                 Output* out) {
  CAIRN_ASSIGN_OR_RETURN(const SourceReference source, ResolvePlace(files, options.source));
  CAIRN_ASSIGN_OR_RETURN(const checkpoint::Place place, checkpoint::OpenPlace(files, source.path));
  TextTable table("><>>>>><");
  table.Row({"ID", "TIME", "AGE", "NEW", "REUSED", "ENTRIES", "P", ""});
  size_t listed = 0;
  ExitCode outcome = ExitCode::kDone;
  for (const format::CutReference& reference : place.Cuts()) {
    if (source.id && reference.id != *source.id) continue;
    const auto cut = checkpoint::CutReader::Open(files, source.path, reference.id, true);
    // A cut that a running job has retired since the head was read is no longer to be listed.
    if (!cut.ok() && cut.status().code() == StatusCode::kNotFound) continue;
    ++listed;
    if (!cut.ok()) {
      // The other cuts are still of use: the one that cannot be read is listed as such.
      if (ExitCodeOf(cut.status().code()) != ExitCode::kDamaged) return cut.status();
      outcome = ExitCode::kDamaged;
      const std::string why(cut.status().message());
      if (options.json) {
        PrintJsonLine(Json{{"id", reference.id.value}, {"damaged", why}}, out);
      } else {
        table.Row({std::to_string(reference.id.value), "damaged", "", "", "", "", "", ""});
        fmt::print(stderr, "cairn: {}\n", why);
      }
      continue;
    }
    const format::CheckpointManifest& manifest = (*cut)->manifest();
    const bool newest = IsNewest(**cut);
    if (options.json) {
      PrintJsonLine(CutLine(manifest, newest), out);
      continue;
    }
    const CutSummary summary = Summarise(manifest);
    const int64_t taken = static_cast<int64_t>(manifest.timestamp_ms);
    table.Row({std::to_string(manifest.checkpoint_id.value), base::FormatUtcMs(taken),
               base::FormatDurationMs(env::SystemClock()->UnixMillis() - taken),
               base::FormatBytes(summary.bytes_new), base::FormatBytes(summary.bytes_reused),
               base::FormatCount(summary.entries), std::to_string(manifest.parallelism),
               std::string(newest ? "newest" : "") + (HasEnded(manifest) ? " ended" : "")});
  }
  if (listed == 0) {
    return Status::NotFound(
        source.id ? fmt::format("'{}' holds no checkpoint {}", source.path, source.id->value)
                  : fmt::format("'{}' holds no committed checkpoint yet", source.path));
  }
  if (!options.json) table.Print(out);
  return outcome;
}

Result<ExitCode> ShowCheckpoint(env::FileSystem* files, const CheckpointOptions& options,
                                Output* out) {
  CAIRN_ASSIGN_OR_RETURN(const SourceReference source, ResolvePlace(files, options.source));
  CAIRN_ASSIGN_OR_RETURN(const auto cut,
                         checkpoint::CutReader::Open(files, source.path, source.id, true));
  // What a damaged cut still says is shown; what its sinks prepared may be in what is lost.
  std::vector<checkpoint::PreparedSink> prepared;
  if (const auto loaded = cut->AsCut(); loaded.ok()) {
    prepared = (*loaded)->sinks();
  } else {
    fmt::print(stderr, "cairn: {}\n", loaded.status().message());
  }
  if (options.json) {
    PrintJsonLine(CutJson(*cut, IsNewest(*cut), prepared), out);
    return ExitCode::kDone;
  }
  PrintIdentity(*cut, IsNewest(*cut), out);
  PrintOperators(cut->manifest(), out);
  PrintFrames(cut->manifest(), out);
  PrintSourcesAndSinks(cut->manifest(), prepared, out);
  PrintViewLogs(cut->manifest(), out);
  return ExitCode::kDone;
}

namespace {

/// Judge one snapshot file, or every one of a directory that is no place. Nothing when `path` names
/// neither.
Result<std::optional<ExitCode>> VerifySnapshots(env::FileSystem* files, const std::string& path,
                                                bool json, Output* out) {
  const auto info = files->Stat(path);
  if (!info.ok()) return std::optional<ExitCode>();
  std::vector<std::string> snapshots;
  if (!info->is_directory) {
    if (!path.ends_with(".snap")) return std::optional<ExitCode>();
    snapshots.push_back(path);
  } else if (!files->Stat(env::JoinPath(path, checkpoint::kFormatKey)).ok()) {
    const auto place = backend::SnapshotFiles::ForReading(files, path, {});
    CAIRN_ASSIGN_OR_RETURN(const auto ids, place.ListAll());
    for (auto id = ids.rbegin(); id != ids.rend(); ++id) snapshots.push_back(place.PathOf(*id));
  }
  if (snapshots.empty()) return std::optional<ExitCode>();
  bool valid = true;
  for (const std::string& snapshot : snapshots) {
    CAIRN_ASSIGN_OR_RETURN(const auto verdict, backend::JudgeSnapshotFile(files, snapshot));
    const std::string name(format::SnapshotVerdictName(verdict));
    valid &= verdict == format::SnapshotVerdict::kValid;
    if (json) {
      PrintJsonLine(Json{{"path", snapshot}, {"status", name}}, out);
    } else {
      out->Line(name + "  " + snapshot);
    }
  }
  return std::optional(valid ? ExitCode::kDone : ExitCode::kNegative);
}

}  // namespace

Result<ExitCode> VerifyCheckpoint(env::FileSystem* files, const CheckpointOptions& options,
                                  Output* out, std::FILE* progress) {
  CAIRN_ASSIGN_OR_RETURN(const auto snapshots,
                         VerifySnapshots(files, options.source, options.json, out));
  if (snapshots) return *snapshots;
  CAIRN_ASSIGN_OR_RETURN(const SourceReference source, ResolvePlace(files, options.source));
  CAIRN_ASSIGN_OR_RETURN(const auto cut,
                         checkpoint::CutReader::Open(files, source.path, source.id, true));
  const uint64_t id = cut->manifest().checkpoint_id.value;
  env::Clock* clock = env::SystemClock();
  int64_t reported_ns = clock->MonotonicNanos();
  const checkpoint::CutVerdict verdict = cut->Verify([&](uint64_t done, uint64_t total) {
    const int64_t now = clock->MonotonicNanos();
    if (progress == nullptr || now - reported_ns < 1'000'000'000) return;
    reported_ns = now;
    fmt::print(progress, "cairn: checkpoint {}: {} of {} read\n", id, base::FormatBytes(done),
               base::FormatBytes(total));
  });
  const bool valid = verdict.problems.empty();
  if (options.json) {
    PrintJsonLine(Json{{"id", id},
                       {"valid", valid},
                       {"objects", verdict.objects},
                       {"frames", verdict.frames},
                       {"segments", verdict.segments},
                       {"entries", verdict.entries},
                       {"bytes", verdict.bytes},
                       {"problems", verdict.problems}},
                  out);
  } else {
    for (const std::string& problem : verdict.problems) out->Line("damaged: " + problem);
    out->Line(fmt::format("checkpoint {} is {}: {} objects, {} frames, {} entries, {} checked", id,
                          valid ? "valid" : "NOT valid", verdict.objects, verdict.frames,
                          base::FormatCount(verdict.entries), base::FormatBytes(verdict.bytes)));
    if (!valid) {
      CAIRN_ASSIGN_OR_RETURN(const auto objects, env::OpenObjects(files, source.path));
      const Status damaged =
          Status::Corruption(fmt::format("checkpoint {} cannot be restored", id));
      fmt::print(stderr, "cairn: {}\n",
                 checkpoint::AdviseOnCut(damaged, objects.get(), cut->place(),
                                         cut->manifest().checkpoint_id)
                     .message());
    }
  }
  return valid ? ExitCode::kDone : ExitCode::kNegative;
}

}  // namespace cairn::cli

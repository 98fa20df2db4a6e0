// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/ids.h"
#include "base/units.h"

namespace cairn::cli {
namespace {

/// Longest silence of plain lines.
constexpr int64_t kLineEveryMs = 10'000;
/// A persist that takes so long is told of while it runs, as often.
constexpr int64_t kLongPersistMs = 2'000;

/// "5 fsyncs", or of a bucket "4 PUT, 1 GET".
std::string UseText(const env::StoreUse& use) {
  if (use.puts + use.gets == 0) {
    return fmt::format("{} fsync{}", use.syncs, use.syncs == 1 ? "" : "s");
  }
  return fmt::format("{} PUT, {} GET", use.puts, use.gets);
}

using Json = nlohmann::ordered_json;

std::string_view LevelName(stream::LogLevel level) {
  constexpr std::string_view kNames[] = {"info", "warning", "error"};
  return kNames[static_cast<size_t>(level)];
}

Json ProgressJson(std::string_view event, const stream::JobProgress& progress) {
  Json json{{"event", event},
            {"elapsed_ms", progress.elapsed_ms},
            {"rows_in", progress.rows_in},
            {"rows_in_per_s", progress.rows_in_per_s},
            {"rows_out", progress.rows_out},
            {"rows_skipped", progress.rows_skipped},
            {"state_bytes", progress.state_bytes},
            {"checkpoints_committed", progress.checkpoints_committed},
            {"checkpoints_failed", progress.checkpoints_failed},
            {"checkpoints_skipped", progress.checkpoints_skipped}};
  json["checkpoint"] = nullptr;
  if (progress.checkpoints_committed > 0) {
    json["checkpoint"] = {
        {"id", progress.checkpoint.value},
        {"age_ms", progress.checkpoint_age_ms},
        {"duration_ms", progress.checkpoint_duration_ms},
        {"bytes_new", progress.checkpoint_bytes},
        {"bytes_reused", progress.checkpoint_total_bytes - progress.checkpoint_bytes},
        {"frames_new", progress.checkpoint_frames},
        {"frames_reused", progress.checkpoint_total_frames - progress.checkpoint_frames},
        {"persist_ms", progress.checkpoint_persist_ms},
        {"bytes_written", progress.checkpoint_use.bytes_written},
        {"puts", progress.checkpoint_use.puts},
        {"gets", progress.checkpoint_use.gets},
        {"fsyncs", progress.checkpoint_use.syncs}};
  } else if (progress.checkpoint.value > 0) {
    json["checkpoint"] = {{"id", progress.checkpoint.value},
                          {"age_ms", progress.checkpoint_age_ms}};
  }
  json["persisting"] = nullptr;
  if (progress.persisting.value > 0) {
    json["persisting"] = {{"id", progress.persisting.value},
                          {"ms", progress.persisting_ms},
                          {"bytes", progress.persisting_bytes},
                          {"bytes_expected", progress.persisting_expected}};
  }
  return json;
}

Json OperatorJson(const checkpoint::OperatorReceipt& receipt) {
  return {{"frames", receipt.frames},
          {"bytes", receipt.bytes},
          {"expected", receipt.expected},
          {"loaded", receipt.loaded},
          {"left_out", receipt.left_out}};
}

}  // namespace

std::string ProgressText(const stream::JobProgress& progress) {
  std::string text =
      fmt::format("{}  in {} rows, {}/s  out {} rows", base::FormatDurationMs(progress.elapsed_ms),
                  base::FormatCount(progress.rows_in), base::FormatRate(progress.rows_in_per_s),
                  base::FormatCount(progress.rows_out));
  if (progress.rows_skipped > 0) {
    text += fmt::format("  skipped {}", base::FormatCount(progress.rows_skipped));
  }
  if (progress.checkpoint.value > 0) {
    text += fmt::format("  checkpoint {}", progress.checkpoint.value);
    if (progress.checkpoint_age_ms >= 0) {
      text += fmt::format(", {} ago", base::FormatDurationMs(progress.checkpoint_age_ms));
    }
    if (progress.checkpoints_committed > 0) {
      text += fmt::format(", {} of {}, {} in {}", base::FormatBytes(progress.checkpoint_bytes),
                          base::FormatBytes(progress.checkpoint_total_bytes),
                          UseText(progress.checkpoint_use),
                          base::FormatDurationMs(progress.checkpoint_persist_ms));
    }
  }
  if (progress.persisting.value > 0 && progress.persisting_ms >= kLongPersistMs) {
    text += fmt::format("  writing {}: {}", progress.persisting.value,
                        base::FormatBytes(progress.persisting_bytes));
    if (progress.persisting_expected > progress.persisting_bytes) {
      text += fmt::format(" of about {}", base::FormatBytes(progress.persisting_expected));
    }
    text += fmt::format(", {}", base::FormatDurationMs(progress.persisting_ms));
  }
  if (progress.checkpoints_failed > 0) {
    text += fmt::format("  failed {}", progress.checkpoints_failed);
  }
  text += fmt::format("  state {}", base::FormatBytes(progress.state_bytes));
  return text;
}

std::string SummaryText(const stream::JobProgress& progress) {
  std::string text =
      fmt::format("{} rows in {} ({} rows/s), {} rows out, {} checkpoint{}, {} rows skipped",
                  base::FormatCount(progress.rows_in), base::FormatDurationMs(progress.elapsed_ms),
                  base::FormatRate(progress.rows_in_per_s), base::FormatCount(progress.rows_out),
                  progress.checkpoints_committed, progress.checkpoints_committed == 1 ? "" : "s",
                  base::FormatCount(progress.rows_skipped));
  if (progress.checkpoints_failed > 0) {
    text += fmt::format(", {} checkpoints failed", progress.checkpoints_failed);
  }
  return text;
}

void ProgressPrinter::ClearLive() {
  if (!live_shown_) return;
  std::fputs("\r\x1b[K", file_);
  live_shown_ = false;
}

void ProgressPrinter::Line(const std::string& text) {
  ClearLive();
  fmt::print(file_, "cairn: {}\n", text);
  std::fflush(file_);
}

void ProgressPrinter::JsonLine(const Json& json) {
  fmt::print(file_, "{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
  std::fflush(file_);
}

void ProgressPrinter::Restored(const checkpoint::RestoreReceipt& receipt) {
  if (mode_ != ProgressMode::kJson) return;
  Json json{{"event", "restored"},
            {"checkpoint", receipt.checkpoint.value},
            {"duration_ms", receipt.duration_ms}};
  json.update(OperatorJson(receipt.total));
  json["operators"] = Json::array();
  for (const checkpoint::OperatorReceipt& one : receipt.operators) {
    Json line{{"operator", base::ToHex16(one.operator_id)}, {"uid", one.uid}};
    line.update(OperatorJson(one));
    json["operators"].push_back(std::move(line));
  }
  JsonLine(json);
}

void ProgressPrinter::Report(const stream::JobProgress& progress) {
  if (mode_ == ProgressMode::kOff) return;
  if (mode_ == ProgressMode::kLive) {
    std::string text = ProgressText(progress);
    // A line that wraps could not be drawn over.
    if (columns_ > 1 && text.size() >= columns_) text.resize(columns_ - 1);
    fmt::print(file_, "\r{}\x1b[K", text);
    std::fflush(file_);
    live_shown_ = true;
    return;
  }
  const bool new_checkpoint =
      progress.checkpoints_committed > 0 && progress.checkpoint.value != last_checkpoint_;
  const bool long_persist =
      progress.persisting_ms >= kLongPersistMs && progress.persisting.value > 0;
  const int64_t every_ms = long_persist ? kLongPersistMs : kLineEveryMs;
  if (!new_checkpoint && progress.elapsed_ms - last_line_ms_ < every_ms) return;
  last_checkpoint_ = progress.checkpoint.value;
  last_line_ms_ = progress.elapsed_ms;
  if (mode_ == ProgressMode::kJson) return JsonLine(ProgressJson("progress", progress));
  Line(ProgressText(progress));
}

void ProgressPrinter::Log(stream::LogLevel level, const std::string& text) {
  if (mode_ == ProgressMode::kJson) {
    return JsonLine({{"event", "log"}, {"level", LevelName(level)}, {"text", text}});
  }
  if (level == stream::LogLevel::kInfo) {
    if (mode_ != ProgressMode::kOff) Line(text);
    return;
  }
  Line((level == stream::LogLevel::kWarning ? "warning: " : "error: ") + text);
}

void ProgressPrinter::Finish(const std::string& text, const stream::JobProgress& progress) {
  if (mode_ != ProgressMode::kJson) return Line(text);
  Json json = ProgressJson("done", progress);
  json["text"] = text;
  JsonLine(json);
}

}  // namespace cairn::cli

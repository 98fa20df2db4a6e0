// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <fmt/format.h>

#include "base/units.h"

namespace cairn::cli {
namespace {

/// Longest silence of plain lines.
constexpr int64_t kLineEveryMs = 10'000;

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
      text += fmt::format(", {} of {}", base::FormatBytes(progress.checkpoint_bytes),
                          base::FormatBytes(progress.checkpoint_total_bytes));
    }
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
  if (!new_checkpoint && progress.elapsed_ms - last_line_ms_ < kLineEveryMs) return;
  last_checkpoint_ = progress.checkpoint.value;
  last_line_ms_ = progress.elapsed_ms;
  Line(ProgressText(progress));
}

void ProgressPrinter::Log(stream::LogLevel level, const std::string& text) {
  if (level == stream::LogLevel::kInfo) {
    if (mode_ != ProgressMode::kOff) Line(text);
    return;
  }
  Line((level == stream::LogLevel::kWarning ? "warning: " : "error: ") + text);
}

void ProgressPrinter::Finish(const std::string& text) { Line(text); }

}  // namespace cairn::cli

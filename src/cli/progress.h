// SPDX-License-Identifier: Apache-2.0
//
// Progress: what a running job tells on standard error. On a terminal one line that is drawn over;
// elsewhere plain lines, one a checkpoint and at least one in 10 s. For programs JSON lines:
// {"event":"log"|"restored"|"progress"|"done", …}.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cairn/status.h"
#include "stream/job_control.h"

namespace cairn::cli {

enum class ProgressMode : uint8_t {
  kLive,   ///< one line, drawn over
  kLines,  ///< lines that stay
  kOff,    ///< warnings and the summary only
  kJson,   ///< one JSON object a line, with all figures
};

/// "12.3 s  in 1,234,567 rows, 612 k/s  out 45,200 rows  checkpoint 7, 0.80 s ago, 1.2 MiB of
/// 4.0 MiB, 5 fsyncs in 0.03 s  writing 8: 3.0 MiB of about 9.0 MiB, 2.10 s  state 43.1 MiB". Parts
/// that have nothing to say are left out.
std::string ProgressText(const stream::JobProgress& progress);

/// "2,000,000 rows in 3.21 s (623 k rows/s), 12,345 rows out, 4 checkpoints, 0 rows skipped".
std::string SummaryText(const stream::JobProgress& progress);

class ProgressPrinter {
 public:
  /// `columns` = width of the terminal for kLive; 0 = unknown.
  ProgressPrinter(std::FILE* file, ProgressMode mode, size_t columns)
      : file_(file), mode_(mode), columns_(columns) {}
  ~ProgressPrinter() { ClearLive(); }
  ProgressPrinter(const ProgressPrinter&) = delete;
  ProgressPrinter& operator=(const ProgressPrinter&) = delete;

  void Report(const stream::JobProgress& progress);
  /// Only JSON says it operator by operator; the log has it in a line.
  void Restored(const checkpoint::RestoreReceipt& receipt);
  void Log(stream::LogLevel level, const std::string& text);
  /// Print the last line of the run. The live line goes.
  void Finish(const std::string& text, const stream::JobProgress& progress);

 private:
  void Line(const std::string& text);
  void JsonLine(const nlohmann::ordered_json& json);
  void ClearLive();

  std::FILE* file_;
  ProgressMode mode_;
  size_t columns_;
  bool live_shown_ = false;
  uint64_t last_checkpoint_ = 0;
  int64_t last_line_ms_ = 0;
};

}  // namespace cairn::cli

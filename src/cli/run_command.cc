// SPDX-License-Identifier: Apache-2.0
#include "cli/run_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "cli/progress.h"
#include "cli/run_plan.h"
#include "cli/stop_signals.h"
#include "engine/run_job.h"
#include "sql/compile.h"

namespace cairn::cli {
namespace {

constexpr uint64_t kSqlBytesMax = uint64_t{16} << 20;

Result<std::string> ReadSql(env::FileSystem* files, const std::string& file) {
  Result<std::string> sql = env::ReadWholeFile(files, file, kSqlBytesMax);
  if (sql.ok()) return sql;
  if (sql.status().code() == StatusCode::kNotFound) {
    return Status::InvalidArgument(
        fmt::format("there is no job file '{}'. Name an SQL file", file));
  }
  if (sql.status().code() == StatusCode::kCorruption) {
    return Status::InvalidArgument(fmt::format("'{}' is too large for an SQL text", file));
  }
  return std::move(sql).status().WithContext(file);
}

Result<engine::JobSpec> SpecOf(const RunOptions& options, std::string sql) {
  engine::JobSpec spec;
  spec.name = options.name.empty() ? JobNameOf(options.file) : options.name;
  spec.sql = std::move(sql);
  spec.sql_name = options.file;
  spec.backend = options.backend;
  spec.checkpoints = options.checkpoints;
  spec.from = options.from;
  spec.consent = options.consent;
  spec.fresh = options.fresh;
  spec.parallelism = options.parallelism;
  for (const std::string& text : options.settings) {
    CAIRN_ASSIGN_OR_RETURN(auto setting, ParseSetting(text));
    spec.settings.push_back(std::move(setting));
  }
  if (!options.interval.empty()) {
    spec.settings.emplace_back("checkpoint.interval", options.interval);
  }
  return spec;
}

/// True when the job writes rows to standard output: a live line would run into them.
bool PrintsRows(const std::string& sql) {
  const auto plan = sql::Compile(sql);
  if (!plan.ok()) return false;  // running it says why
  for (const auto& pipeline : plan->pipelines) {
    if (pipeline.sink.connector == "print") return true;
  }
  return false;
}

ProgressMode ModeOf(const std::string& choice, bool json, const std::string& sql) {
  if (json) return ProgressMode::kJson;
  if (choice == "off") return ProgressMode::kOff;
  if (isatty(STDERR_FILENO) == 0) return ProgressMode::kLines;
  if (choice == "on") return ProgressMode::kLive;
  return isatty(STDOUT_FILENO) != 0 && PrintsRows(sql) ? ProgressMode::kLines : ProgressMode::kLive;
}

size_t TerminalColumns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string EndOf(const engine::JobResult& result) {
  const stream::JobOutcome& outcome = result.outcome;
  const std::string summary = SummaryText(outcome.progress);
  if (outcome.nothing_new) {
    return fmt::format("done: nothing new since checkpoint {}, which is of the job's end",
                       outcome.progress.checkpoint.value);
  }
  if (!outcome.stopped) return "done: " + summary;
  if (result.place.empty()) return "stopped: " + summary + "; no checkpoints are kept";
  return fmt::format("stopped: {}; run it again to go on from checkpoint {} in {}", summary,
                     outcome.progress.checkpoint.value, result.place);
}

}  // namespace

std::string JobNameOf(const std::string& file) {
  const size_t slash = file.rfind('/');
  std::string name = slash == std::string::npos ? file : file.substr(slash + 1);
  const size_t dot = name.rfind('.');
  if (dot != std::string::npos && dot > 0) name.resize(dot);
  return name;
}

Result<std::pair<std::string, std::string>> ParseSetting(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Status::InvalidArgument(
        fmt::format("--set '{}' is not NAME=VALUE. Write --set checkpoint.interval=5s", text));
  }
  std::string name = text.substr(0, equals);
  if (name.starts_with("cairn.")) name.erase(0, 6);
  return std::pair(std::move(name), text.substr(equals + 1));
}

Result<ExitCode> RunJobFile(env::FileSystem* files, const RunOptions& options, Output* out) {
  CAIRN_ASSIGN_OR_RETURN(std::string sql, ReadSql(files, options.file));
  const ProgressMode mode = ModeOf(options.progress, options.json, sql);
  CAIRN_ASSIGN_OR_RETURN(engine::JobSpec spec, SpecOf(options, std::move(sql)));
  spec.files = files;
  if (options.explain) {
    CAIRN_ASSIGN_OR_RETURN(const std::string stages, engine::ExplainJob(spec));
    out->Write(stages);
    return ExitCode::kDone;
  }
  if (options.plan) return PrintRestorePlan(files, spec, options.json, out);
  CAIRN_ASSIGN_OR_RETURN(const auto signals, StopSignals::Watch([](int signal) {
                           fmt::print(stderr,
                                      "\ncairn: {}: stopping after a last checkpoint; once more "
                                      "stops at once\n",
                                      signal == SIGINT ? "interrupted" : "told to end");
                         }));
  ProgressPrinter printer(stderr, mode, mode == ProgressMode::kLive ? TerminalColumns() : 0);
  engine::JobControl control;
  control.stop = signals->token();
  control.on_progress = [&](const stream::JobProgress& progress) { printer.Report(progress); };
  control.log = [&](stream::LogLevel level, const std::string& text) { printer.Log(level, text); };
  control.on_restored = [&](const checkpoint::RestoreReceipt& receipt) {
    printer.Restored(receipt);
  };
  Result<engine::JobResult> result = engine::RunJob(spec, control);
  if (!result.ok()) return std::move(result).status();
  printer.Finish(EndOf(*result), result->outcome.progress);
  if (!result->outcome.stopped) return ExitCode::kDone;
  return signals->signal() == SIGTERM ? ExitCode::kTerminated : ExitCode::kInterrupted;
}

}  // namespace cairn::cli

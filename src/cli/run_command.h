// SPDX-License-Identifier: Apache-2.0
//
// cairn run: run a job from its SQL file until its input ends or it is told to stop.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cairn/status.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "engine/restore_plan.h"
#include "env/file_system.h"

namespace cairn::cli {

struct RunOptions {
  std::string file;
  std::vector<std::string> settings;  ///< NAME=VALUE
  std::string backend;
  std::string checkpoints;
  std::string interval;
  uint32_t parallelism = 1;
  std::string name;
  std::string from;
  bool fresh = false;
  engine::RestoreConsent consent;
  bool explain = false;  ///< print the stages, run nothing
  bool plan = false;     ///< print what would be restored, run nothing
  bool json = false;     ///< plan, or progress, log and summary, as JSON lines
  std::string progress = "auto";
};

/// Shape:    results of a bare SELECT and plans go to standard output, everything else to standard
///           error.
/// Errors:   as engine::RunJob.
Result<ExitCode> RunJobFile(env::FileSystem* files, const RunOptions& options, Output* out);

/// The job's name when none is given: the file's name without folder and ending.
std::string JobNameOf(const std::string& file);

/// Split NAME=VALUE; a leading "cairn." of the name goes, as SET in a text has it.
///
/// Errors:   kInvalidArgument without '=' or without a name.
Result<std::pair<std::string, std::string>> ParseSetting(const std::string& text);

}  // namespace cairn::cli

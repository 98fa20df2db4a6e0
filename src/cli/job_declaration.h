// SPDX-License-Identifier: Apache-2.0
//
// JobDeclaration: which job a cut is made for and which slots it has, learnt from another place,
// from the SQL text of a job that may never have run, or from a list of slots.
//
// Threads: one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cairn/state_table.h"
#include "cairn/status.h"
#include "checkpoint/cut.h"
#include "checkpoint/inspect.h"
#include "env/file_system.h"

namespace cairn::cli {

struct JobDeclaration {
  std::string origin;  ///< for messages: "job.sql", "dir@7"
  std::vector<SlotDescriptor> slots;
  /// Nothing = only the slots are known.
  std::optional<checkpoint::Pipeline> pipeline;
  uint32_t key_groups = kDefaultKeyGroups;

  const SlotDescriptor* Find(OperatorId op, const std::string& slot) const;
};

/// What a job text declares: its pipeline, and the slots that its operators make. Starts nothing.
struct JobText {
  std::string file;
  std::string name;                   ///< empty = that of the file
  std::vector<std::string> settings;  ///< NAME=VALUE
};

/// Errors:   as engine::DescribeJob.
Result<JobDeclaration> DeclarationOfJob(env::FileSystem* files, const JobText& text);

/// What a cut was saved for. The pipeline comes from the place's own words, proven by the identity
/// in the manifest.
///
/// Errors:   kCorruption when the words do not fit the identity · kUnavailable.
Result<JobDeclaration> DeclarationOfCut(env::FileSystem* files, const checkpoint::CutReader& cut);

/// Slots listed in `source`: a file of JSON lines as `cairn state ls --json` prints them, or
/// anything else that SOURCE may be.
///
/// Errors:   kInvalidArgument, naming the line · as OpenStateSource.
Result<JobDeclaration> DeclarationOfList(env::FileSystem* files, const std::string& source);

}  // namespace cairn::cli

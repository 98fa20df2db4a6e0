// SPDX-License-Identifier: Apache-2.0
#include "cli/job_declaration.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/saved_pipeline.h"
#include "cli/run_command.h"
#include "cli/slot_json.h"
#include "cli/state_source.h"
#include "engine/run_job.h"

namespace cairn::cli {
namespace {

constexpr uint64_t kDescriptionBytesMax = uint64_t{16} << 20;

}  // namespace

const SlotDescriptor* JobDeclaration::Find(OperatorId op, const std::string& slot) const {
  for (const SlotDescriptor& one : slots) {
    if (one.operator_id == op && one.name == slot) return &one;
  }
  return nullptr;
}

Result<JobDeclaration> DeclarationOfJob(env::FileSystem* files, const JobText& text) {
  engine::JobSpec spec;
  CAIRN_ASSIGN_OR_RETURN(spec.sql, env::ReadWholeFile(files, text.file, kDescriptionBytesMax));
  spec.name = text.name.empty() ? JobNameOf(text.file) : text.name;
  spec.sql_name = text.file;
  spec.files = files;
  for (const std::string& setting : text.settings) {
    CAIRN_ASSIGN_OR_RETURN(auto parsed, ParseSetting(setting));
    spec.settings.push_back(std::move(parsed));
  }
  CAIRN_ASSIGN_OR_RETURN(engine::JobShape shape, engine::DescribeJob(spec));
  JobDeclaration declaration;
  declaration.origin = text.file;
  declaration.slots = std::move(shape.slots);
  declaration.pipeline = std::move(shape.pipeline);
  declaration.key_groups = shape.key_groups;
  return declaration;
}

Result<JobDeclaration> DeclarationOfCut(env::FileSystem* files, const checkpoint::CutReader& cut) {
  JobDeclaration declaration;
  declaration.origin = fmt::format("{}@{}", cut.directory(), cut.manifest().checkpoint_id.value);
  declaration.key_groups = cut.manifest().key_groups;
  for (const auto& op : cut.manifest().operators) {
    for (const auto& slot : op.slots) declaration.slots.push_back(SlotOf(op, slot));
  }
  CAIRN_ASSIGN_OR_RETURN(declaration.pipeline, checkpoint::PipelineOfCut(files, cut));
  return declaration;
}

Result<JobDeclaration> DeclarationOfList(env::FileSystem* files, const std::string& source) {
  JobDeclaration declaration;
  declaration.origin = source;
  const Result<std::string> text = env::ReadWholeFile(files, source, kDescriptionBytesMax);
  if (!text.ok() || !text->starts_with('{')) {
    CAIRN_ASSIGN_OR_RETURN(const auto opened, OpenStateSource(files, source));
    declaration.origin = opened->Name();
    declaration.slots = opened->slots();
    declaration.key_groups = opened->key_groups();
    return declaration;
  }
  std::string_view rest = *text;
  for (size_t line = 1; !rest.empty(); ++line) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (one.empty()) continue;
    Result<SlotDescriptor> slot = SlotFromText(one);
    if (!slot.ok()) return slot.status().WithContext(fmt::format("'{}' line {}", source, line));
    declaration.slots.push_back(*std::move(slot));
  }
  return declaration;
}

}  // namespace cairn::cli

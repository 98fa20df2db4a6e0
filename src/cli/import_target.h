// SPDX-License-Identifier: Apache-2.0
//
// ImportTarget: the cut that an import or a migration makes, slot by slot. A slot that the wanted
// job declares is made as declared there, and values saved otherwise are migrated on the way in.
//
// Threads: one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "checkpoint/cut_builder.h"
#include "checkpoint/slot_migration.h"
#include "cli/job_declaration.h"
#include "cli/state_source.h"

namespace cairn::cli {

class ImportTarget {
 public:
  /// Where the rows of one slot of one input go.
  class Slot {
   public:
    /// Errors:   as SlotMigration::Convert and CutBuilder::Add.
    Status Add(std::string_view user_key, std::string_view value,
               checkpoint::DuplicateRule rule = checkpoint::DuplicateRule::kRefuse);
    const SlotDescriptor& saved() const { return saved_; }
    bool migrates() const { return !migration_.empty(); }

   private:
    friend class ImportTarget;
    checkpoint::CutBuilder* builder_ = nullptr;
    size_t index_ = 0;
    SlotDescriptor saved_;  ///< as the rows come in
    checkpoint::SlotMigration migration_;
    std::string value_;
  };

  /// Shape:    `options.key_groups` is set when they are known from the start (`fixed_key_groups`);
  ///           else the first input decides. `declared` (may be null) outlives the target.
  ImportTarget(checkpoint::CutBuilderOptions options, bool fixed_key_groups,
               const JobDeclaration* declared)
      : options_(std::move(options)), fixed_(fixed_key_groups), declared_(declared) {}

  const JobDeclaration* declared() const { return declared_; }
  uint32_t key_groups() const { return options_.key_groups; }

  /// Note the number of key groups that an input says; without one that is set, all must say the
  /// same.
  Status TakeKeyGroups(uint32_t key_groups, const std::string& file);

  /// The place of rows saved as `saved`.
  ///
  /// Errors:   kInvalidArgument: a slot that is not declared, or declared in a way that its saved
  ///           form does not lead to.
  Result<Slot> SlotFor(SlotDescriptor saved);
  bool Has(const SlotDescriptor& slot) const;
  size_t slots() const { return builder_ == nullptr ? 0 : builder_->slots().size(); }

  /// Add the declared slots that no input held, without rows, and commit.
  Result<checkpoint::BuiltCut> Commit();

  /// Rows of every slot of `source` that is not there yet, or of those that `wanted` accepts.
  Status TakeSource(const StateSource& source, bool keep_existing,
                    checkpoint::DuplicateRule rule = checkpoint::DuplicateRule::kRefuse);

 private:
  Status OpenBuilder();

  checkpoint::CutBuilderOptions options_;
  bool fixed_;
  std::optional<std::string> key_groups_from_;  ///< the input that decided
  const JobDeclaration* declared_;
  std::unique_ptr<checkpoint::CutBuilder> builder_;
};

}  // namespace cairn::cli

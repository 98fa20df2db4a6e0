// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/savepoint.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "cairn/element_row_key.h"
#include "cairn/hash.h"
#include "checkpoint/cut_builder.h"
#include "checkpoint/inspect.h"
#include "checkpoint/merged_scan.h"
#include "checkpoint/saved_pipeline.h"

namespace cairn::checkpoint {
namespace {

std::optional<base::CheckpointId> IdOrNewest(uint64_t checkpoint_id) {
  if (checkpoint_id == 0) return std::nullopt;
  return base::CheckpointId(checkpoint_id);
}

class CutSavepointReader final : public SavepointReader {
 public:
  explicit CutSavepointReader(std::unique_ptr<CutReader> cut) : cut_(std::move(cut)) {}

  Status Load() {
    CAIRN_ASSIGN_OR_RETURN(const auto loaded, cut_->AsCut());
    slots_ = loaded->slots();
    return {};
  }

  uint64_t checkpoint_id() const override { return cut_->manifest().checkpoint_id.value; }
  uint32_t key_groups() const override { return cut_->manifest().key_groups; }
  const std::vector<SlotDescriptor>& slots() const override { return slots_; }

  Status Scan(size_t slot, const SavepointVisitor& visit) const override {
    return ScanGroups(slot, {0, key_groups()}, visit);
  }

  Result<std::optional<std::string>> Get(size_t slot, std::string_view key) const override {
    if (HasElementRows(slots_[slot].kind)) {
      return Status::InvalidArgument(
          fmt::format("slot {} saves a row an element: scan it", slots_[slot].name));
    }
    if (!IsKeyed(slots_[slot].kind)) {
      return Status::InvalidArgument(
          fmt::format("slot {} holds operator state, which has no keys to look up: scan it",
                      slots_[slot].name));
    }
    const uint32_t group = KeyGroupOf(GroupKeyOfRow(slots_[slot], key), key_groups());
    std::optional<std::string> found;
    CAIRN_RETURN_IF_ERROR(
        ScanGroups(slot, {group, group + 1}, [&](const SavepointRow& row) -> Status {
          if (row.key != key) return {};
          found = std::string(row.value);
          return Status::Cancelled("found");
        }));
    return found;
  }

 private:
  Status ScanGroups(size_t slot, KeyGroupRange groups, const SavepointVisitor& visit) const {
    const SlotDescriptor& wanted = slots_[slot];
    return ScanOperator(*cut_, wanted.operator_id, groups, [&](const MergedRow& row) -> Status {
      if (row.slot != wanted.name) return {};
      return visit({row.user_key, row.value, row.group});
    });
  }

  std::unique_ptr<CutReader> cut_;
  std::vector<SlotDescriptor> slots_;
};

class CutSavepointWriter final : public SavepointWriter {
 public:
  explicit CutSavepointWriter(std::unique_ptr<CutBuilder> builder) : builder_(std::move(builder)) {}

  Result<size_t> AddSlot(SlotDescriptor slot) override {
    return builder_->AddSlot(std::move(slot));
  }
  Status Put(size_t slot, std::string_view key, std::string_view value) override {
    return builder_->Add(slot, key, value);
  }
  Status CopyRest(const SavepointReader& reader) override {
    for (size_t i = 0; i < reader.slots().size(); ++i) {
      const SlotDescriptor& slot = reader.slots()[i];
      if (builder_->FindSlot(slot.operator_id, slot.name)) continue;
      CAIRN_ASSIGN_OR_RETURN(const size_t copy, builder_->AddSlot(slot));
      CAIRN_RETURN_IF_ERROR(reader.Scan(
          i, [&](const SavepointRow& row) { return builder_->Add(copy, row.key, row.value); }));
    }
    return {};
  }
  Result<SavepointSummary> Commit() override {
    CAIRN_ASSIGN_OR_RETURN(const BuiltCut built, builder_->Commit());
    return SavepointSummary{built.id.value, built.rows};
  }

 private:
  std::unique_ptr<CutBuilder> builder_;
};

}  // namespace

Result<std::unique_ptr<SavepointReader>> OpenSavepoint(env::FileSystem* files,
                                                       const std::string& place,
                                                       uint64_t checkpoint_id) {
  CAIRN_ASSIGN_OR_RETURN(auto cut, CutReader::Open(files, place, IdOrNewest(checkpoint_id)));
  auto reader = std::make_unique<CutSavepointReader>(std::move(cut));
  CAIRN_RETURN_IF_ERROR(reader->Load());
  return std::unique_ptr<SavepointReader>(std::move(reader));
}

Result<std::unique_ptr<SavepointWriter>> CreateSavepoint(env::FileSystem* files,
                                                         const std::string& place,
                                                         SavepointWriterOptions options) {
  CutBuilderOptions build;
  build.files = files;
  build.place = place;
  build.memory_bytes = options.memory_bytes;
  build.pipeline.job = "savepoint";
  if (!options.like.empty()) {
    CAIRN_ASSIGN_OR_RETURN(
        const auto cut, CutReader::Open(files, options.like, IdOrNewest(options.like_checkpoint)));
    CAIRN_ASSIGN_OR_RETURN(build.pipeline, PipelineOfCut(files, *cut));
    CAIRN_RETURN_IF_ERROR(GoOnFrom(*cut, &build));
    build.key_groups = cut->manifest().key_groups;
  }
  if (options.key_groups > kMaxKeyGroups) {
    return Status::InvalidArgument(
        fmt::format("{} key groups: a job has 1 to {}", options.key_groups, kMaxKeyGroups));
  }
  if (options.key_groups != 0) build.key_groups = options.key_groups;
  return CreateSavepointFor(std::move(build));
}

Result<std::unique_ptr<SavepointWriter>> CreateSavepointFor(CutBuilderOptions options) {
  CAIRN_ASSIGN_OR_RETURN(auto builder, CutBuilder::Open(std::move(options)));
  return std::unique_ptr<SavepointWriter>(std::make_unique<CutSavepointWriter>(std::move(builder)));
}

}  // namespace cairn::checkpoint

namespace cairn {
inline namespace v0 {

Result<std::unique_ptr<SavepointReader>> SavepointReader::Open(const std::string& place,
                                                               uint64_t checkpoint_id) {
  return checkpoint::OpenSavepoint(env::PosixFileSystem(), place, checkpoint_id);
}

Result<std::unique_ptr<SavepointWriter>> SavepointWriter::Create(const std::string& place,
                                                                 SavepointWriterOptions options) {
  return checkpoint::CreateSavepoint(env::PosixFileSystem(), place, std::move(options));
}

}  // namespace v0
}  // namespace cairn

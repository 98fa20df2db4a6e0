// SPDX-License-Identifier: Apache-2.0
//
// LoadedCut: the Cut that the store hands out, over a verified manifest.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cairn/migration.h"
#include "checkpoint/frame_reader.h"
#include "checkpoint/recovery.h"
#include "checkpoint/restore_mapping.h"

namespace cairn::checkpoint {

class LoadedCut final : public Cut {
 public:
  /// Open the cut of `manifest` and read its sink descriptors. `objects` and `migrations` (null =
  /// none) outlive the cut. Sources and sinks are those of `mapping`.
  ///
  /// Errors:   kCorruption · kUnavailable.
  static Result<std::shared_ptr<const LoadedCut>> Open(
      env::ObjectStore* objects, std::shared_ptr<const format::CheckpointManifest> manifest,
      const MigrationRegistry* migrations = nullptr, RestoreMapping mapping = {});

  base::CheckpointId id() const override { return manifest().checkpoint_id; }
  int64_t timestamp_ms() const override { return static_cast<int64_t>(manifest().timestamp_ms); }
  uint32_t parallelism() const override { return manifest().parallelism; }
  uint32_t key_groups() const override { return manifest().key_groups; }
  bool ended() const override;
  std::optional<int64_t> watermark_ms() const override { return manifest().checkpoint_watermark; }
  const std::vector<SourceOffsets>& sources() const override { return sources_; }
  const std::vector<PreparedSink>& sinks() const override { return sinks_; }
  const std::vector<state::SlotDescriptor>& slots() const override { return slots_; }

  Result<LoadReceipt> LoadSubtask(std::span<state::StateTable* const> tables) const override;
  Status CheckReceipts(std::span<const LoadReceipt> receipts) const override;

  const format::CheckpointManifest& manifest() const { return reader_.manifest(); }
  const FrameReader& reader() const { return reader_; }

 private:
  LoadedCut(env::ObjectStore* objects, std::shared_ptr<const format::CheckpointManifest> manifest,
            const MigrationRegistry* migrations, RestoreMapping mapping)
      : objects_(objects),
        migrations_(migrations),
        mapping_(std::move(mapping)),
        reader_(objects, std::move(manifest)) {}

  /// Every object is there and has its length: a cut that was cut short is known before it is used.
  Status CheckObjects() const;
  void CollectSources();
  void CollectSlots();
  Status ReadSinks();
  std::string UidOf(base::OperatorId id) const;
  /// True when every slot of a saved operator is given up: its frames are not read.
  bool IsLeftOut(base::OperatorId id) const;

  env::ObjectStore* objects_;
  const MigrationRegistry* migrations_;
  const RestoreMapping mapping_;
  FrameReader reader_;
  std::vector<SourceOffsets> sources_;
  std::vector<PreparedSink> sinks_;
  std::vector<state::SlotDescriptor> slots_;
};

}  // namespace cairn::checkpoint

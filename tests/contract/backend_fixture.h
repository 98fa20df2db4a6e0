// SPDX-License-Identifier: Apache-2.0
//
// The fixture of the contract tests: one backend, in one way of running, on a disk of its own.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "backend_cases.h"

namespace cairn::contract {

/// True when a remote pool holds the snapshot, not the disk.
inline bool IsPooled(const BackendSnapshot& snapshot, BackendWorld* world) {
  if (snapshot.form != SnapshotForm::kStored) return false;
  return !world->disk.OpenForRead(snapshot.location).ok();
}

/// The canonical stream of a checkpoint in a pool: what memory:// writes of its rows.
inline Result<std::string> CanonicalOfPooled(const BackendSnapshot& snapshot, BackendWorld* world) {
  BackendOptions options;
  options.budget = &world->budget;
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<StateBackend> pooled, OpenRemote(0)(world, options));
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<StateBackend> memory,
                         OpenTables(1, false)(world, options));
  const RestorePart part{snapshot, 0, 1};
  CAIRN_RETURN_IF_ERROR(pooled->Restore({&part, 1}).status());
  CAIRN_RETURN_IF_ERROR(memory->stamps()->Set(pooled->stamps()->restored()));
  WriteBatch rows;
  CAIRN_RETURN_IF_ERROR(
      static_cast<backend::RemoteReadBackend*>(pooled.get())
          ->ExportLive([&](OperatorId op, std::string_view key, std::string_view value) {
            rows.Put(op, key, value);
            return true;
          }));
  CAIRN_RETURN_IF_ERROR(memory->Apply(rows, nullptr));
  CAIRN_ASSIGN_OR_RETURN(const BackendSnapshot canonical, memory->Snapshot(snapshot.checkpoint_id));
  return canonical.bytes;
}

/// The canonical stream of a snapshot, whatever its form.
inline Result<std::string> CanonicalOf(const BackendSnapshot& snapshot, BackendWorld* world) {
  std::string bytes = snapshot.bytes;
  if (snapshot.form == SnapshotForm::kCanonical) return bytes;
  if (IsPooled(snapshot, world)) return CanonicalOfPooled(snapshot, world);
  std::string directory;
  if (snapshot.form == SnapshotForm::kStored) {
    CAIRN_ASSIGN_OR_RETURN(bytes, env::ReadWholeFile(&world->disk, snapshot.location, 1 << 30));
    if (snapshot.location.find("changelog-") == std::string::npos) return bytes;
    directory = snapshot.location.substr(0, snapshot.location.rfind('/')) + "/materializations";
  }
  return backend::CanonicaliseChangelog(bytes, [&](std::string_view handle) {
    return backend::ReadMaterialisation(&world->disk, directory, handle);
  });
}

inline constexpr OperatorId kOp{42};
inline constexpr OperatorId kOther{43};

class BackendContract : public ::testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<StateBackend>> opened = OpenCase(GetParam(), &world_);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    backend_ = *std::move(opened);
  }

  std::unique_ptr<StateBackend> Open(uint32_t subtask = 0, uint32_t parallelism = 1) {
    Result<std::unique_ptr<StateBackend>> opened =
        OpenCase(GetParam(), &world_, subtask, parallelism);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    return opened.ok() ? *std::move(opened) : nullptr;
  }

  /// Close the backend and open it again on the same disk.
  void Reopen() {
    ASSERT_OK(backend_->Close());
    backend_.reset();
    backend_ = Open();
    ASSERT_NE(backend_, nullptr);
  }

  Status RestoreOwn(const BackendSnapshot& snapshot) {
    const RestorePart part{snapshot, 0, 1};
    return backend_->Restore({&part, 1}).status();
  }

  BackendSnapshot Snapshot(uint64_t id) {
    Result<BackendSnapshot> snapshot = backend_->Snapshot(id);
    EXPECT_TRUE(snapshot.ok()) << snapshot.status().ToString();
    return snapshot.ok() ? *std::move(snapshot) : BackendSnapshot();
  }

  BackendWorld world_;
  std::unique_ptr<StateBackend> backend_;
};

}  // namespace cairn::contract

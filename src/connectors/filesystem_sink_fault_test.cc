// SPDX-License-Identifier: Apache-2.0
//
// Every call of a filesystem sink fails, and power fails behind every call.
#include <random>

#include "connectors/filesystem_sink_testing.h"
#include "env/fault_file_system.h"

namespace cairn::connectors {
namespace {

/// Run two checkpoints of two subtasks against `files`, telling what was decided. Stops at the
/// first error, as a job does.
struct Decided {
  base::CheckpointId id;
  std::vector<std::string> cut;  ///< descriptors of the last decided checkpoint
  int64_t rows = 0;              ///< rows that the decided checkpoints hold
};

Status RunJob(env::FileSystem* files, Decided* decided) {
  CAIRN_ASSIGN_OR_RETURN(auto sink, MakeSink(NumberTable({{"path", "/out"}, {"format", "ndjson"}}),
                                             false, {"w"}, files));
  CAIRN_RETURN_IF_ERROR(sink->Recover(base::CheckpointId(), {}));
  std::vector<std::unique_ptr<stream::SinkWriter>> writers;
  for (uint32_t subtask = 0; subtask < 2; ++subtask) {
    CAIRN_ASSIGN_OR_RETURN(auto writer, sink->CreateWriter(subtask));
    writers.push_back(std::move(writer));
  }
  for (uint64_t id = 1; id <= 2; ++id) {
    std::vector<std::string> cut;
    for (auto& writer : writers) {
      CAIRN_RETURN_IF_ERROR(writer->Write(Plain(Numbers(static_cast<int64_t>(id) * 100, 3))));
      CAIRN_ASSIGN_OR_RETURN(const auto descriptor, writer->Prepare(base::CheckpointId(id)));
      cut.push_back(*descriptor);
    }
    *decided = {base::CheckpointId(id), cut, static_cast<int64_t>(id) * 6};
    CAIRN_RETURN_IF_ERROR(sink->Commit(cut));
  }
  return {};
}

int64_t RowsIn(const env::MemoryFileSystem& files, bool* hidden) {
  int64_t rows = 0;
  *hidden = false;
  for (const auto& [path, bytes] : files.AllFiles()) {
    if (path.find("/.staged-") != std::string::npos) {
      *hidden = true;
    } else {
      rows += std::count(bytes.begin(), bytes.end(), '\n');
    }
  }
  return rows;
}

/// Fail or cut the power at every call in turn; then recover from what was decided.
void FaultLoop(env::FaultKind kind, env::Unsynced unsynced, bool cut_power) {
  for (uint64_t call = 0;; ++call) {
    ASSERT_LT(call, 1000u);
    SCOPED_TRACE("call " + std::to_string(call));
    env::MemoryFileSystem files;
    env::FaultFileSystem faults(&files);
    env::FaultPlan plan;
    plan.call = call;
    plan.kind = kind;
    plan.for_ever = !cut_power;
    if (cut_power) plan.after = [&] { files.PowerCut(unsynced, call); };
    faults.Arm(plan);
    Decided decided;
    const Status status = RunJob(&faults, &decided);
    const bool fired = faults.fired();
    if (fired && !cut_power) {
      // Without a decision nothing of it may be seen.
      bool hidden;
      EXPECT_LE(RowsIn(files, &hidden), decided.rows);
    }
    faults.Disarm();
    if (cut_power && fired) files.PowerOn();
    auto sink =
        *MakeSink(NumberTable({{"path", "/out"}, {"format", "ndjson"}}), false, {"w", 2}, &files);
    const Status recovered = sink->Recover(decided.id, decided.cut);
    ASSERT_TRUE(recovered.ok()) << recovered.ToString();
    bool hidden = false;
    ASSERT_EQ(RowsIn(files, &hidden), decided.rows);
    ASSERT_FALSE(hidden);
    if (!fired) {
      ASSERT_TRUE(status.ok()) << status.ToString();
      EXPECT_GE(call, 15u);
      return;
    }
  }
}

TEST(FilesystemSinkFaults, EveryCallMayFailForEver) {
  FaultLoop(env::FaultKind::kFail, env::Unsynced::kKeep, false);
}
TEST(FilesystemSinkFaults, EveryCallMayLoseItsAnswer) {
  FaultLoop(env::FaultKind::kFailAfter, env::Unsynced::kKeep, false);
}
TEST(FilesystemSinkFaults, EveryCallMayFindTheDiskFull) {
  FaultLoop(env::FaultKind::kNoSpace, env::Unsynced::kKeep, false);
}
TEST(FilesystemSinkFaults, EveryAppendMayBeShort) {
  FaultLoop(env::FaultKind::kShortWrite, env::Unsynced::kKeep, false);
}
TEST(FilesystemSinkFaults, PowerMayFailBehindEveryCallAndDropWhatWasNotSynced) {
  FaultLoop(env::FaultKind::kCallback, env::Unsynced::kDrop, true);
}
TEST(FilesystemSinkFaults, PowerMayFailBehindEveryCallAndKeepWhatWasNotSynced) {
  FaultLoop(env::FaultKind::kCallback, env::Unsynced::kKeep, true);
}
TEST(FilesystemSinkFaults, PowerMayFailBehindEveryCallAndGarbleWhatWasNotSynced) {
  FaultLoop(env::FaultKind::kCallback, env::Unsynced::kRandom, true);
}

}  // namespace
}  // namespace cairn::connectors

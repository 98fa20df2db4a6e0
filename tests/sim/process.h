// SPDX-License-Identifier: Apache-2.0
//
// Process: one incarnation of a job over one checkpoint place. It opens the store, recovers, reads
// its input, takes checkpoints and publishes, until it fails, is killed or the schedule ends. The
// store is the product's; tables, source and sink are the cheapest that its interface takes.
//
// Threads: one; runs on a fiber.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/recovery.h"
#include "checkpoint/store.h"
#include "network.h"
#include "oracle.h"
#include "planted_bug.h"
#include "sim_sink.h"

namespace cairn::sim {

/// What the processes of one schedule share.
struct Job {
  World* world = nullptr;
  Bucket* bucket = nullptr;
  Oracle* oracle = nullptr;
  SimSink* sink = nullptr;
  PlantedBug bug = PlantedBug::kNone;
  uint32_t keys = 6;
  uint32_t rows_per_checkpoint = 5;
  uint32_t retained = 2;
  uint32_t rebase_chunks = 4;
  // A table whose rows weigh less than an object's own bytes gets a new base each time: rows that
  // are padded and deltas that may pass their base make the deltas.
  uint64_t rebase_bytes_min = 0;
  uint32_t padding = 0;
  uint32_t abandon = 0;  ///< per mille of attempts
  bool lease = false;    ///< a process waits for the other's lease; else it takes over at once
  int64_t idle_us = 100'000;
  uint32_t attempts_left = 10;
  uint32_t incarnations = 0;
};

class Process {
 public:
  Process(Job* job, Network* network);

  /// Live until an error, a crash or the end; `attempts` checkpoints at most.
  Status Run(uint32_t attempts);
  uint64_t offset() const { return offset_; }

 private:
  struct Subtask {
    std::unique_ptr<checkpoint::testing::ModelTables> tables;
    std::optional<uint64_t> committed;
    uint64_t captured = 0;
  };

  Status Open();
  Result<std::unique_ptr<env::FileLock>> TakeLease(env::ObjectStore* objects);
  Status Recover();
  Result<CutContent> Load(const checkpoint::Cut& cut);
  void ReadInput();
  /// One attempt. An error ends the process; an attempt that merely failed is none.
  Status Checkpoint();
  Status Decide(base::CheckpointId id);
  Status PrepareSink(base::CheckpointId id);
  checkpoint::CapturedCut Capture();
  Status Committed(base::CheckpointId id);
  Status PublishPieces();
  void Retire();
  void GiveUp();
  Status SweepUndecided();
  Status DeleteByListing();
  /// Tell the oracle of a failure.
  Status Check(const char* what, Status status);
  Subtask& OwnerOf(const std::string& key);
  bool Has(PlantedBug bug) const { return job_->bug == bug; }

  Job* job_;
  Network* network_;
  Host host_;
  checkpoint::InlineExecutor executor_;
  checkpoint::StoreOptions options_;
  std::unique_ptr<checkpoint::CheckpointStore> store_;
  std::vector<Subtask> subtasks_;
  uint64_t offset_ = 0;
  uint64_t prepared_until_ = 0;
  Rows rows_;
  std::vector<PreparedPiece> pieces_;
};

}  // namespace cairn::sim

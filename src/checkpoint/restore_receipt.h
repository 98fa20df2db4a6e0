// SPDX-License-Identifier: Apache-2.0
//
// RestoreReceipt: what all subtasks together loaded of a cut, an operator at a time. Summed up from
// receipts that Cut::CheckReceipts has found to be whole.
//
// Threads: plain values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "checkpoint/cut.h"
#include "checkpoint/recovery.h"

namespace cairn::checkpoint {

/// Entries are rows of frames: one that is in a base and in a delta counts twice.
struct OperatorReceipt {
  base::OperatorId operator_id;  ///< as saved
  std::string uid;
  uint64_t frames = 0;
  uint64_t bytes = 0;
  uint64_t expected = 0;  ///< entries of its frames, without those given up
  uint64_t loaded = 0;
  uint64_t left_out = 0;  ///< entries of slots that were given up, in frames that were read
};

struct RestoreReceipt {
  base::CheckpointId checkpoint;
  int64_t duration_ms = 0;                 ///< from opening the tables to the last row
  std::vector<OperatorReceipt> operators;  ///< ascending by id; those without frames too
  OperatorReceipt total;                   ///< without id and uid
};

RestoreReceipt SumReceipts(const Cut& cut, std::span<const LoadReceipt> receipts);

/// "26,335 of 26,335 entries, 142 frames of 2 operators, 2.0 MiB in 0.05 s".
std::string ReceiptText(const RestoreReceipt& receipt);

}  // namespace cairn::checkpoint

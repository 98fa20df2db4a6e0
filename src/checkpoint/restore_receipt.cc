// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/restore_receipt.h"

#include <algorithm>
#include <map>

#include "base/units.h"

namespace cairn::checkpoint {
namespace {

/// What the subtasks say of one frame together.
struct FrameSum {
  FrameReceipt first;
  uint64_t loaded = 0;
};

void Add(const FrameSum& frame, OperatorReceipt* to) {
  const uint64_t expected = frame.first.expected - frame.first.left_out;
  ++to->frames;
  to->bytes += frame.first.bytes;
  to->expected += expected;
  // Operator state is loaded by every subtask; it is the same state.
  to->loaded += std::min(frame.loaded, expected);
  to->left_out += frame.first.left_out;
}

}  // namespace

RestoreReceipt SumReceipts(const Cut& cut, std::span<const LoadReceipt> receipts) {
  std::map<std::string, FrameSum> frames;
  for (const LoadReceipt& receipt : receipts) {
    for (const FrameReceipt& frame : receipt.frames) {
      FrameSum& sum = frames.try_emplace(frame.frame, FrameSum{frame, 0}).first->second;
      sum.loaded += frame.loaded;
    }
  }
  std::map<base::OperatorId, OperatorReceipt> operators;
  for (const state::SlotDescriptor& slot : cut.slots()) {
    OperatorReceipt& of = operators[slot.operator_id];
    of.operator_id = slot.operator_id;
    of.uid = slot.operator_uid;
  }
  RestoreReceipt receipt;
  receipt.checkpoint = cut.id();
  for (const auto& [name, frame] : frames) {
    Add(frame, &operators[frame.first.operator_id]);
    Add(frame, &receipt.total);
  }
  for (auto& [id, one] : operators) receipt.operators.push_back(std::move(one));
  return receipt;
}

std::string ReceiptText(const RestoreReceipt& receipt) {
  const OperatorReceipt& total = receipt.total;
  const auto with_frames = static_cast<uint64_t>(
      std::count_if(receipt.operators.begin(), receipt.operators.end(),
                    [](const OperatorReceipt& one) { return one.frames > 0; }));
  const auto count = [](uint64_t number, const std::string& one) {
    return base::FormatCount(number) + " " + one + (number == 1 ? "" : "s");
  };
  return base::FormatCount(total.loaded) + " of " + base::FormatCount(total.expected) +
         " entries, " + count(total.frames, "frame") + " of " + count(with_frames, "operator") +
         ", " + base::FormatBytes(total.bytes) + " in " +
         base::FormatDurationMs(receipt.duration_ms) +
         (total.left_out > 0 ? "; " + base::FormatCount(total.left_out) + " given up" : "");
}

}  // namespace cairn::checkpoint

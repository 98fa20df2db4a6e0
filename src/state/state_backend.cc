// SPDX-License-Identifier: Apache-2.0
#include "cairn/state_backend.h"

#include <utility>

namespace cairn {
inline namespace v0 {

ScanRange ScanRange::OfPrefix(std::string_view prefix) {
  ScanRange range{std::string(prefix), std::nullopt};
  std::string last(prefix);
  // The next string that does not begin with the prefix; none after FF FF….
  while (!last.empty() && static_cast<uint8_t>(last.back()) == 0xFF) last.pop_back();
  if (last.empty()) return range;
  last.back() = static_cast<char>(static_cast<uint8_t>(last.back()) + 1);
  range.last = std::move(last);
  return range;
}

Status StateBackend::Put(OperatorId op, std::string_view key, std::string_view value) {
  WriteBatch batch;
  batch.Put(op, key, value);
  return Apply(batch, nullptr);
}

Status StateBackend::Erase(OperatorId op, std::string_view key) {
  WriteBatch batch;
  batch.Erase(op, key);
  return Apply(batch, nullptr);
}

Status StateBackend::Merge(OperatorId op, std::string_view key, std::string_view operand) {
  WriteBatch batch;
  batch.Merge(op, key, operand);
  return Apply(batch, nullptr);
}

Result<BackendSnapshot> StateBackend::Snapshot(uint64_t checkpoint_id) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<CapturedState> captured, Capture(checkpoint_id));
  return captured->Persist();
}

}  // namespace v0
}  // namespace cairn

// SPDX-License-Identifier: Apache-2.0
#include "cairn/runtime_context.h"

#include <algorithm>

namespace cairn {
inline namespace v0 {

Status RuntimeContext::CheckDeclaration(std::string_view name) const {
  const std::string what =
      "operator " + place_.uid + ", state \"" + std::string(name.substr(0, 64)) + "\": ";
  if (place_.domain == nullptr) {
    return Status::InvalidArgument(what +
                                   "there is no state backend here; open a StateStore or run the "
                                   "operator in a job");
  }
  if (sealed_) {
    return Status::InvalidArgument(what +
                                   "declare state before it is restored (in Open, or before "
                                   "Partition::Recover)");
  }
  if (name.empty() || name.find_first_of(std::string_view("|\n\0", 3)) != std::string_view::npos) {
    return Status::InvalidArgument(what +
                                   "a name must not be empty nor hold '|', a line feed or a NUL");
  }
  const bool taken = std::any_of(tables_.begin(), tables_.end(), [&](const StateTable* table) {
    return table->descriptor().name == name;
  });
  if (taken) return Status::InvalidArgument(what + "the name is taken by another declaration");
  return {};
}

Result<OperatorStateTable*> RuntimeContext::operator_state(std::string name) {
  CAIRN_RETURN_IF_ERROR(CheckDeclaration(name));
  SlotDescriptor slot;
  slot.operator_id = operator_id();
  slot.operator_uid = place_.uid;
  slot.name = std::move(name);
  slot.kind = SlotKind::kOperatorValue;
  slot.key_codec = slot.value_codec = "bytes";
  return Adopt(std::make_unique<OperatorStateTable>(place_.domain, std::move(slot),
                                                    operator_state_options()));
}

OperatorStateOptions RuntimeContext::operator_state_options() const {
  OperatorStateOptions options;
  options.subtask = place_.subtask;
  options.parallelism = place_.parallelism;
  options.key_groups = place_.key_groups;
  options.slot_hash_seed = place_.slot_hash_seed;
  return options;
}

Status RuntimeContext::AdvanceTime(TimeDomain domain, int64_t time_ms) {
  if (domain == TimeDomain::kEvent) watermark_ = std::max(watermark_, time_ms);
  for (SlotClock& clock : clocks_) CAIRN_RETURN_IF_ERROR(clock.advance(domain, time_ms));
  return {};
}

std::optional<int64_t> RuntimeContext::NextTimer(TimeDomain domain) const {
  std::optional<int64_t> first;
  for (const SlotClock& clock : clocks_) {
    const std::optional<int64_t> next = clock.next(domain);
    if (next.has_value()) first = std::min(first.value_or(*next), *next);
  }
  return first;
}

}  // namespace v0
}  // namespace cairn

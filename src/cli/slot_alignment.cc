// SPDX-License-Identifier: Apache-2.0
#include "cli/slot_alignment.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ids.h"

namespace cairn::cli {
namespace {

/// True for a slot of a snapshot stream, which knows operators by their ids alone.
bool IsUndeclared(const SlotDescriptor& slot) {
  return slot.operator_uid.empty() && slot.key_codec == "bytes" && slot.key_columns.empty() &&
         slot.value_columns.empty();
}

bool Names(const std::vector<ColumnSpec>& columns, const std::string& name) {
  return std::any_of(columns.begin(), columns.end(),
                     [&](const ColumnSpec& column) { return column.name == name; });
}

void TakeNames(const std::vector<ColumnSpec>& a, const std::string& slot,
               std::vector<ColumnSpec>* b, std::vector<std::string>* notes) {
  const std::vector<ColumnSpec> own = *b;
  for (size_t i = 0; i < std::min(a.size(), own.size()); ++i) {
    if (a[i].name == own[i].name || a[i].type != own[i].type) continue;
    if (Names(own, a[i].name) || Names(a, own[i].name)) continue;
    (*b)[i].name = a[i].name;
    notes->push_back(fmt::format("{}: column {} is {} in B, and shown as {}", slot, a[i].name,
                                 own[i].name, a[i].name));
  }
}

/// Give `stream` the columns of `declared`, or take them from both.
void Declare(SlotDescriptor* stream, SlotDescriptor* declared) {
  const bool same = stream->value_codec == declared->value_codec &&
                    stream->version == declared->version && !declared->ttl.enabled();
  if (same) {
    *stream = *declared;
  } else {
    *declared = AsBytes(*declared);
    *stream = *declared;
  }
}

void Align(SlotDescriptor* a, SlotDescriptor* b, std::vector<std::string>* notes) {
  if (a->kind != b->kind) return;
  const bool a_declared = !IsUndeclared(*a);
  const bool b_declared = !IsUndeclared(*b);
  if (a_declared && b_declared) {
    const std::string slot = fmt::format(
        "{} slot {}", a->operator_uid.empty() ? base::ToHex16(a->operator_id) : a->operator_uid,
        a->name);
    TakeNames(a->key_columns, slot, &b->key_columns, notes);
    TakeNames(a->value_columns, slot, &b->value_columns, notes);
  } else if (a_declared) {
    Declare(b, a);
  } else if (b_declared) {
    Declare(a, b);
  }
}

}  // namespace

SlotDescriptor AsBytes(SlotDescriptor slot) {
  slot.key_codec = slot.value_codec = "bytes";
  slot.key_columns.clear();
  slot.value_columns.clear();
  slot.ttl = {};
  slot.ttl_time_ms.reset();
  slot.ttl_first_ms.reset();
  return slot;
}

AlignedSlots AlignSlots(std::vector<SlotDescriptor> a, std::vector<SlotDescriptor> b) {
  AlignedSlots aligned{std::move(a), std::move(b), {}};
  for (SlotDescriptor& one : aligned.a) {
    for (SlotDescriptor& other : aligned.b) {
      if (one.operator_id == other.operator_id && one.name == other.name) {
        Align(&one, &other, &aligned.notes);
      }
    }
  }
  return aligned;
}

}  // namespace cairn::cli

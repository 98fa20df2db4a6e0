// SPDX-License-Identifier: Apache-2.0
#include "backend/table/table_set.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/table/group_rows.h"
#include "backend/write_rules.h"
#include "base/ids.h"

namespace cairn::backend {
namespace {

using format::StoredKey;
using format::StoredKeyKind;

constexpr char kOperatorStateSlot[] = "operator_state";
constexpr char kRawSlot[] = "raw";

void AppendBE32(std::string* out, uint32_t word) {
  for (int shift = 24; shift >= 0; shift -= 8) out->push_back(static_cast<char>(word >> shift));
}

}  // namespace

bool SlotOrder::operator()(std::string_view a, std::string_view b) const {
  const size_t common = std::min(a.size(), b.size());
  const int head = common == 0 ? 0 : std::memcmp(a.data(), b.data(), common);
  if (head != 0) return head < 0;
  if (a.size() == b.size()) return false;
  if (a.size() < b.size()) return '|' < static_cast<uint8_t>(b[common]);
  return static_cast<uint8_t>(a[common]) < '|';
}

TableSet::TableSet(const BackendOptions& options, const format::KeyLayout& layout,
                   const SlotCatalog* catalog, const std::string& name, bool track_deltas)
    : options_(options),
      layout_(layout),
      catalog_(catalog),
      domain_(StateDomain::Create({name, options.budget, track_deltas})) {}

// --- slots -------------------------------------------------------------------------------------

SlotDescriptor TableSet::DescriptorOf(OperatorId op, std::string_view name) const {
  const auto declared = catalog_->find({op, std::string(name)});
  if (declared != catalog_->end() && declared->second.descriptor) {
    return *declared->second.descriptor;
  }
  SlotDescriptor descriptor;
  descriptor.operator_id = op;
  descriptor.operator_uid = base::ToHex16(op);
  descriptor.name = std::string(name);
  descriptor.key_codec = "bytes";
  descriptor.value_codec = "bytes";
  return descriptor;
}

bool TableSet::IsExpiring(OperatorId op, std::string_view name) const {
  if (catalog_->empty()) return false;
  const auto declared = catalog_->find({op, std::string(name)});
  return declared != catalog_->end() && declared->second.expiring;
}

ByteSlot* TableSet::SlotOf(OperatorId op, std::string_view name) {
  auto& slots = operators_[op].slots;
  const auto found = slots.find(name);
  if (found != slots.end()) return found->second.get();
  TableOptions options;
  options.key_groups = options_.key_groups;
  options.range = OwnedGroups(options_);
  options.slot_hash_seed = options_.slot_hash_seed;
  const auto declared = catalog_->find({op, std::string(name)});
  const bool typed = declared != catalog_->end() && declared->second.maker;
  const SlotMaker maker = typed ? declared->second.maker : BytesSlot::Maker();
  tables_.reset();
  return slots.emplace(std::string(name), maker(domain_.get(), DescriptorOf(op, name), options))
      .first->second.get();
}

const ByteSlot* TableSet::FindSlot(OperatorId op, std::string_view name) const {
  const auto found = operators_.find(op);
  if (found == operators_.end()) return nullptr;
  const auto slot = found->second.slots.find(name);
  return slot == found->second.slots.end() ? nullptr : slot->second.get();
}

OperatorStateTable* TableSet::OperatorStateOf(OperatorId op) {
  std::unique_ptr<OperatorStateTable>& table = operators_[op].operator_state;
  if (table == nullptr) {
    SlotDescriptor descriptor = DescriptorOf(op, kOperatorStateSlot);
    descriptor.kind = SlotKind::kOperatorValue;
    table = std::make_unique<OperatorStateTable>(
        domain_.get(), std::move(descriptor),
        OperatorStateOptions{options_.subtask, options_.parallelism, options_.key_groups,
                             options_.slot_hash_seed});
    tables_.reset();
  }
  return table.get();
}

RawTable* TableSet::RawOf(OperatorId op) {
  std::unique_ptr<RawTable>& table = operators_[op].raw;
  if (table == nullptr) {
    TableOptions options;
    options.key_groups = 1;
    table = std::make_unique<RawTable>(domain_.get(), DescriptorOf(op, kRawSlot), options);
    tables_.reset();
  }
  return table.get();
}

std::shared_ptr<const TableList> TableSet::tables() {
  if (tables_ != nullptr) return tables_;
  auto list = std::make_shared<TableList>();
  for (const auto& [id, op] : operators_) {
    OperatorTables& tables = list->emplace_back();
    tables.id = id;
    for (const auto& [name, slot] : op.slots) {
      tables.slots.push_back({name, &slot->table(), IsExpiring(id, name)});
    }
    tables.operator_state = op.operator_state.get();
    tables.raw = op.raw == nullptr ? nullptr : &op.raw->table();
  }
  tables_ = std::move(list);
  return tables_;
}

// --- changes -----------------------------------------------------------------------------------

Status TableSet::Apply(const WriteEntry& entry, const StoredKey& key, int64_t now_ms,
                       uint64_t* rows) {
  switch (key.kind) {
    case StoredKeyKind::kKeyed:
      return ApplyKeyed(entry, key, now_ms, rows);
    case StoredKeyKind::kOperatorState:
      return ApplyOperatorState(entry, key, rows);
    case StoredKeyKind::kRaw:
      return ApplyTo(RawOf(entry.operator_id), entry, key.user_key, rows);
  }
  return Status::Internal("unknown kind of stored key");
}

Status TableSet::ApplyKeyed(const WriteEntry& entry, const StoredKey& key, int64_t now_ms,
                            uint64_t* rows) {
  ByteSlot* slot = SlotOf(entry.operator_id, key.slot);
  if (entry.kind == WriteKind::kMerge && IsExpiring(entry.operator_id, key.slot)) {
    // An expired value is absent: nothing is appended to it.
    std::optional<std::string> value;
    CAIRN_RETURN_IF_ERROR(slot->Get(key.user_key, &value));
    if (value) {
      CAIRN_ASSIGN_OR_RETURN(const bool expired, IsExpired(*value, now_ms));
      if (expired) return slot->Put(key.user_key, entry.value, rows);
    }
  }
  return ApplyTo(slot, entry, key.user_key, rows);
}

Status TableSet::ApplyTo(ByteSlot* slot, const WriteEntry& entry, std::string_view user_key,
                         uint64_t* rows) {
  switch (entry.kind) {
    case WriteKind::kPut:
      return slot->Put(user_key, entry.value, rows);
    case WriteKind::kErase: {
      CAIRN_ASSIGN_OR_RETURN(const bool erased, slot->Erase(user_key));
      *rows -= erased ? 1 : 0;
      return {};
    }
    case WriteKind::kMerge:
      CAIRN_RETURN_IF_ERROR(CheckMerged(options_, layout_, entry, slot->ValueBytes(user_key)));
      return slot->Append(user_key, entry.value, rows);
  }
  return Status::Internal("unknown kind of write");
}

Status TableSet::ApplyOperatorState(const WriteEntry& entry, const StoredKey& key, uint64_t* rows) {
  OperatorStateTable* table = OperatorStateOf(entry.operator_id);
  RawTable* raw = operators_[entry.operator_id].raw.get();
  if (entry.kind == WriteKind::kErase) {
    *rows -= table->Erase(key.user_key) ? 1 : 0;
    // A row from before the prefix existed is the same row.
    if (raw != nullptr) {
      CAIRN_ASSIGN_OR_RETURN(const bool erased, raw->Erase(key.user_key));
      *rows -= erased ? 1 : 0;
    }
    return {};
  }
  std::string value(entry.value);
  if (entry.kind == WriteKind::kMerge) {
    if (const auto before = table->Find(key.user_key)) {
      CAIRN_RETURN_IF_ERROR(CheckMerged(options_, layout_, entry, before->size()));
      value = std::string(*before) + value;
    }
  }
  const bool known = table->Find(key.user_key).has_value();
  CAIRN_RETURN_IF_ERROR(table->Put(key.user_key, value));
  *rows += known ? 0 : 1;
  return {};
}

Status TableSet::LoadPeerRow(OperatorId op, uint32_t subtask, uint32_t parallelism,
                             SavedRowKind kind, std::string_view logical_key,
                             std::string_view value) {
  std::string key;
  AppendBE32(&key, subtask);
  AppendBE32(&key, parallelism);
  key += logical_key;
  const int32_t key_offsets[2] = {0, static_cast<int32_t>(key.size())};
  const int32_t value_offsets[2] = {0, static_cast<int32_t>(value.size())};
  const auto kind_byte = static_cast<uint8_t>(kind);
  const SavedRowSpan row{&kind_byte, key_offsets, key.data(), value_offsets, value.data(), 1};
  LoadCounts counts;
  return OperatorStateOf(op)->Load(row, 0, 0, &counts);
}

// --- reads -------------------------------------------------------------------------------------

Status TableSet::Get(OperatorId op, const StoredKey& key, int64_t now_ms,
                     std::optional<std::string>* value) const {
  value->reset();
  const auto found = operators_.find(op);
  if (found == operators_.end()) return {};
  if (key.kind == StoredKeyKind::kKeyed) {
    const ByteSlot* slot = FindSlot(op, key.slot);
    if (slot == nullptr) return {};
    CAIRN_RETURN_IF_ERROR(slot->Get(key.user_key, value));
    if (!value->has_value() || !IsExpiring(op, key.slot)) return {};
    const Result<bool> expired = IsExpired(**value, now_ms);
    if (!expired.ok()) {
      value->reset();
      std::string stored;
      layout_.AppendKeyed(key.group, key.slot, key.user_key, &stored);
      return expired.status().WithContext(DescribeKey(layout_, op, stored));
    }
    if (*expired) value->reset();
    return {};
  }
  if (key.kind == StoredKeyKind::kOperatorState && found->second.operator_state != nullptr) {
    if (const auto row = found->second.operator_state->Find(key.user_key)) {
      value->emplace(*row);
      return {};
    }
  }
  return found->second.raw == nullptr ? Status() : found->second.raw->Get(key.user_key, value);
}

std::vector<std::pair<std::string, std::string>> TableSet::VisibleOperatorRows(
    OperatorId op) const {
  struct Seen {
    std::string value;
    uint64_t rank;  ///< 0 = own, else 1 + subtask
  };
  std::map<std::string, Seen> rows;
  const auto found = operators_.find(op);
  if (found != operators_.end() && found->second.operator_state != nullptr) {
    found->second.operator_state->ForEach([&](const OperatorStateRow& row) {
      const uint64_t rank = row.own ? 0 : uint64_t{1} + row.subtask;
      const auto [at, inserted] =
          rows.try_emplace(std::string(row.logical_key), Seen{std::string(row.value), rank});
      if (!inserted && rank < at->second.rank) at->second = {std::string(row.value), rank};
    });
  }
  std::vector<std::pair<std::string, std::string>> visible;
  for (auto& [key, seen] : rows) visible.emplace_back(key, std::move(seen.value));
  return visible;
}

Result<uint64_t> TableSet::SweepGroup(const SlotRef& slot, OperatorId op, uint32_t group,
                                      int64_t now_ms, uint64_t* looked_at) {
  const View view = domain_->Capture();
  GroupRows rows;
  CAIRN_RETURN_IF_ERROR(rows.CollectBase(*slot.table, view, group, ""));
  *looked_at += rows.size();
  ByteSlot* table = SlotOf(op, slot.name);
  uint64_t removed = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    CAIRN_ASSIGN_OR_RETURN(const bool expired, IsExpired(rows[i].value, now_ms));
    if (!expired) continue;
    CAIRN_ASSIGN_OR_RETURN(const bool erased, table->Erase(rows[i].key));
    removed += erased ? 1 : 0;
  }
  return removed;
}

}  // namespace cairn::backend

// SPDX-License-Identifier: Apache-2.0
#include "cli/state_diff.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/ids.h"
#include "base/units.h"
#include "cairn/detail/slot_hash.h"
#include "cairn/element_row_key.h"
#include "checkpoint/row_sorter.h"
#include "cli/json_line.h"
#include "cli/slot_row.h"
#include "cli/state_source.h"
#include "cli/typed_slot.h"
#include "cli/value_text.h"
#include "env/clock.h"

namespace cairn::cli {
namespace {

using checkpoint::RowMerge;
using checkpoint::RowSorter;
using checkpoint::SortedRow;

/// One side: its rows in the order in which both sides are compared.
class Side {
 public:
  Side(env::FileSystem* files, uint32_t key_groups) : hasher_(0) {
    const char* temporary = std::getenv("TMPDIR");
    RowSorter::Options options;
    options.files = files;
    options.scratch = env::JoinPath(temporary == nullptr || *temporary == '\0' ? "/tmp" : temporary,
                                    fmt::format("cairn-diff-{:016x}", env::SystemRandom()->Next()));
    options.key_groups = key_groups;
    sorter_ = std::make_unique<RowSorter>(std::move(options));
  }

  Status Load(const StateSource& source, const std::vector<size_t>& chosen) {
    std::map<size_t, size_t> numbers;
    for (const size_t slot : chosen) numbers[slot] = sorter_->AddSlot(source.slots()[slot]);
    CAIRN_RETURN_IF_ERROR(source.ScanAll([&](const StateRow& row) -> Status {
      const auto number = numbers.find(row.slot);
      if (number == numbers.end()) return {};
      CAIRN_ASSIGN_OR_RETURN(const SlotRow parts,
                             TakeApart(source.slots()[row.slot], row.user_key, row.value));
      if (parts.is_header || parts.expired) return {};
      return sorter_->Add(number->second, row.user_key, row.value,
                          checkpoint::DuplicateRule::kRefuse);
    }));
    CAIRN_ASSIGN_OR_RETURN(merge_, sorter_->Merge());
    return {};
  }

  const SortedRow* row() const { return merge_->row(); }
  Status Next() { return merge_->Next(); }
  const SlotDescriptor& slot() const { return sorter_->slots()[row()->slot]; }

  /// Where the row stands in the order of a sort.
  auto Place() const {
    return std::tuple(slot().operator_id, slot().kind, row()->group, std::string_view(slot().name),
                      hasher_.Hash(UserKeyOfRow(slot().kind, row()->user_key)), row()->user_key);
  }

 private:
  detail::SlotHasher hasher_;
  std::unique_ptr<RowSorter> sorter_;
  std::unique_ptr<RowMerge> merge_;
};

/// Key and value of saved rows as JSON.
class RowText {
 public:
  static Result<std::unique_ptr<RowText>> Make(const SlotDescriptor& slot) {
    CAIRN_ASSIGN_OR_RETURN(TypedSlotDecoder decoder, TypedSlotDecoder::Make(slot));
    return std::unique_ptr<RowText>(new RowText(std::move(decoder)));
  }

  Result<std::pair<std::string, std::string>> Of(std::string_view key, std::string_view value) {
    CAIRN_RETURN_IF_ERROR(decoder_.Append(key, value));
    CAIRN_ASSIGN_OR_RETURN(const auto batch, decoder_.Finish());
    const int keys = static_cast<int>(decoder_.key_columns() + decoder_.element_columns());
    const int end = keys + static_cast<int>(decoder_.value_columns());
    const bool ranked = HoldsRankedRows(decoder_.slot());
    std::pair<std::string, std::string> text;
    Append(*batch, 0, keys, 0, &text.first);
    if (!ranked) {
      Append(*batch, keys, batch->num_columns(), 0, &text.second);  // the deadline too
      return text;
    }
    text.second = "[";
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      if (row > 0) text.second += ',';
      Append(*batch, keys, end - 1, row, &text.second);
    }
    text.second += ']';
    return text;
  }

 private:
  explicit RowText(TypedSlotDecoder decoder) : decoder_(std::move(decoder)) {}

  static void Append(const arrow::RecordBatch& batch, int first, int end, int64_t row,
                     std::string* text) {
    std::vector<std::string> names;
    std::vector<std::shared_ptr<arrow::Array>> columns;
    for (int i = first; i < end; ++i) {
      names.push_back(batch.schema()->field(i)->name());
      columns.push_back(batch.column(i));
    }
    AppendJsonRow(names, columns, row, text);
  }

  TypedSlotDecoder decoder_;
};

struct SlotCounts {
  SlotDescriptor slot;
  std::unique_ptr<RowText> text_a;
  std::unique_ptr<RowText> text_b;
  uint64_t added = 0;
  uint64_t removed = 0;
  uint64_t changed = 0;
  uint64_t total() const { return added + removed + changed; }
};

std::string UidOfSlot(const SlotDescriptor& slot) {
  return slot.operator_uid.empty() ? base::ToHex16(slot.operator_id) : slot.operator_uid;
}

class Differ {
 public:
  Differ(const DiffOptions& options, Output* out) : options_(options), out_(out) {}

  Status Run(Side* a, Side* b) {
    while (a->row() != nullptr || b->row() != nullptr) {
      const bool only_a = b->row() == nullptr || (a->row() != nullptr && a->Place() < b->Place());
      const bool only_b = !only_a && (a->row() == nullptr || b->Place() < a->Place());
      if (only_a) {
        CAIRN_RETURN_IF_ERROR(Note(a, nullptr));
        CAIRN_RETURN_IF_ERROR(a->Next());
      } else if (only_b) {
        CAIRN_RETURN_IF_ERROR(Note(nullptr, b));
        CAIRN_RETURN_IF_ERROR(b->Next());
      } else {
        if (a->row()->value != b->row()->value) CAIRN_RETURN_IF_ERROR(Note(a, b));
        CAIRN_RETURN_IF_ERROR(a->Next());
        CAIRN_RETURN_IF_ERROR(b->Next());
      }
    }
    return {};
  }

  bool differs() const { return !slots_.empty(); }

  void PrintCounts() const {
    for (const auto& [id, counts] : slots_) {
      if (!options_.json) {
        out_->Line(fmt::format("{} slot {}: {} added, {} removed, {} changed",
                               UidOfSlot(counts.slot), counts.slot.name,
                               base::FormatCount(counts.added), base::FormatCount(counts.removed),
                               base::FormatCount(counts.changed)));
        continue;
      }
      const nlohmann::ordered_json line{{"operator", base::ToHex16(counts.slot.operator_id)},
                                        {"uid", counts.slot.operator_uid},
                                        {"slot", counts.slot.name},
                                        {"added", counts.added},
                                        {"removed", counts.removed},
                                        {"changed", counts.changed}};
      PrintJsonLine(line, out_);
    }
  }

 private:
  Status Note(const Side* a, const Side* b) {
    const Side* one = a != nullptr ? a : b;
    SlotCounts& counts = slots_[{one->slot().operator_id, one->slot().name}];
    if (counts.total() == 0) counts.slot = one->slot();
    ++(b == nullptr ? counts.removed : a == nullptr ? counts.added : counts.changed);
    if (options_.limit != 0 && counts.total() > options_.limit) return {};
    std::string key, before, after;
    if (a != nullptr) CAIRN_RETURN_IF_ERROR(Read(*a, &counts.text_a, &key, &before));
    if (b != nullptr) CAIRN_RETURN_IF_ERROR(Read(*b, &counts.text_b, &key, &after));
    Print(counts.slot, key, before, after);
    return {};
  }

  static Status Read(const Side& side, std::unique_ptr<RowText>* text, std::string* key,
                     std::string* value) {
    if (*text == nullptr) {
      CAIRN_ASSIGN_OR_RETURN(*text, RowText::Make(side.slot()));
    }
    CAIRN_ASSIGN_OR_RETURN(auto row, (*text)->Of(side.row()->user_key, side.row()->value));
    *key = std::move(row.first);
    *value = std::move(row.second);
    return {};
  }

  void Print(const SlotDescriptor& slot, const std::string& key, const std::string& before,
             const std::string& after) const {
    if (options_.json) {
      std::string line = "{\"uid\":";
      AppendJsonString(UidOfSlot(slot), &line);
      line += ",\"slot\":";
      AppendJsonString(slot.name, &line);
      line += ",\"key\":" + key;
      if (!before.empty()) line += ",\"a\":" + before;
      if (!after.empty()) line += ",\"b\":" + after;
      out_->Line(line + "}");
    } else if (before.empty()) {
      out_->Line("+ " + key + "  " + after);
    } else if (after.empty()) {
      out_->Line("- " + key + "  " + before);
    } else {
      out_->Line("~ " + key + "  " + before + "  ->  " + after);
    }
  }

  const DiffOptions& options_;
  Output* out_;
  std::map<std::pair<OperatorId, std::string>, SlotCounts> slots_;
};

/// The chosen slots; none, when the other side alone has them.
Result<std::vector<size_t>> Choose(const StateSource& source, const DiffOptions& options) {
  Result<std::vector<size_t>> found = source.Find(options.op, options.slot);
  if (found.ok() || found.status().code() != StatusCode::kNotFound) return found;
  return std::vector<size_t>();
}

}  // namespace

Result<ExitCode> DiffState(env::FileSystem* files, const DiffOptions& options, Output* out) {
  CAIRN_ASSIGN_OR_RETURN(const auto source_a,
                         OpenStateSource(files, options.a, options.materialisation_store));
  CAIRN_ASSIGN_OR_RETURN(const auto source_b,
                         OpenStateSource(files, options.b, options.materialisation_store));
  CAIRN_ASSIGN_OR_RETURN(const auto slots_a, Choose(*source_a, options));
  CAIRN_ASSIGN_OR_RETURN(const auto slots_b, Choose(*source_b, options));
  if (slots_a.empty() && slots_b.empty()) {
    return source_a->Find(options.op, options.slot).status();
  }
  Side a(files, source_a->key_groups());
  Side b(files, source_a->key_groups());  // the same for both, whatever b was saved with
  CAIRN_RETURN_IF_ERROR(a.Load(*source_a, slots_a));
  CAIRN_RETURN_IF_ERROR(b.Load(*source_b, slots_b));
  Differ differ(options, out);
  CAIRN_RETURN_IF_ERROR(differ.Run(&a, &b));
  differ.PrintCounts();
  return differ.differs() ? ExitCode::kNegative : ExitCode::kDone;
}

}  // namespace cairn::cli

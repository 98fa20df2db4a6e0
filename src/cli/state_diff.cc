// SPDX-License-Identifier: Apache-2.0
#include "cli/state_diff.h"

#include <fmt/format.h>

#include <algorithm>
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
#include "cli/row_fields.h"
#include "cli/slot_alignment.h"
#include "cli/slot_row.h"
#include "cli/state_source.h"
#include "cli/typed_slot.h"
#include "cli/value_text.h"
#include "env/clock.h"

namespace cairn::cli {
namespace {

using Json = nlohmann::ordered_json;
using checkpoint::RowMerge;
using checkpoint::RowSorter;
using checkpoint::SortedRow;
using Slots = std::vector<SlotDescriptor>;

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

  /// Take the rows of the chosen slots, which are read as `slots` says of each of the source's.
  Status Load(const StateSource& source, const Slots& slots, const std::vector<size_t>& chosen) {
    std::map<size_t, size_t> numbers;
    for (const size_t slot : chosen) numbers[slot] = sorter_->AddSlot(slots[slot]);
    CAIRN_RETURN_IF_ERROR(source.ScanAll([&](const StateRow& row) -> Status {
      const auto number = numbers.find(row.slot);
      if (number == numbers.end()) return {};
      CAIRN_ASSIGN_OR_RETURN(const SlotRow parts,
                             TakeApart(slots[row.slot], row.user_key, row.value));
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

struct SlotCounts {
  SlotDescriptor slot;
  std::unique_ptr<RowFieldsReader> reader_a;
  std::unique_ptr<RowFieldsReader> reader_b;
  uint64_t added = 0;
  uint64_t removed = 0;
  uint64_t changed = 0;
  uint64_t same = 0;
  std::map<std::string, uint64_t> changed_fields;  ///< rows in which a field differs; of a summary

  uint64_t differences() const { return added + removed + changed; }
  void Add(const SlotCounts& other) {
    added += other.added;
    removed += other.removed;
    changed += other.changed;
    same += other.same;
  }
};

std::string UidOfSlot(const SlotDescriptor& slot) {
  return slot.operator_uid.empty() ? base::ToHex16(slot.operator_id) : slot.operator_uid;
}

Json CountsJson(const SlotCounts& counts) {
  return {{"added", counts.added},
          {"removed", counts.removed},
          {"changed", counts.changed},
          {"same", counts.same}};
}

class Differ {
 public:
  /// `stream`: a side is a snapshot stream.
  Differ(const DiffOptions& options, bool stream, Output* out)
      : options_(options), stream_(stream), out_(out) {}

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
        CAIRN_RETURN_IF_ERROR(Note(a, b));
        CAIRN_RETURN_IF_ERROR(a->Next());
        CAIRN_RETURN_IF_ERROR(b->Next());
      }
    }
    return {};
  }

  bool differs() const {
    return std::any_of(slots_.begin(), slots_.end(),
                       [](const auto& slot) { return slot.second.differences() > 0; });
  }

  void PrintCounts() const {
    if (options_.summary && !options_.json) return PrintTable();
    std::map<std::string, SlotCounts> operators;
    for (const auto& [id, counts] : slots_) {
      if (counts.differences() == 0 && !options_.summary) continue;
      if (!options_.json) {
        out_->Line(fmt::format("{} slot {}: {} added, {} removed, {} changed",
                               UidOfSlot(counts.slot), counts.slot.name,
                               base::FormatCount(counts.added), base::FormatCount(counts.removed),
                               base::FormatCount(counts.changed)));
        continue;
      }
      Json line{{"operator", base::ToHex16(counts.slot.operator_id)},
                {"uid", counts.slot.operator_uid},
                {"slot", counts.slot.name}};
      line.update(CountsJson(counts));
      if (options_.summary) line["changed_fields"] = counts.changed_fields;
      PrintJsonLine(line, out_);
      operators[UidOfSlot(counts.slot)].Add(counts);
    }
    if (!options_.summary) return;
    for (const auto& [uid, counts] : operators) {
      Json line{{"operator_total", uid}};
      line.update(CountsJson(counts));
      PrintJsonLine(line, out_);
    }
  }

 private:
  /// One row of a side, or of both under one key.
  Status Note(const Side* a, const Side* b) {
    const Side* one = a != nullptr ? a : b;
    SlotCounts& counts = slots_[{one->slot().operator_id, one->slot().name}];
    if (counts.differences() + counts.same == 0) counts.slot = one->slot();
    if (a != nullptr && b != nullptr && a->row()->value == b->row()->value) {
      ++counts.same;
      return {};
    }
    ++(b == nullptr ? counts.removed : a == nullptr ? counts.added : counts.changed);
    const bool both = a != nullptr && b != nullptr;
    const bool shown =
        !options_.summary && (options_.limit == 0 || counts.differences() <= options_.limit);
    if (!shown && !(options_.summary && both)) return {};
    RowFields before, after;
    Status read;
    if (a != nullptr) read = Read(*a, &counts.reader_a, &before);
    if (read.ok() && b != nullptr) read = Read(*b, &counts.reader_b, &after);
    if (read.code() == StatusCode::kCorruption && stream_) {
      // The columns are the other side's: a stream may hold rows of other ones.
      counts.reader_a.reset();
      counts.reader_b.reset();
      read = {};
      if (a != nullptr) CAIRN_RETURN_IF_ERROR(ReadBytes(*a, &before));
      if (b != nullptr) CAIRN_RETURN_IF_ERROR(ReadBytes(*b, &after));
    }
    CAIRN_RETURN_IF_ERROR(read);
    std::vector<FieldChange> changes;
    if (both) changes = ChangesOf(before, after);
    for (const FieldChange& change : changes) ++counts.changed_fields[change.name];
    if (!shown) return {};
    if (options_.json) {
      PrintJson(counts.slot, a == nullptr ? nullptr : &before, b == nullptr ? nullptr : &after,
                changes);
    } else {
      PrintText(HoldsRankedRows(counts.slot), a == nullptr ? nullptr : &before,
                b == nullptr ? nullptr : &after, changes);
    }
    return {};
  }

  static Status Read(const Side& side, std::unique_ptr<RowFieldsReader>* reader, RowFields* row) {
    if (*reader == nullptr) {
      CAIRN_ASSIGN_OR_RETURN(*reader, RowFieldsReader::Make(side.slot()));
    }
    CAIRN_ASSIGN_OR_RETURN(*row, (*reader)->Read(side.row()->user_key, side.row()->value));
    return {};
  }

  static Status ReadBytes(const Side& side, RowFields* row) {
    CAIRN_ASSIGN_OR_RETURN(const auto reader, RowFieldsReader::Make(AsBytes(side.slot())));
    CAIRN_ASSIGN_OR_RETURN(*row, reader->Read(side.row()->user_key, side.row()->value));
    return {};
  }

  void PrintText(bool ranked, const RowFields* before, const RowFields* after,
                 const std::vector<FieldChange>& changes) const {
    if (before == nullptr) return out_->Line("+ " + after->key + "  " + after->ValueText(ranked));
    if (after == nullptr) return out_->Line("- " + before->key + "  " + before->ValueText(ranked));
    std::string line = "~ " + before->key + "  ";
    for (const FieldChange& change : changes) {
      line += fmt::format("{}{}: {} -> {}", &change == changes.data() ? "" : ", ", change.name,
                          change.before.empty() ? "absent" : change.before,
                          change.after.empty() ? "absent" : change.after);
    }
    out_->Line(changes.empty() ? line + "the same columns in other bytes" : line);
  }

  void PrintJson(const SlotDescriptor& slot, const RowFields* before, const RowFields* after,
                 const std::vector<FieldChange>& changes) const {
    const bool ranked = HoldsRankedRows(slot);
    std::string line = "{\"uid\":";
    AppendJsonString(UidOfSlot(slot), &line);
    line += ",\"slot\":";
    AppendJsonString(slot.name, &line);
    line += ",\"key\":" + (before != nullptr ? before : after)->key;
    if (before != nullptr) line += ",\"a\":" + before->ValueText(ranked);
    if (after != nullptr) line += ",\"b\":" + after->ValueText(ranked);
    if (before != nullptr && after != nullptr) {
      line += ",\"fields\":{";
      for (const FieldChange& change : changes) {
        if (&change != changes.data()) line += ',';
        AppendJsonString(change.name, &line);
        line += ":{";
        if (!change.before.empty()) line += "\"a\":" + change.before;
        if (!change.before.empty() && !change.after.empty()) line += ',';
        if (!change.after.empty()) line += "\"b\":" + change.after;
        line += '}';
      }
      line += '}';
    }
    out_->Line(line + "}");
  }

  void PrintTable() const {
    TextTable table("<<>>>><");
    table.Row({"OPERATOR", "SLOT", "ADDED", "REMOVED", "CHANGED", "SAME", "CHANGED FIELDS"});
    const auto row = [&](std::string uid, std::string slot, const SlotCounts& counts) {
      std::string fields;
      for (const auto& [name, rows] : counts.changed_fields) {
        fields += fmt::format("{}{} {}", fields.empty() ? "" : ", ", name, base::FormatCount(rows));
      }
      table.Row({std::move(uid), std::move(slot), base::FormatCount(counts.added),
                 base::FormatCount(counts.removed), base::FormatCount(counts.changed),
                 base::FormatCount(counts.same), std::move(fields)});
    };
    for (auto at = slots_.begin(); at != slots_.end();) {
      const OperatorId op = at->first.first;
      SlotCounts total;
      size_t slots = 0;
      std::string uid = UidOfSlot(at->second.slot);
      for (; at != slots_.end() && at->first.first == op; ++at, ++slots) {
        row(uid, at->second.slot.name, at->second);
        total.Add(at->second);
      }
      if (slots > 1) row(std::move(uid), "(all)", total);
    }
    table.Print(out_);
  }

  const DiffOptions& options_;
  const bool stream_;
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
  const AlignedSlots aligned = AlignSlots(source_a->slots(), source_b->slots());
  for (const std::string& note : aligned.notes) fmt::print(stderr, "cairn: {}\n", note);
  CAIRN_RETURN_IF_ERROR(a.Load(*source_a, aligned.a, slots_a));
  CAIRN_RETURN_IF_ERROR(b.Load(*source_b, aligned.b, slots_b));
  Differ differ(options, source_a->cut() == nullptr || source_b->cut() == nullptr, out);
  CAIRN_RETURN_IF_ERROR(differ.Run(&a, &b));
  differ.PrintCounts();
  return differ.differs() ? ExitCode::kNegative : ExitCode::kDone;
}

}  // namespace cairn::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/state_command.h"

#include <arrow/array/array_base.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "cairn/element_row_key.h"
#include "cairn/hash.h"
#include "cli/json_line.h"
#include "cli/slot_json.h"
#include "cli/slot_row.h"
#include "cli/slot_totals.h"
#include "cli/state_source.h"
#include "cli/typed_slot.h"
#include "cli/value_text.h"

namespace cairn::cli {
namespace {

constexpr int64_t kRowsPerPrint = 1024;

std::string OperatorName(const SlotDescriptor& slot) {
  return slot.operator_uid.empty() ? base::ToHex16(slot.operator_id) : slot.operator_uid;
}

/// A side of one column that no declaration named prints as its plain value.
bool PrintsPlain(const std::vector<ColumnSpec>& declared) { return declared.empty(); }

/// Print saved rows of one slot, a line each in JSON, a line a table row in text.
class RowPrinter {
 public:
  static Result<RowPrinter> Make(const SlotDescriptor& slot, bool json, Output* out) {
    CAIRN_ASSIGN_OR_RETURN(TypedSlotDecoder decoder, TypedSlotDecoder::Make(slot));
    return RowPrinter(std::move(decoder), json, out);
  }

  /// True when the row shows: headers and what has expired do not.
  Result<bool> Add(std::string_view row_key, std::string_view value) {
    const int64_t before = decoder_.rows();
    CAIRN_RETURN_IF_ERROR(decoder_.Append(row_key, value));
    if (decoder_.rows() == before) return false;
    table_rows_.push_back(decoder_.rows() - before);
    if (decoder_.rows() >= kRowsPerPrint) CAIRN_RETURN_IF_ERROR(Flush());
    return true;
  }

  Status Flush() {
    CAIRN_ASSIGN_OR_RETURN(const auto batch, decoder_.Finish());
    int64_t first = 0;
    for (const int64_t rows : table_rows_) {
      json_ ? PrintJson(*batch, first, rows) : PrintText(*batch, first, rows);
      first += rows;
    }
    table_rows_.clear();
    return {};
  }

 private:
  RowPrinter(TypedSlotDecoder decoder, bool json, Output* out)
      : decoder_(std::move(decoder)),
        json_(json),
        out_(out),
        ranked_(HoldsRankedRows(decoder_.slot())) {}

  const SlotDescriptor& slot() const { return decoder_.slot(); }

  void PrintJson(const arrow::RecordBatch& batch, int64_t first, int64_t rows) {
    std::string line = "{\"operator\":";
    AppendJsonString(OperatorName(slot()), &line);
    line += ",\"slot\":";
    AppendJsonString(slot().name, &line);
    line += ",\"key\":";
    const int keys = static_cast<int>(decoder_.key_columns());
    AppendSide(batch, 0, keys, first, PrintsPlain(slot().key_columns), &line);
    const int values = keys + static_cast<int>(decoder_.element_columns());
    const int values_end = values + static_cast<int>(decoder_.value_columns());
    if (values > keys) AppendNamed(batch, keys, first, &line);
    line += ",\"value\":";
    if (!ranked_) {
      AppendSide(batch, values, values_end, first, PrintsPlain(slot().value_columns), &line);
    } else {
      line += '[';
      for (int64_t row = first; row < first + rows; ++row) {
        if (row > first) line += ',';
        AppendSide(batch, values, values_end - 1, row, false, &line);  // the sort key says no more
      }
      line += ']';
    }
    if (decoder_.expiry_columns() > 0) AppendNamed(batch, values_end, first, &line);
    out_->Line(line + "}");
  }

  void PrintText(const arrow::RecordBatch& batch, int64_t first, int64_t rows) {
    const int values = static_cast<int>(decoder_.key_columns() + decoder_.element_columns());
    const int sort_key = ranked_ ? values + static_cast<int>(decoder_.value_columns()) - 1 : -1;
    for (int64_t row = first; row < first + rows; ++row) {
      std::string line = "  ";
      for (int i = 0; i < batch.num_columns(); ++i) {
        if (i == sort_key) continue;
        if (i > 0) line += i == values ? "  ->  " : "  ";
        line += batch.schema()->field(i)->name() + "=";
        AppendJsonValue(*batch.column(i), row, &line);
      }
      out_->Line(line);
    }
  }

  /// ,"index":7
  static void AppendNamed(const arrow::RecordBatch& batch, int column, int64_t row,
                          std::string* line) {
    *line += ",\"" + batch.schema()->field(column)->name() + "\":";
    AppendJsonValue(*batch.column(column), row, line);
  }

  static void AppendSide(const arrow::RecordBatch& batch, int first, int end, int64_t row,
                         bool plain, std::string* line) {
    if (plain && end - first == 1) {
      AppendJsonValue(*batch.column(first), row, line);
      return;
    }
    std::vector<std::string> names;
    std::vector<std::shared_ptr<arrow::Array>> columns;
    for (int i = first; i < end; ++i) {
      names.push_back(batch.schema()->field(i)->name());
      columns.push_back(batch.column(i));
    }
    AppendJsonRow(names, columns, row, line);
  }

  TypedSlotDecoder decoder_;
  bool json_;
  Output* out_;
  bool ranked_;
  std::vector<int64_t> table_rows_;  // of each saved row in the decoder
};

std::string ColumnsText(const SideShape& shape, const std::string& codec) {
  if (shape.coding == SideShape::Coding::kBytes) return codec;
  std::string text;
  for (const ColumnSpec& column : shape.columns) {
    text += (text.empty() ? "" : ", ") + column.name + " " + column.type;
  }
  return text;
}

std::string Heading(const SlotDescriptor& slot) {
  return fmt::format("{} slot {}", OperatorName(slot), slot.name);
}

/// What a slot's keys are, elements of lists and maps included.
std::string KeyText(const SlotDescriptor& slot) {
  std::string text = ColumnsText(KeyShapeOf(slot), slot.key_codec);
  if (!HasElementRows(slot.kind)) return text;
  const ColumnSpec element = ElementColumnOf(slot);
  return text + ", " + element.name + " " + element.type;
}

}  // namespace

Result<ExitCode> ListState(env::FileSystem* files, const StateOptions& options, Output* out) {
  CAIRN_ASSIGN_OR_RETURN(const auto source,
                         OpenStateSource(files, options.source, options.materialisation_store));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<SlotTotals> totals, CountSlots(*source));
  const bool some_expire =
      std::any_of(source->slots().begin(), source->slots().end(),
                  [](const SlotDescriptor& slot) { return slot.ttl.enabled(); });
  TextTable table(some_expire ? "<<>>><<" : "<<>><<");
  std::vector<std::string> head = {"OPERATOR", "SLOT", "ROWS", "BYTES", "KEY", "VALUE"};
  if (some_expire) head.insert(head.begin() + 3, "EXPIRED");
  table.Row(std::move(head));
  for (size_t i = 0; i < totals.size(); ++i) {
    const SlotDescriptor& slot = source->slots()[i];
    if (options.json) {
      auto line = SlotToJson(slot);
      line["rows"] = totals[i].rows;
      line["live"] = totals[i].live;
      line["expired"] = totals[i].expired;
      line["bytes"] = totals[i].bytes;
      PrintJsonLine(line, out);
      continue;
    }
    std::vector<std::string> cells = {OperatorName(slot),
                                      slot.name,
                                      base::FormatCount(totals[i].live),
                                      base::FormatBytes(totals[i].bytes),
                                      KeyText(slot),
                                      (HoldsRankedRows(slot) ? "ranked rows of " : "") +
                                          ColumnsText(ValueShapeOf(slot), slot.value_codec)};
    if (some_expire) {
      cells.insert(cells.begin() + 3,
                   slot.ttl.enabled() ? base::FormatCount(totals[i].expired) : "-");
    }
    table.Row(std::move(cells));
  }
  if (!options.json) table.Print(out);
  return ExitCode::kDone;
}

Result<ExitCode> PrintState(env::FileSystem* files, const StateOptions& options, Output* out) {
  CAIRN_ASSIGN_OR_RETURN(const auto source,
                         OpenStateSource(files, options.source, options.materialisation_store));
  CAIRN_ASSIGN_OR_RETURN(const auto found, source->Find(options.op, options.slot));
  for (const size_t index : found) {
    const SlotDescriptor& slot = source->slots()[index];
    if (!options.json) {
      out->Line(fmt::format("{} ({} -> {})", Heading(slot), KeyText(slot),
                            ColumnsText(ValueShapeOf(slot), slot.value_codec)));
    }
    CAIRN_ASSIGN_OR_RETURN(RowPrinter printer, RowPrinter::Make(slot, options.json, out));
    uint64_t rows = 0;
    bool more = false;
    CAIRN_RETURN_IF_ERROR(source->Scan(
        slot.operator_id, {0, source->key_groups()}, [&](const StateRow& row) -> Status {
          if (row.slot != index) return {};
          more = options.limit != 0 && rows == options.limit;
          if (more) return Status::Cancelled("enough rows");
          CAIRN_ASSIGN_OR_RETURN(const bool shown, printer.Add(row.user_key, row.value));
          rows += shown ? 1 : 0;
          return {};
        }));
    CAIRN_RETURN_IF_ERROR(printer.Flush());
    if (more) {
      fmt::print(stderr, "cairn: {}: the first {} rows; --limit 0 prints all\n", Heading(slot),
                 options.limit);
    }
  }
  return ExitCode::kDone;
}

Result<ExitCode> GetState(env::FileSystem* files, const StateOptions& options, Output* out) {
  CAIRN_ASSIGN_OR_RETURN(const auto source,
                         OpenStateSource(files, options.source, options.materialisation_store));
  CAIRN_ASSIGN_OR_RETURN(const auto found, source->Find(options.op, options.slot));
  uint64_t rows = 0;
  size_t fitting = 0;
  Status misfit;
  for (const size_t index : found) {
    const SlotDescriptor& slot = source->slots()[index];
    const SideShape shape = KeyShapeOf(slot);
    // Slots with other key columns are passed over, unless no slot has these.
    const Result<std::string> key = EncodeKeyArgument(
        options.key,
        shape.coding == SideShape::Coding::kRow ? shape.columns : std::vector<ColumnSpec>());
    if (!key.ok()) {
      misfit = key.status().WithContext(Heading(slot));
      continue;
    }
    ++fitting;
    KeyGroupRange groups{0, source->key_groups()};
    if (IsKeyed(slot.kind)) {
      // The key of a timer's row begins with the user key that decides its group.
      const std::string_view group_key =
          HasElementRows(slot.kind) ? *key : GroupKeyOfRow(slot, *key);
      const uint32_t group = KeyGroupOf(group_key, source->key_groups());
      groups = {group, group + 1};
    }
    CAIRN_ASSIGN_OR_RETURN(RowPrinter printer, RowPrinter::Make(slot, options.json, out));
    CAIRN_RETURN_IF_ERROR(
        source->Scan(slot.operator_id, groups, [&](const StateRow& row) -> Status {
          if (row.slot != index) return {};
          CAIRN_ASSIGN_OR_RETURN(const SlotRow parts, TakeApart(slot, row.user_key, row.value));
          if (parts.user_key != *key || parts.is_header || parts.expired) return {};
          if (rows++ == 0 && !options.json && found.size() > 1) out->Line(Heading(slot));
          return printer.Add(row.user_key, row.value).status();
        }));
    CAIRN_RETURN_IF_ERROR(printer.Flush());
  }
  if (fitting == 0) return misfit;
  if (rows > 0) return ExitCode::kDone;
  constexpr size_t kKeyShown = 64;
  const bool cut = options.key.size() > kKeyShown;
  fmt::print(stderr, "cairn: {} has no key {}{}\n", source->Name(),
             options.key.substr(0, kKeyShown),
             cut ? fmt::format("... ({} bytes)", options.key.size()) : "");
  return ExitCode::kNegative;
}

}  // namespace cairn::cli

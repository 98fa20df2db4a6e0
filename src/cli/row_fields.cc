// SPDX-License-Identifier: Apache-2.0
#include "cli/row_fields.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>

#include "cli/value_text.h"

namespace cairn::cli {
namespace {

constexpr std::string_view kDeadlineField = "expires_at_ms";

/// {"a":1} of the columns [first, end) of a row.
std::string ObjectOf(const arrow::RecordBatch& batch, int first, int end, int64_t row) {
  std::vector<std::string> names;
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (int i = first; i < end; ++i) {
    names.push_back(batch.schema()->field(i)->name());
    columns.push_back(batch.column(i));
  }
  std::string text;
  AppendJsonRow(names, columns, row, &text);
  return text;
}

const std::string* Find(const RowFields& row, const std::string& name) {
  for (const auto& [field, value] : row.fields) {
    if (field == name) return &value;
  }
  return nullptr;
}

}  // namespace

std::string RowFields::ValueText(bool ranked) const {
  std::string text(ranked ? "[" : "{");
  bool first = true;
  for (const auto& [name, value] : fields) {
    if (ranked && name == kDeadlineField) continue;
    if (!first) text += ',';
    first = false;
    if (!ranked) {
      AppendJsonString(name, &text);
      text += ':';
    }
    text += value;
  }
  return text + (ranked ? "]" : "}");
}

std::vector<FieldChange> ChangesOf(const RowFields& before, const RowFields& after) {
  std::vector<FieldChange> changes;
  for (const auto& [name, value] : before.fields) {
    const std::string* now = Find(after, name);
    if (now == nullptr || *now != value) {
      changes.push_back({name, value, now == nullptr ? "" : *now});
    }
  }
  for (const auto& [name, value] : after.fields) {
    if (Find(before, name) == nullptr) changes.push_back({name, "", value});
  }
  return changes;
}

RowFieldsReader::RowFieldsReader(TypedSlotDecoder decoder)
    : decoder_(std::move(decoder)), ranked_(HoldsRankedRows(decoder_.slot())) {}

Result<std::unique_ptr<RowFieldsReader>> RowFieldsReader::Make(const SlotDescriptor& slot) {
  CAIRN_ASSIGN_OR_RETURN(TypedSlotDecoder decoder, TypedSlotDecoder::Make(slot));
  return std::unique_ptr<RowFieldsReader>(new RowFieldsReader(std::move(decoder)));
}

Result<RowFields> RowFieldsReader::Read(std::string_view row_key, std::string_view value) {
  CAIRN_RETURN_IF_ERROR(decoder_.Append(row_key, value));
  CAIRN_ASSIGN_OR_RETURN(const auto batch, decoder_.Finish());
  const int keys = static_cast<int>(decoder_.key_columns() + decoder_.element_columns());
  const int values_end = keys + static_cast<int>(decoder_.value_columns());
  RowFields row;
  if (batch->num_rows() == 0) return row;
  row.key = ObjectOf(*batch, 0, keys, 0);
  if (ranked_) {
    for (int64_t rank = 0; rank < batch->num_rows(); ++rank) {
      // Rank and sort key, the last column, say no more than the place and the other columns.
      row.fields.emplace_back(fmt::format("rank {}", rank + 1),
                              ObjectOf(*batch, keys, values_end - 2, rank));
    }
  } else {
    for (int i = keys; i < values_end; ++i) {
      std::string text;
      AppendJsonValue(*batch->column(i), 0, &text);
      row.fields.emplace_back(batch->schema()->field(i)->name(), std::move(text));
    }
  }
  if (decoder_.expiry_columns() > 0) {
    std::string text;
    AppendJsonValue(*batch->column(values_end), 0, &text);
    row.fields.emplace_back(std::string(kDeadlineField), std::move(text));
  }
  return row;
}

}  // namespace cairn::cli

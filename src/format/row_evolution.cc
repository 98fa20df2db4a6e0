// SPDX-License-Identifier: Apache-2.0
#include "format/row_evolution.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coding.h"

namespace cairn::format {
namespace {

/// True when every value of `from` is one of `to`, in the same bytes or sign-extended ones.
bool Widens(const ColumnShape& from, const ColumnShape& to) {
  if (from.type == ColumnType::kInteger && to.type == ColumnType::kBigint) return true;
  if (from.type != to.type) return false;
  return from.type != ColumnType::kDecimal ||
         (from.scale == to.scale && from.precision <= to.precision);
}

Status Refused(const ColumnSpec& column, std::string_view what) {
  return Status::InvalidArgument(fmt::format("column '{}' {}", column.name, what));
}

}  // namespace

Result<RowEvolution> RowEvolution::Make(std::vector<ColumnSpec> from, std::vector<ColumnSpec> to) {
  RowEvolution evolution;
  CAIRN_ASSIGN_OR_RETURN(evolution.from_, RowCodec::Make(std::move(from)));
  CAIRN_ASSIGN_OR_RETURN(const RowCodec wanted, RowCodec::Make(std::move(to)));
  const std::vector<ColumnSpec>& old = evolution.from_.columns();
  for (const ColumnSpec& column : old) {
    const bool kept =
        std::any_of(wanted.columns().begin(), wanted.columns().end(),
                    [&](const ColumnSpec& other) { return other.name == column.name; });
    if (!kept) return Refused(column, "was removed");
  }
  for (size_t c = 0; c < wanted.columns().size(); ++c) {
    const ColumnSpec& column = wanted.columns()[c];
    Target target;
    target.nullable = column.nullable;
    target.prefixed = wanted.shapes()[c].width() == 0;
    const auto found = std::find_if(
        old.begin(), old.end(), [&](const ColumnSpec& other) { return other.name == column.name; });
    if (found == old.end()) {
      if (!column.nullable) {
        return Refused(column, "is new and NOT NULL; make it nullable, or register a migration");
      }
      evolution.targets_.push_back(target);
      continue;
    }
    target.source = static_cast<int>(found - old.begin());
    const ColumnShape& shape = evolution.from_.shapes()[static_cast<size_t>(target.source)];
    if (!Widens(shape, wanted.shapes()[c])) {
      const bool narrows = Widens(wanted.shapes()[c], shape);
      return Refused(column, fmt::format("{} from {} to {}", narrows ? "narrows" : "changes",
                                         found->type, column.type));
    }
    if (found->nullable && !column.nullable) return Refused(column, "was nullable and is NOT NULL");
    target.widened = shape.width() != wanted.shapes()[c].width();
    evolution.targets_.push_back(target);
  }
  return evolution;
}

Status RowEvolution::Convert(std::string_view row, std::string* out) const {
  std::vector<RowField> fields(from_.columns().size());
  CAIRN_RETURN_IF_ERROR(from_.Split(row, fields));
  for (const Target& target : targets_) {
    if (target.source < 0 || fields[static_cast<size_t>(target.source)].null) {
      AppendNullField(out);
      continue;
    }
    const std::string_view bytes = fields[static_cast<size_t>(target.source)].bytes;
    if (target.prefixed) {
      AppendBytesField(bytes, target.nullable, out);
    } else if (target.widened) {
      AppendFixedField<int64_t>(base::LoadLE<int32_t>(bytes.data()), target.nullable, out);
    } else {
      if (target.nullable) out->push_back('\1');
      out->append(bytes);
    }
  }
  return {};
}

std::string DescribeColumns(const std::vector<ColumnSpec>& columns) {
  std::string text;
  for (const ColumnSpec& column : columns) {
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", column.name, column.type,
                        column.nullable ? "" : " not null");
  }
  return "(" + text + ")";
}

}  // namespace cairn::format

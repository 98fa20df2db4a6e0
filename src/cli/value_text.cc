// SPDX-License-Identifier: Apache-2.0
#include "cli/value_text.h"

#include <arrow/array.h>
#include <arrow/array/builder_base.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_decimal.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/array/builder_time.h>
#include <arrow/builder.h>
#include <arrow/type.h>
#include <arrow/util/decimal.h>
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "connectors/value_text.h"
#include "format/arrow_status.h"
#include "format/row_codec.h"
#include "format/utf8.h"

namespace cairn::cli {
namespace {

void AppendJsonDouble(double value, std::string* out) {
  if (std::isfinite(value)) {
    connectors::AppendDouble(value, out);
  } else {
    *out += std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  }
}

bool IsPrintable(std::string_view bytes) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) return false;
  }
  return format::IsUtf8(bytes);
}

/// The text of a JSON scalar as the value parsers take it; `raw` keeps every digit of a number.
Result<std::string> ScalarText(const nlohmann::json& value, const ColumnSpec& column) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return std::string(value.get<bool>() ? "true" : "false");
  if (value.is_number_float() && column.type.starts_with("decimal")) {
    return Status::InvalidArgument(
        fmt::format("key column '{}' is {}: write its value as a string, so that no digit is lost",
                    column.name, column.type));
  }
  if (value.is_number()) return value.dump();
  return Status::InvalidArgument(fmt::format(
      "key column '{}' is {} and cannot be {}. Give a number, a string, true, false or null",
      column.name, column.type, value.dump()));
}

Status BadValue(const ColumnSpec& column, std::string_view text, const char* why) {
  return Status::InvalidArgument(
      fmt::format("key column '{}': '{}' is no {}: {}", column.name, text, column.type, why));
}

/// `text` with the readable bytes behind it that the number parser wants.
struct PaddedText {
  explicit PaddedText(std::string_view text) : bytes(text), size(text.size()) {
    bytes.resize(size + connectors::kTextPadding, '\0');
  }
  std::string_view view() const { return {bytes.data(), size}; }
  std::string bytes;
  size_t size;
};

Status AppendFixed(const format::ColumnShape& shape, const ColumnSpec& column,
                   const std::string& text, arrow::ArrayBuilder* builder) {
  const PaddedText padded(text);
  connectors::TextError error = nullptr;
  arrow::Status appended;
  switch (shape.type) {
    case format::ColumnType::kBigint: {
      int64_t value = 0;
      error = connectors::ParseInt64(padded.view(), &value);
      appended = static_cast<arrow::Int64Builder*>(builder)->Append(value);
      break;
    }
    case format::ColumnType::kInteger: {
      int32_t value = 0;
      error = connectors::ParseInt32(padded.view(), &value);
      appended = static_cast<arrow::Int32Builder*>(builder)->Append(value);
      break;
    }
    case format::ColumnType::kDouble: {
      double value = 0;
      error = connectors::ParseDouble(padded.view(), &value);
      appended = static_cast<arrow::DoubleBuilder*>(builder)->Append(value);
      break;
    }
    case format::ColumnType::kBoolean: {
      bool value = false;
      error = connectors::ParseBool(padded.view(), &value);
      appended = static_cast<arrow::BooleanBuilder*>(builder)->Append(value);
      break;
    }
    case format::ColumnType::kDate: {
      int32_t days = 0;
      error = connectors::ParseDate(padded.view(), &days);
      appended = static_cast<arrow::Date32Builder*>(builder)->Append(days);
      break;
    }
    case format::ColumnType::kTimestamp: {
      int64_t micros = 0;
      connectors::DateCache cache;
      error = connectors::ParseTimestamp(padded.view(), &cache, &micros);
      appended = static_cast<arrow::TimestampBuilder*>(builder)->Append(micros);
      break;
    }
    case format::ColumnType::kDecimal: {
      uint8_t bytes[16] = {};
      error = connectors::ParseDecimal(padded.view(), shape.precision, shape.scale, bytes);
      appended = static_cast<arrow::Decimal128Builder*>(builder)->Append(arrow::Decimal128(bytes));
      break;
    }
    case format::ColumnType::kText:
    case format::ColumnType::kBytes:
      return Status::Internal("text is appended elsewhere");
  }
  if (error != nullptr) return BadValue(column, text, error);
  return format::FromArrow(appended);
}

Result<std::shared_ptr<arrow::Array>> OneValue(const format::ColumnShape& shape,
                                               const ColumnSpec& column,
                                               const nlohmann::json& value) {
  CAIRN_ASSIGN_OR_RETURN(const auto type, format::ArrowTypeOf(column));
  CAIRN_ASSIGN_OR_RETURN_ARROW(const std::unique_ptr<arrow::ArrayBuilder> builder,
                               arrow::MakeBuilder(type));
  if (value.is_null()) {
    CAIRN_RETURN_IF_ARROW_ERROR(builder->AppendNull());
  } else {
    CAIRN_ASSIGN_OR_RETURN(std::string text, ScalarText(value, column));
    if (shape.type == format::ColumnType::kText) {
      CAIRN_RETURN_IF_ARROW_ERROR(static_cast<arrow::StringBuilder*>(builder.get())->Append(text));
    } else if (shape.type == format::ColumnType::kBytes) {
      CAIRN_ASSIGN_OR_RETURN(text, ParseBytesText(text));
      CAIRN_RETURN_IF_ARROW_ERROR(static_cast<arrow::BinaryBuilder*>(builder.get())->Append(text));
    } else {
      CAIRN_RETURN_IF_ERROR(AppendFixed(shape, column, text, builder.get()));
    }
  }
  CAIRN_ASSIGN_OR_RETURN_ARROW(auto array, builder->Finish());
  return array;
}

/// The values of KEY: of one column, anything that is no JSON array is the plain value.
Result<std::vector<nlohmann::json>> KeyValues(std::string_view text,
                                              const std::vector<ColumnSpec>& columns) {
  const auto parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_array()) {
    if (parsed.size() == columns.size()) {
      return parsed.get<std::vector<nlohmann::json>>();
    }
  } else if (columns.size() == 1) {
    // The text itself, so that no digit of a number passes through a double.
    if (parsed.is_string()) return std::vector<nlohmann::json>{parsed};
    if (parsed.is_null()) return std::vector<nlohmann::json>{parsed};
    return std::vector<nlohmann::json>{nlohmann::json(std::string(text))};
  }
  std::string names;
  for (const ColumnSpec& column : columns) {
    names += (names.empty() ? "" : ", ") + column.name + " " + column.type;
  }
  return Status::InvalidArgument(
      fmt::format("'{}' is no key of this slot. Give a JSON array of {} value{}: [{}]", text,
                  columns.size(), columns.size() == 1 ? "" : "s", names));
}

}  // namespace

void AppendJsonString(std::string_view text, std::string* out) {
  *out += nlohmann::json(std::string(text))
              .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void AppendJsonValue(const arrow::Array& array, int64_t row, std::string* out) {
  if (array.IsNull(row)) {
    *out += "null";
    return;
  }
  switch (array.type_id()) {
    case arrow::Type::INT64:
      connectors::AppendInt64(static_cast<const arrow::Int64Array&>(array).Value(row), out);
      return;
    case arrow::Type::INT32:
      connectors::AppendInt64(static_cast<const arrow::Int32Array&>(array).Value(row), out);
      return;
    case arrow::Type::UINT64:
      *out += std::to_string(static_cast<const arrow::UInt64Array&>(array).Value(row));
      return;
    case arrow::Type::DOUBLE:
      AppendJsonDouble(static_cast<const arrow::DoubleArray&>(array).Value(row), out);
      return;
    case arrow::Type::BOOL:
      *out += static_cast<const arrow::BooleanArray&>(array).Value(row) ? "true" : "false";
      return;
    case arrow::Type::DATE32:
      *out += '"';
      connectors::AppendDate(static_cast<const arrow::Date32Array&>(array).Value(row), out);
      *out += '"';
      return;
    case arrow::Type::TIMESTAMP:
      *out += '"';
      connectors::AppendTimestamp(static_cast<const arrow::TimestampArray&>(array).Value(row), out);
      *out += '"';
      return;
    case arrow::Type::DECIMAL128:
      *out += static_cast<const arrow::Decimal128Array&>(array).FormatValue(row);
      return;
    case arrow::Type::STRING:
      AppendJsonString(static_cast<const arrow::StringArray&>(array).GetView(row), out);
      return;
    case arrow::Type::BINARY:
      AppendJsonString(PrintableBytes(static_cast<const arrow::BinaryArray&>(array).GetView(row)),
                       out);
      return;
    default:
      AppendJsonString("value of type " + array.type()->ToString(), out);
  }
}

void AppendJsonRow(const std::vector<std::string>& names,
                   const std::vector<std::shared_ptr<arrow::Array>>& columns, int64_t row,
                   std::string* out) {
  *out += '{';
  for (size_t i = 0; i < columns.size(); ++i) {
    if (i > 0) *out += ',';
    AppendJsonString(names[i], out);
    *out += ':';
    AppendJsonValue(*columns[i], row, out);
  }
  *out += '}';
}

std::string PrintableBytes(std::string_view bytes) {
  if (!bytes.starts_with("0x") && IsPrintable(bytes)) return std::string(bytes);
  return "0x" + base::ToHex(bytes);
}

Result<std::string> ParseBytesText(std::string_view text) {
  if (!text.starts_with("0x")) return std::string(text);
  std::string bytes;
  if (base::FromHex(text.substr(2), &bytes)) return bytes;
  return Status::InvalidArgument(
      fmt::format("'{}' is no hex: give pairs of the digits 0-9 and a-f behind 0x", text));
}

Result<std::string> EncodeKeyArgument(std::string_view text,
                                      const std::vector<ColumnSpec>& columns) {
  if (columns.empty()) {
    const auto parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    const bool array = parsed.is_array() && parsed.size() == 1 && parsed[0].is_string();
    return ParseBytesText(array ? parsed[0].get<std::string>() : std::string(text));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::vector<nlohmann::json> values, KeyValues(text, columns));
  CAIRN_ASSIGN_OR_RETURN(const format::RowCodec codec,
                         format::RowCodec::Make(columns, format::RowUse::kKey));
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (size_t i = 0; i < columns.size(); ++i) {
    CAIRN_ASSIGN_OR_RETURN(auto array, OneValue(codec.shapes()[i], columns[i], values[i]));
    arrays.push_back(std::move(array));
  }
  std::vector<uint32_t> offsets;
  std::vector<char> data;
  CAIRN_RETURN_IF_ERROR(codec.Encode(arrays, nullptr, &offsets, &data, nullptr));
  return std::string(data.data(), data.size());
}

}  // namespace cairn::cli

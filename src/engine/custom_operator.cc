// SPDX-License-Identifier: Apache-2.0
//
// The seam between the stream's operators, which see Arrow, and custom ones, which do not.
#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/operator_table.h"
#include "format/arrow_status.h"
#include "format/row_codec.h"

namespace cairn::engine {
namespace {

/// Call what a user wrote.
template <class Call>
Status CallCustom(const Call& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("out of memory in a custom operator");
  } catch (const std::exception& thrown) {
    return Status::Internal(std::string("the custom operator threw: ") + thrown.what());
  } catch (...) {
    return Status::Internal("the custom operator threw something that is no std::exception");
  }
}

bool IsInteger(arrow::Type::type type) {
  return type == arrow::Type::INT64 || type == arrow::Type::INT32 || type == arrow::Type::BOOL ||
         type == arrow::Type::TIMESTAMP || type == arrow::Type::DATE32;
}

bool IsText(arrow::Type::type type) {
  return type == arrow::Type::STRING || type == arrow::Type::BINARY;
}

class ArrowInputRows final : public InputRows {
 public:
  ArrowInputRows(const stream::Batch& batch, const std::vector<ColumnSpec>& columns)
      : batch_(batch), columns_(columns) {
    for (int i = 0; i < batch.rows->num_columns(); ++i) {
      arrays_.push_back(batch.rows->column(i).get());
    }
  }

  size_t rows() const override { return static_cast<size_t>(batch_.num_rows()); }
  const std::vector<ColumnSpec>& columns() const override { return columns_; }
  bool IsNull(size_t row, size_t column) const override {
    return column >= arrays_.size() || arrays_[column]->IsNull(At(row));
  }

  int64_t Integer(size_t row, size_t column) const override {
    if (!Check(row, column, IsInteger, "Integer")) return 0;
    const arrow::Array& array = *arrays_[column];
    switch (array.type_id()) {
      case arrow::Type::INT32:
        return static_cast<const arrow::Int32Array&>(array).Value(At(row));
      case arrow::Type::DATE32:
        return static_cast<const arrow::Date32Array&>(array).Value(At(row));
      case arrow::Type::BOOL:
        return static_cast<const arrow::BooleanArray&>(array).Value(At(row)) ? 1 : 0;
      case arrow::Type::TIMESTAMP:
        return static_cast<const arrow::TimestampArray&>(array).Value(At(row));
      default:
        return static_cast<const arrow::Int64Array&>(array).Value(At(row));
    }
  }

  double Double(size_t row, size_t column) const override {
    const auto is_double = [](arrow::Type::type type) { return type == arrow::Type::DOUBLE; };
    if (!Check(row, column, is_double, "Double")) return 0;
    return static_cast<const arrow::DoubleArray&>(*arrays_[column]).Value(At(row));
  }

  std::string_view Text(size_t row, size_t column) const override {
    if (!Check(row, column, IsText, "Text")) return {};
    return static_cast<const arrow::BinaryArray&>(*arrays_[column]).GetView(At(row));
  }

  std::string_view Key(size_t row) const override {
    return batch_.keys == nullptr ? std::string_view()
                                  : batch_.keys->key(static_cast<size_t>(At(row)));
  }

  /// The first misuse of this batch.
  const Status& misuse() const { return misuse_; }

 private:
  int64_t At(size_t row) const {
    return batch_.selection ? (*batch_.selection)[row] : static_cast<int64_t>(row);
  }

  bool Check(size_t row, size_t column, bool (*is)(arrow::Type::type), const char* call) const {
    if (column < arrays_.size() && is(arrays_[column]->type_id()) && !IsNull(row, column)) {
      return true;
    }
    if (!misuse_.ok()) return false;
    const std::string what = std::string("InputRows::") + call + " of column ";
    if (column >= arrays_.size()) {
      misuse_ = Status::InvalidArgument(what + std::to_string(column) + ": there are " +
                                        std::to_string(arrays_.size()));
    } else {
      const ColumnSpec& spec = columns_[column];
      misuse_ = Status::InvalidArgument(what + spec.name +
                                        (is(arrays_[column]->type_id())
                                             ? ": it is null; ask IsNull first"
                                             : ": it is of type " + spec.type));
    }
    return false;
  }

  const stream::Batch& batch_;
  const std::vector<ColumnSpec>& columns_;
  std::vector<const arrow::Array*> arrays_;
  mutable Status misuse_;
};

class ArrowOutputRows final : public OutputRows {
 public:
  explicit ArrowOutputRows(std::shared_ptr<arrow::Schema> schema)
      : schema_(std::move(schema)), cells_(static_cast<size_t>(schema_->num_fields())) {}

  Status Open() {
    for (const auto& field : schema_->fields()) {
      std::unique_ptr<arrow::ArrayBuilder> builder;
      CAIRN_RETURN_IF_ARROW_ERROR(
          arrow::MakeBuilder(arrow::default_memory_pool(), field->type(), &builder));
      builders_.push_back(std::move(builder));
    }
    return {};
  }

  void SetInteger(size_t column, int64_t value) override {
    if (Cell* cell = CellFor(column, IsInteger, "SetInteger")) {
      cell->given = true;
      cell->integer = value;
    }
  }
  void SetDouble(size_t column, double value) override {
    const auto is_double = [](arrow::Type::type type) { return type == arrow::Type::DOUBLE; };
    if (Cell* cell = CellFor(column, is_double, "SetDouble")) {
      cell->given = true;
      cell->real = value;
    }
  }
  void SetText(size_t column, std::string_view value) override {
    if (Cell* cell = CellFor(column, IsText, "SetText")) {
      cell->given = true;
      cell->text = value;
    }
  }

  Status EndRow() override {
    Status status = std::exchange(misuse_, {});
    for (size_t i = 0; i < cells_.size() && status.ok(); ++i) {
      const arrow::Field& field = *schema_->field(static_cast<int>(i));
      if (!cells_[i].given && !field.nullable()) {
        status = Status::InvalidArgument("column " + field.name() + " is NOT NULL and was not set");
      }
    }
    for (size_t i = 0; i < cells_.size() && status.ok(); ++i) status = Append(i);
    for (Cell& cell : cells_) cell.given = false;
    if (status.ok()) ++rows_;
    return status;
  }

  /// Send the rows so far on.
  Status Send(stream::Collector* out) {
    if (rows_ == 0) return {};
    arrow::ArrayVector arrays;
    for (const auto& builder : builders_) {
      std::shared_ptr<arrow::Array> array;
      CAIRN_RETURN_IF_ARROW_ERROR(builder->Finish(&array));
      arrays.push_back(std::move(array));
    }
    stream::Batch batch;
    batch.rows = arrow::RecordBatch::Make(schema_, std::exchange(rows_, 0), std::move(arrays));
    return out->Emit(std::move(batch));
  }

 private:
  struct Cell {
    bool given = false;
    int64_t integer = 0;
    double real = 0;
    std::string text;
  };

  Cell* CellFor(size_t column, bool (*is)(arrow::Type::type), const char* call) {
    if (column < cells_.size() && is(builders_[column]->type()->id())) return &cells_[column];
    if (misuse_.ok()) {
      misuse_ = Status::InvalidArgument(
          std::string("OutputRows::") + call + " of column " + std::to_string(column) +
          (column < cells_.size()
               ? ": " + schema_->field(static_cast<int>(column))->ToString() + " is another type"
               : ": there are " + std::to_string(cells_.size())));
    }
    return nullptr;
  }

  Status Append(size_t column) {
    arrow::ArrayBuilder* builder = builders_[column].get();
    const Cell& cell = cells_[column];
    if (!cell.given) {
      CAIRN_RETURN_IF_ARROW_ERROR(builder->AppendNull());
      return {};
    }
    arrow::Status appended;
    switch (builder->type()->id()) {
      case arrow::Type::INT32:
        appended =
            static_cast<arrow::Int32Builder*>(builder)->Append(static_cast<int32_t>(cell.integer));
        break;
      case arrow::Type::DATE32:
        appended =
            static_cast<arrow::Date32Builder*>(builder)->Append(static_cast<int32_t>(cell.integer));
        break;
      case arrow::Type::BOOL:
        appended = static_cast<arrow::BooleanBuilder*>(builder)->Append(cell.integer != 0);
        break;
      case arrow::Type::TIMESTAMP:
        appended = static_cast<arrow::TimestampBuilder*>(builder)->Append(cell.integer);
        break;
      case arrow::Type::DOUBLE:
        appended = static_cast<arrow::DoubleBuilder*>(builder)->Append(cell.real);
        break;
      case arrow::Type::STRING:
      case arrow::Type::BINARY:
        appended = static_cast<arrow::BinaryBuilder*>(builder)->Append(cell.text);
        break;
      default:
        appended = static_cast<arrow::Int64Builder*>(builder)->Append(cell.integer);
    }
    CAIRN_RETURN_IF_ARROW_ERROR(appended);
    return {};
  }

  const std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::unique_ptr<arrow::ArrayBuilder>> builders_;
  std::vector<Cell> cells_;
  int64_t rows_ = 0;
  Status misuse_;
};

class CustomOperator final : public stream::Operator {
 public:
  CustomOperator(OperatorFactory factory, const std::shared_ptr<arrow::Schema>& input,
                 std::vector<int> keys, std::shared_ptr<arrow::Schema> output)
      : factory_(std::move(factory)),
        input_(input),
        keys_(std::move(keys)),
        out_(std::move(output)) {}

  Status Open(const stream::OperatorContext& context) override {
    std::vector<int> all;
    for (int i = 0; i < input_->num_fields(); ++i) all.push_back(i);
    CAIRN_ASSIGN_OR_RETURN(columns_, format::ColumnSpecsOf(*input_, all));
    OperatorPlace place;
    place.uid = context.uid;
    place.subtask = context.subtask;
    place.parallelism = context.parallelism;
    place.key_groups = context.key_groups;
    place.range = context.range;
    place.slot_hash_seed = context.slot_hash_seed;
    place.domain = context.state;
    place.output = &out_;
    CAIRN_ASSIGN_OR_RETURN(place.key_columns, format::ColumnSpecsOf(*input_, keys_));
    context_.emplace(std::move(place));
    CAIRN_RETURN_IF_ERROR(out_.Open());
    const Status opened = CallCustom([this]() -> Status {
      custom_ = factory_();
      if (custom_ == nullptr) return Status::InvalidArgument("the operator's factory gave null");
      return custom_->Open(&*context_);
    });
    context_->Seal();
    return opened;
  }

  std::vector<StateTable*> tables() override { return context_->tables(); }

  Status ProcessBatch(stream::Batch batch, stream::Collector* out) override {
    const ArrowInputRows rows(batch, columns_);
    CAIRN_RETURN_IF_ERROR(CallCustom([&] { return custom_->Process(rows, &out_); }));
    CAIRN_RETURN_IF_ERROR(rows.misuse());
    return out_.Send(out);
  }

  Status OnWatermark(int64_t time_ms, stream::Collector* out) override {
    CAIRN_RETURN_IF_ERROR(
        CallCustom([&] { return context_->AdvanceTime(TimeDomain::kEvent, time_ms); }));
    return Flush(out);  // or rows that are held back would come late
  }

  std::optional<int64_t> NextProcessingTime() override {
    return context_->NextTimer(TimeDomain::kProcessing);
  }

  Status OnProcessingTime(int64_t now_ms, stream::Collector* out) override {
    CAIRN_RETURN_IF_ERROR(
        CallCustom([&] { return context_->AdvanceTime(TimeDomain::kProcessing, now_ms); }));
    return out_.Send(out);
  }

  Status Flush(stream::Collector* out) override {
    CAIRN_RETURN_IF_ERROR(CallCustom([this] { return custom_->Flush(&out_); }));
    return out_.Send(out);
  }

 private:
  const OperatorFactory factory_;
  const std::shared_ptr<arrow::Schema> input_;
  const std::vector<int> keys_;
  std::vector<ColumnSpec> columns_;
  std::optional<RuntimeContext> context_;
  std::unique_ptr<cairn::Operator> custom_;  ///< before the context goes
  ArrowOutputRows out_;
};

class CustomOperatorFactory final : public stream::OperatorFactory {
 public:
  CustomOperatorFactory(RegisteredOperator registered, std::shared_ptr<arrow::Schema> input,
                        std::vector<int> keys, std::shared_ptr<arrow::Schema> output)
      : registered_(std::move(registered)),
        input_(std::move(input)),
        keys_(std::move(keys)),
        output_(std::move(output)) {}

  std::string name() const override { return registered_.name; }
  std::shared_ptr<arrow::Schema> output_schema() const override { return output_; }
  bool keyed() const override { return true; }
  bool updating() const override { return false; }
  std::unique_ptr<stream::Operator> Create() const override {
    return std::make_unique<CustomOperator>(registered_.factory, input_, keys_, output_);
  }
  std::string Identity() const override {
    nlohmann::json keys = nlohmann::json::array();
    for (const int key : keys_) keys.push_back(input_->field(key)->name());
    nlohmann::json columns = nlohmann::json::array();
    for (const auto& field : output_->fields()) columns.push_back(field->ToString());
    return nlohmann::json{{"operator", registered_.name},
                          {"version", registered_.version},
                          {"keys", std::move(keys)},
                          {"columns", std::move(columns)}}
        .dump();
  }

 private:
  const RegisteredOperator registered_;
  const std::shared_ptr<arrow::Schema> input_;
  const std::vector<int> keys_;
  const std::shared_ptr<arrow::Schema> output_;
};

}  // namespace

std::unique_ptr<stream::OperatorFactory> MakeCustomOperator(RegisteredOperator registered,
                                                            std::shared_ptr<arrow::Schema> input,
                                                            std::vector<int> keys,
                                                            std::shared_ptr<arrow::Schema> output) {
  return std::make_unique<CustomOperatorFactory>(std::move(registered), std::move(input),
                                                 std::move(keys), std::move(output));
}

}  // namespace cairn::engine

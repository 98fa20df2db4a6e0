// SPDX-License-Identifier: Apache-2.0
#include "cli/typed_slot.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_primitive.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>

#include <optional>
#include <set>
#include <utility>

#include "cli/slot_json.h"
#include "cli/value_text.h"
#include "format/arrow_status.h"
#include "format/row_codec.h"
#include "format/topn_codec.h"
#include "format/utf8.h"

namespace cairn::cli {
namespace {

SideShape ShapeOf(const std::string& codec, const std::vector<ColumnSpec>& columns,
                  const std::string& default_name) {
  if (!columns.empty()) return {SideShape::Coding::kRow, columns};
  if (codec == "int64") return {SideShape::Coding::kRow, {{default_name, "bigint", false}}};
  if (codec == "string") return {SideShape::Coding::kText, {{default_name, "text", false}}};
  return {SideShape::Coding::kBytes, {{default_name, "bytes", false}}};
}

/// Columns of the table beside the key's and the value's.
const ColumnSpec kRankColumn{"rank", "bigint", false};
const ColumnSpec kSortKeyColumn{"sort_key", "bytes", false};

/// All columns of the typed table; a name taken before gets "_2", "_3", ….
std::vector<ColumnSpec> TableColumns(const SlotDescriptor& slot) {
  std::vector<ColumnSpec> columns = KeyShapeOf(slot).columns;
  const SideShape value = ValueShapeOf(slot);
  columns.insert(columns.end(), value.columns.begin(), value.columns.end());
  if (HoldsRankedRows(slot)) {
    columns.push_back(kRankColumn);
    columns.push_back(kSortKeyColumn);
  }
  std::set<std::string> taken;
  for (ColumnSpec& column : columns) {
    const std::string name = column.name;
    for (int n = 2; !taken.insert(column.name).second; ++n) {
      column.name = fmt::format("{}_{}", name, n);
    }
  }
  return columns;
}

std::string SlotName(const SlotDescriptor& slot) {
  return fmt::format(
      "operator {} slot {}",
      slot.operator_uid.empty() ? base::ToHex16(slot.operator_id) : "'" + slot.operator_uid + "'",
      slot.name);
}

/// Bytes of one side into its columns.
class SideDecoder {
 public:
  static Result<SideDecoder> Make(SideShape shape) {
    SideDecoder side;
    side.shape_ = std::move(shape);
    switch (side.shape_.coding) {
      case SideShape::Coding::kRow: {
        CAIRN_ASSIGN_OR_RETURN(format::RowCodec codec, format::RowCodec::Make(side.shape_.columns));
        side.codec_ = std::make_unique<format::RowCodec>(std::move(codec));
        CAIRN_ASSIGN_OR_RETURN(format::RowDecoder decoder, format::RowDecoder::Make(*side.codec_));
        side.decoder_.emplace(std::move(decoder));
        break;
      }
      case SideShape::Coding::kText:
        side.bytes_ = std::make_unique<arrow::StringBuilder>();
        break;
      case SideShape::Coding::kBytes:
        side.bytes_ = std::make_unique<arrow::BinaryBuilder>();
        break;
    }
    return side;
  }

  size_t columns() const { return shape_.columns.size(); }

  Status Append(std::string_view bytes) {
    if (decoder_) return decoder_->Append(bytes);
    if (shape_.coding == SideShape::Coding::kText && !format::IsUtf8(bytes)) {
      return Status::Corruption("text is not UTF-8");
    }
    return format::FromArrow(bytes_->Append(bytes));
  }

  Status Finish(std::vector<std::shared_ptr<arrow::Array>>* columns) {
    if (decoder_) {
      CAIRN_ASSIGN_OR_RETURN(auto arrays, decoder_->Finish());
      columns->insert(columns->end(), arrays.begin(), arrays.end());
      return {};
    }
    std::shared_ptr<arrow::Array> array;
    CAIRN_RETURN_IF_ARROW_ERROR(bytes_->Finish(&array));
    columns->push_back(std::move(array));
    return {};
  }

 private:
  SideShape shape_;
  std::unique_ptr<format::RowCodec> codec_;  // at a fixed address: the decoder refers to it
  std::optional<format::RowDecoder> decoder_;
  std::unique_ptr<arrow::BinaryBuilder> bytes_;
};

/// Columns of one side back into bytes.
class SideEncoder {
 public:
  static Result<SideEncoder> Make(SideShape shape, format::RowUse use) {
    SideEncoder side;
    side.shape_ = std::move(shape);
    if (side.shape_.coding == SideShape::Coding::kRow) {
      CAIRN_ASSIGN_OR_RETURN(side.codec_, format::RowCodec::Make(side.shape_.columns, use));
    }
    return side;
  }

  size_t columns() const { return shape_.columns.size(); }

  /// Take the columns of a batch that begin at `first`.
  Status Bind(const arrow::RecordBatch& batch, int first) {
    arrays_.clear();
    for (size_t i = 0; i < columns(); ++i) {
      arrays_.push_back(batch.column(first + static_cast<int>(i)));
    }
    if (shape_.coding == SideShape::Coding::kRow) {
      return codec_.Encode(arrays_, nullptr, &offsets_, &data_, nullptr);
    }
    if (arrays_[0]->null_count() == 0) return {};
    return Status::InvalidArgument(
        fmt::format("column '{}' has a null in it", shape_.columns[0].name));
  }

  std::string_view bytes(int64_t row) const {
    if (shape_.coding == SideShape::Coding::kRow) {
      const auto at = static_cast<size_t>(row);
      return {data_.data() + offsets_[at], offsets_[at + 1] - offsets_[at]};
    }
    return static_cast<const arrow::BinaryArray&>(*arrays_[0]).GetView(row);
  }

 private:
  SideShape shape_;
  format::RowCodec codec_;
  std::vector<std::shared_ptr<arrow::Array>> arrays_;
  std::vector<uint32_t> offsets_;
  std::vector<char> data_;
};

}  // namespace

SideShape KeyShapeOf(const SlotDescriptor& slot) {
  return ShapeOf(slot.key_codec, slot.key_columns, "key");
}

SideShape ValueShapeOf(const SlotDescriptor& slot) {
  return ShapeOf(slot.value_codec, slot.value_columns, "value");
}

bool HoldsRankedRows(const SlotDescriptor& slot) {
  return slot.value_codec == format::kTopNCodecName && slot.version == format::kTopNCodecVersion;
}

Result<std::shared_ptr<arrow::Schema>> TypedSchemaOf(const SlotDescriptor& slot) {
  Result<std::shared_ptr<arrow::Schema>> schema = format::ArrowSchemaOf(TableColumns(slot));
  if (!schema.ok()) {
    return Status::Corruption(std::string(schema.status().message())).WithContext(SlotName(slot));
  }
  return (*schema)->WithMetadata(
      arrow::key_value_metadata({std::string(kSlotMetadataKey)}, {SlotToJson(slot).dump()}));
}

struct TypedSlotDecoder::State {
  SlotDescriptor slot;
  std::shared_ptr<arrow::Schema> schema;
  SideDecoder key;
  SideDecoder value;
  bool ranked = false;
  arrow::Int64Builder rank;
  arrow::BinaryBuilder sort_key;
  int64_t rows = 0;
  uint64_t bytes = 0;

  Status AppendRanked(std::string_view user_key, std::string_view bytes_of_value) {
    CAIRN_ASSIGN_OR_RETURN(const auto ranked_rows, format::DecodeTopN(bytes_of_value));
    for (size_t i = 0; i < ranked_rows.size(); ++i) {
      CAIRN_RETURN_IF_ERROR(key.Append(user_key));
      CAIRN_RETURN_IF_ERROR(value.Append(ranked_rows[i].row));
      CAIRN_RETURN_IF_ARROW_ERROR(rank.Append(static_cast<int64_t>(i) + 1));
      CAIRN_RETURN_IF_ARROW_ERROR(sort_key.Append(ranked_rows[i].sort_key));
      ++rows;
    }
    return {};
  }

  Status Append(std::string_view user_key, std::string_view bytes_of_value) {
    if (ranked) return AppendRanked(user_key, bytes_of_value);
    CAIRN_RETURN_IF_ERROR(key.Append(user_key));
    CAIRN_RETURN_IF_ERROR(value.Append(bytes_of_value));
    ++rows;
    return {};
  }
};

TypedSlotDecoder::TypedSlotDecoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
TypedSlotDecoder::TypedSlotDecoder(TypedSlotDecoder&&) noexcept = default;
TypedSlotDecoder& TypedSlotDecoder::operator=(TypedSlotDecoder&&) noexcept = default;
TypedSlotDecoder::~TypedSlotDecoder() = default;

Result<TypedSlotDecoder> TypedSlotDecoder::Make(SlotDescriptor slot) {
  CAIRN_ASSIGN_OR_RETURN(auto schema, TypedSchemaOf(slot));
  CAIRN_ASSIGN_OR_RETURN(SideDecoder key, SideDecoder::Make(KeyShapeOf(slot)));
  CAIRN_ASSIGN_OR_RETURN(SideDecoder value, SideDecoder::Make(ValueShapeOf(slot)));
  auto state = std::make_unique<State>();
  state->ranked = HoldsRankedRows(slot);
  state->slot = std::move(slot);
  state->schema = std::move(schema);
  state->key = std::move(key);
  state->value = std::move(value);
  return TypedSlotDecoder(std::move(state));
}

const SlotDescriptor& TypedSlotDecoder::slot() const { return state_->slot; }
const std::shared_ptr<arrow::Schema>& TypedSlotDecoder::schema() const { return state_->schema; }
size_t TypedSlotDecoder::key_columns() const { return state_->key.columns(); }
int64_t TypedSlotDecoder::rows() const { return state_->rows; }
uint64_t TypedSlotDecoder::bytes() const { return state_->bytes; }

Status TypedSlotDecoder::Append(std::string_view user_key, std::string_view value) {
  Status appended = state_->Append(user_key, value);
  if (!appended.ok()) {
    const SlotDescriptor& slot = state_->slot;
    return Status(appended.code(), fmt::format("{} key {}: {} (codecs {} and {})", SlotName(slot),
                                               PrintableBytes(user_key), appended.message(),
                                               slot.key_codec, slot.value_codec));
  }
  state_->bytes += user_key.size() + value.size();
  return {};
}

Result<std::shared_ptr<arrow::RecordBatch>> TypedSlotDecoder::Finish() {
  std::vector<std::shared_ptr<arrow::Array>> columns;
  CAIRN_RETURN_IF_ERROR(state_->key.Finish(&columns));
  CAIRN_RETURN_IF_ERROR(state_->value.Finish(&columns));
  if (state_->ranked) {
    columns.resize(columns.size() + 2);
    CAIRN_RETURN_IF_ARROW_ERROR(state_->rank.Finish(&columns[columns.size() - 2]));
    CAIRN_RETURN_IF_ARROW_ERROR(state_->sort_key.Finish(&columns.back()));
  }
  const int64_t rows = std::exchange(state_->rows, 0);
  state_->bytes = 0;
  return arrow::RecordBatch::Make(state_->schema, rows, std::move(columns));
}

struct TypedSlotEncoder::State {
  SlotDescriptor slot;
  SavedRowVisitor visit;
  std::vector<ColumnSpec> columns;
  std::shared_ptr<arrow::Schema> schema;
  SideEncoder key;
  SideEncoder value;
  bool ranked = false;
  std::optional<std::string> partition;                       // of the ranked rows gathered
  std::vector<std::pair<std::string, std::string>> gathered;  // sort key, row

  Status CheckColumns(const arrow::RecordBatch& batch) const {
    if (batch.num_columns() != schema->num_fields()) {
      return Status::InvalidArgument(fmt::format("{} has {} columns, the table has {}",
                                                 SlotName(slot), schema->num_fields(),
                                                 batch.num_columns()));
    }
    for (int i = 0; i < batch.num_columns(); ++i) {
      if (batch.column(i)->type()->Equals(schema->field(i)->type())) continue;
      return Status::InvalidArgument(
          fmt::format("column {} ('{}') of the table is {}, but {} has {} there", i + 1,
                      batch.column_name(i), batch.column(i)->type()->ToString(), SlotName(slot),
                      schema->field(i)->type()->ToString()));
    }
    return {};
  }

  Status FlushPartition() {
    if (!partition) return {};
    std::vector<format::TopNRow> rows;
    for (const auto& [sort_key, row] : gathered) rows.push_back({sort_key, row});
    std::string encoded(format::EncodedTopNBytes(rows), '\0');
    format::EncodeTopN(rows, encoded.data());
    // Decoding checks the order of the sort keys, which a table made by hand may break.
    if (Result<std::vector<format::TopNRow>> checked = format::DecodeTopN(encoded); !checked.ok()) {
      return Status::InvalidArgument(fmt::format(
          "{} key {}: {}", SlotName(slot), PrintableBytes(*partition), checked.status().message()));
    }
    Status visited = visit(*partition, encoded);
    partition.reset();
    gathered.clear();
    return visited;
  }

  Status GatherRanked(std::string_view user_key, std::string_view row, int64_t rank,
                      std::string_view sort_key) {
    if (partition != user_key) {
      CAIRN_RETURN_IF_ERROR(FlushPartition());
      partition = std::string(user_key);
    }
    if (rank != static_cast<int64_t>(gathered.size()) + 1) {
      return Status::InvalidArgument(fmt::format(
          "{} key {}: rank {} follows {} rows. Keep the ranked rows of a key together, in order",
          SlotName(slot), PrintableBytes(user_key), rank, gathered.size()));
    }
    gathered.emplace_back(sort_key, row);
    return {};
  }
};

TypedSlotEncoder::TypedSlotEncoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
TypedSlotEncoder::TypedSlotEncoder(TypedSlotEncoder&&) noexcept = default;
TypedSlotEncoder& TypedSlotEncoder::operator=(TypedSlotEncoder&&) noexcept = default;
TypedSlotEncoder::~TypedSlotEncoder() = default;

Result<TypedSlotEncoder> TypedSlotEncoder::Make(SlotDescriptor slot, SavedRowVisitor visit) {
  CAIRN_ASSIGN_OR_RETURN(auto schema, TypedSchemaOf(slot));
  CAIRN_ASSIGN_OR_RETURN(SideEncoder key,
                         SideEncoder::Make(KeyShapeOf(slot), format::RowUse::kKey));
  CAIRN_ASSIGN_OR_RETURN(SideEncoder value,
                         SideEncoder::Make(ValueShapeOf(slot), format::RowUse::kValue));
  auto state = std::make_unique<State>();
  state->columns = TableColumns(slot);
  state->ranked = HoldsRankedRows(slot);
  state->slot = std::move(slot);
  state->visit = std::move(visit);
  state->schema = std::move(schema);
  state->key = std::move(key);
  state->value = std::move(value);
  return TypedSlotEncoder(std::move(state));
}

Status TypedSlotEncoder::Append(const arrow::RecordBatch& batch) {
  CAIRN_RETURN_IF_ERROR(state_->CheckColumns(batch));
  const int value_at = static_cast<int>(state_->key.columns());
  const int rank_at = value_at + static_cast<int>(state_->value.columns());
  for (const Status& bound : {state_->key.Bind(batch, 0), state_->value.Bind(batch, value_at)}) {
    if (!bound.ok()) return bound.WithContext(SlotName(state_->slot));
  }
  if (!state_->ranked) {
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      CAIRN_RETURN_IF_ERROR(state_->visit(state_->key.bytes(row), state_->value.bytes(row)));
    }
    return {};
  }
  const auto& rank = static_cast<const arrow::Int64Array&>(*batch.column(rank_at));
  const auto& sort_key = static_cast<const arrow::BinaryArray&>(*batch.column(rank_at + 1));
  if (rank.null_count() + sort_key.null_count() > 0) {
    return Status::InvalidArgument(SlotName(state_->slot) + ": rank and sort_key may not be null");
  }
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    CAIRN_RETURN_IF_ERROR(state_->GatherRanked(state_->key.bytes(row), state_->value.bytes(row),
                                               rank.Value(row), sort_key.GetView(row)));
  }
  return {};
}

Status TypedSlotEncoder::Finish() { return state_->FlushPartition(); }

}  // namespace cairn::cli

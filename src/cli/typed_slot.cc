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

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/coding.h"
#include "cli/slot_json.h"
#include "cli/slot_row.h"
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
const ColumnSpec kExpiryColumn{"expires_at_ms", "bigint", true};

/// All columns of the typed table; a name taken before gets "_2", "_3", ….
std::vector<ColumnSpec> TableColumns(const SlotDescriptor& slot) {
  std::vector<ColumnSpec> columns = KeyShapeOf(slot).columns;
  if (HasElementRows(slot.kind)) columns.push_back(ElementColumnOf(slot));
  const SideShape value = ValueShapeOf(slot);
  columns.insert(columns.end(), value.columns.begin(), value.columns.end());
  if (HoldsRankedRows(slot)) {
    columns.push_back(kRankColumn);
    columns.push_back(kSortKeyColumn);
  }
  if (slot.ttl.enabled()) columns.push_back(kExpiryColumn);
  std::set<std::string> taken;
  for (ColumnSpec& column : columns) {
    const std::string name = column.name;
    for (int n = 2; !taken.insert(column.name).second; ++n) {
      column.name = fmt::format("{}_{}", name, n);
    }
  }
  return columns;
}

SideShape ElementShapeOf(const SlotDescriptor& slot) {
  const ColumnSpec column = ElementColumnOf(slot);
  const auto coding = column.type == "text"    ? SideShape::Coding::kText
                      : column.type == "bytes" ? SideShape::Coding::kBytes
                                               : SideShape::Coding::kRow;
  return {coding, {column}};
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
  return !HasElementRows(slot.kind) && slot.value_codec == format::kTopNCodecName &&
         slot.version == format::kTopNCodecVersion;
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
  std::optional<SideDecoder> element;  // of a list or map
  SideDecoder value;
  arrow::Int64Builder expires_at_ms;  // with a TTL
  bool ranked = false;
  arrow::Int64Builder rank;
  arrow::BinaryBuilder sort_key;
  int64_t rows = 0;
  uint64_t bytes = 0;

  Status AppendRanked(const SlotRow& row) {
    CAIRN_ASSIGN_OR_RETURN(const auto ranked_rows, format::DecodeTopN(row.value));
    for (size_t i = 0; i < ranked_rows.size(); ++i) {
      CAIRN_RETURN_IF_ERROR(key.Append(row.user_key));
      CAIRN_RETURN_IF_ERROR(value.Append(ranked_rows[i].row));
      CAIRN_RETURN_IF_ERROR(AppendExpiry(row));
      CAIRN_RETURN_IF_ARROW_ERROR(rank.Append(static_cast<int64_t>(i) + 1));
      CAIRN_RETURN_IF_ARROW_ERROR(sort_key.Append(ranked_rows[i].sort_key));
      ++rows;
    }
    return {};
  }

  Status AppendExpiry(const SlotRow& row) {
    if (!slot.ttl.enabled()) return {};
    return format::FromArrow(row.expires_at_ms ? expires_at_ms.Append(*row.expires_at_ms)
                                               : expires_at_ms.AppendNull());
  }

  Status AppendElementKey(std::string_view element_key) {
    if (!HasOrderedElementKeys(slot)) return element->Append(element_key);
    CAIRN_ASSIGN_OR_RETURN(const std::string plain, PlainElementKey(slot, element_key));
    return element->Append(plain);
  }

  Status Append(std::string_view row_key, std::string_view bytes_of_value) {
    CAIRN_ASSIGN_OR_RETURN(const SlotRow row, TakeApart(slot, row_key, bytes_of_value));
    if (row.is_header || row.expired) return {};
    if (ranked) return AppendRanked(row);
    CAIRN_RETURN_IF_ERROR(key.Append(row.user_key));
    if (element) CAIRN_RETURN_IF_ERROR(AppendElementKey(row.element_key));
    CAIRN_RETURN_IF_ERROR(value.Append(row.value));
    CAIRN_RETURN_IF_ERROR(AppendExpiry(row));
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
  if (HasElementRows(slot.kind)) {
    CAIRN_ASSIGN_OR_RETURN(state->element, SideDecoder::Make(ElementShapeOf(slot)));
  }
  state->slot = std::move(slot);
  state->schema = std::move(schema);
  state->key = std::move(key);
  state->value = std::move(value);
  return TypedSlotDecoder(std::move(state));
}

const SlotDescriptor& TypedSlotDecoder::slot() const { return state_->slot; }
const std::shared_ptr<arrow::Schema>& TypedSlotDecoder::schema() const { return state_->schema; }
size_t TypedSlotDecoder::key_columns() const { return state_->key.columns(); }
size_t TypedSlotDecoder::element_columns() const { return state_->element ? 1 : 0; }
size_t TypedSlotDecoder::value_columns() const {
  return state_->value.columns() + (state_->ranked ? 2 : 0);
}
size_t TypedSlotDecoder::expiry_columns() const { return state_->slot.ttl.enabled() ? 1 : 0; }
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
  if (state_->element) CAIRN_RETURN_IF_ERROR(state_->element->Finish(&columns));
  CAIRN_RETURN_IF_ERROR(state_->value.Finish(&columns));
  if (state_->ranked) {
    columns.resize(columns.size() + 2);
    CAIRN_RETURN_IF_ARROW_ERROR(state_->rank.Finish(&columns[columns.size() - 2]));
    CAIRN_RETURN_IF_ARROW_ERROR(state_->sort_key.Finish(&columns.back()));
  }
  if (state_->slot.ttl.enabled()) {
    columns.emplace_back();
    CAIRN_RETURN_IF_ARROW_ERROR(state_->expires_at_ms.Finish(&columns.back()));
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
  std::optional<SideEncoder> element;  // of a list or map
  SideEncoder value;
  bool ranked = false;
  std::optional<std::string> partition;     // of the rows gathered
  std::optional<int64_t> partition_expiry;  // of ranked rows
  uint64_t elements = 0;                    // of the list or map gathered
  uint64_t next_index = 0;
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
    SlotRow row;
    row.user_key = *partition;
    row.value = encoded;
    row.expires_at_ms = partition_expiry;
    Status visited = Visit(PutTogether(slot, row));
    partition.reset();
    gathered.clear();
    return visited;
  }

  Status Visit(const SavedSlotRow& row) { return visit(row.key, row.value); }

  Status FlushCollection() {
    if (!partition) return {};
    Status visited = Visit(HeaderRow(*partition, elements, next_index));
    partition.reset();
    elements = next_index = 0;
    return visited;
  }

  Status AppendElement(SlotRow row, std::string_view element_key) {
    if (partition != row.user_key) {
      CAIRN_RETURN_IF_ERROR(FlushCollection());
      partition = std::string(row.user_key);
    }
    ++elements;
    const std::string ordered =
        HasOrderedElementKeys(slot) ? OrderedElementKey(slot, element_key) : std::string();
    row.element_key = HasOrderedElementKeys(slot) ? std::string_view(ordered) : element_key;
    if (slot.kind == SlotKind::kKeyedList) {
      const auto index = base::LoadLE<int64_t>(element_key.data());
      if (index < 0) {
        return Status::InvalidArgument(fmt::format("{} key {}: index {}", SlotName(slot),
                                                   PrintableBytes(row.user_key), index));
      }
      next_index = std::max(next_index, static_cast<uint64_t>(index) + 1);
    }
    return Visit(PutTogether(slot, row));
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
  if (HasElementRows(slot.kind)) {
    CAIRN_ASSIGN_OR_RETURN(state->element,
                           SideEncoder::Make(ElementShapeOf(slot), format::RowUse::kKey));
  }
  state->slot = std::move(slot);
  state->visit = std::move(visit);
  state->schema = std::move(schema);
  state->key = std::move(key);
  state->value = std::move(value);
  return TypedSlotEncoder(std::move(state));
}

Status TypedSlotEncoder::Append(const arrow::RecordBatch& batch) {
  CAIRN_RETURN_IF_ERROR(state_->CheckColumns(batch));
  const int element_at = static_cast<int>(state_->key.columns());
  const int value_at = element_at + (state_->element ? 1 : 0);
  const int rank_at = value_at + static_cast<int>(state_->value.columns());
  for (const Status& bound :
       {state_->key.Bind(batch, 0), state_->value.Bind(batch, value_at),
        state_->element ? state_->element->Bind(batch, element_at) : Status()}) {
    if (!bound.ok()) return bound.WithContext(SlotName(state_->slot));
  }
  const auto* expiry =
      state_->slot.ttl.enabled()
          ? static_cast<const arrow::Int64Array*>(batch.column(batch.num_columns() - 1).get())
          : nullptr;
  const auto expires_at = [&](int64_t row) -> std::optional<int64_t> {
    if (expiry == nullptr || expiry->IsNull(row)) return std::nullopt;
    return expiry->Value(row);
  };
  if (!state_->ranked) {
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      SlotRow one;
      one.user_key = state_->key.bytes(row);
      one.value = state_->value.bytes(row);
      one.expires_at_ms = expires_at(row);
      CAIRN_RETURN_IF_ERROR(state_->element
                                ? state_->AppendElement(one, state_->element->bytes(row))
                                : state_->Visit(PutTogether(state_->slot, one)));
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
    state_->partition_expiry = expires_at(row);
  }
  return {};
}

Status TypedSlotEncoder::Finish() {
  return state_->element ? state_->FlushCollection() : state_->FlushPartition();
}

}  // namespace cairn::cli

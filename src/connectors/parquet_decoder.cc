// SPDX-License-Identifier: Apache-2.0
#include "connectors/parquet_decoder.h"

#include <arrow/array/array_binary.h>
#include <arrow/compute/cast.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <algorithm>

#include "connectors/arrow_files.h"
#include "connectors/arrow_status.h"
#include "connectors/block_reader.h"
#include "format/utf8.h"
#include "stream/table_definition.h"

namespace cairn::connectors {
namespace {

/// Run `call`, which uses Parquet's C++ API, and turn what it throws into a Status.
template <class Call>
auto Guarded(const std::string& path, Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("no memory to read " + path);
  } catch (const std::exception& error) {
    return Status::InvalidArgument(path + " is not a readable Parquet file: " + error.what());
  }
}

/// What Arrow says of a file of input. Whatever is wrong with its bytes is bad input: Arrow tells
/// some of it as failures of the disk, whose own are kept in `input`.
Status ReadStatus(const arrow::Status& status, const ArrowInput& input, const std::string& path) {
  if (status.ok()) return {};
  if (!input.failure().ok()) return input.failure().WithContext("reading " + path);
  if (status.IsOutOfMemory() || status.IsCapacityError()) {
    return Status::ResourceExhausted(path + ": " + status.message());
  }
  return Status::InvalidArgument(path + " is not a readable Parquet file: " + status.message());
}

/// A Parquet file and what it is read through.
struct ParquetFile {
  std::shared_ptr<ArrowInput> input;
  std::unique_ptr<parquet::arrow::FileReader> reader;
};

Result<ParquetFile> OpenFile(std::shared_ptr<const env::RandomAccessFile> file,
                             const std::string& path) {
  ParquetFile opened;
  opened.input = std::make_shared<ArrowInput>(std::move(file));
  parquet::ReaderProperties checked = parquet::default_reader_properties();
  checked.set_page_checksum_verification(true);
  parquet::arrow::FileReaderBuilder builder;
  CAIRN_RETURN_IF_ERROR(ReadStatus(builder.Open(opened.input, checked), *opened.input, path));
  parquet::ArrowReaderProperties properties(/*use_threads=*/false);
  properties.set_batch_size(kBatchRows);
  properties.set_pre_buffer(false);  // it would read ahead on Arrow's I/O threads
  builder.properties(properties);
  auto reader = builder.Build();
  CAIRN_RETURN_IF_ERROR(ReadStatus(reader.status(), *opened.input, path));
  opened.reader = *std::move(reader);
  return opened;
}

bool IsText(arrow::Type::type id) {
  return id == arrow::Type::STRING || id == arrow::Type::LARGE_STRING ||
         id == arrow::Type::STRING_VIEW || id == arrow::Type::BINARY ||
         id == arrow::Type::LARGE_BINARY || id == arrow::Type::BINARY_VIEW;
}

/// True when every value of the table's type comes from one of the file's by an exact cast.
bool Fits(const arrow::DataType& in_file, const arrow::DataType& in_table) {
  const auto id = in_file.id();
  if (id == arrow::Type::DICTIONARY) {
    return Fits(*static_cast<const arrow::DictionaryType&>(in_file).value_type(), in_table);
  }
  switch (in_table.id()) {
    case arrow::Type::INT64:
    case arrow::Type::INT32:
      return arrow::is_integer(id);
    case arrow::Type::DOUBLE:
      return arrow::is_floating(id);
    case arrow::Type::STRING:
      return IsText(id);
    case arrow::Type::DATE32:
      return id == arrow::Type::DATE32 || id == arrow::Type::DATE64;
    case arrow::Type::DECIMAL128:
      return arrow::is_decimal(id);
    default:
      return id == in_table.id();
  }
}

/// The place of a top-level column in the file; -1 = none.
int FindField(const parquet::arrow::SchemaManifest& manifest, const std::string& name) {
  int place = -1;
  for (size_t i = 0; i < manifest.schema_fields.size(); ++i) {
    if (manifest.schema_fields[i].field->name() == name) {
      if (place >= 0) return -2;
      place = static_cast<int>(i);
    }
  }
  return place;
}

Status CheckField(const parquet::arrow::SchemaManifest& manifest, const std::string& path,
                  const arrow::Field& column) {
  const int place = FindField(manifest, column.name());
  if (place < 0) {
    std::string list;
    for (const auto& field : manifest.schema_fields) {
      list += (list.empty() ? "" : ", ") + field.field->name();
    }
    return Status::InvalidArgument(path +
                                   (place == -1 ? " has no column " : " has twice the column ") +
                                   column.name() + "; its schema names: " + list);
  }
  const auto& type = *manifest.schema_fields[static_cast<size_t>(place)].field->type();
  if (!Fits(type, *column.type())) {
    return Status::InvalidArgument(path + ", column " + column.name() + ": the file's type " +
                                   type.ToString() + " cannot be read as " +
                                   stream::SqlTypeName(*column.type()));
  }
  return {};
}

class ParquetDecoder final : public SplitDecoder {
 public:
  ParquetDecoder(ParquetFile file, std::string path, std::shared_ptr<arrow::Schema> schema,
                 std::unique_ptr<arrow::RecordBatchReader> rows, uint64_t rows_in_group,
                 uint64_t first_row)
      : file_(std::move(file)),
        path_(std::move(path)),
        schema_(std::move(schema)),
        rows_(std::move(rows)),
        rows_in_group_(rows_in_group),
        first_row_(first_row) {}

  Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    return Guarded(path_, [this] { return ReadNext(); });
  }

  uint64_t position() const override { return std::max(row_, first_row_); }

 private:
  Result<std::shared_ptr<arrow::RecordBatch>> ReadNext() {
    if (schema_->num_fields() == 0) return CountOnly();
    for (;;) {
      std::shared_ptr<arrow::RecordBatch> batch;
      CAIRN_RETURN_IF_ERROR(ReadStatus(rows_->ReadNext(&batch), *file_.input, path_));
      if (batch == nullptr) {
        if (row_ != rows_in_group_) {
          return Status::InvalidArgument(path_ + ": a row group ends after " +
                                         std::to_string(row_) + " rows, its footer says " +
                                         std::to_string(rows_in_group_));
        }
        return std::shared_ptr<arrow::RecordBatch>();
      }
      const uint64_t begin = row_;
      row_ += static_cast<uint64_t>(batch->num_rows());
      if (row_ <= first_row_) continue;  // returned before the checkpoint
      if (begin < first_row_) batch = batch->Slice(static_cast<int64_t>(first_row_ - begin));
      return ToTable(*batch, std::max(begin, first_row_));
    }
  }

  Result<std::shared_ptr<arrow::RecordBatch>> CountOnly() {
    row_ = std::max(row_, first_row_);
    const uint64_t rows =
        std::min<uint64_t>(static_cast<uint64_t>(kBatchRows), rows_in_group_ - row_);
    if (rows == 0) return std::shared_ptr<arrow::RecordBatch>();
    row_ += rows;
    return arrow::RecordBatch::Make(schema_, static_cast<int64_t>(rows), arrow::ArrayVector());
  }

  Result<std::shared_ptr<arrow::RecordBatch>> ToTable(const arrow::RecordBatch& batch,
                                                      uint64_t first_row) {
    arrow::ArrayVector arrays;
    for (const std::shared_ptr<arrow::Field>& field : schema_->fields()) {
      const std::string context = path_ + ", column " + field->name();
      std::shared_ptr<arrow::Array> array = batch.GetColumnByName(field->name());
      if (array == nullptr) return Status::Internal(context + ": the column was not read");
      if (!array->type()->Equals(*field->type())) {
        arrow::compute::CastOptions options = arrow::compute::CastOptions::Safe();
        options.allow_time_truncate = field->type()->id() == arrow::Type::TIMESTAMP;
        auto cast = arrow::compute::Cast(*array, field->type(), options);
        if (!cast.ok()) return Status::InvalidArgument(context + ": " + cast.status().message());
        array = *std::move(cast);
      }
      if (!field->nullable() && array->null_count() != 0) {
        return Status::InvalidArgument(context + ": the column is NOT NULL and a row from " +
                                       std::to_string(first_row + 1) + " to " +
                                       std::to_string(row_) + " of its row group is null");
      }
      CAIRN_RETURN_IF_ERROR(CheckText(*array, context));
      arrays.push_back(std::move(array));
    }
    return arrow::RecordBatch::Make(schema_, batch.num_rows(), std::move(arrays));
  }

  static Status CheckText(const arrow::Array& array, const std::string& context) {
    if (array.type_id() != arrow::Type::STRING) return {};
    const auto& text = static_cast<const arrow::StringArray&>(array);
    if (text.value_data() == nullptr) return {};
    const char* const begin =
        reinterpret_cast<const char*>(text.value_data()->data()) + text.value_offset(0);
    if (format::IsUtf8({begin, static_cast<size_t>(text.total_values_length())})) return {};
    return Status::InvalidArgument(context + ": a value is not valid UTF-8");
  }

  ParquetFile file_;
  std::string path_;
  std::shared_ptr<arrow::Schema> schema_;
  std::unique_ptr<arrow::RecordBatchReader> rows_;
  uint64_t rows_in_group_;
  uint64_t first_row_;
  uint64_t row_ = 0;  ///< rows of the group that were read
};

}  // namespace

Result<uint64_t> CheckParquetFile(const std::shared_ptr<const env::RandomAccessFile>& file,
                                  const std::string& path, const arrow::Schema& table) {
  return Guarded(path, [&]() -> Result<uint64_t> {
    CAIRN_ASSIGN_OR_RETURN(const ParquetFile opened, OpenFile(file, path));
    const parquet::arrow::FileReader* const reader = opened.reader.get();
    for (const std::shared_ptr<arrow::Field>& column : table.fields()) {
      CAIRN_RETURN_IF_ERROR(CheckField(reader->manifest(), path, *column));
    }
    return static_cast<uint64_t>(reader->num_row_groups());
  });
}

Result<std::unique_ptr<SplitDecoder>> OpenParquetDecoder(
    std::shared_ptr<const env::RandomAccessFile> file, const std::string& path,
    const ColumnSet& columns, uint64_t row_group, uint64_t first_row) {
  return Guarded(path, [&]() -> Result<std::unique_ptr<SplitDecoder>> {
    CAIRN_ASSIGN_OR_RETURN(ParquetFile opened, OpenFile(std::move(file), path));
    parquet::arrow::FileReader* const reader = opened.reader.get();
    if (row_group >= static_cast<uint64_t>(reader->num_row_groups())) {
      return Status::InvalidArgument(path + " has no row group " + std::to_string(row_group));
    }
    const auto& manifest = reader->manifest();
    std::vector<int> places;
    for (const std::shared_ptr<arrow::Field>& column : columns.schema->fields()) {
      CAIRN_RETURN_IF_ERROR(CheckField(manifest, path, *column));
      const auto& field =
          manifest.schema_fields[static_cast<size_t>(FindField(manifest, column->name()))];
      places.push_back(field.column_index);
    }
    std::unique_ptr<arrow::RecordBatchReader> rows;
    if (!places.empty()) {
      auto in_group = reader->GetRecordBatchReader({static_cast<int>(row_group)}, places);
      CAIRN_RETURN_IF_ERROR(ReadStatus(in_group.status(), *opened.input, path));
      rows = *std::move(in_group);
    }
    const auto metadata = reader->parquet_reader()->metadata();
    const uint64_t rows_in_group =
        static_cast<uint64_t>(metadata->RowGroup(static_cast<int>(row_group))->num_rows());
    if (first_row > rows_in_group) {
      return Status::InvalidArgument(path + ": row " + std::to_string(first_row) +
                                     " of a row group of " + std::to_string(rows_in_group));
    }
    std::unique_ptr<SplitDecoder> decoder = std::make_unique<ParquetDecoder>(
        std::move(opened), path, columns.schema, std::move(rows), rows_in_group, first_row);
    return decoder;
  });
}

}  // namespace cairn::connectors

// SPDX-License-Identifier: Apache-2.0
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/initialize.h>
#include <arrow/datum.h>
#include <arrow/util/compression.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <numeric>

#include "connectors/arrow_files.h"
#include "connectors/arrow_status.h"
#include "connectors/file_encoder.h"
#include "connectors/parquet_row_group.h"

namespace cairn::connectors {
namespace {

/// A row group is a split when the file is read, and is held in memory until it is full.
constexpr int64_t kRowGroupRows = 128 * 1024;
constexpr int64_t kRowGroupBytes = int64_t{128} << 20;

Result<arrow::Compression::type> CompressionOf(const std::string& name) {
  if (name == "none") return arrow::Compression::UNCOMPRESSED;
  if (name == "snappy") return arrow::Compression::SNAPPY;
  if (name == "zstd") return arrow::Compression::ZSTD;
  if (name == "lz4") return arrow::Compression::LZ4;
  if (name == "gzip") return arrow::Compression::GZIP;
  return Status::InvalidArgument("unknown compression '" + name +
                                 "': use none, snappy, zstd, lz4 or gzip");
}

class ParquetEncoder final : public FileEncoder {
 public:
  ParquetEncoder(bool changelog, std::shared_ptr<arrow::Schema> schema, env::WritableFile* file)
      : changelog_(changelog),
        schema_(std::move(schema)),
        output_(std::make_shared<ArrowOutput>(file)) {}

  Status Open(arrow::Compression::type compression) {
    file_schema_ = schema_;
    if (changelog_) {
      auto with_op = schema_->AddField(0, arrow::field("op", arrow::utf8(), false));
      if (!with_op.ok()) return FromArrow(with_op.status(), "a Parquet sink");
      file_schema_ = *std::move(with_op);
    }
    auto properties = parquet::WriterProperties::Builder()
                          .compression(compression)
                          ->max_row_group_length(kRowGroupRows)
                          ->enable_page_checksum()
                          ->build();
    auto arrow_properties = parquet::ArrowWriterProperties::Builder().build();
    auto writer = parquet::arrow::FileWriter::Open(*file_schema_, arrow::default_memory_pool(),
                                                   output_, properties, arrow_properties);
    CAIRN_RETURN_IF_ERROR(Explain(writer.status()));
    writer_ = *std::move(writer);
    return {};
  }

  Status Write(const stream::Batch& batch) override {
    return Guarded([&]() -> Status {
      std::shared_ptr<arrow::RecordBatch> rows = batch.rows;
      CAIRN_RETURN_IF_ERROR(CheckColumns(*rows));
      if (batch.selection) {
        CAIRN_ASSIGN_OR_RETURN(rows, Selected(batch));
      }
      arrow::ArrayVector columns = rows->columns();
      if (changelog_) {
        CAIRN_ASSIGN_OR_RETURN(auto kinds, Kinds(batch));
        columns.insert(columns.begin(), std::move(kinds));
      }
      const auto out = arrow::RecordBatch::Make(file_schema_, rows->num_rows(), columns);
      CAIRN_RETURN_IF_ERROR(Explain(row_group_.MakeRoom(*out, writer_.get())));
      return Explain(writer_->WriteRecordBatch(*out));
    });
  }

  Status Finish() override {
    return Guarded([&]() -> Status { return Explain(writer_->Close()); });
  }

  uint64_t bytes() const override { return static_cast<uint64_t>(output_->written()); }

 private:
  template <class Call>
  Status Guarded(Call call) {
    try {
      return call();
    } catch (const std::bad_alloc&) {
      return Status::ResourceExhausted("no memory to write Parquet");
    } catch (const std::exception& error) {
      return Explain(arrow::Status::UnknownError(error.what()));
    }
  }

  Status Explain(const arrow::Status& status) const {
    return output_->Explain(status, "writing Parquet");
  }

  Status CheckColumns(const arrow::RecordBatch& rows) const {
    bool same = rows.num_columns() == schema_->num_fields();
    for (int c = 0; same && c < rows.num_columns(); ++c) {
      same = rows.column_data(c)->type->Equals(*schema_->field(c)->type());
    }
    if (same) return {};
    return Status::InvalidArgument("a sink of columns (" + schema_->ToString() +
                                   ") was given rows of (" + rows.schema()->ToString() + ")");
  }

  Result<std::shared_ptr<arrow::RecordBatch>> Selected(const stream::Batch& batch) const {
    arrow::UInt32Builder indices;
    CAIRN_RETURN_IF_ERROR(Explain(indices.AppendValues(*batch.selection)));
    auto array = indices.Finish();
    CAIRN_RETURN_IF_ERROR(Explain(array.status()));
    auto taken = arrow::compute::Take(arrow::Datum(batch.rows), arrow::Datum(*array),
                                      arrow::compute::TakeOptions::NoBoundsCheck());
    CAIRN_RETURN_IF_ERROR(Explain(taken.status()));
    return taken->record_batch();
  }

  Result<std::shared_ptr<arrow::Array>> Kinds(const stream::Batch& batch) const {
    arrow::StringBuilder builder;
    for (int64_t i = 0; i < batch.num_rows(); ++i) {
      const int64_t row = batch.selection ? (*batch.selection)[static_cast<size_t>(i)] : i;
      CAIRN_RETURN_IF_ERROR(Explain(builder.Append(stream::RowKindText(batch.kind(row)))));
    }
    auto array = builder.Finish();
    CAIRN_RETURN_IF_ERROR(Explain(array.status()));
    return *array;
  }

  bool changelog_;
  std::shared_ptr<arrow::Schema> schema_;
  std::shared_ptr<arrow::Schema> file_schema_;
  std::shared_ptr<ArrowOutput> output_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
  RowGroupBytes row_group_{kRowGroupBytes};
};

}  // namespace

Status CheckParquetCompression(const std::string& compression) {
  CAIRN_ASSIGN_OR_RETURN(const arrow::Compression::type type, CompressionOf(compression));
  if (arrow::util::Codec::IsAvailable(type)) return {};
  return Status::InvalidArgument("compression '" + compression +
                                 "' is not in this build of Arrow; use none");
}

Result<std::unique_ptr<FileEncoder>> MakeParquetEncoder(bool changelog,
                                                        const std::string& compression,
                                                        std::shared_ptr<arrow::Schema> schema,
                                                        env::WritableFile* file) {
  CAIRN_ASSIGN_OR_RETURN(const arrow::Compression::type type, CompressionOf(compression));
  CAIRN_RETURN_IF_ERROR(FromArrow(arrow::compute::Initialize(), "Arrow compute"));
  auto encoder = std::make_unique<ParquetEncoder>(changelog, std::move(schema), file);
  CAIRN_RETURN_IF_ERROR(encoder->Open(type));
  return std::unique_ptr<FileEncoder>(std::move(encoder));
}

}  // namespace cairn::connectors

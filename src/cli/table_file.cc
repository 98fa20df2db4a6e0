// SPDX-License-Identifier: Apache-2.0
#include "cli/table_file.h"

#include <arrow/buffer.h>
#include <arrow/io/file.h>
#include <arrow/io/interfaces.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <parquet/exception.h>
#include <parquet/properties.h>

#include <utility>

#include "connectors/parquet_row_group.h"
#include "format/arrow_status.h"

namespace cairn::cli {
namespace {

/// A row group is held in memory until it is full.
constexpr int64_t kParquetRowGroupRows = 64 << 10;
constexpr int64_t kParquetRowGroupBytes = int64_t{64} << 20;

/// A ByteSink as Arrow's writers want it. Keeps the sink's own status, which says more than Arrow's
/// can.
class SinkStream final : public arrow::io::OutputStream {
 public:
  explicit SinkStream(format::ByteSink* sink) : sink_(sink) {
    set_mode(arrow::io::FileMode::WRITE);
  }
  ~SinkStream() override = default;

  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Write(const void* data, int64_t bytes) override {
    const Status written =
        sink_->Append({static_cast<const char*>(data), static_cast<size_t>(bytes)});
    if (!written.ok()) {
      status_ = written;
      return arrow::Status::IOError(std::string(written.message()));
    }
    position_ += bytes;
    return arrow::Status::OK();
  }
  using arrow::io::OutputStream::Write;

  /// What the writers' status means: the sink's own failure when there was one.
  Status Explain(const arrow::Status& status) const {
    return status_.ok() ? format::FromArrow(status) : status_;
  }

 private:
  format::ByteSink* sink_;
  int64_t position_ = 0;
  bool closed_ = false;
  Status status_;
};

class ArrowFileWriter final : public TableWriter {
 public:
  ArrowFileWriter(std::shared_ptr<SinkStream> stream,
                  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer)
      : stream_(std::move(stream)), writer_(std::move(writer)) {}
  Status Write(const arrow::RecordBatch& batch) override {
    return stream_->Explain(writer_->WriteRecordBatch(batch));
  }
  Status Finish() override { return stream_->Explain(writer_->Close()); }

 private:
  std::shared_ptr<SinkStream> stream_;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
};

class ParquetFileWriter final : public TableWriter {
 public:
  ParquetFileWriter(std::shared_ptr<SinkStream> stream,
                    std::unique_ptr<parquet::arrow::FileWriter> writer)
      : stream_(std::move(stream)), writer_(std::move(writer)) {}
  Status Write(const arrow::RecordBatch& batch) override {
    return Guarded([&]() -> arrow::Status {
      ARROW_RETURN_NOT_OK(row_group_.MakeRoom(batch, writer_.get()));
      return writer_->WriteRecordBatch(batch);
    });
  }
  Status Finish() override {
    return Guarded([&] { return writer_->Close(); });
  }

 private:
  /// Parquet throws from below its Arrow interface.
  template <class Call>
  Status Guarded(const Call& call) {
    try {
      return stream_->Explain(call());
    } catch (const parquet::ParquetException& error) {
      return stream_->Explain(arrow::Status::IOError(error.what()));
    }
  }

  std::shared_ptr<SinkStream> stream_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
  connectors::RowGroupBytes row_group_{kParquetRowGroupBytes};
};

Result<TableReader> OpenArrow(std::shared_ptr<arrow::io::RandomAccessFile> file) {
  CAIRN_ASSIGN_OR_RETURN_ARROW(const auto reader,
                               arrow::ipc::RecordBatchFileReader::Open(std::move(file)));
  TableReader table;
  table.schema = reader->schema();
  table.next = [reader, at = 0]() mutable -> Result<std::shared_ptr<arrow::RecordBatch>> {
    if (at == reader->num_record_batches()) return std::shared_ptr<arrow::RecordBatch>();
    CAIRN_ASSIGN_OR_RETURN_ARROW(auto batch, reader->ReadRecordBatch(at++));
    return batch;
  };
  return table;
}

Result<TableReader> OpenParquet(std::shared_ptr<arrow::io::RandomAccessFile> file) {
  try {
    CAIRN_ASSIGN_OR_RETURN_ARROW(
        std::shared_ptr<parquet::arrow::FileReader> reader,
        parquet::arrow::OpenFile(std::move(file), arrow::default_memory_pool()));
    CAIRN_ASSIGN_OR_RETURN_ARROW(std::shared_ptr<arrow::RecordBatchReader> batches,
                                 reader->GetRecordBatchReader());
    TableReader table;
    table.schema = batches->schema();
    table.next = [reader, batches]() -> Result<std::shared_ptr<arrow::RecordBatch>> {
      std::shared_ptr<arrow::RecordBatch> batch;
      CAIRN_RETURN_IF_ARROW_ERROR(batches->ReadNext(&batch));
      return batch;
    };
    return table;
  } catch (const parquet::ParquetException& error) {
    return Status::Corruption(error.what());
  }
}

}  // namespace

Result<std::unique_ptr<TableWriter>> TableWriter::Open(TableFormat format,
                                                       const std::shared_ptr<arrow::Schema>& schema,
                                                       format::ByteSink* sink) {
  auto stream = std::make_shared<SinkStream>(sink);
  if (format == TableFormat::kArrow) {
    CAIRN_ASSIGN_OR_RETURN_ARROW(auto writer, arrow::ipc::MakeFileWriter(stream, schema));
    return std::unique_ptr<TableWriter>(
        std::make_unique<ArrowFileWriter>(std::move(stream), std::move(writer)));
  }
  const auto properties = parquet::WriterProperties::Builder()
                              .compression(arrow::Compression::ZSTD)
                              ->max_row_group_length(kParquetRowGroupRows)
                              ->build();
  const auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  CAIRN_ASSIGN_OR_RETURN_ARROW(
      auto writer, parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(), stream,
                                                    properties, arrow_properties));
  return std::unique_ptr<TableWriter>(
      std::make_unique<ParquetFileWriter>(std::move(stream), std::move(writer)));
}

Result<TableReader> OpenTable(const std::string& path) {
  auto opened = arrow::io::ReadableFile::Open(path);
  if (!opened.ok()) {
    return Status::NotFound(fmt::format("cannot open '{}': {}", path, opened.status().message()));
  }
  std::shared_ptr<arrow::io::RandomAccessFile> file = *opened;
  CAIRN_ASSIGN_OR_RETURN_ARROW(const std::shared_ptr<arrow::Buffer> start, file->ReadAt(0, 6));
  const std::string magic = start->ToString();
  Result<TableReader> table = Status::InvalidArgument(
      "neither an Arrow file nor a Parquet file. Give what `cairn state export` wrote");
  if (magic.starts_with("ARROW1")) table = OpenArrow(file);
  if (magic.starts_with("PAR1")) table = OpenParquet(file);
  if (!table.ok()) return std::move(table).status().WithContext("'" + path + "'");
  return table;
}

}  // namespace cairn::cli

// SPDX-License-Identifier: Apache-2.0
#include "connectors/print_sink.h"

#include <cerrno>
#include <mutex>
#include <system_error>

namespace cairn::connectors {
namespace {

struct Output {
  std::FILE* file;
  std::mutex mutex;
  bool header_written = false;
};

class PrintWriter final : public stream::SinkWriter {
 public:
  PrintWriter(RowText rows, std::shared_ptr<Output> output)
      : rows_(std::move(rows)), output_(std::move(output)) {}

  Status Write(const stream::Batch& batch) override {
    if (batch.num_rows() == 0) return {};
    buffer_.clear();
    CAIRN_RETURN_IF_ERROR(rows_.Append(batch, &buffer_));
    std::lock_guard<std::mutex> lock(output_->mutex);
    if (!output_->header_written) {
      output_->header_written = true;
      TextBuffer header;
      rows_.AppendHeader(&header);
      CAIRN_RETURN_IF_ERROR(Put(header.view()));
    }
    return Put(buffer_.view());
  }

  Result<std::optional<std::string>> Prepare(base::CheckpointId) override {
    return std::optional<std::string>();
  }

 private:
  Status Put(std::string_view text) {
    if (text.empty()) return {};
    if (std::fwrite(text.data(), 1, text.size(), output_->file) == text.size() &&
        std::fflush(output_->file) == 0) {
      return {};
    }
    return Status::Unavailable("writing rows to standard output: " +
                               std::generic_category().message(errno));
  }

  RowText rows_;
  std::shared_ptr<Output> output_;
  TextBuffer buffer_;
};

class PrintSink final : public stream::Sink {
 public:
  PrintSink(RowTextOptions options, std::shared_ptr<arrow::Schema> schema, std::FILE* out)
      : options_(std::move(options)),
        schema_(std::move(schema)),
        output_(std::make_shared<Output>()) {
    output_->file = out;
  }

  bool exactly_once() const override { return false; }
  Result<std::unique_ptr<stream::SinkWriter>> CreateWriter(uint32_t) override {
    CAIRN_ASSIGN_OR_RETURN(RowText rows, RowText::Make(options_, schema_));
    std::unique_ptr<stream::SinkWriter> writer =
        std::make_unique<PrintWriter>(std::move(rows), output_);
    return writer;
  }
  Status Commit(const std::vector<std::string>&) override { return {}; }
  Status Recover(base::CheckpointId, const std::vector<std::string>&) override { return {}; }
  std::string Identity() const override { return R"({"connector":"print"})"; }

 private:
  RowTextOptions options_;
  std::shared_ptr<arrow::Schema> schema_;
  std::shared_ptr<Output> output_;
};

class BlackholeWriter final : public stream::SinkWriter {
 public:
  explicit BlackholeWriter(std::shared_ptr<std::atomic<uint64_t>> rows) : rows_(std::move(rows)) {}
  Status Write(const stream::Batch& batch) override {
    *rows_ += static_cast<uint64_t>(batch.num_rows());
    return {};
  }
  Result<std::optional<std::string>> Prepare(base::CheckpointId) override {
    return std::optional<std::string>();
  }

 private:
  std::shared_ptr<std::atomic<uint64_t>> rows_;
};

}  // namespace

Result<std::unique_ptr<stream::Sink>> MakePrintSink(const stream::TableDefinition& table,
                                                    const RowTextOptions& options, std::FILE* out) {
  const std::shared_ptr<arrow::Schema> schema = SchemaOf(table);
  CAIRN_RETURN_IF_ERROR(RowText::Make(options, schema).status());
  std::unique_ptr<stream::Sink> sink = std::make_unique<PrintSink>(options, schema, out);
  return sink;
}

Result<std::unique_ptr<stream::SinkWriter>> BlackholeSink::CreateWriter(uint32_t) {
  std::unique_ptr<stream::SinkWriter> writer = std::make_unique<BlackholeWriter>(rows_);
  return writer;
}

}  // namespace cairn::connectors

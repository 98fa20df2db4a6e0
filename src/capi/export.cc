// SPDX-License-Identifier: Apache-2.0
//
// cairn_view_export: the rows of a view as an Arrow C stream. Arrow's own reader and exporter do
// the work; a batch is built when the consumer asks for it.
#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/c/bridge.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <deque>
#include <utility>

#include "cairn/c.h"
#include "capi/handles.h"
#include "format/arrow_status.h"

namespace cairn::capi {
namespace {

/// Reads key group by key group, so that it holds one group's rows at most.
class ViewReader final : public arrow::RecordBatchReader {
 public:
  ViewReader(View view, const cairn_table* table, size_t batch_rows)
      : view_(std::move(view)),
        table_(table->table),
        next_group_(table_->key_groups().first),
        batch_rows_(batch_rows) {}

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    while (ready_.empty() && next_group_ < table_->key_groups().last) {
      ARROW_RETURN_NOT_OK(ReadGroup(next_group_++));
    }
    if (ready_.empty() && keys_.length() > 0) ARROW_RETURN_NOT_OK(FinishBatch());
    *batch = nullptr;
    if (!ready_.empty()) {
      *batch = std::move(ready_.front());
      ready_.pop_front();
    }
    return arrow::Status::OK();
  }

 private:
  arrow::Status ReadGroup(uint32_t group) {
    arrow::Status status;
    table_->Scan(view_, {group, group + 1}, [&](const Bytes& key, const std::string& value) {
      status = keys_.Append(key.view());
      if (status.ok()) status = values_.Append(value);
      if (status.ok() && static_cast<size_t>(keys_.length()) >= batch_rows_) status = FinishBatch();
      return status.ok();
    });
    return status;
  }

  arrow::Status FinishBatch() {
    const int64_t rows = keys_.length();
    std::shared_ptr<arrow::Array> keys;
    std::shared_ptr<arrow::Array> values;
    ARROW_RETURN_NOT_OK(keys_.Finish(&keys));
    ARROW_RETURN_NOT_OK(values_.Finish(&values));
    ready_.push_back(arrow::RecordBatch::Make(schema_, rows, {keys, values}));
    return arrow::Status::OK();
  }

  const std::shared_ptr<arrow::Schema> schema_ = arrow::schema(
      {arrow::field("key", arrow::binary(), false), arrow::field("value", arrow::binary(), false)});
  const View view_;
  const KeyedState<Bytes, std::string>* const table_;
  uint32_t next_group_;
  const size_t batch_rows_;
  arrow::BinaryBuilder keys_;
  arrow::BinaryBuilder values_;
  std::deque<std::shared_ptr<arrow::RecordBatch>> ready_;
};

}  // namespace
}  // namespace cairn::capi

extern "C" cairn_code cairn_view_export(const cairn_view* view, const cairn_table* table,
                                        size_t batch_rows, struct ArrowArrayStream* out) {
  using cairn::Status;
  return cairn::capi::Call([&]() -> Status {
    if (batch_rows == 0) return Status::InvalidArgument("batch_rows is 0; give 1 at least");
    auto reader = std::make_shared<cairn::capi::ViewReader>(view->view, table, batch_rows);
    CAIRN_RETURN_IF_ARROW_ERROR(arrow::ExportRecordBatchReader(std::move(reader), out));
    return {};
  });
}

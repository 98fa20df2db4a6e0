// SPDX-License-Identifier: Apache-2.0
#include "cli/raw_projection.h"

#include <arrow/array/array_base.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/array/util.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <string_view>
#include <vector>

#include "base/coding.h"
#include "cli/table_file.h"
#include "cli/value_text.h"
#include "format/arrow_status.h"

namespace cairn::cli {
namespace {

constexpr int64_t kBatchRows = 64 << 10;
constexpr int64_t kOperatorStateGroup = 0xFF;

class RawBatch {
 public:
  Status Append(const SlotDescriptor& slot, const StateRow& row) {
    CAIRN_RETURN_IF_ARROW_ERROR(op_id_.Append(static_cast<int64_t>(slot.operator_id.value)));
    CAIRN_RETURN_IF_ARROW_ERROR(key_group_.Append(row.keyed ? row.group : kOperatorStateGroup));
    CAIRN_RETURN_IF_ARROW_ERROR(slot_.Append(slot.name));
    CAIRN_RETURN_IF_ERROR(AppendBytes(row.user_key, &user_key_, &key_int_));
    return AppendBytes(row.value, &value_, &value_int_);
  }
  bool full() const { return op_id_.length() >= kBatchRows; }

  Result<std::shared_ptr<arrow::RecordBatch>> Finish() {
    const int64_t rows = op_id_.length();
    const auto schema = RawProjectionSchema();
    std::vector<std::shared_ptr<arrow::Array>> columns(8);
    CAIRN_ASSIGN_OR_RETURN_ARROW(columns[0],
                                 arrow::MakeArrayOfNull(schema->field(0)->type(), rows));
    CAIRN_RETURN_IF_ARROW_ERROR(op_id_.Finish(&columns[1]));
    CAIRN_RETURN_IF_ARROW_ERROR(key_group_.Finish(&columns[2]));
    CAIRN_RETURN_IF_ARROW_ERROR(slot_.Finish(&columns[3]));
    CAIRN_RETURN_IF_ARROW_ERROR(user_key_.Finish(&columns[4]));
    CAIRN_RETURN_IF_ARROW_ERROR(key_int_.Finish(&columns[5]));
    CAIRN_RETURN_IF_ARROW_ERROR(value_.Finish(&columns[6]));
    CAIRN_RETURN_IF_ARROW_ERROR(value_int_.Finish(&columns[7]));
    return arrow::RecordBatch::Make(schema, rows, std::move(columns));
  }

 private:
  static Status AppendBytes(std::string_view bytes, arrow::StringBuilder* text,
                            arrow::Int64Builder* number) {
    CAIRN_RETURN_IF_ARROW_ERROR(text->Append(PrintableBytes(bytes)));
    if (bytes.size() != sizeof(int64_t)) return format::FromArrow(number->AppendNull());
    return format::FromArrow(number->Append(base::LoadLE<int64_t>(bytes.data())));
  }

  arrow::Int64Builder op_id_;
  arrow::Int64Builder key_group_;
  arrow::StringBuilder slot_;
  arrow::StringBuilder user_key_;
  arrow::Int64Builder key_int_;
  arrow::StringBuilder value_;
  arrow::Int64Builder value_int_;
};

}  // namespace

std::shared_ptr<arrow::Schema> RawProjectionSchema() {
  return arrow::schema(
      {arrow::field("event_time", arrow::timestamp(arrow::TimeUnit::MICRO)),
       arrow::field("op_id", arrow::int64(), false),
       arrow::field("key_group", arrow::int64(), false), arrow::field("slot", arrow::utf8(), false),
       arrow::field("user_key", arrow::utf8(), false), arrow::field("key_int", arrow::int64()),
       arrow::field("value", arrow::utf8(), false), arrow::field("value_int", arrow::int64())});
}

Status WriteRawProjection(const StateSource& source, format::ByteSink* sink) {
  CAIRN_ASSIGN_OR_RETURN(const auto writer,
                         TableWriter::Open(TableFormat::kParquet, RawProjectionSchema(), sink));
  RawBatch batch;
  const auto flush = [&]() -> Status {
    CAIRN_ASSIGN_OR_RETURN(const auto rows, batch.Finish());
    return rows->num_rows() == 0 ? Status() : writer->Write(*rows);
  };
  CAIRN_RETURN_IF_ERROR(source.ScanAll([&](const StateRow& row) -> Status {
    CAIRN_RETURN_IF_ERROR(batch.Append(source.slots()[row.slot], row));
    return batch.full() ? flush() : Status();
  }));
  CAIRN_RETURN_IF_ERROR(flush());
  return writer->Finish();
}

}  // namespace cairn::cli

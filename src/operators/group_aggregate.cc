// SPDX-License-Identifier: Apache-2.0
#include "operators/group_aggregate.h"

#include <arrow/array/array_base.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/value_state.h"
#include "format/row_codec.h"
#include "operators/arrow_status.h"
#include "operators/batch_groups.h"
#include "operators/lazy_expression.h"
#include "operators/row_assembler.h"

namespace cairn::operators {
namespace {

using stream::Batch;
using stream::RowKind;

/// An accumulator that lies in the table's slot.
template <size_t N>
struct alignas(8) Cell {
  char bytes[N];
};

/// An accumulator with texts, or one too large for a slot. Empty = of no rows.
struct BoxedCell {
  std::vector<char> bytes;
  std::vector<std::string> texts;
};

template <class Value>
constexpr bool kIsBoxed = std::is_same_v<Value, BoxedCell>;

/// The saved form of an accumulator: its columns in the row codec.
template <class Value>
class AccumulatorCodec {
 public:
  explicit AccumulatorCodec(std::shared_ptr<const GroupAggregateSpec> spec)
      : spec_(std::move(spec)) {}

  size_t EncodedSize(const Value& value) const {
    return layout().SavedBytes(BytesOf(value), TextsOf(value));
  }
  void Encode(const Value& value, char* out) const {
    layout().Save(BytesOf(value), TextsOf(value), out);
  }
  Result<Value> Decode(std::string_view bytes) const {
    Value value{};
    if constexpr (kIsBoxed<Value>) {
      value.bytes.resize(layout().cell_bytes());
      value.texts.resize(layout().texts());
      CAIRN_RETURN_IF_ERROR(layout().Load(bytes, value.bytes.data(), value.texts.data()));
    } else {
      CAIRN_RETURN_IF_ERROR(layout().Load(bytes, value.bytes, nullptr));
    }
    return value;
  }
  size_t MemoryBytes(const Value& value) const {
    size_t bytes = 0;
    if constexpr (kIsBoxed<Value>) {
      bytes = value.bytes.capacity() + value.texts.capacity() * sizeof(std::string);
      for (const std::string& text : value.texts) bytes += Codec<std::string>().MemoryBytes(text);
    }
    return bytes;
  }

 private:
  const AccumulatorLayout& layout() const { return spec_->layout; }
  static const char* BytesOf(const Value& value) {
    if constexpr (kIsBoxed<Value>) {
      return value.bytes.data();
    } else {
      return value.bytes;
    }
  }
  static const std::string* TextsOf(const Value& value) {
    if constexpr (kIsBoxed<Value>) {
      return value.texts.data();
    } else {
      return nullptr;
    }
  }

  std::shared_ptr<const GroupAggregateSpec> spec_;
};

/// One count(*) is saved as the 8 bytes it is.
struct PlainCountCodec : RawCodec<Cell<8>> {
  explicit PlainCountCodec(const std::shared_ptr<const GroupAggregateSpec>&) {}
};

template <class Value, class ValueCodec>
class GroupAggregate final : public stream::Operator {
 public:
  explicit GroupAggregate(std::shared_ptr<const GroupAggregateSpec> spec)
      : spec_(std::move(spec)), layout_(spec_->layout) {}

  Status Open(const stream::OperatorContext& context) override {
    uid_ = context.uid;
    SlotDescriptor slot;
    slot.operator_id = base::OperatorIdOf(context.uid);
    slot.operator_uid = context.uid;
    slot.name = "agg";
    slot.key_codec = "row";
    slot.value_codec = "row";
    if (!spec_->node.keys.empty()) {
      CAIRN_ASSIGN_OR_RETURN(slot.key_columns,
                             format::ColumnSpecsOf(*spec_->input, spec_->node.keys));
    }
    slot.value_columns = layout_.saved_columns();
    slot.ttl = context.state_ttl;
    forgets_ = slot.ttl.enabled();
    TableOptions options;
    options.key_groups = context.key_groups;
    options.range = context.range;
    options.slot_hash_seed = context.slot_hash_seed;
    table_.emplace(context.state, std::move(slot), options, Codec<Bytes>{}, ValueCodec(spec_));
    owns_global_ = context.range.Contains(KeyGroupOf(kGlobalKey, context.key_groups));
    return {};
  }

  std::vector<StateTable*> tables() override { return {&*table_}; }

  /// Without GROUP BY there is one result, also of no rows.
  Status EndInput(stream::Collector* out) override {
    if (!is_global() || !owns_global_ || table_->size() > 0) return {};
    CAIRN_RETURN_IF_ERROR(table_->Update(kGlobalKey, [&layout = layout_](Value& value, bool) {
      if constexpr (kIsBoxed<Value>) {
        value.bytes.assign(layout.cell_bytes(), '\0');
        value.texts.assign(layout.texts(), {});
      } else {
        (void)layout;
      }
    }));
    after_.assign(layout_.cell_bytes(), '\0');
    texts_after_.assign(layout_.texts(), {});
    ClearChanges();
    Change(RowKind::kInsert, 0, after_.data(), texts_after_.data());
    kinds_ = nullptr;
    return EmitChanges({}, out);
  }

  Status ProcessBatch(Batch batch, stream::Collector* out) override {
    try {
      return Process(batch, out).WithContext("operator " + uid_);
    } catch (const std::bad_alloc&) {
      return Status::ResourceExhausted("operator " + uid_ + ": no memory for a batch of " +
                                       std::to_string(batch.num_rows()) + " rows");
    }
  }

 private:
  using StateTableOf = ValueState<Bytes, Value, Codec<Bytes>, ValueCodec>;
  static constexpr std::string_view kGlobalKey = "";  ///< of the one group without GROUP BY

  bool is_global() const { return spec_->node.keys.empty(); }

  Status Process(const Batch& batch, stream::Collector* out) {
    groups_.Assign(batch);
    const size_t count = groups_.groups().size();
    if (count == 0) return {};
    partials_.assign(count * layout_.cell_bytes(), '\0');
    partial_texts_.assign(count * layout_.texts(), {});
    GroupedRows rows;
    rows.selection = batch.selection ? batch.selection->data() : nullptr;
    rows.group_of = groups_.group_of().data();
    rows.kinds = batch.kinds ? batch.kinds->data() : nullptr;
    rows.count = groups_.rows();
    CAIRN_RETURN_IF_ERROR(
        layout_.Accumulate(*batch.rows, rows, partials_.data(), partial_texts_.data()));
    CAIRN_RETURN_IF_ERROR(UpdateState(count));
    CAIRN_RETURN_IF_ERROR(CollectChanges(count));
    return EmitChanges(batch, out);
  }

  /// Merge the partial accumulators into the table and keep each entry as it was and as it is.
  Status UpdateState(size_t count) {
    const size_t bytes = layout_.cell_bytes();
    before_.resize(count * bytes);
    after_.resize(count * bytes);
    inserted_.resize(count);
    Status merged;
    const auto key_at = [this](size_t i) { return groups_.groups()[i].key; };
    const auto fnv_at = [this](size_t i) { return groups_.groups()[i].hash; };
    Status updated;
    if constexpr (kIsBoxed<Value>) {
      texts_before_.assign(count * layout_.texts(), {});
      texts_after_.assign(count * layout_.texts(), {});
      updated = table_->UpdateBatch(count, key_at, fnv_at, [&](size_t i, Value& value, bool fresh) {
        if (fresh) {
          value.bytes.assign(bytes, '\0');
          value.texts.assign(layout_.texts(), {});
        }
        inserted_[i] = fresh;
        const size_t at = i * layout_.texts();
        std::memcpy(&before_[i * bytes], value.bytes.data(), bytes);
        std::copy(value.texts.begin(), value.texts.end(), texts_before_.begin() + at);
        Keep(layout_.Merge(&partials_[i * bytes], &partial_texts_[at], value.bytes.data(),
                           value.texts.data()),
             &merged);
        std::memcpy(&after_[i * bytes], value.bytes.data(), bytes);
        std::copy(value.texts.begin(), value.texts.end(), texts_after_.begin() + at);
      });
    } else {
      updated = table_->UpdateBatch(
          count, key_at, fnv_at, [&](size_t i, Value& value, bool fresh) noexcept {
            inserted_[i] = fresh;
            std::memcpy(&before_[i * bytes], value.bytes, bytes);
            Keep(layout_.Merge(&partials_[i * bytes], nullptr, value.bytes, nullptr), &merged);
            std::memcpy(&after_[i * bytes], value.bytes, bytes);
          });
    }
    CAIRN_RETURN_IF_ERROR(std::move(updated));
    return merged;
  }

  static void Keep(Status status, Status* first) {
    if (!status.ok() && first->ok()) *first = std::move(status);
  }

  /// List the rows to send: old and new results of the groups that changed.
  Status CollectChanges(size_t count) {
    ClearChanges();
    const bool updates = spec_->input_updates;
    bool all_inserts = true;
    for (size_t i = 0; i < count; ++i) {
      const char* before = &before_[i * layout_.cell_bytes()];
      const char* after = &after_[i * layout_.cell_bytes()];
      const std::string* before_text = texts_before_.data() + i * layout_.texts();
      const std::string* after_text = texts_after_.data() + i * layout_.texts();
      const uint32_t row = groups_.groups()[i].first_row;
      // With a TTL a row may be retracted whose group is forgotten.
      if (updates && layout_.RowCount(after) < 0 && !forgets_) {
        return Status::Internal("a row was retracted that this operator never received");
      }
      if (updates && layout_.RowCount(after) <= 0 && !is_global()) {
        table_->EraseHashed(groups_.groups()[i].key, groups_.groups()[i].hash);
        if (inserted_[i]) continue;
        all_inserts = false;
        Change(RowKind::kDelete, row, before, before_text);
        continue;
      }
      if (inserted_[i]) {
        Change(RowKind::kInsert, row, after, after_text);
        continue;
      }
      if (!layout_.ResultsDiffer(before, before_text, after, after_text)) continue;
      all_inserts = false;
      Change(RowKind::kUpdateBefore, row, before, before_text);
      Change(RowKind::kUpdateAfter, row, after, after_text);
    }
    if (all_inserts) kinds_ = nullptr;
    return {};
  }

  void ClearChanges() {
    change_rows_.clear();
    change_cells_.clear();
    change_texts_.clear();
    kinds_ = std::make_shared<std::vector<RowKind>>();
  }

  void Change(RowKind kind, uint32_t row, const char* cell, const std::string* texts) {
    kinds_->push_back(kind);
    change_rows_.push_back(row);
    change_cells_.push_back(cell);
    if constexpr (kIsBoxed<Value>) change_texts_.push_back(texts);
  }

  Status EmitChanges(const Batch& batch, stream::Collector* out) {
    if (change_rows_.empty()) return {};
    std::vector<std::shared_ptr<arrow::Array>> columns;
    for (int key : spec_->node.keys) {
      CAIRN_ASSIGN_OR_RETURN(auto column, TakeKeyRows(batch.rows->column(key), change_rows_));
      columns.push_back(std::move(column));
    }
    for (size_t call = 0; call < spec_->node.calls.size(); ++call) {
      CAIRN_ASSIGN_OR_RETURN(auto column, layout_.ResultColumn(call, change_cells_, change_texts_));
      columns.push_back(std::move(column));
    }
    Batch changes;
    changes.rows = arrow::RecordBatch::Make(
        spec_->node.output, static_cast<int64_t>(change_rows_.size()), std::move(columns));
    changes.kinds = std::move(kinds_);
    return out->Emit(std::move(changes));
  }

  const std::shared_ptr<const GroupAggregateSpec> spec_;
  const AccumulatorLayout& layout_;
  std::string uid_;
  std::optional<StateTableOf> table_;
  bool forgets_ = false;      ///< has a TTL
  bool owns_global_ = false;  ///< the group of kGlobalKey is this subtask's

  // Of the batch at hand; kept for their memory.
  BatchGroups groups_;
  std::vector<char> partials_;
  std::vector<std::string_view> partial_texts_;
  std::vector<char> before_;
  std::vector<char> after_;
  std::vector<std::string> texts_before_;
  std::vector<std::string> texts_after_;
  std::vector<char> inserted_;
  RowSelection change_rows_;
  std::vector<const char*> change_cells_;
  std::vector<const std::string*> change_texts_;
  std::shared_ptr<std::vector<RowKind>> kinds_;
};

template <size_t N>
std::unique_ptr<stream::Operator> MakeInSlot(std::shared_ptr<const GroupAggregateSpec> spec) {
  return std::make_unique<GroupAggregate<Cell<N>, AccumulatorCodec<Cell<N>>>>(std::move(spec));
}

}  // namespace

Result<std::shared_ptr<const GroupAggregateSpec>> MakeGroupAggregateSpec(
    const stream::GroupAggregateNode& node, std::shared_ptr<arrow::Schema> input,
    bool input_updates) {
  CAIRN_ASSIGN_OR_RETURN(auto layout, AccumulatorLayout::Make(*input, node, input_updates));
  auto spec = std::make_shared<GroupAggregateSpec>();
  spec->node = node;
  spec->input = std::move(input);
  spec->input_updates = input_updates;
  spec->layout = std::move(layout);
  return std::shared_ptr<const GroupAggregateSpec>(std::move(spec));
}

std::unique_ptr<stream::Operator> MakeGroupAggregate(
    std::shared_ptr<const GroupAggregateSpec> spec) {
  const size_t bytes = spec->layout.cell_bytes();
  if (spec->layout.texts() > 0 || bytes > 256) {
    return std::make_unique<GroupAggregate<BoxedCell, AccumulatorCodec<BoxedCell>>>(
        std::move(spec));
  }
  if (spec->layout.is_plain_count()) {
    return std::make_unique<GroupAggregate<Cell<8>, PlainCountCodec>>(std::move(spec));
  }
  if (bytes <= 16) return MakeInSlot<16>(std::move(spec));
  if (bytes <= 32) return MakeInSlot<32>(std::move(spec));
  if (bytes <= 64) return MakeInSlot<64>(std::move(spec));
  if (bytes <= 128) return MakeInSlot<128>(std::move(spec));
  return MakeInSlot<256>(std::move(spec));
}

}  // namespace cairn::operators

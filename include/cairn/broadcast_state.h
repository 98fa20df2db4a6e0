// SPDX-License-Identifier: Apache-2.0
//
// BroadcastState: one value a slot, the same in every subtask because every subtask sees the same
// broadcast stream. It is operator state: each subtask saves its own copy, a restore gives it back,
// and at another parallelism the value of the lowest subtask counts until the subtask writes its
// own.
//
// Threads:  as OperatorStateTable.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "cairn/codec.h"
#include "cairn/operator_state.h"

namespace cairn {
inline namespace v0 {

template <class V, class ValueCodec = Codec<V>>
class BroadcastState final : public StateTable {
 public:
  /// Add an empty slot to `domain`, which outlives it. descriptor.kind is set to kOperatorValue.
  BroadcastState(StateDomain* domain, SlotDescriptor descriptor, OperatorStateOptions options,
                 ValueCodec codec = {})
      : codec_(std::move(codec)), rows_(domain, OfKind(std::move(descriptor)), options) {}

  /// Write the value. Errors: kResourceExhausted over the memory budget: nothing has changed.
  Status Put(const V& value) {
    std::string bytes(codec_.EncodedSize(value), '\0');
    codec_.Encode(value, bytes.data());
    return rows_.Put({}, bytes);
  }
  /// The value; nothing when none was written. Errors: kCorruption when it does not decode.
  Result<std::optional<V>> Get() const {
    const std::optional<std::string_view> bytes = rows_.Find({});
    if (!bytes) return std::optional<V>();
    Result<V> value = codec_.Decode(*bytes);
    if (!value.ok()) {
      return detail::RowErrorOf(rows_.descriptor(), value.status(), "cannot decode the value of",
                                {});
    }
    return std::optional<V>(*std::move(value));
  }
  /// Remove the value, as every subtask does; false when there was none.
  bool Clear() { return rows_.EraseAll({}); }

  const SlotDescriptor& descriptor() const override { return rows_.descriptor(); }
  KeyGroupRange key_groups() const override { return rows_.key_groups(); }
  Status EncodeBase(const View& view, KeyGroupRange range, SavedRowSink* sink) const override {
    return rows_.EncodeBase(view, range, sink);
  }
  Status EncodeDelta(const View& view, uint64_t since, KeyGroupRange range,
                     SavedRowSink* sink) const override {
    return rows_.EncodeDelta(view, since, range, sink);
  }
  Status Load(const SavedRowSpan& rows, size_t group_prefix_bytes, size_t key_prefix_bytes,
              LoadCounts* counts) override {
    return rows_.Load(rows, group_prefix_bytes, key_prefix_bytes, counts);
  }
  uint64_t CountRows(const View& view) const override { return rows_.CountRows(view); }
  uint64_t MemoryBytes() const override { return rows_.MemoryBytes(); }

 private:
  static SlotDescriptor OfKind(SlotDescriptor descriptor) {
    descriptor.kind = SlotKind::kOperatorValue;
    return descriptor;
  }

  [[no_unique_address]] ValueCodec codec_;
  OperatorStateTable rows_;
};

}  // namespace v0
}  // namespace cairn

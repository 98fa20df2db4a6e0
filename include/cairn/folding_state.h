// SPDX-License-Identifier: Apache-2.0
//
// ReducingState and AggregatingState: a value for every key into which others are folded as they
// come. The fold works on the typed value in its slot; nothing is decoded or encoded for it.
//
// Threads:  as ValueState.
// Source:   docs/state/kinds.md.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "cairn/value_state.h"

namespace cairn {
inline namespace v0 {

/// Values of one type folded by `Reduce`: V operator()(const V& so_far, const V& value) const.
template <class K, class V, class Reduce, class KeyCodec = Codec<K>, class ValueCodec = Codec<V>>
class ReducingState {
 public:
  using State = ValueState<K, V, KeyCodec, ValueCodec>;
  using KeyArg = typename State::KeyArg;

  /// Add an empty slot to `domain`, which outlives it.
  ReducingState(StateDomain* domain, SlotDescriptor descriptor, TableOptions options = {},
                Reduce reduce = {})
      : reduce_(std::move(reduce)), state_(domain, std::move(descriptor), options) {}

  /// Fold `value` into that of `key`; the first one is taken as it is. A reduction that throws
  /// changes nothing.
  ///
  /// Errors:   as Table::Update.
  Status Add(KeyArg key, const V& value) {
    constexpr bool kNothrow = std::is_nothrow_invocable_v<const Reduce&, const V&, const V&> &&
                              std::is_nothrow_copy_assignable_v<V>;
    return state_.Update(key, [&](V& so_far, bool inserted) noexcept(kNothrow) {
      so_far = inserted ? value : reduce_(so_far, value);
    });
  }
  const V* Find(KeyArg key) { return state_.Find(key); }
  bool Clear(KeyArg key) { return state_.Erase(key); }

  /// The values: for views, saving and batches.
  State& state() { return state_; }
  const State& state() const { return state_; }

 private:
  [[no_unique_address]] const Reduce reduce_;
  State state_;
};

/// Inputs folded into an accumulator by `Aggregate`:
///   Accumulator, Input                           types; Accumulator{} is the start
///   void Add(Accumulator&, const Input&) const   declare it noexcept where accumulators are large
///   auto Result(const Accumulator&) const
template <class K, class Aggregate, class KeyCodec = Codec<K>,
          class AccumulatorCodec = Codec<typename Aggregate::Accumulator>>
class AggregatingState {
 public:
  using Accumulator = typename Aggregate::Accumulator;
  using Input = typename Aggregate::Input;
  using Output =
      decltype(std::declval<const Aggregate&>().Result(std::declval<const Accumulator&>()));
  using State = ValueState<K, Accumulator, KeyCodec, AccumulatorCodec>;
  using KeyArg = typename State::KeyArg;

  /// Add an empty slot to `domain`, which outlives it.
  AggregatingState(StateDomain* domain, SlotDescriptor descriptor, TableOptions options = {},
                   Aggregate aggregate = {})
      : aggregate_(std::move(aggregate)), state_(domain, std::move(descriptor), options) {}

  /// Fold `input` into the accumulator of `key`. An Add that throws changes nothing.
  ///
  /// Errors:   as Table::Update.
  Status Add(KeyArg key, const Input& input) {
    return state_.Update(key, [&](Accumulator& accumulator, bool) noexcept(noexcept(aggregate_.Add(
                                  accumulator, input))) { aggregate_.Add(accumulator, input); });
  }
  /// The result for `key`; nothing when nothing was added.
  std::optional<Output> Get(KeyArg key) {
    const Accumulator* accumulator = state_.Find(key);
    if (accumulator == nullptr) return std::nullopt;
    return aggregate_.Result(*accumulator);
  }
  std::optional<Output> Get(const View& view, KeyArg key) const {
    std::optional<Output> result;
    state_.Get(view, key,
               [&](const Accumulator& accumulator) { result = aggregate_.Result(accumulator); });
    return result;
  }
  bool Clear(KeyArg key) { return state_.Erase(key); }

  /// The accumulators: for views, saving and batches.
  State& state() { return state_; }
  const State& state() const { return state_; }

 private:
  [[no_unique_address]] const Aggregate aggregate_;
  State state_;
};

}  // namespace v0
}  // namespace cairn

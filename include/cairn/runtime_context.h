// SPDX-License-Identifier: Apache-2.0
//
// RuntimeContext: what an operator learns of its place when it opens, and where it declares its
// state. A custom operator of a job gets one in Open (cairn/operator.h); a partition of a
// StateStore gives one for each operator uid (cairn/state_store.h).
//
// Threads:  its subtask's.
// Timers: declared with what is to be done when one is due. Event time is the watermark of the
// operator's input, processing time the wall clock; both in milliseconds since 1970. The runtime
// advances them between batches, so a callback never runs inside another call of the operator.
//
// Invariants
//  1. State is declared before it is restored; a later declaration is refused.
//  2. The context owns the state it declared; a pointer stays valid as long as the operator.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/broadcast_state.h"
#include "cairn/folding_state.h"
#include "cairn/hash.h"
#include "cairn/ids.h"
#include "cairn/list_state.h"
#include "cairn/map_state.h"
#include "cairn/operator_state.h"
#include "cairn/slot_codec.h"
#include "cairn/state_domain.h"
#include "cairn/state_table.h"
#include "cairn/status.h"
#include "cairn/timers.h"
#include "cairn/ttl.h"
#include "cairn/value_state.h"

namespace cairn {
inline namespace v0 {

class OutputRows;

/// The state of a key, by kind (docs/state/kinds.md), with the slot codecs of its types.
template <class K, class V>
using KeyedState = ValueState<SlotKey<K>, V, SlotCodec<SlotKey<K>>, SlotCodec<V>>;
template <class K, class V>
using KeyedList = ListState<SlotKey<K>, V, SlotCodec<SlotKey<K>>, SlotCodec<V>>;
/// Map keys that are numbers or std::string lie in order, so that ranges of them can be read.
template <class K, class MK, class V>
using KeyedMap =
    MapState<SlotKey<K>, MK, V, SlotCodec<SlotKey<K>>, OrderedSlotCodec<MK>, SlotCodec<V>>;
template <class K, class V, class Reduce>
using KeyedReduction = ReducingState<SlotKey<K>, V, Reduce, SlotCodec<SlotKey<K>>, SlotCodec<V>>;
template <class K, class Aggregate>
using KeyedAggregate = AggregatingState<SlotKey<K>, Aggregate, SlotCodec<SlotKey<K>>,
                                        SlotCodec<typename Aggregate::Accumulator>>;

/// Timers of keys: TimerService<K, Namespace> with the slot codecs of its types.
template <class K, class Namespace = NoNamespace>
using KeyedTimers =
    TimerService<SlotKey<K>, Namespace, SlotCodec<SlotKey<K>>, SlotCodec<Namespace>>;

/// Where an operator stands in its job or store.
struct OperatorPlace {
  std::string uid;  ///< stable across runs: names the operator's saved state
  uint32_t subtask = 0;
  uint32_t parallelism = 1;
  uint32_t key_groups = kDefaultKeyGroups;
  KeyGroupRange range;  ///< groups this subtask owns
  uint64_t slot_hash_seed = 0;
  /// Columns that keys of type Bytes encode in a job, for typed exports; none = opaque.
  std::vector<ColumnSpec> key_columns;
  StateDomain* domain = nullptr;  ///< null = no state backend: every declaration is refused
  OutputRows* output = nullptr;   ///< of a custom operator of a job
};

class RuntimeContext {
 public:
  explicit RuntimeContext(OperatorPlace place) : place_(std::move(place)) {}
  RuntimeContext(const RuntimeContext&) = delete;
  RuntimeContext& operator=(const RuntimeContext&) = delete;

  const std::string& operator_uid() const { return place_.uid; }
  OperatorId operator_id() const { return OperatorIdOf(place_.uid); }
  uint32_t subtask() const { return place_.subtask; }
  uint32_t parallelism() const { return place_.parallelism; }
  uint32_t key_groups() const { return place_.key_groups; }
  KeyGroupRange key_group_range() const { return place_.range; }
  bool has_backend() const { return place_.domain != nullptr; }

  /// Declare one value of type V for each key of type K.
  ///
  /// Shape:    `name` names the slot in saved state: not empty, without '|', line feed and NUL.
  ///           With `ttl` a value is gone when its time is over (docs/state/ttl.md).
  /// Errors:   kInvalidArgument: no state backend, a bad name, a name declared before, or state
  ///           that was restored already.
  template <class K, class V>
  Result<KeyedState<K, V>*> keyed_state(std::string name, TtlConfig ttl = {}) {
    return Declare<KeyedState<K, V>>(Describe<K, V>(std::move(name), ttl));
  }

  /// Declare a list of V, or a map from MK to V, for each key. Every element has a TTL of its own.
  ///
  /// Errors:   as keyed_state.
  template <class K, class V>
  Result<KeyedList<K, V>*> list_state(std::string name, TtlConfig ttl = {}) {
    return Declare<KeyedList<K, V>>(Describe<K, V>(std::move(name), ttl));
  }
  template <class K, class MK, class V>
  Result<KeyedMap<K, MK, V>*> map_state(std::string name, TtlConfig ttl = {}) {
    return Declare<KeyedMap<K, MK, V>>(Describe<K, V>(std::move(name), ttl));
  }

  /// Declare a value for each key into which others are folded: `reduce(so_far, value)`, or an
  /// Aggregate of cairn/folding_state.h.
  ///
  /// Errors:   as keyed_state.
  template <class K, class V, class Reduce>
  Result<KeyedReduction<K, V, Reduce>*> reducing_state(std::string name, Reduce reduce,
                                                       TtlConfig ttl = {}) {
    return Declare<KeyedReduction<K, V, Reduce>>(Describe<K, V>(std::move(name), ttl),
                                                 std::move(reduce));
  }
  template <class K, class Aggregate>
  Result<KeyedAggregate<K, Aggregate>*> aggregating_state(std::string name,
                                                          Aggregate aggregate = {},
                                                          TtlConfig ttl = {}) {
    return Declare<KeyedAggregate<K, Aggregate>>(
        Describe<K, typename Aggregate::Accumulator>(std::move(name), ttl), std::move(aggregate));
  }

  /// Declare one value that every subtask writes the same.
  ///
  /// Errors:   as keyed_state.
  template <class V>
  Result<BroadcastState<V, SlotCodec<V>>*> broadcast_state(std::string name) {
    SlotDescriptor slot = Describe<Bytes, V>(std::move(name), {});
    CAIRN_RETURN_IF_ERROR(CheckDeclaration(slot.name));
    return Adopt(std::make_unique<BroadcastState<V, SlotCodec<V>>>(place_.domain, std::move(slot),
                                                                   operator_state_options()));
  }

  /// Declare timers on keys of type K. `on_timer(const KeyedTimers<K, Namespace>::Timer&)` is
  /// called for each that falls due, once, in the order of their times; it may change state,
  /// register and delete timers, and return a Status.
  ///
  /// Errors:   as keyed_state.
  /// Source:   docs/state/timers.md.
  template <class K, class Namespace = NoNamespace, class Fn>
  Result<KeyedTimers<K, Namespace>*> timers(std::string name, Fn on_timer) {
    CAIRN_ASSIGN_OR_RETURN(
        auto* timers,
        (Declare<KeyedTimers<K, Namespace>>(Describe<K, Namespace>(std::move(name), {}))));
    clocks_.push_back(
        {[timers, on_timer = std::move(on_timer)](TimeDomain domain, int64_t time) mutable {
           return timers->Advance(domain, time, on_timer);
         },
         [timers](TimeDomain domain) { return timers->NextDue(domain); }});
    return timers;
  }

  /// Event time of the operator's input: a row that is older is late. The least int64 before the
  /// first watermark, the greatest behind the last row of an input that ends.
  int64_t watermark() const { return watermark_; }

  /// Where a timer of a custom operator of a job gives its rows; null in a StateStore.
  OutputRows* output() const { return place_.output; }

  /// Declare state of the subtask itself, not of keys: logical key -> bytes.
  ///
  /// Errors:   as keyed_state.
  Result<OperatorStateTable*> operator_state(std::string name);

  /// Everything declared, in order: for checkpoint and restore.
  const std::vector<StateTable*>& tables() const { return tables_; }

  /// Let time pass: fire what is due, in the order of declaration. For the runtime.
  ///
  /// Errors:   as TimerService::Advance.
  Status AdvanceTime(TimeDomain domain, int64_t time_ms);
  /// Time of the first pending timer; nothing = none is pending. For the runtime.
  std::optional<int64_t> NextTimer(TimeDomain domain) const;

  /// No declaration from now on: what is saved is about to be loaded. For the runtime.
  void Seal() { sealed_ = true; }

 private:
  template <class K, class V>
  SlotDescriptor Describe(std::string name, TtlConfig ttl) const {
    SlotEncoding key = SlotEncodingOf<K>("key");
    if (std::is_same_v<K, Bytes> && !place_.key_columns.empty()) {
      key.codec = "row";
      key.columns = place_.key_columns;
    }
    SlotEncoding value = SlotEncodingOf<V>("value");
    SlotDescriptor slot;
    slot.operator_id = operator_id();
    slot.operator_uid = place_.uid;
    slot.name = std::move(name);
    slot.key_codec = std::move(key.codec);
    slot.value_codec = std::move(value.codec);
    slot.version = value.version;
    slot.key_columns = std::move(key.columns);
    slot.value_columns = std::move(value.columns);
    slot.ttl = ttl;
    return slot;
  }

  template <class State, class... More>
  Result<State*> Declare(SlotDescriptor slot, More&&... more) {
    CAIRN_RETURN_IF_ERROR(CheckDeclaration(slot.name));
    return Adopt(std::make_unique<State>(place_.domain, std::move(slot), options(),
                                         std::forward<More>(more)...));
  }

  /// Own `state`, and know its table for checkpoint and restore.
  template <class State>
  State* Adopt(std::unique_ptr<State> state) {
    State* declared = state.get();
    if constexpr (std::is_base_of_v<StateTable, State>) {
      tables_.push_back(declared);
    } else {
      tables_.push_back(&declared->state());
    }
    owned_.emplace_back(std::move(state));
    return declared;
  }

  TableOptions options() const {
    return {.key_groups = place_.key_groups,
            .range = place_.range,
            .slot_hash_seed = place_.slot_hash_seed};
  }
  OperatorStateOptions operator_state_options() const;
  Status CheckDeclaration(std::string_view name) const;

  /// The timers of one slot, without their types.
  struct SlotClock {
    std::function<Status(TimeDomain, int64_t)> advance;
    std::function<std::optional<int64_t>(TimeDomain)> next;
  };

  const OperatorPlace place_;
  std::vector<std::shared_ptr<void>> owned_;
  std::vector<StateTable*> tables_;  ///< of what is owned, in the order of declaration
  std::vector<SlotClock> clocks_;
  int64_t watermark_ = std::numeric_limits<int64_t>::min();
  bool sealed_ = false;
};

}  // namespace v0
}  // namespace cairn

// SPDX-License-Identifier: Apache-2.0
//
// TimerService: what an operator wants to be called for later: for every key any number of timers,
// each a time domain, a time and a namespace (the window it belongs to, say).
//
// Threads:  the writer's of its StateDomain, but for the calls of StateTable that take a View.
// Invariants
//  1. A timer is its domain, key, time and namespace: registering it twice is registering it once.
//  2. A timer fires once, when the time of its domain has reached its own, across checkpoint,
//     restore and rescale; deleted before, it does not fire.
//  3. Timers fire in the order (time, FNV-1a 64 of key and namespace), whoever registered them
//  when.
//     The time of a domain never goes back.
//  4. Firing ends, whatever callbacks register (docs/state/timers.md).
//
// The timers are rows of a table (cairn/table.h) under the key groups of their keys; a delta holds
// those that came or went. The order in which they fire is kept in memory alone.
//
// Source:   docs/state/timers.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cairn/codec.h"
#include "cairn/detail/timer_table.h"
#include "cairn/state_domain.h"
#include "cairn/state_table.h"
#include "cairn/status.h"
#include "cairn/table.h"
#include "cairn/view.h"

namespace cairn {
inline namespace v0 {

/// The namespace of timers that need none.
struct NoNamespace {
  friend bool operator==(const NoNamespace&, const NoNamespace&) = default;
};

template <>
struct Codec<NoNamespace> {
  static constexpr std::string_view kName = "none";
  static constexpr size_t kEncodedBytes = 0;
  size_t EncodedSize(const NoNamespace&) const { return 0; }
  void Encode(const NoNamespace&, char*) const {}
  Result<NoNamespace> Decode(std::string_view bytes) const {
    if (!bytes.empty()) return detail::WrongWidth(0, bytes.size());
    return NoNamespace{};
  }
  size_t MemoryBytes(const NoNamespace&) const { return 0; }
};

/// `time` plus `delay`, held at the ends of the range.
constexpr int64_t TimeAfter(int64_t time, int64_t delay) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(time, delay, &sum)) return sum;
  return delay < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

/// The last multiple of `step` that is not after `time`, held at the lower end of the range.
///
/// Shape:    step > 0.
constexpr int64_t TimeFloor(int64_t time, int64_t step) {
  const int64_t over = time % step;
  return TimeAfter(time, over < 0 ? -(over + step) : -over);
}

/// Shape:    K, Namespace: what their codecs take; a Bytes key is given and got as a
///           std::string_view.
template <class K, class Namespace = NoNamespace, class KeyCodec = Codec<K>,
          class NamespaceCodec = Codec<Namespace>>
class TimerService final : public StateTable {
 public:
  using KeyArg = typename detail::KeyArgOf<K>::type;

  /// A timer, as callbacks and scans get it; valid during the call.
  struct Timer {
    TimeDomain domain;
    KeyArg key;
    int64_t time;
    Namespace ns;
  };

  /// Add an empty slot to `domain`, which outlives it.
  ///
  /// Shape:    descriptor.key_codec names KeyCodec, value_codec NamespaceCodec; the slot is saved
  ///           with the key codec "timer(NAME)", so that tools do not take its rows for keys.
  TimerService(StateDomain* domain, SlotDescriptor descriptor, TableOptions options = {},
               KeyCodec key_codec = {}, NamespaceCodec ns_codec = {})
      : key_codec_(key_codec),
        ns_codec_(ns_codec),
        timers_(domain, OfTimers(std::move(descriptor)), options,
                {{}, [key_codec, ns_codec](const detail::TimerRowKey& timer) -> Status {
                   const auto key = key_codec.Decode(timer.user_key);
                   if (!key.ok()) return key.status();
                   return ns_codec.Decode(timer.ns).status();
                 }}) {}

  /// Make a timer pending, unless it is. One that is due already fires with the next Advance, or
  /// with the one that is running.
  ///
  /// Units:    of `time`: those of Advance.
  /// Errors:   kResourceExhausted over the memory budget · kInvalidArgument when the key is of a
  ///           group outside key_groups(). Nothing has changed then.
  /// Cost:     two probes of the table and, on average, O(1) in the heap.
  Status Register(TimeDomain domain, KeyArg key, int64_t time, const Namespace& ns = {}) {
    return timers_.Register(Compose(domain, key, time, ns));
  }

  /// Make a timer no longer pending; false when it was not.
  ///
  /// Cost:     a probe; a delete in a thousand and more may sort the heap out, O(timers).
  bool Delete(TimeDomain domain, KeyArg key, int64_t time, const Namespace& ns = {}) {
    return timers_.Delete(Compose(domain, key, time, ns));
  }

  bool IsPending(TimeDomain domain, KeyArg key, int64_t time, const Namespace& ns = {}) const {
    return timers_.IsPending(Compose(domain, key, time, ns));
  }

  /// Set the time of `domain`, unless it is later already, and fire the timers at or before it.
  ///
  /// Shape:    fn(const Timer&), which may register and delete timers and return a Status. The
  ///           greatest int64 is the end of time: what callbacks register fires too.
  /// Errors:   what fn returned: its timer is pending again, later ones are not fired ·
  ///           kInvalidArgument from a callback of the same slot, or when callbacks go on
  ///           registering timers at the end of time · kCorruption when a key does not decode.
  ///           An fn that throws leaves its timer pending too.
  /// Cost:     O(log timers) and a probe for each timer fired.
  template <class Fn>
  Status Advance(TimeDomain domain, int64_t time, Fn&& fn) {
    const auto fire = [&](const detail::TimerRowKey& row_key) { return Visit(row_key, fn); };
    return timers_.Advance(domain, time, std::ref(fire));
  }

  /// The time that Advance has set; the least int64 before the first one.
  int64_t now(TimeDomain domain) const { return timers_.now(domain); }
  /// Time of the first pending timer.
  std::optional<int64_t> NextDue(TimeDomain domain) { return timers_.NextDue(domain); }
  /// Cost: O(1), after a restore once O(timers).
  TimerStatistics Statistics() { return timers_.Statistics(); }
  /// Pending timers now.
  uint64_t size() const { return timers_.size(); }

  /// Call fn(const Timer&) for the timers of `range` pending in `view`, in no order.
  ///
  /// Threads:  any, while the view is open.
  /// Errors:   as Advance.
  template <class Fn>
  Status Scan(const View& view, KeyGroupRange range, Fn&& fn) const {
    Status status;
    timers_.rows().Scan(view, range, [&](const Bytes& row_key, const detail::TimerRow&) {
      detail::TimerRowKey timer;
      if (detail::TimerRowKey::Parse(row_key.view(), &timer)) status = Visit(timer, fn);
      return status.ok();
    });
    return status;
  }

  const SlotDescriptor& descriptor() const override { return timers_.descriptor(); }
  KeyGroupRange key_groups() const override { return timers_.key_groups(); }
  Status EncodeBase(const View& view, KeyGroupRange range, SavedRowSink* sink) const override {
    return timers_.EncodeBase(view, range, sink);
  }
  Status EncodeDelta(const View& view, uint64_t since, KeyGroupRange range,
                     SavedRowSink* sink) const override {
    return timers_.EncodeDelta(view, since, range, sink);
  }
  Status Load(const SavedRowSpan& rows, size_t group_prefix_bytes, size_t key_prefix_bytes,
              LoadCounts* counts) override {
    return timers_.Load(rows, group_prefix_bytes, key_prefix_bytes, counts);
  }
  uint64_t CountRows(const View& view) const override { return timers_.CountRows(view); }
  uint64_t MemoryBytes() const override { return timers_.MemoryBytes(); }

 private:
  static SlotDescriptor OfTimers(SlotDescriptor descriptor) {
    descriptor.key_codec = "timer(" + descriptor.key_codec + ")";
    descriptor.key_columns.clear();
    descriptor.value_columns.clear();
    return descriptor;
  }
  static const K& ToKey(const K& key) { return key; }
  static Bytes ToKey(std::string_view key)
    requires std::is_same_v<K, Bytes>
  {
    return Bytes(key);
  }
  static KeyArg ToArg(const K& key) {
    if constexpr (std::is_same_v<K, Bytes>) {
      return key.view();
    } else {
      return key;
    }
  }

  // The row key; valid until the next call.
  detail::TimerRowKey Compose(TimeDomain domain, KeyArg key, int64_t time,
                              const Namespace& ns) const {
    const auto& typed = ToKey(key);
    const size_t key_bytes = key_codec_.EncodedSize(typed);
    const size_t ns_bytes = ns_codec_.EncodedSize(ns);
    composed_.resize(detail::TimerRowKey::Size(key_bytes, ns_bytes));
    char* const key_at = detail::TimerRowKey::WriteLength(composed_.data(), key_bytes);
    key_codec_.Encode(typed, key_at);
    char* const ns_at = detail::TimerRowKey::WriteTime(key_at + key_bytes, domain, time);
    ns_codec_.Encode(ns, ns_at);
    return {composed_, {key_at, key_bytes}, domain, time, {ns_at, ns_bytes}};
  }

  template <class Fn>
  Status Visit(const detail::TimerRowKey& row_key, Fn& fn) const {
    Result<K> key = key_codec_.Decode(row_key.user_key);
    if (!key.ok()) return DecodeError(key.status(), row_key);
    Result<Namespace> ns = ns_codec_.Decode(row_key.ns);
    if (!ns.ok()) return DecodeError(ns.status(), row_key);
    const Timer timer{row_key.domain, ToArg(*key), row_key.time, *std::move(ns)};
    if constexpr (std::is_void_v<decltype(fn(timer))>) {
      fn(timer);
      return {};
    } else {
      return fn(timer);
    }
  }

  Status DecodeError(const Status& cause, const detail::TimerRowKey& row_key) const {
    return detail::RowErrorOf(descriptor(), cause, "cannot decode a timer of", row_key.user_key);
  }

  KeyCodec key_codec_;
  NamespaceCodec ns_codec_;
  mutable std::string composed_;
  detail::TimerTable timers_;
};

}  // namespace v0
}  // namespace cairn

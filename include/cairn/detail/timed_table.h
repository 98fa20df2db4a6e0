// SPDX-License-Identifier: Apache-2.0
//
// TimedTable: a Table whose rows die. In memory a row is its value with a deadline; saved it is
// [8-byte deadline, little-endian][value].
//
// Invariants
//  1. Every live row has one entry in the expiry index, made at its birth (expiry_index.h).
//  2. A dead row is never seen: not by reads, views, saved rows or callbacks, swept or not.
//  3. A view judges by the times of its capture.
#pragma once

#include <cstring>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include "cairn/detail/expiry_index.h"
#include "cairn/detail/row_writer.h"
#include "cairn/state_table.h"
#include "cairn/table.h"
#include "cairn/ttl.h"

namespace cairn {
inline namespace v0 {
namespace detail {

template <class V>
struct Timed {
  V value{};
  int64_t deadline_ms = 0;
  uint32_t generation = 0;
};

/// What a table of timed rows needs of a codec: memory. Rows are written and read by TimedTable.
template <class V, class ValueCodec>
struct TimedCodec : ValueCodec {
  size_t MemoryBytes(const Timed<V>& row) const { return ValueCodec::MemoryBytes(row.value); }
  size_t EncodedSize(const Timed<V>& row) const { return 8 + ValueCodec::EncodedSize(row.value); }
  void Encode(const Timed<V>& row, char* out) const {
    std::memcpy(out, &row.deadline_ms, 8);
    ValueCodec::Encode(row.value, out + 8);
  }
  Result<Timed<V>> Decode(std::string_view bytes) const {
    if (bytes.size() < 8) return Status::Corruption("no room for the deadline of a TTL slot");
    Timed<V> row;
    CAIRN_ASSIGN_OR_RETURN(row.value, ValueCodec::Decode(bytes.substr(8)));
    std::memcpy(&row.deadline_ms, bytes.data(), 8);
    return row;
  }
};

/// How the deadlines of a saved slot are read, and its clock as of the cut.
struct SavedTtl {
  TtlConfig config;
  TtlNow now;

  static SavedTtl Of(const SlotDescriptor& slot) {
    SavedTtl saved{slot.ttl, {}};
    if (slot.ttl_time_ms) saved.now.now_ms = *slot.ttl_time_ms;
    if (slot.ttl_first_ms) {
      saved.now.pending_ms = DeadlineAfter(*slot.ttl_first_ms, slot.ttl.ttl_ms);
    }
    return saved;
  }
  /// True for what had died by the cut. It stays dead, whatever TTL the slot has now.
  bool IsDead(int64_t deadline_ms) const { return config.enabled() && now.IsDead(deadline_ms); }
};

/// Deadline of a row of a cut saved under `saved`, in a slot of `config`; `now` is the present.
inline int64_t DeadlineOfLoaded(int64_t saved_deadline_ms, const SavedTtl& cut,
                                const TtlConfig& config, const TtlNow& now) {
  const TtlConfig& saved = cut.config;
  if (!saved.enabled() || saved.clock != config.clock) {
    return DeadlineAfter(now.now_ms, config.ttl_ms);
  }
  saved_deadline_ms = cut.now.Resolve(saved_deadline_ms);
  if (saved.ttl_ms == config.ttl_ms || saved_deadline_ms == kPendingDeadline) {
    return saved_deadline_ms;
  }
  // From the write on, by the new length.
  const int64_t written_ms = SaturatingAdd(saved_deadline_ms, -saved.ttl_ms);
  return DeadlineAfter(written_ms == kNoTime ? kNoTime + 1 : written_ms, config.ttl_ms);
}

template <class K, class V, class KeyCodec, class ValueCodec>
class TimedTable final : public StateTable {
 public:
  using Row = Timed<V>;
  using Rows = Table<K, Row, KeyCodec, TimedCodec<V, ValueCodec>>;
  using KeyArg = typename Rows::KeyArg;

  TimedTable(StateDomain* domain, SlotDescriptor descriptor, TableOptions options,
             KeyCodec key_codec, ValueCodec value_codec)
      : config_(descriptor.ttl),
        saved_(SavedTtl::Of(descriptor)),
        core_(domain->core()),
        index_(core_, descriptor.ttl.ttl_ms),
        codec_{std::move(value_codec)},
        rows_(domain, std::move(descriptor), options, std::move(key_codec), codec_) {}

  template <class Fn>
  Status UpdateHashed(KeyArg key, uint64_t fnv, Fn&& fn) {
    const TtlNow now = Now();
    bool born = false;
    auto change = [&](Row& row,
                      bool inserted) noexcept(std::is_nothrow_invocable_v<Fn&, V&, bool>) {
      born = ChangeRow(now, row, inserted, fn);
    };
    CAIRN_RETURN_IF_ERROR(rows_.UpdateHashed(key, fnv, change));
    if (born) Enter(now, key, fnv);
    return {};
  }

  template <class KeyAt, class FnvAt, class Fn>
  Status UpdateBatch(size_t count, KeyAt&& key_at, FnvAt&& fnv_at, Fn&& fn) {
    const TtlNow now = Now();
    return rows_.UpdateBatch(count, key_at, fnv_at,
                             [&](size_t i, Row& row, bool inserted) noexcept(
                                 std::is_nothrow_invocable_v<Fn&, size_t, V&, bool>) {
                               auto one = [&](V& value, bool fresh) noexcept(
                                              std::is_nothrow_invocable_v<Fn&, size_t, V&, bool>) {
                                 fn(i, value, fresh);
                               };
                               if (ChangeRow(now, row, inserted, one))
                                 Enter(now, key_at(i), fnv_at(i));
                             });
  }

  bool EraseHashed(KeyArg key, uint64_t fnv) {
    const Row* row = rows_.FindHashed(key, fnv);
    if (row == nullptr) return false;
    const bool live = !Now().IsDead(row->deadline_ms);
    rows_.EraseHashed(key, fnv);
    return live;
  }

  /// Finding a dead row erases it; with refresh_on_read finding a live one moves its deadline.
  const V* FindHashed(KeyArg key, uint64_t fnv) {
    const Row* row = rows_.FindHashed(key, fnv);
    if (row == nullptr) return nullptr;
    const TtlNow now = Now();
    if (now.IsDead(row->deadline_ms)) {
      rows_.EraseHashed(key, fnv);
      return nullptr;
    }
    if (config_.refresh_on_read) {
      const int64_t deadline = DeadlineAfter(now.now_ms, config_.ttl_ms);
      if (deadline != row->deadline_ms) {
        // Refused memory leaves the old deadline, which is not worth failing a read for.
        const Status refreshed = rows_.UpdateHashed(
            key, fnv, [&](Row& to, bool) noexcept { to.deadline_ms = deadline; });
        if (refreshed.ok()) row = rows_.FindHashed(key, fnv);
      }
    }
    return &row->value;
  }

  template <class Fn>
  void ScanNow(KeyGroupRange range, Fn&& fn) const {
    const TtlNow now = Now();
    rows_.ScanNow(range, [&](const K& key, const Row& row) {
      if (!now.IsDead(row.deadline_ms)) fn(key, row.value);
    });
  }

  template <class Fn>
  bool Get(const View& view, KeyArg key, Fn&& fn) const {
    const TtlNow now = NowOf(view);
    bool found = false;
    rows_.Get(view, key, [&](const Row& row) {
      found = !now.IsDead(row.deadline_ms);
      if (found) fn(row.value);
    });
    return found;
  }

  template <class Fn>
  void Scan(const View& view, KeyGroupRange range, Fn&& fn) const {
    const TtlNow now = NowOf(view);
    rows_.Scan(view, range, [&](const K& key, const Row& row) {
      if (now.IsDead(row.deadline_ms)) return true;
      if constexpr (std::is_same_v<decltype(fn(key, row.value)), bool>) {
        return fn(key, row.value);
      } else {
        fn(key, row.value);
        return true;
      }
    });
  }

  const SlotDescriptor& descriptor() const override { return rows_.descriptor(); }
  KeyGroupRange key_groups() const override { return rows_.key_groups(); }
  Status EncodeBase(const View& view, KeyGroupRange range, SavedRowSink* sink) const override {
    return EncodeRows(view, 0, false, range, sink);
  }
  Status EncodeDelta(const View& view, uint64_t since, KeyGroupRange range,
                     SavedRowSink* sink) const override {
    return EncodeRows(view, since, true, range, sink);
  }
  Status ExpectSaved(const SlotDescriptor& saved) override {
    saved_ = SavedTtl::Of(saved);
    core_->times.Resume(saved.ttl.clock, saved.ttl_time_ms, saved.ttl_first_ms);
    return {};
  }
  Status Load(const SavedRowSpan& rows, size_t group_prefix_bytes, size_t key_prefix_bytes,
              LoadCounts* counts) override {
    return rows_.LoadWith(rows, group_prefix_bytes, key_prefix_bytes, counts, Loader{this, Now()});
  }
  /// Cost: O(rows) once there is a time.
  uint64_t CountRows(const View& view) const override {
    if (NowOf(view).now_ms == kNoTime) return rows_.CountRows(view);
    uint64_t live = 0;
    Scan(view, key_groups(), [&](const K&, const V&) { ++live; });
    return live;
  }
  uint64_t MemoryBytes() const override { return rows_.MemoryBytes() + index_.bytes(); }
  /// Rows now, dead ones that are not swept yet among them.
  uint64_t size() const { return rows_.size(); }

  size_t Maintain(size_t budget) override {
    constexpr size_t kBlock = 32;
    const TtlNow now = Now();
    ExpiryEntry due[kBlock];
    size_t done = 0;
    while (done < budget) {
      const size_t taken = index_.Take(now, std::min(kBlock, budget - done), due);
      if (taken == 0) break;
      for (size_t i = 0; i < taken; ++i) rows_.PrefetchAt({due[i].hash, due[i].group});
      for (size_t i = 0; i < taken; ++i) SweepRow(now, due[i]);
      done += taken;
    }
    rows_.Shrink(1 + budget / 64);
    return done;
  }

  TtlStatistics Statistics(const View& view, int64_t by_ms) const {
    const TtlNow now = NowOf(view);
    TtlStatistics counts;
    rows_.Scan(view, key_groups(), [&](const K&, const Row& row) {
      const bool dead = now.IsDead(row.deadline_ms);
      ++(dead ? counts.expired : counts.live);
      if (!dead && now.Resolve(row.deadline_ms) <= by_ms) ++counts.will_expire;
    });
    counts.bytes = MemoryBytes();
    return counts;
  }

  Rows& rows() { return rows_; }
  const Rows& rows() const { return rows_; }
  const ValueCodec& value_codec() const { return codec_; }

 private:
  /// Applies saved rows: Table::LoadWith.
  struct Loader {
    TimedTable* table;
    TtlNow now;
    std::string_view UserKey(std::string_view row_key) const { return row_key; }
    Status LoadRow(uint64_t fnv, std::string_view user_key, std::string_view,
                   const SavedRowSpan& rows, size_t row) const {
      return table->LoadRow(now, fnv, user_key, rows, row);
    }
  };

  TtlNow Now() const { return TtlNowOf(core_->times, config_); }
  TtlNow NowOf(const View& view) const { return TtlNowOf(view.node()->times, config_); }

  // True when the row is new and needs an entry in the index.
  template <class Fn>
  bool ChangeRow(const TtlNow& now, Row& row, bool inserted, Fn& fn) {
    bool fresh = inserted;
    if (!inserted && now.IsDead(row.deadline_ms)) [[unlikely]] {
      row.value = V{};
      fresh = true;
    }
    fn(row.value, fresh);
    if (fresh || config_.refresh_on_write) {
      row.deadline_ms = DeadlineAfter(now.now_ms, config_.ttl_ms);
    }
    if (inserted) [[unlikely]] {
      row.generation = ++generation_;
    }
    return inserted;
  }

  void Enter(const TtlNow& now, KeyArg key, uint64_t fnv) {
    const auto at = rows_.AddressOf(key, fnv);
    index_.Add(DeadlineAfter(now.now_ms, config_.ttl_ms), {at.hash, at.group, generation_});
  }

  void SweepRow(const TtlNow& now, const ExpiryEntry& entry) {
    int64_t deadline = 0;
    const typename Rows::Address at{entry.hash, entry.group};
    const K* found = rows_.FindAt(at, [&](const K&, const Row& row) {
      deadline = row.deadline_ms;
      return row.generation == entry.generation;
    });
    if (found == nullptr) return;
    if (now.IsDead(deadline)) {
      const K key = *found;
      rows_.EraseAt(at, key);
    } else {
      index_.Add(now.Resolve(deadline), entry);
    }
  }

  Status EncodeRows(const View& view, uint64_t since, bool delta, KeyGroupRange range,
                    SavedRowSink* sink) const {
    const TtlNow now = NowOf(view);
    RowWriter writer(sink);
    return rows_.ScanSaved(
        view, since, delta, range, [&](uint32_t group, const K& key, const Row* row) -> Status {
          const bool live = row != nullptr && !now.IsDead(row->deadline_ms);
          if (!live && !delta) return {};
          return EncodeRow(now, group, key, live ? row : nullptr, delta, &writer);
        });
  }

  Status EncodeRow(const TtlNow& now, uint32_t group, const K& key, const Row* row, bool delta,
                   RowWriter* writer) const {
    Status status;
    try {
      const SavedRowKind kind = !delta           ? SavedRowKind::kMaterialised
                                : row != nullptr ? SavedRowKind::kPut
                                                 : SavedRowKind::kErase;
      const size_t bytes = row == nullptr ? 0 : codec_.EncodedSize(*row);
      Result<SavedRows::Slot> to =
          writer->Append(group, kind, rows_.key_codec().EncodedSize(key), bytes);
      if (to.ok()) {
        rows_.key_codec().Encode(key, to->key);
        if (row == nullptr) return {};
        codec_.Encode(*row, to->value);
        // What was written before there was a time has a deadline as soon as there is one.
        if (now.now_ms != kNoTime) {
          const int64_t deadline = now.Resolve(row->deadline_ms);
          std::memcpy(to->value, &deadline, 8);
        }
        return {};
      }
      status = to.status();
    } catch (const std::exception& error) {
      status = Status::InvalidArgument(error.what());
    }
    return rows_.KeyError(status, "cannot encode", key);
  }

  Status LoadRow(const TtlNow& now, uint64_t fnv, std::string_view key_bytes,
                 const SavedRowSpan& rows, size_t at) {
    Result<K> key = rows_.key_codec().Decode(key_bytes);
    if (!key.ok()) return rows_.RowError(key.status(), "cannot decode", key_bytes);
    const KeyArg arg = ArgOf(*key);
    if (rows.kind(at) == SavedRowKind::kErase) {
      rows_.EraseHashed(arg, fnv);
      return {};
    }
    std::string_view bytes = rows.value(at);
    Row loaded;
    if (saved_.config.enabled()) {
      Result<Row> row = codec_.Decode(bytes);
      if (!row.ok()) return rows_.RowError(row.status(), "cannot decode the value of", key_bytes);
      loaded = *std::move(row);
    } else {
      Result<V> value = codec_.ValueCodec::Decode(bytes);
      if (!value.ok()) {
        return rows_.RowError(value.status(), "cannot decode the value of", key_bytes);
      }
      loaded.value = *std::move(value);
    }
    const bool materialised = rows.kind(at) == SavedRowKind::kMaterialised;
    if (materialised && rows_.FindHashed(arg, fnv) != nullptr) {
      return rows_.RowError(Status::Corruption("the key is saved twice"), "cannot load", key_bytes);
    }
    if (saved_.IsDead(loaded.deadline_ms)) {
      rows_.EraseHashed(arg, fnv);
      return {};
    }
    loaded.deadline_ms = DeadlineOfLoaded(loaded.deadline_ms, saved_, config_, now);
    bool born = false;
    auto set = [&](Row& row, bool inserted) noexcept(std::is_nothrow_move_assignable_v<V>) {
      born = inserted;
      row.value = std::move(loaded.value);
      row.deadline_ms = loaded.deadline_ms;
      if (inserted) row.generation = ++generation_;
    };
    const auto address = rows_.AddressOf(arg, fnv);
    CAIRN_RETURN_IF_ERROR(rows_.UpdateAt(address, *key, set));
    if (born) index_.Add(loaded.deadline_ms, {address.hash, address.group, generation_});
    return {};
  }

  static KeyArg ArgOf(const K& key) {
    if constexpr (std::is_same_v<K, Bytes>) {
      return key.view();
    } else {
      return key;
    }
  }

  const TtlConfig config_;
  SavedTtl saved_;  ///< of the cut that Load is given
  DomainCore* const core_;
  ExpiryIndex index_;
  uint32_t generation_ = 0;
  TimedCodec<V, ValueCodec> codec_;
  Rows rows_;
};

}  // namespace detail
}  // namespace v0
}  // namespace cairn

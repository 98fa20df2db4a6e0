// SPDX-License-Identifier: Apache-2.0
//
// CollectionTable: what ListState and MapState share. In memory a collection is one boxed value of
// a Table; saved, every element is a row of its own beside a header row:
//
//   [user key bytes: 4, big-endian][user key][0]                 -> [count: 8][next index: 8], LE
//   [user key bytes: 4, big-endian][user key][1][element key]    -> ([deadline: 8, LE])[value]
//
// Rows of a group ascend by (slot hash of the user key, row key). Group and slot hash are those of
// the user key, so all rows of a collection lie together and move together.
//
// Invariants
//  1. A collection without live elements is absent, whatever it still keeps.
//  2. Such a hollow collection keeps its removed elements until their removal is committed and no
//     view needs it; then Maintain, or a later removal, erases it.
//  3. With a TTL a collection has one valid entry in the expiry index, at its least deadline or
//     before: (generation, entered_ms). Readers never look at those two, nor at hollow_epoch.
//
// Source:   docs/state/kinds.md, docs/formats/keys.md.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/detail/collection.h"
#include "cairn/detail/element_set.h"
#include "cairn/detail/expiry_index.h"
#include "cairn/detail/row_writer.h"
#include "cairn/detail/timed_table.h"
#include "cairn/element_row_key.h"
#include "cairn/state_table.h"
#include "cairn/table.h"
#include "cairn/ttl.h"

namespace cairn {
inline namespace v0 {
namespace detail {

template <class K, class Elements, class KeyCodec, class ElementKeyCodec, class ElementCodec>
class CollectionTable : public StateTable {
 public:
  using Stored = Collection<Elements>;
  using Rows = Table<K, Stored, KeyCodec, CollectionCodec<Elements>>;
  using KeyArg = typename Rows::KeyArg;
  using EK = typename Elements::Key;
  using EV = typename Elements::Value;
  using E = typename Elements::E;

  CollectionTable(StateDomain* domain, SlotDescriptor descriptor, TableOptions options,
                  KeyCodec key_codec)
      : config_(descriptor.ttl),
        saved_(SavedTtl::Of(descriptor)),
        element_bytes_max_(options.value_bytes_max),
        collection_bytes_max_(options.collection_bytes_max),
        core_(domain->core()),
        account_(core_->AddLogAccount()),
        index_(core_, descriptor.ttl.ttl_ms),
        hasher_(options.slot_hash_seed),
        rows_(domain, std::move(descriptor), OfBoxes(options), std::move(key_codec)) {}

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
  /// Header and element rows. Cost: O(collections), with a TTL O(elements due).
  uint64_t CountRows(const View& view) const override {
    const TtlNow now = NowOf(view);
    uint64_t rows = 0;
    rows_.Scan(view, key_groups(), [&](const K&, const Stored& stored) {
      const uint64_t alive = stored.elements.CountAlive(now);
      rows += alive == 0 ? 0 : alive + 1;
    });
    return rows;
  }
  /// Elements that only older views still show are among them.
  uint64_t MemoryBytes() const override {
    return rows_.MemoryBytes() + account_->bytes.load(std::memory_order_relaxed) + index_.bytes();
  }

  /// Sweep at most about `budget` expired elements and give memory back.
  size_t Maintain(size_t budget) override {
    const TtlNow now = Now();
    size_t done = 0;
    ExpiryEntry due;
    while (done < budget && index_.Take(now, 1, &due) == 1) done += SweepCollection(now, due);
    done += ForgetHollow(budget > done ? budget - done : 1);
    rows_.Shrink(1 + budget / 64);
    return done;
  }

  TtlStatistics Statistics(const View& view, int64_t by_ms) const {
    const TtlNow now = NowOf(view);
    TtlStatistics counts;
    rows_.Scan(view, key_groups(), [&](const K&, const Stored& stored) {
      stored.elements.ForEach(0, [&](const E& element) {
        if (!element.live) return true;
        const bool dead = now.IsDead(element.deadline_ms);
        ++(dead ? counts.expired : counts.live);
        if (!dead && now.Resolve(element.deadline_ms) <= by_ms) ++counts.will_expire;
        return true;
      });
    });
    counts.bytes = MemoryBytes();
    return counts;
  }

  /// Remove the collection of `key`.
  ///
  /// Errors:   kResourceExhausted over the memory budget: nothing has changed.
  Status Clear(KeyArg key) {
    const uint64_t fnv = rows_.FnvOf(key);
    const Stored* stored = FindStored(key, fnv);
    if (stored == nullptr || stored->elements.count() == 0) return {};
    return Change(key, fnv, Now(),
                  [](Stored& to, const ElementContext& in) { to.elements.Clear(in); });
  }

  /// Elements of the collection. Cost: O(1), with a TTL O(elements due).
  uint64_t Size(KeyArg key) const {
    const Stored* stored = FindStored(key, rows_.FnvOf(key));
    return stored == nullptr ? 0 : stored->elements.CountAlive(Now());
  }
  uint64_t Size(const View& view, KeyArg key) const {
    uint64_t alive = 0;
    rows_.Get(view, key,
              [&](const Stored& stored) { alive = stored.elements.CountAlive(NowOf(view)); });
    return alive;
  }

  /// Collections now, those whose elements have all expired but are not swept among them.
  uint64_t size() const { return collections_; }

  /// Call fn(element key, const value&) for every element: a list's by index, a map's in order with
  /// an ordered codec, else in none. When it returns bool, false ends it. fn must not change the
  /// slot.
  template <class Fn>
  void ForEach(KeyArg key, Fn&& fn) const {
    const Stored* stored = FindStored(key, rows_.FnvOf(key));
    if (stored != nullptr) stored->elements.ForAlive(Now(), fn);
  }
  template <class Fn>
  void ForEach(const View& view, KeyArg key, Fn&& fn) const {
    rows_.Get(view, key, [&](const Stored& stored) { stored.elements.ForAlive(NowOf(view), fn); });
  }

  /// Call fn(const K& key, element key, const value&) for the collections of `range` in `view`, one
  /// after another.
  template <class Fn>
  void Scan(const View& view, KeyGroupRange range, Fn&& fn) const {
    const TtlNow now = NowOf(view);
    rows_.Scan(view, range, [&](const K& key, const Stored& stored) {
      auto one = [&](const EK& element_key, const EV& value) { fn(key, element_key, value); };
      stored.elements.ForAlive(now, one);
    });
  }

 protected:
  TtlNow Now() const { return TtlNowOf(core_->times, config_); }
  TtlNow NowOf(const View& view) const { return TtlNowOf(view.node()->times, config_); }
  int64_t NewDeadline(const TtlNow& now) const {
    return config_.enabled() ? DeadlineAfter(now.now_ms, config_.ttl_ms) : kDeadlineMax;
  }

  ElementContext Context() const {
    return {core_, account_, core_->epoch, core_->TombstoneFloor(), core_->track_deltas};
  }

  const Stored* FindStored(KeyArg key, uint64_t fnv) const { return rows_.FindHashed(key, fnv); }

  const E* FindAlive(KeyArg key, uint64_t fnv, const TtlNow& now, const EK& element_key) const {
    const Stored* stored = FindStored(key, fnv);
    const E* element = stored == nullptr ? nullptr : stored->elements.Find(element_key, hasher_);
    return element == nullptr || now.IsDead(element->deadline_ms) ? nullptr : element;
  }

  /// Throw ElementRefused when `value` is too large for itself or for the collection.
  void CheckSize(KeyArg key, const Stored& stored, const EV& value) const {
    const size_t bytes = element_codec_.EncodedSize(value);
    const uint64_t held = stored.elements.bytes();
    if (bytes > element_bytes_max_) {
      throw ElementRefused{TooLarge(key, "an element of " + std::to_string(bytes) +
                                             " bytes, at most " +
                                             std::to_string(element_bytes_max_) + " are allowed")};
    }
    if (held + bytes > collection_bytes_max_) {
      throw ElementRefused{
          TooLarge(key, "a collection of " + std::to_string(held) + " bytes cannot take " +
                            std::to_string(bytes) + " more, at most " +
                            std::to_string(collection_bytes_max_) + " are allowed")};
    }
  }

  /// Call change(Stored&, const ElementContext&) on the collection of `key`, made when it is
  /// missing. When it throws, the collection is as before; ElementRefused becomes its status.
  template <class Fn>
  Status Change(KeyArg key, uint64_t fnv, const TtlNow& now, Fn&& change) {
    return ChangeAt(
        rows_.AddressOf(key, fnv), now, [&](auto& fn) { return rows_.UpdateHashed(key, fnv, fn); },
        change);
  }

  /// The same at `at`, through apply(fn), which gives fn(Stored&, bool) to the table.
  template <class Apply, class Fn>
  Status ChangeAt(typename Rows::Address at, const TtlNow& now, Apply&& apply, Fn& change) {
    const ElementContext in = Context();
    Status refused;
    std::exception_ptr thrown;
    uint64_t before = 0;
    uint64_t after = 0;
    ExpiryEntry entry{at.hash, at.group, 0};
    int64_t entered_ms = kNoTime;
    auto fn = [&](Stored& stored, bool) noexcept {
      before = stored.elements.count();
      try {
        change(stored, in);
      } catch (ElementRefused& refusal) {
        refused = std::move(refusal.status);
      } catch (...) {
        thrown = std::current_exception();
      }
      after = stored.elements.count();
      if (stored.generation == 0) stored.generation = ++generation_;
      if (after == 0) stored.hollow_epoch = in.epoch;
      entry.generation = stored.generation;
      entered_ms = stored.entered_ms;
    };
    Status status = apply(fn);
    if (!status.ok()) return status;
    collections_ += (after > 0 ? 1 : 0) - (before > 0 ? 1 : 0);
    if (after == 0) {
      hollow_.push_back({entry, in.epoch});
      ForgetHollow(2);
    }
    if (thrown) std::rethrow_exception(thrown);
    if (!refused.ok()) return refused;
    if (config_.enabled() && after > before) EnterAt(at, now, entry, entered_ms);
    return {};
  }

  const TtlConfig config_;
  SavedTtl saved_;  ///< of the cut that Load is given
  const uint64_t element_bytes_max_;
  const uint64_t collection_bytes_max_;
  DomainCore* const core_;
  LogAccount* const account_;
  ExpiryIndex index_;
  const ElementHasher hasher_;
  uint32_t generation_ = 0;
  uint64_t collections_ = 0;
  [[no_unique_address]] ElementKeyCodec element_key_codec_;
  [[no_unique_address]] ElementCodec element_codec_;
  Rows rows_;

 private:
  /// A collection that lost its last element in `epoch`.
  struct Hollow {
    ExpiryEntry entry;
    uint32_t epoch;
  };
  /// Applies saved rows: Table::LoadWith.
  struct Loader {
    CollectionTable* table;
    TtlNow now;
    std::string_view UserKey(std::string_view row_key) const {
      return ElementRowKey::Parse(row_key).user_key;
    }
    Status LoadRow(uint64_t fnv, std::string_view, std::string_view row_key,
                   const SavedRowSpan& rows, size_t row) const {
      return table->LoadRow(now, fnv, ElementRowKey::Parse(row_key), rows, row);
    }
  };

  // Limits are those of elements, not of the boxes that hold them.
  static TableOptions OfBoxes(TableOptions options) {
    options.value_bytes_max = UINT64_MAX;
    return options;
  }

  Status TooLarge(KeyArg key, const std::string& what) const {
    const K stored = [&] {
      if constexpr (std::is_same_v<K, Bytes>) {
        return Bytes(key);
      } else {
        return key;
      }
    }();
    return rows_.KeyError(Status::InvalidArgument(what), "cannot add to", stored);
  }

  // --- expiry ----------------------------------------------------------------------------------

  // A change has put an element with the newest deadline in: the collection needs an entry at its
  // birth, and when what it has is later.
  void EnterAt(typename Rows::Address at, const TtlNow& now, ExpiryEntry entry,
               int64_t entered_ms) {
    const int64_t deadline = NewDeadline(now);
    if (entered_ms != kNoTime && now.Resolve(entered_ms) <= deadline) return;
    Enter(at, entry, deadline);
  }

  void Enter(typename Rows::Address at, ExpiryEntry entry, int64_t deadline_ms) {
    const uint32_t fresh = ++generation_;
    const K* key = rows_.FindAt(at, [&](const K&, const Stored& stored) {
      if (stored.generation != entry.generation) return false;
      // Invariant 3: no reader looks at the two.
      auto& mutable_stored = const_cast<Stored&>(stored);
      mutable_stored.generation = fresh;
      mutable_stored.entered_ms = deadline_ms;
      return true;
    });
    if (key == nullptr) return;
    entry.generation = fresh;
    index_.Add(deadline_ms, entry);
  }

  // Returns what it cost, in elements.
  size_t SweepCollection(const TtlNow& now, const ExpiryEntry& entry) {
    const typename Rows::Address at{entry.hash, entry.group};
    const Stored* found = nullptr;
    const K* found_key = rows_.FindAt(at, [&](const K&, const Stored& stored) {
      found = &stored;
      return stored.generation == entry.generation;
    });
    if (found_key == nullptr) return 1;
    const K key = *found_key;
    int64_t least = found->elements.LeastDeadline(now);
    if (found->elements.count() > 0 && !now.IsDead(least)) {
      Enter(at, entry, least);
      return 1;
    }
    const uint64_t before = found->elements.count();
    auto sweep = [&](Stored& stored, const ElementContext& in) {
      stored.entered_ms = kNoTime;
      least = stored.elements.RemoveExpired(in, now);
    };
    const Status swept =
        ChangeAt(at, now, [&](auto& fn) { return rows_.UpdateAt(at, key, fn); }, sweep);
    const uint64_t after = CountAt(at, entry);
    // Without memory for the copies it waits for the next bucket.
    if (!swept.ok()) least = DeadlineAfter(now.now_ms, 1);
    if (after > 0) Enter(at, entry, least);
    return 1 + before - after;
  }

  uint64_t CountAt(typename Rows::Address at, const ExpiryEntry& entry) const {
    uint64_t count = 0;
    rows_.FindAt(at, [&](const K&, const Stored& stored) {
      if (stored.generation != entry.generation) return false;
      count = stored.elements.count();
      return true;
    });
    return count;
  }

  // Erases up to `steps` collections that have been hollow for long enough.
  size_t ForgetHollow(size_t steps) {
    const ElementContext in = Context();
    size_t done = 0;
    for (; done < steps && !hollow_.empty(); ++done) {
      const Hollow next = hollow_.front();
      if (in.remember && next.epoch > in.floor) break;
      hollow_.pop_front();
      const typename Rows::Address at{next.entry.hash, next.entry.group};
      const K* key = rows_.FindAt(at, [&](const K&, const Stored& stored) {
        // One that was filled and emptied again waits for its own turn.
        return stored.generation == next.entry.generation && stored.elements.count() == 0 &&
               stored.hollow_epoch == next.epoch;
      });
      if (key == nullptr) continue;
      const K copy = *key;
      rows_.EraseAt(at, copy);
    }
    return done;
  }

  // --- saved rows ------------------------------------------------------------------------------

  Status EncodeRows(const View& view, uint64_t since, bool delta, KeyGroupRange range,
                    SavedRowSink* sink) const {
    const TtlNow now = NowOf(view);
    RowWriter writer(sink);
    return rows_.ScanSaved(view, since, delta, range,
                           [&](uint32_t group, const K& key, const Stored* stored) -> Status {
                             if (stored == nullptr) return {};
                             return EncodeCollection(now, group, key, *stored,
                                                     static_cast<uint32_t>(since), delta, &writer);
                           });
  }

  Status EncodeCollection(const TtlNow& now, uint32_t group, const K& key, const Stored& stored,
                          uint32_t since, bool delta, RowWriter* writer) const {
    Status status;
    try {
      status = rows_.WithEncodedKey(key, [&](std::string_view user_key) {
        return EncodeParts(now, group, user_key, stored, since, delta, writer);
      });
    } catch (const std::exception& error) {
      status = Status::InvalidArgument(error.what());
    }
    return status.ok() ? status : rows_.KeyError(status, "cannot encode", key);
  }

  Status EncodeParts(const TtlNow& now, uint32_t group, std::string_view user_key,
                     const Stored& stored, uint32_t since, bool delta, RowWriter* writer) const {
    const uint64_t alive = stored.elements.CountAlive(now);
    if (alive > 0 || delta) {
      const SavedRowKind kind = KindOf(alive > 0, delta);
      CAIRN_ASSIGN_OR_RETURN(
          const SavedRows::Slot to,
          writer->Append(group, kind, ElementRowKey::Size(user_key.size(), 0), alive > 0 ? 16 : 0));
      ElementRowKey::Write(to.key, user_key, ElementRowKey::kHeader);
      if (alive > 0) {
        std::memcpy(to.value, &alive, 8);
        std::memcpy(to.value + 8, &stored.next_index, 8);
      }
    }
    Status status;
    InSavedOrder(stored.elements, delta ? since : 0, [&](const E& element) {
      const bool live = element.live && !now.IsDead(element.deadline_ms);
      if (live || delta) {
        status = EncodeElement(now, group, user_key, element, KindOf(live, delta), writer);
      }
      return status.ok();
    });
    return status;
  }

  static SavedRowKind KindOf(bool live, bool delta) {
    return !delta ? SavedRowKind::kMaterialised : live ? SavedRowKind::kPut : SavedRowKind::kErase;
  }

  // Elements by their encoded keys.
  template <class Visit>
  void InSavedOrder(const Elements& elements, uint32_t since, Visit&& visit) const {
    if constexpr (Elements::kSorted) {
      elements.ForEach(since, visit);
    } else {
      std::vector<std::pair<std::string, const E*>> sorted;
      elements.ForEach(since, [&](const E& element) {
        std::string bytes(element_key_codec_.EncodedSize(element.key), '\0');
        element_key_codec_.Encode(element.key, bytes.data());
        sorted.emplace_back(std::move(bytes), &element);
        return true;
      });
      std::sort(sorted.begin(), sorted.end());
      for (const auto& entry : sorted) {
        if (!visit(*entry.second)) return;
      }
    }
  }

  Status EncodeElement(const TtlNow& now, uint32_t group, std::string_view user_key,
                       const E& element, SavedRowKind kind, RowWriter* writer) const {
    const size_t stamp_bytes = config_.enabled() ? 8 : 0;
    const bool erased = kind == SavedRowKind::kErase;
    const size_t value_bytes = erased ? 0 : stamp_bytes + element_codec_.EncodedSize(element.value);
    CAIRN_ASSIGN_OR_RETURN(
        const SavedRows::Slot to,
        writer->Append(
            group, kind,
            ElementRowKey::Size(user_key.size(), element_key_codec_.EncodedSize(element.key)),
            value_bytes));
    element_key_codec_.Encode(element.key,
                              ElementRowKey::Write(to.key, user_key, ElementRowKey::kElement));
    if (erased) return {};
    if (config_.enabled()) {
      const int64_t deadline =
          now.now_ms == kNoTime ? element.deadline_ms : now.Resolve(element.deadline_ms);
      std::memcpy(to.value, &deadline, 8);
    }
    element_codec_.Encode(element.value, to.value + stamp_bytes);
    return {};
  }

  Status LoadRow(const TtlNow& now, uint64_t fnv, const ElementRowKey& row_key,
                 const SavedRowSpan& rows, size_t row) {
    Result<K> key = rows_.key_codec().Decode(row_key.user_key);
    if (!key.ok()) return rows_.RowError(key.status(), "cannot decode", row_key.user_key);
    const KeyArg arg = [&]() -> KeyArg {
      if constexpr (std::is_same_v<K, Bytes>) {
        return key->view();
      } else {
        return *key;
      }
    }();
    const bool erase = rows.kind(row) == SavedRowKind::kErase;
    if (!erase) {
      CAIRN_RETURN_IF_ERROR(CheckLoaded(arg, fnv, row_key, rows.kind(row)));
    }
    Status status = row_key.part == ElementRowKey::kHeader
                        ? LoadHeader(arg, fnv, erase, rows.value(row))
                        : LoadElement(now, arg, fnv, erase, row_key.element_key, rows.value(row));
    if (status.ok()) return status;
    return rows_.RowError(status, "cannot decode a collection of", row_key.user_key);
  }

  // A header comes before its elements, and a materialised row for the first time.
  Status CheckLoaded(KeyArg key, uint64_t fnv, const ElementRowKey& row_key,
                     SavedRowKind kind) const {
    const Stored* stored = FindStored(key, fnv);
    const bool header = row_key.part == ElementRowKey::kHeader;
    if (!header && stored == nullptr) {
      return rows_.RowError(Status::Corruption("an element without the header before it"),
                            "cannot load a collection of", row_key.user_key);
    }
    if (kind != SavedRowKind::kMaterialised) return {};
    bool twice = stored != nullptr;
    if (!header) {
      const Result<EK> element_key = element_key_codec_.Decode(row_key.element_key);
      twice = element_key.ok() && stored->elements.Find(*element_key, hasher_) != nullptr;
    }
    if (!twice) return {};
    return rows_.RowError(Status::Corruption(header ? "its header is saved twice"
                                                    : "one of its elements is saved twice"),
                          "cannot load a collection of", row_key.user_key);
  }

  Status LoadHeader(KeyArg key, uint64_t fnv, bool erase, std::string_view value) {
    if (erase) return {};  // its elements are erased by rows of their own
    if (value.size() != 16) return Status::Corruption("a header has 16 bytes");
    uint64_t next_index;
    std::memcpy(&next_index, value.data() + 8, 8);
    return rows_.UpdateHashed(key, fnv, [&](Stored& stored, bool) noexcept {
      stored.next_index = std::max(stored.next_index, next_index);
      if (stored.generation == 0) stored.generation = ++generation_;
    });
  }

  Status LoadElement(const TtlNow& now, KeyArg key, uint64_t fnv, bool erase,
                     std::string_view element_key_bytes, std::string_view value_bytes) {
    CAIRN_ASSIGN_OR_RETURN(EK element_key, element_key_codec_.Decode(element_key_bytes));
    const auto forgetting = [](ElementContext in) {
      in.remember = false;
      return in;
    };
    const auto remove = [&]() -> Status {
      if (FindStored(key, fnv) == nullptr) return {};
      return Change(key, fnv, now, [&](Stored& stored, const ElementContext& in) {
        stored.elements.Remove(forgetting(in), hasher_, element_key);
        if (stored.elements.count() == 0) stored.elements.Prune(forgetting(in));
      });
    };
    if (erase) return remove();
    int64_t deadline = kDeadlineMax;
    if (saved_.config.enabled()) {
      if (value_bytes.size() < 8) {
        return Status::Corruption("no room for the deadline of a TTL slot");
      }
      std::memcpy(&deadline, value_bytes.data(), 8);
      value_bytes.remove_prefix(8);
      if (saved_.IsDead(deadline)) return remove();
    }
    deadline = config_.enabled() ? DeadlineOfLoaded(deadline, saved_, config_, now) : kDeadlineMax;
    CAIRN_ASSIGN_OR_RETURN(EV value, element_codec_.Decode(value_bytes));
    CAIRN_RETURN_IF_ERROR(Change(key, fnv, now, [&](Stored& stored, const ElementContext& in) {
      if constexpr (std::is_same_v<EK, uint64_t> && Elements::kSorted) {
        stored.next_index = std::max(stored.next_index, element_key + 1);
      }
      stored.elements.Put(in, hasher_, std::move(element_key), std::move(value), deadline);
    }));
    if (!config_.enabled()) return {};
    const Stored* stored = FindStored(key, fnv);
    const auto at = rows_.AddressOf(key, fnv);
    const int64_t entered_ms = stored->entered_ms;
    if (entered_ms == kNoTime || now.Resolve(deadline) < now.Resolve(entered_ms)) {
      Enter(at, {at.hash, at.group, stored->generation}, deadline);
    }
    return {};
  }

  std::deque<Hollow> hollow_;
};

}  // namespace detail
}  // namespace v0
}  // namespace cairn

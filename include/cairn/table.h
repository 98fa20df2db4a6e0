// SPDX-License-Identifier: Apache-2.0
//
// Table: the state of one slot of one subtask, typed: key -> value with one writer and any number
// of immutable views.
//
// Threads:  Update…, Erase, Find… and Load belong to the writer of the table's StateDomain. Get,
//           Scan, Delta, Encode… and CountRows are called by any thread that holds an open view.
// Invariants
//  1. Update and its kin are the only way to change a value; no reference to one outlives the call.
//  2. A callback must not call into the same table. One that throws changes nothing: the exception
//     leaves the call, the table is as before. A callback declared noexcept changes values in
//     place; any other works on a copy, so declare it noexcept where values are large.
//  3. Values are typed in memory; codecs run only where rows leave or enter.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/codec.h"
#include "cairn/hash.h"
#include "cairn/saved_rows.h"
#include "cairn/state_domain.h"
#include "cairn/state_table.h"
#include "cairn/status.h"
#include "cairn/view.h"

namespace cairn {
inline namespace v0 {

struct TableOptions {
  uint32_t key_groups = kDefaultKeyGroups;
  KeyGroupRange range;          ///< groups held; {0, 0} = all
  uint64_t slot_hash_seed = 0;  ///< per deployment: orders saved rows and keeps keys from flooding
  uint32_t segment_bytes_max = 16 * 1024;  ///< what a first change under a busy view may copy
  uint32_t log_chunk_rows = 512;           ///< pre-images a chunk
  uint32_t log_percent_max = 25;  ///< pre-images kept, of the state, before segments are copied
};

namespace detail {

template <class K>
struct KeyArgOf {
  using type = K;
};
template <>
struct KeyArgOf<Bytes> {
  using type = std::string_view;
};

}  // namespace detail

/// Shape:    K: int64_t, uint64_t, Bytes or another trivially copyable type with ==. V: default
///           constructible and copyable; up to 256 trivially copyable bytes lie in the slot, others
///           in a box that is copied when a view still shows it.
template <class K, class V, class KeyCodec = Codec<K>, class ValueCodec = Codec<V>>
class Table final : public StateTable {
 public:
  /// A key as the calls take it: std::string_view for Bytes, else K.
  using KeyArg = typename detail::KeyArgOf<K>::type;

  /// Add an empty table to `domain`, which outlives it.
  Table(StateDomain* domain, SlotDescriptor descriptor, TableOptions options = {},
        KeyCodec key_codec = {}, ValueCodec value_codec = {});
  ~Table() override;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  /// Read, change and write the value of `key`; a missing one is made first.
  ///
  /// Shape:    fn(V& value, bool inserted); an inserted value is V{}.
  /// Errors:   kResourceExhausted over the memory budget · kInvalidArgument when the key is of a
  ///           group outside key_groups(). Nothing has changed then.
  /// Cost:     one probe; no allocation on a hit.
  template <class Fn>
  Status Update(KeyArg key, Fn&& fn);

  /// As Update, with the FNV-1a 64 hash of the encoded key, which batches carry.
  template <class Fn>
  Status UpdateHashed(KeyArg key, uint64_t fnv, Fn&& fn);

  /// As UpdateHashed for keys in order, with their memory fetched ahead.
  ///
  /// Shape:    fn(size_t i, V& value, bool inserted). A repeated key meets its earlier change.
  /// Errors:   as Update; the keys before the failing one have been applied, fn counts them.
  template <class Fn>
  Status UpdateBatch(std::span<const KeyArg> keys, std::span<const uint64_t> fnv_hashes, Fn&& fn);

  /// The same for `count` keys given by functions of i: key_at(i) -> KeyArg, fnv_at(i) -> uint64_t.
  template <class KeyAt, class FnvAt, class Fn>
  Status UpdateBatch(size_t count, KeyAt&& key_at, FnvAt&& fnv_at, Fn&& fn);

  /// Remove `key`; false when it was not there. May pass the memory budget, as it frees memory.
  bool Erase(KeyArg key);
  bool EraseHashed(KeyArg key, uint64_t fnv);

  /// The value as of now, or null. Valid until the next change of the table. Threads: the writer's.
  const V* Find(KeyArg key) const;
  const V* FindHashed(KeyArg key, uint64_t fnv) const;

  /// Find for many keys with their memory fetched ahead: fn(size_t i, const V* value).
  template <class KeyAt, class FnvAt, class Fn>
  void FindBatch(size_t count, KeyAt&& key_at, FnvAt&& fnv_at, Fn&& fn) const;

  /// Call fn(const V&) with the value that `view` shows; false when it shows none.
  template <class Fn>
  bool Get(const View& view, KeyArg key, Fn&& fn) const;

  /// Call fn(const K& key, const V& value) for every row of `range` in `view`: groups ascending, in
  /// no order within one. When fn returns bool, false ends the scan.
  template <class Fn>
  void Scan(const View& view, KeyGroupRange range, Fn&& fn) const;

  /// Call fn(SavedRowKind kind, const K& key, const V* value) for every key changed after epoch
  /// `since` as `view` shows it: kPut with the value, kErase with null.
  template <class Fn>
  void Delta(const View& view, uint64_t since, Fn&& fn) const;

  const SlotDescriptor& descriptor() const override { return descriptor_; }
  KeyGroupRange key_groups() const override;
  Status EncodeBase(const View& view, KeyGroupRange range, SavedRowSink* sink) const override;
  Status EncodeDelta(const View& view, uint64_t since, KeyGroupRange range,
                     SavedRowSink* sink) const override;
  Status Load(const SavedRowSpan& rows, size_t group_prefix_bytes, size_t key_prefix_bytes,
              LoadCounts* counts) override;
  uint64_t CountRows(const View& view) const override;
  uint64_t MemoryBytes() const override;

  /// Live rows now. Threads: the writer's.
  uint64_t size() const;

 private:
  struct Row {
    V value{};
    uint64_t stamp = 0;
    bool live = false;
  };
  // Ordered by (slot hash, key bytes) within a group.
  using Order = std::pair<uint64_t, std::string>;
  struct Group {
    std::map<Order, Row> rows;
  };
  struct Cut {
    std::vector<Group> groups;
    uint64_t live = 0;
  };
  std::string Encoded(KeyArg key) const;
  Status Find(const std::string& bytes, uint64_t fnv, Group** group, Order* order);
  K Decoded(const std::string& bytes) const { return *key_codec_.Decode(bytes); }
  const Cut* At(const View& view) const;

  StateDomain* const domain_;
  const SlotDescriptor descriptor_;
  TableOptions options_;
  KeyCodec key_codec_;
  ValueCodec value_codec_;
  Cut now_;
  size_t index_;
};

}  // namespace v0
}  // namespace cairn

#include "cairn/detail/table_impl.h"

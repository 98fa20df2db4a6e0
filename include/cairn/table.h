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

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/codec.h"
#include "cairn/detail/domain_core.h"
#include "cairn/detail/segment.h"
#include "cairn/detail/slot_hash.h"
#include "cairn/detail/table_types.h"
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
  KeyGroupRange range{};        ///< groups held; {0, 0} = all
  uint64_t slot_hash_seed = 0;  ///< per deployment: orders saved rows and keeps keys from flooding
  uint32_t segment_bytes_max = 16 * 1024;  ///< what a first change under a busy view may copy
  uint32_t log_chunk_rows = 512;           ///< pre-images a chunk
  uint64_t value_bytes_max = uint64_t{64} << 20;      ///< of a value, or of an element
  uint64_t collection_bytes_max = uint64_t{1} << 40;  ///< of a list or map, with its elements
  uint32_t log_percent_max = 25;  ///< pre-images kept, of the state, before segments are copied
};

/// Most bytes of a key.
inline constexpr size_t kKeyBytesMax = size_t{16} << 20;

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
  ///           group outside key_groups(), has more than kKeyBytesMax bytes, or its value grew over
  ///           value_bytes_max. Nothing has changed then.
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

  /// Call fn(const K& key, const V& value) for every row of `range` as of now; fn must not change
  /// the table. Threads: the writer's.
  template <class Fn>
  void ScanNow(KeyGroupRange range, Fn&& fn) const;

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
  /// Give memory of erased rows back: Shrink.
  size_t Maintain(size_t budget) override {
    Shrink(1 + budget / 64);
    return 0;
  }

  /// Live rows now. Threads: the writer's.
  uint64_t size() const;

  // What the typed kinds of state (docs/state/kinds.md) build on.

  /// Where a row is, without its key: good until the row is erased and whatever happens to others.
  struct Address {
    uint64_t hash = 0;
    uint32_t group = 0;  ///< relative to key_groups()
  };
  Address AddressOf(KeyArg key, uint64_t fnv) const { return {HashOf(key), RelativeGroup(fnv)}; }

  /// The live row at `address` for which match(const K&, const V&) is true; null when none is. The
  /// key is valid as the value of Find is. Threads: the writer's.
  template <class Match>
  const K* FindAt(Address address, Match&& match) const;
  void PrefetchAt(Address address) const;
  /// UpdateHashed and EraseHashed of the key found at `address`.
  template <class Fn>
  Status UpdateAt(Address address, const K& key, Fn&& fn);
  bool EraseAt(Address address, const K& key) {
    return EraseRow(address.group, address.hash, key, core_->track_deltas);
  }

  /// Call visit(uint32_t group, const K& key, const V* value) -> Status for the rows of `view` in
  /// saved order: all live ones, or with `delta` those changed after `since`, null for erased ones.
  template <class Visit>
  Status ScanSaved(const View& view, uint64_t since, bool delta, KeyGroupRange range,
                   Visit&& visit) const;

  /// Go through saved rows as Load does, with the rows' meaning left to `loader`:
  ///   std::string_view loader.UserKey(row key without prefix)   empty data() = not one
  ///   Status loader.LoadRow(fnv, user key, row key, rows, row)  for rows of key_groups()
  template <class Loader>
  Status LoadWith(const SavedRowSpan& rows, size_t group_prefix_bytes, size_t key_prefix_bytes,
                  LoadCounts* counts, Loader&& loader);

  /// Give back segments that erases have left sparse, looking at up to `segments` of them. Does
  /// nothing until rows have been erased. Threads: the writer's.
  void Shrink(size_t segments);

  const KeyCodec& key_codec() const { return key_codec_; }
  const detail::DomainCore* core() const { return core_; }
  /// `cause` with operator, slot and key named.
  Status RowError(const Status& cause, std::string_view what, std::string_view key_bytes) const;
  Status KeyError(const Status& cause, std::string_view what, const K& key) const {
    return WithEncodedKey(key,
                          [&](std::string_view bytes) { return RowError(cause, what, bytes); });
  }
  template <class Use>
  auto WithEncodedKey(const K& key, Use&& use) const;
  uint64_t FnvOf(KeyArg key) const;

 private:
  static_assert(std::is_trivially_copyable_v<K>, "a key is a trivially copyable type or Bytes");
  static constexpr bool kBytesKey = std::is_same_v<K, Bytes>;
  static constexpr bool kInlineValue = detail::kInlineValue<V>;
  static constexpr uint32_t kNotFound = UINT32_MAX;
  static constexpr uint32_t kDepthMax = 28;  ///< of a directory: keyed hashes never come near it

  using Box = detail::Box<V>;
  using Cell = std::conditional_t<kInlineValue, V, Box*>;
  using Slot = detail::Slot<K, Cell>;
  static constexpr detail::BlockClass kBoxClass =
      detail::BlockPool::ClassOf(sizeof(detail::Box<std::conditional_t<kInlineValue, char, V>>));
  using Record = detail::LogRecord<Cell>;
  using Entry = detail::DirectoryEntry;
  using Head = detail::SegmentHead;

  /// Where an absent key goes: the slot of its own tombstone, or a free one.
  struct Place {
    uint32_t index = 0;
    bool tombstone = false;
    bool empty = false;
  };
  /// A row copied out of a segment; its box, if it has one, lives as long as the view.
  struct RowCopy {
    K key;
    Cell cell;
    uint32_t stamp;
    bool live;
  };
  struct SortedRow {
    uint64_t hash;
    const RowCopy* row;
  };
  /// Memory of SortRows, kept from segment to segment.
  struct RowOrder {
    std::vector<SortedRow> sorted;
    std::vector<uint64_t> hashes;  ///< of the rows as copied
    std::vector<uint32_t> begins;  ///< of the bins in `sorted`
  };

  // Keys and probes (detail/table_write.h).
  static K ToKey(KeyArg key);
  uint64_t HashOf(KeyArg key) const;
  uint64_t HashOfStored(const K& key) const;
  uint32_t RelativeGroup(uint64_t fnv) const;
  const Entry* EntryOf(uint32_t group, uint64_t hash) const;
  static bool FindLive(const Entry& entry, uint64_t hash, const K& key, uint32_t* found);
  static Place FindPlace(const Entry& entry, uint64_t hash, const K& key);
  static Slot* SlotsOf(const Entry& entry) { return static_cast<Slot*>(entry.slots); }
  static const V& ValueOf(const Cell& cell);
  /// Equal, or to be compared outside a pin: long strings with one length and prefix.
  static bool MayEqual(const K& a, const K& b) {
    if constexpr (kBytesKey) {
      return a.hi() == b.hi() && (a.lo() == b.lo() || !a.is_inline());
    } else {
      return a == b;
    }
  }
  Status WrongGroup(uint64_t fnv) const;

  // Changes, the writer's.
  template <class Fn>
  Status ChangeSlot(const Entry* entry, uint32_t group, uint64_t hash, Slot* slot, Fn& fn);
  template <class Fn>
  Status ChangeBox(const Entry* entry, uint32_t group, uint64_t hash, Slot* slot, Fn& fn);
  template <class Fn>
  Status InsertRow(uint32_t group, uint64_t hash, const K& key, Fn& fn);
  Status MakeRoom(uint32_t group, uint64_t hash, const K& key, Place* place);
  bool CommitInsert(uint32_t group, uint64_t hash, const K& key, Place place, const Cell& cell);
  bool FillNew(uint32_t group, uint64_t hash, const K& key, const Cell& cell);
  void FillSlot(const Entry& entry, uint64_t hash, const K& key, Place place, const Cell& cell,
                bool record);
  bool EraseRow(uint32_t group, uint64_t hash, const K& key, bool tombstone);
  void EraseSlot(const Entry& entry, uint64_t hash, uint32_t index, bool tombstone, bool record);
  Slot* Touch(const Entry* entry, uint32_t group, uint64_t hash, Slot* slot);
  bool IsDeadInViews(const Slot& slot) const;
  void Stamp(Head* head, Slot* slot);
  bool ReserveRecord() { return log_left_ > 0 || StartLogChunk(); }
  bool StartLogChunk();
  void AppendRecord(Slot* slot, bool existed);

  // Structure, the writer's (detail/table_structure.h).
  const Entry* MakePrivate(uint32_t group, uint64_t hash, bool force);
  detail::Directory* PrivateDirectory(uint32_t group, bool force);
  bool PrivateRoot(bool force);
  detail::Directory* NewDirectory(uint32_t depth, bool force);
  detail::Directory* DoubleDirectory(uint32_t group);
  void PutDirectory(uint32_t group, detail::Directory* directory);
  Head* NewSegment(uint32_t buckets, bool force);
  bool Grow(uint32_t group, uint64_t hash);
  void PutSegment(detail::Directory* directory, uint64_t index, Head* head, uint32_t local_depth);
  static bool IsKept(uint8_t tag, uint32_t stamp, uint32_t floor) {
    return detail::IsLive(tag) || (detail::IsTombstone(tag) && stamp > floor);
  }
  void CopyInto(Head* head, uint32_t local_depth, const Slot& slot, uint64_t hash, uint8_t tag);
  bool Presize(uint32_t group, uint64_t rows);
  uint64_t ShrinkSegment(uint32_t group, uint64_t index);
  void DropEmptyDirectory(uint32_t group);
  uint32_t BucketsFor(uint64_t rows) const;
  void RetireSegment(Head* head);
  void RetireBlock(void* block, detail::BlockClass block_class, uint32_t birth);
  void* AllocateCounted(size_t bytes, bool force);
  bool OwnKey(K* key, bool force);
  void DropKey(const K& key);
  Box* NewBox(const V* from);
  void FreeBox(Box* box);
  void RetireBox(Box* box, uint32_t birth);
  Status MeasureBox(Box* box, bool force);
  void CountBytes(int64_t change) {
    bytes_.store(bytes_.load(std::memory_order_relaxed) + static_cast<uint64_t>(change),
                 std::memory_order_relaxed);
  }

  // Reads through a view (detail/table_read.h) and rows (detail/table_rows.h).
  const detail::TableCut* CutOf(const View& view) const;
  bool Resolve(const Slot& slot, bool live, uint32_t epoch, RowCopy* row) const;
  void CopyRows(const Entry& entry, uint32_t epoch, uint32_t since, bool erased,
                std::vector<RowCopy>* rows) const;
  void SortRows(const std::vector<RowCopy>& rows, uint32_t local_depth, RowOrder* order) const;
  template <class Visit>
  bool VisitGroup(const detail::RootEntry& group, uint32_t epoch, uint32_t since, bool erased,
                  std::vector<RowCopy>* rows, Visit&& visit) const;
  Status EncodeRows(const View& view, uint32_t since, bool delta, KeyGroupRange range,
                    SavedRowSink* sink) const;
  Status EncodeSegment(const std::vector<SortedRow>& rows, bool delta, SavedRowSink* sink,
                       SavedRows* out) const;
  Status LoadGroup(uint32_t group, const SavedRowSpan& rows, size_t first, size_t last,
                   size_t key_prefix_bytes);
  template <class ForGroup>
  Status LoadGroups(const SavedRowSpan& rows, size_t group_prefix_bytes, size_t key_prefix_bytes,
                    LoadCounts* counts, ForGroup&& for_group);
  std::optional<uint64_t> HighestHash(uint32_t group) const;
  Status HashSavedKeys(uint32_t group, const SavedRowSpan& rows, size_t first, size_t last,
                       size_t key_prefix_bytes, uint64_t* hashes) const;
  Status LoadRow(uint32_t group, std::string_view key_bytes, uint64_t hash,
                 const SavedRowSpan& rows, size_t row, std::optional<uint64_t>* highest);

  // What every change reads, together.
  detail::DomainCore* core_;
  detail::RootEntry* entries_ = nullptr;  ///< of the newest root
  uint32_t first_group_;
  uint32_t group_count_;
  uint32_t key_groups_;
  bool key_groups_pow2_;
  detail::SlotHasher hasher_;

  detail::TableCut cut_;            ///< what a capture takes
  uint64_t structure_version_ = 0;  ///< grows whenever a slot may have moved

  Record* log_next_ = nullptr;
  uint32_t log_left_ = 0;
  uint32_t log_number_ = 0;
  detail::LogChunk* log_chunk_ = nullptr;
  detail::LogAccount* log_account_;
  uint32_t log_chunk_rows_;
  uint32_t log_percent_max_;
  uint64_t value_bytes_max_;

  uint32_t max_buckets_;
  std::vector<uint32_t> bucket_classes_;  ///< segment sizes, ascending
  std::vector<uint64_t> scratch_hashes_;  ///< of the segment being rebuilt
  uint16_t box_kind_ = 0;
  bool has_erased_ = false;  ///< since the pass of Shrink under way began
  uint32_t shrink_group_ = 0;
  uint64_t shrink_index_ = 0;
  uint32_t index_;
  std::atomic<uint64_t> bytes_{0};

  const SlotDescriptor descriptor_;
  KeyCodec key_codec_;
  ValueCodec value_codec_;
};

}  // namespace v0
}  // namespace cairn

#define CAIRN_TABLE_TEMPLATE template <class K, class V, class KeyCodec, class ValueCodec>
#define CAIRN_TABLE Table<K, V, KeyCodec, ValueCodec>

#include "cairn/detail/table_address.h"
#include "cairn/detail/table_read.h"
#include "cairn/detail/table_rows.h"
#include "cairn/detail/table_structure.h"
#include "cairn/detail/table_write.h"

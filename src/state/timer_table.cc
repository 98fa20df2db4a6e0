// SPDX-License-Identifier: Apache-2.0
//
// How rows and heaps are kept together.
//
// The row is the timer; a heap entry is only a promise to look at it. Deleting a timer erases the
// row and leaves the entry, which finds no row of its generation when it comes up and is dropped.
// When more entries are stale than live the heaps are rebuilt from the rows, as after a restore.
// Rejected: an index from row to heap place, which would change every row's value as the heap moves
// and put all of them into the next delta.
//
// A timer's row is erased before its callback runs, so a callback that registers the same timer
// again makes a new one, and a view captured in between shows the timer as fired.
//
// Firing ends. The next to fire is always the first pending one in the order (time, rank, row
// hash), among them what callbacks register on the way; those after the highest fired so far can
// only go up to now. One at or before it, a late one, fires too, but what the callback of a late
// timer registers at or before the highest waits for the next Advance, and so does a timer that its
// own callback registers again. Timers that register ever later ones end at now, except at the end
// of time, where a count ends them.
#include "cairn/detail/timer_table.h"

#include <algorithm>
#include <string>
#include <utility>

namespace cairn {
inline namespace v0 {
namespace detail {
namespace {

constexpr int64_t kEndOfTime = std::numeric_limits<int64_t>::max();
/// Timers that may fire at the end of time: so many for each one pending, and this many besides.
constexpr uint64_t kFiredAtEndEach = 1000;
constexpr uint64_t kFiredAtEndBesides = 100000;
/// Stale entries that are not worth a rebuild.
constexpr size_t kStaleMin = 1024;

bool SameTimer(const TimerEntry& a, const TimerEntry& b) { return !(a < b) && !(b < a); }

}  // namespace

Result<Bytes> TimerKeyCodec::Decode(std::string_view bytes) const {
  TimerRowKey key;
  if (!TimerRowKey::Parse(bytes, &key)) return Status::Corruption("it is no key of a timer");
  if (check) CAIRN_RETURN_IF_ERROR(check(key));
  return Bytes(bytes);
}

std::string_view TimerKeyCodec::GroupKey(std::string_view bytes) {
  TimerRowKey key;
  return TimerRowKey::Parse(bytes, &key) ? key.user_key : bytes;
}

TimerTable::TimerTable(StateDomain* domain, SlotDescriptor descriptor, TableOptions options,
                       TimerKeyCodec key_codec)
    : core_(domain->core()),
      rows_(domain, std::move(descriptor), options, std::move(key_codec)),
      event_(core_),
      processing_(core_),
      held_(core_) {}

TimerEntry TimerTable::EntryOf(const TimerRowKey& timer, uint64_t fnv, uint32_t generation) const {
  const Rows::Address at = rows_.AddressOf(timer.bytes, fnv);
  return {timer.time, Fnv1a64(timer.ns, fnv), at.hash, at.group, generation};
}

const Bytes* TimerTable::FindRow(const TimerEntry& entry) const {
  return rows_.FindAt({entry.hash, entry.group}, [&](const Bytes&, const TimerRow& row) {
    return row.generation == entry.generation;
  });
}

// --- registering and deleting ------------------------------------------------------------------

Status TimerTable::Register(const TimerRowKey& timer) {
  if (rebuild_due_) Rebuild();
  const uint64_t fnv = Fnv1a64(timer.user_key);
  if (rows_.FindHashed(timer.bytes, fnv) != nullptr) return {};
  const TimerEntry entry = EntryOf(timer, fnv, ++generation_);
  const bool held = IsHeldBack(timer.domain, entry);
  // Room for the held ones, and for a fired one that is put back.
  TimerHeap& due = heap(timer.domain);
  if (!due.Reserve(due.size() + held_.size() + 2)) return core_->Refusal();
  return Insert(timer, entry, fnv, held ? &held_ : &due);
}

Status TimerTable::Insert(const TimerRowKey& timer, const TimerEntry& entry, uint64_t fnv,
                          TimerHeap* into) {
  if (!into->Reserve(into->size() + 1)) return core_->Refusal();
  CAIRN_RETURN_IF_ERROR(rows_.UpdateHashed(
      timer.bytes, fnv, [&](TimerRow& row, bool) noexcept { row.generation = entry.generation; }));
  into->Push(entry);
  ++pending(timer.domain);
  CountHeapBytes();
  return {};
}

bool TimerTable::Delete(const TimerRowKey& timer) {
  if (rebuild_due_) Rebuild();
  if (!rows_.EraseHashed(timer.bytes, Fnv1a64(timer.user_key))) return false;
  --pending(timer.domain);
  if (firing_ == nullptr) RebuildIfSparse();
  return true;
}

bool TimerTable::IsPending(const TimerRowKey& timer) const {
  return rows_.FindHashed(timer.bytes, Fnv1a64(timer.user_key)) != nullptr;
}

bool TimerTable::IsHeldBack(TimeDomain domain, const TimerEntry& entry) const {
  if (firing_ == nullptr || firing_->domain != domain || entry.time > firing_->now) return false;
  if (SameTimer(entry, firing_->current)) return true;
  return firing_->late && !(firing_->highest < entry);
}

// --- firing ------------------------------------------------------------------------------------

/// Ends a run of Advance, however it ends.
class TimerTable::FiringScope {
 public:
  FiringScope(TimerTable* table, Firing* firing) : table_(table) { table_->firing_ = firing; }
  ~FiringScope() {
    TimerHeap& due = table_->heap(table_->firing_->domain);
    table_->firing_ = nullptr;
    for (; !table_->held_.empty(); table_->held_.Pop()) due.Push(table_->held_.top());
    table_->held_.Trim();
    table_->RebuildIfSparse();
    due.Trim();
    table_->CountHeapBytes();
  }
  FiringScope(const FiringScope&) = delete;
  FiringScope& operator=(const FiringScope&) = delete;

 private:
  TimerTable* const table_;
};

Status TimerTable::Advance(TimeDomain domain, int64_t time, const Fire& fire) {
  if (firing_ != nullptr) {
    return Status::InvalidArgument("operator " + descriptor().operator_uid + ", slot " +
                                   descriptor().name +
                                   ": a timer's callback cannot advance the time of its slot");
  }
  if (rebuild_due_) Rebuild();
  int64_t& now = now_[static_cast<int>(domain)];
  now = std::max(now, time);
  Firing firing{domain, now};
  FiringScope scope(this, &firing);
  const uint64_t fired_max = now == kEndOfTime ? rows_.size() * kFiredAtEndEach + kFiredAtEndBesides
                                               : std::numeric_limits<uint64_t>::max();
  uint64_t fired = 0;
  TimerHeap& due = heap(domain);
  while (!due.empty() && due.top().time <= now) {
    const TimerEntry entry = due.top();
    const Bytes* row_key = FindRow(entry);
    if (row_key != nullptr && fired == fired_max) return NeverEnds(entry, fired);
    due.Pop();
    if (row_key == nullptr) continue;
    ++fired;
    CAIRN_RETURN_IF_ERROR(FireOne(entry, *row_key, fire));
  }
  return {};
}

Status TimerTable::FireOne(const TimerEntry& entry, const Bytes& row_key, const Fire& fire) {
  const Bytes key = row_key;
  fired_key_ = key.view();
  TimerRowKey timer;
  if (!TimerRowKey::Parse(fired_key_, &timer)) {
    return RowErrorOf(descriptor(), Status::Internal("it is no key of a timer"), "cannot fire",
                      fired_key_);
  }
  rows_.EraseAt({entry.hash, entry.group}, key);
  --pending(timer.domain);
  firing_->current = entry;
  firing_->late = entry < firing_->highest;
  if (!firing_->late) firing_->highest = entry;
  Status status;
  try {
    status = fire(timer);
  } catch (...) {
    (void)PutBack(timer).ok();
    throw;
  }
  if (status.ok()) return status;
  const Status back = PutBack(timer);
  if (back.ok()) return status;
  return status.WithContext("the timer is lost (" + std::string(back.message()) +
                            "), go back to the last checkpoint");
}

// Makes a timer whose callback failed pending again.
Status TimerTable::PutBack(const TimerRowKey& timer) {
  const uint64_t fnv = Fnv1a64(timer.user_key);
  if (rows_.FindHashed(timer.bytes, fnv) != nullptr) return {};
  return Insert(timer, EntryOf(timer, fnv, ++generation_), fnv, &heap(timer.domain));
}

Status TimerTable::NeverEnds(const TimerEntry& entry, uint64_t fired) const {
  return Status::InvalidArgument(
      "operator " + descriptor().operator_uid + ", slot " + descriptor().name + ": " +
      std::to_string(fired) +
      " timers have fired at the end of time and their callbacks go on registering new ones, now "
      "for " +
      std::to_string(entry.time) +
      ". Let a callback that repeats itself stop when the time is the greatest int64");
}

// --- what is due -------------------------------------------------------------------------------

std::optional<int64_t> TimerTable::First(TimerHeap* heap) {
  while (!heap->empty() && FindRow(heap->top()) == nullptr) heap->Pop();
  if (heap->empty()) return std::nullopt;
  return heap->top().time;
}

std::optional<int64_t> TimerTable::NextDue(TimeDomain domain) {
  if (rebuild_due_) Rebuild();
  const std::optional<int64_t> due = First(&heap(domain));
  if (firing_ == nullptr || firing_->domain != domain) return due;
  const std::optional<int64_t> held = First(&held_);
  return due && held ? std::min(*due, *held) : due ? due : held;
}

TimerStatistics TimerTable::Statistics() {
  if (rebuild_due_) Rebuild();
  TimerStatistics statistics;
  for (const TimeDomain domain : {TimeDomain::kEvent, TimeDomain::kProcessing}) {
    statistics.pending[static_cast<int>(domain)] = pending(domain);
    statistics.next_due[static_cast<int>(domain)] = NextDue(domain);
  }
  statistics.bytes = MemoryBytes();
  return statistics;
}

// --- loading and rebuilding --------------------------------------------------------------------

Status TimerTable::Load(const SavedRowSpan& rows, size_t group_prefix_bytes,
                        size_t key_prefix_bytes, LoadCounts* counts) {
  rebuild_due_ = true;
  CAIRN_RETURN_IF_ERROR(rows_.Load(rows, group_prefix_bytes, key_prefix_bytes, counts));
  // The heaps are filled after the last row; their memory is taken here, where it can be refused.
  for (size_t i = 0; i < rows.rows; ++i) {
    const std::string_view key = rows.key(i);
    TimerRowKey timer;
    if (rows.kind(i) == SavedRowKind::kErase ||
        !TimerRowKey::Parse(key.substr(key_prefix_bytes), &timer)) {
      continue;
    }
    const uint32_t group = group_prefix_bytes > 1
                               ? static_cast<uint8_t>(key[0]) << 8 | static_cast<uint8_t>(key[1])
                               : static_cast<uint8_t>(key[0]);
    if (key_groups().Contains(group)) ++loaded_[static_cast<int>(timer.domain)];
  }
  for (const TimeDomain domain : {TimeDomain::kEvent, TimeDomain::kProcessing}) {
    TimerHeap& due = heap(domain);
    if (!due.Reserve(due.size() + loaded_[static_cast<int>(domain)])) return core_->Refusal();
  }
  CountHeapBytes();
  return {};
}

void TimerTable::RebuildIfSparse() {
  const size_t entries = event_.size() + processing_.size();
  const size_t rows = rows_.size();
  if (entries > 2 * rows + kStaleMin) Rebuild();
}

void TimerTable::Rebuild() {
  event_.Clear();
  processing_.Clear();
  std::fill_n(pending_, kTimeDomains, 0);
  std::fill_n(loaded_, kTimeDomains, 0);
  rows_.ScanNow(key_groups(), [&](const Bytes& key, const TimerRow& row) {
    TimerRowKey timer;
    if (!TimerRowKey::Parse(key.view(), &timer)) return;
    heap(timer.domain).Append(EntryOf(timer, Fnv1a64(timer.user_key), row.generation));
    ++pending(timer.domain);
  });
  for (TimerHeap* heap : {&event_, &processing_}) {
    heap->Order();
    heap->Trim();
  }
  rebuild_due_ = false;
  CountHeapBytes();
}

void TimerTable::CountHeapBytes() {
  heap_bytes_.store(event_.bytes() + processing_.bytes() + held_.bytes(),
                    std::memory_order_relaxed);
}

}  // namespace detail
}  // namespace v0
}  // namespace cairn

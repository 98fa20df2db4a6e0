// SPDX-License-Identifier: Apache-2.0
//
// Views and garbage of a domain.
//
// A view is an epoch and the root pointers of all tables. What the writer replaces afterwards is
// garbage: it waits with the newest view that was open then, because that view sees it and every
// older one may. When a view goes, its garbage moves to the next older view where that still sees
// it, and is freed where not; the lifetime [birth, death) of every piece is kept exactly. Rejected:
// one list in order of death, which a long-held view blocks for all the short ones after it.
//
// Garbage moves in bags of up to 126 pieces, so that the registry mutex is held for O(1) work.
// Blocks go back to the pool in chains. Returning pieces one by one stalled the writer for
// milliseconds after the release of a large view.
#include "cairn/detail/domain_core.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "cairn/detail/segment.h"

namespace cairn {
inline namespace v0 {
namespace detail {

DomainCore::DomainCore(StateDomainOptions options)
    : track_deltas(options.track_deltas),
      owner_((options.budget != nullptr ? options.budget : MemoryBudget::Default())
                 ->AddOwner(std::move(options.name))) {
  pool.set_owner(owner_.get());
}

DomainCore::~DomainCore() {
  {
    BlockPool::FreeChains chains(&pool);
    FinishBag();
    for (GarbageBag* list : {full_, deferred_}) {
      while (list != nullptr) {
        GarbageBag* bag = std::exchange(list, list->next);
        FreeBag(bag, 0, &chains);
        delete bag;
      }
    }
  }
  while (free_nodes_ != nullptr) delete std::exchange(free_nodes_, free_nodes_->older);
  for (auto& table : chunk_tables_) delete[] table.load(std::memory_order_relaxed);
}

void DomainCore::Unref() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

uint32_t DomainCore::AddTable(TableCut* cut) {
  tables_.push_back(cut);
  return static_cast<uint32_t>(tables_.size() - 1);
}

LogAccount* DomainCore::AddLogAccount() { return &log_accounts_.emplace_back(); }

uint16_t DomainCore::AddDestroyer(Destroyer destroyer) {
  for (uint16_t i = 0; i < destroyer_count_; ++i) {
    if (destroyers_[i] == destroyer) return static_cast<uint16_t>(kFirstBox + i);
  }
  CAIRN_CHECK(destroyer_count_ < destroyers_.size());
  destroyers_[destroyer_count_] = destroyer;
  return static_cast<uint16_t>(kFirstBox + destroyer_count_++);
}

// --- views -------------------------------------------------------------------------------------

ViewNode* DomainCore::Capture() {
  CAIRN_CHECK(epoch < UINT32_MAX);
  FinishBag();
  std::lock_guard lock(registry_mutex_);
  // Garbage made so far is seen by views older than the new one only.
  HandOverLocked();
  ViewNode* node = free_nodes_;
  if (node != nullptr) {
    free_nodes_ = node->older;
  } else {
    node = new ViewNode;
    node->core = this;
  }
  node->handles.store(1, std::memory_order_relaxed);
  node->epoch = epoch;
  node->times = times;
  node->cuts.resize(tables_.size());
  for (size_t i = 0; i < tables_.size(); ++i) {
    node->cuts[i] = TableCut{};
    if (tables_[i] == nullptr) continue;
    node->cuts[i] = *tables_[i];
    tables_[i]->epoch = epoch + 1;
  }
  node->newer = nullptr;
  node->older = newest_node_;
  (newest_node_ != nullptr ? newest_node_->newer : oldest_node_) = node;
  newest_node_ = node;
  ++open_views_;
  references_.fetch_add(1, std::memory_order_relaxed);
  writer_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  newest.store(epoch, std::memory_order_release);
  if (node->older == nullptr) oldest.store(epoch, std::memory_order_release);
  ++epoch;
  return node;
}

void DomainCore::UnlinkLocked(ViewNode* node) {
  (node->newer != nullptr ? node->newer->older : newest_node_) = node->older;
  (node->older != nullptr ? node->older->newer : oldest_node_) = node->newer;
  newest.store(newest_node_ != nullptr ? newest_node_->epoch : 0, std::memory_order_release);
  oldest.store(oldest_node_ != nullptr ? oldest_node_->epoch : 0, std::memory_order_release);
  --open_views_;
}

void DomainCore::Release(ViewNode* node) {
  GarbageBag* bags = nullptr;
  {
    std::lock_guard lock(registry_mutex_);
    UnlinkLocked(node);
    bags = std::exchange(node->bags, nullptr);
    GarbageBag* last = std::exchange(node->last_bag, nullptr);
    if (bags != nullptr && writer_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
      DeferLocked(std::exchange(bags, nullptr), last);
    }
    node->older = free_nodes_;
    free_nodes_ = node;
  }
  if (bags != nullptr) {
    BlockPool::FreeChains chains(&pool);
    while (bags != nullptr) Disperse(std::exchange(bags, bags->next), &chains);
  }
  Unref();
}

void DomainCore::Poll(size_t steps) {
  FinishBag();
  HandOver();
  FreeDeferred(steps);
  const uint64_t used = external_bytes_.load(std::memory_order_relaxed);
  if (external_charged_ > used + 4 * kExternalGranule) {
    const uint64_t spare = (external_charged_ - used) / kExternalGranule * kExternalGranule;
    owner_->Release(spare);
    external_charged_ -= spare;
  }
}

void DomainCore::NoteOldestTimes() {
  std::lock_guard lock(registry_mutex_);
  oldest_times_of_ = oldest_node_ != nullptr ? oldest_node_->epoch : 0;
  oldest_times_ = oldest_node_ != nullptr ? oldest_node_->times : ClockTimes();
}

size_t DomainCore::OpenViews() const {
  std::lock_guard lock(registry_mutex_);
  return open_views_;
}

// --- garbage -----------------------------------------------------------------------------------

void DomainCore::RetireSlow(const Garbage& item) {
  if (pending_ == nullptr) pending_ = new GarbageBag;
  pending_->items[pending_->count++] = item;
  pending_->births_max = std::max(pending_->births_max, item.birth);
  garbage_bytes_.fetch_add(GarbageBytes(item), std::memory_order_relaxed);
  if (pending_->count < GarbageBag::kItems) return;
  FinishBag();
  HandOver();
  FreeDeferred(2);
}

// Queues the bag that is being filled.
void DomainCore::FinishBag() {
  if (pending_ == nullptr) return;
  pending_->next = full_;
  full_ = std::exchange(pending_, nullptr);
}

// Gives the queued bags to the newest open view; without one nobody can see what is in them.
void DomainCore::HandOverLocked() {
  while (full_ != nullptr) {
    GarbageBag* bag = std::exchange(full_, full_->next);
    if (newest_node_ != nullptr) {
      AttachLocked(newest_node_, bag);
    } else {
      bag->limit = 0;
      DeferLocked(bag, bag);
    }
  }
}

// The same, unless a reader holds the registry just now.
void DomainCore::HandOver() {
  if (full_ == nullptr || !registry_mutex_.try_lock()) return;
  std::lock_guard lock(registry_mutex_, std::adopt_lock);
  HandOverLocked();
}

void DomainCore::AttachLocked(ViewNode* node, GarbageBag* bag) {
  GarbageBag* last = node->last_bag;
  if (last != nullptr && last->count + bag->count <= GarbageBag::kItems) {
    std::copy_n(bag->items, bag->count, last->items + last->count);
    last->count += bag->count;
    last->births_max = std::max(last->births_max, bag->births_max);
    delete bag;
    return;
  }
  bag->limit = node->epoch;
  bag->next = nullptr;
  (last != nullptr ? last->next : node->bags) = bag;
  node->last_bag = bag;
}

void DomainCore::DeferLocked(GarbageBag* first, GarbageBag* last) {
  last->next = nullptr;
  (last_deferred_ != nullptr ? last_deferred_->next : deferred_) = first;
  last_deferred_ = last;
}

void DomainCore::FreeDeferred(size_t bags) {
  for (size_t i = 0; i < bags; ++i) {
    GarbageBag* bag = nullptr;
    {
      if (!registry_mutex_.try_lock()) return;
      std::lock_guard lock(registry_mutex_, std::adopt_lock);
      bag = deferred_;
      if (bag == nullptr) return;
      deferred_ = bag->next;
      if (deferred_ == nullptr) last_deferred_ = nullptr;
    }
    BlockPool::FreeChains chains(&pool);
    Disperse(bag, &chains);
  }
}

ViewNode* DomainCore::NewestUpToLocked(uint32_t limit) const {
  ViewNode* node = newest_node_;
  while (node != nullptr && node->epoch > limit) node = node->older;
  return node;
}

// Frees what no open view sees and leaves the rest with the newest view that does. The view found
// may go while pieces are freed outside the lock; those are free all the same, and the rest looks
// again.
void DomainCore::Disperse(GarbageBag* bag, BlockPool::FreeChains* chains) {
  while (bag->count > 0) {
    uint32_t seen_by = 0;
    {
      std::lock_guard lock(registry_mutex_);
      ViewNode* node = NewestUpToLocked(bag->limit);
      if (node != nullptr && bag->births_max <= node->epoch) return AttachLocked(node, bag);
      if (node != nullptr) seen_by = node->epoch;
    }
    FreeBag(bag, seen_by, chains);
  }
  delete bag;
}

// Frees the items born after `seen_by`, all when it is 0.
void DomainCore::FreeBag(GarbageBag* bag, uint32_t seen_by, BlockPool::FreeChains* chains) {
  uint32_t kept = 0;
  bag->births_max = 0;
  for (uint32_t i = 0; i < bag->count; ++i) {
    const Garbage item = bag->items[i];
    if (seen_by != 0 && item.birth <= seen_by) {
      bag->births_max = std::max(bag->births_max, item.birth);
      bag->items[kept++] = item;
      continue;
    }
    garbage_bytes_.fetch_sub(GarbageBytes(item), std::memory_order_relaxed);
    FreeWith(item, [&](void* block, BlockClass block_class) { chains->Add(block, block_class); });
  }
  bag->count = kept;
}

void DomainCore::FreeNow(const Garbage& item) {
  FreeWith(item, [&](void* block, BlockClass block_class) { pool.Free(block, block_class); });
}

template <class FreeBlock>
void DomainCore::FreeWith(const Garbage& item, FreeBlock&& free_block) {
  switch (item.kind) {
    case kBlock:
      break;
    case kSegment: {
      auto* head = static_cast<SegmentHead*>(item.block);
      free_block(head->slots, head->slots_class);
      break;
    }
    case kLogChunk: {
      auto* chunk = static_cast<LogChunk*>(item.block);
      const uint64_t bytes = BlockPool::BlockBytes(chunk, chunk->block_class);
      chunk->account->bytes.fetch_sub(bytes, std::memory_order_relaxed);
      log_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
      std::lock_guard lock(chunk_mutex_);
      free_chunks_.push_back(chunk->number);
      break;
    }
    default:
      ReleaseExternal(static_cast<BoxHeader*>(item.block)->external_bytes);
      destroyers_[item.kind - kFirstBox](item.block);
      break;
  }
  free_block(item.block, item.block_class);
}

uint64_t DomainCore::GarbageBytes(const Garbage& item) const {
  const uint64_t own = BlockPool::BlockBytes(item.block, item.block_class);
  switch (item.kind) {
    case kBlock:
      return own;
    case kSegment: {
      const auto* head = static_cast<const SegmentHead*>(item.block);
      return own + BlockPool::BlockBytes(head->slots, head->slots_class);
    }
    case kLogChunk:
      return 0;
    default:
      return own + static_cast<const BoxHeader*>(item.block)->external_bytes;
  }
}

// --- log and memory ----------------------------------------------------------------------------

LogChunk* DomainCore::NewChunk(size_t record_bytes, uint32_t records, LogAccount* account) {
  uint32_t number = 0;
  {
    std::lock_guard lock(chunk_mutex_);
    if (!free_chunks_.empty()) {
      number = free_chunks_.back();
      free_chunks_.pop_back();
    }
  }
  if (number == 0) {
    if (next_chunk_ == kChunkTables * kChunksATable) return nullptr;
    number = next_chunk_++;
  }
  auto& table = chunk_tables_[number / kChunksATable];
  ChunkSlot* slots = table.load(std::memory_order_relaxed);
  if (slots == nullptr) {
    slots = new ChunkSlot[kChunksATable]();
    table.store(slots, std::memory_order_release);
  }
  const size_t bytes = sizeof(LogChunk) + record_bytes * records;
  void* memory = pool.Allocate(bytes);
  if (memory == nullptr) {
    std::lock_guard lock(chunk_mutex_);
    free_chunks_.push_back(number);
    return nullptr;
  }
  const BlockClass block_class = BlockPool::ClassOf(bytes);
  auto* chunk = new (memory) LogChunk{number, block_class, account};
  const uint64_t charged = BlockPool::BlockBytes(chunk, block_class);
  account->bytes.fetch_add(charged, std::memory_order_relaxed);
  log_bytes_.fetch_add(charged, std::memory_order_relaxed);
  slots[number % kChunksATable].store(chunk, std::memory_order_release);
  return chunk;
}

Status DomainCore::ChargeExternal(uint64_t bytes, bool force) {
  const uint64_t used = external_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (used <= external_charged_) return {};
  const uint64_t granules = (used - external_charged_ + kExternalGranule - 1) / kExternalGranule;
  if (force) {
    owner_->Force(granules * kExternalGranule);
  } else if (Status status = owner_->Charge(granules * kExternalGranule); !status.ok()) {
    external_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return status;
  }
  external_charged_ += granules * kExternalGranule;
  return {};
}

Status DomainCore::Refusal() const {
  Status status = pool.last_refusal();
  if (status.ok()) status = Status::ResourceExhausted("no memory for a table");
  const uint32_t view = OldestViewEpoch();
  if (view == 0) return status;
  return Status(status.code(), std::string(status.message()) + ". Open views keep " +
                                   base::FormatBytes(ViewBytes()) +
                                   ", the oldest is that of epoch " + std::to_string(view) +
                                   ", now is " + std::to_string(epoch));
}

uint64_t DomainCore::MemoryBytes() const {
  return pool.held_bytes() + external_bytes_.load(std::memory_order_relaxed);
}

uint64_t DomainCore::ViewBytes() const {
  return garbage_bytes_.load(std::memory_order_relaxed) +
         log_bytes_.load(std::memory_order_relaxed);
}

// --- segments ----------------------------------------------------------------------------------

const DirectoryEntry* NoSegment() {
  struct NoRows {
    SegmentHead head;
    uint8_t tags[kBucketSlots];
    DirectoryEntry entry{};
    NoRows() {
      std::memset(tags, kTagEmpty, sizeof(tags));
      head.buckets = 1;
      entry = {&head, nullptr, 0, 1, 0};
    }
  };
  static NoRows rows;
  return &rows.entry;
}

}  // namespace detail
}  // namespace v0
}  // namespace cairn

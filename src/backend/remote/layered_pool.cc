// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints as lists of sorted layers.
//
// A copy of the whole map at every commit (what a plain in-process pool does) costs the state each
// time; versions chained at each key cannot tell two lines of checkpoints apart after a restore to
// an older one. Layers do both: a checkpoint names its layers, whatever else was committed.
//
// Parts of a restore stay apart until the layers above them have grown to half their size; then all
// is written into one layer. Until then a look-up tries the parts in turn and drops what belongs to
// other subtasks.
#include "backend/remote/layered_pool.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace cairn::backend {

/// Rows ascending by key; a null value hides what lies below.
struct PoolLayer {
  PoolLayer(std::vector<PoolRow> sorted, std::shared_ptr<MemoryBudget::Owner> charged,
            std::shared_ptr<std::atomic<uint64_t>> counted)
      : rows(std::move(sorted)), owner(std::move(charged)), counter(std::move(counted)) {}
  ~PoolLayer() {
    if (owner != nullptr) owner->Release(charged_bytes);
    *counter -= charged_bytes;
  }
  Status Charge() {
    uint64_t total = 0;
    for (const PoolRow& row : rows) {
      total += sizeof(PoolRow) + row.key.key.size() + (row.value ? row.value->size() : 0);
    }
    if (owner != nullptr) CAIRN_RETURN_IF_ERROR(owner->Charge(total));
    charged_bytes = total;
    *counter += total;
    return {};
  }
  std::vector<PoolRow>::const_iterator LowerBound(StateKeyRef key) const {
    return std::lower_bound(rows.begin(), rows.end(), key,
                            [](const PoolRow& row, const StateKeyRef& wanted) {
                              return StateKeyRef(row.key) < wanted;
                            });
  }

  const std::vector<PoolRow> rows;
  const std::shared_ptr<MemoryBudget::Owner> owner;
  const std::shared_ptr<std::atomic<uint64_t>> counter;
  uint64_t charged_bytes = 0;
};

namespace {

using Layers = std::vector<std::shared_ptr<const PoolLayer>>;

/// Layers of one line of checkpoints, newest first, seen through the groups of a subtask.
struct LayerStack {
  Layers layers;
  std::optional<KeyGroupRange> groups;  // nothing = all

  size_t rows() const {
    size_t rows = 0;
    for (const auto& layer : layers) rows += layer->rows.size();
    return rows;
  }
};

bool Shows(const format::KeyLayout& layout, const std::optional<KeyGroupRange>& groups,
           std::string_view key) {
  if (!groups) return true;
  const format::StoredKey parsed = layout.Parse(key);
  return parsed.kind != format::StoredKeyKind::kKeyed || groups->Contains(parsed.group);
}

}  // namespace

struct PoolCheckpoint {
  std::vector<LayerStack> stacks;  // the first to know a key answers
  KeyGroupRange groups;            // all keyed rows are of these
  uint64_t rows = 0;
  std::vector<StateStamp> stamps;
};

namespace {

/// Nothing when no layer knows the key; a null value when it is erased.
std::optional<PoolValue> FindIn(const LayerStack& stack, StateKeyRef key) {
  for (const auto& layer : stack.layers) {
    const auto at = layer->LowerBound(key);
    if (at != layer->rows.end() && StateKeyRef(at->key) == key) return at->value;
  }
  return std::nullopt;
}

PoolValue FindIn(const format::KeyLayout& layout, const PoolCheckpoint& checkpoint,
                 StateKeyRef key) {
  for (const LayerStack& stack : checkpoint.stacks) {
    if (!Shows(layout, stack.groups, key.key)) continue;
    const std::optional<PoolValue> found = FindIn(stack, key);
    if (!found) continue;
    // Erased in one part, the key may live in another; erased above the parts it is gone.
    if (*found != nullptr || &stack == &checkpoint.stacks.front()) return *found;
  }
  return nullptr;
}

/// Goes through a checkpoint in order, showing each key once with its newest row.
class MergedRows {
 public:
  MergedRows(const format::KeyLayout& layout, const PoolCheckpoint& checkpoint, StateKeyRef first)
      : layout_(layout) {
    for (const LayerStack& stack : checkpoint.stacks) {
      for (const auto& layer : stack.layers) {
        cursors_.push_back({layer->LowerBound(first), layer->rows.end(), &stack});
      }
    }
    top_ = &checkpoint.stacks.front();
  }

  /// The next live row, or null at the end.
  const PoolRow* Next() {
    for (;;) {
      const PoolRow* smallest = nullptr;
      for (const Cursor& cursor : cursors_) {
        if (cursor.at == cursor.end) continue;
        if (smallest == nullptr || cursor.at->key < smallest->key) smallest = &*cursor.at;
      }
      if (smallest == nullptr) return nullptr;
      const StateKeyRef key(smallest->key);
      const PoolRow* found = Resolve(key);
      if (found != nullptr) return found;
    }
  }

 private:
  struct Cursor {
    std::vector<PoolRow>::const_iterator at;
    std::vector<PoolRow>::const_iterator end;
    const LayerStack* stack;
  };

  // The row that answers `key`, null when it is erased; moves all cursors behind the key.
  const PoolRow* Resolve(StateKeyRef key) {
    const PoolRow* found = nullptr;
    const LayerStack* decided = nullptr;  // the stack whose newest row was seen
    bool gone = false;
    for (Cursor& cursor : cursors_) {
      if (cursor.at == cursor.end || StateKeyRef(cursor.at->key) != key) continue;
      const PoolRow& row = *cursor.at++;
      if (found != nullptr || gone || cursor.stack == decided) continue;
      if (!Shows(layout_, cursor.stack->groups, key.key)) continue;
      decided = cursor.stack;
      if (row.value != nullptr) {
        found = &row;
      } else if (cursor.stack == top_) {
        gone = true;
      }
    }
    return found;
  }

  const format::KeyLayout layout_;
  std::vector<Cursor> cursors_;
  const LayerStack* top_;
};

/// Merge `above` over `below`; tombstones stay unless nothing lies under them.
std::vector<PoolRow> Merge(const std::vector<PoolRow>& above, const std::vector<PoolRow>& below,
                           bool lowest) {
  std::vector<PoolRow> merged;
  merged.reserve(above.size() + below.size());
  auto a = above.begin();
  auto b = below.begin();
  while (a != above.end() || b != below.end()) {
    const bool take_below = a == above.end() || (b != below.end() && b->key < a->key);
    if (!take_below && b != below.end() && b->key == a->key) ++b;
    const PoolRow& row = take_below ? *b++ : *a++;
    if (row.value != nullptr || !lowest) merged.push_back(row);
  }
  return merged;
}

}  // namespace

Result<std::vector<StateValue>> RemoteLoader::LoadMany(std::span<const StateKey> keys) {
  std::vector<StateValue> values;
  values.reserve(keys.size());
  for (const StateKey& key : keys) {
    CAIRN_ASSIGN_OR_RETURN(StateValue value, Load(key));
    values.push_back(std::move(value));
  }
  return values;
}

LayeredPoolStore::LayeredPoolStore(MemoryBudget* budget)
    : owner_(budget == nullptr ? nullptr : budget->AddOwner("in-process remote pool")),
      bytes_(std::make_shared<std::atomic<uint64_t>>(0)) {}

LayeredPoolStore::~LayeredPoolStore() = default;

std::shared_ptr<LayeredPoolStore> LayeredPoolStore::Default() {
  static const auto* const store = new std::shared_ptr<LayeredPoolStore>(
      std::make_shared<LayeredPoolStore>(MemoryBudget::Default()));
  return *store;
}

std::string LayeredPoolStore::MakeLocation(const std::string& prefix) {
  std::lock_guard lock(mutex_);
  return prefix + "/" + std::to_string(++locations_made_);
}

std::optional<std::string> LayeredPoolStore::FindLocation(const std::string& prefix,
                                                          uint64_t id) const {
  std::optional<std::string> found;
  uint64_t newest = 0;
  std::lock_guard lock(mutex_);
  for (auto at = locations_.lower_bound(prefix + "/"); at != locations_.end(); ++at) {
    const auto& [location, checkpoints] = *at;
    if (!location.starts_with(prefix + "/")) break;
    const uint64_t number = std::stoull(location.substr(prefix.size() + 1));
    if (number < newest || !checkpoints.contains(id)) continue;
    newest = number;
    found = location;
  }
  return found;
}

uint64_t LayeredPoolStore::bytes() const { return bytes_->load(); }

size_t LayeredPoolStore::checkpoints() const {
  std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const auto& [location, checkpoints] : locations_) count += checkpoints.size();
  return count;
}

Result<std::shared_ptr<const PoolCheckpoint>> LayeredPool::Find(const std::string& location,
                                                                uint64_t id) const {
  if (id == 0) {
    auto empty = std::make_shared<PoolCheckpoint>();
    empty->stacks.emplace_back();
    return std::shared_ptr<const PoolCheckpoint>(std::move(empty));
  }
  std::lock_guard lock(store_->mutex_);
  const auto place = store_->locations_.find(location);
  if (place != store_->locations_.end()) {
    const auto at = place->second.find(id);
    if (at != place->second.end()) return at->second;
  }
  return Status::NotFound("the remote pool has no checkpoint " + std::to_string(id) + " at " +
                          location + ": it was purged, or its process has ended");
}

void LayeredPool::Publish(uint64_t id, std::shared_ptr<const PoolCheckpoint> checkpoint) {
  std::shared_ptr<const PoolCheckpoint> replaced;  // freed without the lock
  std::lock_guard lock(store_->mutex_);
  replaced = std::exchange(store_->locations_[location_][id], std::move(checkpoint));
}

Status LayeredPool::Commit(PoolCommit commit) {
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<const PoolCheckpoint> base,
                         Find(location_, commit.base));
  auto made = std::make_shared<PoolCheckpoint>();
  made->stacks = base->stacks;
  made->stamps = std::move(commit.stamps);
  made->groups = groups_;
  made->rows = base->rows;
  std::vector<PoolRow> rows = std::move(commit.changed);
  for (StateKey& key : commit.deleted) rows.push_back({std::move(key), nullptr});
  std::sort(rows.begin(), rows.end(),
            [](const PoolRow& a, const PoolRow& b) { return a.key < b.key; });
  for (const PoolRow& row : rows) {
    const bool was = FindIn(layout_, *base, row.key) != nullptr;
    made->rows += (row.value != nullptr ? 1 : 0);
    made->rows -= (was ? 1 : 0);
  }
  Layers& layers = made->stacks.front().layers;
  const bool has_parts = made->stacks.size() > 1;
  while (!layers.empty() && layers.front()->rows.size() <= 2 * rows.size()) {
    rows = Merge(rows, layers.front()->rows, layers.size() == 1 && !has_parts);
    layers.erase(layers.begin());
  }
  if (!rows.empty()) {
    auto layer = std::make_shared<PoolLayer>(std::move(rows), store_->owner_, store_->bytes_);
    CAIRN_RETURN_IF_ERROR(layer->Charge().WithContext("checkpoint " + std::to_string(commit.id) +
                                                      " of the in-process remote pool"));
    layers.insert(layers.begin(), std::move(layer));
  }
  size_t rows_of_parts = 0;
  for (size_t i = 1; i < made->stacks.size(); ++i) rows_of_parts += made->stacks[i].rows();
  if (has_parts && 2 * made->stacks.front().rows() >= rows_of_parts) {
    std::vector<PoolRow> all;
    MergedRows merged(layout_, *made, StateKey());
    while (const PoolRow* row = merged.Next()) all.push_back(*row);
    auto layer = std::make_shared<PoolLayer>(std::move(all), store_->owner_, store_->bytes_);
    if (layer->Charge().ok()) {  // else the parts stay apart
      made->stacks.resize(1);
      made->stacks.front().layers = {std::move(layer)};
    }
  }
  Publish(commit.id, std::move(made));
  return {};
}

Result<PoolValue> LayeredPool::Read(uint64_t id, StateKeyRef key) {
  CAIRN_ASSIGN_OR_RETURN(const auto checkpoint, Find(location_, id));
  return FindIn(layout_, *checkpoint, key);
}

Result<std::vector<PoolValue>> LayeredPool::ReadMany(uint64_t id, std::span<const StateKey> keys) {
  CAIRN_ASSIGN_OR_RETURN(const auto checkpoint, Find(location_, id));
  std::vector<PoolValue> values;
  values.reserve(keys.size());
  for (const StateKey& key : keys) values.push_back(FindIn(layout_, *checkpoint, key));
  return values;
}

Result<PoolPage> LayeredPool::ScanCheckpoint(uint64_t id, const PoolRange& range, size_t rows_max) {
  CAIRN_ASSIGN_OR_RETURN(const auto checkpoint, Find(location_, id));
  PoolPage page;
  MergedRows merged(layout_, *checkpoint, range.first);
  while (const PoolRow* row = merged.Next()) {
    if (range.last && row->key >= *range.last) break;
    if (page.rows.size() == rows_max) {
      page.more = true;
      break;
    }
    page.rows.push_back(*row);
  }
  return page;
}

Result<uint64_t> LayeredPool::CountRows(uint64_t id) {
  CAIRN_ASSIGN_OR_RETURN(const auto checkpoint, Find(location_, id));
  return checkpoint->rows;
}

Status LayeredPool::Purge(uint64_t id) {
  std::shared_ptr<const PoolCheckpoint> dropped;  // freed without the lock
  std::lock_guard lock(store_->mutex_);
  const auto place = store_->locations_.find(location_);
  if (place == store_->locations_.end()) return {};
  const auto at = place->second.find(id);
  if (at == place->second.end()) return {};
  dropped = std::move(at->second);
  place->second.erase(at);
  if (place->second.empty()) store_->locations_.erase(place);
  return {};
}

Result<std::vector<uint64_t>> LayeredPool::List() {
  std::vector<uint64_t> ids;
  std::lock_guard lock(store_->mutex_);
  const auto place = store_->locations_.find(location_);
  if (place == store_->locations_.end()) return ids;
  for (const auto& [id, checkpoint] : place->second) ids.push_back(id);
  return ids;
}

Result<PoolRestored> LayeredPool::PrepareRestore(uint64_t id, std::span<const PoolPart> parts,
                                                 KeyGroupRange groups) {
  auto made = std::make_shared<PoolCheckpoint>();
  made->groups = groups;
  if (parts.size() == 1) {
    CAIRN_ASSIGN_OR_RETURN(const auto source, Find(parts[0].location, parts[0].id));
    if (source->groups.first >= groups.first && source->groups.last <= groups.last) {
      *made = *source;  // all of it: its layers are shared, nothing is walked
      made->groups = groups;
      PoolRestored restored{made->rows, 0, made->stamps};
      Publish(id, std::move(made));
      return restored;
    }
  }
  made->stacks.emplace_back();
  uint64_t rows_of_parts = 0;
  for (const PoolPart& part : parts) {
    CAIRN_ASSIGN_OR_RETURN(const auto source, Find(part.location, part.id));
    rows_of_parts += source->rows;
    for (const StateStamp& stamp : source->stamps) {
      if (std::find(made->stamps.begin(), made->stamps.end(), stamp) == made->stamps.end()) {
        made->stamps.push_back(stamp);
      }
    }
    if (source->stacks.size() == 1) {
      made->stacks.push_back({source->stacks.front().layers, groups});
      continue;
    }
    // A part that itself still stands on parts is written into one layer first.
    std::vector<PoolRow> rows;
    MergedRows merged(layout_, *source, StateKey());
    while (const PoolRow* row = merged.Next()) rows.push_back(*row);
    auto layer = std::make_shared<PoolLayer>(std::move(rows), store_->owner_, store_->bytes_);
    CAIRN_RETURN_IF_ERROR(layer->Charge().WithContext("restore from " + part.location));
    made->stacks.push_back({{std::move(layer)}, groups});
  }
  // Keys are walked, values are not touched: the count is exact.
  MergedRows merged(layout_, *made, StateKey());
  while (merged.Next() != nullptr) ++made->rows;
  PoolRestored restored{made->rows, rows_of_parts - std::min(rows_of_parts, made->rows),
                        made->stamps};
  Publish(id, std::move(made));
  return restored;
}

}  // namespace cairn::backend

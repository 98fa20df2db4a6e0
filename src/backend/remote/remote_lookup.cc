// SPDX-License-Identifier: Apache-2.0
#include "backend/remote/remote_lookup.h"

#include <exception>
#include <utility>

namespace cairn::backend {

const PoolValue& ErasedOverLoader() {
  static const auto* const marker = new PoolValue(std::make_shared<const std::string>("erased"));
  return *marker;
}

std::optional<std::string> LegacyKeyOf(const format::KeyLayout& layout, std::string_view key) {
  const format::StoredKey parts = layout.Parse(key);
  if (parts.kind != format::StoredKeyKind::kOperatorState) return std::nullopt;
  if (layout.Parse(parts.user_key).kind != format::StoredKeyKind::kRaw) return std::nullopt;
  return std::string(parts.user_key);
}

RemoteReadBackend::Lookup::Lookup(RemoteReadBackend* backend, std::vector<StateKey> keys)
    : backend_(backend), keys_(std::move(keys)), values_(keys_.size()), open_(keys_.size()) {
  for (size_t i = 0; i < open_.size(); ++i) open_[i] = i;
}

RemoteReadBackend::Lookup::~Lookup() {
  if (!registered_) return;
  {
    std::lock_guard lock(backend_->mutex_);
    Unregister();
  }
  backend_->RunPurges();
}

/// Take an answer. An operator-state row that is absent is looked for under its legacy key.
Status RemoteReadBackend::Lookup::Settle(size_t position, PoolValue value) {
  StateKey& key = keys_[position];
  CAIRN_RETURN_IF_ERROR(backend_->expiry_.Hide(key, &value));
  if (value != nullptr) {
    values_[position] = StateValue(*value);
  } else if (std::optional<std::string> legacy = LegacyKeyOf(backend_->layout_, key.key)) {
    key.key = *std::move(legacy);
    open_.push_back(position);
  }
  return {};
}

Status RemoteReadBackend::Lookup::Begin() {
  missing_.clear();
  missing_keys_ = std::make_shared<std::vector<StateKey>>();
  std::map<StateKeyRef, size_t> places;
  std::lock_guard lock(backend_->mutex_);
  CAIRN_RETURN_IF_ERROR(backend_->CheckOpen());
  const bool nothing_below = backend_->committed_id_ == 0 && backend_->loader_ == nullptr;
  for (size_t i = 0; i < open_.size(); ++i) {  // grows under way
    const size_t position = open_[i];
    const StateKeyRef key(keys_[position]);
    PoolValue value;
    if (backend_->FindHot(key, &value) || nothing_below) {
      CAIRN_RETURN_IF_ERROR(Settle(position, std::move(value)));
    } else {
      const auto [at, added] = places.try_emplace(key, missing_.size());
      if (added) {
        missing_.push_back({missing_keys_->size(), 0, {}});
        missing_keys_->push_back(keys_[position]);
      }
      missing_[at->second].positions.push_back(position);
    }
  }
  open_.clear();
  if (missing_.empty()) return {};
  registered_ = true;
  checkpoint_ = backend_->committed_id_;
  generation_ = backend_->generation_;
  backend_->Pin(checkpoint_);
  for (Missing& missing : missing_) {
    Loading& loading = backend_->loading_[(*missing_keys_)[missing.key]];
    ++loading.loads;
    missing.version = loading.version;
  }
  backend_->cold_keys_ += missing_.size();
  ++backend_->cold_reads_;
  return {};
}

void RemoteReadBackend::Lookup::Unregister() {
  registered_ = false;
  backend_->Unpin(checkpoint_);
  for (const Missing& missing : missing_) {
    const auto at = backend_->loading_.find((*missing_keys_)[missing.key]);
    if (at != backend_->loading_.end() && --at->second.loads == 0) backend_->loading_.erase(at);
  }
}

Status RemoteReadBackend::Lookup::End(Result<std::vector<PoolValue>> values) {
  Status settled;
  {
    std::lock_guard lock(backend_->mutex_);
    if (values.ok() && generation_ == backend_->generation_) {
      for (const Missing& missing : missing_) {
        const StateKey& key = (*missing_keys_)[missing.key];
        PoolValue value;
        if (!backend_->FindHot(key, &value)) {
          if (backend_->loading_[key].version != missing.version) {
            // Written, committed and evicted meanwhile: what was loaded is older.
            open_.insert(open_.end(), missing.positions.begin(), missing.positions.end());
            continue;
          }
          value = (*values)[missing.key];
          if (value == ErasedOverLoader()) value = nullptr;
          backend_->hot_.Cache(key, value);
        }
        for (const size_t position : missing.positions) {
          if (settled.ok()) settled = Settle(position, value);
        }
      }
    }
    const bool restored = generation_ != backend_->generation_;
    Unregister();
    missing_.clear();
    if (values.ok() && restored) {
      return Status::Cancelled("the state was restored while the key was read: read it again");
    }
  }
  backend_->RunPurges();
  CAIRN_RETURN_IF_ERROR(settled);
  if (!values.ok()) {
    return values.status().WithContext("read of operator " +
                                       std::to_string(keys_.front().operator_id.value) +
                                       " from the remote tier");
  }
  return {};
}

Result<std::vector<PoolValue>> RemoteReadBackend::Lookup::Load(RemotePool* pool,
                                                               RemoteLoader* loader, uint64_t id,
                                                               const std::vector<StateKey>& keys) {
  try {
    std::vector<PoolValue> values(keys.size());
    if (id != 0 && keys.size() == 1) {
      CAIRN_ASSIGN_OR_RETURN(values[0], pool->Read(id, keys[0]));
    } else if (id != 0) {
      CAIRN_ASSIGN_OR_RETURN(values, pool->ReadMany(id, keys));
    }
    if (values.size() != keys.size()) {
      return Status::Internal("the remote pool answered " + std::to_string(values.size()) + " of " +
                              std::to_string(keys.size()) + " keys");
    }
    if (loader == nullptr) return values;
    std::vector<StateKey> wanted;
    std::vector<size_t> positions;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (values[i] != nullptr) continue;
      wanted.push_back(keys[i]);
      positions.push_back(i);
    }
    if (wanted.empty()) return values;
    CAIRN_ASSIGN_OR_RETURN(std::vector<StateValue> loaded, loader->LoadMany(wanted));
    if (loaded.size() != wanted.size()) {
      return Status::Internal("the loader answered " + std::to_string(loaded.size()) + " of " +
                              std::to_string(wanted.size()) + " keys");
    }
    for (size_t i = 0; i < loaded.size(); ++i) {
      if (!loaded[i]) continue;
      values[positions[i]] = std::make_shared<const std::string>(*std::move(loaded[i]));
    }
    return values;
  } catch (...) {
    return StatusOfException(std::current_exception(), "the remote tier");
  }
}

bool RemoteReadBackend::Reads::TryGet(OperatorId op, std::string_view key, StateValue* value) {
  PoolValue found;
  std::lock_guard lock(backend_->mutex_);
  if (!backend_->CheckOpen().ok()) return false;
  if (!backend_->FindHot({op, key}, &found)) {
    // Nothing lies below: absent is the answer.
    if (backend_->committed_id_ != 0 || backend_->loader_ != nullptr) return false;
  }
  if (found == nullptr && LegacyKeyOf(backend_->layout_, key)) return false;
  if (!backend_->expiry_.Hide({op, key}, &found).ok()) return false;  // the longer way tells why
  *value = found == nullptr ? StateValue() : StateValue(*found);
  return true;
}

AsyncTask<Result<StateValue>> RemoteReadBackend::Reads::GetAsync(OperatorId op, std::string key,
                                                                 int64_t order_key) {
  StateValue resident;
  if (TryGet(op, key, &resident)) co_return resident;
  std::vector<StateKey> keys;
  keys.emplace_back(op, std::move(key));
  Result<std::vector<StateValue>> values = co_await GetManyAsync(std::move(keys), order_key);
  if (!values.ok()) co_return values.status();
  co_return std::move(values->front());
}

AsyncTask<Result<std::vector<StateValue>>> RemoteReadBackend::Reads::GetManyAsync(
    std::vector<StateKey> keys, int64_t order_key) {
  Lookup lookup(backend_, std::move(keys));
  for (;;) {
    Status begun = lookup.Begin();
    if (!begun.ok()) co_return begun;
    if (lookup.done()) co_return lookup.TakeValues();
    IoRead read(backend_->io_, scheduler_, order_key, lookup.MakeLoad());
    Result<std::vector<PoolValue>> loaded = co_await read;
    Status ended = lookup.End(std::move(loaded));
    if (!ended.ok()) co_return ended;
  }
}

}  // namespace cairn::backend

// SPDX-License-Identifier: Apache-2.0
//
// Exchange: which subtask gets which row. Keys are encoded and hashed once a batch; every receiver
// gets the same record batch with its own selection of rows. No row is copied.
//
// Threads: one partitioner per sending subtask; what it hands out is immutable and may be dropped
// on any thread, which gives the buffers back to the partitioner's pool.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cairn/status.h"
#include "format/row_codec.h"
#include "stream/batch.h"
#include "stream/job_graph.h"

namespace cairn::stream {

/// Hand out objects whose memory comes back when the last user drops them.
///
/// Threads:  Acquire by one thread; the objects may be dropped on any, also after the pool is gone.
template <class T>
class RecyclingPool {
 public:
  std::shared_ptr<T> Acquire() {
    std::unique_ptr<T> object = free_->Take();
    if (object == nullptr) object = std::make_unique<T>();
    return std::shared_ptr<T>(object.release(), [free = free_](T* used) { free->Give(used); });
  }

 private:
  struct FreeList {
    std::mutex mutex;
    std::vector<std::unique_ptr<T>> objects;
    std::unique_ptr<T> Take() {
      std::lock_guard lock(mutex);
      if (objects.empty()) return nullptr;
      std::unique_ptr<T> object = std::move(objects.back());
      objects.pop_back();
      return object;
    }
    void Give(T* used) {
      constexpr size_t kKept = 16;
      std::unique_ptr<T> object(used);
      std::lock_guard lock(mutex);
      if (objects.size() < kKept) objects.push_back(std::move(object));
    }
  };
  std::shared_ptr<FreeList> free_ = std::make_shared<FreeList>();
};

class KeyPartitioner {
 public:
  /// Errors:   kInvalidArgument when a key column's type has no encoding.
  static Result<KeyPartitioner> Make(const ExchangeSpec& exchange, uint32_t parallelism,
                                     uint32_t key_groups);

  /// Set `batch->keys`.
  ///
  /// Cost:     about 5 ns a row for one BIGINT.
  Status EncodeKeys(Batch* batch);

  /// Encode the keys and share the batch out: `out[i]` goes to subtask i and has no rows when none
  /// are its own.
  ///
  /// Cost:     keys, and about 2 ns a row.
  Status Partition(Batch batch, std::vector<Batch>* out);

 private:
  KeyPartitioner() = default;

  format::RowCodec codec_;
  std::vector<int> key_columns_;
  uint32_t parallelism_ = 1;
  uint32_t key_groups_ = kDefaultKeyGroups;
  std::vector<uint32_t> owner_of_group_;
  std::vector<std::shared_ptr<arrow::Array>> key_arrays_;  // of the batch at hand
  RecyclingPool<KeyColumn> key_pool_;
  RecyclingPool<std::vector<uint32_t>> selection_pool_;
};

}  // namespace cairn::stream

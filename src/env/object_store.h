// SPDX-License-Identifier: Apache-2.0
//
// Named objects with the two primitives that a commit protocol needs: create-if-absent and
// compare-and-swap. A local directory and a bucket both offer them (LocalObjectStore here).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/status.h"

namespace cairn::env {

/// An object's bytes and the version that a later CompareAndSwap must name.
struct VersionedBytes {
  std::string bytes;
  std::string version;
};

struct ObjectInfo {
  std::string key;
  uint64_t size = 0;
  int64_t modified_unix_ms = 0;
};

/// Write one large object front to back; nothing is visible under its key before Finish.
///
/// Threads:  one.
class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;  ///< without Finish: abandons the object and its bytes
  virtual Status Append(std::string_view bytes) = 0;
  /// Publish the object. kAlreadyExists when the key is taken.
  ///
  /// Durable:  the bytes yes; the name only with the next create or swap in the same directory,
  ///           which syncs it (a data object is never named before its manifest exists).
  virtual Status Finish() = 0;
};

/// Read parts of objects.
///
/// Threads:  as the implementation says.
class ObjectRanges {
 public:
  virtual ~ObjectRanges() = default;
  /// Fill `out` from `offset`.
  ///
  /// Errors:   kNotFound · kCorruption: the object ends before · kUnavailable.
  virtual Status ReadRange(const std::string& key, uint64_t offset, std::span<char> out) = 0;
};

/// Tells of an object that was begun under `key` `age_ms` ago whether its writer has gone.
using AbandonedObjects = std::function<bool(const std::string& key, int64_t age_ms)>;

/// What a store has asked of its disk or bucket since it was opened.
struct StoreUse {
  uint64_t puts = 0;     ///< PUT and POST requests
  uint64_t gets = 0;     ///< GET and HEAD requests
  uint64_t deletes = 0;  ///< DELETE requests
  uint64_t syncs = 0;    ///< of files and directories
  uint64_t bytes_written = 0;
  friend bool operator==(const StoreUse&, const StoreUse&) = default;
  friend StoreUse operator-(const StoreUse& a, const StoreUse& b) {
    return {a.puts - b.puts, a.gets - b.gets, a.deletes - b.deletes, a.syncs - b.syncs,
            a.bytes_written - b.bytes_written};
  }
};

/// Counts a store's use.
///
/// Threads:  any.
class StoreUseCounter {
 public:
  void AddPut() { ++puts_; }
  void AddGet() { ++gets_; }
  void AddDelete() { ++deletes_; }
  void AddSync() { ++syncs_; }
  void AddBytes(uint64_t bytes) { bytes_written_ += bytes; }
  StoreUse Read() const { return {puts_, gets_, deletes_, syncs_, bytes_written_}; }

 private:
  std::atomic<uint64_t> puts_ = 0;
  std::atomic<uint64_t> gets_ = 0;
  std::atomic<uint64_t> deletes_ = 0;
  std::atomic<uint64_t> syncs_ = 0;
  std::atomic<uint64_t> bytes_written_ = 0;
};

/// Store objects under '/'-separated keys.
///
/// Threads:  any.
/// Errors:   kNotFound · kAlreadyExists · kFenced (version differs) · kUnavailable, after which
///           the outcome of a write is unknown: read back before deciding.
class ObjectStore : public ObjectRanges {
 public:
  /// True when each read is a round trip, so that many small ones are better asked for ahead.
  virtual bool is_remote() const { return false; }
  /// Zero where nothing is counted.
  virtual StoreUse use() const { return {}; }

  /// Create `key` with `bytes`, durably and whole. An existing object with equal bytes is success.
  virtual Status CreateIfAbsent(const std::string& key, std::string_view bytes) = 0;
  /// Replace `key` when its version is `expected` (nullopt: must not exist). Return the new
  /// version.
  virtual Result<std::string> CompareAndSwap(const std::string& key,
                                             const std::optional<std::string>& expected,
                                             std::string_view bytes) = 0;
  /// Overwrite a derived hint (latest.txt) without any promise of durability.
  virtual Status PutHint(const std::string& key, std::string_view bytes) = 0;

  virtual Result<std::unique_ptr<ObjectWriter>> NewWriter(const std::string& key) = 0;
  /// As NewWriter, for an object of about `bytes`: where objects travel in parts of one size, of
  /// which there may be so many, the size is chosen for it.
  ///
  /// Errors:   kResourceExhausted: the store takes no object as large.
  virtual Result<std::unique_ptr<ObjectWriter>> NewLargeWriter(const std::string& key,
                                                               uint64_t bytes) {
    (void)bytes;
    return NewWriter(key);
  }

  /// Make what will hold `key` durable now (its directory), so that no later write there has to.
  virtual Status PrepareFor(const std::string& key) {
    (void)key;
    return {};
  }
  /// Make the name of a finished object durable where no create or swap in its directory follows.
  virtual Status SyncName(const std::string& key) {
    (void)key;
    return {};
  }

  virtual Result<VersionedBytes> Get(const std::string& key, uint64_t max_bytes) = 0;
  virtual Result<ObjectInfo> Head(const std::string& key) = 0;
  /// Objects whose key begins with `prefix`, sorted. Only ever to nominate, never to decide.
  virtual Result<std::vector<ObjectInfo>> List(const std::string& prefix) = 0;
  /// Delete; a missing object is success.
  virtual Status Delete(const std::string& key) = 0;
  /// End large objects below `prefix` that were begun and not finished, and free their parts: those
  /// that `is_abandoned` says a dead process has left. Return how many; a writer of one that goes
  /// on all the same fails.
  virtual Result<uint64_t> EndUnfinished(const std::string& prefix,
                                         const AbandonedObjects& is_abandoned) {
    (void)prefix, (void)is_abandoned;
    return uint64_t{0};  // a directory sweeps its temporary names when it is opened
  }

  /// True when a write that was answered by kUnavailable may take effect later: it is on its way
  /// to a server.
  virtual bool may_write_late() const { return is_remote(); }
};

}  // namespace cairn::env

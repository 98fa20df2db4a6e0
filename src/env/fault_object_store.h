// SPDX-License-Identifier: Apache-2.0
//
// Wrap an object store, count its calls and make chosen ones fail, or let something else happen
// just before. The counterpart of FaultFileSystem: the same fault loop, one level higher.
//
// Threads: any; one lock around the plan, none around the wrapped calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "env/object_store.h"

namespace cairn::env {

enum class ObjectFault : uint8_t {
  kNone,
  kLostBefore,  ///< kUnavailable, nothing done
  kLostAfter,   ///< kUnavailable, though it was done
  kLate,        ///< of a swap: kUnavailable, and done by Land(). Other calls are done as ever
  kRefused,  ///< the condition fails without a cause: kAlreadyExists, kFenced; reads as kLostBefore
  kShortRead,  ///< kCorruption: fewer bytes than asked for; other calls as kLostBefore
  kInterlude,  ///< `interlude` runs, then the call
};

struct ObjectFaultPlan {
  uint64_t call = 0;  ///< the first is 0
  ObjectFault kind = ObjectFault::kNone;
  bool for_ever = false;  ///< every later call fails too
  std::function<void()> interlude;
};

class FaultObjectStore final : public ObjectStore {
 public:
  /// A copy shares the store and the plan: a test keeps one and gives another away.
  explicit FaultObjectStore(std::shared_ptr<ObjectStore> store);
  FaultObjectStore(const FaultObjectStore&) = default;
  ~FaultObjectStore() override;

  /// Set the plan, begin counting at 0 and forget the trace.
  void Arm(ObjectFaultPlan plan);
  void Disarm() { Arm({}); }
  uint64_t calls() const;
  bool fired() const;
  /// "create control/…", "swap …", "read …", since Arm.
  std::vector<std::string> trace() const;

  /// Let the late swap take effect now, if its condition still holds.
  Status Land();

  bool is_remote() const override { return store_->is_remote(); }
  bool may_write_late() const override;
  StoreUse use() const override { return store_->use(); }
  Status CreateIfAbsent(const std::string& key, std::string_view bytes) override;
  Result<std::string> CompareAndSwap(const std::string& key,
                                     const std::optional<std::string>& expected,
                                     std::string_view bytes) override;
  Status PutHint(const std::string& key, std::string_view bytes) override;
  Result<std::unique_ptr<ObjectWriter>> NewWriter(const std::string& key) override;
  Result<std::unique_ptr<ObjectWriter>> NewLargeWriter(const std::string& key,
                                                       uint64_t bytes) override;
  Status PrepareFor(const std::string& key) override;
  Status SyncName(const std::string& key) override;
  Result<VersionedBytes> Get(const std::string& key, uint64_t max_bytes) override;
  Status ReadRange(const std::string& key, uint64_t offset, std::span<char> out) override;
  Result<ObjectInfo> Head(const std::string& key) override;
  Result<std::vector<ObjectInfo>> List(const std::string& prefix) override;
  Status Delete(const std::string& key) override;
  Result<uint64_t> EndUnfinished(const std::string& prefix,
                                 const AbandonedObjects& is_abandoned) override {
    return store_->EndUnfinished(prefix, is_abandoned);
  }

 private:
  struct Plan;
  class Writer;
  std::shared_ptr<ObjectStore> store_;
  std::shared_ptr<Plan> plan_;
};

}  // namespace cairn::env

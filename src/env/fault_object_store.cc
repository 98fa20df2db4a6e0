// SPDX-License-Identifier: Apache-2.0
#include "env/fault_object_store.h"

#include <mutex>
#include <utility>

namespace cairn::env {

struct FaultObjectStore::Plan {
  std::mutex mutex;
  ObjectFaultPlan plan;
  uint64_t calls = 0;
  bool fired = false;
  std::vector<std::string> trace;
  std::function<Status()> late;

  /// Count a call and return what is to become of it.
  ObjectFault Next(const char* verb, const std::string& key) {
    std::function<void()> interlude;
    ObjectFault kind = ObjectFault::kNone;
    {
      std::lock_guard<std::mutex> lock(mutex);
      trace.push_back(std::string(verb) + " " + key);
      const uint64_t call = calls++;
      if (plan.kind == ObjectFault::kNone) return kind;
      if (call != plan.call && !(plan.for_ever && call > plan.call)) return kind;
      fired = true;
      if (plan.kind == ObjectFault::kLate && std::string_view(verb) != "swap") return kind;
      kind = plan.kind;
      interlude = plan.interlude;
    }
    if (kind != ObjectFault::kInterlude) return kind;
    interlude();
    return ObjectFault::kNone;
  }

  /// Run a write under the plan. `refused` is what a failed condition returns.
  template <class Call>
  auto Write(const char* verb, const std::string& key, Status refused, Call call)
      -> decltype(call()) {
    const ObjectFault fault = Next(verb, key);
    if (fault == ObjectFault::kNone) return call();
    if (fault == ObjectFault::kLostAfter) (void)call();
    if (fault == ObjectFault::kRefused && !refused.ok()) return refused;
    return Lost(verb, key);
  }

  /// Keep the write that was call `call`, when it is the late one.
  void KeepLate(uint64_t call, std::function<Status()> write) {
    std::lock_guard<std::mutex> lock(mutex);
    if (plan.kind == ObjectFault::kLate && call == plan.call) late = std::move(write);
  }

  template <class Call>
  auto Read(const char* verb, const std::string& key, Call call) -> decltype(call()) {
    const ObjectFault fault = Next(verb, key);
    if (fault == ObjectFault::kNone) return call();
    if (fault == ObjectFault::kShortRead) {
      return Status::Corruption(std::string("injected short read of ") + key);
    }
    return Lost(verb, key);
  }

  static Status Lost(const char* verb, const std::string& key) {
    return Status::Unavailable(std::string("injected fault: ") + verb + " " + key);
  }
};

class FaultObjectStore::Writer final : public ObjectWriter {
 public:
  Writer(std::unique_ptr<ObjectWriter> writer, std::string key, std::shared_ptr<Plan> plan)
      : writer_(std::move(writer)), key_(std::move(key)), plan_(std::move(plan)) {}
  Status Append(std::string_view bytes) override {
    return plan_->Write("append", key_, {}, [&] { return writer_->Append(bytes); });
  }
  Status Finish() override {
    return plan_->Write("finish", key_, Status::AlreadyExists("injected: " + key_ + " exists"),
                        [&] { return writer_->Finish(); });
  }

 private:
  std::unique_ptr<ObjectWriter> writer_;
  std::string key_;
  std::shared_ptr<Plan> plan_;
};

FaultObjectStore::FaultObjectStore(std::shared_ptr<ObjectStore> store)
    : store_(std::move(store)), plan_(std::make_shared<Plan>()) {}

FaultObjectStore::~FaultObjectStore() = default;

void FaultObjectStore::Arm(ObjectFaultPlan plan) {
  std::lock_guard<std::mutex> lock(plan_->mutex);
  plan_->plan = std::move(plan);
  plan_->calls = 0;
  plan_->fired = false;
  plan_->trace.clear();
}

uint64_t FaultObjectStore::calls() const {
  std::lock_guard<std::mutex> lock(plan_->mutex);
  return plan_->calls;
}

bool FaultObjectStore::fired() const {
  std::lock_guard<std::mutex> lock(plan_->mutex);
  return plan_->fired;
}

std::vector<std::string> FaultObjectStore::trace() const {
  std::lock_guard<std::mutex> lock(plan_->mutex);
  return plan_->trace;
}

bool FaultObjectStore::may_write_late() const {
  std::lock_guard<std::mutex> lock(plan_->mutex);
  return plan_->plan.kind == ObjectFault::kLate || store_->may_write_late();
}

Status FaultObjectStore::Land() {
  std::function<Status()> late;
  {
    std::lock_guard<std::mutex> lock(plan_->mutex);
    late = std::exchange(plan_->late, nullptr);
  }
  return late ? late() : Status::NotFound("no swap is late");
}

Status FaultObjectStore::CreateIfAbsent(const std::string& key, std::string_view bytes) {
  return plan_->Write("create", key, Status::AlreadyExists("injected: " + key + " exists"),
                      [&] { return store_->CreateIfAbsent(key, bytes); });
}

Result<std::string> FaultObjectStore::CompareAndSwap(const std::string& key,
                                                     const std::optional<std::string>& expected,
                                                     std::string_view bytes) {
  const uint64_t call = calls();
  Result<std::string> swapped =
      plan_->Write("swap", key, Status::Fenced("injected: " + key + " changed"),
                   [&] { return store_->CompareAndSwap(key, expected, bytes); });
  plan_->KeepLate(call, [store = store_, key, expected, bytes = std::string(bytes)] {
    return store->CompareAndSwap(key, expected, bytes).status();
  });
  return swapped;
}

Status FaultObjectStore::PutHint(const std::string& key, std::string_view bytes) {
  return plan_->Write("hint", key, {}, [&] { return store_->PutHint(key, bytes); });
}

Result<std::unique_ptr<ObjectWriter>> FaultObjectStore::NewWriter(const std::string& key) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<ObjectWriter> writer, store_->NewWriter(key));
  return std::unique_ptr<ObjectWriter>(std::make_unique<Writer>(std::move(writer), key, plan_));
}

Result<std::unique_ptr<ObjectWriter>> FaultObjectStore::NewLargeWriter(const std::string& key,
                                                                       uint64_t bytes) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<ObjectWriter> writer, store_->NewLargeWriter(key, bytes));
  return std::unique_ptr<ObjectWriter>(std::make_unique<Writer>(std::move(writer), key, plan_));
}

Status FaultObjectStore::PrepareFor(const std::string& key) {
  return plan_->Write("prepare", key, {}, [&] { return store_->PrepareFor(key); });
}

Status FaultObjectStore::SyncName(const std::string& key) {
  return plan_->Write("sync", key, {}, [&] { return store_->SyncName(key); });
}

Result<VersionedBytes> FaultObjectStore::Get(const std::string& key, uint64_t max_bytes) {
  return plan_->Read("read", key, [&] { return store_->Get(key, max_bytes); });
}

Status FaultObjectStore::ReadRange(const std::string& key, uint64_t offset, std::span<char> out) {
  return plan_->Read("range", key, [&] { return store_->ReadRange(key, offset, out); });
}

Result<ObjectInfo> FaultObjectStore::Head(const std::string& key) {
  return plan_->Read("head", key, [&] { return store_->Head(key); });
}

Result<std::vector<ObjectInfo>> FaultObjectStore::List(const std::string& prefix) {
  return plan_->Read("list", prefix, [&] { return store_->List(prefix); });
}

Status FaultObjectStore::Delete(const std::string& key) {
  return plan_->Write("delete", key, {}, [&] { return store_->Delete(key); });
}

}  // namespace cairn::env

// SPDX-License-Identifier: Apache-2.0
#include "env/store_probe.h"

#include <algorithm>
#include <functional>
#include <thread>

namespace cairn::env {
namespace {

class Probe {
 public:
  Probe(ObjectStore* store, Random* random, uint32_t writers)
      : store_(store), writers_(writers), key_("control/probe-" + RandomToken(random)) {}

  std::vector<ProbeFinding> Run() {
    const std::pair<const char*, Status (Probe::*)()> steps[] = {
        {"an absent object is reported as absent", &Probe::Absent},
        {"an object is read back as it was created", &Probe::CreateAndRead},
        {"a create does not replace an object", &Probe::CreateConflict},
        {"a streamed object does not replace an object", &Probe::StreamConflict},
        {"a swap replaces the version it names", &Probe::Swap},
        {"a swap of a stale version is refused", &Probe::StaleSwap},
        {"a swap that expects no object is refused where there is one", &Probe::SwapOfAbsent},
        {"of creators that race one wins", &Probe::Race},
        {"a part of an object can be read", &Probe::Range},
        {"objects are listed by prefix", &Probe::List},
        {"a deleted object is gone, and deleting it again is no error", &Probe::Delete},
    };
    std::vector<ProbeFinding> findings;
    for (const auto& [promise, step] : steps) {
      findings.push_back({promise, (this->*step)()});
      if (!findings.back().status.ok()) break;
    }
    (void)store_->Delete(key_);
    (void)store_->Delete(key_ + "-race");
    return findings;
  }

 private:
  static Status Broken(const std::string& seen) { return Status::Corruption(seen); }

  Status Expect(std::string_view bytes) {
    CAIRN_ASSIGN_OR_RETURN(const VersionedBytes there, store_->Get(key_, 1 << 10));
    if (there.bytes == bytes) return {};
    return Broken("read \"" + there.bytes + "\" where \"" + std::string(bytes) +
                  "\" was written last");
  }

  /// `status` must be `code`; another failure is passed on, success is a broken promise.
  static Status MustRefuse(const Status& status, StatusCode code) {
    if (status.code() == code) return {};
    return status.ok() ? Broken("the store carried it out") : status;
  }

  Status Absent() {
    const Result<VersionedBytes> there = store_->Get(key_, 1 << 10);
    return MustRefuse(there.status(), StatusCode::kNotFound);
  }

  Status CreateAndRead() {
    CAIRN_RETURN_IF_ERROR(store_->CreateIfAbsent(key_, "first"));
    CAIRN_RETURN_IF_ERROR(Expect("first"));
    CAIRN_ASSIGN_OR_RETURN(const VersionedBytes there, store_->Get(key_, 1 << 10));
    if (there.version.empty()) return Broken("the answer carries no version (ETag)");
    first_ = there.version;
    return {};
  }

  Status CreateConflict() {
    CAIRN_RETURN_IF_ERROR(
        MustRefuse(store_->CreateIfAbsent(key_, "second"), StatusCode::kAlreadyExists));
    return Expect("first");
  }

  Status StreamConflict() {
    CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<ObjectWriter> writer, store_->NewWriter(key_));
    CAIRN_RETURN_IF_ERROR(writer->Append("second"));
    CAIRN_RETURN_IF_ERROR(MustRefuse(writer->Finish(), StatusCode::kAlreadyExists));
    return Expect("first");
  }

  Status Swap() {
    CAIRN_ASSIGN_OR_RETURN(const std::string second,
                           store_->CompareAndSwap(key_, first_, "second"));
    CAIRN_RETURN_IF_ERROR(Expect("second"));
    CAIRN_RETURN_IF_ERROR(store_->CompareAndSwap(key_, second, "third").status());
    return Expect("third");
  }

  Status StaleSwap() {
    CAIRN_RETURN_IF_ERROR(
        MustRefuse(store_->CompareAndSwap(key_, first_, "stale").status(), StatusCode::kFenced));
    return Expect("third");
  }

  Status SwapOfAbsent() {
    CAIRN_RETURN_IF_ERROR(MustRefuse(store_->CompareAndSwap(key_, std::nullopt, "stale").status(),
                                     StatusCode::kFenced));
    return Expect("third");
  }

  Status Race() {
    std::vector<Status> outcomes(writers_);
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < writers_; ++i) {
      threads.emplace_back([this, i, &outcomes] {
        outcomes[i] = store_->CreateIfAbsent(key_ + "-race", "writer " + std::to_string(i));
      });
    }
    for (std::thread& thread : threads) thread.join();
    uint32_t won = 0;
    for (const Status& outcome : outcomes) {
      if (outcome.ok()) {
        ++won;
      } else if (outcome.code() != StatusCode::kAlreadyExists) {
        return outcome;
      }
    }
    if (won == 1) return {};
    return Broken(std::to_string(won) + " of " + std::to_string(writers_) + " creators won");
  }

  Status Range() {
    char part[3];
    CAIRN_RETURN_IF_ERROR(store_->ReadRange(key_, 1, part));
    return std::string_view(part, 3) == "hir" ? Status() : Broken("other bytes were read");
  }

  Status List() {
    CAIRN_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> found, store_->List(key_));
    for (const ObjectInfo& object : found) {
      if (object.key == key_ && object.size == 5) return {};
    }
    return Broken("an object that was just written is not listed");
  }

  Status Delete() {
    CAIRN_RETURN_IF_ERROR(store_->Delete(key_));
    CAIRN_RETURN_IF_ERROR(Absent());
    return store_->Delete(key_);
  }

  ObjectStore* const store_;
  const uint32_t writers_;
  const std::string key_;
  std::string first_;  ///< version of the first bytes
};

}  // namespace

std::vector<ProbeFinding> ProbeStore(ObjectStore* store, Random* random, uint32_t writers) {
  return Probe(store, random, writers).Run();
}

Status VerdictOf(const std::vector<ProbeFinding>& findings) {
  for (const ProbeFinding& finding : findings) {
    if (finding.status.ok()) continue;
    if (finding.status.code() != StatusCode::kCorruption) {
      return finding.status.WithContext("could not prove that " + finding.promise);
    }
    return Status::InvalidArgument(
        "this store cannot hold checkpoints: it does not keep the promise that " + finding.promise +
        " (" + std::string(finding.status.message()) + "); use a store with conditional writes");
  }
  return {};
}

}  // namespace cairn::env

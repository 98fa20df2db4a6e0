// SPDX-License-Identifier: Apache-2.0
//
// The fault loop over an embedded store: every call of a checkpoint that touches the disk fails
// once, for ever, loses its answer, finds the disk full, or is the last before the power goes. The
// store is opened again after each, and what its state has counted is what its offset says.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "store/store_testing.h"

namespace cairn {
namespace {

using store::testing::StoreWorld;

/// A kind of fault, and what becomes of unsynced bytes when it cuts the power.
struct StoreFault {
  const char* name;
  env::FaultKind kind;
  bool for_ever = false;
  std::optional<env::Unsynced> cut;
};

const StoreFault kStoreFaults[] = {
    {"fails once", env::FaultKind::kFail, false, {}},
    {"fails for ever", env::FaultKind::kFail, true, {}},
    {"loses its answer", env::FaultKind::kFailAfter, false, {}},
    {"writes short", env::FaultKind::kShortWrite, false, {}},
    {"finds no space for ever", env::FaultKind::kNoSpace, true, {}},
    {"loses power, unsynced dropped", env::FaultKind::kCallback, false, env::Unsynced::kDrop},
    {"loses power, unsynced kept", env::FaultKind::kCallback, false, env::Unsynced::kKeep},
};

constexpr uint64_t kKeys = 16;

/// Event i counts key i % kKeys; the offset is the number of events taken.
class CountedEvents {
 public:
  static Result<CountedEvents> Open(StoreWorld* world) {
    StateStoreOptions options;
    options.checkpoint.retained = 2;
    CountedEvents service;
    CAIRN_ASSIGN_OR_RETURN(service.store_, world->Open(options));
    CAIRN_ASSIGN_OR_RETURN(service.partition_, service.store_->OpenPartition(0));
    CAIRN_ASSIGN_OR_RETURN(
        service.counts_,
        (service.partition_->Operator("count")->keyed_state<int64_t, int64_t>("counts")));
    CAIRN_ASSIGN_OR_RETURN(const Recovered start, service.partition_->Recover());
    service.offset_ = start.offsets.empty() ? 0 : std::stoull(start.offsets);
    return service;
  }

  void Take(uint64_t events) {
    for (const uint64_t end = offset_ + events; offset_ < end; ++offset_) {
      const auto key = static_cast<int64_t>(offset_ % kKeys);
      EXPECT_TRUE(counts_->Update(key, [](int64_t& n, bool) noexcept { ++n; }).ok());
    }
  }

  Status Checkpoint() {
    CAIRN_ASSIGN_OR_RETURN(CheckpointHandle handle,
                           partition_->Checkpoint(std::to_string(offset_)));
    return handle.Wait();
  }

  /// Every key was counted exactly as often as the offset says.
  void ExpectExact() const {
    for (uint64_t key = 0; key < kKeys; ++key) {
      const int64_t* n = counts_->Find(static_cast<int64_t>(key));
      const uint64_t expected = offset_ / kKeys + (offset_ % kKeys > key ? 1 : 0);
      EXPECT_EQ(n == nullptr ? 0 : *n, static_cast<int64_t>(expected)) << "key " << key;
    }
  }

  uint64_t offset() const { return offset_; }

 private:
  std::unique_ptr<StateStore> store_;
  Partition* partition_ = nullptr;
  KeyedState<int64_t, int64_t>* counts_ = nullptr;
  uint64_t offset_ = 0;
};

/// One checkpoint with the fault at disk call `n`; false when it met no fault.
bool CheckpointMeets(const StoreFault& fault, int checkpoints_before, uint64_t n) {
  SCOPED_TRACE(std::string("disk call ") + std::to_string(n) + " " + fault.name + ", after " +
               std::to_string(checkpoints_before) + " checkpoints");
  StoreWorld world;
  bool fired = false;
  bool acknowledged = false;
  uint64_t before = 0;
  uint64_t after = 0;
  {
    Result<CountedEvents> service = CountedEvents::Open(&world);
    EXPECT_TRUE(service.ok()) << service.status().ToString();
    for (int i = 0; i < checkpoints_before; ++i) {
      service->Take(37);
      EXPECT_TRUE(service->Checkpoint().ok());
    }
    before = service->offset();
    service->Take(41);
    after = service->offset();
    env::FaultPlan plan{n, fault.kind, fault.for_ever, {}};
    if (fault.cut) plan.after = [&] { world.disk.PowerCut(*fault.cut, n); };
    world.files.Arm(std::move(plan));
    acknowledged = service->Checkpoint().ok();
    fired = world.files.fired();
  }
  world.files.Disarm();
  world.disk.PowerCut(env::Unsynced::kDrop, n);
  world.disk.PowerOn();
  Result<CountedEvents> service = CountedEvents::Open(&world);
  EXPECT_TRUE(service.ok()) << service.status().ToString();
  if (!service.ok()) return fired;
  EXPECT_TRUE(service->offset() == after || (!acknowledged && service->offset() == before))
      << service->offset() << " is neither " << before << " nor " << after;
  service->ExpectExact();
  service->Take(5);
  EXPECT_TRUE(service->Checkpoint().ok());
  const uint64_t last = service->offset();
  *service = {};
  service = CountedEvents::Open(&world);
  EXPECT_TRUE(service.ok()) << service.status().ToString();
  EXPECT_EQ(service->offset(), last);
  service->ExpectExact();
  return fired;
}

TEST(EmbeddedStoreFaults, LeaveStateAndOffsetsOfOneCut) {
  uint64_t runs = 0;
  for (const StoreFault& fault : kStoreFaults) {
    for (const int checkpoints_before : {0, 1, 4}) {
      uint64_t n = 0;
      while (CheckpointMeets(fault, checkpoints_before, n)) {
        ASSERT_FALSE(HasFailure()) << fault.name << " at call " << n;
        ++n;
      }
      EXPECT_GT(n, 5U) << fault.name;
      runs += n;
    }
  }
  std::printf("%llu faults met\n", static_cast<unsigned long long>(runs));
}

TEST(EmbeddedStoreFaults, LetTheSameProcessGoOn) {
  StoreWorld world;
  uint64_t last = 0;
  {
    Result<CountedEvents> service = CountedEvents::Open(&world);
    ASSERT_TRUE(service.ok());
    uint64_t failed = 0;
    for (uint64_t n = 0; n < 12; ++n) {
      service->Take(7);
      world.files.Arm({n, env::FaultKind::kFail, false, {}});
      failed += service->Checkpoint().ok() ? 0 : 1;
      world.files.Disarm();
    }
    EXPECT_GT(failed, 3U);
    const Status again = service->Checkpoint();
    ASSERT_TRUE(again.ok()) << again.ToString();
    last = service->offset();
  }
  Result<CountedEvents> service = CountedEvents::Open(&world);
  ASSERT_TRUE(service.ok());
  EXPECT_EQ(service->offset(), last);
  service->ExpectExact();
}

}  // namespace
}  // namespace cairn

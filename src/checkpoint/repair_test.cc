// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/repair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/bucket_testing.h"
#include "checkpoint/copy_cut.h"
#include "checkpoint/inventory.h"
#include "checkpoint/layout.h"

namespace cairn::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FoundIn;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Process;
using testing::Rows;
using testing::RowsOf;
using ::testing::SizeIs;

class RepairTest : public ::testing::Test {
 protected:
  void SetUp() override {
    process_ = std::make_unique<Process>(bucket_, 1);
    process_->job.options.retained = 3;
    ASSERT_TRUE(process_->job.Start(1).ok());
  }

  /// A base of 200 keys, then deltas of 5.
  void Checkpoints(int count) {
    for (int i = 0; i < count; ++i) {
      process_->PutMany(i == 0 ? 200 : 5, "value " + std::to_string(i));
      ASSERT_TRUE(process_->job.Checkpoint().ok());
    }
  }
  Rows Expected(int checkpoints) {
    Rows rows = RowsOf(200, "value 0");
    if (checkpoints > 1) {
      for (auto& [key, value] : RowsOf(5, "value " + std::to_string(checkpoints - 1))) {
        rows[key] = value;
      }
    }
    return rows;
  }
  Place ReadIt(env::ObjectStore* objects) {
    Result<Place> place = ReadPlace(objects);
    EXPECT_TRUE(place.ok()) << place.status().ToString();
    return place.ok() ? *std::move(place) : Place();
  }
  std::string Bytes(env::ObjectStore* objects, const std::string& key) {
    Result<env::VersionedBytes> there = objects->Get(key, 1 << 24);
    return there.ok() ? there->bytes : std::string(there.status().message());
  }

  Result<CopyReport> Copy(const Place& place, const format::CutReference& cut,
                          env::ObjectStore* to) {
    CAIRN_ASSIGN_OR_RETURN(const auto manifest, ReadManifest(bucket_.get(), place, cut));
    return CopyCut(bucket_.get(), place, *manifest, "", to, {});
  }

  std::shared_ptr<env::MemoryObjectStore> bucket_ = std::make_shared<env::MemoryObjectStore>();
  std::unique_ptr<Process> process_;
};

TEST_F(RepairTest, ACopyStandsAloneAndHasTheSameBytes) {
  Checkpoints(3);
  const Place place = ReadIt(bucket_.get());
  auto copy = std::make_shared<env::MemoryObjectStore>();
  const Result<CopyReport> report = Copy(place, place.Cuts().front(), copy.get());
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_GE(report->objects, 2u);
  EXPECT_EQ(FoundIn(copy.get()), Expected(3));
  const auto copied = copy->List("nodes/");
  for (const env::ObjectInfo& object : *copied) {
    EXPECT_EQ(Bytes(copy.get(), object.key), Bytes(bucket_.get(), object.key)) << object.key;
  }
  // A job goes on from it.
  Process other(copy, 9);
  ASSERT_TRUE(other.job.Start(1).ok());
  EXPECT_EQ(other.job.Contents(0), Expected(3));
  other.PutMany(200, "on");
  ASSERT_TRUE(other.job.Checkpoint().ok());
  EXPECT_EQ(FoundIn(copy.get()), RowsOf(200, "on"));
  EXPECT_EQ(FoundIn(bucket_.get()), Expected(3));
}

TEST_F(RepairTest, ACopyOfAnOlderCutHoldsThatCutOnly) {
  Checkpoints(3);
  const Place place = ReadIt(bucket_.get());
  env::MemoryObjectStore copy;
  ASSERT_TRUE(Copy(place, place.Cuts()[1], &copy).ok());
  EXPECT_EQ(FoundIn(&copy), Expected(2));
  EXPECT_THAT(ReadIt(&copy).Cuts(), SizeIs(1));
}

TEST_F(RepairTest, ACopyIntoAUsedPlaceIsRefused) {
  Checkpoints(1);
  const Place place = ReadIt(bucket_.get());
  const Status status = Copy(place, place.Cuts().front(), bucket_.get()).status();
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(status.ToString(), HasSubstr("empty place"));
}

TEST_F(RepairTest, ACopyThatIsCutShortAnywhereIsNoPlaceAndIsFinishedByTheNext) {
  Checkpoints(3);
  const Place place = ReadIt(bucket_.get());
  for (const env::ObjectFault kind :
       {env::ObjectFault::kLostBefore, env::ObjectFault::kLostAfter}) {
    for (uint64_t n = 0;; ++n) {
      ASSERT_LT(n, 100u);
      SCOPED_TRACE("cut short at call " + std::to_string(n));
      auto memory = std::make_shared<env::MemoryObjectStore>();
      env::FaultObjectStore copy(memory);
      copy.Arm({.call = n, .kind = kind, .for_ever = true});
      const Result<CopyReport> first = Copy(place, place.Cuts().front(), &copy);
      const bool fired = copy.fired();
      copy.Disarm();
      const Result<CopyReport> second = Copy(place, place.Cuts().front(), &copy);
      if (!second.ok()) {  // the first came to its end though it could not know
        EXPECT_EQ(second.status().code(), StatusCode::kAlreadyExists) << second.status().ToString();
      }
      EXPECT_EQ(FoundIn(memory.get()), Expected(3));
      if (!fired) break;
    }
  }
}

TEST_F(RepairTest, ADamagedObjectIsNotCopiedAsIfItWereWhole) {
  Checkpoints(2);
  const Place place = ReadIt(bucket_.get());
  ASSERT_TRUE(bucket_->Delete(StateObjectKey(place.Cuts()[1].id)).ok());  // the base
  env::MemoryObjectStore copy;
  EXPECT_EQ(Copy(place, place.Cuts().front(), &copy).status().code(), StatusCode::kCorruption);
  EXPECT_FALSE(copy.Get(std::string(kHeadKey), 1 << 16).ok());
}

TEST_F(RepairTest, TheInventoryNamesTheCutsThatKeepAnObject) {
  Checkpoints(2);
  ASSERT_TRUE(bucket_->CreateIfAbsent("nodes/readme", "mine").ok());
  ASSERT_TRUE(bucket_->CreateIfAbsent(ManifestKey(base::CheckpointId(99)), "{}").ok());
  const auto inventory = TakeInventory(bucket_.get(), ReadIt(bucket_.get()));
  ASSERT_TRUE(inventory.ok());
  EXPECT_FALSE(inventory->AnyMissing());
  std::map<std::string, const InventoryItem*> by_key;
  for (const InventoryItem& item : inventory->items) by_key[item.key] = &item;
  const auto cuts = ReadIt(bucket_.get()).Cuts();
  ASSERT_EQ(cuts.size(), 2u);
  EXPECT_THAT(by_key.at(StateObjectKey(cuts[1].id))->needed_by,
              ElementsAre(cuts[0].id, cuts[1].id));
  EXPECT_THAT(by_key.at(StateObjectKey(cuts[0].id))->needed_by, ElementsAre(cuts[0].id));
  EXPECT_TRUE(by_key.at("nodes/readme")->foreign);
  EXPECT_FALSE(by_key.at("nodes/readme")->IsGarbage());
  EXPECT_TRUE(by_key.at(ManifestKey(base::CheckpointId(99)))->undecided);
}

TEST_F(RepairTest, TheInventoryNamesWhatIsNeededAndMissing) {
  Checkpoints(2);
  const auto cuts = ReadIt(bucket_.get()).Cuts();
  const std::string base = StateObjectKey(cuts[1].id);
  const uint64_t bytes = bucket_->Head(base)->size;
  ASSERT_TRUE(bucket_->Delete(base).ok());
  const auto inventory = TakeInventory(bucket_.get(), ReadIt(bucket_.get()));
  ASSERT_TRUE(inventory.ok()) << inventory.status().ToString();
  EXPECT_TRUE(inventory->AnyMissing());
  EXPECT_THAT(inventory->unreadable, IsEmpty());
  const auto item = std::find_if(inventory->items.begin(), inventory->items.end(),
                                 [&](const InventoryItem& one) { return one.key == base; });
  ASSERT_NE(item, inventory->items.end());
  EXPECT_TRUE(item->missing);
  EXPECT_FALSE(item->IsGarbage());
  EXPECT_EQ(item->bytes, bytes);
  EXPECT_THAT(item->needed_by, ElementsAre(cuts[0].id, cuts[1].id));
}

TEST_F(RepairTest, TheInventoryNamesAManifestThatIsMissingAndWhatTheOthersNeed) {
  Checkpoints(2);
  const auto cuts = ReadIt(bucket_.get()).Cuts();
  ASSERT_TRUE(bucket_->Delete(ManifestKey(cuts[0].id)).ok());
  const auto inventory = TakeInventory(bucket_.get(), ReadIt(bucket_.get()));
  ASSERT_TRUE(inventory.ok()) << inventory.status().ToString();
  ASSERT_THAT(inventory->unreadable, SizeIs(1));
  EXPECT_EQ(inventory->unreadable[0].first, cuts[0].id);
  for (const InventoryItem& item : inventory->items) {
    EXPECT_EQ(item.missing, item.key == ManifestKey(cuts[0].id)) << item.key;
    if (item.key == StateObjectKey(cuts[1].id)) {
      EXPECT_THAT(item.needed_by, ElementsAre(cuts[1].id));
    }
  }
}

TEST_F(RepairTest, GarbageGoesAndWhatACutNeedsStays) {
  Checkpoints(2);
  const auto before = *bucket_->List("nodes/");
  ASSERT_TRUE(bucket_->CreateIfAbsent("nodes/readme", "mine").ok());
  ASSERT_TRUE(bucket_->CreateIfAbsent(StateObjectKey(base::CheckpointId(99)), "undecided").ok());
  const auto report = CollectGarbage(bucket_.get());
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->objects, 1u);
  EXPECT_EQ(bucket_->List("nodes/")->size(), before.size() + 1);
  EXPECT_EQ(FoundIn(bucket_.get()), Expected(2));
  // The owner that was at work is fenced, and not harmed.
  process_->PutMany(1, "later");
  EXPECT_EQ(process_->job.Checkpoint().status().code(), StatusCode::kFenced);
}

TEST_F(RepairTest, NothingIsCollectedBesideADamagedManifest) {
  Checkpoints(2);
  const auto cuts = ReadIt(bucket_.get()).Cuts();
  ASSERT_TRUE(bucket_->PutHint(ManifestKey(cuts[1].id), "damaged").ok());
  ASSERT_TRUE(bucket_->CreateIfAbsent(StateObjectKey(base::CheckpointId(99)), "x").ok());
  EXPECT_EQ(CollectGarbage(bucket_.get()).status().code(), StatusCode::kCorruption);
  EXPECT_TRUE(bucket_->Head(StateObjectKey(base::CheckpointId(99))).ok());
}

TEST_F(RepairTest, ALostHeadIsFoundAgain) {
  Checkpoints(3);
  const Place before = ReadIt(bucket_.get());
  for (const bool damaged : {false, true}) {
    if (damaged) {
      ASSERT_TRUE(bucket_->PutHint(std::string(kHeadKey), "{\"damaged").ok());
    } else {
      ASSERT_TRUE(bucket_->Delete(std::string(kHeadKey)).ok());
    }
    const auto found = FindHead(bucket_.get());
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_THAT(found->left_out, IsEmpty());
    EXPECT_EQ(found->head.latest_commit->id, before.head->latest_commit->id);
    EXPECT_EQ(found->head.latest_commit->manifest_sha256,
              before.head->latest_commit->manifest_sha256);
    EXPECT_THAT(found->head.retained, SizeIs(before.head->retained.size()));
    ASSERT_TRUE(WriteFoundHead(bucket_.get(), *found).ok());
    EXPECT_EQ(FoundIn(bucket_.get()), Expected(3));
  }
  Process next(bucket_, 5);
  ASSERT_TRUE(next.job.Start(1).ok());
  next.PutMany(200, "on");
  const auto done = next.job.Checkpoint();
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  EXPECT_GE(done->id.value, before.head->next_id.value);  // no id is given twice
  EXPECT_EQ(FoundIn(bucket_.get()), RowsOf(200, "on"));
}

TEST_F(RepairTest, ACutThatIsNotWholeIsLeftOutAndNamed) {
  Checkpoints(3);
  const auto cuts = ReadIt(bucket_.get()).Cuts();
  ASSERT_TRUE(bucket_->Delete(std::string(kHeadKey)).ok());
  ASSERT_TRUE(bucket_->Delete(StateObjectKey(cuts[0].id)).ok());
  const auto found = FindHead(bucket_.get());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->head.latest_commit->id, cuts[1].id);
  ASSERT_THAT(found->left_out, SizeIs(1));
  EXPECT_EQ(found->left_out[0].id, cuts[0].id);
  EXPECT_THAT(found->left_out[0].why, HasSubstr("is missing"));
}

TEST_F(RepairTest, ANewerCutThatLeftNoManifestOrNothingAtAllIsNamed) {
  Checkpoints(3);
  const auto cuts = ReadIt(bucket_.get()).Cuts();
  ASSERT_TRUE(bucket_->Delete(std::string(kHeadKey)).ok());
  ASSERT_TRUE(bucket_->Delete(ManifestKey(cuts[0].id)).ok());
  for (const bool object : {true, false}) {
    if (!object) {
      ASSERT_TRUE(bucket_->Delete(StateObjectKey(cuts[0].id)).ok());
    }
    const auto found = FindHead(bucket_.get());
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_EQ(found->head.latest_commit->id, cuts[1].id);
    ASSERT_THAT(found->left_out, SizeIs(1));
    EXPECT_EQ(found->left_out[0].id, cuts[0].id);
    EXPECT_THAT(found->left_out[0].why,
                HasSubstr(object ? "manifest.json is missing" : "names it"));
    EXPECT_GT(found->head.next_id, cuts[0].id);
  }
}

TEST_F(RepairTest, WithoutAnyWholeCutEachSaysWhatItLacks) {
  Checkpoints(2);
  const auto cuts = ReadIt(bucket_.get()).Cuts();
  ASSERT_TRUE(bucket_->Delete(std::string(kHeadKey)).ok());
  ASSERT_TRUE(bucket_->Delete(StateObjectKey(cuts[1].id)).ok());  // the base of both
  const Status none = FindHead(bucket_.get()).status();
  EXPECT_EQ(none.code(), StatusCode::kNotFound);
  EXPECT_THAT(none.ToString(), HasSubstr(StateObjectKey(cuts[1].id) + " is missing"));
}

TEST_F(RepairTest, AHeadOfANewerVersionIsNotReplaced) {
  Checkpoints(1);
  std::string head = Bytes(bucket_.get(), std::string(kHeadKey));
  const size_t at = head.find("\"version\":1");
  ASSERT_NE(at, std::string::npos);
  head.replace(at, 11, "\"version\":2");
  ASSERT_TRUE(bucket_->PutHint(std::string(kHeadKey), head).ok());
  EXPECT_EQ(FindHead(bucket_.get()).status().code(), StatusCode::kUnsupportedFormat);
}

/// The message of a place or a cut that cannot be read.
TEST_F(RepairTest, ADamagedHeadSaysThatItCanBeRebuiltOnlyWhenItCan) {
  Checkpoints(2);
  const auto cuts = ReadIt(bucket_.get()).Cuts();
  ASSERT_TRUE(bucket_->PutHint(std::string(kHeadKey), "{\"damaged").ok());
  EXPECT_THAT(
      ReadPlace(bucket_.get()).status().ToString(),
      AllOf(HasSubstr("rebuild-head PLACE`"),
            HasSubstr("checkpoint " + std::to_string(cuts[0].id.value) + " as the latest")));
  ASSERT_TRUE(bucket_->Delete(StateObjectKey(cuts[1].id)).ok());
  EXPECT_THAT(ReadPlace(bucket_.get()).status().ToString(),
              AllOf(HasSubstr("cannot be rebuilt"), HasSubstr("from a copy"),
                    HasSubstr(StateObjectKey(cuts[1].id))));
}

TEST_F(RepairTest, ADamagedCutNamesTheOneToUseInstead) {
  Checkpoints(2);
  Place place = ReadIt(bucket_.get());
  const auto cuts = place.Cuts();
  const std::string older = std::to_string(cuts[1].id.value);
  ASSERT_TRUE(bucket_->PutHint(ManifestKey(cuts[0].id), "damaged").ok());
  const auto message = [&] {
    const Status status = ReadManifest(bucket_.get(), place, cuts[0]).status();
    EXPECT_EQ(status.code(), StatusCode::kCorruption);
    return std::string(status.message());
  };
  EXPECT_THAT(message(), AllOf(HasSubstr("verify PLACE@" + older), HasSubstr("--from " + older)));
  // Rows were published: a job may not go back, and the cut is for reading only.
  place.head->latest_commit->exactly_once_output = true;
  EXPECT_THAT(message(), AllOf(HasSubstr("verify PLACE@" + older), HasSubstr("cannot go back"),
                               Not(HasSubstr("--from"))));
  place.head->latest_commit->exactly_once_output = false;
  ASSERT_TRUE(bucket_->Delete(StateObjectKey(cuts[1].id)).ok());
  EXPECT_THAT(message(), AllOf(HasSubstr("no other checkpoint"), Not(HasSubstr("--from"))));
}

TEST_F(RepairTest, AGoodHeadIsNotReplaced) {
  Checkpoints(1);
  EXPECT_EQ(FindHead(bucket_.get()).status().code(), StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace cairn::checkpoint

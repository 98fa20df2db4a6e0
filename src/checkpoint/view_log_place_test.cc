// SPDX-License-Identifier: Apache-2.0
//
// Segments of view logs as objects of a place: explained, collected, copied, found again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/bucket_testing.h"
#include "checkpoint/copy_cut.h"
#include "checkpoint/repair.h"
#include "checkpoint/view_log_testing.h"
#include "env/local_object_store.h"

namespace cairn::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LogJob;

using Range = std::pair<uint64_t, uint64_t>;

class ViewLogPlaceTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(log_.Start().ok()); }

  base::CheckpointId Checkpoint(uint64_t rows) {
    if (rows > 0) log_.Append(0, rows);
    const Result<PersistedCut> done = log_.Checkpoint();
    EXPECT_TRUE(done.ok()) << done.status().ToString();
    return done.ok() ? done->id : base::CheckpointId();
  }
  std::unique_ptr<env::LocalObjectStore> Objects(const std::string& directory) {
    auto objects = env::LocalObjectStore::Open(&log_.job.files, directory, {});
    EXPECT_TRUE(objects.ok());
    return *std::move(objects);
  }
  std::unique_ptr<env::LocalObjectStore> Objects() { return Objects(log_.job.directory); }
  std::vector<InventoryItem> SegmentItems() {
    const auto objects = Objects();
    const auto inventory = TakeInventory(objects.get(), *ReadPlace(objects.get()));
    EXPECT_TRUE(inventory.ok()) << inventory.status().ToString();
    std::vector<InventoryItem> segments;
    for (const InventoryItem& item : inventory->items) {
      if (item.key.starts_with(kViewLogsPrefix)) segments.push_back(item);
    }
    return segments;
  }
  /// Put a file below the place that no process at work knows of.
  void Leave(const std::string& key) {
    ASSERT_TRUE(Objects()->CreateIfAbsent(key, "left behind").ok());
  }
  std::string StrayKey(uint64_t origin) {
    format::ViewLog log;
    log.view = log_.spec.view;
    log.generation = log_.spec.generation;
    format::ViewLogSegment segment;
    segment.origin = base::CheckpointId(origin);
    segment.first = 1000;
    segment.end = 1001;
    return ViewLogSegmentKey(log, segment);
  }

  LogJob log_;
};

TEST_F(ViewLogPlaceTest, ANameSaysWhatTheSegmentHolds) {
  format::ViewLog log;
  log.view = "../a/b.c%ü";
  log.generation = log_.spec.generation;
  format::ViewLogSegment segment;
  segment.partition = 12;
  segment.origin = base::CheckpointId(7);
  segment.first = 30;
  segment.end = UINT64_MAX;
  const std::string key = ViewLogSegmentKey(log, segment);
  EXPECT_EQ(key,
            "view-log/%2E%2E%2Fa%2Fb%2Ec%25%C3%BC/018f0000-0000-7000-8000-000000000001/12/"
            "00000000000000000007/00000000000000000030-18446744073709551615-" +
                std::string(64, '0') + ".arrow");
  const auto name = ParseViewLogSegmentKey(key);
  ASSERT_TRUE(name);
  EXPECT_EQ(name->view, log.view);
  EXPECT_EQ(name->partition, 12u);
  EXPECT_EQ(name->origin, segment.origin);
  EXPECT_EQ(name->first, 30u);
  EXPECT_EQ(name->end, UINT64_MAX);
  for (size_t i = 0; i < key.size(); ++i) {
    EXPECT_FALSE(ParseViewLogSegmentKey(key.substr(0, i))) << i;
  }
  EXPECT_FALSE(ParseViewLogSegmentKey(key + "x"));
  std::string lower = key;
  lower.replace(lower.find("%2E"), 3, "%2e");
  EXPECT_FALSE(ParseViewLogSegmentKey(lower)) << "two names for one segment";
}

TEST_F(ViewLogPlaceTest, TheInventorySaysWhichCutsNeedASegment) {
  for (const uint64_t rows : {10, 20, 0}) Checkpoint(rows);
  const auto items = SegmentItems();
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].checkpoint.value, 1u);
  EXPECT_EQ(items[0].segment->view, "orders by day");
  EXPECT_EQ(items[1].segment->first, 10u);
  EXPECT_EQ(items[1].segment->end, 30u);
  EXPECT_THAT(items[0].needed_by,
              ElementsAre(base::CheckpointId(3), base::CheckpointId(2), base::CheckpointId(1)));
  EXPECT_THAT(items[1].needed_by, ElementsAre(base::CheckpointId(3), base::CheckpointId(2)));
}

TEST_F(ViewLogPlaceTest, SegmentsOfUndecidedAttemptsGoAtTheNextStart) {
  Checkpoint(10);
  Leave(StrayKey(500));
  EXPECT_EQ(SegmentItems().size(), 2u);
  EXPECT_TRUE(SegmentItems()[1].undecided);
  ASSERT_TRUE(log_.Start().ok());
  EXPECT_EQ(log_.SegmentsOnDisk(), log_.SegmentsNeeded());
  EXPECT_EQ(log_.Check(0), Range(0, 10));
}

TEST_F(ViewLogPlaceTest, SegmentsThatNoCutNeedsGoAfterTheNextStart) {
  for (const uint64_t rows : {10, 20}) Checkpoint(rows);
  Leave(StrayKey(1));
  EXPECT_TRUE(SegmentItems()[1].IsGarbage());
  ASSERT_TRUE(log_.Start().ok());
  Checkpoint(5);
  EXPECT_EQ(log_.SegmentsOnDisk(), log_.SegmentsNeeded());
  EXPECT_EQ(log_.Check(0), Range(0, 35));
}

TEST_F(ViewLogPlaceTest, CollectionTakesGarbageAndNothingElse) {
  for (const uint64_t rows : {10, 20}) Checkpoint(rows);
  log_.job.Stop();
  Leave(StrayKey(1));
  Leave(StrayKey(900));
  Leave("view-log/readme.txt");
  const auto report = CollectGarbage(Objects().get());
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->objects, 2u);
  auto expected = log_.SegmentsNeeded();
  expected.insert("view-log/readme.txt");
  EXPECT_EQ(log_.SegmentsOnDisk(), expected);
  ASSERT_TRUE(log_.Start().ok());
  EXPECT_EQ(log_.Check(0), Range(0, 30));
}

TEST_F(ViewLogPlaceTest, ADamagedRetainedManifestStopsTheDeletionOfSegments) {
  for (const uint64_t rows : {10, 20, 30}) Checkpoint(rows);
  log_.job.Stop();
  ASSERT_TRUE(
      log_.job.disk().FlipByte(log_.job.PathOf(base::CheckpointId(2), "manifest.json"), 40).ok());
  Leave(StrayKey(1));
  const auto before = log_.SegmentsOnDisk();
  ASSERT_TRUE(log_.Start().ok());
  log_.Append(0, 1);
  ASSERT_TRUE(log_.Checkpoint().ok());
  EXPECT_EQ(log_.job.retired.status().code(), StatusCode::kCorruption);
  for (const std::string& key : before) EXPECT_TRUE(log_.SegmentsOnDisk().contains(key)) << key;
}

TEST_F(ViewLogPlaceTest, ACopyCarriesTheLogs) {
  for (const uint64_t rows : {10, 20}) Checkpoint(rows);
  const auto from = Objects();
  const auto to = Objects("/copy");
  const Place place = *ReadPlace(from.get());
  const auto manifest = ReadManifest(from.get(), place, *place.head->latest_commit);
  ASSERT_TRUE(manifest.ok()) << manifest.status().ToString();
  const auto report = CopyCut(from.get(), place, **manifest, "", to.get(), {});
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  log_.job.Stop();
  // All of it is durable: nothing of the copy is lost with what was not synced.
  log_.job.disk().PowerCut(env::Unsynced::kDrop, 1);
  log_.job.disk().PowerOn();
  log_.job.directory = "/copy";
  EXPECT_EQ(log_.SegmentsOnDisk().size(), 2u);
  EXPECT_TRUE(log_.Cut()->Verify({}).problems.empty());
  ASSERT_TRUE(log_.Start().ok());
  log_.Append(0, 5);
  ASSERT_TRUE(log_.Checkpoint().ok());
  EXPECT_EQ(log_.Check(0), Range(0, 35));
}

TEST_F(ViewLogPlaceTest, ACutWithAMissingSegmentIsNoHeadToGoOnFrom) {
  for (const uint64_t rows : {10, 20}) Checkpoint(rows);
  log_.job.Stop();
  const std::string root = log_.job.directory + "/";
  ASSERT_TRUE(log_.job.disk().RemoveFile(root + std::string(kHeadKey)).ok());
  ASSERT_TRUE(log_.job.disk().RemoveFile(root + *log_.SegmentsOnDisk().rbegin()).ok());
  const auto found = FindHead(Objects().get());
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->head.latest_commit->id.value, 1u);
  ASSERT_EQ(found->left_out.size(), 1u);
  EXPECT_THAT(found->left_out[0].why, HasSubstr("view-log/"));
}

// A bucket has no directories and no syncs; the log is the same objects.
TEST_F(ViewLogPlaceTest, ALogInABucketIsWrittenReadAndCutBack) {
  const auto bucket = std::make_shared<env::MemoryObjectStore>();
  log_.job.open = [&](const StoreOptions& options) {
    return OpenStore(std::make_unique<env::FaultObjectStore>(bucket), nullptr, options);
  };
  log_.spec.retention.rows = 10;
  ASSERT_TRUE(log_.Start().ok());
  for (int i = 0; i < 5; ++i) Checkpoint(10);
  const Place place = *ReadPlace(bucket.get());
  const auto manifest = ReadManifest(bucket.get(), place, place.Cuts().front());
  const auto log = ViewLogReader::Open(bucket.get(), *manifest, log_.spec.view);
  ASSERT_TRUE(log.ok());
  const auto scan = (*log)->Scan(0, {});
  const auto batch = (*scan)->Next();
  ASSERT_TRUE(batch.ok() && *batch);
  EXPECT_EQ((*batch)->first, 40u);
  EXPECT_TRUE((*batch)->rows->Equals(*testing::LogRows(0, 40, 50)));
  EXPECT_EQ(bucket->List(std::string(kViewLogsPrefix))->size(), 3u) << "of three retained cuts";
}

}  // namespace
}  // namespace cairn::checkpoint

// SPDX-License-Identifier: Apache-2.0
//
// Faults that others have met with shared files, readers and aborts (known faults 26, 28, 31, 35),
// on every kind of place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "base/hash.h"
#include "checkpoint/copy_cut.h"
#include "checkpoint/inspect.h"
#include "checkpoint/layout.h"
#include "checkpoint/place.h"
#include "test_places.h"

namespace cairn::checkpoint {
namespace {

using ::testing::HasSubstr;
using testing::PlacedJob;
using testing::PlaceKind;
using testing::TestJob;
using testing::TestPlace;

class LifeTest : public testing::PlaceTest {
 protected:
  static void PutAll(TestJob* job, int count, const std::string& value) {
    for (int i = 0; i < count; ++i) job->Put(0, "key" + std::to_string(i), value);
  }
  static size_t OpenFiles() {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }
};

// Case 26: a savepoint is a cut in a place of its own. A job that goes on in it references its
// objects; they move together, and alone the new cut names what it misses.
TEST_P(LifeTest, Case26ACutOverASavepointMovesWithItAndAloneNamesWhatItMisses) {
  PlacedJob job(GetParam());
  ASSERT_TRUE(job.Start(1).ok());
  PutAll(&job, 500, "saved");
  ASSERT_TRUE(job.Checkpoint().ok());
  job.Stop();
  const auto copy = [](TestPlace* from, TestPlace* to) {
    const Result<Place> place = ReadPlace(from->objects());
    ASSERT_TRUE(place.ok());
    const auto manifest = ReadManifest(from->objects(), *place, place->Cuts().front());
    ASSERT_TRUE(manifest.ok());
    const auto copied = CopyCut(from->objects(), *place, **manifest, "", to->objects(), {});
    ASSERT_TRUE(copied.ok()) << copied.status().ToString();
  };
  TestPlace savepoint(GetParam());
  copy(&job.place(), &savepoint);
  const std::string saved = savepoint.Read(StateObjectKey(base::CheckpointId(1)));
  const auto go_on_in = [&](TestPlace* place) {
    job.open = [place](const StoreOptions& options) { return place->Open(options); };
    const Status started = job.Start(1);
    ASSERT_TRUE(started.ok()) << started.ToString();
    EXPECT_EQ(job.Contents(0), job.model(0));
  };
  go_on_in(&savepoint);
  PutAll(&job, 5, "changed");
  const Result<PersistedCut> next = job.Checkpoint();
  ASSERT_TRUE(next.ok()) << next.status().ToString();
  EXPECT_GT(next->bytes_reused, 0u);
  go_on_in(&savepoint);
  job.Stop();
  EXPECT_EQ(savepoint.Read(StateObjectKey(base::CheckpointId(1))), saved);

  TestPlace moved(GetParam());
  for (const auto& [key, bytes] : savepoint.All()) moved.Write(key, bytes);
  go_on_in(&moved);
  job.Stop();

  TestPlace alone(GetParam());
  const std::string left_behind = StateObjectKey(base::CheckpointId(1));
  for (const auto& [key, bytes] : savepoint.All()) {
    if (key != left_behind) alone.Write(key, bytes);
  }
  job.open = [&](const StoreOptions& options) { return alone.Open(options); };
  const Status refused = job.Start(1);
  EXPECT_EQ(refused.code(), StatusCode::kCorruption);
  EXPECT_THAT(refused.message(), HasSubstr(left_behind + " is missing"));
}

// Case 28: the collector drops what an open reader reads. Files of a directory stay readable while
// they are open; objects of a bucket do not, and the reader says so.
TEST_P(LifeTest, Case28AReaderOfADroppedCutReadsAllOfItOrSaysThatItIsGone) {
  if (GetParam() == PlaceKind::kMemory) GTEST_SKIP() << "has no reader from another process";
  PlacedJob job(GetParam());
  job.options.retained = 1;
  ASSERT_TRUE(job.Start(1).ok());
  PutAll(&job, 20'000, "read");
  ASSERT_TRUE(job.Checkpoint().ok());
  auto reader = CutReader::Open(env::PosixFileSystem(), job.place().name(), std::nullopt);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  const std::vector<format::StateFrame>& frames = (*reader)->manifest().state_frames;
  ASSERT_GT(frames.size(), 1u);
  ASSERT_TRUE((*reader)->ReadFrame(frames.front()).ok());

  const uint64_t first_id = job.last_id.value;
  for (int round = 0; round < 2; ++round) {
    PutAll(&job, 20'000, "later");
    job.store->MaterializeNow();
    ASSERT_TRUE(job.Checkpoint().ok());
    ASSERT_TRUE(job.retired.ok()) << job.retired.status().ToString();
  }
  EXPECT_FALSE(job.place().Has(StateObjectKey(base::CheckpointId(first_id))));
  uint64_t rows = 0;
  Status failed;
  for (const format::StateFrame& frame : frames) {
    const auto loaded = (*reader)->ReadFrame(frame, true);
    if (!loaded.ok()) {
      failed = loaded.status();
      break;
    }
    rows += frame.entry_count;
  }
  if (GetParam() == PlaceKind::kDirectory) {
    EXPECT_TRUE(failed.ok()) << failed.ToString();
    EXPECT_EQ(rows, 20'000u);
  } else {
    EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
    EXPECT_THAT(failed.message(), HasSubstr("was deleted while it was read"));
  }
  reader->reset();
  EXPECT_EQ(job.place().objects()->List("nodes/")->size(), 2u);
}

// Case 31: attempts that are given up once their object is there, and once their manifest is.
TEST_P(LifeTest, Case31AbortsLeaveNeitherObjectsNorOpenFiles) {
  PlacedJob job(GetParam());
  job.options.fsync = false;  // a thousand attempts
  ASSERT_TRUE(job.Start(1).ok());
  PutAll(&job, 20, "kept");
  ASSERT_TRUE(job.Checkpoint().ok());
  const size_t objects = job.place().All().size();
  const int rounds = GetParam() == PlaceKind::kS3 ? 100 : 1000;
  size_t files_before = 0;
  for (int round = 0; round < rounds; ++round) {
    if (round == 10) files_before = OpenFiles();  // pools and connections are warm
    job.Put(0, "key1", std::to_string(round));
    if (round % 2 == 0) {
      job.model_table(0, 0)->FailAt("key19", false);  // while its object is being written
      ASSERT_FALSE(job.Persist().ok());
      job.model_table(0, 0)->FailAt("", false);
      job.Put(0, "key19", std::to_string(round));
    } else {
      const Result<PersistedCut> persisted = job.Persist();
      ASSERT_TRUE(persisted.ok()) << persisted.status().ToString();
      ASSERT_TRUE(job.store->Abandon(*persisted).ok());
    }
  }
  EXPECT_LE(OpenFiles(), files_before + 8);  // a connection more or less
  EXPECT_EQ(job.place().All().size(), objects);
  ASSERT_TRUE(job.Checkpoint().ok());
  ASSERT_TRUE(job.Start(1).ok());
  EXPECT_EQ(job.Contents(0), job.model(0));
}

// Case 35: objects of sizes around every buffer on the way, written in odd steps and read in
// others.
TEST_P(LifeTest, Case35ObjectsOfEverySizeComeBackByteForByte) {
  TestPlace place(GetParam());
  std::mt19937_64 random(7);
  std::string source(uint64_t{64} << 20, '\0');
  for (size_t i = 0; i + 8 <= source.size(); i += 8) {
    const uint64_t bits = random();
    std::memcpy(source.data() + i, &bits, 8);
  }
  constexpr size_t kKiB = 1 << 10;
  constexpr size_t kMiB = 1 << 20;
  for (const size_t size :
       {size_t{0}, size_t{1}, 128 * kKiB - 1, 128 * kKiB, 128 * kKiB + 1, 5 * kMiB - 1, 5 * kMiB,
        5 * kMiB + 1, 8 * kMiB, 8 * kMiB + 1, 64 * kMiB}) {
    const std::string_view bytes = std::string_view(source).substr(0, size);
    const std::string key = "nodes/1/size-" + std::to_string(size);
    auto writer = place.objects()->NewLargeWriter(key, size);
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    for (size_t at = 0, step = 1; at < size; at += step, step = step * 3 % 4'000'037) {
      ASSERT_TRUE((*writer)->Append(bytes.substr(at, step)).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok()) << size;
    writer->reset();
    EXPECT_EQ(place.objects()->Head(key)->size, size);
    std::string read(size, '\0');
    for (size_t at = 0, step = 1; at < size; at += step, step = step * 5 % 6'000'011) {
      const size_t length = std::min(step, size - at);
      ASSERT_TRUE(place.objects()->ReadRange(key, at, std::span(read).subspan(at, length)).ok());
    }
    EXPECT_TRUE(read == bytes) << size << " bytes came back otherwise";
  }
}

// Case 35: a copy is checked before a manifest names it, so that no damage is copied on for ever.
TEST_P(LifeTest, Case35ADamagedObjectIsNotCopied) {
  PlacedJob job(GetParam());
  ASSERT_TRUE(job.Start(1).ok());
  PutAll(&job, 500, "some value");
  const Result<PersistedCut> done = job.Checkpoint();
  ASSERT_TRUE(done.ok());
  job.Stop();
  const Result<Place> place = ReadPlace(job.place().objects());
  ASSERT_TRUE(place.ok());
  const std::string key = StateObjectKey(done->id);
  const std::string whole = job.place().Read(key);
  const auto manifest = ReadManifest(job.place().objects(), *place, place->Cuts().front());
  for (const format::StateFrame& frame : (*manifest)->state_frames) {
    for (const uint64_t at : {frame.range.offset, frame.range.offset + frame.range.length - 1}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 1);
      job.place().Write(key, damaged);
      TestPlace target(GetParam());
      const auto copied =
          CopyCut(job.place().objects(), *place, **manifest, "", target.objects(), {});
      EXPECT_EQ(copied.status().code(), StatusCode::kCorruption) << "byte " << at;
      EXPECT_THAT(copied.status().message(), HasSubstr(key));
      EXPECT_FALSE(target.Has(ManifestKey(done->id)));
      EXPECT_FALSE(target.Has(std::string(kHeadKey)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Places, LifeTest,
                         ::testing::Values(PlaceKind::kDirectory, PlaceKind::kMemory,
                                           PlaceKind::kS3),
                         testing::PlaceName);

}  // namespace
}  // namespace cairn::checkpoint

// SPDX-License-Identifier: Apache-2.0
//
// Whole jobs from SQL text over small generated files, in this process, against a plain model.
#include "engine/run_job.h"

#include <atomic>
#include <regex>
#include <set>

#include "checkpoint/store.h"
#include "engine/graph_builder.h"
#include "engine/run_job_testing.h"
#include "env/manual_clock.h"
#include "sql/compile.h"
#include "stream/job.h"

namespace cairn::engine {
namespace {

using ::testing::HasSubstr;

TEST_F(RunJobTest, CountsEqualTheModelAtAnyParallelism) {
  WriteBids(20000);
  for (const uint32_t parallelism : {1u, 2u, 3u}) {
    const auto result = Run(Spec(CountJob(), parallelism));
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    EXPECT_EQ(result->outcome.progress.rows_in, 20000u);
    EXPECT_EQ(Netted("counts"), ExpectedCounts());
    fs::remove_all(Path("counts"));
    fs::remove_all(Path("job.cairn"));
  }
}

TEST_F(RunJobTest, TwoInsertsReadTheirSharedTableOnce) {
  WriteBids(20000);
  const auto result = Run(Spec(CountJob() + TopJob()));
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->outcome.progress.rows_in, 20000u);
  EXPECT_EQ(Netted("counts"), ExpectedCounts());
  EXPECT_EQ(Netted("top"), ExpectedTop());
}

TEST_F(RunJobTest, StoppedResumedAndRescaledTheAnswerIsAsIfNothingHadHappened) {
  WriteBids(120000);
  const std::string sql = CountJob() + TopJob();
  int stops = 0;
  uint64_t rows_in = 0;
  for (int round = 0;; ++round) {
    ASSERT_LT(round, 100);
    stop_after_rows_ = round < 4 ? 1 : UINT64_MAX;
    const auto result = Run(Spec(sql, std::array{2u, 3u, 1u}[round % 3]));
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    rows_in += result->outcome.progress.rows_in;
    stops += result->outcome.stopped;
    EXPECT_EQ(result->resumed_from.value > 0, round > 0);
    if (!result->outcome.stopped) break;
  }
  EXPECT_GT(stops, 0);
  EXPECT_EQ(Netted("counts"), ExpectedCounts());
  EXPECT_EQ(Netted("top"), ExpectedTop());
  // Nothing behind a stop barrier is read: every row was read exactly once in all runs together.
  EXPECT_EQ(rows_in, 120000u);
  EXPECT_THAT(log_, HasSubstr("rescaled from 2 to 3"));
  EXPECT_TRUE(std::regex_search(
      log_, std::regex("restored checkpoint [0-9]+: ([0-9,]+) of \\1 entries, [0-9]+ frames of 2")))
      << log_;
}

TEST_F(RunJobTest, EveryBackendStopsResumesAndEndsWithTheSameRows) {
  WriteBids(60000);
  const std::pair<std::string, std::string> backends[] = {
      {"", "job.cairn"},
      {"memory+sharded://", "job.cairn"},
      {"changelog://", "job.cairn"},
      {"file://" + Path("files"), "files"},
      {"changelog+file://" + Path("log"), "log"}};
  for (const auto& [backend, place] : backends) {
    SCOPED_TRACE(backend);
    JobSpec spec = Spec(CountJob() + TopJob());
    spec.backend = backend;
    if (place != "job.cairn") spec.checkpoints.clear();  // the backend's own
    stop_after_rows_ = 1;
    const auto first = Run(spec);
    ASSERT_TRUE(first.ok()) << first.status().ToString();
    EXPECT_EQ(first->place, Path(place));
    stop_after_rows_ = UINT64_MAX;
    const auto second = Run(spec);
    ASSERT_TRUE(second.ok()) << second.status().ToString();
    EXPECT_GT(second->resumed_from.value, 0u);
    EXPECT_EQ(Netted("counts"), ExpectedCounts());
    EXPECT_EQ(Netted("top"), ExpectedTop());
    for (const char* name : {"counts", "top"}) fs::remove_all(Path(name));
    fs::remove_all(Path(place));
  }
}

TEST_F(RunJobTest, OnlySplitsThatWereBegunAreSaidToBeUnderWay) {
  WriteBids(60000);
  stop_after_rows_ = 1;
  const auto stopped = Run(Spec(CountJob(), 2));
  ASSERT_TRUE(stopped.ok()) << stopped.status().ToString();
  stop_after_rows_ = UINT64_MAX;
  log_.clear();
  ASSERT_TRUE(Run(Spec(CountJob(), 2)).ok());
  std::smatch said;
  ASSERT_TRUE(
      std::regex_search(log_, said, std::regex("(\\d+) of (\\d+) splits done, (\\d+) under way")))
      << log_;
  EXPECT_GT(std::stoi(said[2]), 10);
  EXPECT_LE(std::stoi(said[3]), 2) << said[0];
}

TEST_F(RunJobTest, RunningAgainAfterTheEndAddsNothing) {
  WriteBids(5000);
  ASSERT_TRUE(Run(Spec(CountJob())).ok());
  const auto files = FilesNamed("manifest.json");
  const auto again = Run(Spec(CountJob(), 3));
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_TRUE(again->outcome.nothing_new);
  EXPECT_EQ(FilesNamed("manifest.json"), files);
  EXPECT_EQ(Netted("counts"), ExpectedCounts());
}

TEST_F(RunJobTest, InputThatGrewIsReadFromWhereTheLastRunEnded) {
  WriteBids(3000);
  ASSERT_TRUE(Run(Spec(CountJob())).ok());
  {
    std::ofstream file(Path("bids.ndjson"), std::ios::app);
    for (int i = 0; i < 100; ++i) {
      bids_.push_back({i % 5, i});
      file << R"({"auction":)" << i % 5 << R"(,"price":)" << i << R"(,"url":"v"})" << "\n";
    }
  }
  const auto again = Run(Spec(CountJob()));
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->outcome.progress.rows_in, 100u);
  EXPECT_EQ(Netted("counts"), ExpectedCounts());
}

TEST_F(RunJobTest, ACheckpointOfAnotherPipelineIsRefusedAndLeftAlone) {
  WriteBids(1000);
  ASSERT_TRUE(Run(Spec(CountJob())).ok());
  const auto manifests = FilesNamed("manifest.json");
  const auto other = Run(Spec(BidTable() + TopJob()));
  EXPECT_EQ(other.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("counts"));
  EXPECT_EQ(FilesNamed("manifest.json"), manifests);
  EXPECT_TRUE(Netted("top").empty());
  const auto again = Run(Spec(CountJob()));
  EXPECT_TRUE(again.ok()) << again.status().ToString();
}

TEST_F(RunJobTest, Case17AnotherJobsCheckpointIsNeverAdopted) {
  WriteBids(1000);
  ASSERT_TRUE(Run(Spec(CountJob())).ok());
  const auto manifests = FilesNamed("manifest.json");
  JobSpec other = Spec(BidTable() + TopJob());
  other.name = "other";
  other.from = Path("job.cairn");
  other.checkpoints = Path("other.cairn");
  const Status foreign = Run(other).status();
  EXPECT_EQ(foreign.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(foreign.message()), HasSubstr("cannot be restored as it is"));
  other.from.clear();
  other.checkpoints = Path("job.cairn");
  other.fresh = true;
  EXPECT_EQ(Run(other).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Netted("top").empty());
  EXPECT_EQ(FilesNamed("manifest.json"), manifests);
  other.checkpoints = Path("another.cairn");
  const auto fresh = Run(other);
  ASSERT_TRUE(fresh.ok()) << fresh.status().ToString();
  EXPECT_EQ(fresh->resumed_from.value, 0u);
  EXPECT_EQ(Netted("top"), ExpectedTop());
}

// A rescale is a run at another parallelism: within bounds, one at a time, and one that is refused
// or cut short leaves the place for the next.
TEST_F(RunJobTest, Behaviour64ARescaleIsTakenWithinBoundsAndOneAtATime) {
  WriteBids(20000);
  for (const uint32_t outside : {0u, 1025u}) {
    const Status refused = Run(Spec(CountJob(), outside)).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("1 to 1024"));
    EXPECT_FALSE(fs::exists(Path("job.cairn")));
  }
  stop_after_rows_ = 1;
  ASSERT_TRUE(Run(Spec(CountJob(), 2)).ok());
  {
    const auto lock = env::PosixFileSystem()->Lock(Path("job.cairn/LOCK"));
    ASSERT_TRUE(lock.ok()) << lock.status().ToString();
    EXPECT_EQ(Run(Spec(CountJob(), 3)).status().code(), StatusCode::kFenced);
  }
  EXPECT_EQ(Run(Spec(CountJob(), 0)).status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(Run(Spec(CountJob(), 3)).ok());  // stopped again
  stop_after_rows_ = UINT64_MAX;
  const auto last = Run(Spec(CountJob(), 1));
  ASSERT_TRUE(last.ok()) << last.status().ToString();
  EXPECT_EQ(Netted("counts"), ExpectedCounts());
}

TEST_F(RunJobTest, MoreSubtasksThanKeyGroupsAreRefusedBeforeAnythingIsRead) {
  WriteBids(3000);
  JobSpec spec = Spec(CountJob(), 3);
  spec.settings.push_back({"state.key_groups", "2"});
  const Status refused = Run(spec).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused.ToString();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("only 2 key groups"));
  EXPECT_FALSE(fs::exists(Path("job.cairn")));
  spec.parallelism = 2;
  const auto result = Run(spec);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(Netted("counts"), ExpectedCounts());
}

TEST_F(RunJobTest, FreshRefusesAPlaceThatHoldsACheckpoint) {
  WriteBids(1000);
  JobSpec spec = Spec(CountJob());
  spec.fresh = true;
  ASSERT_TRUE(Run(spec).ok());
  EXPECT_EQ(Run(spec).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Netted("counts"), ExpectedCounts());
}

TEST_F(RunJobTest, ADamagedCheckpointIsAnErrorAndNeverAnEmptyStart) {
  WriteBids(1000);
  ASSERT_TRUE(Run(Spec(CountJob())).ok());
  const fs::path object = FilesNamed("state.arrow").back();
  fs::resize_file(object, fs::file_size(object) / 2);
  const auto sink = Netted("counts");
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto again = Run(Spec(CountJob()));
    EXPECT_EQ(again.status().code(), StatusCode::kCorruption) << again.status().ToString();
  }
  EXPECT_EQ(Netted("counts"), sink);
}

TEST_F(RunJobTest, AnotherPlacesCheckpointBeginsANewPlaceAndStaysAsItWas) {
  WriteBids(60000);
  stop_after_rows_ = 1;
  ASSERT_TRUE(Run(Spec(CountJob())).ok());
  stop_after_rows_ = UINT64_MAX;
  const auto manifests = FilesNamed("manifest.json");
  JobSpec spec = Spec(CountJob(), 3);
  spec.from = Path("job.cairn");
  spec.checkpoints = Path("second.cairn");
  const auto moved = Run(spec);
  ASSERT_TRUE(moved.ok()) << moved.status().ToString();
  EXPECT_EQ(Netted("counts"), ExpectedCounts());
  EXPECT_EQ(FilesNamed("manifest.json"), manifests);
  // The new place stands by itself: without the old one it says that nothing is left to do.
  fs::remove_all(Path("job.cairn"));
  spec.from.clear();
  const auto again = Run(spec);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_TRUE(again->outcome.nothing_new);
  // A place that has a history of its own takes no other.
  spec.from = Path("second.cairn");
  EXPECT_FALSE(Run(spec).ok());
}

// Two jobs that went on from one checkpoint would publish the same rows.
TEST_F(RunJobTest, OfOneCheckpointOnlyOneJobGoesOn) {
  WriteBids(60000);
  stop_after_rows_ = 1;
  ASSERT_TRUE(Run(Spec(CountJob())).ok());
  JobSpec fork = Spec(CountJob());
  fork.from = Path("job.cairn");
  fork.checkpoints = Path("second.cairn");
  {
    const auto lock = env::PosixFileSystem()->Lock(Path("job.cairn/LOCK"));
    ASSERT_TRUE(lock.ok()) << lock.status().ToString();
    EXPECT_EQ(Run(fork).status().code(), StatusCode::kFenced) << "its job still runs";
  }
  ASSERT_TRUE(Run(fork).ok());  // stopped again
  // Neither the first job nor a third one goes on from there; the second does.
  const Status first = Run(Spec(CountJob())).status();
  EXPECT_EQ(first.code(), StatusCode::kInvalidArgument) << first.ToString();
  EXPECT_THAT(std::string(first.message()), HasSubstr("_taken-over-"));
  JobSpec third = fork;
  third.checkpoints = Path("third.cairn");
  EXPECT_EQ(Run(third).status().code(), StatusCode::kInvalidArgument);
  stop_after_rows_ = UINT64_MAX;
  fork.from.clear();
  const auto second = Run(fork);
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_EQ(Netted("counts"), ExpectedCounts());
}

TEST_F(RunJobTest, AnOlderCheckpointIsRefusedOnceAnExactlyOnceSinkPublishedAfterIt) {
  WriteBids(1000);
  ASSERT_TRUE(Run(Spec(CountJob())).ok());
  std::ofstream(Path("bids.ndjson"), std::ios::app)
      << "{\"auction\":1,\"price\":2,\"url\":\"v\"}\n";
  const auto second = Run(Spec(CountJob()));
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  JobSpec spec = Spec(CountJob());
  spec.from = std::to_string(second->resumed_from.value);
  const auto back = Run(spec);
  EXPECT_EQ(back.status().code(), StatusCode::kInvalidArgument) << back.status().ToString();
  EXPECT_THAT(std::string(back.status().message()), HasSubstr("exactly-once"));
}

TEST_F(RunJobTest, ASecondProcessOnThePlaceIsRefused) {
  WriteBids(1000);
  ASSERT_TRUE(Run(Spec(CountJob())).ok());
  const auto lock = env::PosixFileSystem()->Lock(Path("job.cairn/LOCK"));
  ASSERT_TRUE(lock.ok()) << lock.status().ToString();
  EXPECT_EQ(Run(Spec(CountJob())).status().code(), StatusCode::kFenced);
}

TEST_F(RunJobTest, WithoutCheckpointsTheOutputComesAtTheEndAndTwoRunsDoNotCollide) {
  WriteBids(1000);
  JobSpec spec = Spec(BidTable() + SinkTable("copy", "auction BIGINT", false) +
                      "INSERT INTO copy SELECT auction FROM bid;\n");
  spec.checkpoints = "none";
  ASSERT_TRUE(Run(spec).ok());
  ASSERT_TRUE(Run(spec).ok());
  EXPECT_FALSE(fs::exists(Path("job.cairn")));
  int64_t rows = 0;
  for (const auto& [row, copies] : Netted("copy")) rows += copies;
  EXPECT_EQ(rows, 2000);
}

TEST_F(RunJobTest, AMalformedRowFailsTheJobNamingItsPlaceAndNothingIsLost) {
  WriteBids(500);
  std::ofstream(Path("bids.ndjson"), std::ios::app) << "{\"auction\": oops}\n";
  const auto result = Run(Spec(CountJob()));
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("bids.ndjson"));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("501"));
  EXPECT_TRUE(Netted("counts").empty());
}

TEST_F(RunJobTest, MalformedRowsAreSkippedAndCountedWhenTheTableSaysSo) {
  WriteBids(500);
  std::ofstream(Path("bids.ndjson"), std::ios::app) << "{\"auction\": oops}\n";
  const auto result =
      Run(Spec(BidTable(", on_error = 'skip'") + SinkTable("counts", "auction BIGINT, n BIGINT") +
               "INSERT INTO counts SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n"));
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->outcome.progress.rows_skipped, 1u);
  EXPECT_EQ(Netted("counts"), ExpectedCounts());
}

TEST_F(RunJobTest, AnUpdatingQueryIntoATableWithoutChangelogIsRefused) {
  WriteBids(10);
  const auto result =
      Run(Spec(BidTable() + SinkTable("counts", "auction BIGINT, n BIGINT", false) +
               "INSERT INTO counts SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n"));
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("changelog"));
  EXPECT_FALSE(fs::exists(Path("job.cairn")));
}

TEST_F(RunJobTest, TwoInsertsIntoOneTableAreRefused) {
  WriteBids(10);
  const std::string insert =
      "INSERT INTO counts SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n";
  const auto result = Run(Spec(CountJob() + insert));
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("counts"));
}

TEST_F(RunJobTest, OptionsOfTheTextAreTakenAndTheCallersWin) {
  WriteBids(10);
  EXPECT_THAT(
      std::string(
          Run(Spec("SET cairn.chekpoint.interval = '1s';\n" + CountJob())).status().message()),
      HasSubstr("checkpoint.interval"));
  JobSpec spec = Spec("SET cairn.state.key_groups = 64;\n" + CountJob());
  ASSERT_TRUE(Run(spec).ok());
  spec.settings.push_back({"state.key_groups", "128"});
  EXPECT_THAT(std::string(Run(spec).status().message()), HasSubstr("64"));
}

TEST_F(RunJobTest, Behaviour35ATtlOfStateIsSwitchedOverWhatIsThere) {
  WriteBids(200);
  const auto expected = [&] { return ExpectedCounts(); };
  ASSERT_TRUE(Run(Spec("SET cairn.state.ttl = '2h';\n" + CountJob())).ok());
  EXPECT_EQ(Netted("counts"), expected());
  const auto shape = DescribeJob(Spec("SET cairn.state.ttl = '2h';\n" + CountJob()));
  ASSERT_TRUE(shape.ok()) << shape.status().ToString();
  EXPECT_EQ(shape->slots.front().ttl.ttl_ms, 7'200'000);
  for (const char* ttl : {"1h", "0", "3h"}) {
    const std::string text = "SET cairn.state.ttl = '" + std::string(ttl) + "';\n" + CountJob();
    const auto again = Run(Spec(text));
    ASSERT_TRUE(again.ok()) << ttl << ": " << again.status().ToString();
    EXPECT_EQ(Netted("counts"), expected()) << ttl;
  }
  EXPECT_THAT(log_, HasSubstr("rows live"));
}

/// The frames of a job's one checkpoint, with time and randomness held still.
std::string StateBytes(const std::string& sql, const std::string& place, bool async_snapshots) {
  env::ManualClock clock;
  env::SeededRandom random(7);
  const auto plan = sql::Compile(sql);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  GraphOptions graph_options;
  graph_options.job = "job";
  graph_options.files = env::PosixFileSystem();
  auto built = BuildGraph(*plan, graph_options);
  EXPECT_TRUE(built.ok()) << built.status().ToString();
  checkpoint::StoreOptions store_options;
  store_options.pipeline = built->pipeline;
  store_options.clock = &clock;
  store_options.random = &random;
  auto store = checkpoint::OpenStoreAt(env::PosixFileSystem(), place, store_options);
  EXPECT_TRUE(store.ok()) << store.status().ToString();
  EXPECT_TRUE((*store)->Recover().ok());
  EXPECT_TRUE(NameWriters("deployment", 1, env::PosixFileSystem(), &*built).ok());
  built->graph.slot_hash_seed = (*store)->slot_hash_seed();
  stream::JobOptions options;
  options.coordinator.interval_ms = 0;
  options.coordinator.async_snapshots = async_snapshots;
  const auto outcome = stream::RunGraph(built->graph, options, store->get(), nullptr, {});
  EXPECT_TRUE(outcome.ok()) << outcome.status().ToString();
  for (const auto& entry : fs::recursive_directory_iterator(place)) {
    if (entry.path().filename() != "state.arrow") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    // The staged files that the prepared rows name carry a nonce of their run.
    return std::regex_replace(bytes, std::regex("staged-([0-9a-f]{16}-[0-9a-f]{16})-[0-9a-f]{16}-"),
                              "staged-$1-RUN-");
  }
  return "";
}

TEST_F(RunJobTest, SynchronousAndAsynchronousSnapshotsWriteTheSameBytes) {
  WriteBids(20000);
  const std::string sql = CountJob() + TopJob();
  const std::string async = StateBytes(sql, Path("async"), true);
  fs::remove_all(Path("counts"));
  fs::remove_all(Path("top"));
  EXPECT_GT(async.size(), 0u);
  EXPECT_TRUE(async == StateBytes(sql, Path("sync"), false));
}

TEST_F(RunJobTest, AJobWhoseNameCannotBePartOfAFilesNameIsRefused) {
  WriteBids(1);
  JobSpec spec = Spec(CountJob());
  for (const std::string name : {"", ".", "..", "a/b", "/", "a\nb", "\xFF"}) {
    spec.name = name;
    const auto result = Run(spec);
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("--name")) << name;
  }
  EXPECT_FALSE(fs::exists(Path("job.cairn")));
}

}  // namespace
}  // namespace cairn::engine

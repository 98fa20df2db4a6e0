// SPDX-License-Identifier: Apache-2.0
//
// A job goes on from another's checkpoint: what that one had prepared is published, once, whatever
// became of its sinks, and a start that fails leaves it free.
#include <memory>

#include "checkpoint/inspect.h"
#include "engine/run_job_testing.h"

namespace cairn::engine {
namespace {

using ::testing::HasSubstr;

class TakeOverTest : public RunJobTest {
 protected:
  /// Run a job until its first rows, and leave its place as a kill does right behind the decision
  /// of the last checkpoint: its rows are prepared and not yet published.
  void SaveAndKill(JobSpec spec) {
    spec.settings[0].second = "1h";  // one checkpoint, that of the stop
    WriteBids(60000);
    stop_after_rows_ = 1;
    ASSERT_TRUE(Run(spec).ok());
    stop_after_rows_ = UINT64_MAX;
    WriteBids(5000);  // something is left to read, however late the stop came
    for (const auto& [directory, names] : Prepared(spec.checkpoints)) {
      for (const auto& [staged, published] : names) {
        fs::rename(fs::path(Path(directory)) / published, fs::path(Path(directory)) / staged);
        ++hidden_;
      }
    }
    ASSERT_GT(hidden_, 0u);
  }

  /// By sink, which is its directory's name too: staged name to final name.
  std::map<std::string, std::map<std::string, std::string>> Prepared(const std::string& place) {
    std::map<std::string, std::map<std::string, std::string>> prepared;
    env::FileSystem* files = env::PosixFileSystem();
    const auto opened = checkpoint::OpenPlace(files, place);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    const auto reader = checkpoint::CutReader::Open(files, place, opened->Cuts().front().id);
    EXPECT_TRUE(reader.ok()) << reader.status().ToString();
    const auto cut = *(*reader)->AsCut();
    for (const checkpoint::PreparedSink& sink : cut->sinks()) {
      for (const checkpoint::PreparedPiece& piece : sink.pieces) {
        const auto json = nlohmann::json::parse(piece.descriptor);
        prepared[sink.sink][json["staged"]] = json["final"];
      }
    }
    return prepared;
  }

  JobSpec Successor(const std::string& sql) const {
    JobSpec spec = Spec(sql);
    spec.from = Path("job.cairn");
    spec.checkpoints = Path("second.cairn");
    return spec;
  }

  /// Rows of both sinks together.
  std::map<std::string, int> NettedOf(const std::string& one, const std::string& other) const {
    std::map<std::string, int> rows = Netted(one);
    for (const auto& [row, copies] : Netted(other)) rows[row] += copies;
    std::erase_if(rows, [](const auto& row) { return row.second == 0; });
    return rows;
  }

  /// CountJob, into the directory `path`.
  std::string CountJobInto(const std::string& path, const std::string& more = "") const {
    return BidTable() +
           "CREATE TABLE counts (auction BIGINT, n BIGINT) WITH (connector = 'filesystem', path = "
           "'" +
           Path(path) + "', format = 'ndjson', changelog = true" + more + ");\n" +
           "INSERT INTO counts SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n";
  }

  size_t hidden_ = 0;
};

TEST_F(TakeOverTest, WhatWasPreparedIsPublishedWhereTheSavedJobWouldHave) {
  SaveAndKill(Spec(CountJob()));
  const auto before = Netted("counts");
  const auto moved = Run(Successor(CountJobInto("elsewhere")));
  ASSERT_TRUE(moved.ok()) << moved.status().ToString();
  EXPECT_NE(Netted("counts"), before) << "the saved job's directory got the rows it was owed";
  EXPECT_FALSE(Netted("elsewhere").empty());
  EXPECT_EQ(NettedOf("counts", "elsewhere"), ExpectedCounts());
  // In its old directory the saved job is locked out as well.
  const Status first = Run(Spec(CountJob())).status();
  EXPECT_EQ(first.code(), StatusCode::kInvalidArgument) << first.ToString();
  EXPECT_THAT(std::string(first.message()), HasSubstr("_taken-over-"));
}

TEST_F(TakeOverTest, ASinkThatIsGonePublishesWhatItHadPrepared) {
  SaveAndKill(Spec(CountJob() + TopJob()));
  JobSpec spec = Successor(CountJob());
  spec.consent.non_restored = {"top/top-n/0"};
  const auto plan = PlanJobRestore(spec);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_TRUE(plan->plan.restorable()) << plan->plan.Refusals();
  const auto prepared = Prepared(Path("job.cairn"));
  const auto moved = Run(spec);
  ASSERT_TRUE(moved.ok()) << moved.status().ToString();
  EXPECT_EQ(Netted("counts"), ExpectedCounts());
  ASSERT_TRUE(prepared.contains("top"));
  for (const auto& [staged, published] : prepared.at("top")) {
    EXPECT_TRUE(fs::exists(fs::path(Path("top")) / published));
    EXPECT_FALSE(fs::exists(fs::path(Path("top")) / staged));
  }
}

TEST_F(TakeOverTest, WhatIsGivenUpByNameStaysWhereItLies) {
  SaveAndKill(Spec(CountJob()));
  const auto prepared = Prepared(Path("job.cairn"));
  fs::remove_all(Path("counts"));
  JobSpec spec = Successor(CountJobInto("elsewhere"));
  const Status gone = Run(spec).status();
  EXPECT_EQ(gone.code(), StatusCode::kCorruption) << gone.ToString();
  EXPECT_FALSE(fs::exists(spec.checkpoints)) << "what is refused makes no place";
  spec.consent.non_restored = {"counts"};
  const auto moved = Run(spec);
  ASSERT_TRUE(moved.ok()) << moved.status().ToString();
  EXPECT_FALSE(fs::exists(Path("counts")));
  EXPECT_FALSE(Netted("elsewhere").empty());
}

TEST_F(TakeOverTest, AStartThatFailsLeavesTheSavedJobFree) {
  SaveAndKill(Spec(CountJob()));
  const fs::path object = FilesNamed("state.arrow").back();
  fs::copy_file(object, Path("kept"));
  fs::resize_file(object, fs::file_size(object) / 2);
  const JobSpec successor = Successor(CountJob());
  EXPECT_EQ(Run(successor).status().code(), StatusCode::kCorruption);
  fs::copy_file(Path("kept"), object, fs::copy_options::overwrite_existing);
  for (const auto& entry : fs::directory_iterator(Path("counts"))) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("_taken-over-")) << entry.path();
  }
  const auto first = Run(Spec(CountJob()));
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(Netted("counts"), ExpectedCounts());
}

TEST_F(TakeOverTest, APlanSaysWhatSourcesAndSinksWouldSay) {
  SaveAndKill(Spec(CountJob()));
  const JobSpec successor = Successor(CountJob());
  const auto find = [](const RestorePlan& plan, const std::string& kind) {
    for (const RestoreItem& item : plan.items) {
      if (item.kind == kind) return item;
    }
    return RestoreItem();
  };
  {
    const auto planned = PlanJobRestore(successor);
    ASSERT_TRUE(planned.ok()) << planned.status().ToString();
    EXPECT_TRUE(planned->plan.restorable()) << planned->plan.Refusals();
    EXPECT_THAT(find(planned->plan, "source").says, HasSubstr("under way"));
  }
  fs::copy_file(Path("bids.ndjson"), Path("whole"));
  fs::resize_file(Path("bids.ndjson"), 10);
  {
    const auto planned = PlanJobRestore(successor);
    ASSERT_TRUE(planned.ok()) << planned.status().ToString();
    EXPECT_THAT(find(planned->plan, "source").refusal, HasSubstr("bids.ndjson"));
  }
  fs::copy_file(Path("whole"), Path("bids.ndjson"), fs::copy_options::overwrite_existing);
  JobSpec third = successor;
  third.checkpoints = Path("third.cairn");
  stop_after_rows_ = 1;
  ASSERT_TRUE(Run(third).ok());
  for (const JobSpec& late : {successor, Spec(CountJob())}) {
    const auto planned = PlanJobRestore(late);
    ASSERT_TRUE(planned.ok()) << planned.status().ToString();
    EXPECT_FALSE(planned->plan.restorable());
    EXPECT_THAT(find(planned->plan, "sink").refusal, HasSubstr("_taken-over-"));
  }
}

TEST_F(TakeOverTest, ATopNOfAnotherOrderOrNumberOfRowsIsRefusedByThePlanAndBeginsEmptyWhenGivenUp) {
  SaveAndKill(Spec(BidTable() + TopJob()));
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"price DESC", "price"},
                                 std::pair<std::string, std::string>{"rn <= 3", "rn <= 2"},
                                 std::pair<std::string, std::string>{"rn <= 3", "rn <= 4"}}) {
    std::string sql = BidTable() + TopJob();
    sql.replace(sql.find(from), from.size(), to);
    JobSpec spec = Successor(sql);
    spec.consent.accept_changes = true;
    const auto planned = PlanJobRestore(spec);
    ASSERT_TRUE(planned.ok()) << planned.status().ToString();
    EXPECT_THAT(planned->plan.Refusals(), HasSubstr("--allow-non-restored top/top-n/0"));
    EXPECT_EQ(Run(spec).status().code(), StatusCode::kInvalidArgument);
    spec.consent.non_restored = {"top/top-n/0"};
    const auto given_up = PlanJobRestore(spec);
    ASSERT_TRUE(given_up.ok()) << given_up.status().ToString();
    EXPECT_TRUE(given_up->plan.restorable()) << given_up->plan.Refusals();
  }
}

// It has taken the sinks over and holds no checkpoint: begun from the start it would publish all
// rows again.
TEST_F(TakeOverTest, APlaceThatWasBegunFromAnotherNeverBeginsFromTheStart) {
  SaveAndKill(Spec(CountJob()));
  std::ofstream(Path("bids.ndjson"), std::ios::app) << "{bad\n";
  JobSpec successor = Successor(CountJob());
  successor.settings[0].second = "1h";
  ASSERT_FALSE(Run(successor).ok()) << "a bad row, behind the take-over";
  fs::resize_file(Path("bids.ndjson"), fs::file_size(Path("bids.ndjson")) - 5);
  JobSpec alone = successor;
  alone.from.clear();
  const Status refused = Run(alone).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused.ToString();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--from " + Path("job.cairn") + "@1"));
  const auto planned = PlanJobRestore(alone);
  ASSERT_TRUE(planned.ok()) << planned.status().ToString();
  EXPECT_FALSE(planned->plan.restorable());
  const auto again = Run(successor);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(Netted("counts"), ExpectedCounts());
  EXPECT_TRUE(Run(alone).ok()) << "it has a checkpoint of its own now";
}

TEST_F(TakeOverTest, ARefusedStartLeavesNoPlace) {
  SaveAndKill(Spec(CountJob()));
  JobSpec successor = Successor(CountJob());
  successor.settings.push_back({"state.key_groups", "64"});
  EXPECT_EQ(Run(successor).status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(fs::exists(successor.checkpoints));
  successor.from = successor.checkpoints = Path("job.cairn");
  EXPECT_THAT(std::string(Run(successor).status().message()), HasSubstr("own place"));
}

TEST_F(TakeOverTest, OffsetsOfOtherSplitsAreRefusedWithEveryWord) {
  SaveAndKill(Spec(CountJob()));
  std::string sql = CountJob();
  sql.replace(sql.find("65536"), 5, "20000");
  JobSpec spec = Successor(sql);
  spec.consent.accept_changes = true;
  const Status refused = Run(spec).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused.ToString();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("count by split_bytes"));
  spec.consent.non_restored = {"bid"};
  const auto planned = PlanJobRestore(spec);
  ASSERT_TRUE(planned.ok()) << planned.status().ToString();
  EXPECT_TRUE(planned->plan.restorable()) << planned->plan.Refusals();
}

TEST_F(TakeOverTest, ASinkWhoseRowsAreGivenUpIsTakenOverAllTheSame) {
  SaveAndKill(Spec(CountJob()));
  JobSpec spec = Successor(CountJob());
  spec.consent.non_restored = {"counts"};
  stop_after_rows_ = 1;
  ASSERT_TRUE(Run(spec).ok());
  const Status first = Run(Spec(CountJob())).status();
  EXPECT_THAT(std::string(first.message()), HasSubstr("_taken-over-"));
}

TEST_F(TakeOverTest, APlanFindsRowsThatAreGone) {
  SaveAndKill(Spec(CountJob()));
  fs::remove_all(Path("counts"));
  const auto planned = PlanJobRestore(Successor(CountJob()));
  ASSERT_TRUE(planned.ok()) << planned.status().ToString();
  EXPECT_THAT(planned->plan.Refusals(), HasSubstr("--allow-non-restored counts"));
}

}  // namespace
}  // namespace cairn::engine

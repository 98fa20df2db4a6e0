// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace cairn::cli {
namespace {

stream::JobProgress Sample() {
  stream::JobProgress progress;
  progress.elapsed_ms = 12'300;
  progress.rows_in = 1'234'567;
  progress.rows_in_per_s = 612'000;
  progress.rows_out = 45'200;
  progress.state_bytes = uint64_t{43} << 20;
  progress.checkpoint = base::CheckpointId(7);
  progress.checkpoint_age_ms = 800;
  progress.checkpoint_bytes = uint64_t{1} << 20;
  progress.checkpoint_total_bytes = uint64_t{4} << 20;
  progress.checkpoint_frames = 9;
  progress.checkpoint_total_frames = 143;
  progress.checkpoint_persist_ms = 30;
  progress.checkpoint_use = {.syncs = 5, .bytes_written = 1'100'000};
  progress.checkpoints_committed = 7;
  return progress;
}

/// What a printer wrote to a file that is no terminal.
class Captured {
 public:
  Captured() : file_(std::tmpfile()) {}
  ~Captured() { std::fclose(file_); }
  std::FILE* file() { return file_; }
  std::string text() {
    std::fflush(file_);
    std::rewind(file_);
    std::string text;
    for (int c = std::fgetc(file_); c != EOF; c = std::fgetc(file_)) {
      text += static_cast<char>(c);
    }
    return text;
  }

 private:
  std::FILE* file_;
};

TEST(ProgressTest, TheLineNamesRowsCheckpointAndState) {
  EXPECT_EQ(ProgressText(Sample()),
            "12.3 s  in 1,234,567 rows, 612 k/s  out 45,200 rows  checkpoint 7, 0.80 s ago, "
            "1.0 MiB of 4.0 MiB, 5 fsyncs in 0.03 s  state 43.0 MiB");
}

TEST(ProgressTest, InABucketTheLineCountsRequests) {
  stream::JobProgress progress = Sample();
  progress.checkpoint_use = {.puts = 4, .gets = 1};
  EXPECT_NE(ProgressText(progress).find("4.0 MiB, 4 PUT, 1 GET in 0.03 s  "), std::string::npos)
      << ProgressText(progress);
}

TEST(ProgressTest, ALongPersistIsToldOfEveryTwoSeconds) {
  stream::JobProgress progress;
  progress.persisting = base::CheckpointId(8);
  progress.persisting_bytes = uint64_t{3} << 20;
  progress.persisting_expected = uint64_t{9} << 20;
  progress.persisting_ms = 1'500;
  EXPECT_EQ(ProgressText(progress).find("writing"), std::string::npos) << "it may soon be over";
  progress.persisting_ms = 2'100;
  EXPECT_NE(ProgressText(progress).find("  writing 8: 3.0 MiB of about 9.0 MiB, 2.10 s  "),
            std::string::npos)
      << ProgressText(progress);
  progress.persisting_expected = 0;
  EXPECT_NE(ProgressText(progress).find("  writing 8: 3.0 MiB, 2.10 s  "), std::string::npos);
  Captured out;
  ProgressPrinter printer(out.file(), ProgressMode::kLines, 0);
  for (progress.elapsed_ms = 500; progress.elapsed_ms <= 9'000; progress.elapsed_ms += 500) {
    printer.Report(progress);
  }
  const std::string text = out.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
}

TEST(ProgressTest, WithoutACheckpointTheLineNamesNone) {
  stream::JobProgress progress;
  progress.elapsed_ms = 500;
  EXPECT_EQ(ProgressText(progress), "0.50 s  in 0 rows, 0/s  out 0 rows  state 0 B");
}

TEST(ProgressTest, SkippedRowsAndFailedCheckpointsAreTold) {
  stream::JobProgress progress = Sample();
  progress.rows_skipped = 3;
  progress.checkpoints_failed = 2;
  EXPECT_NE(ProgressText(progress).find("  skipped 3  "), std::string::npos);
  EXPECT_NE(ProgressText(progress).find("  failed 2  "), std::string::npos);
  EXPECT_NE(SummaryText(progress).find("3 rows skipped, 2 checkpoints failed"), std::string::npos);
}

TEST(ProgressTest, TheSummaryCountsTheRun) {
  EXPECT_EQ(SummaryText(Sample()),
            "1,234,567 rows in 12.3 s (612 k rows/s), 45,200 rows out, 7 checkpoints, 0 rows "
            "skipped");
}

TEST(ProgressTest, PlainLinesComeOneACheckpoint) {
  Captured out;
  ProgressPrinter printer(out.file(), ProgressMode::kLines, 0);
  stream::JobProgress progress = Sample();
  progress.elapsed_ms = 1000;
  printer.Report(progress);
  progress.elapsed_ms = 1500;
  printer.Report(progress);  // the same checkpoint: silent
  progress.elapsed_ms = 2000;
  progress.checkpoint = base::CheckpointId(8);
  printer.Report(progress);
  const std::string text = out.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(ProgressTest, PlainLinesComeEveryTenSecondsWithoutACheckpoint) {
  Captured out;
  ProgressPrinter printer(out.file(), ProgressMode::kLines, 0);
  stream::JobProgress progress;
  for (progress.elapsed_ms = 0; progress.elapsed_ms <= 25'000; progress.elapsed_ms += 500) {
    printer.Report(progress);
  }
  const std::string text = out.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
}

TEST(ProgressTest, TheLiveLineIsDrawnOverAndCutToTheTerminal) {
  Captured out;
  ProgressPrinter printer(out.file(), ProgressMode::kLive, 20);
  printer.Report(Sample());
  printer.Finish("done", Sample());
  EXPECT_EQ(out.text(), "\r12.3 s  in 1,234,56\x1b[K\r\x1b[Kcairn: done\n");
}

TEST(ProgressTest, OffPrintsWarningsAndTheSummaryOnly) {
  Captured out;
  ProgressPrinter printer(out.file(), ProgressMode::kOff, 0);
  printer.Report(Sample());
  printer.Log(stream::LogLevel::kInfo, "beginning anew");
  printer.Log(stream::LogLevel::kWarning, "checkpoint 3 failed");
  printer.Finish("done", Sample());
  EXPECT_EQ(out.text(), "cairn: warning: checkpoint 3 failed\ncairn: done\n");
}

TEST(ProgressTest, JsonSaysEveryFigureALine) {
  Captured out;
  ProgressPrinter printer(out.file(), ProgressMode::kJson, 0);
  checkpoint::RestoreReceipt receipt;
  receipt.checkpoint = base::CheckpointId(6);
  receipt.total = {{}, "", 3, 900, 20, 20, 1};
  receipt.operators = {{base::OperatorId(1), "a/b/0", 3, 900, 20, 20, 1}};
  printer.Log(stream::LogLevel::kWarning, "a \"text\"");
  printer.Restored(receipt);
  printer.Report(Sample());
  printer.Finish("done: all", Sample());
  std::vector<nlohmann::json> lines;
  std::istringstream text(out.text());
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0],
            (nlohmann::json{{"event", "log"}, {"level", "warning"}, {"text", "a \"text\""}}));
  EXPECT_EQ(lines[1]["event"], "restored");
  EXPECT_EQ(lines[1]["expected"], 20);
  EXPECT_EQ(lines[1]["operators"][0]["uid"], "a/b/0");
  EXPECT_EQ(lines[1]["operators"][0]["left_out"], 1);
  EXPECT_EQ(lines[2]["event"], "progress");
  EXPECT_EQ(lines[2]["rows_in"], 1'234'567);
  EXPECT_EQ(lines[2]["checkpoint"]["bytes_reused"], 3 << 20);
  EXPECT_EQ(lines[2]["checkpoint"]["frames_reused"], 134);
  EXPECT_EQ(lines[2]["checkpoint"]["fsyncs"], 5);
  EXPECT_EQ(lines[3]["event"], "done");
  EXPECT_EQ(lines[3]["text"], "done: all");
}

}  // namespace
}  // namespace cairn::cli

// SPDX-License-Identifier: Apache-2.0
//
// RunJobTest: whole jobs over small generated files in a directory of their own, and what they must
// give.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/run_job.h"

namespace cairn::engine {

namespace fs = std::filesystem;

constexpr int kAuctions = 97;

struct Bid {
  int64_t auction;
  int64_t price;
};

class RunJobTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "cairn-run-job-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string Path(const std::string& name) const { return (dir_ / name).string(); }

  /// Append `count` bids to the input.
  void WriteBids(int count) {
    std::ofstream file(Path("bids.ndjson"), std::ios::app);
    const int first = static_cast<int>(bids_.size());
    for (int i = first; i < first + count; ++i) {
      const Bid bid{(i * 7919) % kAuctions, (i * 104729LL) % 100003};
      bids_.push_back(bid);
      file << R"({"auction":)" << bid.auction << R"(,"price":)" << bid.price << R"(,"url":"u)" << i
           << "\"}\n";
    }
  }

  std::string BidTable(const std::string& more = "") const {
    return "CREATE TABLE bid (auction BIGINT, price BIGINT, url TEXT) WITH (connector = "
           "'filesystem', path = '" +
           Path("bids.ndjson") + "', format = 'ndjson', split_bytes = 65536" + more + ");\n";
  }
  std::string SinkTable(const std::string& name, const std::string& columns,
                        bool changelog = true) const {
    return "CREATE TABLE " + name + " (" + columns + ") WITH (connector = 'filesystem', path = '" +
           Path(name) + "', format = 'ndjson'" + (changelog ? ", changelog = true" : "") + ");\n";
  }
  std::string CountJob() const {
    return BidTable() + SinkTable("counts", "auction BIGINT, n BIGINT") +
           "INSERT INTO counts SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n";
  }
  std::string TopJob() const {
    return SinkTable("top", "auction BIGINT, price BIGINT, rn BIGINT") +
           "INSERT INTO top SELECT auction, price, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION "
           "BY auction ORDER BY price DESC) AS rn FROM bid) t WHERE rn <= 3;\n";
  }

  JobSpec Spec(const std::string& sql, uint32_t parallelism = 2) const {
    JobSpec spec;
    spec.name = "job";
    spec.sql = sql;
    spec.checkpoints = Path("job.cairn");
    spec.parallelism = parallelism;
    spec.settings = {{"checkpoint.interval", "100ms"}, {"fs.fsync", "false"}};
    return spec;
  }

  Result<JobResult> Run(const JobSpec& spec) {
    JobControl control;
    control.stop = stop_.get_token();
    control.log = [this](LogLevel, const std::string& line) { log_ += line + "\n"; };
    control.progress_interval_ms = 1;
    control.on_progress = [this](const JobProgress& progress) {
      if (progress.rows_in >= stop_after_rows_) stop_.request_stop();
    };
    Result<JobResult> result = RunJob(spec, control);
    stop_ = std::stop_source();
    return result;
  }

  /// Net a sink's committed rows: each distinct row with the number of its copies.
  std::map<std::string, int> Netted(const std::string& sink) const {
    std::map<std::string, int> rows;
    if (!fs::exists(Path(sink))) return rows;
    for (const auto& entry : fs::directory_iterator(Path(sink))) {
      const std::string name = entry.path().filename().string();
      if (name[0] == '.' || name[0] == '_') continue;
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        nlohmann::json row = nlohmann::json::parse(line);
        const std::string op = row.value("op", "+I");
        row.erase("op");
        rows[row.dump()] += op == "+I" || op == "+U" ? 1 : -1;
      }
    }
    std::erase_if(rows, [](const auto& row) { return row.second == 0; });
    return rows;
  }

  std::map<std::string, int> ExpectedCounts() const {
    std::map<int64_t, int64_t> counts;
    for (const Bid& bid : bids_) ++counts[bid.auction];
    std::map<std::string, int> rows;
    for (const auto& [auction, n] : counts) {
      ++rows[nlohmann::json({{"auction", auction}, {"n", n}}).dump()];
    }
    return rows;
  }

  std::map<std::string, int> ExpectedTop() const {
    std::map<int64_t, std::vector<int64_t>> prices;
    for (const Bid& bid : bids_) prices[bid.auction].push_back(bid.price);
    std::map<std::string, int> rows;
    for (auto& [auction, of] : prices) {
      std::sort(of.rbegin(), of.rend());
      for (size_t i = 0; i < std::min<size_t>(3, of.size()); ++i) {
        ++rows[nlohmann::json({{"auction", auction}, {"price", of[i]}, {"rn", i + 1}}).dump()];
      }
    }
    return rows;
  }

  std::vector<fs::path> FilesNamed(const std::string& name) const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(Path("job.cairn"))) {
      if (entry.path().filename() == name) found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  fs::path dir_;
  std::vector<Bid> bids_;
  std::stop_source stop_;
  uint64_t stop_after_rows_ = UINT64_MAX;
  std::string log_;
};

}  // namespace cairn::engine

// SPDX-License-Identifier: Apache-2.0
//
// For tests: a job of sources, an exchange, one function and a sink, run beside a driver.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stream/job.h"
#include "stream/test_parts.h"

namespace cairn::stream::testing {

inline std::vector<int64_t> UpTo(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// Sources → exchange → one function → sink.
struct TestJob {
  std::vector<std::shared_ptr<NumberSource>> sources;
  std::shared_ptr<MemorySink> sink = std::make_shared<MemorySink>();
  FunctionOperator::Function function;
  std::shared_ptr<OperatorFactory> factory;  ///< null = one of `function`
  bool staged = false;
  uint32_t parallelism = 2;
  JobOptions options;
  JobControl control;
  std::stop_source stop;
  std::vector<std::string> log;

  explicit TestJob(std::vector<NumberSource::Split> splits = {{0, 1000}, {1000, 500}, {1500, 40}}) {
    sources.push_back(std::make_shared<NumberSource>(std::move(splits), 16));
    options.coordinator.interval_ms = 0;
    options.coordinator.persist_retries = 0;
    control.stop = stop.get_token();
    control.log = [this](LogLevel, const std::string& line) { log.push_back(line); };
  }

  JobGraph Graph() const {
    JobGraph graph;
    graph.job = "test";
    graph.parallelism = parallelism;
    const size_t target = sources.size();
    for (size_t i = 0; i < sources.size(); ++i) {
      StageSpec stage;
      stage.name = stage.source_name = "source" + std::to_string(i);
      stage.source = sources[i];
      stage.nodes.push_back(
          {-1, "", nullptr, nullptr, ExchangeSpec{target, testing::NumberSchema(), {0}}});
      graph.stages.push_back(std::move(stage));
    }
    StageSpec keyed;
    keyed.name = "keyed";
    keyed.nodes.push_back(
        {-1,
         "sink/function/0",
         factory != nullptr ? factory : std::make_shared<FunctionFactory>(function, staged),
         nullptr,
         {}});
    keyed.nodes.push_back({0, "sink", nullptr, sink, {}});
    graph.stages.push_back(std::move(keyed));
    return graph;
  }

  Result<JobOutcome> Run(checkpoint::CheckpointStore* store) {
    std::shared_ptr<const checkpoint::Cut> cut;
    if (store != nullptr) cut = *store->Recover();
    return RunGraph(Graph(), options, store, cut, control);
  }
};

/// Drive a running job from beside it: `drive` gets the coordinator once it exists.
inline Result<JobOutcome> RunBeside(TestJob* job, checkpoint::CheckpointStore* store,
                                    const std::function<void(Coordinator*)>& drive) {
  std::thread driver;
  job->options.on_coordinator = [&](Coordinator* coordinator) {
    driver = std::thread([&drive, coordinator] { drive(coordinator); });
  };
  Result<JobOutcome> outcome = job->Run(store);
  if (driver.joinable()) driver.join();
  job->options.on_coordinator = nullptr;
  return outcome;
}
/// Rows that the cut's sources had read = rows that all its and earlier cuts' pieces hold.
inline void ExpectConsistentCuts(const MemoryStore& store, const MemorySink& sink) {
  size_t committed = 0;
  for (const auto& cut : store.cuts()) {
    for (const auto& prepared : cut->sinks()) {
      for (const auto& piece : prepared.pieces) committed += sink.RowsOf(piece.descriptor);
    }
    EXPECT_EQ(static_cast<int64_t>(committed), cut->RowsRead()) << "cut " << cut->id().value;
  }
}
}  // namespace cairn::stream::testing

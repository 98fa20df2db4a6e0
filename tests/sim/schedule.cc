// SPDX-License-Identifier: Apache-2.0
#include "schedule.h"

#include <utility>

#include "bucket.h"
#include "cluster_schedule.h"
#include "network.h"
#include "oracle.h"
#include "process.h"
#include "sim_sink.h"

namespace cairn::sim {
namespace {

/// Per mille of schedules that are of several participants: each costs as much as four others.
constexpr uint32_t kClusters = 100;

/// Every kind of fault is off in some schedules: one that is always there hides what others show.
uint32_t DrawRate(World* world, std::initializer_list<uint32_t> rates) {
  return *(rates.begin() + world->Draw(rates.size()));
}

Weather DrawWeather(World* world) {
  Weather weather;
  weather.lost_before = DrawRate(world, {0, 0, 5, 30});
  weather.lost_after = DrawRate(world, {0, 0, 5, 30});
  weather.late = DrawRate(world, {0, 0, 10, 50});
  weather.pause = DrawRate(world, {0, 0, 5, 20});
  weather.crash = DrawRate(world, {0, 2, 5, 20});
  weather.cut_off = DrawRate(world, {0, 0, 0, 3});
  weather.stale_us = DrawRate(world, {0, 0, 5'000'000});
  return weather;
}

void DrawJob(World* world, Job* job) {
  job->keys = static_cast<uint32_t>(2 + world->Draw(6));
  job->rows_per_checkpoint = static_cast<uint32_t>(1 + world->Draw(6));
  job->retained = static_cast<uint32_t>(1 + world->Draw(3));
  job->rebase_chunks = static_cast<uint32_t>(1 + world->Draw(5));
  job->rebase_bytes_min = DrawRate(world, {0, 64 << 10, 64 << 10});
  job->padding = DrawRate(world, {0, 600, 1000});
  job->abandon = DrawRate(world, {0, 0, 100, 300});
  job->lease = world->Chance(500);
  job->attempts_left = static_cast<uint32_t>(2 + world->Draw(8));
}

/// A machine starts one process after another, until the schedule has had its attempts.
void RunMachine(Job* job, Network* network, int64_t restart_us) {
  World* const world = job->world;
  for (int lives = 0; lives < 12 && job->attempts_left > 0 && !world->stopped(); ++lives) {
    world->SleepMicros(static_cast<int64_t>(world->Draw(static_cast<uint64_t>(restart_us))));
    Process process(job, network);
    (void)process.Run(static_cast<uint32_t>(1 + world->Draw(8)));
  }
}

void RunLastProcess(Job* job) {
  const Weather calm;
  Network network(job->world, &calm);
  Process process(job, &network);
  const Status status = process.Run(2);
  if (!status.ok()) job->world->Violate("the last process fails: " + status.ToString());
  job->oracle->CheckEnd(process.offset());
}

void RunOneProcessAtATime(World* world, const Weather& weather, PlantedBug bug) {
  Bucket bucket(world);
  Oracle oracle(world, &bucket);
  Network network(world, &weather);
  SimSink sink(&oracle);
  Job job;
  job.world = world;
  job.bucket = &bucket;
  job.oracle = &oracle;
  job.sink = &sink;
  job.bug = bug;
  DrawJob(world, &job);
  const uint64_t machines = 1 + world->Draw(3);
  const auto restart_us = static_cast<int64_t>(DrawRate(world, {500'000, 3'000'000, 10'000'000}));
  for (uint64_t i = 0; i < machines; ++i) {
    world->Spawn([&] { RunMachine(&job, &network, restart_us); });
  }
  world->Run();
  if (world->stopped()) return;
  job.attempts_left = 2;
  job.abandon = 0;
  world->Spawn([&] { RunLastProcess(&job); });
  world->Run();
}

}  // namespace

std::string_view ProfileName(Profile profile) {
  return profile == Profile::kCluster ? "cluster" : "one-process";
}

ScheduleOutcome RunSchedule(uint64_t seed, const ScheduleOptions& options) {
  World world(seed, options.keep_trace);
  const bool cluster = world.Chance(kClusters);
  const Weather weather = DrawWeather(&world);
  if (options.profile.value_or(cluster ? Profile::kCluster : Profile::kOneProcess) ==
      Profile::kCluster) {
    RunCluster(&world, weather, options.bug);
  } else {
    RunOneProcessAtATime(&world, weather, options.bug);
  }
  return {world.violation(), world.trace_hash(), world.events(), world.met(), world.trace()};
}

std::string ReplayLine(uint64_t seed, const ScheduleOptions& options) {
  std::string line = "./dev sim --seed " + std::to_string(seed) + " --schedules 1 --trace";
  if (options.profile) line.append(" --profile ").append(ProfileName(*options.profile));
  for (const PlantedBugName& known : kPlantedBugs) {
    if (known.bug == options.bug) line.append(" --planted ").append(known.name);
  }
  return line;
}

}  // namespace cairn::sim

// SPDX-License-Identifier: Apache-2.0
#include "cluster_schedule.h"

#include "bucket.h"
#include "cluster_oracle.h"
#include "cluster_process.h"

namespace cairn::sim {
namespace {

constexpr int64_t kRestartUs = 4'000'000;
constexpr int64_t kScheduleUs = 45'000'000;
constexpr int kLivesMax = 5;

template <class Live>
void RunClusterMachine(ClusterJob* job, const Live& live) {
  for (int lives = 0; lives < kLivesMax && !job->over() && !job->world->stopped(); ++lives) {
    job->world->SleepMicros(static_cast<int64_t>(job->world->Draw(kRestartUs)));
    if (!job->over()) live();
  }
}

void RunDisturbed(ClusterJob* job, Network* network, uint64_t nodes) {
  World* const world = job->world;
  const uint64_t machines_a_node = world->Chance(300) ? 2 : 1;
  for (uint64_t i = 0; i < nodes * machines_a_node; ++i) {
    world->Spawn(
        [=] { RunClusterMachine(job, [&] { NodeProcess(job, network, 1 + i % nodes).Run(); }); });
  }
  const uint64_t leaders = 1 + world->Draw(2);
  for (uint64_t i = 0; i < leaders; ++i) {
    world->Spawn(
        [=] { RunClusterMachine(job, [&] { LeaderProcess(job, network, 100 + i).Run(false); }); });
  }
  world->Run();
}

void RunUndisturbed(ClusterJob* job, Network* network, uint64_t nodes) {
  World* const world = job->world;
  const base::CheckpointId before = job->oracle->latest();
  for (uint64_t node = 1; node <= nodes; ++node) {
    world->Spawn([=] { NodeProcess(job, network, node).Run(); });
  }
  world->Spawn([=] { LeaderProcess(job, network, 100).Run(true); });
  world->Run();
  if (job->oracle->latest() == before) world->Violate("an undisturbed cluster commits nothing");
  job->oracle->CheckEnd();
}

}  // namespace

void RunCluster(World* world, const Weather& weather, PlantedBug bug) {
  Bucket bucket(world);
  Network network(world, &weather);
  ClusterOracle oracle(world, &network, &bucket);
  Outside outside([&](const std::vector<OutsideRow>& rows) { oracle.Published(rows); });
  const uint64_t nodes = world->Chance(150) ? 3 : 1 + world->Draw(2);
  Directory directory(nodes);
  ClusterJob job;
  job.world = world;
  job.bucket = &bucket;
  job.oracle = &oracle;
  job.outside = &outside;
  job.directory = &directory;
  job.bug = bug;
  job.retained = static_cast<uint32_t>(1 + world->Draw(3));
  job.rebase_chunks = static_cast<uint32_t>(2 + world->Draw(4));
  job.abandon = world->Chance(600) ? 400 : 0;
  job.attempts_left = static_cast<uint32_t>(1 + world->Draw(3));
  job.end_us = kScheduleUs;
  RunDisturbed(&job, &network, nodes);
  if (world->stopped()) return;
  directory.Clear();
  const Weather calm;
  Network undisturbed(world, &calm);
  job.attempts_left = 1;
  job.abandon = 0;
  job.end_us = world->now_us() + 2 * kScheduleUs;
  RunUndisturbed(&job, &undisturbed, nodes);
}

}  // namespace cairn::sim

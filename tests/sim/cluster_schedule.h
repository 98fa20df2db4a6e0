// SPDX-License-Identifier: Apache-2.0
//
// One schedule of several participants and their leaders, in a world that is there already.
//
// Threads: one.
#pragma once

#include "network.h"
#include "planted_bug.h"
#include "world.h"

namespace cairn::sim {

/// Draw a cluster, let it run in `weather`, then once more undisturbed, and check what is left.
void RunCluster(World* world, const Weather& weather, PlantedBug bug);

}  // namespace cairn::sim

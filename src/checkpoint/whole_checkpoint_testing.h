// SPDX-License-Identifier: Apache-2.0
//
// What tests of FileSystemCheckpointStore save.
#pragma once

#include "format/manifest.h"

namespace cairn::checkpoint::testing {

/// The manifest of a checkpoint with the sink "out" and nothing else.
inline format::CheckpointManifest WholeManifest(uint64_t id) {
  format::CheckpointManifest manifest;
  manifest.checkpoint_id = base::CheckpointId(id);
  manifest.epoch = id;
  manifest.timestamp_ms = 1'700'000'000'000 + id;
  manifest.attempt_id = "018bcfe5-687b-7000-8000-000000000001";
  manifest.deployment_id = "018bcfe5-687b-7000-8000-000000000002";
  manifest.node_data.chunk.checkpoint_id = base::CheckpointId(id);
  manifest.sink_names = {"out"};
  return manifest;
}

}  // namespace cairn::checkpoint::testing

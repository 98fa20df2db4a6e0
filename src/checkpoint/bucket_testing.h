// SPDX-License-Identifier: Apache-2.0
//
// Processes over one bucket in memory, for tests of what several of them do to each other.
//
// Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "checkpoint/job_testing.h"
#include "checkpoint/loaded_cut.h"
#include "checkpoint/place.h"
#include "env/fault_object_store.h"
#include "env/manual_clock.h"
#include "env/memory_object_store.h"

namespace cairn::checkpoint::testing {

/// A process: a job over its own connection to the bucket.
struct Process {
  Process(std::shared_ptr<env::ObjectStore> bucket, uint64_t seed)
      : random(seed), connection(std::move(bucket)) {
    job.options.random = &random;
    job.open = [this](const StoreOptions& options) {
      return OpenStore(std::make_unique<env::FaultObjectStore>(connection), nullptr, options);
    };
  }
  void PutMany(int count, const std::string& value) {
    for (int i = 0; i < count; ++i) job.Put(0, "key" + std::to_string(i), value);
  }

  env::SeededRandom random;
  env::FaultObjectStore connection;
  TestJob job{{SlotOf("out/count/0")}};
};

/// "key0" to "key<count - 1>", all with `value`.
inline Rows RowsOf(int count, const std::string& value) {
  Rows rows;
  for (int i = 0; i < count; ++i) rows["key" + std::to_string(i)] = value;
  return rows;
}

/// The rows of the cut that the head of `objects` names, read without taking the place over.
inline Rows FoundIn(env::ObjectStore* objects) {
  const Result<Place> place = ReadPlace(objects);
  EXPECT_TRUE(place.ok()) << place.status().ToString();
  if (!place.ok() || place->Cuts().empty()) return {{"no cut", ""}};
  const auto manifest = ReadManifest(objects, *place, place->Cuts().front());
  EXPECT_TRUE(manifest.ok()) << manifest.status().ToString();
  if (!manifest.ok()) return {{"unreadable", ""}};
  const auto cut = LoadedCut::Open(objects, *manifest);
  EXPECT_TRUE(cut.ok()) << cut.status().ToString();
  if (!cut.ok()) return {{"unreadable", ""}};
  ModelTables tables({.slots = {SlotOf("out/count/0")},
                      .groups = {0, kDefaultKeyGroups},
                      .slot_hash_seed = place->identity->slot_hash.seed});
  InlineExecutor executor;
  const auto loaded = LoadState(**cut, {tables.tables()}, &executor);
  EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
  return loaded.ok() ? tables.Contents(0) : Rows{{"unreadable", ""}};
}

}  // namespace cairn::checkpoint::testing

// SPDX-License-Identifier: Apache-2.0
//
// Faults of a protocol that the simulation must be able to find: each is planted in the simulated
// process or its connection, never in the product, and found by a test (planted_bug_test.cc).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn::sim {

enum class PlantedBug : uint8_t {
  kNone,
  kAckBeforePersist,     ///< a checkpoint is acknowledged before it is durable
  kDeltaLostOnAbort,     ///< what changed since the last commit is forgotten when an attempt fails
  kPiecesLostOnAbort,    ///< so are the prepared pieces of the sink
  kUnfencedHead,         ///< the head is written without its condition
  kDeleteByListing,      ///< old objects go by their ids, whoever needs them
  kSweepBeforeTakeover,  ///< undecided checkpoints go before the former owner is fenced
  kPublishBeforeDecision,
};

struct PlantedBugName {
  PlantedBug bug;
  std::string_view name;
  bool in_cluster = false;  ///< also where several participants save
};
inline constexpr std::array<PlantedBugName, 7> kPlantedBugs = {{
    {PlantedBug::kAckBeforePersist, "ack-before-persist", true},
    {PlantedBug::kDeltaLostOnAbort, "delta-lost-on-abort", true},
    {PlantedBug::kPiecesLostOnAbort, "pieces-lost-on-abort"},
    {PlantedBug::kUnfencedHead, "unfenced-head", true},
    {PlantedBug::kDeleteByListing, "delete-by-listing", true},
    {PlantedBug::kSweepBeforeTakeover, "sweep-before-takeover"},
    {PlantedBug::kPublishBeforeDecision, "publish-before-decision"},
}};

inline std::optional<PlantedBug> PlantedBugOf(std::string_view name) {
  for (const PlantedBugName& known : kPlantedBugs) {
    if (known.name == name) return known.bug;
  }
  return std::nullopt;
}

}  // namespace cairn::sim

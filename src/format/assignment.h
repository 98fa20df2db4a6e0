// SPDX-License-Identifier: Apache-2.0
//
// Who takes part in a cut of several participants: the processes, which of them owns which key
// groups, and the leader that admitted the attempt. Part of a participant's manifest and of the
// records of docs/formats/shared-records.md.
//
// Digests are SHA-256 over length-prefixed parts, the domain first; integers are little-endian.
//
// Threads: value types and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "cairn/hash.h"
#include "cairn/status.h"

namespace cairn::format {

/// Most participants of one cut.
inline constexpr uint32_t kParticipantsMax = 129;

/// One process of a cluster: a node, and which of its lives.
struct ProcessIdentity {
  uint64_t node = 0;  ///< not 0; the participant id
  std::string boot;   ///< UUID: another one after every start
  friend auto operator<=>(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// The leader under which something was done. Ordered in time by fencing_token.
struct LeaderProof {
  ProcessIdentity owner;
  uint64_t term = 0;           ///< how often the lead has changed hands
  uint64_t fencing_token = 0;  ///< grows with every record of the lease; never used twice
  friend bool operator==(const LeaderProof&, const LeaderProof&) = default;
};

/// One assignment of key groups to processes, as every participant of a cut must know it.
struct AssignmentFence {
  uint64_t version = 0;  ///< grows with every reassignment
  uint16_t partitioning_abi = 1;
  uint32_t key_groups = 0;
  base::Sha256Digest owner_map_sha256{};      ///< OwnerMapDigest
  std::vector<ProcessIdentity> participants;  ///< by node, each node once
  friend bool operator==(const AssignmentFence&, const AssignmentFence&) = default;

  /// The participant of `node`; null when it is none.
  const ProcessIdentity* Find(uint64_t node) const;
};

/// Digest of which node owns each key group: owners[group] = node.
base::Sha256Digest OwnerMapDigest(uint16_t partitioning_abi, std::span<const uint64_t> owners);

/// Digest of a whole assignment.
base::Sha256Digest AssignmentFenceDigest(const AssignmentFence& fence);

/// Check the shape of a fence: version, key groups, participants sorted and known by UUID.
///
/// Errors:   kCorruption, naming the field.
Status CheckAssignmentFence(const AssignmentFence& fence);

/// Check that a proof names an owner, a term and a token.
///
/// Errors:   kCorruption, naming the field.
Status CheckLeaderProof(const LeaderProof& leader);

/// A participant's place in a cut of several: part of its manifest.
struct ClusterShare {
  AssignmentFence fence;
  LeaderProof leader;  ///< who admitted the attempt
  std::vector<KeyGroupRange>
      owned_key_groups;  ///< ascending, disjoint, not touching; [first, last)
  friend bool operator==(const ClusterShare&, const ClusterShare&) = default;

  bool Owns(uint32_t first_group, uint32_t last_group) const;  ///< both inclusive
};

}  // namespace cairn::format

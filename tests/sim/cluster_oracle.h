// SPDX-License-Identifier: Apache-2.0
//
// ClusterOracle: what must hold of several participants and their leaders; the rules of oracle.h
// over a cut of many shares.
//
// The job: split "g<k>" of source "rows" belongs to key group k and is read by the group's owner.
// Row i of it adds one to the group's count and writes (k, i) to the sink. So a cut in which group
// k counts n has published exactly (k, 0) to (k, n - 1).
//
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bucket.h"
#include "checkpoint/shared/cluster_cut.h"
#include "outside.h"
#include "sim_object_store.h"
#include "world.h"

namespace cairn::sim {

inline constexpr uint32_t kClusterGroups = 8;
using GroupCounts = std::map<uint16_t, uint64_t>;  ///< no entry = 0

class ClusterOracle final : public BucketWatcher {
 public:
  ClusterOracle(World* world, Network* network, Bucket* bucket);

  void GaveOut(base::CheckpointId id);
  void Captured(base::CheckpointId id, uint64_t node, const GroupCounts& counts);
  void Acknowledged(base::CheckpointId id);
  void Recovered(uint64_t node, const std::vector<KeyGroupRange>& owned,
                 const checkpoint::shared::RestoredShare& restored);
  void Published(const std::vector<OutsideRow>& rows);
  /// A status that no fault of the simulation explains is a violation, unless the process may have
  /// been succeeded.
  void Failed(const char* what, const Status& status, bool may_be_succeeded);
  void CheckEnd();

  base::CheckpointId latest() const { return latest_; }
  /// The incarnation that leads by the head; 0 = none yet.
  uint32_t leader() const { return leader_; }

  void OnSwapped(uint32_t writer, const std::string& key, std::string_view bytes) override;
  void OnDeleted(uint32_t writer, const std::string& key) override;

 private:
  using Needs = std::set<std::string>;

  void CheckLeader(uint32_t writer, uint64_t token);
  void Admit(const checkpoint::shared::SharedPlace& place, const format::IndexReference& reference);
  const checkpoint::shared::SharedPlace* Place();
  GroupCounts ModelOf(base::CheckpointId id) const;
  void Compare(base::CheckpointId id, const std::vector<KeyGroupRange>& owned,
               const checkpoint::shared::RestoredShare& restored);

  World* world_;
  Bucket* bucket_;
  SimObjectStore objects_;  // the bucket as it is
  checkpoint::shared::Seams seams_;
  std::optional<checkpoint::shared::SharedPlace> place_;
  std::set<base::CheckpointId> given_out_;
  std::map<base::CheckpointId, std::map<uint64_t, GroupCounts>> captured_;
  std::map<base::CheckpointId, GroupCounts> models_;  // of every cut that was ever decided
  std::map<base::CheckpointId, Needs> needs_;
  std::vector<base::CheckpointId> counted_;
  std::optional<format::IndexReference> latest_reference_;
  base::CheckpointId latest_;
  base::CheckpointId acknowledged_;
  uint64_t token_ = 0;
  uint32_t leader_ = 0;  // incarnation that wrote the token into the head
  std::map<uint16_t, std::vector<bool>> published_;
};

}  // namespace cairn::sim

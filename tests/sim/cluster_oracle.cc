// SPDX-License-Identifier: Apache-2.0
#include "cluster_oracle.h"

#include <algorithm>
#include <utility>

#include "checkpoint/layout.h"

namespace cairn::sim {
namespace {

using checkpoint::shared::RestoredShare;
using checkpoint::shared::SharedPlace;

std::string CutName(base::CheckpointId id) { return "checkpoint " + std::to_string(id.value); }

std::string TextOf(const GroupCounts& counts) {
  std::string text = "{";
  for (const auto& [group, count] : counts) {
    text += " g" + std::to_string(group) + "=" + std::to_string(count);
  }
  return text + " }";
}

bool IsIn(uint16_t group, const std::vector<KeyGroupRange>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const KeyGroupRange& range) { return range.Contains(group); });
}

}  // namespace

ClusterOracle::ClusterOracle(World* world, Network* network, Bucket* bucket)
    : world_(world), bucket_(bucket), objects_(network, bucket, nullptr) {
  seams_.objects = &objects_;
  seams_.clock = world->clock();
  seams_.random = world->random();
  bucket->set_watcher(this);
}

const SharedPlace* ClusterOracle::Place() {
  if (place_) return &*place_;
  Result<SharedPlace> place = checkpoint::shared::ReadSharedPlace(seams_);
  if (place.ok()) return &place_.emplace(*std::move(place));
  world_->Violate("the place: " + place.status().ToString());
  return nullptr;
}

void ClusterOracle::GaveOut(base::CheckpointId id) {
  if (!given_out_.insert(id).second) world_->Violate(CutName(id) + ": the id was given out twice");
}

void ClusterOracle::Captured(base::CheckpointId id, uint64_t node, const GroupCounts& counts) {
  captured_[id][node] = counts;
}

void ClusterOracle::Acknowledged(base::CheckpointId id) {
  acknowledged_ = std::max(acknowledged_, id);
  if (latest_ < acknowledged_) world_->Violate(CutName(id) + " is acknowledged and not decided");
}

void ClusterOracle::Failed(const char* what, const Status& status, bool may_be_succeeded) {
  switch (status.code()) {
    case StatusCode::kUnavailable:
    case StatusCode::kFenced:
    case StatusCode::kCancelled:
      return;
    default:
      if (!may_be_succeeded) world_->Violate(std::string(what) + ": " + status.ToString());
  }
}

GroupCounts ClusterOracle::ModelOf(base::CheckpointId id) const {
  GroupCounts counts;
  const auto found = captured_.find(id);
  if (found == captured_.end()) return counts;
  for (const auto& [node, share] : found->second) {
    for (const auto& [group, count] : share) {
      if (count > 0) counts[group] = count;
    }
  }
  return counts;
}

void ClusterOracle::CheckLeader(uint32_t writer, uint64_t token) {
  if (token < token_) {
    world_->Violate("the head went back to leader token " + std::to_string(token) + " from " +
                    std::to_string(token_));
  }
  if (token > token_) {
    if (token_ > 0) world_->Count(Met::kTakeover);
    token_ = token;
    leader_ = writer;
  }
  if (writer != leader_) {
    world_->Violate("process " + std::to_string(writer) + " changed the head, which process " +
                    std::to_string(leader_) + " leads");
  }
}

void ClusterOracle::Admit(const SharedPlace& place, const format::IndexReference& reference) {
  const auto cut = checkpoint::shared::LoadCut(seams_, place, reference);
  if (!cut.ok()) {
    return world_->Violate(CutName(reference.id) + " is decided: " + cut.status().ToString());
  }
  Needs& needs = needs_[reference.id];
  needs.insert(checkpoint::shared::IndexKey(reference.id, reference.index_sha256));
  for (const auto& [node, manifest] : (*cut)->manifests) {
    needs.insert(checkpoint::shared::NodeManifestKey(node, reference.id));
  }
  const auto base = needs_.find((*cut)->index.base_cut);
  for (const auto& [chunk, length] : (*cut)->Objects()) {
    const std::string key =
        checkpoint::shared::NodeDataKey(chunk.participant_id, chunk.checkpoint_id);
    const bool own = chunk.checkpoint_id == reference.id;
    if (!own && (base == needs_.end() || !base->second.contains(key))) {
      world_->Violate(CutName(reference.id) + " needs " + key + ", which its base cut does not");
    }
    needs.insert(key);
  }
  models_[reference.id] = ModelOf(reference.id);
}

void ClusterOracle::OnSwapped(uint32_t writer, const std::string& key, std::string_view bytes) {
  if (key != checkpoint::kHeadKey) return;
  const Result<format::SharedHead> head = format::ParseSharedHead(bytes);
  if (!head.ok()) return world_->Violate("the head is damaged: " + head.status().ToString());
  CheckLeader(writer, head->leader.fencing_token);
  const base::CheckpointId before = latest_;
  latest_reference_ = head->latest_commit;
  latest_ = latest_reference_ ? latest_reference_->id : base::CheckpointId();
  if (latest_ < before || latest_ < acknowledged_) {
    world_->Violate("the head went back to " + CutName(latest_) + " from " +
                    CutName(std::max(before, acknowledged_)));
  }
  if (latest_ > before) world_->Count(Met::kCommit);
  counted_.clear();
  for (const format::IndexReference& cut : head->Cuts()) {
    counted_.push_back(cut.id);
    if (needs_.contains(cut.id)) continue;
    const SharedPlace* place = Place();
    if (place != nullptr) Admit(*place, cut);
  }
  for (base::CheckpointId id : counted_) {
    for (const std::string& needed : needs_[id]) {
      if (!bucket_->Has(needed)) world_->Violate(CutName(id) + " counts but lacks " + needed);
    }
  }
}

void ClusterOracle::OnDeleted(uint32_t writer, const std::string& key) {
  world_->Count(Met::kObjectDeleted);
  for (base::CheckpointId id : counted_) {
    if (!needs_[id].contains(key)) continue;
    world_->Violate("process " + std::to_string(writer) + " deleted " + key + ", which " +
                    CutName(id) + " needs");
  }
}

void ClusterOracle::Compare(base::CheckpointId id, const std::vector<KeyGroupRange>& owned,
                            const RestoredShare& restored) {
  GroupCounts expected;
  for (const auto& [group, count] : models_[id]) {
    if (IsIn(group, owned)) expected[group] = count;
  }
  GroupCounts found;
  for (const auto& [group, bytes] : restored.groups) found[group] = std::stoull(bytes);
  if (found != expected) {
    world_->Violate(CutName(id) + " came back as " + TextOf(found) + "; captured was " +
                    TextOf(expected));
  }
  const auto offsets = restored.source_offsets.find("rows");
  if (offsets == restored.source_offsets.end()) return;
  for (const auto& [split, offset] : offsets->second) {
    const auto group = static_cast<uint16_t>(std::stoul(split.substr(1)));
    const auto count = models_[id].find(group);
    const uint64_t read = count == models_[id].end() ? 0 : count->second;
    if (offset.position != std::to_string(read)) {
      world_->Violate(CutName(id) + ": offset " + offset.position + " of split " + split +
                      ", but state of " + std::to_string(read) + " rows");
    }
  }
}

void ClusterOracle::Recovered(uint64_t node, const std::vector<KeyGroupRange>& owned,
                              const RestoredShare& restored) {
  world_->Count(restored.cut.value > 0 ? Met::kRecovery : Met::kFreshStart);
  if (restored.cut.value > 0 && !models_.contains(restored.cut)) {
    world_->Violate("node " + std::to_string(node) + " recovered " + CutName(restored.cut) +
                    ", which was never decided");
  }
  Compare(restored.cut, owned, restored);
}

void ClusterOracle::Published(const std::vector<OutsideRow>& rows) {
  for (const auto& [group, row] : rows) {
    const std::string name = "row " + std::to_string(row) + " of group " + std::to_string(group);
    std::vector<bool>& published = published_[group];
    if (published.size() <= row) published.resize(row + 1, false);
    if (published[row]) world_->Violate(name + " is published twice");
    published[row] = true;
    if (row >= models_[latest_][group]) world_->Violate(name + " is published undecided");
  }
}

void ClusterOracle::CheckEnd() {
  if (!latest_reference_) return world_->Violate("nothing was ever committed");
  const SharedPlace* place = Place();
  if (place == nullptr) return;
  const auto cut = checkpoint::shared::LoadCut(seams_, *place, *latest_reference_);
  if (!cut.ok()) return world_->Violate("at the end: " + cut.status().ToString());
  const std::vector<KeyGroupRange> all = {{0, kClusterGroups}};
  const auto restored = checkpoint::shared::RestoreShare(seams_, *place, **cut, all);
  if (!restored.ok()) return world_->Violate("at the end: " + restored.status().ToString());
  Compare(latest_, all, *restored);
  for (uint16_t group = 0; group < kClusterGroups; ++group) {
    const std::vector<bool> every(models_[latest_][group], true);
    if (published_[group] != every) {
      world_->Violate("rows of group " + std::to_string(group) + " are missing at the end");
    }
  }
  Needs needed;
  for (base::CheckpointId id : counted_) needed.insert(needs_[id].begin(), needs_[id].end());
  for (const std::string_view prefix :
       {checkpoint::kNodesPrefix, checkpoint::shared::kCommittedPrefix}) {
    for (const env::ObjectInfo& object : bucket_->List(std::string(prefix), 0)) {
      if (!needed.contains(object.key)) world_->Violate(object.key + " is left over at the end");
    }
  }
}

}  // namespace cairn::sim

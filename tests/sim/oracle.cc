// SPDX-License-Identifier: Apache-2.0
#include "oracle.h"

#include <algorithm>
#include <utility>

#include "checkpoint/layout.h"
#include "checkpoint/place.h"
#include "format/manifest.h"

namespace cairn::sim {
namespace {

std::string Describe(const CutContent& content) {
  std::string text = "offset " + std::to_string(content.offset) + ", rows {";
  for (const auto& [key, value] : content.rows)
    text += " " + key + "=" + value.substr(0, value.find(' '));
  text += " }, pieces {";
  for (const PreparedPiece& piece : content.pieces) {
    text += " " + std::to_string(piece.checkpoint.value) + ":" + piece.descriptor;
  }
  return text + " }";
}

}  // namespace

std::string Oracle::NameOf(base::CheckpointId id) {
  return id.value == 0 ? "none" : "checkpoint " + std::to_string(id.value);
}

void Oracle::GaveOut(base::CheckpointId id) {
  if (!given_out_.insert(id).second) world_->Violate(NameOf(id) + ": the id was given out twice");
}

void Oracle::Captured(base::CheckpointId id, CutContent content) {
  captured_[id] = std::move(content);
}

void Oracle::Acknowledged(base::CheckpointId id) {
  acknowledged_ = std::max(acknowledged_, id);
  world_->Count(Met::kCommit);
}

void Oracle::Failed(uint32_t incarnation, const char* what, const Status& status) {
  switch (status.code()) {
    case StatusCode::kUnavailable:
    case StatusCode::kFenced:
      return;
    default:
      // A process that was succeeded may find that what it reads has gone.
      if (owner_ != incarnation) return;
      world_->Violate(std::string(what) + ": " + status.ToString());
  }
}

void Oracle::CheckOwner(uint32_t writer) {
  if (deposed_.contains(writer)) {
    world_->Violate("process " + std::to_string(writer) + " changed the head after process " +
                    std::to_string(owner_.value_or(0)) + " had succeeded it");
  }
  if (owner_ == writer) return;
  if (owner_) {
    if (opened_.contains(*owner_)) deposed_.insert(*owner_);
    world_->Count(Met::kTakeover);
  }
  owner_ = writer;
}

void Oracle::Admit(base::CheckpointId id) {
  const std::string* bytes = bucket_->Find(checkpoint::ManifestKey(id));
  if (bytes == nullptr) return world_->Violate(NameOf(id) + " is decided, its manifest is missing");
  const Result<format::CheckpointManifest> manifest = format::ParseManifest(*bytes);
  if (!manifest.ok()) return world_->Violate(NameOf(id) + ": " + manifest.status().ToString());
  Needs& needs = needs_[id];
  needs.insert(checkpoint::ManifestKey(id));
  const auto base = needs_.find(manifest->base_checkpoint_id);
  for (const checkpoint::ObjectExtent& object : checkpoint::ObjectsOf(*manifest)) {
    const std::string key = object.key();
    const bool own = object.chunk.checkpoint_id == id;
    if (!own && (base == needs_.end() || !base->second.contains(key))) {
      world_->Violate(NameOf(id) + " needs " + key + ", which its base cut does not");
    }
    needs.insert(key);
  }
}

void Oracle::OnSwapped(uint32_t writer, const std::string& key, std::string_view bytes) {
  if (key != checkpoint::kHeadKey) return;
  CheckOwner(writer);
  const Result<format::DecisionHead> head = format::ParseDecisionHead(bytes);
  if (!head.ok()) return world_->Violate("the head is damaged: " + head.status().ToString());
  const base::CheckpointId before = latest_;
  latest_ = head->latest_commit ? head->latest_commit->id : base::CheckpointId();
  if (latest_ < before) {
    world_->Violate("the head went back from " + NameOf(before) + " to " + NameOf(latest_));
  }
  if (latest_ < acknowledged_) {
    world_->Violate(NameOf(acknowledged_) + " was acknowledged; the head names " + NameOf(latest_));
  }
  counted_.clear();
  if (head->latest_commit) counted_.push_back(latest_);
  for (const format::CutReference& cut : head->retained) counted_.push_back(cut.id);
  for (base::CheckpointId id : counted_) {
    if (!needs_.contains(id)) Admit(id);
    for (const std::string& needed : needs_[id]) {
      if (!bucket_->Has(needed)) world_->Violate(NameOf(id) + " counts but lacks " + needed);
    }
  }
  if (!opened_.contains(writer)) found_at_takeover_[writer] = latest_;
}

void Oracle::OnDeleted(uint32_t writer, const std::string& key) {
  world_->Count(Met::kObjectDeleted);
  for (base::CheckpointId id : counted_) {
    if (!needs_[id].contains(key)) continue;
    world_->Violate("process " + std::to_string(writer) + " deleted " + key + ", which " +
                    NameOf(id) + " needs");
  }
}

void Oracle::Recovered(uint32_t incarnation, std::optional<base::CheckpointId> id,
                       const CutContent& content) {
  world_->Count(id ? Met::kRecovery : Met::kFreshStart);
  const base::CheckpointId found = id.value_or(base::CheckpointId());
  const base::CheckpointId expected = found_at_takeover_[incarnation];
  if (found != expected) {
    world_->Violate("process " + std::to_string(incarnation) + " recovered " + NameOf(found) +
                    "; it took over with " + NameOf(expected));
  }
  if (found < acknowledged_ && owner_ == incarnation) {
    world_->Violate(NameOf(acknowledged_) + " was acknowledged; recovery found " + NameOf(found));
  }
  const CutContent& captured = captured_[found];
  if (content == captured) return;
  world_->Violate(NameOf(found) + " came back as " + Describe(content) + "; captured was " +
                  Describe(captured));
}

void Oracle::Published(uint64_t first, uint64_t end) {
  if (published_.size() < end) published_.resize(end, false);
  if (end > captured_[latest_].offset) {
    world_->Violate("row " + std::to_string(end - 1) + " is published before it is decided");
  }
  for (uint64_t row = first; row < end; ++row) {
    if (published_[row]) world_->Violate("row " + std::to_string(row) + " is published twice");
    published_[row] = true;
  }
}

void Oracle::CheckEnd(uint64_t offset) {
  if (published_.size() != offset) {
    world_->Violate(std::to_string(published_.size()) + " rows are published, " +
                    std::to_string(offset) + " were read");
  }
  const auto missing = std::find(published_.begin(), published_.end(), false);
  if (missing != published_.end()) {
    world_->Violate("row " + std::to_string(missing - published_.begin()) + " is never published");
  }
  Needs needed;
  for (base::CheckpointId id : counted_) needed.insert(needs_[id].begin(), needs_[id].end());
  for (const std::string& key : needed) {
    if (!bucket_->Has(key)) world_->Violate(key + " is missing at the end");
  }
  for (const env::ObjectInfo& object : bucket_->List(std::string(checkpoint::kNodesPrefix), 0)) {
    if (!needed.contains(object.key)) world_->Violate(object.key + " is left over at the end");
  }
}

}  // namespace cairn::sim

// SPDX-License-Identifier: Apache-2.0
//
// Oracle: what must hold at every moment, whoever fails. It sees every effect in the bucket and
// hears from every process what it captured, was promised and found again.
//
//  1. What a recovery finds is the cut that the head named when the process took over, and equal to
//     the model of that cut: rows, source offset, prepared pieces.
//  2. An acknowledged checkpoint is in the head from then on, or one built on it.
//  3. An id is given out once.
//  4. An open process that another has succeeded never changes the head again.
//  5. Every object that a cut of the head needs is there; a cut needs only its own and what its
//     base cut needs.
//  6. Every row of the input is published once, and only after a cut that covers it was decided.
//  7. After the last, undisturbed process: nothing is there that no cut needs, no row is missing.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "bucket.h"
#include "checkpoint/cut.h"
#include "checkpoint/job_testing.h"
#include "format/store_records.h"
#include "world.h"

namespace cairn::sim {

using checkpoint::PreparedPiece;
using checkpoint::testing::Rows;

/// What a cut is to hold.
struct CutContent {
  uint64_t offset = 0;
  Rows rows;
  std::vector<PreparedPiece> pieces;
  friend bool operator==(const CutContent&, const CutContent&) = default;
};

class Oracle final : public BucketWatcher {
 public:
  Oracle(World* world, Bucket* bucket) : world_(world), bucket_(bucket) {
    bucket->set_watcher(this);
  }

  /// `incarnation` has opened the place. Until then it may take over from who overtook it.
  void Opened(uint32_t incarnation) {
    opened_.insert(incarnation);
    if (owner_ != incarnation) deposed_.insert(incarnation);
  }
  void GaveOut(base::CheckpointId id);
  void Captured(base::CheckpointId id, CutContent content);
  void Acknowledged(base::CheckpointId id);
  void Recovered(uint32_t incarnation, std::optional<base::CheckpointId> id,
                 const CutContent& content);
  void Published(uint64_t first, uint64_t end);
  /// A status that no fault of the simulation explains is a violation.
  void Failed(uint32_t incarnation, const char* what, const Status& status);

  /// All is over: the input up to `offset` is published, and only what is needed is left.
  void CheckEnd(uint64_t offset);

  bool IsDeposed(uint32_t incarnation) const { return deposed_.contains(incarnation); }
  base::CheckpointId latest() const { return latest_; }

  void OnSwapped(uint32_t writer, const std::string& key, std::string_view bytes) override;
  void OnDeleted(uint32_t writer, const std::string& key) override;

 private:
  /// Keys that a committed cut needs.
  using Needs = std::set<std::string>;

  void CheckOwner(uint32_t writer);
  /// Read the manifest of a cut that has just been decided, and check what it needs.
  void Admit(base::CheckpointId id);
  static std::string NameOf(base::CheckpointId id);

  World* world_;
  Bucket* bucket_;
  std::set<base::CheckpointId> given_out_;
  std::map<base::CheckpointId, CutContent> captured_;
  std::map<base::CheckpointId, Needs> needs_;  // of every cut that was ever decided
  std::vector<base::CheckpointId> counted_;    // cuts in the head
  base::CheckpointId latest_;
  base::CheckpointId acknowledged_;
  std::map<uint32_t, base::CheckpointId> found_at_takeover_;
  std::optional<uint32_t> owner_;
  std::set<uint32_t> opened_;
  std::set<uint32_t> deposed_;
  std::vector<bool> published_;
};

}  // namespace cairn::sim

// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shared/retire.h"

#include <algorithm>
#include <set>
#include <utility>

#include "checkpoint/layout.h"

namespace cairn::checkpoint::shared {
namespace {

using Phase = format::RetentionHead::Phase;

bool IsPinned(const format::SharedHead& head, base::CheckpointId id) {
  return std::any_of(head.pins.begin(), head.pins.end(),
                     [&](const format::SharedPin& pin) { return pin.checkpoint_id == id; });
}

bool IsBase(const format::SharedHead& head, base::CheckpointId id) {
  return std::any_of(head.active_attempts.begin(), head.active_attempts.end(),
                     [&](const format::ActiveAttempt& attempt) { return attempt.base_cut == id; });
}

/// True when `id` may leave the head now.
bool MayRetire(const format::SharedHead& head, base::CheckpointId id, uint32_t retained) {
  return head.retained.size() + 1 > retained && head.latest_commit->id != id &&
         !IsPinned(head, id) && !IsBase(head, id);
}

std::optional<format::IndexReference> FindRetirable(const format::SharedHead& head,
                                                    uint32_t retained) {
  for (auto cut = head.retained.rbegin(); cut != head.retained.rend(); ++cut) {
    if (MayRetire(head, cut->id, retained)) return *cut;
  }
  return std::nullopt;
}

/// One retirement, from wherever its journal stands.
class Retirement {
 public:
  Retirement(const Seams& seams, const SharedPlace& place, const format::LeaderProof& leader,
             const RetireOptions& options)
      : seams_(seams), place_(place), leader_(leader), options_(options) {}

  Result<RetireOutcome> Run(PinWatch* pins) {
    CAIRN_RETURN_IF_ERROR(ReadJournal());
    if (journal_.phase == Phase::kIdle) {
      CAIRN_RETURN_IF_ERROR(DropExpiredPins(pins));
      CAIRN_RETURN_IF_ERROR(Plan());
      if (journal_.phase == Phase::kIdle) return RetireOutcome();
    }
    if (journal_.phase == Phase::kDeleteData) {
      CAIRN_ASSIGN_OR_RETURN(const bool dropped, DropFromHead());
      if (!dropped) {
        CAIRN_RETURN_IF_ERROR(Enter(Phase::kIdle));
        return RetireOutcome();
      }
      CAIRN_RETURN_IF_ERROR(DeleteData());
      CAIRN_RETURN_IF_ERROR(Enter(Phase::kDeleteMetadata));
    }
    outcome_.retired = journal_.retired->id;
    CAIRN_RETURN_IF_ERROR(DeleteMetadata());
    CAIRN_RETURN_IF_ERROR(Enter(Phase::kIdle));
    return outcome_;
  }

 private:
  Status ReadJournal() {
    CAIRN_ASSIGN_OR_RETURN(Seen<format::RetentionHead> seen,
                           ReadSeen(seams_.objects, std::string(kRetentionHeadKey),
                                    format::kRetentionHeadBytesMax, &format::ParseRetentionHead));
    version_ = seen.version;
    if (seen.record) {
      journal_ = *std::move(seen.record);
    } else {
      journal_.deployment_id = place_.identity.deployment_id;
      journal_.seq = 0;
    }
    return {};
  }

  /// Swap the journal. Another leader's change ends this retirement.
  Status Enter(Phase phase) {
    format::RetentionHead next = journal_;
    next.phase = phase;
    ++next.seq;
    if (phase == Phase::kIdle) {
      next.retired.reset();
      next.protected_cut.reset();
    }
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeRetentionHead(next));
    CAIRN_ASSIGN_OR_RETURN(
        version_, SwapRecord(seams_.objects, std::string(kRetentionHeadKey), version_, bytes));
    journal_ = std::move(next);
    return {};
  }

  Status DropExpiredPins(PinWatch* pins) {
    const int64_t now_ns = seams_.clock->MonotonicNanos();
    return ChangeHead(seams_, place_, &leader_,
                      [&](format::SharedHead* head) -> Result<bool> {
                        return std::erase_if(head->pins, [&](const format::SharedPin& pin) {
                                 return !pins->IsLive(pin, now_ns);
                               }) > 0;
                      })
        .status();
  }

  /// Verify what is kept, then choose and note the cut to go.
  Status Plan() {
    CAIRN_ASSIGN_OR_RETURN(const SeenHead seen, ReadHead(seams_, place_));
    const std::optional<format::IndexReference> oldest =
        FindRetirable(*seen.record, options_.retained);
    if (!oldest) return {};
    seams_.Reach(ProtocolStep::kRetire, options_.node, oldest->id);
    for (const format::IndexReference& kept : seen.record->Cuts()) {
      CAIRN_ASSIGN_OR_RETURN(const auto cut, LoadCut(seams_, place_, kept));
      if (kept.id == oldest->id) continue;
      const Status there = CheckCutObjects(seams_, *cut);
      if (!there.ok()) {
        return there.WithContext("kept checkpoint " + std::to_string(kept.id.value) +
                                 " is damaged, so nothing is deleted");
      }
    }
    journal_.retired = *oldest;
    journal_.protected_cut = *seen.record->latest_commit;
    return Enter(Phase::kDeleteData);
  }

  /// False: the cut was pinned or built on meanwhile, and stays.
  Result<bool> DropFromHead() {
    const base::CheckpointId id = journal_.retired->id;
    bool dropped = false;
    CAIRN_ASSIGN_OR_RETURN(
        head_, ChangeHead(seams_, place_, &leader_, [&](format::SharedHead* head) -> Result<bool> {
          dropped = head->FindCut(id) == nullptr;
          if (dropped || !MayRetire(*head, id, options_.retained)) return false;
          std::erase_if(head->retained,
                        [&](const format::IndexReference& cut) { return cut.id == id; });
          const std::vector<format::IndexReference> kept = head->Cuts();
          head->floor = std::max(head->floor, kept.back().id);
          return dropped = true;
        }));
    return dropped;
  }

  Status DeleteData() {
    CAIRN_ASSIGN_OR_RETURN(const auto retired, LoadCut(seams_, place_, *journal_.retired));
    std::map<format::StateChunkId, uint64_t> objects = retired->Objects();
    for (const format::IndexReference& kept : head_.Cuts()) {
      CAIRN_ASSIGN_OR_RETURN(const auto cut, LoadCut(seams_, place_, kept));
      for (const auto& [chunk, length] : cut->Objects()) objects.erase(chunk);
    }
    for (const auto& [chunk, length] : objects) {
      CAIRN_RETURN_IF_ERROR(
          seams_.objects->Delete(NodeDataKey(chunk.participant_id, chunk.checkpoint_id)));
      ++outcome_.objects_deleted;
    }
    return {};
  }

  /// The index goes last: it says which manifests there are.
  Status DeleteMetadata() {
    const format::IndexReference& cut = *journal_.retired;
    const std::string key = IndexKey(cut.id, cut.index_sha256);
    CAIRN_ASSIGN_OR_RETURN(const Seen<format::CommittedIndex> seen,
                           ReadSeen(seams_.objects, key, format::kCommittedIndexBytesMax,
                                    &format::ParseCommittedIndex));
    if (!seen.record) return {};
    for (const format::IndexedParticipant& participant : seen.record->participants) {
      CAIRN_RETURN_IF_ERROR(
          seams_.objects->Delete(NodeManifestKey(participant.participant_id, cut.id)));
    }
    return seams_.objects->Delete(key);
  }

  const Seams& seams_;
  const SharedPlace& place_;
  const format::LeaderProof& leader_;
  const RetireOptions& options_;
  format::RetentionHead journal_;
  std::optional<std::string> version_;
  format::SharedHead head_;  // as it was after the cut had left it
  RetireOutcome outcome_;
};

/// Every key that a kept cut consists of.
Result<std::set<std::string>> KeysOfCuts(const Seams& seams, const SharedPlace& place,
                                         const format::SharedHead& head) {
  std::set<std::string> keys;
  for (const format::IndexReference& kept : head.Cuts()) {
    CAIRN_ASSIGN_OR_RETURN(const auto cut, LoadCut(seams, place, kept));
    keys.insert(IndexKey(kept.id, kept.index_sha256));
    for (const auto& [node, manifest] : cut->manifests) {
      keys.insert(NodeManifestKey(node, kept.id));
    }
    for (const auto& [chunk, length] : cut->Objects()) {
      keys.insert(NodeDataKey(chunk.participant_id, chunk.checkpoint_id));
    }
  }
  return keys;
}

/// Objects of this id and above may be of an attempt that is still to be decided.
base::CheckpointId FirstUndecided(const format::SharedHead& head) {
  if (!head.active_attempts.empty()) return head.active_attempts.front().id;
  uint64_t decided = head.latest_commit ? head.latest_commit->id.value : 0;
  if (head.latest_terminal) decided = std::max(decided, head.latest_terminal->id.value);
  return base::CheckpointId(decided + 1);
}

}  // namespace

bool PinWatch::IsLive(const format::SharedPin& pin, int64_t now_ns) {
  const auto [at, fresh] =
      watched_.try_emplace(pin.kind + "/" + pin.name, Watched{pin.renew_seq, pin.owner, now_ns});
  Watched& watched = at->second;
  if (fresh || watched.renew_seq != pin.renew_seq || watched.owner != pin.owner) {
    watched = {pin.renew_seq, pin.owner, now_ns};
    return true;
  }
  return (now_ns - watched.since_ns) / 1'000'000 < static_cast<int64_t>(pin.ttl_ms);
}

Result<RetireOutcome> RetireOneCut(const Seams& seams, const SharedPlace& place,
                                   const format::LeaderProof& leader, const RetireOptions& options,
                                   PinWatch* pins) {
  return Retirement(seams, place, leader, options).Run(pins);
}

Result<SweepOutcome> SweepOrphans(const Seams& seams, const SharedPlace& place, int64_t grace_ms) {
  SweepOutcome outcome;
  CAIRN_ASSIGN_OR_RETURN(const SeenHead seen, ReadHead(seams, place));
  if (!seen.record) return outcome;
  // A retirement under way still needs the manifests of its cut, which no head names. Its journal
  // is looked at after the head: a cut that has left the head is in it, or is gone altogether.
  CAIRN_ASSIGN_OR_RETURN(const Seen<format::RetentionHead> journal,
                         ReadSeen(seams.objects, std::string(kRetentionHeadKey),
                                  format::kRetentionHeadBytesMax, &format::ParseRetentionHead));
  if (journal.record && journal.record->phase != Phase::kIdle) return outcome;
  CAIRN_ASSIGN_OR_RETURN(const std::set<std::string> kept, KeysOfCuts(seams, place, *seen.record));
  const base::CheckpointId undecided = FirstUndecided(*seen.record);
  for (const std::string_view prefix : {kNodesPrefix, kCommittedPrefix}) {
    CAIRN_ASSIGN_OR_RETURN(const std::vector<env::ObjectInfo> found,
                           seams.objects->List(std::string(prefix)));
    for (const env::ObjectInfo& info : found) {
      const std::optional<KeyOwner> owner = OwnerOfKey(info.key);
      if (!owner || owner->id >= undecided || kept.contains(info.key)) continue;
      if (seams.clock->UnixMillis() - info.modified_unix_ms < grace_ms) continue;
      CAIRN_RETURN_IF_ERROR(seams.objects->Delete(info.key));
      outcome.deleted.push_back(info.key);
    }
  }
  return outcome;
}

}  // namespace cairn::checkpoint::shared

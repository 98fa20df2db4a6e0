// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shared/decision.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "checkpoint/layout.h"

namespace cairn::checkpoint::shared {
namespace {

/// How often a change is begun anew because another process was faster.
constexpr int kContentionAttempts = 16;

Status CheckEmptyPlace(const Seams& seams) {
  for (const std::string_view prefix : {kNodesPrefix, kCommittedPrefix}) {
    CAIRN_ASSIGN_OR_RETURN(const std::vector<env::ObjectInfo> content,
                           seams.objects->List(std::string(prefix)));
    if (content.empty()) continue;
    return Status::Corruption("damaged store: " + std::string(kHeadKey) +
                              " is missing though there are checkpoints, such as " +
                              content.front().key);
  }
  return {};
}

/// Let `change` run on a freshly read head until its swap is not overtaken. A head that is not
/// there is `fresh`.
Result<format::SharedHead> ChangeSeenHead(
    const Seams& seams, const SharedPlace& place,
    const std::function<Result<bool>(format::SharedHead*, bool fresh)>& change) {
  Status failed;
  for (int attempt = 0; attempt < kContentionAttempts; ++attempt) {
    CAIRN_ASSIGN_OR_RETURN(SeenHead seen, ReadHead(seams, place));
    format::SharedHead head;
    const bool fresh = !seen.record;
    if (fresh) {
      head.deployment_id = place.identity.deployment_id;
      head.seq = 0;
    } else {
      head = *std::move(seen.record);
    }
    CAIRN_ASSIGN_OR_RETURN(const bool changed, change(&head, fresh));
    if (!changed) return head;
    ++head.seq;
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeSharedHead(head));
    Result<std::string> version =
        SwapRecord(seams.objects, std::string(kHeadKey), seen.version, bytes);
    if (version.ok()) return head;
    failed = version.status();
    if (failed.code() != StatusCode::kFenced) return failed;
  }
  return Status::Unavailable("the decision head changes all the time: " +
                             std::string(failed.message()));
}

Status TakenOver(const format::LeaderProof& by) {
  return Status::Fenced("node " + std::to_string(by.owner.node) + ", token " +
                        std::to_string(by.fencing_token) + ", leads now");
}

}  // namespace

Result<SeenHead> ReadHead(const Seams& seams, const SharedPlace& place) {
  CAIRN_ASSIGN_OR_RETURN(SeenHead seen,
                         ReadSeen(seams.objects, std::string(kHeadKey), format::kSharedHeadBytesMax,
                                  &format::ParseSharedHead));
  if (!seen.record) {
    const Status empty = CheckEmptyPlace(seams);
    if (empty.ok()) return seen;
    // The first leader may have made it meanwhile.
    CAIRN_ASSIGN_OR_RETURN(seen, ReadSeen(seams.objects, std::string(kHeadKey),
                                          format::kSharedHeadBytesMax, &format::ParseSharedHead));
    if (!seen.record) return empty;
  }
  if (seen.record->deployment_id != place.identity.deployment_id) {
    return Status::Corruption("damaged store: the decision head is of deployment " +
                              seen.record->deployment_id + ", the place of " +
                              place.identity.deployment_id);
  }
  return seen;
}

Result<format::SharedHead> ChangeHead(const Seams& seams, const SharedPlace& place,
                                      const format::LeaderProof* leader, const HeadChange& change) {
  return ChangeSeenHead(seams, place, [&](format::SharedHead* head, bool fresh) -> Result<bool> {
    if (fresh) return Status::NotFound("no leader has made the decision head yet");
    if (leader != nullptr && head->leader != *leader) return TakenOver(head->leader);
    return change(head);
  });
}

Result<format::SharedHead> ClaimHead(const Seams& seams, const SharedPlace& place,
                                     const format::LeaderProof& leader) {
  return ChangeSeenHead(seams, place, [&](format::SharedHead* head, bool) -> Result<bool> {
    if (head->leader == leader) return false;
    if (head->leader.fencing_token >= leader.fencing_token) return TakenOver(head->leader);
    head->leader = leader;
    return true;
  });
}

Result<base::CheckpointId> AllocateId(const Seams& seams) {
  const std::string key(kAllocatorKey);
  for (int attempt = 0; attempt < kContentionAttempts; ++attempt) {
    CAIRN_ASSIGN_OR_RETURN(
        Seen<format::IdAllocator> seen,
        ReadSeen(seams.objects, key, format::kAllocatorBytesMax, &format::ParseIdAllocator));
    format::IdAllocator next = seen.record.value_or(format::IdAllocator());
    const base::CheckpointId id = next.next_id;
    next.next_id = base::CheckpointId(id.value + 1);
    next.last_allocation_id = seams.NewUuid();  // by which a lost answer is recognised
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeIdAllocator(next));
    Result<std::string> version = SwapRecord(seams.objects, key, seen.version, bytes);
    if (version.ok()) return id;
    if (version.status().code() != StatusCode::kFenced) return std::move(version).status();
  }
  return Status::Unavailable("the allocator changes all the time");
}

Status PinCut(const Seams& seams, const SharedPlace& place, const format::SharedPin& pin) {
  return ChangeHead(seams, place, nullptr,
                    [&](format::SharedHead* head) -> Result<bool> {
                      const auto order = [](const format::SharedPin& p) {
                        return std::tie(p.kind, p.name);
                      };
                      if (head->FindCut(pin.checkpoint_id) == nullptr) {
                        return Status::NotFound("cut " + std::to_string(pin.checkpoint_id.value) +
                                                " is not kept any more");
                      }
                      const auto at = std::lower_bound(
                          head->pins.begin(), head->pins.end(), pin,
                          [&](const auto& a, const auto& b) { return order(a) < order(b); });
                      if (at == head->pins.end() || order(*at) != order(pin)) {
                        if (head->pins.size() >= format::kSharedPinsMax) {
                          return Status::ResourceExhausted("there are 128 pins already");
                        }
                        head->pins.insert(at, pin);
                        return true;
                      }
                      if (at->owner != pin.owner) {
                        return Status::AlreadyExists("pin '" + pin.name + "' is of " + at->owner);
                      }
                      if (*at == pin) return false;
                      *at = pin;
                      return true;
                    })
      .status();
}

Status UnpinCut(const Seams& seams, const SharedPlace& place, std::string_view kind,
                std::string_view name) {
  return ChangeHead(seams, place, nullptr,
                    [&](format::SharedHead* head) -> Result<bool> {
                      return std::erase_if(head->pins, [&](const format::SharedPin& pin) {
                               return pin.kind == kind && pin.name == name;
                             }) > 0;
                    })
      .status();
}

}  // namespace cairn::checkpoint::shared

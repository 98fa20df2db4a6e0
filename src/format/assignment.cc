// SPDX-License-Identifier: Apache-2.0
#include "format/assignment.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coding.h"
#include "base/ids.h"
#include "format/record_json.h"

namespace cairn::format {
namespace {

/// SHA-256 over parts, each after its length.
class PartsHash {
 public:
  explicit PartsHash(std::string_view domain) { Add(domain); }
  void Add(std::string_view part) {
    AddLength(part.size());
    hash_.Update(part);
  }
  template <class T>
  void AddInteger(T value) {
    char bytes[sizeof(T)];
    base::StoreLE<T>(bytes, value);
    Add({bytes, sizeof(bytes)});
  }
  base::Sha256Digest Finish() { return hash_.Finish(); }

 private:
  void AddLength(uint64_t length) {
    char bytes[8];
    base::StoreLE<uint64_t>(bytes, length);
    hash_.Update({bytes, sizeof(bytes)});
  }
  base::Sha256 hash_;
};

/// The 16 bytes of a canonical UUID.
std::string UuidBytes(std::string text) {
  std::erase(text, '-');
  std::string bytes;
  base::FromHex(text, &bytes);
  return bytes;
}

Status BadField(std::string_view what) { return Status::Corruption(std::string(what)); }

}  // namespace

const ProcessIdentity* AssignmentFence::Find(uint64_t node) const {
  const auto found =
      std::lower_bound(participants.begin(), participants.end(), node,
                       [](const ProcessIdentity& p, uint64_t key) { return p.node < key; });
  return found != participants.end() && found->node == node ? &*found : nullptr;
}

bool ClusterShare::Owns(uint32_t first_group, uint32_t last_group) const {
  return std::any_of(owned_key_groups.begin(), owned_key_groups.end(),
                     [&](const KeyGroupRange& range) {
                       return range.first <= first_group && last_group < range.last;
                     });
}

base::Sha256Digest OwnerMapDigest(uint16_t partitioning_abi, std::span<const uint64_t> owners) {
  PartsHash hash("cairn/key-group-owner-map/v1");
  hash.AddInteger<uint16_t>(partitioning_abi);
  hash.AddInteger<uint32_t>(static_cast<uint32_t>(owners.size()));
  std::string nodes;
  for (uint64_t owner : owners) base::AppendLE<uint64_t>(&nodes, owner);
  hash.Add(nodes);
  return hash.Finish();
}

base::Sha256Digest AssignmentFenceDigest(const AssignmentFence& fence) {
  PartsHash hash("cairn/assignment-fence/v1");
  hash.AddInteger<uint64_t>(fence.version);
  hash.AddInteger<uint16_t>(fence.partitioning_abi);
  hash.AddInteger<uint32_t>(fence.key_groups);
  hash.Add({reinterpret_cast<const char*>(fence.owner_map_sha256.data()),
            fence.owner_map_sha256.size()});
  std::string participants;
  for (const ProcessIdentity& participant : fence.participants) {
    base::AppendLE<uint64_t>(&participants, participant.node);
    participants += UuidBytes(participant.boot);
  }
  hash.Add(participants);
  return hash.Finish();
}

Status CheckAssignmentFence(const AssignmentFence& fence) {
  if (fence.version == 0) return BadField("assignment_fence.version is 0");
  if (fence.partitioning_abi != 1) return BadField("assignment_fence.partitioning_abi is not 1");
  if (fence.key_groups < 1 || fence.key_groups > kMaxKeyGroups) {
    return BadField(fmt::format("assignment_fence.key_groups {} is not 1..{}", fence.key_groups,
                                kMaxKeyGroups));
  }
  if (fence.participants.empty() || fence.participants.size() > kParticipantsMax) {
    return BadField(fmt::format("assignment_fence.participants are {}, not 1..{}",
                                fence.participants.size(), kParticipantsMax));
  }
  uint64_t before = 0;
  for (const ProcessIdentity& participant : fence.participants) {
    if (participant.node <= before || !base::IsCanonicalUuid(participant.boot)) {
      return BadField(fmt::format(
          "assignment_fence.participants: {} is 0, twice, out of order or without a boot UUID",
          participant.node));
    }
    before = participant.node;
  }
  return {};
}

Status CheckLeaderProof(const LeaderProof& leader) {
  if (leader.owner.node == 0 || !base::IsCanonicalUuid(leader.owner.boot)) {
    return BadField("leader names no process");
  }
  if (leader.term == 0 || leader.fencing_token == 0) {
    return BadField("leader has no term or fencing token");
  }
  return {};
}

Json ToJson(const ProcessIdentity& process) {
  return {{"boot", process.boot}, {"node", process.node}};
}
void Read(FieldReader* in, ProcessIdentity* process) {
  in->Read("boot", &process->boot);
  in->Read("node", &process->node);
}

Json ToJson(const LeaderProof& leader) {
  return {{"boot", leader.owner.boot},
          {"fencing_token", leader.fencing_token},
          {"node", leader.owner.node},
          {"term", leader.term}};
}
void Read(FieldReader* in, LeaderProof* leader) {
  Read(in, &leader->owner);
  in->Read("fencing_token", &leader->fencing_token);
  in->Read("term", &leader->term);
}

Json ToJson(const AssignmentFence& fence) {
  Json participants = Json::array();
  for (const ProcessIdentity& participant : fence.participants) {
    participants.push_back(ToJson(participant));
  }
  return {{"key_groups", fence.key_groups},
          {"owner_map_sha256", base::ToHex(fence.owner_map_sha256)},
          {"participants", std::move(participants)},
          {"partitioning_abi", fence.partitioning_abi},
          {"version", fence.version}};
}
void Read(FieldReader* in, AssignmentFence* fence) {
  in->Read("key_groups", &fence->key_groups);
  in->Read("owner_map_sha256", &fence->owner_map_sha256);
  in->ReadArray("participants",
                [&](FieldReader* r) { Read(r, &fence->participants.emplace_back()); });
  in->Read("partitioning_abi", &fence->partitioning_abi);
  in->Read("version", &fence->version);
}

Json ToJson(const ClusterShare& share) {
  Json owned = Json::array();
  for (const KeyGroupRange& range : share.owned_key_groups) {
    owned.push_back({{"first", range.first}, {"last", range.last - 1}});
  }
  return {{"assignment_fence", ToJson(share.fence)},
          {"leader", ToJson(share.leader)},
          {"owned_key_groups", std::move(owned)}};
}
void Read(FieldReader* in, ClusterShare* share) {
  in->ReadObject("assignment_fence", [&](FieldReader* r) { Read(r, &share->fence); });
  in->ReadObject("leader", [&](FieldReader* r) { Read(r, &share->leader); });
  in->ReadArray("owned_key_groups", [&](FieldReader* r) {
    uint16_t first = 0;
    uint16_t last = 0;  // inclusive, as in frames
    r->Read("first", &first);
    r->Read("last", &last);
    share->owned_key_groups.push_back({first, last + 1u});
  });
}

}  // namespace cairn::format

// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shared/lease_chain.h"

#include <utility>

namespace cairn::checkpoint::shared {
namespace {

constexpr size_t kLinkDigits = 16;
constexpr int kDeadLinksMax = 64;
constexpr uint64_t kLinksKept = 8;

Status HeldBy(const format::LeaseLink& link, const std::string& prefix) {
  return Status::Fenced(prefix + " is held by node " + std::to_string(link.proof.owner.node) +
                        ", boot " + link.proof.owner.boot + ", token " +
                        std::to_string(link.proof.fencing_token));
}

}  // namespace

LeaseChain::LeaseChain(const Seams& seams, std::string prefix, format::ProcessIdentity self,
                       uint64_t ttl_ms)
    : seams_(seams), prefix_(std::move(prefix)), self_(std::move(self)), ttl_ms_(ttl_ms) {}

std::string LeaseChain::LinkKey(uint64_t seq) const {
  const std::string digits = std::to_string(seq);
  const size_t padding = digits.size() < kLinkDigits ? kLinkDigits - digits.size() : 0;
  return prefix_ + "v" + std::string(padding, '0') + digits + ".json";
}

Result<LeaseChain::Look> LeaseChain::LookAt() {
  Look look;
  CAIRN_ASSIGN_OR_RETURN(look.head, ReadSeen(seams_.objects, HeadKey(), format::kLeaseHeadBytesMax,
                                             &format::ParseLeaseHead));
  if (!look.head.record) return look;
  const std::string key = LinkKey(look.head.record->seq);
  CAIRN_ASSIGN_OR_RETURN(
      Seen<format::LeaseLink> link,
      ReadSeen(seams_.objects, key, format::kLeaseRecordBytesMax, &format::ParseLeaseLink));
  if (!link.record) return Status::Corruption("damaged store: " + key + " is missing");
  look.link = std::move(link.record);
  return look;
}

bool LeaseChain::IsFree(const Look& look) {
  if (!look.head.record || look.head.record->released || look.link->kind == "fence") return true;
  const int64_t now_ns = seams_.clock->MonotonicNanos();
  if (watched_version_ != look.head.version) {
    watched_version_ = look.head.version;
    watched_since_ns_ = now_ns;
    return false;
  }
  return now_ns - watched_since_ns_ >= static_cast<int64_t>(look.link->ttl_ms) * 1'000'000;
}

Status LeaseChain::Take(const std::string& kind, const Look& look) {
  format::LeaseLink link;
  link.kind = kind;
  link.ttl_ms = ttl_ms_;
  link.proof.owner = self_;
  link.proof.term = look.link ? look.link->proof.term + 1 : 1;
  uint64_t seq = look.head.record ? look.head.record->seq + 1 : 1;
  for (int dead = 0;; ++dead) {
    link.proof.fencing_token = seq;
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeLeaseLink(link));
    // A link whose maker did not get as far as the head is passed over: should it still live, its
    // swap of the head fails after ours, or ours after its.
    Result<std::string> made = SwapRecord(seams_.objects, LinkKey(seq), std::nullopt, bytes);
    if (made.ok()) break;
    if (made.status().code() != StatusCode::kFenced || dead == kDeadLinksMax) {
      return std::move(made).status();
    }
    ++seq;
  }
  const format::LeaseHead head{seq, 0, false};
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeLeaseHead(head));
  CAIRN_ASSIGN_OR_RETURN(version_, SwapRecord(seams_.objects, HeadKey(), look.head.version, bytes));
  head_ = head;
  held_ = link.proof;
  // Old links go, but for some: whoever read the head just before still looks for its link.
  if (seq > kLinksKept) (void)seams_.objects->Delete(LinkKey(seq - kLinksKept));
  return {};
}

Status LeaseChain::TryTake() {
  if (held()) return {};
  CAIRN_ASSIGN_OR_RETURN(const Look look, LookAt());
  const bool own = look.link && look.link->proof.owner == self_ && look.link->kind == "lease" &&
                   !look.head.record->released;
  if (own) {  // taken before, and the answer was lost
    head_ = *look.head.record;
    version_ = *look.head.version;
    held_ = look.link->proof;
    return {};
  }
  if (!IsFree(look)) return HeldBy(*look.link, prefix_);
  return Take("lease", look);
}

Status LeaseChain::TryFence() {
  CAIRN_ASSIGN_OR_RETURN(const Look look, LookAt());
  if (look.link && look.link->kind == "fence") return {};
  if (!IsFree(look)) return HeldBy(*look.link, prefix_);
  const Status taken = Take("fence", look);
  held_.reset();
  return taken;
}

Status LeaseChain::SwapHead(const format::LeaseHead& head) {
  CAIRN_ASSIGN_OR_RETURN(const std::string bytes, format::SerializeLeaseHead(head));
  Result<std::string> version = SwapRecord(seams_.objects, HeadKey(), version_, bytes);
  if (!version.ok()) {
    if (version.status().code() == StatusCode::kFenced) held_.reset();
    return std::move(version).status();
  }
  head_ = head;
  version_ = *std::move(version);
  return {};
}

Status LeaseChain::Renew() {
  if (!held()) return Status::Fenced(prefix_ + " is not held");
  return SwapHead({head_.seq, head_.renewals + 1, false});
}

Status LeaseChain::Release() {
  if (!held()) return {};
  const Status released = SwapHead({head_.seq, head_.renewals + 1, true});
  held_.reset();
  return released;
}

}  // namespace cairn::checkpoint::shared

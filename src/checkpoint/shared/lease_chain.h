// SPDX-License-Identifier: Apache-2.0
//
// A lease as a chain: each owner creates the next link, once, and then swaps the head that says
// which link counts. Who leads, and which process is the node's, are both such chains.
//
// A holder renews by swapping the head. Whoever wants the lease watches the head; when it has not
// changed for a whole time to live *on the watcher's own clock*, the holder counts as gone. Clocks
// of two machines are never compared. A lease keeps careful processes apart; what protects state is
// the fencing token, the number of the link, which grows and is never used twice.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/shared/place.h"

namespace cairn::checkpoint::shared {

class LeaseChain {
 public:
  /// `prefix` is kLeaderPrefix or ProcessPrefix(node).
  LeaseChain(const Seams& seams, std::string prefix, format::ProcessIdentity self, uint64_t ttl_ms);

  /// Look at the chain and take it when it is free: nobody's, given back, a fence, or unchanged for
  /// the holder's time to live since this object first saw it so. Call again until it succeeds.
  ///
  /// Errors:   kFenced: held; names the holder · kUnavailable · kCorruption.
  Status TryTake();

  /// Take the chain from a process that is gone, on behalf of others: a fence link, which ends its
  /// reign and leaves the chain free for the node's next process.
  ///
  /// Errors:   as TryTake.
  Status TryFence();

  /// Show that the holder lives.
  ///
  /// Errors:   kFenced: another one holds it now · kUnavailable.
  Status Renew();

  /// Give it back: the next one need not wait.
  Status Release();

  bool held() const { return held_.has_value(); }
  /// Of the held link; only while held.
  const format::LeaderProof& proof() const { return *held_; }

 private:
  struct Look {
    Seen<format::LeaseHead> head;
    std::optional<format::LeaseLink> link;
  };
  Result<Look> LookAt();
  bool IsFree(const Look& look);
  Status Take(const std::string& kind, const Look& look);
  std::string LinkKey(uint64_t seq) const;
  std::string HeadKey() const { return prefix_ + "head.json"; }
  Status SwapHead(const format::LeaseHead& head);

  const Seams seams_;
  const std::string prefix_;
  const format::ProcessIdentity self_;
  const uint64_t ttl_ms_;

  std::optional<std::string> watched_version_;  // of the head, as first seen
  int64_t watched_since_ns_ = 0;
  std::optional<format::LeaderProof> held_;
  format::LeaseHead head_;  // while held
  std::string version_;
};

}  // namespace cairn::checkpoint::shared

// SPDX-License-Identifier: Apache-2.0
//
// The processes of several participants: nodes that save their share of each attempt, and leaders
// that admit and decide. Participant and Leader are the product's; what is around them is what an
// engine does: it calls again what was not answered, and starts over when it is told to.
//
// Threads: one; each runs on a fiber.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "checkpoint/shared/leader.h"
#include "checkpoint/shared/participant.h"
#include "cluster_oracle.h"
#include "network.h"
#include "outside.h"
#include "planted_bug.h"

namespace cairn::sim {

/// How processes hear of each other: the newest process of every node, and what a leader says. What
/// is heard may be long outdated; only the bucket decides.
class Directory {
 public:
  explicit Directory(uint64_t nodes) : nodes_(nodes) {}
  /// A process is the node's from now on. `turn` spreads the key groups anew.
  void Clear() { boots_.clear(); }
  void Register(uint64_t node, const std::string& boot, uint64_t turn);
  /// A node stands on the latest cut with assignment `version`.
  void Recovered(uint64_t node, uint64_t version) { stands_on_[node] = version; }
  /// True when all nodes are there and stand on the assignment: an attempt may begin.
  bool IsReady() const;
  bool IsNewest(uint64_t node, const std::string& boot) const;
  const checkpoint::shared::Assignment& assignment() const { return assignment_; }

  void Announce(const format::ActiveAttempt& attempt) {
    announced_ = attempt;
    ++news_;
  }
  /// A decision, an abort, another leader: worth a look.
  void Tell() { ++news_; }
  const std::optional<format::ActiveAttempt>& announced() const { return announced_; }
  uint64_t news() const { return news_; }

 private:
  uint64_t nodes_;
  std::map<uint64_t, std::string> boots_;
  std::map<uint64_t, uint64_t> stands_on_;
  checkpoint::shared::Assignment assignment_{0, {}, {}};
  std::optional<format::ActiveAttempt> announced_;
  uint64_t news_ = 0;
};

/// What the processes of one schedule share.
struct ClusterJob {
  World* world = nullptr;
  Bucket* bucket = nullptr;
  ClusterOracle* oracle = nullptr;
  Outside* outside = nullptr;
  Directory* directory = nullptr;
  std::optional<checkpoint::shared::SharedPlace> place;  ///< once somebody made it
  PlantedBug bug = PlantedBug::kNone;
  uint32_t rows_per_group = 2;
  uint32_t retained = 2;
  uint32_t rebase_chunks = 4;
  uint32_t abandon = 0;  ///< per mille of attempts that the leader gives up
  uint64_t lease_ttl_ms = 4'000;
  int64_t poll_us = 400'000;
  uint32_t attempts_left = 6;
  uint32_t incarnations = 0;
  int64_t end_us = 0;  ///< no process works longer
  bool late() const { return world->now_us() >= end_us; }
  bool over() const { return attempts_left == 0 || late(); }
};

/// What nodes and leaders have in common: a host, a connection, and calls that are made again.
class ClusterProcess {
 protected:
  virtual ~ClusterProcess() = default;
  /// True when another one has this process's role, as far as is known outside.
  virtual bool succeeded() const = 0;

  ClusterProcess(ClusterJob* job, Network* network, const std::string& role);

  /// Find or make the place.
  Result<checkpoint::shared::SharedPlace> OpenPlace();
  /// Make a call until it is answered, a few times.
  template <class Call>
  auto Ask(const char* what, const Call& call) -> decltype(call()) {
    for (int tries = 0;; ++tries) {
      auto answer = call();
      const Status status = StatusOf(answer);
      if (!status.ok()) Tell(what, status);
      if (status.code() != StatusCode::kUnavailable || tries == 3 || ended()) return answer;
      Idle();
    }
  }
  /// Renew a lease when a good part of its time is over.
  template <class Holder>
  Status RenewInTime(Holder* holder) {
    const int64_t now_us = job_->world->now_us();
    if (now_us - renewed_us_ < static_cast<int64_t>(job_->lease_ttl_ms) * 250) return {};
    const Status renewed = Ask("renew", [&] { return holder->Renew(); });
    if (renewed.code() == StatusCode::kFenced) job_->world->Count(Met::kZombieFenced);
    if (renewed.ok()) renewed_us_ = now_us;
    return renewed;
  }
  void Tell(const char* what, const Status& status);
  void Idle() { network_->Idle(&host_, job_->poll_us); }
  bool ended() const { return host_.dead || job_->world->stopped(); }
  bool Has(PlantedBug bug) const { return job_->bug == bug; }
  format::ProcessIdentity NewIdentity(uint64_t node);

  ClusterJob* job_;
  Network* network_;
  Host host_;
  std::unique_ptr<SimObjectStore> objects_;
  checkpoint::shared::Seams seams_;

 private:
  static Status StatusOf(const Status& status) { return status; }
  template <class T>
  static Status StatusOf(const Result<T>& result) {
    return result.status();
  }
  int64_t renewed_us_ = 0;
};

class NodeProcess final : private ClusterProcess {
 public:
  NodeProcess(ClusterJob* job, Network* network, uint64_t node);
  /// Live until the schedule is over, a crash, or the node has another process.
  void Run();

 private:
  bool succeeded() const override { return !job_->directory->IsNewest(node_, self_.boot); }

  using Participant = checkpoint::shared::Participant;

  Status Start(Participant* participant);
  Status Recover(Participant* participant);
  /// Take part in the attempt that the head names, if there is one.
  Status Serve(Participant* participant);
  Status SaveShare(Participant* participant, const format::ActiveAttempt& attempt);
  Status Settle(Participant* participant);
  /// Idle until there is news, or for a while.
  void WaitForNews();
  void Work();
  checkpoint::shared::CapturedShare Share();

  uint64_t node_;
  format::ProcessIdentity self_;
  OutsideSink sink_;
  std::optional<checkpoint::shared::SharedPlace> place_;
  uint64_t stands_on_ = 0;  // version of the assignment
  uint64_t heard_ = 0;      // news
  base::CheckpointId begun_;
  GroupCounts counts_;  // of all groups owned
  std::set<uint16_t> changed_;
};

class LeaderProcess final : private ClusterProcess {
 public:
  LeaderProcess(ClusterJob* job, Network* network, uint64_t node);
  /// Lead until the schedule is over, a crash, or another one leads. `last`: clean all up at the
  /// end.
  void Run(bool last);

 private:
  bool succeeded() const override { return job_->oracle->leader() != host_.incarnation; }

  using Leader = checkpoint::shared::Leader;

  Status Lead(Leader* leader);
  Status RunAttempt(Leader* leader);
  Status Decide(Leader* leader, base::CheckpointId id);
  Status CleanUp(Leader* leader);
  Status DeleteByListing();

  format::ProcessIdentity self_;
  OutsideSink cleaner_;
};

}  // namespace cairn::sim

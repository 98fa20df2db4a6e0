// SPDX-License-Identifier: Apache-2.0
//
// A small cluster over one bucket in memory, for tests: processes with a connection each, a job
// whose state and output can be computed by hand, and a sink whose outside world lies in the same
// bucket, so that every call of it is one more call that may fail or be the last.
//
// The job: split "g<k>" of source "rows" belongs to key group k and is read by its owner. Row i of
// it adds one to the group's count and writes "k:i" to the sink. So a cut in which group k counts n
// has published exactly "k:0" to "k:<n-1>".
//
// Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/shared/leader.h"
#include "checkpoint/shared/participant.h"
#include "env/fault_object_store.h"
#include "env/manual_clock.h"
#include "env/memory_object_store.h"

namespace cairn::checkpoint::shared::testing {

inline constexpr uint32_t kTestGroups = 8;
inline constexpr uint64_t kTestTtlMs = 10'000;
inline constexpr char kTestSink[] = "out";

/// What lies outside: "outside/<sink>/<participant>/<epoch>", a state, then one row a line.
struct OutsideTransaction {
  std::string state;  ///< open | prepared | committed | rolled-back
  uint64_t token = 0;
  std::string rows;

  std::string Text() const { return state + " " + std::to_string(token) + "\n" + rows; }
  static Result<OutsideTransaction> Parse(std::string_view text) {
    const size_t space = text.find(' ');
    const size_t line = text.find('\n');
    if (space == std::string_view::npos || line == std::string_view::npos) {
      return Status::Corruption("no transaction");
    }
    return OutsideTransaction{std::string(text.substr(0, space)),
                              std::stoull(std::string(text.substr(space + 1, line - space - 1))),
                              std::string(text.substr(line + 1))};
  }
};

class TestSink final : public TwoPhaseSink {
 public:
  TestSink(env::ObjectStore* outside, std::string name = kTestSink)
      : outside_(outside), name_(std::move(name)) {}

  void Write(const std::string& row) { rows_.push_back(row); }
  /// The job starts over: rows not published come again.
  void Forget() {
    rows_.clear();
    prepared_ = 0;
  }

  const std::string& name() const override { return name_; }
  Result<std::optional<std::string>> Intend(const SinkEpoch& epoch) override {
    return std::optional<std::string>(KeyOf(epoch));
  }
  Status Begin(const SinkEpoch& epoch) override { return Move(epoch, "open", ""); }
  Result<std::optional<std::string>> Prepare(const SinkEpoch& epoch) override {
    std::string rows;
    for (const std::string& row : rows_) rows += row + "\n";
    CAIRN_RETURN_IF_ERROR(Move(epoch, "prepared", rows));
    prepared_ = rows_.size();
    return std::optional<std::string>(KeyOf(epoch));
  }
  Status Commit(const SinkEpoch& epoch, const std::optional<std::string>& descriptor) override {
    if (descriptor != KeyOf(epoch)) return Status::Internal("another transaction's descriptor");
    CAIRN_RETURN_IF_ERROR(Move(epoch, "committed", ""));
    rows_.erase(rows_.begin(), rows_.begin() + static_cast<ptrdiff_t>(prepared_));
    prepared_ = 0;
    return {};
  }
  Status Rollback(const SinkEpoch& epoch, const SinkEvidence& evidence) override {
    if (evidence.intent != KeyOf(epoch)) return Status::Internal("another transaction's intent");
    ++rollbacks;
    prepared_ = 0;
    return Move(epoch, "rolled-back", "");
  }

  int rollbacks = 0;

 private:
  std::string KeyOf(const SinkEpoch& epoch) const {
    return "outside/" + name_ + "/" + std::to_string(epoch.participant_id) + "/" +
           std::to_string(epoch.epoch.value);
  }

  /// Which states may become `next`.
  static bool MayBecome(const std::string& before, const std::string& next) {
    if (before == next) return true;
    if (next == "open") return before.empty();
    if (next == "prepared") return before == "open";
    if (next == "committed") return before == "prepared";
    return before.empty() || before == "open" || before == "prepared";
  }

  Status Move(const SinkEpoch& epoch, const std::string& next, const std::string& rows) {
    const std::string key = KeyOf(epoch);
    CAIRN_ASSIGN_OR_RETURN(const Seen<OutsideTransaction> seen,
                           ReadSeen(outside_, key, 1 << 20, &OutsideTransaction::Parse));
    OutsideTransaction there = seen.record.value_or(OutsideTransaction());
    if (epoch.fencing_token < there.token) return Status::Fenced(key + ": a newer owner was here");
    // Rolled back stays so, and so does what was published: the call comes too late.
    if (there.state == "committed" && next == "prepared") return {};
    if (!MayBecome(there.state, next)) {
      return Status::Fenced(key + " is " + there.state + " and cannot be " + next);
    }
    if (there.state == next && there.token == epoch.fencing_token && next != "prepared") return {};
    if (next == "prepared") there.rows = rows;
    there.state = next;
    there.token = epoch.fencing_token;
    Result<std::string> swapped = SwapRecord(outside_, key, seen.version, there.Text());
    return std::move(swapped).status();
  }

  env::ObjectStore* outside_;
  const std::string name_;
  std::vector<std::string> rows_;  // since the last commit
  size_t prepared_ = 0;
};

inline format::PipelineIdentity TestPipeline() {
  format::PipelineIdentity identity;
  identity.sha256.fill(0x42);
  return identity;
}

/// The bucket, the time, and what all processes agree on.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {
    seams_.objects = bucket_.get();
    seams_.clock = &clock_;
    seams_.random = &random_;
    Result<SharedPlace> made = MakePlace(seams_, {"test job", kTestGroups, 7});
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    place_ = *std::move(made);
  }

  std::shared_ptr<env::MemoryObjectStore> bucket() { return bucket_; }
  env::ManualClock& clock() { return clock_; }
  const SharedPlace& place() const { return place_; }
  /// The world seen without faults.
  const Seams& seams() const { return seams_; }
  /// The world through a process's own connection. `on_step` is asked at every step.
  Seams SeamsOf(env::ObjectStore* connection,
                const std::function<void(const ProtocolEvent&)>* on_step) const {
    Seams seams = seams_;
    seams.objects = connection;
    seams.observer = [on_step](const ProtocolEvent& event) {
      if (*on_step) (*on_step)(event);
    };
    return seams;
  }
  std::string NewBoot() { return seams_.NewUuid(); }

  std::vector<env::ObjectInfo> List(const std::string& prefix) {
    const auto found = bucket_->List(prefix);
    EXPECT_TRUE(found.ok());
    return found.ok() ? *found : std::vector<env::ObjectInfo>();
  }

  /// Rows published so far, and how often each.
  std::map<std::string, int> Published() {
    std::map<std::string, int> rows;
    for (const auto& [key, transaction] : Outside()) {
      if (transaction.state != "committed") continue;
      std::istringstream lines(transaction.rows);
      for (std::string line; std::getline(lines, line);) ++rows[line];
    }
    return rows;
  }
  std::map<std::string, OutsideTransaction> Outside() {
    std::map<std::string, OutsideTransaction> found;
    for (const env::ObjectInfo& info : List("outside/")) {
      found[info.key] = *OutsideTransaction::Parse(bucket_->Get(info.key, 1 << 20)->bytes);
    }
    return found;
  }

  format::SharedHead Head() {
    const Result<SeenHead> seen = ReadHead(seams_, place_);
    EXPECT_TRUE(seen.ok()) << seen.status().ToString();
    return seen.ok() && seen->record ? *seen->record : format::SharedHead();
  }

  /// Counts of all groups in a cut, read whole.
  std::map<uint16_t, uint64_t> CountsOf(const format::IndexReference& reference) {
    std::map<uint16_t, uint64_t> counts;
    const auto cut = LoadCut(seams_, place_, reference);
    EXPECT_TRUE(cut.ok()) << cut.status().ToString();
    if (!cut.ok()) return {{9999, 0}};
    EXPECT_TRUE(CheckCutObjects(seams_, **cut).ok());
    const auto restored = RestoreShare(seams_, place_, **cut, {{0, kTestGroups}});
    EXPECT_TRUE(restored.ok()) << restored.status().ToString();
    if (!restored.ok()) return {{9999, 0}};
    for (const auto& [group, bytes] : restored->groups) counts[group] = std::stoull(bytes);
    for (const auto& [split, offset] : restored->source_offsets.at("rows")) {
      const auto group = static_cast<uint16_t>(std::stoul(split.substr(1)));
      EXPECT_EQ(counts[group], std::stoull(offset.position)) << "state and offset of " << split;
    }
    return counts;
  }

  /// What a cut with these counts has published.
  static std::map<std::string, int> RowsOf(const std::map<uint16_t, uint64_t>& counts) {
    std::map<std::string, int> rows;
    for (const auto& [group, count] : counts) {
      for (uint64_t i = 0; i < count; ++i) {
        rows[std::to_string(group) + ":" + std::to_string(i)] = 1;
      }
    }
    return rows;
  }

  /// Objects of checkpoints that no kept cut consists of.
  std::vector<std::string> Leaks() {
    std::set<std::string> needed;
    for (const format::IndexReference& kept : Head().Cuts()) {
      needed.insert(IndexKey(kept.id, kept.index_sha256));
      const auto cut = LoadCut(seams_, place_, kept);
      EXPECT_TRUE(cut.ok()) << cut.status().ToString();
      if (!cut.ok()) continue;
      for (const auto& [node, manifest] : (*cut)->manifests) {
        needed.insert(NodeManifestKey(node, kept.id));
      }
      for (const auto& [chunk, length] : (*cut)->Objects()) {
        needed.insert(NodeDataKey(chunk.participant_id, chunk.checkpoint_id));
      }
    }
    std::vector<std::string> leaks;
    for (const char* prefix : {"nodes/", "committed/"}) {
      for (const env::ObjectInfo& info : List(prefix)) {
        if (!needed.contains(info.key)) leaks.push_back(info.key);
      }
    }
    return leaks;
  }

 private:
  env::ManualClock clock_;
  env::SeededRandom random_;
  std::shared_ptr<env::MemoryObjectStore> bucket_ =
      std::make_shared<env::MemoryObjectStore>(&clock_);
  Seams seams_;
  SharedPlace place_;
};

/// A participant's process: its job, its sink, its connection.
struct NodeProcess {
  NodeProcess(World* in, uint64_t node)
      : world(in),
        connection(in->bucket()),
        self{node, in->NewBoot()},
        sink(&connection),
        participant(in->SeamsOf(&connection, &on_step), in->place(), Options()) {}

  ParticipantOptions Options() {
    ParticipantOptions options;
    options.self = self;
    options.pipeline_identity = TestPipeline();
    options.lease_ttl_ms = kTestTtlMs;
    options.source_names = {"rows"};
    options.sinks = {&sink};
    return options;
  }

  /// Take the lease, waiting for a former process of the node to be gone.
  Status Start() {
    Status taken = participant.TryStart();
    if (taken.code() != StatusCode::kFenced) return taken;
    world->clock().Advance(kTestTtlMs);
    return participant.TryStart();
  }

  Status Recover(const Assignment& assignment) {
    CAIRN_ASSIGN_OR_RETURN(const RestoredShare restored, participant.Recover(assignment));
    sink.Forget();
    counts.clear();
    for (const KeyGroupRange& range : assignment.OwnedBy(self.node)) {
      for (uint32_t group = range.first; group < range.last; ++group) counts[group] = 0;
    }
    for (const auto& [group, bytes] : restored.groups) counts[group] = std::stoull(bytes);
    changed.clear();
    return {};
  }

  /// Process `rows` rows of every `step`-th owned group.
  void Work(uint64_t rows, size_t step = 1) {
    size_t n = 0;
    for (auto& [group, count] : counts) {
      if (n++ % step != 0) continue;
      for (uint64_t i = 0; i < rows; ++i) {
        sink.Write(std::to_string(group) + ":" + std::to_string(count++));
      }
      if (rows > 0) changed.insert(group);
    }
  }

  CapturedShare Share() {
    CapturedShare share;
    const std::map<uint16_t, uint64_t> view = counts;
    share.read = [view](uint16_t group) -> Result<std::string> {
      return view.at(group) == 0 ? std::string() : std::to_string(view.at(group));
    };
    share.changed = std::exchange(changed, {});
    for (const auto& [group, count] : counts) {
      share.source_offsets["rows"].offsets["g" + std::to_string(group)] = {std::to_string(count),
                                                                           false};
    }
    share.channel_progress = {
        {self.node, "rows", std::string(format::kLogicalChannel), 1'000, false}};
    return share;
  }

  World* world;
  env::FaultObjectStore connection;
  std::function<void(const ProtocolEvent&)> on_step;
  format::ProcessIdentity self;
  TestSink sink;
  std::map<uint16_t, uint64_t> counts;
  std::set<uint16_t> changed;
  Participant participant;
};

/// A leader's process. `with_cleaners` false: nobody acts for sinks but their own node.
struct LeaderProcess {
  LeaderProcess(World* in, uint64_t node, bool with_cleaners = true, uint32_t retained = 2)
      : world(in),
        connection(in->bucket()),
        cleaner(&connection),
        leader(in->SeamsOf(&connection, &on_step), in->place(),
               Options(node, with_cleaners, retained)) {}

  LeaderOptions Options(uint64_t node, bool with_cleaners, uint32_t retained) {
    LeaderOptions options;
    options.self = {node, world->NewBoot()};
    options.pipeline_identity = TestPipeline();
    options.lease_ttl_ms = kTestTtlMs;
    options.retained = retained;
    options.orphan_grace_ms = 0;
    if (with_cleaners) {
      options.sinks = [this](std::string_view name) -> TwoPhaseSink* {
        return name == cleaner.name() ? &cleaner : nullptr;
      };
    }
    return options;
  }

  Status Lead() {
    Status taken = leader.TryLead();
    if (taken.code() != StatusCode::kFenced) return taken;
    world->clock().Advance(kTestTtlMs);
    return leader.TryLead();
  }

  World* world;
  env::FaultObjectStore connection;
  std::function<void(const ProtocolEvent&)> on_step;
  TestSink cleaner;
  Leader leader;
};

/// The process that `connection` belongs to dies: none of its calls has an effect any more.
inline void Die(env::FaultObjectStore* connection) {
  connection->Arm({.call = 0, .kind = env::ObjectFault::kLostBefore, .for_ever = true});
}

/// Repeat a call whose answer was lost.
template <class Call>
auto Retry(const Call& call) -> decltype(call()) {
  auto result = call();
  for (int i = 0; i < 4; ++i) {
    const Status* status;
    if constexpr (std::is_same_v<decltype(result), Status>) {
      status = &result;
    } else {
      status = &result.status();
    }
    if (status->code() != StatusCode::kUnavailable) break;
    result = call();
  }
  return result;
}

/// A leader and some nodes that have half, or a third, of the key groups each.
struct Cluster {
  Cluster(World* in, std::vector<uint64_t> nodes, bool with_cleaners = true) : world(in) {
    leader = std::make_unique<LeaderProcess>(world, 100, with_cleaners);
    for (uint64_t node : nodes) processes[node] = std::make_unique<NodeProcess>(world, node);
    Assign();
  }

  /// Spread the key groups over the nodes there are, under a new version.
  void Assign() {
    ++assignment.version;
    assignment.owners.clear();
    assignment.participants.clear();
    std::vector<uint64_t> nodes;
    for (const auto& [node, process] : processes) {
      nodes.push_back(node);
      assignment.participants.push_back(process->self);
    }
    for (uint32_t group = 0; group < kTestGroups; ++group) {
      assignment.owners.push_back(nodes[group * nodes.size() / kTestGroups]);
    }
  }

  /// Lead, settle what is left, and let every node start over from the latest cut.
  Status Start() {
    CAIRN_RETURN_IF_ERROR(Retry([&] { return leader->Lead(); }));
    for (auto& [node, process] : processes) {
      CAIRN_RETURN_IF_ERROR(Retry([&] { return process->Start(); }));
    }
    return Settle();
  }

  /// What former attempts left is aborted; nodes whose sinks are in it help.
  Status Settle() {
    Status resolved = Retry([&] { return leader->leader.Resolve(); });
    for (auto& [node, process] : processes) {
      CAIRN_RETURN_IF_ERROR(Retry([&] { return process->Recover(assignment); }));
    }
    if (!resolved.ok()) resolved = Retry([&] { return leader->leader.Resolve(); });
    return resolved;
  }

  Result<format::ActiveAttempt> Admit() {
    return Retry([&] { return leader->leader.Admit(assignment, {kTestSink}); });
  }

  /// One checkpoint; the first error ends it.
  Status Checkpoint(uint64_t rows, size_t step = 1) {
    CAIRN_ASSIGN_OR_RETURN(const format::ActiveAttempt attempt, Admit());
    for (auto& [node, process] : processes) {
      CAIRN_RETURN_IF_ERROR(SaveShare(process.get(), attempt, rows, step));
    }
    CAIRN_RETURN_IF_ERROR(Decide());
    for (auto& [node, process] : processes) {
      CAIRN_RETURN_IF_ERROR(SettleNode(process.get(), Outcome::kCommitted));
    }
    return {};
  }

  Status SaveShare(NodeProcess* process, const format::ActiveAttempt& attempt, uint64_t rows,
                   size_t step = 1) {
    CAIRN_RETURN_IF_ERROR(Retry([&] { return process->participant.Begin(attempt); }));
    process->Work(rows, step);
    const CapturedShare share = process->Share();
    CAIRN_RETURN_IF_ERROR(Retry([&] { return process->participant.Capture(share); }));
    return Retry([&] { return process->participant.Persist(); });
  }

  Status Decide() {
    CAIRN_ASSIGN_OR_RETURN(const std::vector<uint64_t> missing,
                           Retry([&] { return leader->leader.Collect(); }));
    if (!missing.empty()) return Status::Internal("a manifest is missing");
    return Retry([&] { return leader->leader.Decide(); }).status();
  }

  Status SettleNode(NodeProcess* process, Outcome expected) {
    CAIRN_ASSIGN_OR_RETURN(const Outcome outcome,
                           Retry([&] { return process->participant.Settle(); }));
    return outcome == expected ? Status() : Status::Internal("another outcome");
  }

  /// A process dies and another one takes its place; everybody starts over from the latest cut.
  void ReplaceNode(uint64_t node) {
    processes[node] = std::make_unique<NodeProcess>(world, node);
    Assign();
  }
  void ReplaceLeader(bool with_cleaners = true) {
    leader = std::make_unique<LeaderProcess>(world, 100, with_cleaners);
  }

  World* world;
  std::unique_ptr<LeaderProcess> leader;
  std::map<uint64_t, std::unique_ptr<NodeProcess>> processes;
  Assignment assignment{0, {}, {}};
};

/// Two participants that have started.
class ClusterTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(cluster_.Start().ok()); }

  NodeProcess* node(uint64_t n) { return cluster_.processes[n].get(); }
  Leader& leader() { return cluster_.leader->leader; }

  /// Save the shares of all nodes and collect them.
  format::ActiveAttempt SaveAll(uint64_t rows = 1) {
    const auto attempt = cluster_.Admit();
    EXPECT_TRUE(attempt.ok()) << attempt.status().ToString();
    for (auto& [n, process] : cluster_.processes) {
      const Status saved = cluster_.SaveShare(process.get(), *attempt, rows);
      EXPECT_TRUE(saved.ok()) << saved.ToString();
    }
    return *attempt;
  }

  /// Put `bytes` over an object, whatever is there.
  void Overwrite(const std::string& key, const std::string& bytes) {
    ASSERT_TRUE(world_.bucket()->Delete(key).ok());
    ASSERT_TRUE(world_.bucket()->CreateIfAbsent(key, bytes).ok());
  }
  Status RecoverAnew() {
    Cluster next(&world_, {1, 2});
    next.assignment.version = cluster_.assignment.version;
    next.Assign();
    return next.Start();
  }

  World world_{11};
  Cluster cluster_{&world_, {1, 2}};
};

}  // namespace cairn::checkpoint::shared::testing

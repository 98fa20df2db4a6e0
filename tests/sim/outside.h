// SPDX-License-Identifier: Apache-2.0
//
// Outside: the world that the sinks of several participants write to, and their way to it. A
// transaction is of one participant and epoch; it goes from open over prepared to committed, or is
// rolled back, and refuses owners that were succeeded.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/shared/two_phase_sink.h"
#include "network.h"

namespace cairn::sim {

/// Row `second` of key group `first`.
using OutsideRow = std::pair<uint16_t, uint64_t>;

class Outside {
 public:
  enum class State : uint8_t { kAbsent, kOpen, kPrepared, kCommitted, kRolledBack };

  explicit Outside(std::function<void(const std::vector<OutsideRow>&)> published)
      : published_(std::move(published)) {}

  Status Move(const checkpoint::shared::SinkEpoch& epoch, State next, std::vector<OutsideRow> rows);

 private:
  struct Transaction {
    State state = State::kAbsent;
    uint64_t token = 0;
    std::vector<OutsideRow> rows;
  };

  std::function<void(const std::vector<OutsideRow>&)> published_;
  std::map<std::pair<uint64_t, base::CheckpointId>, Transaction> transactions_;
};

class OutsideSink final : public checkpoint::shared::TwoPhaseSink {
 public:
  OutsideSink(Network* network, Host* host, Outside* outside)
      : network_(network), host_(host), outside_(outside) {}

  void Write(OutsideRow row) { rows_.push_back(row); }
  /// The job starts over: rows that were not published come again.
  void Forget();

  const std::string& name() const override { return name_; }
  Result<std::optional<std::string>> Intend(const checkpoint::shared::SinkEpoch& epoch) override;
  Status Begin(const checkpoint::shared::SinkEpoch& epoch) override;
  Result<std::optional<std::string>> Prepare(const checkpoint::shared::SinkEpoch& epoch) override;
  Status Commit(const checkpoint::shared::SinkEpoch& epoch,
                const std::optional<std::string>& descriptor) override;
  Status Rollback(const checkpoint::shared::SinkEpoch& epoch,
                  const checkpoint::shared::SinkEvidence& evidence) override;

 private:
  Status Move(const char* verb, const checkpoint::shared::SinkEpoch& epoch, Outside::State next,
              std::vector<OutsideRow> rows = {});

  Network* network_;
  Host* host_;
  Outside* outside_;
  const std::string name_ = "out";
  std::vector<OutsideRow> rows_;  // since the last commit
  size_t prepared_ = 0;
};

}  // namespace cairn::sim

// SPDX-License-Identifier: Apache-2.0
#include "outside.h"

namespace cairn::sim {
namespace {

using checkpoint::shared::SinkEpoch;
using checkpoint::shared::SinkEvidence;
using State = Outside::State;

std::string NameOf(const SinkEpoch& epoch) {
  return std::to_string(epoch.participant_id) + "/" + std::to_string(epoch.epoch.value);
}

bool MayBecome(State now, State next) {
  switch (next) {
    case State::kAbsent:
      return false;
    case State::kOpen:
      return now == State::kAbsent || now == State::kOpen;
    case State::kPrepared:
      return now == State::kOpen || now == State::kPrepared;
    case State::kCommitted:
      return now == State::kPrepared || now == State::kCommitted;
    case State::kRolledBack:
      return now != State::kCommitted;
  }
  return false;
}

}  // namespace

Status Outside::Move(const SinkEpoch& epoch, State next, std::vector<OutsideRow> rows) {
  Transaction& there = transactions_[{epoch.participant_id, epoch.epoch}];
  if (epoch.fencing_token < there.token) return Status::Fenced("a newer owner was here");
  if (there.state == State::kCommitted && next == State::kPrepared) return {};
  if (!MayBecome(there.state, next)) return Status::Fenced("the transaction has ended");
  there.token = epoch.fencing_token;
  if (next == State::kPrepared) there.rows = std::move(rows);
  const bool publish = next == State::kCommitted && there.state != State::kCommitted;
  there.state = next;
  if (publish) published_(there.rows);
  return {};
}

void OutsideSink::Forget() {
  rows_.clear();
  prepared_ = 0;
}

Status OutsideSink::Move(const char* verb, const SinkEpoch& epoch, State next,
                         std::vector<OutsideRow> rows) {
  return network_->Call<Status>(host_, true, verb, NameOf(epoch),
                                [outside = outside_, epoch, next, rows = std::move(rows)] {
                                  return outside->Move(epoch, next, rows);
                                });
}

Result<std::optional<std::string>> OutsideSink::Intend(const SinkEpoch& epoch) {
  return std::optional<std::string>(NameOf(epoch));
}

Status OutsideSink::Begin(const SinkEpoch& epoch) {
  return Move("sink-begin", epoch, State::kOpen);
}

Result<std::optional<std::string>> OutsideSink::Prepare(const SinkEpoch& epoch) {
  CAIRN_RETURN_IF_ERROR(Move("sink-prepare", epoch, State::kPrepared, rows_));
  prepared_ = rows_.size();
  return std::optional<std::string>(NameOf(epoch));
}

Status OutsideSink::Commit(const SinkEpoch& epoch, const std::optional<std::string>& descriptor) {
  if (descriptor != NameOf(epoch)) return Status::Internal("another transaction's descriptor");
  CAIRN_RETURN_IF_ERROR(Move("sink-commit", epoch, State::kCommitted));
  rows_.erase(rows_.begin(), rows_.begin() + static_cast<ptrdiff_t>(prepared_));
  prepared_ = 0;
  return {};
}

Status OutsideSink::Rollback(const SinkEpoch& epoch, const SinkEvidence& evidence) {
  if (evidence.intent != NameOf(epoch)) return Status::Internal("another transaction's intent");
  prepared_ = 0;
  return Move("sink-rollback", epoch, State::kRolledBack);
}

}  // namespace cairn::sim

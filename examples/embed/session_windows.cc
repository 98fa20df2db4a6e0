// SPDX-License-Identifier: Apache-2.0
//
// Timers of event time in a SQL job: this program is the cairn command with one operator more.
// "sessions" gives each user's clicks that lie less than a minute apart as one row, as soon as no
// click can join them any more. Clicks may come in any order within the table's watermark_delay,
// and over any number of readers.
//
//   session_windows run examples/embed/sessions.sql
#include <algorithm>
#include <memory>
#include <vector>

#include "cairn/operator.h"
#include "open_sessions.h"

/// Columns of the input (user_id, clicked) and of the output (user_id, started, ended, clicks).
enum InputColumn : size_t { kUser, kClicked };
enum OutputColumn : size_t { kOutUser, kOutStarted, kOutEnded, kOutClicks };

class Sessions final : public cairn::Operator {
 public:
  cairn::Status Open(cairn::RuntimeContext* context) override {
    context_ = context;
    CAIRN_ASSIGN_OR_RETURN(open_, (context->keyed_state<cairn::Bytes, OpenSessions>("open")));
    CAIRN_ASSIGN_OR_RETURN(ends_, context->timers<cairn::Bytes>("ends", [this](const auto& timer) {
      return Close(timer.key, timer.time);
    }));
    return {};
  }

  cairn::Status Process(const cairn::InputRows& in, cairn::OutputRows*) override {
    for (size_t row = 0; row < in.rows(); ++row) {
      if (in.IsNull(row, kUser) || in.IsNull(row, kClicked)) continue;
      const int64_t clicked_us = in.Integer(row, kClicked);
      if (clicked_us / 1000 < context_->watermark()) continue;  // late: its session may be over
      int64_t end_ms = 0;
      CAIRN_RETURN_IF_ERROR(open_->Update(in.Key(row), [&](OpenSessions& open, bool) {
        open.user = in.Integer(row, kUser);
        open.Add({clicked_us, clicked_us, 1});
        end_ms = open.sessions.back().end_ms();
      }));
      CAIRN_RETURN_IF_ERROR(ends_->Register(cairn::TimeDomain::kEvent, in.Key(row), end_ms));
    }
    return {};
  }

 private:
  /// Give the sessions of `key` that are over. A timer of a session that has grown finds none.
  cairn::Status Close(std::string_view key, int64_t now_ms) {
    std::vector<Session> over;
    int64_t user = 0;
    bool empty = false;
    CAIRN_RETURN_IF_ERROR(open_->Update(key, [&](OpenSessions& open, bool) {
      user = open.user;
      const auto end = std::stable_partition(
          open.sessions.begin(), open.sessions.end(),
          [now_ms](const Session& session) { return session.end_ms() > now_ms; });
      over.assign(end, open.sessions.end());
      open.sessions.erase(end, open.sessions.end());
      empty = open.sessions.empty();
    }));
    if (empty) open_->Erase(key);
    for (const Session& session : over) {
      cairn::OutputRows* const out = context_->output();
      out->SetInteger(kOutUser, user);
      out->SetInteger(kOutStarted, session.first_us);
      out->SetInteger(kOutEnded, session.last_us);
      out->SetInteger(kOutClicks, session.clicks);
      CAIRN_RETURN_IF_ERROR(out->EndRow());
    }
    return {};
  }

  cairn::RuntimeContext* context_ = nullptr;
  cairn::KeyedState<cairn::Bytes, OpenSessions>* open_ = nullptr;
  cairn::KeyedTimers<cairn::Bytes>* ends_ = nullptr;
};

int main(int argc, char** argv) {
  const cairn::Status registered =
      cairn::RegisterOperator("sessions", [] { return std::make_unique<Sessions>(); });
  return registered.ok() ? cairn::RunCommand(argc, argv) : 2;
}

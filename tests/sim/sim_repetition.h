// SPDX-License-Identifier: Apache-2.0
//
// How a lease of a simulated process is renewed: by a second fiber of the process.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "checkpoint/lease.h"
#include "world.h"

namespace cairn::sim {

class SimRepetition final : public checkpoint::Repetition {
 public:
  SimRepetition(World* world, int64_t period_ms, std::function<bool()> task) : world_(world) {
    // The fiber may outlive this by a sleep: it keeps what it looks at.
    world->Spawn([world, period_ms, task = std::move(task), state = state_] {
      while (!state->closing) {
        world->SleepMicros(period_ms * 1000);
        if (state->closing) return;
        state->busy = true;
        const bool again = task();
        state->busy = false;
        if (!again) return;
      }
    });
  }
  ~SimRepetition() override {
    state_->closing = true;
    while (state_->busy) world_->SleepMicros(1000);
  }

 private:
  struct State {
    bool closing = false;
    bool busy = false;
  };

  World* world_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace cairn::sim

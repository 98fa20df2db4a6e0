// SPDX-License-Identifier: Apache-2.0
//
// Fiber: blocking code that can be left in the middle of a call and gone on with later, on one
// thread. What lets the simulation run real protocol code without threads.
//
// Threads: one. A fiber is never left inside a catch block: the C++ runtime keeps what is being
// handled by thread.
#pragma once

#include <ucontext.h>

#include <functional>

namespace cairn::sim {

class Fiber {
 public:
  /// `body` begins with the first Resume. It lets no exception out.
  explicit Fiber(std::function<void()> body);
  /// The body has returned, or never began.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Run the body until it pauses or returns. Not from inside a fiber.
  void Resume();
  /// Leave the body; it goes on with the next Resume. From inside.
  void Pause();
  bool done() const { return done_; }

 private:
  static void Enter(unsigned high, unsigned low);
  void SwitchTo(ucontext_t* from, ucontext_t* to, const void* bottom, size_t size, void** fake);

  std::function<void()> body_;
  void* stack_;
  ucontext_t inside_{};
  ucontext_t outside_{};
  // What AddressSanitizer must be told at every switch.
  void* fake_inside_ = nullptr;
  void* fake_outside_ = nullptr;
  const void* outside_bottom_ = nullptr;
  size_t outside_size_ = 0;
  bool begun_ = false;
  bool done_ = false;
};

}  // namespace cairn::sim

// SPDX-License-Identifier: Apache-2.0
#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define CAIRN_SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CAIRN_SIM_ASAN 1
#endif
#endif
#ifdef CAIRN_SIM_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace cairn::sim {
namespace {

constexpr size_t kStackBytes = size_t{512} << 10;
constexpr size_t kGuardBytes = 4096;

/// Stacks that no fiber uses: a schedule takes those of the one before, whose pages are there.
std::vector<void*>& FreeStacks() {
  static std::vector<void*> stacks;
  return stacks;
}

void* TakeStack() {
  if (!FreeStacks().empty()) {
    void* stack = FreeStacks().back();
    FreeStacks().pop_back();
    return stack;
  }
  void* mapped = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED || mprotect(mapped, kGuardBytes, PROT_NONE) != 0) {
    std::perror("no stack for a fiber");
    std::abort();
  }
  return mapped;
}

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(TakeStack()) {
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_;
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::Enter), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self & 0xffffffffu));
}

Fiber::~Fiber() {
  if (begun_ && !done_) {
    std::fprintf(stderr, "a fiber is destroyed in the middle of its body\n");
    std::abort();
  }
  FreeStacks().push_back(stack_);
}

void Fiber::SwitchTo(ucontext_t* from, ucontext_t* to, const void* bottom, size_t size,
                     void** fake) {
#ifdef CAIRN_SIM_ASAN
  // A body that has returned never comes back: its fake stack goes.
  __sanitizer_start_switch_fiber(done_ ? nullptr : fake, bottom, size);
  swapcontext(from, to);
  const bool came_inside = from == &inside_;
  __sanitizer_finish_switch_fiber(*fake, came_inside ? &outside_bottom_ : nullptr,
                                  came_inside ? &outside_size_ : nullptr);
#else
  (void)bottom;
  (void)size;
  (void)fake;
  swapcontext(from, to);
#endif
}

void Fiber::Enter(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Fiber*>(static_cast<uintptr_t>(high) << 32 | low);
#ifdef CAIRN_SIM_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &self->outside_bottom_, &self->outside_size_);
#endif
  self->body_();
  self->body_ = nullptr;
  self->done_ = true;
  self->Pause();
}

void Fiber::Resume() {
  begun_ = true;
  SwitchTo(&outside_, &inside_, stack_, kStackBytes, &fake_outside_);
}

void Fiber::Pause() {
  SwitchTo(&inside_, &outside_, outside_bottom_, outside_size_, &fake_inside_);
}

}  // namespace cairn::sim

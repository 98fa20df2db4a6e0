// SPDX-License-Identifier: Apache-2.0
#include "cli/stop_signals.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace cairn::cli {
namespace {

constexpr int kSignalExitBase = 128;

Status SystemError(const char* call) {
  return Status::Unavailable(std::string(call) + ": " + std::strerror(errno));
}

}  // namespace

Result<std::unique_ptr<StopSignals>> StopSignals::Watch(std::function<void(int)> on_first) {
  std::unique_ptr<StopSignals> signals(new StopSignals);
  signals->on_first_ = std::move(on_first);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  if (pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) return SystemError("pthread_sigmask");
  signals->signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC);
  signals->wake_fd_ = eventfd(0, EFD_CLOEXEC);
  if (signals->signal_fd_ < 0 || signals->wake_fd_ < 0) return SystemError("signalfd");
  signals->thread_ = std::thread([raw = signals.get()] { raw->Run(); });
  return signals;
}

StopSignals::~StopSignals() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    while (write(wake_fd_, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  if (signal_fd_ >= 0) close(signal_fd_);
  if (wake_fd_ >= 0) close(wake_fd_);
}

void StopSignals::Run() {
  for (;;) {
    pollfd watched[2] = {{signal_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    if (poll(watched, 2, -1) < 0 && errno != EINTR) return;
    if ((watched[1].revents & POLLIN) != 0) return;
    if ((watched[0].revents & POLLIN) == 0) continue;
    signalfd_siginfo info;
    if (read(signal_fd_, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) continue;
    const int signal = static_cast<int>(info.ssi_signo);
    // The second signal ends the process without a last checkpoint: as safe as any crash.
    if (signal_.load() != 0) _exit(kSignalExitBase + signal);
    signal_.store(signal);
    on_first_(signal);
    source_.request_stop();
  }
}

}  // namespace cairn::cli

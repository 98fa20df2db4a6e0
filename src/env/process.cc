// SPDX-License-Identifier: Apache-2.0
#include "env/process.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>

namespace cairn::env {
namespace {

std::string MachineOfThisProcess() {
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string id;
  struct stat ids = {};
  if (!std::getline(boot, id) || stat("/proc/self/ns/pid", &ids) != 0) return {};
  return id + "/" + std::to_string(ids.st_ino);
}

/// Field 22 of /proc/ID/stat. The name in field 2 may hold spaces and brackets.
std::optional<uint64_t> StartOf(uint64_t id) {
  std::ifstream file("/proc/" + std::to_string(id) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  uint64_t started = 0;
  if (!(fields >> started)) return std::nullopt;
  return started;
}

}  // namespace

ProcessIdentity ThisProcess() {
  ProcessIdentity self;
  self.machine = MachineOfThisProcess();
  self.id = static_cast<uint64_t>(getpid());
  self.started = StartOf(self.id).value_or(0);
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  self.description = "process " + std::to_string(self.id) + " on " + (*host ? host : "unknown");
  return self;
}

bool IsGone(const ProcessIdentity& process) {
  if (process.machine.empty() || process.machine != MachineOfThisProcess()) return false;
  const std::optional<uint64_t> started = StartOf(process.id);
  if (started) return process.started != 0 && *started != process.started;
  return kill(static_cast<pid_t>(process.id), 0) != 0 && errno == ESRCH;
}

}  // namespace cairn::env

// SPDX-License-Identifier: Apache-2.0
//
// An exactly-once service in one screen: counts sessions and clicks of users in "user,seconds"
// lines. A gap of 30 minutes ends a session. Kill it whenever you like and start it again on the
// same input and directory.
//
//   session_counter CLICKS.csv DIRECTORY
#include <cstdio>
#include <fstream>
#include <string>

#include "cairn/state_store.h"

struct Sessions {
  int64_t last_seconds;
  int64_t sessions;
  int64_t clicks;
};

cairn::Status CountSessions(const char* input, const std::string& directory) {
  CAIRN_ASSIGN_OR_RETURN(auto store, cairn::StateStore::Open("file://" + directory, {"sessions"}));
  CAIRN_ASSIGN_OR_RETURN(cairn::Partition * partition, store->OpenPartition(0));
  CAIRN_ASSIGN_OR_RETURN(
      auto* users, (partition->Operator("sessions")->keyed_state<std::string, Sessions>("users")));
  CAIRN_ASSIGN_OR_RETURN(const cairn::Recovered start, partition->Recover());

  std::ifstream clicks(input);
  clicks.seekg(start.offsets.empty() ? 0 : std::stoll(start.offsets));
  std::streamoff offset = clicks.tellg();
  for (std::string line; std::getline(clicks, line);) {
    const size_t comma = line.find(',');
    const int64_t seconds = std::stoll(line.substr(comma + 1));
    CAIRN_RETURN_IF_ERROR(
        users->Update(line.substr(0, comma), [&](Sessions& user, bool inserted) noexcept {
          user.sessions += inserted || seconds - user.last_seconds > 1800;
          user.clicks += 1;
          user.last_seconds = seconds;
        }));
    offset += static_cast<std::streamoff>(line.size()) + 1;
    if (partition->CheckpointDue()) (void)partition->Checkpoint(std::to_string(offset));
    store->Poll();
  }
  CAIRN_ASSIGN_OR_RETURN(auto last, partition->Checkpoint(std::to_string(offset)));
  CAIRN_RETURN_IF_ERROR(last.Wait());
  users->ScanNow(partition->key_groups(), [](const cairn::Bytes& user, const Sessions& sessions) {
    std::printf("%s %lld sessions %lld clicks\n", user.ToString().c_str(),
                static_cast<long long>(sessions.sessions), static_cast<long long>(sessions.clicks));
  });
  return {};
}

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: session_counter CLICKS.csv DIRECTORY\n"), 2;
  const cairn::Status status = CountSessions(argv[1], argv[2]);
  if (!status.ok()) std::fprintf(stderr, "session_counter: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

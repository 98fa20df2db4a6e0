// SPDX-License-Identifier: Apache-2.0
//
// An exactly-once service in one screen: counts sessions and clicks of users in "user,seconds"
// lines. A gap of 30 minutes ends a session. Kill it whenever you like and start it again on the
// same input and directory.
//
//   session_counter CLICKS.csv DIRECTORY
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/state_store.h"

struct Sessions {
  int64_t last_seconds;
  int64_t sessions;
  int64_t clicks;
};

/// The whole number that `text` is, up to a comma.
std::optional<int64_t> NumberIn(std::string_view text) {
  const char* const end = text.data() + std::min(text.find(','), text.size());
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

cairn::Status BadLine(const char* input, const std::string& line, const char* wanted) {
  return cairn::Status::InvalidArgument(std::string(input) + ": the line '" + line + "' is not " +
                                        wanted);
}

cairn::Status CountSessions(const char* input, const std::string& directory) {
  CAIRN_ASSIGN_OR_RETURN(auto store, cairn::StateStore::Open("file://" + directory, {"sessions"}));
  CAIRN_ASSIGN_OR_RETURN(cairn::Partition * partition, store->OpenPartition(0));
  CAIRN_ASSIGN_OR_RETURN(
      auto* users, (partition->Operator("sessions")->keyed_state<std::string, Sessions>("users")));
  CAIRN_ASSIGN_OR_RETURN(const cairn::Recovered start, partition->Recover());

  std::ifstream clicks(input);
  if (!clicks) return cairn::Status::InvalidArgument(std::string("cannot open ") + input);
  clicks.seekg(start.offsets.empty() ? 0 : std::stoll(start.offsets));
  std::streamoff offset = clicks.tellg();
  for (std::string line; std::getline(clicks, line);) {
    const size_t comma = line.find(',');
    const auto number = comma == std::string::npos
                            ? std::nullopt
                            : NumberIn(std::string_view(line).substr(comma + 1));
    if (!number) return BadLine(input, line, "USER,SECONDS");
    const int64_t seconds = *number;
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
  return status.ok() ? 0 : status.code() == cairn::StatusCode::kInvalidArgument ? 2 : 1;
}

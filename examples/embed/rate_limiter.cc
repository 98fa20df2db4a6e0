// SPDX-License-Identifier: Apache-2.0
//
// A rate limiter that survives a restart: at most LIMIT requests a client in WINDOW_MS. Windows of
// clients that went away die by TTL; nobody deletes them. Reads "milliseconds,client" lines, which
// here are event time, and prints what was let through and how many clients are still known.
//
//   rate_limiter REQUESTS.csv DIRECTORY LIMIT WINDOW_MS
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/state_store.h"

struct Window {
  int64_t begun_ms;
  int64_t requests;
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

cairn::Status Limit(const char* input, const std::string& directory, int64_t limit,
                    int64_t window_ms) {
  CAIRN_ASSIGN_OR_RETURN(auto store, cairn::StateStore::Open("file://" + directory, {"limiter"}));
  CAIRN_ASSIGN_OR_RETURN(cairn::Partition * partition, store->OpenPartition(0));
  cairn::TtlConfig ttl;
  ttl.ttl_ms = window_ms;
  ttl.clock = cairn::TtlClock::kEvent;
  ttl.refresh_on_write = false;  // a window ends where it began, however often it is used
  CAIRN_ASSIGN_OR_RETURN(
      auto* windows,
      (partition->Operator("limiter")->keyed_state<std::string, Window>("windows", ttl)));
  CAIRN_ASSIGN_OR_RETURN(
      auto* totals, (partition->Operator("limiter")->keyed_state<std::string, int64_t>("totals")));
  CAIRN_ASSIGN_OR_RETURN(const cairn::Recovered start, partition->Recover());

  std::ifstream requests(input);
  if (!requests) return cairn::Status::InvalidArgument(std::string("cannot open ") + input);
  requests.seekg(start.offsets.empty() ? 0 : std::stoll(start.offsets));
  std::streamoff offset = requests.tellg();
  for (std::string line; std::getline(requests, line);) {
    const size_t comma = line.find(',');
    const auto number = NumberIn(line);
    if (!number || comma == std::string::npos) return BadLine(input, line, "MILLISECONDS,CLIENT");
    const int64_t now_ms = *number;
    CAIRN_RETURN_IF_ERROR(partition->AdvanceWatermark(now_ms));
    bool allowed = false;
    CAIRN_RETURN_IF_ERROR(
        windows->Update(line.substr(comma + 1), [&](Window& window, bool inserted) noexcept {
          if (inserted) window = {now_ms, 0};
          allowed = ++window.requests <= limit;
        }));
    CAIRN_RETURN_IF_ERROR(
        totals->Update(allowed ? "allowed" : "refused", [](int64_t& n, bool) noexcept { ++n; }));
    offset += static_cast<std::streamoff>(line.size()) + 1;
    partition->Maintain();  // sweeps windows that are over, a little at a time
    if (partition->CheckpointDue()) (void)partition->Checkpoint(std::to_string(offset));
    store->Poll();
  }
  CAIRN_ASSIGN_OR_RETURN(auto last, partition->Checkpoint(std::to_string(offset)));
  CAIRN_RETURN_IF_ERROR(last.Wait());
  partition->Maintain(std::chrono::seconds(1));
  for (const char* what : {"allowed", "refused"}) {
    const int64_t* n = totals->Find(what);
    std::printf("%s %lld\n", what, n == nullptr ? 0LL : static_cast<long long>(*n));
  }
  std::printf("clients %llu\n", static_cast<unsigned long long>(windows->size()));
  return {};
}

int main(int argc, char** argv) {
  if (argc != 5) {
    return std::fprintf(stderr, "usage: rate_limiter REQUESTS.csv DIRECTORY LIMIT WINDOW_MS\n"), 2;
  }
  const auto limit = NumberIn(argv[3]);
  const auto window_ms = NumberIn(argv[4]);
  if (!limit || !window_ms || *window_ms < 1) {
    return std::fprintf(stderr, "rate_limiter: LIMIT and WINDOW_MS are whole numbers\n"), 2;
  }
  const cairn::Status status = Limit(argv[1], argv[2], *limit, *window_ms);
  if (!status.ok()) std::fprintf(stderr, "rate_limiter: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : status.code() == cairn::StatusCode::kInvalidArgument ? 2 : 1;
}

// SPDX-License-Identifier: Apache-2.0
//
// A rate limiter that survives a restart: at most LIMIT requests a client in WINDOW_MS. Windows of
// clients that went away die by TTL; nobody deletes them. Reads "milliseconds,client" lines, which
// here are event time, and prints what was let through and how many clients are still known.
//
//   rate_limiter REQUESTS.csv DIRECTORY LIMIT WINDOW_MS
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "cairn/state_store.h"

struct Window {
  int64_t begun_ms;
  int64_t requests;
};

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
  requests.seekg(start.offsets.empty() ? 0 : std::stoll(start.offsets));
  std::streamoff offset = requests.tellg();
  for (std::string line; std::getline(requests, line);) {
    const size_t comma = line.find(',');
    const int64_t now_ms = std::stoll(line);
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
  const cairn::Status status = Limit(argv[1], argv[2], std::atoll(argv[3]), std::atoll(argv[4]));
  if (!status.ok()) std::fprintf(stderr, "rate_limiter: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

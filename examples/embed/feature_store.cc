// SPDX-License-Identifier: Apache-2.0
//
// A feature store: for each user a map from time to amount, whose keys lie in order, and
// features over ranges of it. The writer takes "user,seconds,amount" lines; a second
// thread serves features from views meanwhile, without a lock in the writer's way.
//
//   feature_store PAYMENTS.csv DIRECTORY [USER FROM TO]…
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "cairn/state_store.h"

using Payments = cairn::KeyedMap<std::string, int64_t, int64_t>;

struct Features {
  int64_t payments = 0;
  int64_t sum = 0;
  int64_t largest = 0;
};

/// Of the payments of `user` from `from` to before `to`, as `view` shows them.
Features FeaturesOf(const Payments& payments, const cairn::View& view, const std::string& user,
                    int64_t from, int64_t to) {
  Features features;
  payments.ForRange(view, user, from, to, [&](int64_t, int64_t amount) {
    features.payments += 1;
    features.sum += amount;
    features.largest = std::max(features.largest, amount);
  });
  return features;
}

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

cairn::Status Serve(int argc, char** argv) {
  CAIRN_ASSIGN_OR_RETURN(auto store,
                         cairn::StateStore::Open(std::string("file://") + argv[2], {"features"}));
  CAIRN_ASSIGN_OR_RETURN(cairn::Partition * partition, store->OpenPartition(0));
  CAIRN_ASSIGN_OR_RETURN(
      auto* payments,
      (partition->Operator("features")->map_state<std::string, int64_t, int64_t>("payments")));
  CAIRN_ASSIGN_OR_RETURN(const cairn::Recovered start, partition->Recover());

  std::atomic<bool> stop = false;
  std::atomic<uint64_t> served = 0;
  std::thread reader([&] {
    while (!stop.load()) {
      if (const cairn::View view = partition->LatestView()) {
        FeaturesOf(*payments, view, "user1", 0, 1'000'000'000);
        ++served;
      }
      std::this_thread::yield();
    }
  });
  const auto write = [&]() -> cairn::Status {
    std::ifstream lines(argv[1]);
    if (!lines) return cairn::Status::InvalidArgument(std::string("cannot open ") + argv[1]);
    lines.seekg(start.offsets.empty() ? 0 : std::stoll(start.offsets));
    std::streamoff offset = lines.tellg();
    for (std::string line; std::getline(lines, line);) {
      const size_t first = line.find(',');
      const size_t second = first == std::string::npos ? first : line.find(',', first + 1);
      if (second == std::string::npos) return BadLine(argv[1], line, "USER,SECONDS,AMOUNT");
      const auto at = NumberIn(std::string_view(line).substr(first + 1));
      const auto amount = NumberIn(std::string_view(line).substr(second + 1));
      if (!at || !amount) return BadLine(argv[1], line, "USER,SECONDS,AMOUNT");
      CAIRN_RETURN_IF_ERROR(payments->Update(line.substr(0, first), *at,
                                             [&](int64_t& sum, bool) noexcept { sum += *amount; }));
      offset += static_cast<std::streamoff>(line.size()) + 1;
      partition->Maintain();
      if (partition->CheckpointDue()) (void)partition->Checkpoint(std::to_string(offset));
      store->Poll();
    }
    CAIRN_ASSIGN_OR_RETURN(auto last, partition->Checkpoint(std::to_string(offset)));
    return last.Wait();
  };
  const cairn::Status written = write();
  stop = true;
  reader.join();
  CAIRN_RETURN_IF_ERROR(written);
  const cairn::View view = partition->Capture();
  for (int i = 3; i + 2 < argc; i += 3) {
    const Features features =
        FeaturesOf(*payments, view, argv[i], std::atoll(argv[i + 1]), std::atoll(argv[i + 2]));
    std::printf("%s %lld payments, %lld in all, %lld the largest\n", argv[i],
                static_cast<long long>(features.payments), static_cast<long long>(features.sum),
                static_cast<long long>(features.largest));
  }
  std::fprintf(stderr, "served %llu times beside the writer\n",
               static_cast<unsigned long long>(served.load()));
  return {};
}

int main(int argc, char** argv) {
  bool whole = argc >= 3 && argc % 3 == 0;
  for (int i = 3; whole && i < argc; i += 3) {
    whole = NumberIn(argv[i + 1]).has_value() && NumberIn(argv[i + 2]).has_value();
  }
  if (!whole) {
    return std::fprintf(stderr,
                        "usage: feature_store PAYMENTS.csv DIRECTORY "
                        "[USER FROM TO]...\n"),
           2;
  }
  const cairn::Status status = Serve(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "feature_store: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : status.code() == cairn::StatusCode::kInvalidArgument ? 2 : 1;
}

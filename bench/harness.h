// SPDX-License-Identifier: Apache-2.0
//
// A small harness for paired measurements on a shared machine: thread CPU time, medians of
// interleaved repetitions, keys that are neither dense nor in order, one JSON object a line.
#pragma once

#include <sys/resource.h>
#include <time.h>
#include <x86intrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace cairn::bench {

inline double SecondsOf(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}
inline double CpuSeconds() { return SecondsOf(CLOCK_THREAD_CPUTIME_ID); }
inline double WallSeconds() { return SecondsOf(CLOCK_MONOTONIC); }

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

/// CPU seconds of fn().
template <class Fn>
double TimeCpu(Fn&& fn) {
  const double begin = CpuSeconds();
  fn();
  return CpuSeconds() - begin;
}

/// 63-bit keys, scattered: no dense integers.
inline int64_t ScatteredKey(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<int64_t>((x ^ (x >> 31)) >> 1);
}

/// Ranks 0..n-1 drawn zipf with theta 0.99, by the method of Gray et al. that YCSB uses.
class Zipf {
 public:
  explicit Zipf(uint64_t n) : n_(n) {
    double zeta = 0;
    for (uint64_t i = 1; i <= n; ++i) zeta += std::pow(1.0 / static_cast<double>(i), kTheta);
    zeta_ = zeta;
    eta_ = (1 - std::pow(2.0 / static_cast<double>(n), 1 - kTheta)) /
           (1 - (1 + std::pow(0.5, kTheta)) / zeta);
  }
  uint64_t Next(std::mt19937_64* random) const {
    const double u = static_cast<double>((*random)() >> 11) * 0x1.0p-53;
    const double uz = u * zeta_;
    if (uz < 1) return 0;
    if (uz < 1 + std::pow(0.5, kTheta)) return 1;
    const auto rank = static_cast<uint64_t>(static_cast<double>(n_) *
                                            std::pow(eta_ * u - eta_ + 1, 1 / (1 - kTheta)));
    return std::min(rank, n_ - 1);
  }

 private:
  static constexpr double kTheta = 0.99;
  uint64_t n_;
  double zeta_;
  double eta_;
};

/// Find the slowest of many short operations, leaving out those during which the kernel took the
/// processor away.
class WorstTime {
 public:
  WorstTime() {
    const double wall = WallSeconds();
    const uint64_t ticks = __rdtsc();
    while (WallSeconds() - wall < 0.02) {
    }
    ticks_a_microsecond_ = static_cast<double>(__rdtsc() - ticks) / ((WallSeconds() - wall) * 1e6);
    switches_ = Switches();
  }
  template <class Fn>
  void Time(Fn&& fn) {
    const uint64_t begin = __rdtsc();
    fn();
    const uint64_t ticks = __rdtsc() - begin;
    if (ticks <= worst_) return;
    const long switches = Switches();
    if (switches == switches_) worst_ = ticks;
    switches_ = switches;
  }
  /// Forget what happened to the thread between two timed stretches.
  void Resume() { switches_ = Switches(); }
  double worst_us() const { return static_cast<double>(worst_) / ticks_a_microsecond_; }

 private:
  static long Switches() {
    rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw + usage.ru_nvcsw;
  }
  double ticks_a_microsecond_;
  uint64_t worst_ = 0;
  long switches_ = 0;
};

/// Print results as the bench command promises: one JSON object a line.
class Report {
 public:
  Report(std::string suite, int argc, char** argv) : suite_(std::move(suite)) {
    for (int i = 1; i < argc; ++i) {
      if (std::strcmp(argv[i], "--quick") == 0) {
        quick_ = true;
      } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
        file_ = std::fopen(argv[++i], "a");
        if (file_ == nullptr) Usage(argv[0]);
      } else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
        only_ = argv[++i];
      } else {
        Usage(argv[0]);
      }
    }
  }
  ~Report() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  bool quick() const { return quick_; }
  /// True when a group of cases is to run: all, unless --only names part of it.
  bool Wants(const char* group) const {
    return only_.empty() || std::string(group).find(only_) != std::string::npos;
  }

  void Add(const std::string& name, double value, const char* unit, const char* better,
           const std::string& peer, double peer_value) {
    char line[512];
    std::snprintf(
        line, sizeof(line),
        "{\"suite\": \"%s\", \"case\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", "
        "\"better\": \"%s\", \"peer\": \"%s\", \"peer_value\": %.6g, \"ratio\": %.4g%s}\n",
        suite_.c_str(), name.c_str(), value, unit, better, peer.c_str(), peer_value,
        peer_value == 0 ? 0 : value / peer_value, quick_ ? ", \"quick\": true" : "");
    std::fputs(line, stdout);
    std::fflush(stdout);
    if (file_ != nullptr) std::fputs(line, file_);
  }

 private:
  [[noreturn]] static void Usage(const char* program) {
    std::fprintf(stderr, "usage: %s [--quick] [--json FILE] [--only GROUP]\n", program);
    std::exit(2);
  }
  std::string suite_;
  std::string only_;
  std::FILE* file_ = nullptr;
  bool quick_ = false;
};

}  // namespace cairn::bench

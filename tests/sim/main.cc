// SPDX-License-Identifier: Apache-2.0
//
// sim: run seeded schedules of the checkpoint protocol, or one of them again.
//
//   sim [--seed N] [--schedules N] [--seconds S] [--profile one-process|cluster] [--planted NAME]
//       [--trace]
//
// Exit: 0 all held · 1 a violation (with --planted: none) · 2 usage.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

#include "schedule.h"

namespace cairn::sim {
namespace {

struct Arguments {
  uint64_t seed = std::random_device()() % 1'000'000'000;
  uint64_t schedules = 0;  ///< 0 = until the time is up
  double seconds = 60;
  ScheduleOptions options;
};

int Usage(const char* what) {
  std::fprintf(stderr,
               "sim: %s\nusage: sim [--seed N] [--schedules N] [--seconds S] [--trace] "
               "[--profile one-process|cluster] [--planted NAME]\nplanted bugs:",
               what);
  for (const PlantedBugName& known : kPlantedBugs) std::fprintf(stderr, " %s", known.name.data());
  std::fprintf(stderr, "\n");
  return 2;
}

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--trace") {
      arguments->options.keep_trace = true;
      continue;
    }
    if (i + 1 == argc) return false;
    const char* value = argv[++i];
    if (name == "--seed") {
      arguments->seed = std::strtoull(value, nullptr, 10);
    } else if (name == "--schedules") {
      arguments->schedules = std::strtoull(value, nullptr, 10);
    } else if (name == "--seconds") {
      arguments->seconds = std::strtod(value, nullptr);
    } else if (name == "--profile") {
      for (const Profile profile : {Profile::kOneProcess, Profile::kCluster}) {
        if (ProfileName(profile) == value) arguments->options.profile = profile;
      }
      if (!arguments->options.profile) return false;
    } else if (name == "--planted") {
      const auto bug = PlantedBugOf(value);
      if (!bug) return false;
      arguments->options.bug = *bug;
    } else {
      return false;
    }
  }
  return true;
}

int Run(const Arguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::printf("seed %llu\n", static_cast<unsigned long long>(arguments.seed));
  MetCounts met{};
  uint64_t done = 0;
  uint64_t events = 0;
  for (; arguments.schedules > 0 ? done < arguments.schedules : elapsed() < arguments.seconds;
       ++done) {
    const uint64_t seed = arguments.seed + done;
    const ScheduleOutcome outcome = RunSchedule(seed, arguments.options);
    for (const std::string& line : outcome.trace) std::printf("%s\n", line.c_str());
    for (size_t i = 0; i < met.size(); ++i) met[i] += outcome.met[i];
    events += outcome.events;
    if (outcome.violation.empty()) continue;
    std::printf("seed %llu fails: %s\nreplay: %s\n", static_cast<unsigned long long>(seed),
                outcome.violation.c_str(), ReplayLine(seed, arguments.options).c_str());
    return arguments.options.bug == PlantedBug::kNone ? 1 : 0;
  }
  const double took = elapsed();
  std::printf("%llu schedules held in %.1f s, %.0f a minute, %llu events\n",
              static_cast<unsigned long long>(done), took, static_cast<double>(done) / took * 60,
              static_cast<unsigned long long>(events));
  for (size_t i = 0; i < met.size(); ++i) {
    std::printf("%s%s %llu", i == 0 ? "met: " : ", ", MetName(static_cast<Met>(i)).data(),
                static_cast<unsigned long long>(met[i]));
  }
  std::printf("\n");
  return arguments.options.bug == PlantedBug::kNone ? 0 : 1;
}

}  // namespace
}  // namespace cairn::sim

int main(int argc, char** argv) {
  cairn::sim::Arguments arguments;
  if (!cairn::sim::Parse(argc, argv, &arguments)) return cairn::sim::Usage("bad arguments");
  return cairn::sim::Run(arguments);
}

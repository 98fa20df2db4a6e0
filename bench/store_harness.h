// SPDX-License-Identifier: Apache-2.0
//
// What the benchmarks of whole checkpoints share: one slot of numbers, the store of a job that has
// it, wall time, and an end at the first error.
#pragma once

#include <errno.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "cairn/state_table.h"
#include "cairn/status.h"
#include "checkpoint/store.h"
#include "harness.h"

namespace cairn::bench {

[[noreturn]] inline void Fail(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, what.c_str());
  std::exit(1);
}
inline void Check(const Status& status) {
  if (!status.ok()) Fail(status.ToString());
}
template <class T>
T Check(Result<T> result) {
  if (!result.ok()) Fail(result.status().ToString());
  return *std::move(result);
}

/// Wall milliseconds of fn().
template <class Fn>
double TimeWallMs(Fn&& fn) {
  const double begin = WallSeconds();
  fn();
  return (WallSeconds() - begin) * 1e3;
}

inline SlotDescriptor Descriptor() {
  SlotDescriptor descriptor;
  descriptor.operator_uid = "out/count/0";
  descriptor.operator_id = OperatorIdOf(descriptor.operator_uid);
  descriptor.name = "count";
  descriptor.key_codec = "int64";
  descriptor.value_codec = "int64";
  return descriptor;
}

inline checkpoint::StoreOptions StoreOptions() {
  checkpoint::StoreOptions options;
  options.pipeline.job = "bench";
  options.pipeline.components.push_back({"source", "in", "{}", false});
  options.pipeline.components.push_back({"operator", Descriptor().operator_uid, "{}", false});
  options.pipeline.components.push_back({"sink", "out", "{}", false});
  return options;
}

}  // namespace cairn::bench

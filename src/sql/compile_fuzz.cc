// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target: any bytes either compile or are refused with a reason; nothing crashes.
//
//   clang++-19 -fsanitize=fuzzer,address ... src/sql/compile_fuzz.cc
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sql/compile.h"
#include "sql/plan_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto plan =
      cairn::sql::Compile(std::string_view(reinterpret_cast<const char*>(data), size));
  if (plan.ok()) {
    for (const auto& pipeline : plan->pipelines) (void)cairn::sql::PipelineText(pipeline);
  } else if (plan.status().code() == cairn::StatusCode::kInternal) {
    std::abort();  // kInternal is a bug of the compiler's, whatever the text
  }
  return 0;
}

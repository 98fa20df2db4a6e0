// SPDX-License-Identifier: Apache-2.0
//
// One JSON object a line: what --json prints.
//
// Threads: one.
#pragma once

#include "cli/output.h"

namespace cairn::cli {

/// Print `json` (of nlohmann, sorted or not). Never fails: text that is not UTF-8 is replaced.
template <class Json>
void PrintJsonLine(const Json& json, Output* out) {
  out->Line(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace cairn::cli

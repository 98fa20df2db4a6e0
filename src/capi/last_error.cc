// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "capi/handles.h"

namespace cairn::capi {
namespace {

thread_local std::string last_error;

}  // namespace

cairn_code Fail(const Status& status) {
  if (!status.ok()) {
    try {
      last_error = status.ToString();
    } catch (...) {  // no memory for the words: the code must do
      last_error.clear();
    }
  }
  return static_cast<cairn_code>(status.code());
}

}  // namespace cairn::capi

extern "C" const char* cairn_last_error(void) { return cairn::capi::last_error.c_str(); }

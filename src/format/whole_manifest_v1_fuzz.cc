// SPDX-License-Identifier: Apache-2.0
#include "format/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cairn::format::FuzzWholeManifestV1({reinterpret_cast<const char*>(data), size});
  return 0;
}

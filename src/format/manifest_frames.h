// SPDX-License-Identifier: Apache-2.0
//
// The list of state frames in a manifest's text, written and read without a JSON tree: it is nearly
// all of a large manifest, and a tree of it costs ten times as much as the text.
//
// Threads: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/manifest.h"

namespace cairn::format {

/// Put the canonical JSON of `frames` in the place of the empty list of a manifest's text.
std::string WithFrames(std::string_view manifest, const std::vector<StateFrame>& frames);

/// A manifest's text with its list of frames emptied, and the frames.
struct TextAndFrames {
  std::string text;
  std::vector<StateFrame> frames;
};

/// Take the frames out of a manifest's text. Nothing when they are not written as WithFrames does:
/// then the text has to be read, and judged, as any JSON. The caller compares what it read with the
/// text, so that a list found in the wrong place is found out.
std::optional<TextAndFrames> TakeFrames(std::string_view manifest);

}  // namespace cairn::format

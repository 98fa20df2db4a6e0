// SPDX-License-Identifier: Apache-2.0
//
// Reading the slots of two saved states so that what is one column has one name on both sides: a
// column that was renamed between them, and a snapshot stream, which has no columns at all.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "cairn/state_table.h"

namespace cairn::cli {

/// The slots of both sides, each in its side's order, as they are to be read.
struct AlignedSlots {
  std::vector<SlotDescriptor> a;
  std::vector<SlotDescriptor> b;
  /// One line for each column that is shown under another name than its own.
  std::vector<std::string> notes;
};

/// Align the slots that both sides have.
///
/// Shape:    a slot of a stream takes the columns that the other side declares when codec and
/// version
///           are the same; else, and where rows have deadlines, both are read as bytes. A column of
///           `b` takes the name of the one at its place in `a` when the types are the same and
///           neither name is on the other side.
AlignedSlots AlignSlots(std::vector<SlotDescriptor> a, std::vector<SlotDescriptor> b);

/// The slot with its keys and values as bytes.
SlotDescriptor AsBytes(SlotDescriptor slot);

}  // namespace cairn::cli

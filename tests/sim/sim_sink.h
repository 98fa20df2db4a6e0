// SPDX-License-Identifier: Apache-2.0
//
// SimSink: a two-phase sink as an outside system keeps it. A piece of rows is prepared, invisible,
// and published once, however often that is asked for.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "network.h"
#include "oracle.h"

namespace cairn::sim {

class SimSink {
 public:
  explicit SimSink(Oracle* oracle) : oracle_(oracle) {}

  /// Keep rows [first, end) of the input under a new name.
  Status Prepare(Network* network, Host* host, const PreparedPiece& piece, uint64_t first,
                 uint64_t end);
  /// Make a piece visible.
  ///
  /// Errors:   kNotFound: it was never prepared, or was thrown away.
  Status Publish(Network* network, Host* host, const std::string& piece);
  /// Throw away what was prepared for checkpoints before `end` and is not in `keep`, as a recovery
  /// does. `end` is the first id of the process: what has later ones is its successors'.
  Status DiscardAllBut(Network* network, Host* host, const std::set<std::string>& keep,
                       base::CheckpointId end);

 private:
  struct Piece {
    base::CheckpointId checkpoint;
    uint64_t first = 0;
    uint64_t end = 0;
    bool published = false;
  };

  Oracle* oracle_;
  std::map<std::string, Piece> pieces_;
};

}  // namespace cairn::sim

// SPDX-License-Identifier: Apache-2.0
#include "sim_sink.h"

namespace cairn::sim {

Status SimSink::Prepare(Network* network, Host* host, const PreparedPiece& piece, uint64_t first,
                        uint64_t end) {
  return network->Call<Status>(host, true, "prepare", piece.descriptor, [this, piece, first, end] {
    pieces_.emplace(piece.descriptor, Piece{piece.checkpoint, first, end, false});
    return Status();
  });
}

Status SimSink::Publish(Network* network, Host* host, const std::string& piece) {
  return network->Call<Status>(host, true, "publish", piece, [this, piece] {
    const auto found = pieces_.find(piece);
    if (found == pieces_.end()) return Status::NotFound("piece " + piece + " is not there");
    if (found->second.published) return Status();
    found->second.published = true;
    oracle_->Published(found->second.first, found->second.end);
    return Status();
  });
}

Status SimSink::DiscardAllBut(Network* network, Host* host, const std::set<std::string>& keep,
                              base::CheckpointId end) {
  return network->Call<Status>(
      host, true, "discard", "before " + std::to_string(end.value), [this, keep, end] {
        std::erase_if(pieces_, [&](const auto& one) {
          return !one.second.published && one.second.checkpoint < end && !keep.contains(one.first);
        });
        return Status();
      });
}

}  // namespace cairn::sim

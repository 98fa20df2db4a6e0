// SPDX-License-Identifier: Apache-2.0
//
// Read objects front to back in large pieces, the next one on its way while this one is used: what
// makes a restore from a bucket as fast as its download.
//
// Threads: one, and one of its own for the piece that is on its way.
// Memory:  two pieces of 8 MiB.
#pragma once

#include <cstdint>
#include <future>
#include <map>
#include <span>
#include <string>

#include "cairn/status.h"
#include "env/object_store.h"

namespace cairn::checkpoint {

class ReadAhead final : public env::ObjectRanges {
 public:
  /// `objects` outlives it; `lengths` has every object that will be read.
  ReadAhead(env::ObjectRanges* objects, std::map<std::string, uint64_t> lengths,
            uint64_t piece_bytes = uint64_t{8} << 20)
      : objects_(objects), lengths_(std::move(lengths)), piece_bytes_(piece_bytes) {}

  Status ReadRange(const std::string& key, uint64_t offset, std::span<char> out) override;

 private:
  /// A piece of an object.
  struct Piece {
    std::string key;
    uint64_t offset = 0;
    std::string bytes;
    bool Covers(const std::string& other, uint64_t at) const {
      return key == other && at >= offset && at - offset < bytes.size();
    }
  };

  Result<Piece> Fetch(const std::string& key, uint64_t offset, uint64_t length) const;
  Status MoveTo(const std::string& key, uint64_t offset);
  void Begin(const std::string& key, uint64_t offset);

  env::ObjectRanges* const objects_;
  const std::map<std::string, uint64_t> lengths_;
  const uint64_t piece_bytes_;
  Piece piece_;
  std::future<Result<Piece>> next_;
};

}  // namespace cairn::checkpoint

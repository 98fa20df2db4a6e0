// SPDX-License-Identifier: Apache-2.0
//
// The bids of the Nexmark benchmark, each computed from the seed and its number alone, so that any
// subtask can make any part of the stream again.
//
// Rules of the public generator: of 50 events 1 is a person, 3 are auctions and 46 bids (only the
// bids are made here; the others fix which ids exist). Half of the bids go to the newest "hot"
// auction of each hundred, three quarters come from the hot bidder; the rest spread over the last
// 100 auctions and 1,000 people, a few not yet known. price = 10^(6u) * 100; half of the channels
// are one of four, the others one of 10,000. Event time runs at 10,000 events a second from
// 2015-07-15. Where it differs: the four hot channels are written in lower case.
//
// Threads: any, the generator is immutable.
#pragma once

#include <cstdint>
#include <string_view>

#include "connectors/column_builder.h"

namespace cairn::connectors {

class NexmarkBids {
 public:
  explicit NexmarkBids(uint64_t seed);

  enum class Column : uint8_t { kAuction, kBidder, kPrice, kChannel, kUrl, kDateTime, kExtra };

  /// Bytes of text a bid has in one column at most.
  static constexpr int64_t kTextBytesMax = 128;

  /// Write `column` of bids [first, first + count) to rows [row, row + count) of `out`.
  void Generate(Column column, uint64_t first, int64_t count, int64_t row,
                ColumnBuilder* out) const;

 private:
  int64_t Auction(uint64_t bid) const;
  int64_t Bidder(uint64_t bid) const;
  int64_t Price(uint64_t bid) const;
  char* Channel(uint64_t bid, char* out) const;
  char* Url(uint64_t bid, char* out) const;
  char* Extra(uint64_t bid, char* out) const;

  /// 64 random bits of a bid's column.
  uint64_t Random(uint64_t bid, uint64_t what) const;
  /// Which channel: 0..3 hot, else 4 + n.
  uint32_t ChannelOf(uint64_t bid) const;

  uint64_t seed_;
  double powers_[3][256];  ///< factors of 10^(6u) by the bytes of u
};

}  // namespace cairn::connectors

// SPDX-License-Identifier: Apache-2.0
#include "connectors/nexmark_generator.h"

#include <cmath>
#include <cstring>

namespace cairn::connectors {
namespace {

constexpr uint64_t kBidsPerEpoch = 46;
constexpr uint64_t kEventsPerEpoch = 50;
constexpr uint64_t kFirstBidOfEpoch = 4;  // behind a person and three auctions
constexpr uint64_t kAuctionsPerEpoch = 3;
constexpr int64_t kFirstAuctionId = 1000;
constexpr int64_t kFirstPersonId = 1000;
constexpr uint64_t kHotEvery = 100;  // one hot auction, one hot bidder in so many
constexpr uint64_t kAuctionsInFlight = 100;
constexpr uint64_t kActivePeople = 1000;
constexpr uint64_t kIdLead = 10;  // ids that are not there yet
constexpr uint32_t kHotChannels = 4;
constexpr uint32_t kOtherChannels = 10'000;
constexpr int64_t kBaseTimeMicros = 1'436'918'400'000'000;  // 2015-07-15T00:00:00Z
constexpr int64_t kMicrosPerEvent = 100;
constexpr uint64_t kExtraBytesMin = 54;  // brings a bid to about 100 bytes
constexpr uint64_t kExtraBytesSpread = 28;

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ULL;

/// The finaliser of SplitMix64.
uint64_t Mix(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBULL;
  return bits ^ (bits >> 31);
}

/// A number below `limit` from 64 random bits.
uint64_t Below(uint64_t random, uint64_t limit) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(random) * limit) >> 64);
}

uint64_t EpochOf(uint64_t bid) { return bid / kBidsPerEpoch; }

uint64_t EventOf(uint64_t bid) {
  return EpochOf(bid) * kEventsPerEpoch + kFirstBidOfEpoch + bid % kBidsPerEpoch;
}

/// Three or four letters and an underscore now and then, by the low bits of `random`.
char* PutWord(uint64_t random, char* out) {
  const unsigned size = 3 + (random & 1);
  random >>= 1;
  for (unsigned i = 0; i < size; ++i, random >>= 7) {
    const unsigned letter = static_cast<unsigned>((random & 127) * 28 >> 7);
    out[i] = letter < 26 ? static_cast<char>('a' + letter) : '_';
  }
  return out + size;
}

char* PutText(std::string_view text, char* out) {
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

uint32_t ReverseBits(uint32_t bits) {
  uint32_t reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= ((bits >> i) & 1u) << (31 - i);
  return reversed;
}

}  // namespace

NexmarkBids::NexmarkBids(uint64_t seed) : seed_(Mix(seed + kGolden)) {
  for (int level = 0; level < 3; ++level) {
    for (int byte = 0; byte < 256; ++byte) {
      powers_[level][byte] = std::pow(10.0, 6.0 * byte / std::pow(256.0, level + 1));
    }
  }
}

uint64_t NexmarkBids::Random(uint64_t bid, uint64_t what) const {
  return Mix(seed_ ^ Mix((bid * 8 + what + 1) * kGolden));
}

int64_t NexmarkBids::Auction(uint64_t bid) const {
  const uint64_t random = Random(bid, 0);
  const uint64_t newest = EpochOf(bid) * kAuctionsPerEpoch + kAuctionsPerEpoch - 1;
  if (random & 1) return static_cast<int64_t>(newest / kHotEvery * kHotEvery) + kFirstAuctionId;
  const uint64_t oldest = newest > kAuctionsInFlight ? newest - kAuctionsInFlight : 0;
  const uint64_t id = oldest + Below(Mix(random), newest - oldest + 1 + kIdLead);
  return static_cast<int64_t>(id) + kFirstAuctionId;
}

int64_t NexmarkBids::Bidder(uint64_t bid) const {
  const uint64_t random = Random(bid, 1);
  const uint64_t people = EpochOf(bid) + 1;
  if ((random & 3) != 0) {
    return static_cast<int64_t>((people - 1) / kHotEvery * kHotEvery + 1) + kFirstPersonId;
  }
  const uint64_t active = people < kActivePeople ? people : kActivePeople;
  const uint64_t id = people - active + Below(Mix(random), active + kIdLead);
  return static_cast<int64_t>(id) + kFirstPersonId;
}

int64_t NexmarkBids::Price(uint64_t bid) const {
  const uint64_t random = Random(bid, 2);
  const double power =
      powers_[0][random & 255] * powers_[1][(random >> 8) & 255] * powers_[2][(random >> 16) & 255];
  return static_cast<int64_t>(power * 100.0 + 0.5);
}

uint32_t NexmarkBids::ChannelOf(uint64_t bid) const {
  const uint64_t random = Random(bid, 3);
  if (random & 1) return static_cast<uint32_t>(random >> 1) % kHotChannels;
  return kHotChannels + static_cast<uint32_t>(Below(Mix(random), kOtherChannels));
}

char* NexmarkBids::Channel(uint64_t bid, char* out) const {
  constexpr std::string_view kNames[kHotChannels] = {"google", "facebook", "baidu", "apple"};
  const uint32_t channel = ChannelOf(bid);
  if (channel < kHotChannels) return PutText(kNames[channel], out);
  return PutInt64(channel - kHotChannels, PutText("channel-", out));
}

char* NexmarkBids::Url(uint64_t bid, char* out) const {
  const uint32_t channel = ChannelOf(bid);
  uint64_t random = Mix(seed_ + (channel + 1) * kGolden);
  out = PutText("https://www.nexmark.com/", out);
  for (int word = 0; word < 3; ++word) {
    out = PutWord(random, out);
    *out++ = '/';
    random = Mix(random);
  }
  out = PutText("item.htm?query=1", out);
  if (channel >= kHotChannels && random % 10 != 0) {
    const auto reversed = static_cast<int32_t>(ReverseBits(channel - kHotChannels));
    out = PutInt64(std::abs(static_cast<int64_t>(reversed)), PutText("&channel_id=", out));
  }
  return out;
}

char* NexmarkBids::Extra(uint64_t bid, char* out) const {
  const uint64_t random = Random(bid, 4);
  const uint64_t size = kExtraBytesMin + Below(random, kExtraBytesSpread);
  constexpr size_t kWhole = 88;  // the longest, by eights
  unsigned char bytes[kWhole];
  for (size_t i = 0; i < kWhole; i += 8) {
    const uint64_t eight = Mix(random + i * kGolden);
    std::memcpy(bytes + i, &eight, 8);
  }
  for (size_t i = 0; i < kWhole; ++i) out[i] = static_cast<char>('a' + ((bytes[i] * 26) >> 8));
  return out + size;
}

void NexmarkBids::Generate(Column column, uint64_t first, int64_t count, int64_t row,
                           ColumnBuilder* out) const {
  const auto numbers = [&](auto value) {
    for (int64_t i = 0; i < count; ++i) {
      out->SetInt64(row + i, value(first + static_cast<uint64_t>(i)));
    }
  };
  const auto texts = [&](auto put) {
    for (int64_t i = 0; i < count; ++i) {
      char* const begin = out->StartText(row + i);
      char* const end = put(first + static_cast<uint64_t>(i), begin);
      out->FinishText(row + i, static_cast<size_t>(end - begin));
    }
  };
  switch (column) {
    case Column::kAuction:
      return numbers([this](uint64_t bid) { return Auction(bid); });
    case Column::kBidder:
      return numbers([this](uint64_t bid) { return Bidder(bid); });
    case Column::kPrice:
      return numbers([this](uint64_t bid) { return Price(bid); });
    case Column::kDateTime:
      return numbers([](uint64_t bid) {
        return kBaseTimeMicros + static_cast<int64_t>(EventOf(bid)) * kMicrosPerEvent;
      });
    case Column::kChannel:
      return texts([this](uint64_t bid, char* to) { return Channel(bid, to); });
    case Column::kUrl:
      return texts([this](uint64_t bid, char* to) { return Url(bid, to); });
    case Column::kExtra:
      return texts([this](uint64_t bid, char* to) { return Extra(bid, to); });
  }
}

}  // namespace cairn::connectors

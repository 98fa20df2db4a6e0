// SPDX-License-Identifier: Apache-2.0
//
// Slot hash: XXH3-64 of the encoded user key, seeded per deployment (docs/formats/keys.md, "Slot
// hash"). Saved rows are ordered by it, so its values never change.
//
// Keys of up to 16 bytes, which is nearly all of them, are hashed here in registers; SlotHashLong
// calls the library. A test compares the two at every length.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace cairn {
inline namespace v0 {
namespace detail {

uint64_t SlotHashLong(std::string_view bytes, uint64_t seed);

/// The seed, with what each key length makes of it worked out beforehand.
class SlotHasher {
 public:
  explicit SlotHasher(uint64_t seed = 0)
      : seed_(seed),
        flip_empty_(seed ^ (kSecret56 ^ kSecret64)),
        flip_1to3_((kSecret0 ^ kSecret4) + seed),
        flip_4to8_((kSecret8 ^ kSecret16) -
                   (seed ^ (uint64_t{__builtin_bswap32(static_cast<uint32_t>(seed))} << 32))),
        flip_lo_((kSecret24 ^ kSecret32) + seed),
        flip_hi_((kSecret40 ^ kSecret48) - seed) {}

  uint64_t seed() const { return seed_; }

  /// Hash an object by its own bytes.
  template <class T>
  uint64_t HashObject(const T& object) const {
    if constexpr (sizeof(T) == 8) {
      return Hash8(std::bit_cast<uint64_t>(object));
    } else {
      char bytes[sizeof(T)];
      std::memcpy(bytes, &object, sizeof(T));
      return Hash({bytes, sizeof(T)});
    }
  }

  uint64_t Hash(std::string_view bytes) const {
    const size_t size = bytes.size();
    const char* data = bytes.data();
    if (size > 16) return SlotHashLong(bytes, seed_);
    if (size > 8) return Hash9To16(Load<uint64_t>(data), Load<uint64_t>(data + size - 8), size);
    if (size >= 4) return Hash4To8(Load<uint32_t>(data), Load<uint32_t>(data + size - 4), size);
    if (size > 0) return Hash1To3(data, size);
    return Avalanche64(flip_empty_);
  }

 private:
  // Words of the library's default secret, by offset.
  static constexpr uint64_t kSecret0 = 0x396cfeb8, kSecret4 = 0xbe4ba423;
  static constexpr uint64_t kSecret8 = 0x1cad21f72c81017c, kSecret16 = 0xdb979083e96dd4de;
  static constexpr uint64_t kSecret24 = 0x1f67b3b7a4a44072, kSecret32 = 0x78e5c0cc4ee679cb;
  static constexpr uint64_t kSecret40 = 0x2172ffcc7dd05a82, kSecret48 = 0x8e2443f7744608b8;
  static constexpr uint64_t kSecret56 = 0x4c263a81e69035e0, kSecret64 = 0xcb00c391bb52283c;

  template <class T>
  static T Load(const char* from) {
    T word;
    std::memcpy(&word, from, sizeof(T));
    return word;
  }
  static uint64_t Avalanche64(uint64_t h) {
    h = (h ^ (h >> 33)) * 0xC2B2AE3D27D4EB4FULL;
    h = (h ^ (h >> 29)) * 0x165667B19E3779F9ULL;
    return h ^ (h >> 32);
  }
  uint64_t Hash1To3(const char* data, size_t size) const {
    const uint32_t first = static_cast<uint8_t>(data[0]);
    const uint32_t middle = static_cast<uint8_t>(data[size >> 1]);
    const uint32_t last = static_cast<uint8_t>(data[size - 1]);
    const uint32_t word = (first << 16) | (middle << 24) | last | static_cast<uint32_t>(size << 8);
    return Avalanche64(word ^ flip_1to3_);
  }
  uint64_t Hash8(uint64_t word) const { return Mix(std::rotl(word, 32), 8); }
  uint64_t Hash4To8(uint32_t first, uint32_t last, size_t size) const {
    return Mix(last + (uint64_t{first} << 32), size);
  }
  uint64_t Mix(uint64_t word, size_t size) const {
    uint64_t h = word ^ flip_4to8_;
    h ^= std::rotl(h, 49) ^ std::rotl(h, 24);
    h *= 0x9FB21C651E98DF25ULL;
    h ^= (h >> 35) + size;
    h *= 0x9FB21C651E98DF25ULL;
    return h ^ (h >> 28);
  }
  uint64_t Hash9To16(uint64_t first, uint64_t last, size_t size) const {
    const uint64_t lo = first ^ flip_lo_;
    const uint64_t hi = last ^ flip_hi_;
    const unsigned __int128 product = static_cast<unsigned __int128>(lo) * hi;
    uint64_t h = size + __builtin_bswap64(lo) + hi +
                 (static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64));
    h ^= h >> 37;
    h *= 0x165667919E3779F9ULL;
    return h ^ (h >> 32);
  }

  uint64_t seed_;
  uint64_t flip_empty_;
  uint64_t flip_1to3_;
  uint64_t flip_4to8_;
  uint64_t flip_lo_;
  uint64_t flip_hi_;
};

/// FNV-1a 64 of an object's own bytes.
///
/// The bytes are read from memory, one a multiply: taken out of a register by shifts they are twice
/// the instructions, and a probe's instructions are what limits how many misses overlap.
template <class T>
uint64_t FnvOfObject(const T& object) {
  unsigned char bytes[sizeof(T)];
  std::memcpy(bytes, &object, sizeof(T));
#if defined(__GNUC__)
  asm("" : "+m"(bytes));
#endif
  uint64_t h = 0xcbf29ce484222325ULL;
  for (unsigned char byte : bytes) h = (h ^ byte) * 0x100000001b3ULL;
  return h;
}

}  // namespace detail
}  // namespace v0
}  // namespace cairn

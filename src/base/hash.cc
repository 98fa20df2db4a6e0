// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <nmmintrin.h>
#include <openssl/evp.h>

#include <cstring>

#include "base/check.h"

namespace cairn::base {

namespace {

uint64_t LoadWord(const char* from) {
  uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

// The instruction takes a word every cycle but answers after three, so three parts of the bytes
// run side by side. Their sums are put together by moving one past the zeros that stand for the
// next part, which is linear: a table look-up a byte.
constexpr size_t kLaneBytes = 1024;

class PastLane {
 public:
  PastLane() {
    for (int bit = 0; bit < 32; ++bit) {
      uint64_t state = uint64_t{1} << bit;
      for (size_t i = 0; i < kLaneBytes; i += 8) state = _mm_crc32_u64(state, 0);
      for (uint32_t byte = 0; byte < 256; ++byte) {
        if ((byte >> (bit % 8) & 1) != 0) of_[bit / 8][byte] ^= static_cast<uint32_t>(state);
      }
    }
  }
  uint32_t operator()(uint64_t state) const {
    return of_[0][state & 0xff] ^ of_[1][state >> 8 & 0xff] ^ of_[2][state >> 16 & 0xff] ^
           of_[3][state >> 24 & 0xff];
  }

 private:
  uint32_t of_[4][256] = {};
};

}  // namespace

uint32_t Crc32c(uint32_t crc, std::string_view bytes) {
  static const PastLane past_lane;
  uint64_t state = crc ^ 0xffffffffU;
  const char* p = bytes.data();
  size_t n = bytes.size();
  for (; n >= 3 * kLaneBytes; n -= 3 * kLaneBytes, p += 3 * kLaneBytes) {
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < kLaneBytes; i += 8) {
      state = _mm_crc32_u64(state, LoadWord(p + i));
      second = _mm_crc32_u64(second, LoadWord(p + kLaneBytes + i));
      third = _mm_crc32_u64(third, LoadWord(p + 2 * kLaneBytes + i));
    }
    state = past_lane(past_lane(state) ^ second) ^ third;
  }
  for (; n >= 8; n -= 8, p += 8) state = _mm_crc32_u64(state, LoadWord(p));
  uint32_t tail = static_cast<uint32_t>(state);
  for (; n > 0; --n, ++p) tail = _mm_crc32_u8(tail, static_cast<uint8_t>(*p));
  return tail ^ 0xffffffffU;
}

struct Sha256::Context {
  EVP_MD_CTX* md = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(md); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  CAIRN_CHECK(EVP_DigestInit_ex(context_->md, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(std::string_view bytes) {
  CAIRN_CHECK(EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()) == 1);
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest;
  unsigned size = 0;
  CAIRN_CHECK(EVP_DigestFinal_ex(context_->md, digest.data(), &size) == 1);
  return digest;
}

Sha256Digest Sha256::Of(std::string_view bytes) {
  Sha256 sha;
  sha.Update(bytes);
  return sha.Finish();
}

std::string Sha256::HexOf(std::string_view bytes) { return ToHex(Of(bytes)); }

std::string ToHex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (char c : bytes) {
    hex.push_back(kDigits[static_cast<uint8_t>(c) >> 4]);
    hex.push_back(kDigits[static_cast<uint8_t>(c) & 15]);
  }
  return hex;
}

std::string ToHex(const Sha256Digest& digest) {
  return ToHex(std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

bool FromHex(std::string_view hex, std::string* out) {
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  if (hex.size() % 2 != 0) return false;
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = digit(hex[i]);
    const int low = digit(hex[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes.push_back(static_cast<char>(high << 4 | low));
  }
  *out = std::move(bytes);
  return true;
}

}  // namespace cairn::base

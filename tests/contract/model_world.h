// SPDX-License-Identifier: Apache-2.0
//
// What the model test checks tables against: ordered maps that are copied at every capture.
//
// A row of the model is a number, the digest; an adapter turns key numbers and digests into the
// table's types and back, and checks on the way back that a value is whole.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cairn/table.h"

namespace cairn::model {

struct ModelRow {
  uint64_t digest = 0;
  bool live = false;
  uint64_t stamp = 0;  ///< epoch of the last change
};
using ModelTable = std::map<uint64_t, ModelRow>;

/// A spread of keys that neither starts at 0 nor is dense.
inline uint64_t Scramble(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// --- keys --------------------------------------------------------------------------------------

template <class K>
struct KeyOf;

template <>
struct KeyOf<int64_t> {
  static int64_t Make(uint64_t number) { return static_cast<int64_t>(number * 0x10001) - 77; }
  static uint64_t Number(int64_t key) { return static_cast<uint64_t>(key + 77) / 0x10001; }
  static std::string Encoded(uint64_t number) {
    const int64_t key = Make(number);
    return {reinterpret_cast<const char*>(&key), sizeof(key)};
  }
};

template <>
struct KeyOf<uint64_t> {
  static uint64_t Make(uint64_t number) { return number; }
  static uint64_t Number(uint64_t key) { return key; }
  static std::string Encoded(uint64_t number) {
    return {reinterpret_cast<const char*>(&number), sizeof(number)};
  }
};

/// Byte strings of 1 to about 200 bytes that start with the number's digits.
template <>
struct KeyOf<Bytes> {
  static std::string Make(uint64_t number) {
    std::string key = std::to_string(number) + '/';
    const uint64_t kind = Scramble(number) % 8;
    key.append(kind < 4 ? kind : kind < 7 ? 10 + kind : 150 + number % 40, 'k');
    return key;
  }
  static uint64_t Number(const Bytes& key) {
    const std::string text = key.ToString();
    const uint64_t number = std::stoull(text);
    EXPECT_EQ(text, Make(number));
    return number;
  }
  static std::string Encoded(uint64_t number) { return Make(number); }
};

// --- values ------------------------------------------------------------------------------------

struct Wide {
  uint64_t words[8];
};

/// Rows shared by pointer inside a boxed value, as Top-N keeps them.
using SharedRows = std::vector<std::shared_ptr<const std::string>>;

inline void SetValue(uint64_t digest, uint64_t* value) { *value = digest; }
inline uint64_t DigestOf(const uint64_t& value) { return value; }

inline void SetValue(uint64_t digest, Wide* value) {
  for (uint64_t i = 0; i < 8; ++i) value->words[i] = digest + i;
}
inline uint64_t DigestOf(const Wide& value) {
  for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(value.words[i], value.words[0] + i);
  return value.words[0];
}

inline void SetValue(uint64_t digest, std::string* value) {
  *value = std::to_string(digest) + ':' + std::string(Scramble(digest) % 200, 'v');
}
inline uint64_t DigestOf(const std::string& value) {
  if (value.empty()) return 0;
  const uint64_t digest = std::stoull(value);
  std::string whole;
  SetValue(digest, &whole);
  EXPECT_EQ(value, whole);
  return digest;
}

inline void SetValue(uint64_t digest, SharedRows* value) {
  // The first row is new, the others stay shared with the older version.
  value->insert(value->begin(), std::make_shared<const std::string>(std::to_string(digest)));
  if (value->size() > 4) value->pop_back();
}
inline uint64_t DigestOf(const SharedRows& value) {
  return value.empty() ? 0 : std::stoull(*value.front());
}

/// Saves the digest alone: enough to tell values apart after a restore.
struct SharedRowsCodec {
  size_t EncodedSize(const SharedRows& value) const { return value.front()->size(); }
  void Encode(const SharedRows& value, char* out) const {
    std::memcpy(out, value.front()->data(), value.front()->size());
  }
  Result<SharedRows> Decode(std::string_view bytes) const {
    return SharedRows{std::make_shared<const std::string>(bytes)};
  }
  size_t MemoryBytes(const SharedRows& value) const { return value.capacity() * sizeof(value[0]); }
};

template <class V>
struct CodecOf {
  using type = Codec<V>;
};
template <>
struct CodecOf<Wide> {
  using type = RawCodec<Wide>;
};
template <>
struct CodecOf<SharedRows> {
  using type = SharedRowsCodec;
};

// --- saved rows --------------------------------------------------------------------------------

/// Saved rows of one table, kept as a reader of files would keep them: by stored key.
class MemorySink : public SavedRowSink {
 public:
  struct Part {
    uint32_t group;
    SavedRows rows;
  };

  Result<SavedRows*> BeginGroup(uint32_t group) override {
    EXPECT_TRUE(parts_.empty() || parts_.back()->group < group) << "groups ascend";
    parts_.push_back(std::make_unique<Part>());
    parts_.back()->group = group;
    parts_.back()->rows.SetKeyPrefix(Prefix(group));
    return &parts_.back()->rows;
  }
  Status Flush() override { return {}; }

  static std::string Prefix(uint32_t group) {
    return {static_cast<char>(group >> 8), static_cast<char>(group)};
  }
  const std::vector<std::unique_ptr<Part>>& parts() const { return parts_; }

  /// Every byte of every row, for comparison.
  std::string Flat() const {
    std::string all;
    for (const auto& part : parts_) {
      const SavedRowSpan rows = part->rows.Span();
      for (size_t i = 0; i < rows.rows; ++i) {
        all += static_cast<char>(rows.kinds[i]);
        all += rows.key(i);
        all += '=';
        all += rows.value(i);
        all += '\n';
      }
    }
    return all;
  }

 private:
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace cairn::model

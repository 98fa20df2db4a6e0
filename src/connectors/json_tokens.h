// SPDX-License-Identifier: Apache-2.0
//
// JsonTokens: find where the tokens of JSON text begin, 64 bytes at a time.
//
// The method is that of simdjson's first stage (Langdale and Lemire, "Parsing gigabytes of JSON per
// second", 2019): bit masks of quotes, escapes, operators and blanks, and the running parity of
// quotes. The library itself cannot be linked beside Arrow's official build: libparquet carries a
// copy of another version and exports its symbols, so calls of one end in the other.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace cairn::connectors {

enum class JsonTokenError : uint8_t {
  kNone,
  kUnclosedString,
  kControlCharacter,  ///< a byte below 0x20, which a line end is as well, inside a string
  kNotUtf8
};

class JsonTokens {
 public:
  /// Find the tokens of `text`: every bracket, ':' and ',' outside strings, the opening quote of
  /// every string, the first byte of every other run of bytes that are neither these nor blank.
  ///
  /// Shape:    behind the last token stands the text's size, three times.
  JsonTokenError Find(std::string_view text);

  const uint32_t* begin() const { return tokens_.data(); }
  const uint32_t* end() const { return tokens_.data() + count_; }

  /// For tests: never use the masks.
  void FindByteByByteOnly() { bytewise_ = true; }

 private:
  /// What the scan knows between two bytes.
  struct State {
    bool in_string = false;
    bool escaped = false;      ///< the next byte follows an odd number of backslashes
    bool after_value = false;  ///< the last byte belongs to a value that is no string
    bool control_in_string = false;
    bool non_ascii = false;
  };
  size_t FindMasks(std::string_view text, State* state);
  void FindBytes(std::string_view text, size_t from, State* state);

  std::vector<uint32_t> tokens_;  ///< only grows
  size_t count_ = 0;
  bool bytewise_ = false;
};

}  // namespace cairn::connectors

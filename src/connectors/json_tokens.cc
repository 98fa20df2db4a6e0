// SPDX-License-Identifier: Apache-2.0
#include "connectors/json_tokens.h"

#include <bit>

#include "connectors/mask64.h"
#include "format/utf8.h"

namespace cairn::connectors {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

bool IsOperator(char c) {
  return c == '{' || c == '}' || c == '[' || c == ']' || c == ':' || c == ',';
}

}  // namespace

JsonTokenError JsonTokens::Find(std::string_view text) {
  // A token a byte at most, the three behind the last, and room to write eight at a time.
  if (tokens_.size() < text.size() + 64) tokens_.resize(text.size() + 64);
  count_ = 0;
  State state;
  const size_t done = bytewise_ ? 0 : FindMasks(text, &state);
  FindBytes(text, done, &state);
  for (size_t i = 0; i < 3; ++i) tokens_[count_ + i] = static_cast<uint32_t>(text.size());
  if (state.in_string) return JsonTokenError::kUnclosedString;
  if (state.control_in_string) return JsonTokenError::kControlCharacter;
  if (state.non_ascii && !format::IsUtf8(text)) return JsonTokenError::kNotUtf8;
  return JsonTokenError::kNone;
}

#ifdef __AVX2__

namespace {

/// The bytes with an odd number of backslashes before them. Adding the starts of runs at odd places
/// to the runs carries one bit out of each, which tells whether a run's length is odd.
uint64_t Escaped(uint64_t slashes, uint64_t* escaped_next) {
  constexpr uint64_t kEven = 0x5555555555555555ULL;
  const uint64_t escaped_first = *escaped_next;
  if (slashes == 0) [[likely]] {
    *escaped_next = 0;
    return escaped_first;
  }
  slashes &= ~escaped_first;
  const uint64_t behind = (slashes << 1) | escaped_first;
  const uint64_t odd_starts = slashes & ~kEven & ~behind;
  const uint64_t carried = odd_starts + slashes;
  *escaped_next = carried < odd_starts ? 1 : 0;
  return (kEven ^ (carried << 1)) & behind;
}

}  // namespace

size_t JsonTokens::FindMasks(std::string_view text, State* state) {
  const __m256i quote = _mm256_set1_epi8('"');
  const __m256i backslash = _mm256_set1_epi8('\\');
  const __m256i control = _mm256_set1_epi8(0x1F);
  const __m256i nothing = _mm256_setzero_si256();
  // By the low four bits. Bytes that no row of a table may match hold one with other low bits.
  const __m256i blanks = _mm256_setr_epi8(
      ' ', 100, 100, 100, 17, 100, 113, 2, 100, '\t', '\n', 112, 100, '\r', 100, 100,  //
      ' ', 100, 100, 100, 17, 100, 113, 2, 100, '\t', '\n', 112, 100, '\r', 100, 100);
  // With 0x20 added '[' is '{' and ']' is '}'. The control characters 0x0C and 0x1A match ',' and
  // ':' as well; the decoder looks at the byte itself and refuses them there.
  const __m256i operators =
      _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ':', '{', ',', '}', 0, 0,  //
                       0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ':', '{', ',', '}', 0, 0);
  const __m256i space = _mm256_set1_epi8(0x20);

  uint32_t* out = tokens_.data();
  uint64_t in_string = 0;     // all ones while a string is open
  uint64_t escaped_next = 0;  // bit 0: the next byte is escaped
  uint64_t after_value = 0;   // bit 0: the last byte belongs to a value that is no string
  uint64_t controls = 0;
  uint64_t high_bits = 0;
  size_t base = 0;
  for (; base + 64 <= text.size(); base += 64) {
    const Block64 block(text.data() + base);
    high_bits |= block.HighBits();

    const uint64_t escaped = Escaped(block.Equal(backslash), &escaped_next);
    const uint64_t quotes = block.Equal(quote) & ~escaped;
    const uint64_t strings = PrefixXor(quotes) ^ in_string;  // opening quote to last byte
    in_string = static_cast<uint64_t>(static_cast<int64_t>(strings) >> 63);
    controls |= block.AtMost(control) & strings;

    const uint64_t operator_bytes = block.InTable(operators, space);
    const uint64_t values = ~(operator_bytes | block.InTable(blanks, nothing));
    const uint64_t unquoted = values & ~quotes;
    const uint64_t starts = quotes | (values & ~((unquoted << 1) | after_value));
    after_value = unquoted >> 63;
    uint64_t tokens = (operator_bytes | starts) & ~(strings ^ quotes);
    const auto at = static_cast<uint32_t>(base);
    const int found = std::popcount(tokens);
    // Eight are written whether there are as many or not: no branch to guess wrong.
    for (int i = 0; i < found; i += 8) {
      for (int k = 0; k < 8; ++k) {
        out[i + k] = at + static_cast<uint32_t>(std::countr_zero(tokens));
        tokens &= tokens - 1;
      }
    }
    out += found;
  }
  count_ = static_cast<size_t>(out - tokens_.data());
  state->in_string = in_string != 0;
  state->escaped = escaped_next != 0;
  state->after_value = after_value != 0;
  state->control_in_string = controls != 0;
  state->non_ascii = high_bits != 0;
  return base;
}

#else

size_t JsonTokens::FindMasks(std::string_view, State*) { return 0; }

#endif

void JsonTokens::FindBytes(std::string_view text, size_t from, State* state) {
  for (size_t i = from; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    state->non_ascii = state->non_ascii || byte > 0x7F;
    const bool escaped = state->escaped;
    state->escaped = c == '\\' && !escaped;
    if (c == '"' && !escaped) {
      if (!state->in_string) tokens_[count_++] = static_cast<uint32_t>(i);
      state->in_string = !state->in_string;
      state->after_value = false;
    } else if (state->in_string) {
      state->control_in_string = state->control_in_string || byte < 0x20;
      state->after_value = !IsBlank(c) && !IsOperator(c);
    } else if (IsOperator(c)) {
      tokens_[count_++] = static_cast<uint32_t>(i);
      state->after_value = false;
    } else if (IsBlank(c)) {
      state->after_value = false;
    } else {
      if (!state->after_value) tokens_[count_++] = static_cast<uint32_t>(i);
      state->after_value = true;
    }
  }
}

}  // namespace cairn::connectors

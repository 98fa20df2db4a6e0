// SPDX-License-Identifier: Apache-2.0
#include "connectors/csv_scanner.h"

#include <bit>
#include <cstring>

#include "connectors/mask64.h"

namespace cairn::connectors {
void CsvScanner::AddRow(std::string_view data, size_t first_end, size_t start, size_t end,
                        bool unclosed) {
  const size_t values = end_count_ - first_end;
  const bool blank = values == 1 && (end == start || (end == start + 1 && data[start] == '\r'));
  if (blank && columns_ != 1) return;  // its end stays in ends_, where no row names it
  rows_.push_back({static_cast<uint32_t>(start), static_cast<uint32_t>(first_end),
                   static_cast<uint32_t>(values), unclosed});
}

size_t CsvScanner::Scan(std::string_view data, bool last) {
  // One end a byte at most, and one for a row that the file's end ends. Never shrunk or cleared: a
  // fill of the whole array would cost as much as the scan.
  if (ends_.size() < data.size() + 1) ends_.resize(data.size() + 1);
  end_count_ = 0;
  rows_.clear();
  rows_end_ = 0;
  if (!bytewise_) ScanMasks(data);
  // What the masks did not finish: the rest of a block, a last row without line feed, and whatever
  // follows a quote that stands where parity would misread it.
  ScanBytes(data, last);
  return rows_end_;
}

#ifdef __AVX2__

void CsvScanner::ScanMasks(std::string_view data) {
  const __m256i delimiter = _mm256_set1_epi8(dialect_.delimiter);
  const __m256i line_feed = _mm256_set1_epi8('\n');
  const __m256i quote = _mm256_set1_epi8(dialect_.quote);
  const __m256i carriage_return = _mm256_set1_epi8('\r');
  uint32_t* const ends = ends_.data();
  size_t count = 0;
  size_t row_first = 0;      // index in ends of the row under way
  uint64_t inside = 0;       // all ones while a quoted value is open
  uint64_t may_open = 1;     // bit 0: a quote at the next byte may open a value
  uint64_t after_close = 0;  // bit 0: the next byte follows a closing quote
  for (size_t base = 0; base + 64 <= data.size(); base += 64) {
    const Block64 block(data.data() + base);
    const uint64_t line_feeds = block.Equal(line_feed);
    const uint64_t separators = line_feeds | block.Equal(delimiter);
    const uint64_t quotes = block.Equal(quote);
    uint64_t ending = separators;
    uint64_t rows = line_feeds;
    if ((quotes | inside | after_close) != 0) [[unlikely]] {
      const uint64_t in_quotes = PrefixXor(quotes) ^ inside;
      ending &= ~in_quotes;
      rows &= ~in_quotes;
      const uint64_t closing = quotes & ~in_quotes;
      const uint64_t opening_places = ((ending | closing) << 1) | may_open;
      const uint64_t behind_close = (closing << 1) | after_close;
      const uint64_t allowed_behind = separators | quotes | block.Equal(carriage_return);
      if (((quotes & in_quotes & ~opening_places) | (behind_close & ~allowed_behind)) != 0) break;
      inside = static_cast<uint64_t>(static_cast<int64_t>(in_quotes) >> 63);
      after_close = closing >> 63;
      may_open = (ending | closing) >> 63;
    } else {
      may_open = ending >> 63;
    }
    while (rows != 0) {
      // The ends up to and with this line feed, then the row they make.
      const unsigned row_bit = static_cast<unsigned>(std::countr_zero(rows));
      rows &= rows - 1;
      const uint64_t upto = row_bit == 63 ? ~0ULL : (2ULL << row_bit) - 1;
      for (uint64_t bits = ending & upto; bits != 0; bits &= bits - 1) {
        ends[count++] = static_cast<uint32_t>(base) + static_cast<uint32_t>(std::countr_zero(bits));
      }
      ending &= ~upto;
      const size_t start = rows_end_;
      const size_t end = base + row_bit;
      const size_t values = count - row_first;
      const bool blank = values == 1 && columns_ != 1 &&
                         (end == start || (end == start + 1 && data[start] == '\r'));
      if (!blank) {
        rows_.push_back({static_cast<uint32_t>(start), static_cast<uint32_t>(row_first),
                         static_cast<uint32_t>(values), false});
      }
      row_first = count;
      rows_end_ = end + 1;
    }
    for (; ending != 0; ending &= ending - 1) {
      ends[count++] = static_cast<uint32_t>(base) + static_cast<uint32_t>(std::countr_zero(ending));
    }
  }
  end_count_ = row_first;
}

#else

void CsvScanner::ScanMasks(std::string_view) {}

#endif

void CsvScanner::ScanBytes(std::string_view data, bool last) {
  const char delimiter = dialect_.delimiter;
  const char quote = dialect_.quote;
  size_t start = rows_end_;
  size_t first_end = end_count_;
  size_t i = start;
  bool value_start = true;
  while (i < data.size()) {
    if (value_start && data[i] == quote) {
      // To the closing quote; a doubled one stands for itself.
      for (++i;; ++i) {
        const void* found =
            i < data.size() ? std::memchr(data.data() + i, quote, data.size() - i) : nullptr;
        if (found == nullptr) {
          if (last) {
            AddEnd(data.size());
            AddRow(data, first_end, start, data.size(), true);
            rows_end_ = data.size();
          } else {
            end_count_ = first_end;
          }
          return;
        }
        i = static_cast<size_t>(static_cast<const char*>(found) - data.data()) + 1;
        if (i >= data.size() || data[i] != quote) break;
      }
      value_start = false;
      continue;
    }
    value_start = false;
    const char c = data[i];
    if (c == delimiter) {
      AddEnd(i);
      value_start = true;
    } else if (c == '\n') {
      AddEnd(i);
      AddRow(data, first_end, start, i, false);
      start = i + 1;
      rows_end_ = start;
      first_end = end_count_;
      value_start = true;
    }
    ++i;
  }
  if (start < data.size() && last) {
    AddEnd(data.size());
    AddRow(data, first_end, start, data.size(), false);
    rows_end_ = data.size();
  } else {
    end_count_ = first_end;
  }
}

bool CsvRowFinder::Feed(std::string_view piece, uint64_t target, uint64_t* row_start) {
  const bool quoted = place_ == Place::kQuoted || place_ == Place::kQuoteInQuoted;
  if (!quoted && !piece.empty() &&
      std::memchr(piece.data(), dialect_.quote, piece.size()) == nullptr) {
    const size_t from = target > offset_ + 1 ? static_cast<size_t>(target - offset_ - 1) : 0;
    const size_t line_feed = from < piece.size() ? piece.find('\n', from) : std::string_view::npos;
    if (line_feed != std::string_view::npos) {
      *row_start = offset_ + line_feed + 1;
      return true;
    }
    const char last = piece.back();
    place_ = last == '\n' || last == dialect_.delimiter ? Place::kValueStart : Place::kUnquoted;
    offset_ += piece.size();
    return false;
  }
  for (size_t i = 0; i < piece.size(); ++i) {
    const char c = piece[i];
    switch (place_) {
      case Place::kQuoted: {
        const void* found = std::memchr(piece.data() + i, dialect_.quote, piece.size() - i);
        if (found == nullptr) {
          i = piece.size();
          continue;
        }
        i = static_cast<size_t>(static_cast<const char*>(found) - piece.data());
        place_ = Place::kQuoteInQuoted;
        continue;
      }
      case Place::kQuoteInQuoted:
        if (c == dialect_.quote) {
          place_ = Place::kQuoted;
          continue;
        }
        place_ = Place::kUnquoted;
        break;
      case Place::kValueStart:
        if (c == dialect_.quote) {
          place_ = Place::kQuoted;
          continue;
        }
        place_ = Place::kUnquoted;
        break;
      case Place::kUnquoted:
        break;
    }
    if (c == '\n') {
      place_ = Place::kValueStart;
      if (offset_ + i + 1 >= target) {
        *row_start = offset_ + i + 1;
        return true;
      }
    } else if (c == dialect_.delimiter) {
      place_ = Place::kValueStart;
    }
  }
  offset_ += piece.size();
  return false;
}

bool UnquoteCsv(std::string_view raw, char quote, std::string* scratch, std::string_view* value) {
  if (raw.size() < 2 || raw.back() != quote) return false;
  const std::string_view inner = raw.substr(1, raw.size() - 2);
  size_t at = inner.find(quote);
  if (at == std::string_view::npos) {
    *value = inner;
    return true;
  }
  scratch->clear();
  size_t copied = 0;
  while (at != std::string_view::npos) {
    if (at + 1 >= inner.size() || inner[at + 1] != quote) return false;
    scratch->append(inner, copied, at + 1 - copied);
    copied = at + 2;
    at = inner.find(quote, copied);
  }
  scratch->append(inner, copied);
  scratch->reserve(scratch->size() + 64);  // readers copy 32 bytes at a time
  *value = *scratch;
  return true;
}

}  // namespace cairn::connectors

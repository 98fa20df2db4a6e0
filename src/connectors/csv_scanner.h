// SPDX-License-Identifier: Apache-2.0
//
// CsvScanner: find where the values and rows of CSV text end.
//
// Why not a library: Arrow's CSV block parser took 280–340 ns for a 170-byte row of seven values on
// the machine where this takes about 30, and neither says at which byte a row begins, which the
// saved position and the split of one file among subtasks need.
//
// How: 64 bytes at a time become three bit masks (delimiters, line feeds, quotes). The running
// parity of quotes says what is inside a quoted value; the rest are ends of values. Parity is right
// only while every opening quote stands at the start of a value and every closing one at its end.
// That is checked with the same masks; from the first row where it fails, a scanner that looks at
// one byte at a time goes on. That one defines the grammar:
//   value  = quote {any byte | quote quote} quote | bytes without delimiter and line feed
//   row    = value {delimiter value} [CR] LF; the last LF of a file may be missing
// A quote inside an unquoted value is an ordinary byte. A blank row is no row, unless rows have one
// column only: then it is a row whose value is empty.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::connectors {

struct CsvDialect {
  char delimiter = ',';
  char quote = '"';
};

struct CsvRow {
  uint32_t start = 0;      ///< offset of the row's first byte
  uint32_t first_end = 0;  ///< index of the end of its first value among all ends
  uint32_t values = 0;     ///< how many values it has
  bool unclosed = false;   ///< the file ends inside a quoted value
};

class CsvScanner {
 public:
  explicit CsvScanner(CsvDialect dialect, uint32_t columns)
      : dialect_(dialect), columns_(columns) {}

  /// Find the whole rows of `data`, which begins at a row; `last` = the file ends with it, so an
  /// unended row is whole. Return the bytes that the rows take.
  ///
  /// Shape:    `data` is at most 4 GiB and followed by 64 readable bytes.
  size_t Scan(std::string_view data, bool last);

  /// The rows found, in order, blank ones left out.
  const std::vector<CsvRow>& rows() const { return rows_; }
  /// Value `column` of a row as it stands in the text, quotes included, without a trailing CR.
  std::string_view RawValue(std::string_view data, const CsvRow& row, uint32_t column) const {
    const uint32_t* ends = ends_.data() + row.first_end;
    const uint32_t begin = column == 0 ? row.start : ends[column - 1] + 1;
    uint32_t end = ends[column];
    if (column + 1 == row.values && end > begin && data[end - 1] == '\r') --end;
    return data.substr(begin, end - begin);
  }

  /// For tests: never use the masks.
  void ScanByteByByteOnly() { bytewise_ = true; }

 private:
  void ScanMasks(std::string_view data);
  void ScanBytes(std::string_view data, bool last);
  void AddRow(std::string_view data, size_t first_end, size_t start, size_t end, bool unclosed);
  void AddEnd(size_t end) { ends_[end_count_++] = static_cast<uint32_t>(end); }

  CsvDialect dialect_;
  uint32_t columns_;
  bool bytewise_ = false;
  size_t rows_end_ = 0;         ///< behind the last whole row
  std::vector<uint32_t> ends_;  ///< offsets just behind the values; only grows, see end_count_
  size_t end_count_ = 0;
  std::vector<CsvRow> rows_;
};

/// Find the first row that starts at or behind a target, over pieces of a file in order.
///
/// Cost:     a search for the quote where there is none; one byte at a time where there is.
class CsvRowFinder {
 public:
  /// Begin at a row that starts at file offset `start`.
  CsvRowFinder(CsvDialect dialect, uint64_t start) : dialect_(dialect), offset_(start) {}

  /// Go through the next piece until a row starts at `target` or behind; true = found.
  bool Feed(std::string_view piece, uint64_t target, uint64_t* row_start);

 private:
  enum class Place : uint8_t { kValueStart, kUnquoted, kQuoted, kQuoteInQuoted };
  CsvDialect dialect_;
  uint64_t offset_;
  Place place_ = Place::kValueStart;
};

/// The content of a quoted value; false when it is not well formed. `scratch` may hold the result.
///
/// Shape:    `raw` begins with the quote.
bool UnquoteCsv(std::string_view raw, char quote, std::string* scratch, std::string_view* value);

}  // namespace cairn::connectors

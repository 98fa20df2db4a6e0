// SPDX-License-Identifier: Apache-2.0
#include "connectors/csv_scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace cairn::connectors {
namespace {

using Rows = std::vector<std::vector<std::string>>;

/// The text with the padding that the scanner may read.
std::string Padded(std::string text) {
  text.append(64, '\0');
  return text;
}

Rows Scan(const std::string& text, uint32_t columns, bool last, bool bytewise, size_t* scanned) {
  const std::string padded = Padded(text);
  const std::string_view data = std::string_view(padded).substr(0, text.size());
  CsvScanner scanner({}, columns);
  if (bytewise) scanner.ScanByteByByteOnly();
  *scanned = scanner.Scan(data, last);
  Rows rows;
  for (const CsvRow& row : scanner.rows()) {
    std::vector<std::string> values;
    for (uint32_t c = 0; c < row.values; ++c) {
      values.emplace_back(scanner.RawValue(data, row, c));
    }
    if (row.unclosed) values.emplace_back("<unclosed>");
    rows.push_back(values);
  }
  return rows;
}

Rows ScanWhole(const std::string& text, uint32_t columns = 2) {
  size_t scanned = 0;
  Rows rows = Scan(text, columns, true, true, &scanned);
  EXPECT_EQ(scanned, text.size());
  return rows;
}

TEST(CsvScanner, FindsValuesOfRows) {
  EXPECT_EQ(ScanWhole("a,b\nc,\n,d"), (Rows{{"a", "b"}, {"c", ""}, {"", "d"}}));
}

TEST(CsvScanner, QuotedValuesHoldDelimitersAndLineFeeds) {
  EXPECT_EQ(ScanWhole("\"a,\n\"\"b\",c\n"), (Rows{{"\"a,\n\"\"b\"", "c"}}));
}

TEST(CsvScanner, AQuoteInsideAnUnquotedValueIsAnOrdinaryByte) {
  EXPECT_EQ(ScanWhole("5\" disk,b\n\"x\",y\n"), (Rows{{"5\" disk", "b"}, {"\"x\"", "y"}}));
}

TEST(CsvScanner, CarriageReturnsBelongToTheLineEnd) {
  EXPECT_EQ(ScanWhole("a,b\r\n\r\nc,d\r\n"), (Rows{{"a", "b"}, {"c", "d"}}));
}

TEST(CsvScanner, ABlankLineIsARowOnlyWhereRowsHaveOneColumn) {
  EXPECT_EQ(ScanWhole("a\n\nb\n", 1), (Rows{{"a"}, {""}, {"b"}}));
  EXPECT_EQ(ScanWhole("a,b\n\nc,d\n", 2), (Rows{{"a", "b"}, {"c", "d"}}));
}

TEST(CsvScanner, AnUnclosedQuoteIsTold) {
  EXPECT_EQ(ScanWhole("a,b\nc,\"d\ne,f\n"), (Rows{{"a", "b"}, {"c", "\"d\ne,f\n", "<unclosed>"}}));
}

TEST(CsvScanner, AnUnendedRowWaitsForMore) {
  size_t scanned = 0;
  EXPECT_EQ(Scan("a,b\nc,d", 2, false, true, &scanned), (Rows{{"a", "b"}}));
  EXPECT_EQ(scanned, 4u);
}

/// Texts of few different bytes, so that quotes meet everything else; some well formed, most not.
std::string RandomCsv(std::mt19937_64* random) {
  std::string text;
  const size_t size = (*random)() % 400;
  const bool quotes = (*random)() % 4 != 0;
  while (text.size() < size) {
    switch ((*random)() % 8) {
      case 0:
        text += '\n';
        break;
      case 1:
        text += "\r\n";
        break;
      case 2:
      case 3:
        text += ',';
        break;
      case 4:
        if (quotes) text += (*random)() % 8 == 0 ? "\"" : "\"q,\"\"\n\",";
        break;
      default:
        text.append((*random)() % 9, 'x');
    }
  }
  return text;
}

TEST(CsvScanner, MasksAndSingleBytesAgreeOnRandomTexts) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = RandomCsv(&random);
    const bool last = i % 2 == 0;
    const uint32_t columns = 1 + i % 3;
    size_t by_masks = 0;
    size_t by_bytes = 0;
    const Rows expected = Scan(text, columns, last, true, &by_bytes);
    ASSERT_EQ(Scan(text, columns, last, false, &by_masks), expected) << text;
    ASSERT_EQ(by_masks, by_bytes) << text;
  }
}

TEST(CsvRowFinder, FindsTheRowStartsThatTheScannerFinds) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2'000; ++i) {
    const std::string text = RandomCsv(&random);
    // Row starts as the scanner sees them, blank rows too: count one column.
    const std::string padded = Padded(text);
    CsvScanner scanner({}, 1);
    scanner.ScanByteByByteOnly();
    const size_t end = scanner.Scan(std::string_view(padded).substr(0, text.size()), false);
    std::vector<uint64_t> starts;
    for (const CsvRow& row : scanner.rows()) starts.push_back(row.start);
    starts.push_back(end);
    const uint64_t target = 1 + random() % (text.size() + 1);
    uint64_t expected = UINT64_MAX;
    for (const uint64_t start : starts) {
      if (start >= target) {
        expected = start;
        break;
      }
    }
    const size_t piece = 1 + random() % 50;
    CsvRowFinder finder({}, 0);
    uint64_t found = UINT64_MAX;
    for (size_t at = 0; at < text.size(); at += piece) {
      if (finder.Feed(std::string_view(text).substr(at, piece), target, &found)) break;
    }
    ASSERT_EQ(found, expected) << "target " << target << " in " << text;
  }
}

TEST(UnquoteCsv, ResolvesDoubledQuotesAndRefusesTextBehindTheClosingOne) {
  std::string scratch;
  std::string_view value;
  ASSERT_TRUE(UnquoteCsv("\"a\"\"b\"", '"', &scratch, &value));
  EXPECT_EQ(value, "a\"b");
  ASSERT_TRUE(UnquoteCsv("\"\"", '"', &scratch, &value));
  EXPECT_EQ(value, "");
  EXPECT_FALSE(UnquoteCsv("\"a\"b", '"', &scratch, &value));
  EXPECT_FALSE(UnquoteCsv("\"", '"', &scratch, &value));
  EXPECT_FALSE(UnquoteCsv("\"a\"b\"", '"', &scratch, &value));
}

}  // namespace
}  // namespace cairn::connectors

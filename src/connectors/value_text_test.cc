// SPDX-License-Identifier: Apache-2.0
#include "connectors/value_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace cairn::connectors {
namespace {

/// Behind the text stand bytes that would be taken for digits if a parser read too far.
struct Padded {
  explicit Padded(std::string_view text) : bytes(text), size(text.size()) {
    bytes.append(kTextPadding, '7');
  }
  std::string_view view() const { return std::string_view(bytes).substr(0, size); }
  std::string bytes;
  size_t size;
};

TEST(ValueText, IntegersOfEveryLengthReadBack) {
  for (const int64_t value :
       {int64_t{0}, int64_t{7}, int64_t{10}, int64_t{12345678}, int64_t{123456789}, int64_t{-1},
        int64_t{99999999}, std::numeric_limits<int64_t>::max(),
        std::numeric_limits<int64_t>::min()}) {
    std::string text;
    AppendInt64(value, &text);
    int64_t read = 0;
    EXPECT_EQ(ParseInt64(Padded(text).view(), &read), nullptr) << text;
    EXPECT_EQ(read, value);
  }
}

TEST(ValueText, IntegersThatAreNoneAreRefused) {
  for (const char* text : {"", "-", "+", "1x", "x1", "1.0", "1e3", " 1", "1 ", "0x10", "--1", "+-1",
                           "12345678x", "1234567:", "/2345678"}) {
    int64_t value;
    EXPECT_NE(ParseInt64(Padded(text).view(), &value), nullptr) << text;
  }
}

TEST(ValueText, IntegersOutOfRangeAreRefusedAsSuch) {
  int64_t wide;
  int32_t narrow;
  EXPECT_STREQ(ParseInt64(Padded("9223372036854775808").view(), &wide),
               "is out of range for BIGINT");
  EXPECT_STREQ(ParseInt64(Padded("-9223372036854775809").view(), &wide),
               "is out of range for BIGINT");
  EXPECT_STREQ(ParseInt32(Padded("2147483648").view(), &narrow), "is out of range for INTEGER");
  EXPECT_STREQ(ParseInt32(Padded("99999999999999999999").view(), &narrow),
               "is out of range for INTEGER");
}

TEST(ValueText, DoublesReadBackExactly) {
  std::mt19937_64 bits(7);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t pattern = bits();
    double value;
    std::memcpy(&value, &pattern, 8);
    if (std::isnan(value)) continue;
    std::string text;
    AppendDouble(value, &text);
    double read = 0;
    ASSERT_EQ(ParseDouble(text, &read), nullptr) << text;
    ASSERT_EQ(read, value) << text;
  }
}

TEST(ValueText, TimestampsReadBackFromYear0ToYear9999) {
  std::mt19937_64 bits(11);
  DateCache cache;
  const int64_t first = -62'167'219'200'000'000;
  const int64_t last = 253'402'300'799'999'999;
  for (int i = 0; i < 1000; ++i) {
    const int64_t micros =
        first + static_cast<int64_t>(bits() % static_cast<uint64_t>(last - first + 1));
    std::string text;
    AppendTimestamp(micros, &text);
    int64_t read = 0;
    ASSERT_EQ(ParseTimestamp(text, &cache, &read), nullptr) << text;
    ASSERT_EQ(read, micros) << text;
  }
}

TEST(ValueText, TimestampsMayHaveTAndZAndNineDigits) {
  DateCache cache;
  int64_t micros = 0;
  EXPECT_EQ(ParseTimestamp("1970-01-02T00:00:01.123456789Z", &cache, &micros), nullptr);
  EXPECT_EQ(micros, 86'401'123'456);
  EXPECT_EQ(ParseTimestamp("1969-12-31 23:59:59.9", &cache, &micros), nullptr);
  EXPECT_EQ(micros, -100'000);
  EXPECT_EQ(ParseTimestamp("1970-01-01", &cache, &micros), nullptr);
  EXPECT_EQ(micros, 0);
  EXPECT_EQ(ParseTimestamp("1970-01-01 00:01", &cache, &micros), nullptr);
  EXPECT_EQ(micros, 60'000'000);
}

TEST(ValueText, TimestampsThatAreNoneAreRefused) {
  DateCache cache;
  int64_t micros;
  for (const char* text :
       {"", "1970", "1970-13-01", "1970-02-30", "1900-02-29", "1970-01-01 24:00:00",
        "1970-01-01 00:60:00", "1970-01-01 00:00:60", "1970-01-01 00:00:00.",
        "1970-01-01 00:00:00.1234567890", "1970-01-01 00:00:00.12x", "1970-01-01x00:00:00",
        "1970/01/01 00:00:00", "1970-01-01 00:00:00+01:00", "1970-1-1 00:00:00", "1970-01-01 "}) {
    EXPECT_NE(ParseTimestamp(text, &cache, &micros), nullptr) << text;
  }
}

TEST(ValueText, LeapDaysAreDates) {
  int32_t days = 0;
  EXPECT_EQ(ParseDate("2000-02-29", &days), nullptr);
  EXPECT_EQ(days, 11016);
  std::string text;
  AppendDate(days, &text);
  EXPECT_EQ(text, "2000-02-29");
  EXPECT_NE(ParseDate("2001-02-29", &days), nullptr);
}

TEST(ValueText, DecimalsAreExactOrRefused) {
  uint8_t value[16];
  std::string text;
  ASSERT_EQ(ParseDecimal("-123.45", 10, 3, value), nullptr);
  AppendDecimal(value, 3, &text);
  EXPECT_EQ(text, "-123.450");
  ASSERT_EQ(ParseDecimal("1.2e2", 10, 3, value), nullptr);
  text.clear();
  AppendDecimal(value, 3, &text);
  EXPECT_EQ(text, "120.000");
  EXPECT_STREQ(ParseDecimal("1.2345", 10, 3, value),
               "has more fraction digits than the column's DECIMAL");
  EXPECT_STREQ(ParseDecimal("12345678.0", 10, 3, value),
               "is out of range for the column's DECIMAL");
  EXPECT_STREQ(ParseDecimal("12a", 10, 3, value), "is not a DECIMAL");
}

}  // namespace
}  // namespace cairn::connectors

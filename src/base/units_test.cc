// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <gtest/gtest.h>

namespace cairn::base {
namespace {

TEST(UnitsTest, DurationsHaveAUnit) {
  EXPECT_EQ(*ParseDurationMs("100ms"), 100);
  EXPECT_EQ(*ParseDurationMs("10s"), 10'000);
  EXPECT_EQ(*ParseDurationMs("1m"), 60'000);
  EXPECT_EQ(*ParseDurationMs("2h"), 7'200'000);
  EXPECT_EQ(*ParseDurationMs("1d"), 86'400'000);
  EXPECT_EQ(*ParseDurationMs("0ms"), 0);
}

TEST(UnitsTest, OtherTextIsNoDurationAndIsNamed) {
  for (const char* text :
       {"", "10", "s", "1.5s", "-1s", "+1s", "1 s", "10sec", "99999999999999999999s"}) {
    const auto parsed = ParseDurationMs(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(parsed.status().message().find(text), std::string::npos);
  }
}

TEST(UnitsTest, ADurationStaysWithinTheRangeOfMilliseconds) {
  EXPECT_EQ(*ParseDurationMs("9223372036854775807ms"), INT64_MAX);
  EXPECT_FALSE(ParseDurationMs("9223372036854775808ms").ok());
  EXPECT_FALSE(ParseDurationMs("9223372036854775807s").ok());
}

TEST(UnitsTest, SizesCountBytesOrTakeAUnit) {
  EXPECT_EQ(*ParseBytes("0"), 0u);
  EXPECT_EQ(*ParseBytes("123"), 123u);
  EXPECT_EQ(*ParseBytes("123B"), 123u);
  EXPECT_EQ(*ParseBytes("64MiB"), uint64_t{64} << 20);
  EXPECT_EQ(*ParseBytes("1GB"), 1'000'000'000u);
  EXPECT_EQ(*ParseBytes("3kB"), 3000u);
  EXPECT_EQ(*ParseBytes("18446744073709551615"), UINT64_MAX);
  for (const char* text : {"", "MiB", "1.5MiB", "-1", "1 MiB", "1mib", "18446744073709551616",
                           "16777216TiB", "18014398509481984KiB"}) {
    EXPECT_FALSE(ParseBytes(text).ok()) << text;
  }
}

TEST(UnitsTest, BytesPrintWithOneDecimal) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes((uint64_t{1} << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(45'298'483), "43.2 MiB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "16.0 EiB");
}

TEST(UnitsTest, DurationsPrintWhatMatters) {
  EXPECT_EQ(FormatDurationMs(0), "0.00 s");
  EXPECT_EQ(FormatDurationMs(9870), "9.87 s");
  EXPECT_EQ(FormatDurationMs(59'999), "59.9 s");
  EXPECT_EQ(FormatDurationMs(125'000), "2 m 05 s");
  EXPECT_EQ(FormatDurationMs(3'600'000 * 3 + 60'000 * 7), "3 h 07 m");
}

TEST(UnitsTest, CountsAndRatesAreReadable) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1'234'567), "1,234,567");
  EXPECT_EQ(FormatRate(0), "0");
  EXPECT_EQ(FormatRate(950), "950");
  EXPECT_EQ(FormatRate(999.7), "1.00 k");
  EXPECT_EQ(FormatRate(12'345), "12.3 k");
  EXPECT_EQ(FormatRate(1'234'567), "1.23 M");
  EXPECT_EQ(FormatRate(456e6), "456 M");
}

TEST(UnitsTest, TimesPrintInUtcWithMilliseconds) {
  EXPECT_EQ(FormatUtcMs(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(FormatUtcMs(1'796'020'846'123), "2026-11-30T06:40:46.123Z");
  EXPECT_EQ(FormatUtcMs(-1), "1969-12-31T23:59:59.999Z");
}

}  // namespace
}  // namespace cairn::base

// SPDX-License-Identifier: Apache-2.0
#include "cli/value_text.h"

#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_decimal.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/array/builder_time.h>
#include <arrow/type.h>
#include <arrow/util/decimal.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace cairn::cli {
namespace {

using std::string_literals::operator""s;

std::string JsonOf(arrow::ArrayBuilder* builder) {
  const auto array = builder->Finish().ValueOrDie();
  std::string text;
  AppendJsonValue(*array, 0, &text);
  return text;
}

TEST(ValueTextTest, IntegersAndDecimalsKeepEveryDigit) {
  arrow::Int64Builder bigint;
  ASSERT_TRUE(bigint.Append(std::numeric_limits<int64_t>::min()).ok());
  EXPECT_EQ(JsonOf(&bigint), "-9223372036854775808");
  arrow::Decimal128Builder decimal(arrow::decimal128(38, 3));
  ASSERT_TRUE(decimal.Append(arrow::Decimal128("12345678901234567890123456789012345678")).ok());
  EXPECT_EQ(JsonOf(&decimal), "12345678901234567890123456789012345.678");
}

TEST(ValueTextTest, DoublesThatJsonCannotHoldAreStrings) {
  for (const auto& [value, text] :
       {std::pair(std::nan(""), "\"NaN\""), std::pair(HUGE_VAL, "\"Infinity\""),
        std::pair(-HUGE_VAL, "\"-Infinity\""), std::pair(0.1, "0.1")}) {
    arrow::DoubleBuilder builder;
    ASSERT_TRUE(builder.Append(value).ok());
    EXPECT_EQ(JsonOf(&builder), text);
  }
}

TEST(ValueTextTest, NullsTimesAndTextAreJson) {
  arrow::TimestampBuilder timestamp(arrow::timestamp(arrow::TimeUnit::MICRO),
                                    arrow::default_memory_pool());
  ASSERT_TRUE(timestamp.Append(-1).ok());
  EXPECT_EQ(JsonOf(&timestamp), "\"1969-12-31 23:59:59.999999\"");
  arrow::Int32Builder null;
  ASSERT_TRUE(null.AppendNull().ok());
  EXPECT_EQ(JsonOf(&null), "null");
  arrow::StringBuilder text;
  ASSERT_TRUE(text.Append("a\"|\n\xc3\xa9").ok());
  EXPECT_EQ(JsonOf(&text), "\"a\\\"|\\n\xc3\xa9\"");
}

TEST(ValueTextTest, OpaqueBytesPrintAsTextWhereThatIsReversible) {
  EXPECT_EQ(PrintableBytes("plain text"), "plain text");
  EXPECT_EQ(PrintableBytes("\xc3\xa9"), "\xc3\xa9");
  EXPECT_EQ(PrintableBytes("a\nb"), "0x610a62");
  EXPECT_EQ(PrintableBytes("\x00\xff"s), "0x00ff");
  EXPECT_EQ(PrintableBytes("0x12"), "0x30783132");
  for (const std::string& bytes : {""s, "plain"s, "0x12"s, "\x00\x01\xff"s, "a\x7f"s}) {
    EXPECT_EQ(*ParseBytesText(PrintableBytes(bytes)), bytes);
  }
  EXPECT_FALSE(ParseBytesText("0x1").ok());
  EXPECT_FALSE(ParseBytesText("0xzz").ok());
}

const std::vector<ColumnSpec> kBigintKey{{"auction", "bigint", false}};

TEST(ValueTextTest, AKeyOfOneColumnMayBeItsPlainValue) {
  const std::string seven("\x07\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(*EncodeKeyArgument("7", kBigintKey), seven);
  EXPECT_EQ(*EncodeKeyArgument("[7]", kBigintKey), seven);
  EXPECT_EQ(*EncodeKeyArgument("[\"7\"]", kBigintKey), seven);
  EXPECT_EQ(*EncodeKeyArgument("-9223372036854775808", kBigintKey),
            std::string("\0\0\0\0\0\0\0\x80", 8));
}

TEST(ValueTextTest, ATextKeyIsTakenLiterally) {
  const std::vector<ColumnSpec> text{{"channel", "text", false}};
  EXPECT_EQ(*EncodeKeyArgument("apple", text), std::string("\x05\0\0\0apple", 9));
  EXPECT_EQ(*EncodeKeyArgument("a|b", text), std::string("\x03\0\0\0a|b", 7));
  EXPECT_EQ(*EncodeKeyArgument("7", text), std::string("\x01\0\0\0007", 5));
  EXPECT_EQ(*EncodeKeyArgument("\"null\"", text), std::string("\x04\0\0\0null", 8));
}

TEST(ValueTextTest, AKeyOfSeveralColumnsIsAJsonArrayWithNulls) {
  const std::vector<ColumnSpec> columns{{"auction", "bigint", true}, {"channel", "text", true}};
  EXPECT_EQ(*EncodeKeyArgument("[7, null]", columns), std::string("\x01\x07\0\0\0\0\0\0\0\0", 10));
  EXPECT_EQ(*EncodeKeyArgument("[null, \"x\"]", columns), std::string("\0\x01\x01\0\0\0x", 7));
}

TEST(ValueTextTest, AKeyThatDoesNotFitNamesTheColumns) {
  const std::vector<ColumnSpec> columns{{"auction", "bigint", true}, {"channel", "text", true}};
  for (const char* text : {"7", "[7]", "[7, \"x\", 1]", "{}", "nonsense"}) {
    const auto key = EncodeKeyArgument(text, columns);
    ASSERT_FALSE(key.ok()) << text;
    EXPECT_EQ(key.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(key.status().message().find("auction bigint, channel text"), std::string::npos);
  }
  const auto wrong = EncodeKeyArgument("seven", kBigintKey);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.status().message().find("'seven' is no bigint"), std::string::npos)
      << wrong.status().message();
  EXPECT_FALSE(EncodeKeyArgument("null", kBigintKey).ok());
  EXPECT_FALSE(EncodeKeyArgument("[[1]]", kBigintKey).ok());
}

TEST(ValueTextTest, ADecimalInAnArrayIsWrittenAsAString) {
  const std::vector<ColumnSpec> decimal{{"price", "decimal(38,2)", false}};
  EXPECT_FALSE(EncodeKeyArgument("[1.5]", decimal).ok());
  EXPECT_EQ(*EncodeKeyArgument("[\"1.5\"]", decimal), *EncodeKeyArgument("1.50", decimal));
  EXPECT_EQ(EncodeKeyArgument("1.50", decimal)->size(), 16u);
}

TEST(ValueTextTest, AnOpaqueKeyIsTextOrHex) {
  EXPECT_EQ(*EncodeKeyArgument("abc", {}), "abc");
  EXPECT_EQ(*EncodeKeyArgument("[\"abc\"]", {}), "abc");
  EXPECT_EQ(*EncodeKeyArgument("[\"0x6162\"]", {}), "ab");
  EXPECT_EQ(*EncodeKeyArgument("[\"[\\\"abc\\\"]\"]", {}), "[\"abc\"]") << "a key like an array";
  EXPECT_EQ(*EncodeKeyArgument("[1]", {}), "[1]") << "no string in it: the text itself";
  EXPECT_EQ(*EncodeKeyArgument("0x0001", {}), "\x00\x01"s);
}

}  // namespace
}  // namespace cairn::cli

// SPDX-License-Identifier: Apache-2.0
#include "format/row_codec.h"

#include <arrow/array.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/hash.h"
#include "cairn/hash.h"
#include "format/row_codec_testing.h"

namespace cairn::format {
namespace {

struct Encoded {
  std::vector<uint32_t> offsets;
  std::vector<char> data;
  std::vector<uint64_t> hashes;
  std::string row(size_t i) const {
    return {data.data() + offsets[i], offsets[i + 1] - offsets[i]};
  }
};

Result<Encoded> EncodeAll(const RowCodec& codec, const Arrays& arrays,
                          const std::vector<uint32_t>* selection = nullptr) {
  Encoded out;
  CAIRN_RETURN_IF_ERROR(codec.Encode(arrays, selection, &out.offsets, &out.data, &out.hashes));
  return out;
}

RowCodec CodecOf(std::vector<ColumnSpec> columns, RowUse use = RowUse::kValue) {
  auto codec = RowCodec::Make(std::move(columns), use);
  EXPECT_TRUE(codec.ok()) << codec.status().ToString();
  return *std::move(codec);
}

TEST(RowCodec, WritesABigintKeyAsItsEightBytes) {
  const RowCodec codec = CodecOf({{"k", "bigint", false}});
  EXPECT_EQ(codec.fixed_row_bytes(), 8u);
  const Encoded out = *EncodeAll(codec, {Bigints({1, -1})});
  EXPECT_EQ(base::ToHex(out.row(0)), "0100000000000000");
  EXPECT_EQ(base::ToHex(out.row(1)), "ffffffffffffffff");
  EXPECT_EQ(out.hashes[0], 0x89cd31291d2aefa4ULL);
}

TEST(RowCodec, WritesTheGoldenRowOfEveryType) {
  const Encoded out = *EncodeAll(CodecOf(AllColumns()), AllArrays());
  EXPECT_EQ(base::ToHex(out.row(0)),
            "0100000000000000"                    // b
            "0107000000"                          // i
            "000000000000e03f"                    // d
            "0101"                                // o
            "0100401e18240a0600"                  // ts
            "384a0000"                            // day
            "0139300000000000000000000000000000"  // dec
            "01050000006772c3bc6e"                // t
            "0200000000ff");                      // y
  EXPECT_EQ(base::ToHex(out.row(1)),
            "feffffffffffffff"
            "00"
            "0000000000000080"
            "0100"
            "00"
            "00000000"
            "01ffffffffffffffffffffffffffffffff"
            "00"
            "00000000");
}

TEST(RowCodec, HashesEveryRowAsFnv1aOfItsBytes) {
  std::mt19937_64 random(7);
  std::vector<std::optional<std::string>> texts;
  std::vector<std::optional<int64_t>> numbers;
  for (int i = 0; i < 103; ++i) {
    texts.push_back(random() % 5 == 0
                        ? std::optional<std::string>()
                        : std::string(random() % 20, static_cast<char>('a' + i % 26)));
    numbers.push_back(static_cast<int64_t>(random()));
  }
  for (const auto& columns :
       {std::vector<ColumnSpec>{{"n", "bigint", false}, {"t", "text", true}},
        std::vector<ColumnSpec>{{"n", "bigint", true}, {"t", "text", true}}}) {
    const Encoded out = *EncodeAll(CodecOf(columns), {Bigints(numbers), Texts(texts)});
    for (size_t i = 0; i < texts.size(); ++i) ASSERT_EQ(out.hashes[i], Fnv1a64(out.row(i)));
  }
  for (bool nullable : {false, true}) {
    const Encoded out = *EncodeAll(CodecOf({{"n", "bigint", nullable}}), {Bigints(numbers)});
    for (size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(out.hashes[i], Fnv1a64(out.row(i)));
  }
}

TEST(RowCodec, EncodesOnlySelectedRows) {
  const std::vector<uint32_t> selection = {1, 3, 4};
  const auto numbers = Bigints({10, 11, 12, 13, 14, 15});
  const auto texts = Texts({"a", "bb", "ccc", std::nullopt, "eeeee", "f"});
  for (const Arrays& arrays : {Arrays{numbers}, Arrays{texts}, Arrays{numbers, texts}}) {
    std::vector<ColumnSpec> columns;
    for (const auto& array : arrays) {
      columns.push_back({"c", *ColumnTypeOf(*array->type()), true});
    }
    const RowCodec codec = CodecOf(columns);
    const Encoded all = *EncodeAll(codec, arrays);
    const Encoded some = *EncodeAll(codec, arrays, &selection);
    ASSERT_EQ(some.offsets.size(), 7u);
    for (size_t row = 0; row < 6; ++row) {
      const bool selected = row == 1 || row == 3 || row == 4;
      EXPECT_EQ(some.row(row), selected ? all.row(row) : "");
      EXPECT_EQ(some.hashes[row], selected ? all.hashes[row] : 0u);
    }
  }
}

TEST(RowCodec, EncodesSlicesFromTheirOwnFirstRow) {
  const Arrays whole = AllArrays();
  const RowCodec codec = CodecOf(AllColumns());
  const Encoded all = *EncodeAll(codec, whole);
  Arrays sliced;
  for (const auto& array : whole) sliced.push_back(array->Slice(1, 2));
  const Encoded out = *EncodeAll(codec, sliced);
  EXPECT_EQ(out.row(0), all.row(1));
  EXPECT_EQ(out.row(1), all.row(2));
}

TEST(RowCodec, RefusesANullInANotNullColumnUnlessItsRowIsLeftOut) {
  const RowCodec codec = CodecOf({{"k", "bigint", false}});
  const Arrays arrays = {Bigints({1, std::nullopt, 3})};
  const Status status = EncodeAll(codec, arrays).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("column 'k'"), std::string::npos) << status.message();
  const std::vector<uint32_t> selection = {0, 2};
  const auto out = EncodeAll(codec, arrays, &selection);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(base::ToHex(out->row(2)), "0300000000000000");
}

TEST(RowCodec, RefusesArraysOfAnotherTypeOrLength) {
  const RowCodec codec = CodecOf({{"a", "bigint", true}, {"b", "bigint", true}});
  EXPECT_EQ(EncodeAll(codec, {Bigints({1}), Texts({"x"})}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeAll(codec, {Bigints({1}), Bigints({1, 2})}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeAll(codec, {Bigints({1})}).status().code(), StatusCode::kInvalidArgument);
}

TEST(RowCodec, MakesEqualDoublesEqualKeysAndKeepsValuesAsTheyAre) {
  const Arrays arrays = {Doubles({0.0, -0.0, std::nan("1"), -std::nan("2")})};
  const Encoded keys = *EncodeAll(CodecOf({{"d", "double", false}}, RowUse::kKey), arrays);
  EXPECT_EQ(keys.row(0), keys.row(1));
  EXPECT_EQ(keys.row(2), keys.row(3));
  const Encoded values = *EncodeAll(CodecOf({{"d", "double", false}}), arrays);
  EXPECT_NE(values.row(0), values.row(1));
}

TEST(RowCodec, EncodesNoRows) {
  for (const char* type : {"bigint", "text"}) {
    const RowCodec codec = CodecOf({{"c", type, true}});
    const Arrays arrays = {type == std::string("text") ? Texts({}) : Bigints({})};
    const Encoded out = *EncodeAll(codec, arrays);
    EXPECT_EQ(out.offsets, std::vector<uint32_t>{0});
    EXPECT_TRUE(out.data.empty());
    const Arrays two = {type == std::string("text") ? Texts({"a", "b"}) : Bigints({1, 2})};
    const std::vector<uint32_t> nothing;
    EXPECT_EQ(EncodeAll(codec, two, &nothing)->offsets, (std::vector<uint32_t>{0, 0, 0}));
  }
}

TEST(RowEncoder, AppendsTheBytesThatEncodeWrites) {
  const RowCodec codec = CodecOf(AllColumns());
  const Encoded all = *EncodeAll(codec, AllArrays());
  const auto encoder = RowEncoder::Bind(codec, AllArrays());
  ASSERT_TRUE(encoder.ok());
  for (int64_t row : {2, 0, 1}) {
    std::string bytes = "kept";
    ASSERT_TRUE(encoder->Append(row, &bytes).ok());
    EXPECT_EQ(bytes, "kept" + all.row(static_cast<size_t>(row)));
  }
}

TEST(RowFields, WrittenByHandEqualEncodedRows) {
  const RowCodec codec =
      CodecOf({{"n", "bigint", true}, {"t", "text", false}, {"m", "bigint", true}});
  const Encoded out = *EncodeAll(codec, {Bigints({5}), Texts({"xy"}), Bigints({std::nullopt})});
  std::string row;
  AppendFixedField<int64_t>(5, true, &row);
  AppendBytesField("xy", false, &row);
  AppendNullField(&row);
  EXPECT_EQ(row, out.row(0));
}

TEST(RowDecoder, ReturnsTheArraysThatWereEncoded) {
  const RowCodec codec = CodecOf(AllColumns());
  const Encoded out = *EncodeAll(codec, AllArrays());
  auto decoder = RowDecoder::Make(codec);
  ASSERT_TRUE(decoder.ok());
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(decoder->Append(out.row(i)).ok());
  EXPECT_EQ(decoder->rows(), 3);
  const auto arrays = decoder->Finish();
  ASSERT_TRUE(arrays.ok());
  const Arrays expected = AllArrays();
  for (size_t c = 0; c < expected.size(); ++c) {
    EXPECT_TRUE((*arrays)[c]->Equals(expected[c])) << c << (*arrays)[c]->ToString();
  }
}

TEST(RowDecoder, RefusesEveryTruncationAndExtensionAndStaysUsable) {
  const RowCodec codec = CodecOf(AllColumns());
  const std::string row = EncodeAll(codec, AllArrays())->row(0);
  auto decoder = RowDecoder::Make(codec);
  for (size_t size = 0; size < row.size(); ++size) {
    EXPECT_EQ(decoder->Append(row.substr(0, size)).code(), StatusCode::kCorruption) << size;
  }
  EXPECT_EQ(decoder->Append(row + "x").code(), StatusCode::kCorruption);
  ASSERT_TRUE(decoder->Append(row).ok());
  const auto arrays = decoder->Finish();
  for (const auto& array : *arrays) EXPECT_EQ(array->length(), 1);
}

TEST(RowDecoder, RefusesFlagsBooleansTextAndDecimalsOutOfRange) {
  const auto code = [](const char* type, bool nullable, std::string_view row) {
    const RowCodec codec = CodecOf({{"c", type, nullable}});
    return RowDecoder::Make(codec)->Append(row).code();
  };
  using namespace std::string_view_literals;
  EXPECT_EQ(code("boolean", true, "\2\1"sv), StatusCode::kCorruption);
  EXPECT_EQ(code("boolean", false, "\2"sv), StatusCode::kCorruption);
  EXPECT_EQ(code("text", false, "\1\0\0\0\xff"sv), StatusCode::kCorruption);
  EXPECT_EQ(code("bytes", false, "\1\0\0\0\xff"sv), StatusCode::kOk);
  EXPECT_EQ(code("text", false, "\xff\xff\xff\xff"sv), StatusCode::kCorruption);
  const std::string many_digits(16, '\x11');
  EXPECT_EQ(code("decimal(5,2)", false, many_digits), StatusCode::kCorruption);
}

TEST(RowDecoder, AppendsNullsForAMissingSide) {
  const RowCodec codec = CodecOf({{"n", "bigint", false}, {"t", "text", true}});
  auto decoder = RowDecoder::Make(codec);
  ASSERT_TRUE(decoder->AppendNulls().ok());
  const auto arrays = decoder->Finish();
  for (const auto& array : *arrays) EXPECT_TRUE(array->IsNull(0));
}

TEST(ColumnTypes, MapToArrowAndBack) {
  for (const ColumnSpec& column : AllColumns()) {
    EXPECT_EQ(*ColumnTypeOf(**ArrowTypeOf(column)), column.type);
  }
  const auto schema = ArrowSchemaOf(AllColumns());
  EXPECT_EQ(*ColumnSpecsOf(**schema), AllColumns());
  const std::vector<int> some = {7, 0};
  const auto picked = ColumnSpecsOf(**schema, some);
  EXPECT_EQ((*picked)[0].name, "t");
  EXPECT_EQ((*picked)[1].name, "b");
}

TEST(ColumnTypes, ColumnsOfOneNameAreNumbered) {
  const auto expression = arrow::field("?column?", arrow::int64());
  const auto taken = arrow::field("?column?_2", arrow::int64());
  const auto columns = ColumnSpecsOf(*arrow::schema({expression, expression, taken, expression}));
  ASSERT_TRUE(columns.ok());
  std::vector<std::string> names;
  for (const ColumnSpec& column : *columns) names.push_back(column.name);
  EXPECT_THAT(names,
              ::testing::ElementsAre("?column?", "?column?_2", "?column?_2_2", "?column?_3"));
}

TEST(ColumnTypes, RefuseWhatHasNoCounterpart) {
  for (const char* bad : {"", "BIGINT", "varchar", "decimal", "decimal(0,0)", "decimal(39,0)",
                          "decimal(5,6)", "decimal(5)", "decimal(5,2", "decimal(5,2) "}) {
    EXPECT_EQ(ParseColumnType(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_FALSE(ColumnTypeOf(*arrow::uint8()).ok());
  EXPECT_FALSE(ColumnTypeOf(*arrow::timestamp(arrow::TimeUnit::NANO)).ok());
  EXPECT_FALSE(RowCodec::Make({{"c", "varchar", true}}).ok());
}

}  // namespace
}  // namespace cairn::format

// SPDX-License-Identifier: Apache-2.0
#include <arrow/array/array_primitive.h>

#include <random>

#include "connectors/test_tables.h"

namespace cairn::connectors {
namespace {

using stream::SplitProgress;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class FilesystemSourceTest : public testing::Test {
 protected:
  std::string Error(const std::string& format, const std::string& bytes,
                    std::vector<TestColumn> columns = {{"a", "bigint"}, {"b", "text"}}) {
    WriteFile(&files_, "/in/f", bytes);
    const ReadResult result =
        ReadAll(&files_, Table(std::move(columns), {{"path", "/in/f"}, {"format", format}}));
    EXPECT_FALSE(result.status.ok()) << testing::PrintToString(result.lines);
    return std::string(result.status.message());
  }

  Lines Read(const std::string& format, const std::string& bytes,
             std::vector<TestColumn> columns = {{"a", "bigint"}, {"b", "text"}},
             std::map<std::string, std::string> options = {}) {
    WriteFile(&files_, "/in/f", bytes);
    options["path"] = "/in/f";
    options["format"] = format;
    const ReadResult result = ReadAll(&files_, Table(std::move(columns), options));
    EXPECT_TRUE(result.status.ok()) << result.status.ToString();
    skipped_ = result.skipped;
    return result.lines;
  }

  env::MemoryFileSystem files_;
  uint64_t skipped_ = 0;
};

// ---- NDJSON

TEST_F(FilesystemSourceTest, NdjsonReadsEveryType) {
  const std::string row =
      R"({"b":-5,"i":7,"d":1.5,"t":"x","o":true,"s":"2020-01-02 03:04:05.000006",)"
      R"("a":"2020-01-02","c":12.500})";
  EXPECT_THAT(Read("ndjson", row + "\n", AllTypes()), ElementsAre(row));
}

TEST_F(FilesystemSourceTest, NdjsonKeysComeInAnyOrderWithOthersBetween) {
  EXPECT_THAT(Read("ndjson",
                   "{\"b\":\"x\",\"n\":{\"a\":[1,{\"b\":2}]},\"a\":1}\n"
                   " { \"a\" : 2 , \"z\" : [ ] , \"b\" : \"y\" } \r\n"
                   "\n   \n{\"a\":3,\"b\":\"z\"}"),
              ElementsAre(R"({"a":1,"b":"x"})", R"({"a":2,"b":"y"})", R"({"a":3,"b":"z"})"));
}

TEST_F(FilesystemSourceTest, NdjsonMissingKeysAreNullAndTheLastOfTwoCounts) {
  EXPECT_THAT(Read("ndjson",
                   "{\"a\":1}\n{\"b\":null}\n{\"b\":\"p\",\"b\":\"q\"}\n{}\n"
                   "{\"a\":null,\"a\":5,\"b\":\"x\"}\n"),
              ElementsAre(R"({"a":1,"b":null})", R"({"a":null,"b":null})", R"({"a":null,"b":"q"})",
                          R"({"a":null,"b":null})", R"({"a":5,"b":"x"})"));
}

TEST_F(FilesystemSourceTest, NdjsonEscapesAreResolved) {
  EXPECT_THAT(Read("ndjson",
                   "{\"a\":1,\"b\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20ac\\ud83d"
                   "\\ude00\"}\n{\"\\u0061\":2,\"b\":\"\"}\n"),
              ElementsAre("{\"a\":1,\"b\":\"\\\"\\\\/\\u0008\\u000c\\n\\r\\t\xC3\xA9\xE2\x82\xAC"
                          "\xF0\x9F\x98\x80\"}",
                          R"({"a":2,"b":""})"));
}

TEST_F(FilesystemSourceTest, NdjsonExtremeIntegersAreExact) {
  EXPECT_THAT(
      Read("ndjson",
           "{\"a\":9223372036854775807,\"b\":\"\"}\n"
           "{\"a\":-9223372036854775808,\"b\":\"\"}\n"),
      ElementsAre(R"({"a":9223372036854775807,"b":""})", R"({"a":-9223372036854775808,"b":""})"));
}

TEST_F(FilesystemSourceTest, NdjsonErrorsNameFileLineColumnAndReason) {
  const std::string good = "{\"a\":1,\"b\":\"x\"}\n";
  EXPECT_THAT(Error("ndjson", good + "{\"a\":\"1\",\"b\":\"x\"}\n"),
              HasSubstr("/in/f line 2, column a: \"1\" is a string"));
  EXPECT_THAT(Error("ndjson", good + good + "{\"a\":9223372036854775808,\"b\":\"x\"}\n"),
              HasSubstr("/in/f line 3, column a: \"9223372036854775808\" is out of range for "
                        "BIGINT"));
  EXPECT_THAT(Error("ndjson", good + "{\"a\":1.5,\"b\":\"x\"}\n"), HasSubstr("is not a BIGINT"));
  EXPECT_THAT(Error("ndjson", good + "{\"a\":1,\"b\":2}\n"),
              HasSubstr("line 2, column b: \"2\" is not a JSON string"));
  EXPECT_THAT(Error("ndjson", good + "{\"a\":{},\"b\":\"x\"}\n"),
              HasSubstr("is not a JSON number"));
  EXPECT_THAT(Error("ndjson", good + "{\"a\":01,\"b\":\"x\"}\n"),
              HasSubstr("is not a JSON number"));
  EXPECT_THAT(Error("ndjson", good + "{\"a\":1,\"b\":\"\\x\"}\n"), HasSubstr("has a bad escape"));
  EXPECT_THAT(Error("ndjson", good + "{\"a\":1,\"b\":\"\\ud83d\"}\n"),
              HasSubstr("has a bad escape"));
}

TEST_F(FilesystemSourceTest, NdjsonLinesThatAreNoObjectAreRefused) {
  const std::string good = "{\"a\":1,\"b\":\"x\"}\n";
  for (const char* bad : {"[1]",
                          "7",
                          "{\"a\":1",
                          "{\"a\":1,",
                          "{\"a\"",
                          "{\"a\" 1}",
                          "{\"a\":}",
                          "{\"a\":1}}",
                          "{\"a\":1}{\"a\":2}",
                          "{\"a\":1} x",
                          "{\"a\":1 2}",
                          "{,}",
                          "{\"a\":1,}",
                          "{a:1}",
                          "}",
                          "{",
                          "{\"z\":[1,2}",
                          "{\"z\":",
                          "{\"b\":\"x}",
                          "{\"b\":\"\x01\"}",
                          "{\"b\":\"\xFF\"}",
                          "{\"b\":\"x\"\"y\"}",
                          "\"a\":1"}) {
    EXPECT_THAT(Error("ndjson", good + bad + "\n" + good), HasSubstr("/in/f line 2")) << bad;
    EXPECT_THAT(Error("ndjson", good + bad), HasSubstr("/in/f line 2")) << bad;
    // Skipped, such a line must not take its neighbours with it.
    EXPECT_THAT(Read("ndjson", good + bad + "\n" + good, {{"a", "bigint"}, {"b", "text"}},
                     {{"on_error", "skip"}}),
                SizeIs(2))
        << bad;
    EXPECT_EQ(skipped_, 1u) << bad;
  }
}

TEST_F(FilesystemSourceTest, NdjsonAnObjectOverTwoLinesIsRefused) {
  EXPECT_THAT(Error("ndjson", "{\"a\":1,\n\"b\":\"x\"}\n"), HasSubstr("/in/f line 1"));
  EXPECT_THAT(Error("ndjson", "{\n}\n", {}), HasSubstr("/in/f line 1"));
}

TEST_F(FilesystemSourceTest, NdjsonNotNullColumnsNeedAValue) {
  const std::vector<TestColumn> columns = {{"a", "bigint", false}, {"b", "text"}};
  EXPECT_THAT(Error("ndjson", "{\"a\":1,\"b\":\"\"}\n{\"b\":\"\"}\n", columns),
              HasSubstr("line 2, column a: the value is missing and the column is NOT NULL"));
  EXPECT_THAT(Error("ndjson", "{\"a\":null,\"b\":\"\"}\n", columns), HasSubstr("is NOT NULL"));
}

TEST_F(FilesystemSourceTest, NdjsonAColumnThatNoRowHasIsRefusedAndARareOneIsNot) {
  EXPECT_THAT(Error("ndjson", "{\"a\":1,\"c\":\"b\"}\n{\"a\":2}\n"),
              HasSubstr("/in/f has no column b"));
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "{\"a\":1}\n";
  EXPECT_THAT(Read("ndjson", text + "{\"b\":\"x\"}\n"), SizeIs(100'001));
}

TEST_F(FilesystemSourceTest, NdjsonKeysMayBeWrittenWithEscapesInEveryRow) {
  EXPECT_THAT(Read("ndjson", "{\"gr\\u00f6\\u00dfe\":1}\n{\"gr\\u00F6\xC3\x9F\\u0065\" : 2}\n",
                   {{"gr\xC3\xB6\xC3\x9F"
                     "e",
                     "bigint"}}),
              ElementsAre("{\"gr\xC3\xB6\xC3\x9F"
                          "e\":1}",
                          "{\"gr\xC3\xB6\xC3\x9F"
                          "e\":2}"));
  EXPECT_THAT(Read("ndjson", R"({"x\"y":"\\","\\":1,"\/":2})",
                   {{"x\"y", "text"}, {"\\", "bigint"}, {"/", "bigint"}}),
              ElementsAre(R"({"x\"y":"\\","\\":1,"/":2})"));
  // A value with such a text is no key.
  EXPECT_THAT(Error("ndjson", R"({"a":"\u0062","c":"\"b\":"})"), HasSubstr("has no column b"));
}

TEST_F(FilesystemSourceTest, NdjsonAnEscapedKeyIsFoundWhereverBlocksOfTheFileEnd) {
  const std::string row = "{\"\\u006e\\u0061\\u006d\\u0065\":1}\n";
  constexpr size_t kBlock = 512 * 1024;
  for (size_t before = kBlock - row.size() - 2; before <= kBlock + 2; ++before) {
    const std::string filler = "{\"z\":\"" + std::string(before - 9, 'x') + "\"}\n";
    ASSERT_EQ(filler.size(), before);
    EXPECT_THAT(Read("ndjson", filler + row, {{"name", "bigint"}}), SizeIs(2)) << before;
  }
}

TEST_F(FilesystemSourceTest, NdjsonDoublesMayBeNoNumbers) {
  EXPECT_THAT(
      Read("ndjson", "{\"d\":\"NaN\"}\n{\"d\":\"-Infinity\"}\n{\"d\":1e300}\n", {{"d", "double"}}),
      ElementsAre(R"({"d":"NaN"})", R"({"d":"-Infinity"})", R"({"d":1e+300})"));
}

// ---- CSV

TEST_F(FilesystemSourceTest, CsvReadsEveryTypeInTheHeadersOrder) {
  EXPECT_THAT(Read("csv",
                   "c,a,s,o,t,d,i,b,extra\n"
                   "12.5,2020-01-02,2020-01-02T03:04:05.000006Z,true,x,1.5,7,-5,-\r\n"
                   ",,,,,,,,\n"
                   "\"1\",\"2020-01-02\",\"2020-01-02 00:00:00\",\"FALSE\",\"\",\" 2 \", 8 ,9,-",
                   AllTypes()),
              ElementsAre(R"({"b":-5,"i":7,"d":1.5,"t":"x","o":true,)"
                          R"("s":"2020-01-02 03:04:05.000006","a":"2020-01-02","c":12.500})",
                          R"({"b":null,"i":null,"d":null,"t":null,"o":null,"s":null,"a":null,)"
                          R"("c":null})",
                          R"({"b":9,"i":8,"d":2,"t":"","o":false,"s":"2020-01-02 00:00:00",)"
                          R"("a":"2020-01-02","c":1.000})"));
}

TEST_F(FilesystemSourceTest, CsvQuotedValuesHoldAnything) {
  EXPECT_THAT(Read("csv", "a,b\n1,\"x,\"\"y\"\"\nz\"\n2,\" \"\n3,5\" disk\n"),
              ElementsAre(R"({"a":1,"b":"x,\"y\"\nz"})", R"({"a":2,"b":" "})",
                          R"({"a":3,"b":"5\" disk"})"));
}

TEST_F(FilesystemSourceTest, CsvByteOrderMarkAndBlankLinesArePassedOver) {
  EXPECT_THAT(Read("csv", "\xEF\xBB\xBF\"a\",b\n\n1,x\n\r\n2,y\n\n"),
              ElementsAre(R"({"a":1,"b":"x"})", R"({"a":2,"b":"y"})"));
  for (const char* split_bytes : {"1", "2", "3", "4", "1000"}) {
    EXPECT_THAT(Read("ndjson", "\xEF\xBB\xBF{\"a\":1,\"b\":\"x\"}\n",
                     {{"a", "bigint"}, {"b", "text"}}, {{"split_bytes", split_bytes}}),
                ElementsAre(R"({"a":1,"b":"x"})"))
        << split_bytes;
  }
}

TEST_F(FilesystemSourceTest, CsvOptionsChangeTheDialect) {
  EXPECT_THAT(Read("csv", "1;'x;y'\n2;\n3;NULL\n4;'NULL'\n", {{"a", "bigint"}, {"b", "text"}},
                   {{"delimiter", ";"}, {"quote", "'"}, {"header", "false"}, {"null", "NULL"}}),
              ElementsAre(R"({"a":1,"b":"x;y"})", R"({"a":2,"b":""})", R"({"a":3,"b":null})",
                          R"({"a":4,"b":"NULL"})"));
}

TEST_F(FilesystemSourceTest, CsvErrorsNameFileLineColumnAndReason) {
  const std::string good = "a,b\n1,\"x\n\n\"\n";
  EXPECT_THAT(Error("csv", good + "1x,y\n"),
              HasSubstr("/in/f line 5, column a: \"1x\" is not a BIGINT"));
  EXPECT_THAT(Error("csv", good + "99999999999999999999,y\n"),
              HasSubstr("line 5, column a: \"99999999999999999999\" is out of range for BIGINT"));
  EXPECT_THAT(Error("csv", good + "1,y,z\n"), HasSubstr("line 5: the row has 3 values, the header "
                                                        "2"));
  EXPECT_THAT(Error("csv", good + "1\n"), HasSubstr("line 5: the row has 1 values, the header 2"));
  EXPECT_THAT(Error("csv", good + "1,\"y\n2,z\n"),
              HasSubstr("line 5: a quoted value is not closed"));
  EXPECT_THAT(Error("csv", good + "1,\"y\"z\n"),
              HasSubstr("line 5, column b: \"\"y\"z\" has text behind its closing quote"));
  EXPECT_THAT(Error("csv", good + "1,\xFF\n"), HasSubstr("line 5, column b: the value is not valid "
                                                         "UTF-8"));
  EXPECT_THAT(Error("csv", good + "1,y\n,z\n", {{"a", "bigint", false}, {"b", "text"}}),
              HasSubstr("line 6, column a: the value is missing and the column is NOT NULL"));
}

TEST_F(FilesystemSourceTest, CsvTheFirstBadRowIsTheOneNamed) {
  EXPECT_THAT(Error("csv", "a,b\n1,x\n2,\xFF\n3x,y\n4,z,z\n"), HasSubstr("line 3, column b"));
  EXPECT_THAT(Error("csv", "a,b\n1,x\n2x,y\n4,z,z\n"), HasSubstr("line 3, column a"));
}

TEST_F(FilesystemSourceTest, CsvBadRowsCanBeSkippedAndAreCounted) {
  EXPECT_THAT(Read("csv", "a,b\n1,x\n2x,\xFF\n3,y,z\n4,\"w\n5\"\n6x,v\n7,u\n",
                   {{"a", "bigint"}, {"b", "text"}}, {{"on_error", "skip"}}),
              ElementsAre(R"({"a":1,"b":"x"})", R"({"a":4,"b":"w\n5"})", R"({"a":7,"b":"u"})"));
  EXPECT_EQ(skipped_, 3u);
}

TEST_F(FilesystemSourceTest, CsvMissingAndDoubleColumnsAreRefused) {
  EXPECT_THAT(Error("csv", "a,c\n1,x\n"),
              HasSubstr("/in/f has no column b; its header names: a, c"));
  EXPECT_THAT(Error("csv", "a,b,a\n1,x,2\n"), HasSubstr("/in/f has twice the column a"));
}

// ---- any format

TEST_F(FilesystemSourceTest, EmptyFilesHaveNoRows) {
  EXPECT_THAT(Read("ndjson", ""), IsEmpty());
  EXPECT_THAT(Read("ndjson", "\n\n"), IsEmpty());
  EXPECT_THAT(Read("csv", ""), IsEmpty());
  EXPECT_THAT(Read("csv", "a,b\n"), IsEmpty());
  EXPECT_THAT(Read("csv", "\n"), IsEmpty());
}

TEST_F(FilesystemSourceTest, ADirectoryIsReadInTheOrderOfItsNames) {
  WriteFile(&files_, "/d/b.csv", "a\n3\n");
  WriteFile(&files_, "/d/a.csv", "a\n1\n2\n");
  WriteFile(&files_, "/d/_c.csv", "x\n9\n");
  WriteFile(&files_, "/d/.d.csv", "x\n9\n");
  WriteFile(&files_, "/d/e/f.csv", "x\n9\n");
  const auto table = Table({{"a", "bigint"}}, {{"path", "/d"}, {"format", "csv"}});
  const ReadResult first = ReadAll(&files_, table);
  ASSERT_TRUE(first.status.ok()) << first.status.ToString();
  EXPECT_THAT(first.lines, ElementsAre(R"({"a":1})", R"({"a":2})", R"({"a":3})"));
  // A new file is new input; the rest stays read.
  WriteFile(&files_, "/d/aa.csv", "a\n7\n");
  EXPECT_THAT(ReadAll(&files_, table, first.progress).lines, ElementsAre(R"({"a":7})"));
}

TEST_F(FilesystemSourceTest, AMissingPathIsTold) {
  const ReadResult result =
      ReadAll(&files_, Table({{"a", "bigint"}}, {{"path", "/none"}, {"format", "csv"}}));
  EXPECT_EQ(result.status.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("/none"));
}

TEST_F(FilesystemSourceTest, OnlyTheColumnsAskedForAreDecoded) {
  for (const char* format : {"ndjson", "csv"}) {
    WriteFile(&files_, "/in/f",
              std::string(format) == "csv" ? "a,b,d\nbad,x,1\n" : R"({"a":"bad","b":"x","d":1})");
    const auto table = Table({{"a", "bigint"}, {"b", "text"}, {"d", "double"}},
                             {{"path", "/in/f"}, {"format", format}});
    EXPECT_THAT(ReadAll(&files_, table, {}, {2, 1}).lines, ElementsAre(R"({"d":1,"b":"x"})"));
    auto source = MakeSource(table, {}, &files_);
    auto splits = (*source)->Discover({});
    auto reader = (*source)->CreateReader(*splits);
    auto batch = (*reader)->Next();
    ASSERT_TRUE(batch.ok()) << batch.status().ToString();
    EXPECT_EQ((*batch)->num_rows(), 1);
    EXPECT_EQ((*batch)->num_columns(), 0);
  }
}

// ---- position, resumption and splits

struct TextFile {
  const char* format;
  std::string bytes;
  Lines lines;
};

/// 60 rows with quotes, escapes, blank lines, CRLF, multi-byte text and a last line without end.
TextFile MixedFile(bool csv) {
  TextFile file{csv ? "csv" : "ndjson", csv ? "b,a\n" : "", {}};
  for (int i = 0; i < 60; ++i) {
    const std::string number = std::to_string(i * 7919 % 1000);
    const bool quoted = i % 5 == 0;
    if (csv) {
      file.bytes += quoted ? "\"q,\n\"\"" + number + "\"" : "\xC3\xA9" + number;
      file.bytes += "," + number;
    } else {
      file.bytes += "{\"a\":" + number + ",\"x\":[{}],\"b\":\"" +
                    (quoted ? "q,\\n\\\"" : "\\u00e9") + number + "\"}";
    }
    file.lines.push_back("{\"a\":" + number + ",\"b\":\"" + (quoted ? "q,\\n\\\"" : "\xC3\xA9") +
                         number + "\"}");
    if (i != 59) file.bytes += i % 7 == 0 ? "\r\n" : "\n";
    if (i % 11 == 0) file.bytes += "\n";
  }
  return file;
}

class TextSplits : public testing::TestWithParam<bool> {
 protected:
  TextSplits() : file_(MixedFile(GetParam())) { WriteFile(&files_, "/in/f", file_.bytes); }
  stream::TableDefinition TableWithSplits(uint64_t bytes) const {
    return Table(
        {{"a", "bigint"}, {"b", "text"}},
        {{"path", "/in/f"}, {"format", file_.format}, {"split_bytes", std::to_string(bytes)}});
  }
  env::MemoryFileSystem files_;
  TextFile file_;
};

INSTANTIATE_TEST_SUITE_P(Formats, TextSplits, testing::Values(false, true),
                         [](const auto& param) { return param.param ? "csv" : "ndjson"; });

TEST_P(TextSplits, SplitsOfEverySizeGiveEachRowOnceAndInOrder) {
  for (uint64_t bytes = 1; bytes <= file_.bytes.size() + 1; ++bytes) {
    const ReadResult result = ReadAll(&files_, TableWithSplits(bytes));
    ASSERT_TRUE(result.status.ok()) << bytes << ": " << result.status.ToString();
    ASSERT_EQ(result.lines, file_.lines) << "split_bytes " << bytes;
    for (const SplitProgress& split : result.progress) ASSERT_TRUE(split.ended);
  }
}

TEST_P(TextSplits, ReadersResumeBehindWhatWasReturned) {
  // Small splits make many batches; after each, a new reader takes the rest.
  const auto table = TableWithSplits(97);
  auto source = MakeSource(table, AllColumns(table), &files_);
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  auto reader = (*source)->CreateReader(*(*source)->Discover({}));
  Lines returned;
  for (;;) {
    const auto progress = (*reader)->Progress();
    const ReadResult rest = ReadAll(&files_, table, progress);
    ASSERT_TRUE(rest.status.ok()) << rest.status.ToString();
    Lines all = returned;
    all.insert(all.end(), rest.lines.begin(), rest.lines.end());
    ASSERT_EQ(all, file_.lines) << "after " << returned.size() << " rows";
    auto batch = (*reader)->Next();
    ASSERT_TRUE(batch.ok());
    if (*batch == nullptr) break;
    AppendLines(**batch, &returned);
  }
  EXPECT_EQ(returned, file_.lines);
}

TEST_P(TextSplits, SplitsAreSharedByReadersWithoutGapOrDouble) {
  const auto table = TableWithSplits(61);
  auto source = MakeSource(table, AllColumns(table), &files_);
  const auto splits = *(*source)->Discover({});
  for (size_t readers = 2; readers <= 5; ++readers) {
    Lines all;
    for (size_t r = 0; r < readers; ++r) {
      std::vector<SplitProgress> mine;
      for (size_t i = r; i < splits.size(); i += readers) mine.push_back(splits[i]);
      auto reader = (*source)->CreateReader(mine);
      for (;;) {
        auto batch = (*reader)->Next();
        ASSERT_TRUE(batch.ok()) << batch.status().ToString();
        if (*batch == nullptr) break;
        AppendLines(**batch, &all);
      }
    }
    EXPECT_THAT(all, testing::UnorderedElementsAreArray(file_.lines));
  }
}

TEST_P(TextSplits, WhatIsAppendedLaterIsNewInput) {
  const std::string more = GetParam() ? "\nn,1001\nn,1002"
                                      : "\n{\"a\":1001,\"b\":\"n\"}\n"
                                        "{\"a\":1002,\"b\":\"n\"}";
  for (const uint64_t bytes : {50, 100'000}) {
    WriteFile(&files_, "/in/f", file_.bytes);
    const auto table = TableWithSplits(bytes);
    const ReadResult first = ReadAll(&files_, table);
    ASSERT_EQ(first.lines, file_.lines);
    EXPECT_THAT(ReadAll(&files_, table, first.progress).lines, IsEmpty());
    WriteFile(&files_, "/in/f", file_.bytes + more);
    const ReadResult second = ReadAll(&files_, table, first.progress);
    ASSERT_TRUE(second.status.ok()) << second.status.ToString();
    EXPECT_THAT(second.lines, ElementsAre(R"({"a":1001,"b":"n"})", R"({"a":1002,"b":"n"})"));
  }
}

TEST_P(TextSplits, AFileThatGrewInsideItsLastLineIsRefused) {
  const auto table = TableWithSplits(100'000);
  const ReadResult first = ReadAll(&files_, table);
  WriteFile(&files_, "/in/f", file_.bytes + "9\n");
  const ReadResult second = ReadAll(&files_, table, first.progress);
  EXPECT_EQ(second.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(second.status.message()), HasSubstr("/in/f grew in the middle of"));
}

TEST_P(TextSplits, AFileThatWasCutOrReplacedIsRefused) {
  const auto table = TableWithSplits(80);
  const ReadResult first = ReadAll(&files_, table);
  WriteFile(&files_, "/in/f", file_.bytes.substr(0, file_.bytes.size() - 1));
  ReadResult second = ReadAll(&files_, table, first.progress);
  EXPECT_EQ(second.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(second.status.message()), HasSubstr("/in/f has"));
  std::string other = file_.bytes;
  other[10] ^= 1;
  WriteFile(&files_, "/in/f", other);
  second = ReadAll(&files_, table, first.progress);
  EXPECT_EQ(second.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(second.status.message()), HasSubstr("another file"));
}

TEST_P(TextSplits, AFileThatIsGoneBeforeItsEndIsTold) {
  const auto table = TableWithSplits(80);
  auto source = MakeSource(table, AllColumns(table), &files_);
  const auto splits = *(*source)->Discover({});
  ASSERT_TRUE(files_.RemoveFile("/in/f").ok());
  EXPECT_EQ((*source)->Discover(splits).status().code(), StatusCode::kNotFound);
}

TEST_P(TextSplits, ADamagedPositionIsCorruption) {
  const auto table = TableWithSplits(80);
  auto source = MakeSource(table, AllColumns(table), &files_);
  for (const char* position : {"{}", "x", R"({"from":0,"at":-1,"size":1,"file":"","samples":[]})",
                               R"({"from":2,"at":1,"size":1,"file":"","samples":[]})",
                               R"({"from":0,"at":1,"size":1,"file":"","samples":[[0,2,1]]})",
                               R"({"from":0,"at":1,"size":1,"file":"","samples":[[2,0,1]]})"}) {
    EXPECT_EQ((*source)->Discover({{"f#0", position, false}}).status().code(),
              StatusCode::kCorruption)
        << position;
  }
  EXPECT_EQ((*source)->Discover({{"f", "{}", false}}).status().code(), StatusCode::kCorruption);
}

TEST_F(FilesystemSourceTest, ALineOfManyBlocksIsOneRow) {
  const std::string text(3'000'000, 'x');
  EXPECT_THAT(Read("ndjson", "{\"a\":1,\"b\":\"" + text + "\"}\n{\"a\":2,\"b\":\"\"}\n"),
              SizeIs(2));
  EXPECT_THAT(Read("csv", "a,b\n1,\"" + text + "\"\n2,y\n"), SizeIs(2));
}

TEST_F(FilesystemSourceTest, BatchesAreBoundedAndResumeFromEach) {
  std::string csv = "a,b\n";
  std::string ndjson;
  const int rows = 30'000;
  for (int i = 0; i < rows; ++i) {
    csv += std::to_string(i) + ",\"t" + std::to_string(i) + "\"\n";
    ndjson += "{\"a\":" + std::to_string(i) + ",\"b\":\"t" + std::to_string(i) + "\"}\n";
  }
  for (const char* format : {"csv", "ndjson"}) {
    WriteFile(&files_, "/in/f", std::string(format) == "csv" ? csv : ndjson);
    const auto table =
        Table({{"a", "bigint"}, {"b", "text"}}, {{"path", "/in/f"}, {"format", format}});
    auto source = MakeSource(table, {0}, &files_);
    auto progress = *(*source)->Discover({});
    int64_t next = 0;
    for (int batches = 0;; ++batches) {
      ASSERT_LT(batches, 100);
      auto reader = (*source)->CreateReader(progress);  // a new one for each batch
      auto batch = (*reader)->Next();
      ASSERT_TRUE(batch.ok()) << batch.status().ToString();
      if (*batch == nullptr) break;
      EXPECT_LE((*batch)->num_rows(), 8192);
      const auto& column = static_cast<const arrow::Int64Array&>(*(*batch)->column(0));
      for (int64_t i = 0; i < column.length(); ++i) ASSERT_EQ(column.Value(i), next++);
      progress = *(*source)->Discover((*reader)->Progress());
    }
    EXPECT_EQ(next, rows);
  }
}

}  // namespace
}  // namespace cairn::connectors

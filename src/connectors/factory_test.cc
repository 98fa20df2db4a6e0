// SPDX-License-Identifier: Apache-2.0
#include "connectors/factory.h"

#include <cstdio>

#include "connectors/print_sink.h"
#include "connectors/test_tables.h"

namespace cairn::connectors {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class FactoryTest : public testing::Test {
 protected:
  std::string SourceError(stream::TableDefinition table) {
    const auto source = MakeSource(table, AllColumns(table), &files_);
    EXPECT_EQ(source.status().code(), StatusCode::kInvalidArgument);
    return std::string(source.status().message());
  }
  std::string SinkError(stream::TableDefinition table, bool updating = false) {
    const auto sink = MakeSink(table, updating, {"w"}, &files_);
    EXPECT_EQ(sink.status().code(), StatusCode::kInvalidArgument);
    return std::string(sink.status().message());
  }
  static stream::TableDefinition Files(std::map<std::string, std::string> more) {
    more.insert({{"path", "/p"}, {"format", "csv"}});
    return Table({{"a", "bigint"}}, std::move(more));
  }
  env::MemoryFileSystem files_;
};

TEST_F(FactoryTest, UnknownConnectorsAreRefusedWithThoseThatAre) {
  EXPECT_THAT(SourceError(Table({{"a", "bigint"}}, {}, "kafka")),
              AllOf(HasSubstr("table t"), HasSubstr("'kafka'"), HasSubstr("filesystem, nexmark")));
  EXPECT_THAT(SinkError(Table({{"a", "bigint"}}, {}, "nexmark")),
              HasSubstr("filesystem, print, blackhole"));
}

TEST_F(FactoryTest, UnknownOptionsAreRefusedWithThoseThatAre) {
  EXPECT_THAT(SourceError(Files({{"delimeter", ";"}})),
              AllOf(HasSubstr("no option delimeter"), HasSubstr("delimiter")));
  EXPECT_THAT(SourceError(Files({{"format", "ndjson"}, {"delimiter", ";"}})),
              HasSubstr("no option delimiter"));
  EXPECT_THAT(SinkError(Table({{"a", "bigint"}}, {{"path", "x"}}, "print")),
              HasSubstr("no option path"));
}

TEST_F(FactoryTest, ValuesThatCannotBeAreRefusedWithThoseThatCan) {
  EXPECT_THAT(SourceError(Files({{"format", "avro"}})), HasSubstr("ndjson, csv, parquet"));
  EXPECT_THAT(SourceError(Files({{"on_error", "ignore"}})), HasSubstr("fail, skip"));
  EXPECT_THAT(SourceError(Files({{"header", "maybe"}})), HasSubstr("true or false"));
  EXPECT_THAT(SourceError(Files({{"delimiter", "ab"}})), HasSubstr("one character"));
  EXPECT_THAT(SourceError(Files({{"delimiter", "\""}})), HasSubstr("equals the delimiter"));
  EXPECT_THAT(SourceError(Files({{"split_bytes", "0"}})), HasSubstr("a whole number from 1"));
  EXPECT_THAT(SourceError(Files({{"null", "a,b"}})), HasSubstr("holds a quote"));
  EXPECT_THAT(SourceError(Files({{"format", "parquet"}, {"on_error", "skip"}})),
              HasSubstr("on_error"));
  EXPECT_THAT(SinkError(Files({{"format", "parquet"}, {"compression", "rar"}})),
              HasSubstr("none, snappy, zstd, lz4 or gzip"));
}

TEST_F(FactoryTest, MissingOptionsAreNamed) {
  EXPECT_THAT(SourceError(Table({{"a", "bigint"}}, {{"format", "csv"}})),
              HasSubstr("option path is missing"));
  EXPECT_THAT(SourceError(Table({{"a", "bigint"}}, {{"path", "/p"}})),
              HasSubstr("option format is missing"));
  EXPECT_THAT(SourceError(Table({{"auction", "bigint"}}, {}, "nexmark")),
              HasSubstr("option events is missing"));
}

TEST_F(FactoryTest, ATableMayBeWrittenAndReadWithTheSameOptions) {
  const auto table = Files({{"changelog", "true"}, {"on_error", "skip"}, {"split_bytes", "100"}});
  EXPECT_TRUE(MakeSource(table, {0}, &files_).ok());
  EXPECT_TRUE(MakeSink(table, true, {"w"}, &files_).ok());
}

TEST_F(FactoryTest, AQueryThatUpdatesNeedsAChangelog) {
  EXPECT_THAT(SinkError(Files({}), true), HasSubstr("changelog"));
  EXPECT_TRUE(MakeSink(Files({{"changelog", "true"}}), true, {"w"}, &files_).ok());
  auto table = Files({{"changelog", "true"}});
  table.columns.push_back({"op", arrow::utf8(), true});
  EXPECT_THAT(SinkError(table), HasSubstr("two columns op"));
}

TEST_F(FactoryTest, TypesThatFilesCannotHoldAreRefused) {
  auto table = Files({});
  table.columns.push_back({"x", arrow::binary(), true});
  EXPECT_THAT(SourceError(table), HasSubstr("column x"));
  EXPECT_THAT(SinkError(table), HasSubstr("column x"));
}

TEST_F(FactoryTest, IdentitiesTellTablesApart) {
  const auto identity = [this](stream::TableDefinition table) {
    return (*MakeSource(table, {0}, &files_))->Identity();
  };
  EXPECT_EQ(identity(Files({})), identity(Files({{"on_error", "skip"}})));
  EXPECT_NE(identity(Files({})), identity(Files({{"path", "/q"}})));
  for (const auto& [name, value] : std::map<std::string, std::string>{{"format", "ndjson"},
                                                                      {"split_bytes", "100"},
                                                                      {"delimiter", ";"},
                                                                      {"quote", "'"},
                                                                      {"header", "false"},
                                                                      {"null", "NULL"}}) {
    auto options = Files({}).options;
    options[name] = value;
    EXPECT_NE(identity(Files({})), identity(Table({{"a", "bigint"}}, options))) << name;
  }
}

TEST_F(FactoryTest, EveryOptionOfASinkThatChangesItsFilesIsOfItsIdentity) {
  const auto identity = [this](std::map<std::string, std::string> more,
                               std::vector<TestColumn> columns = {{"a", "bigint"}}) {
    more.insert({{"path", "/p"}, {"format", "csv"}});
    auto sink = MakeSink(Table(std::move(columns), more), false, {"w"}, &files_);
    EXPECT_TRUE(sink.ok()) << sink.status().ToString();
    return (*sink)->Identity();
  };
  const std::map<std::string, std::string> others = {
      {"path", "/q"}, {"format", "ndjson"}, {"changelog", "true"}, {"delimiter", ";"},
      {"quote", "'"}, {"header", "false"},  {"null", "NULL"}};
  for (const auto& [name, value] : others) {
    EXPECT_NE(identity({}), identity({{name, value}})) << name;
  }
  EXPECT_NE(identity({}), identity({}, {{"b", "bigint"}}));
  EXPECT_NE(identity({}), identity({}, {{"a", "text"}}));
  // The same said in other words.
  EXPECT_EQ(identity({}), identity({{"delimiter", ","}, {"header", "1"}, {"path", "/p//"}}));
  EXPECT_EQ(identity({{"format", "parquet"}}),
            identity({{"format", "parquet"}, {"compression", "zstd"}}));
}

TEST_F(FactoryTest, BlackholeCountsRows) {
  WriteFile(&files_, "/p", "a\n1\n2\n");
  BlackholeSink sink;
  auto writer = *sink.CreateWriter(0);
  for (const auto& rows : Batches(&files_, Files({}))) {
    stream::Batch batch;
    batch.rows = rows;
    ASSERT_TRUE(writer->Write(batch).ok());
  }
  EXPECT_EQ(sink.rows(), 2u);
  EXPECT_FALSE(writer->Prepare(base::CheckpointId(1))->has_value());
}

std::string Printed(env::FileSystem* files, const stream::TableDefinition& table,
                    const RowTextOptions& options) {
  std::FILE* out = std::tmpfile();
  auto sink = *MakePrintSink(table, options, out);
  auto writer = *sink->CreateWriter(0);
  auto second = *sink->CreateWriter(1);
  for (const auto& rows : Batches(files, table)) {
    stream::Batch batch;
    batch.rows = rows;
    EXPECT_TRUE(writer->Write(batch).ok());
    EXPECT_TRUE(second->Write(batch).ok());
  }
  std::rewind(out);
  std::string text(1000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), out));
  std::fclose(out);
  return text;
}

TEST_F(FactoryTest, PrintWritesLinesOfJsonOrATable) {
  WriteFile(&files_, "/p", "a,b\n1,x\n,\"y\nz\"\n");
  auto table = Files({});
  table.columns.push_back({"b", arrow::utf8(), true});
  EXPECT_EQ(Printed(&files_, table, {}),
            "{\"a\":1,\"b\":\"x\"}\n{\"a\":null,\"b\":\"y\\nz\"}\n"
            "{\"a\":1,\"b\":\"x\"}\n{\"a\":null,\"b\":\"y\\nz\"}\n");
  RowTextOptions options;
  options.format = RowTextFormat::kTable;
  options.changelog = true;
  EXPECT_EQ(Printed(&files_, table, options),
            "op\ta\tb\n+I\t1\tx\n+I\tNULL\ty z\n+I\t1\tx\n+I\tNULL\ty z\n");
}

TEST_F(FactoryTest, ASinkCommitsForOneThatWroteToTheSameDirectory) {
  const std::string here = R"({"connector":"filesystem","path":"/a","format":"csv"})";
  EXPECT_TRUE(CommitsFor(here, R"({"connector":"filesystem","path":"/a","format":"ndjson"})"));
  for (const char* other : {R"({"connector":"filesystem","path":"/b"})", R"({"connector":"print"})",
                            R"({"connector":"filesystem"})", "", "[]"}) {
    EXPECT_FALSE(CommitsFor(here, other)) << other;
    EXPECT_FALSE(CommitsFor(other, here)) << other;
  }
}

TEST_F(FactoryTest, OffsetsServeASourceThatDiffersInItsPathAlone) {
  const std::string saved = R"({"connector":"filesystem","format":"csv","path":"/a","quote":"x"})";
  EXPECT_TRUE(CheckSavedOffsets(
                  saved, R"({"connector":"filesystem","format":"csv","path":"/b","quote":"x"})")
                  .ok());
  for (const char* now : {R"({"connector":"filesystem","format":"csv","path":"/a","quote":"y"})",
                          R"({"connector":"filesystem","format":"csv","path":"/a"})",
                          R"({"connector":"filesystem","format":"ndjson","path":"/a","quote":"x"})",
                          R"({"connector":"nexmark","seed":"1"})"}) {
    EXPECT_EQ(CheckSavedOffsets(saved, now).code(), StatusCode::kInvalidArgument) << now;
    EXPECT_EQ(CheckSavedOffsets(now, saved).code(), StatusCode::kInvalidArgument) << now;
  }
}

}  // namespace
}  // namespace cairn::connectors

// SPDX-License-Identifier: Apache-2.0
//
// Input that changes between the runs of a job: grown at every byte, for every split size, against
// what one run over the whole file gives; cut, changed, renamed, replaced.
#include <algorithm>

#include "connectors/test_tables.h"

namespace cairn::connectors {
namespace {

using stream::SplitProgress;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

struct GrowingFile {
  std::string name;
  std::string bytes;
  std::map<std::string, std::string> options;
  std::vector<TestColumn> columns = {{"a", "bigint"}};
};

std::ostream& operator<<(std::ostream& out, const GrowingFile& file) { return out << file.name; }

std::vector<GrowingFile> GrowingFiles() {
  return {
      {"csv_of_one_column", "111\n222\n3344\r\n\n5\n66", {{"format", "csv"}, {"header", "false"}}},
      {"csv_with_header",
       "\xEF\xBB\xBF"
       "a,x\n1,yy\r\n22,\n333,z\n",
       {{"format", "csv"}}},
      {"csv_with_quotes",
       "1,\"p\nq\"\n2,\"\"\"r,\"\r\n3,s\n4,\"\n\"",
       {{"format", "csv"}, {"header", "false"}, {"on_error", "skip"}},
       {{"a", "bigint"}, {"b", "text"}}},
      {"ndjson",
       "\xEF\xBB\xBF{\"a\":1}\n\n{\"a\":22}\r\n{\"a\":-3}",
       {{"format", "ndjson"}, {"on_error", "skip"}}},
  };
}

/// What a cut of the file at a byte means for who reads up to it.
enum class Cut : uint8_t {
  kWhole,   ///< between lines, or only the line end is missing
  kOpen,    ///< inside a quoted value
  kInside,  ///< inside a line, which is taken as it stands
};

Cut CutAt(const std::string& bytes, size_t at, bool csv) {
  const std::string read = bytes.substr(0, at);
  if (csv && std::count(read.begin(), read.end(), '"') % 2 != 0) return Cut::kOpen;
  const std::string left = bytes.substr(at);
  if (read.empty() || read == "\xEF\xBB\xBF" || read.back() == '\n' || left.empty()) {
    return Cut::kWhole;
  }
  return left.front() == '\n' || left.starts_with("\r\n") ? Cut::kWhole : Cut::kInside;
}

class GrowthTest : public testing::TestWithParam<GrowingFile> {
 protected:
  bool csv() const { return GetParam().options.at("format") == "csv"; }
  stream::TableDefinition TableOf(uint64_t split_bytes) const {
    auto options = GetParam().options;
    options["path"] = "/in/f";
    options["split_bytes"] = std::to_string(split_bytes);
    return Table(GetParam().columns, options);
  }
  Lines Sorted(Lines lines) const {
    std::sort(lines.begin(), lines.end());
    return lines;
  }
  /// The rows of the file, read at once.
  Lines Expected(const std::string& bytes) {
    WriteFile(&files_, "/in/f", bytes);
    const ReadResult all = ReadAll(&files_, TableOf(1000));
    EXPECT_TRUE(all.status.ok()) << all.status.ToString();
    return Sorted(all.lines);
  }
  Lines Joined(Lines first, const Lines& second) const {
    first.insert(first.end(), second.begin(), second.end());
    return Sorted(std::move(first));
  }

  env::MemoryFileSystem files_;
};

INSTANTIATE_TEST_SUITE_P(Files, GrowthTest, testing::ValuesIn(GrowingFiles()),
                         [](const auto& param) { return param.param.name; });

TEST_P(GrowthTest, AFileThatGrowsFromAnyByteGivesEachRowOnceOrIsRefused) {
  const std::string& bytes = GetParam().bytes;
  const Lines expected = Expected(bytes);
  size_t refused = 0;
  for (uint64_t split = 1; split <= bytes.size() + 1; ++split) {
    for (size_t at = 0; at <= bytes.size(); ++at) {
      SCOPED_TRACE("split_bytes " + std::to_string(split) + ", cut at " + std::to_string(at));
      WriteFile(&files_, "/in/f", bytes.substr(0, at));
      const ReadResult first = ReadAll(&files_, TableOf(split));
      if (!first.status.ok()) continue;  // the cut left no whole header
      WriteFile(&files_, "/in/f", bytes);
      const ReadResult second = ReadAll(&files_, TableOf(split), first.progress);
      if (!second.status.ok()) {
        ASSERT_EQ(CutAt(bytes, at, csv()), Cut::kInside) << second.status.ToString();
        ASSERT_EQ(second.status.code(), StatusCode::kInvalidArgument);
        ASSERT_THAT(std::string(second.status.message()), HasSubstr("grew in the middle of"));
        ++refused;
        continue;
      }
      ASSERT_EQ(Joined(first.lines, second.lines), expected);
      const ReadResult third = ReadAll(&files_, TableOf(split), second.progress);
      ASSERT_TRUE(third.status.ok()) << third.status.ToString();
      ASSERT_THAT(third.lines, IsEmpty());
    }
  }
  EXPECT_GT(refused, bytes.size());
}

TEST_P(GrowthTest, AFileThatGrowsTwiceGivesEachRowOnce) {
  const std::string& bytes = GetParam().bytes;
  const Lines expected = Expected(bytes);
  int checked = 0;
  for (const uint64_t split : {1, 3, 4, 7, 10, 100}) {
    for (size_t one = 1; one < bytes.size(); ++one) {
      for (size_t two = one; two < bytes.size(); ++two) {
        if (CutAt(bytes, one, csv()) == Cut::kInside) continue;
        if (CutAt(bytes, two, csv()) == Cut::kInside) continue;
        WriteFile(&files_, "/in/f", bytes.substr(0, one));
        const ReadResult first = ReadAll(&files_, TableOf(split));
        if (!first.status.ok()) continue;
        WriteFile(&files_, "/in/f", bytes.substr(0, two));
        const ReadResult second = ReadAll(&files_, TableOf(split), first.progress);
        WriteFile(&files_, "/in/f", bytes);
        const ReadResult third = ReadAll(&files_, TableOf(split), second.progress);
        ASSERT_TRUE(third.status.ok()) << third.status.ToString();
        ASSERT_EQ(Joined(Joined(first.lines, second.lines), third.lines), expected)
            << "split_bytes " << split << ", cut at " << one << " and " << two;
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 100);
}

TEST_P(GrowthTest, AFileThatGrowsWhileItIsHalfReadGivesEachRowOnceOrIsRefused) {
  const std::string& bytes = GetParam().bytes;
  const Lines expected = Expected(bytes);
  int stopped = 0;
  for (uint64_t split = 1; split <= bytes.size(); ++split) {
    for (size_t at = 1; at < bytes.size(); ++at) {
      SCOPED_TRACE("split_bytes " + std::to_string(split) + ", cut at " + std::to_string(at));
      WriteFile(&files_, "/in/f", bytes.substr(0, at));
      const auto table = TableOf(split);
      auto source = *MakeSource(table, AllColumns(table), &files_);
      const auto splits = source->Discover({});
      if (!splits.ok()) continue;
      auto reader = *source->CreateReader(*splits);
      Lines returned;
      for (;;) {
        const auto progress = reader->Progress();
        WriteFile(&files_, "/in/f", bytes);
        const ReadResult rest = ReadAll(&files_, table, progress);
        WriteFile(&files_, "/in/f", bytes.substr(0, at));
        if (rest.status.ok()) {
          ASSERT_EQ(Joined(returned, rest.lines), expected);
          ++stopped;
        } else {
          ASSERT_EQ(CutAt(bytes, at, csv()), Cut::kInside) << rest.status.ToString();
        }
        auto batch = reader->Next();
        if (!batch.ok() || *batch == nullptr) break;
        AppendLines(**batch, &returned);
      }
    }
  }
  EXPECT_GT(stopped, 100);
}

TEST_P(GrowthTest, WhatIsAppendedWhileARunReadsIsLeftToTheNext) {
  const std::string& bytes = GetParam().bytes;
  const Lines expected = Expected(bytes);
  for (uint64_t split = 1; split <= bytes.size(); ++split) {
    for (size_t at = 1; at < bytes.size(); ++at) {
      if (CutAt(bytes, at, csv()) == Cut::kInside) continue;
      WriteFile(&files_, "/in/f", bytes.substr(0, at));
      const auto table = TableOf(split);
      auto source = *MakeSource(table, AllColumns(table), &files_);
      const auto splits = source->Discover({});
      if (!splits.ok()) continue;
      WriteFile(&files_, "/in/f", bytes);
      auto reader = *source->CreateReader(*splits);
      Lines returned;
      for (auto batch = reader->Next(); *batch != nullptr; batch = reader->Next()) {
        AppendLines(**batch, &returned);
      }
      const ReadResult rest = ReadAll(&files_, table, reader->Progress());
      ASSERT_TRUE(rest.status.ok()) << rest.status.ToString();
      ASSERT_EQ(Joined(returned, rest.lines), expected)
          << "split_bytes " << split << ", cut at " << at;
    }
  }
}

TEST_P(GrowthTest, AFileThatWasCutAnywhereIsRefused) {
  const std::string& bytes = GetParam().bytes;
  for (const uint64_t split : {1, 5, 1000}) {
    WriteFile(&files_, "/in/f", bytes);
    const ReadResult first = ReadAll(&files_, TableOf(split));
    for (size_t size = 0; size < bytes.size(); ++size) {
      WriteFile(&files_, "/in/f", bytes.substr(0, size));
      EXPECT_EQ(ReadAll(&files_, TableOf(split), first.progress).status.code(),
                StatusCode::kInvalidArgument)
          << split << " " << size;
    }
  }
}

TEST_P(GrowthTest, AFileThatChangedInAnyByteThatWasReadIsRefused) {
  const std::string& bytes = GetParam().bytes;
  for (const uint64_t split : {1, 5, 1000}) {
    WriteFile(&files_, "/in/f", bytes);
    const ReadResult first = ReadAll(&files_, TableOf(split));
    for (size_t at = 0; at < bytes.size(); ++at) {
      std::string other = bytes;
      other[at] ^= 1;
      WriteFile(&files_, "/in/f", other);
      EXPECT_EQ(ReadAll(&files_, TableOf(split), first.progress).status.code(),
                StatusCode::kInvalidArgument)
          << split << " " << at;
    }
  }
}

class ChangedFileTest : public testing::Test {
 protected:
  static stream::TableDefinition Rows(const std::string& path,
                                      const std::string& format = "ndjson") {
    return Table({{"a", "bigint"}}, {{"path", path}, {"format", format}, {"split_bytes", "4000"}});
  }
  static std::string Numbers(int first, int count) {
    std::string text;
    for (int i = first; i < first + count; ++i) text += "{\"a\":" + std::to_string(i) + "}\n";
    return text;
  }
  /// The rows that a run which goes on from `progress_` reads.
  Lines Next(const stream::TableDefinition& table) {
    const ReadResult result = ReadAll(&files_, table, progress_);
    EXPECT_TRUE(result.status.ok()) << result.status.ToString();
    progress_ = result.progress;
    return result.lines;
  }
  std::string Refusal(const stream::TableDefinition& table,
                      StatusCode code = StatusCode::kInvalidArgument) {
    const ReadResult result = ReadAll(&files_, table, progress_);
    EXPECT_EQ(result.status.code(), code) << result.status.ToString();
    return std::string(result.status.message());
  }
  /// Read the first batch only.
  Lines Begin(const stream::TableDefinition& table) {
    auto source = *MakeSource(table, AllColumns(table), &files_);
    auto reader = *source->CreateReader(*source->Discover({}));
    Lines lines;
    AppendLines(**reader->Next(), &lines);
    progress_ = reader->Progress();
    return lines;
  }

  env::MemoryFileSystem files_;
  std::vector<SplitProgress> progress_;
};

TEST_F(ChangedFileTest, AChangeJustBeforeTheSavedOffsetIsRefused) {
  std::string bytes = Numbers(1000, 2000);
  WriteFile(&files_, "/in/f", bytes);
  Next(Rows("/in/f"));
  bytes[bytes.size() - 3] ^= 1;
  WriteFile(&files_, "/in/f", bytes + Numbers(1, 5));
  EXPECT_THAT(Refusal(Rows("/in/f")), HasSubstr("/in/f is another file"));
}

TEST_F(ChangedFileTest, WhatWasNotReadYetMayChange) {
  const std::string bytes = Numbers(1000, 2000);
  WriteFile(&files_, "/in/f", bytes);
  Lines read = Begin(Rows("/in/f"));
  const size_t first_bytes = read.size() * 11;
  ASSERT_LT(first_bytes, bytes.size());
  // Longer rows, so that no split begins where it did.
  WriteFile(&files_, "/in/f", bytes.substr(0, first_bytes) + Numbers(100'000, 3000));
  const Lines rest = Next(Rows("/in/f"));
  ASSERT_EQ(rest.size(), 3000u);
  EXPECT_EQ(rest.front(), "{\"a\":100000}");
  EXPECT_EQ(rest.back(), "{\"a\":102999}");
}

TEST_F(ChangedFileTest, AFileOfWhichNothingWasReadMayBecomeAnother) {
  WriteFile(&files_, "/d/a", Numbers(1, 1));
  WriteFile(&files_, "/d/b", Numbers(1000, 2000));
  EXPECT_THAT(Begin(Rows("/d")), ElementsAre("{\"a\":1}"));
  WriteFile(&files_, "/d/b", Numbers(7, 2));
  EXPECT_THAT(Next(Rows("/d")), ElementsAre("{\"a\":7}", "{\"a\":8}"));
  EXPECT_THAT(Next(Rows("/d")), IsEmpty());
  WriteFile(&files_, "/d/b", Numbers(7, 3));
  EXPECT_THAT(Next(Rows("/d")), ElementsAre("{\"a\":9}"));
}

TEST_F(ChangedFileTest, ARenamedFileIsNotReadAgain) {
  WriteFile(&files_, "/d/f", Numbers(1, 2));
  EXPECT_EQ(Next(Rows("/d")).size(), 2u);
  ASSERT_TRUE(files_.Rename("/d/f", "/d/g").ok());
  EXPECT_THAT(Next(Rows("/d")), IsEmpty());
  auto file = files_.OpenForAppend("/d/g", Numbers(1, 2).size());
  ASSERT_TRUE((*file)->Append(Numbers(3, 1)).ok());
  ASSERT_TRUE((*file)->Close().ok());
  ASSERT_TRUE(files_.Rename("/d/g", "/d/h").ok());
  EXPECT_THAT(Next(Rows("/d")), ElementsAre("{\"a\":3}"));
}

TEST_F(ChangedFileTest, AFileRenamedWhileItIsHalfReadGoesOn) {
  WriteFile(&files_, "/d/f", Numbers(1000, 2000));
  Lines lines = Begin(Rows("/d"));
  ASSERT_LT(lines.size(), 2000u);
  ASSERT_TRUE(files_.Rename("/d/f", "/d/g").ok());
  const Lines rest = Next(Rows("/d"));
  EXPECT_EQ(lines.size() + rest.size(), 2000u);
  EXPECT_THAT(Next(Rows("/d")), IsEmpty());
}

TEST_F(ChangedFileTest, ARotationOfLogsGivesOnlyTheNewRows) {
  WriteFile(&files_, "/d/log", Numbers(1, 3));
  EXPECT_EQ(Next(Rows("/d")).size(), 3u);
  for (int turn = 1; turn <= 4; ++turn) {
    SCOPED_TRACE(turn);
    (void)files_.RemoveFile("/d/log.3");
    (void)files_.Rename("/d/log.2", "/d/log.3");
    (void)files_.Rename("/d/log.1", "/d/log.2");
    ASSERT_TRUE(files_.Rename("/d/log", "/d/log.1").ok());
    // Longer and shorter than what had the name, and beginning like it.
    WriteFile(&files_, "/d/log", Numbers(1, turn % 2 == 0 ? 2 : 5));
    EXPECT_EQ(Next(Rows("/d")).size(), turn % 2 == 0 ? 2u : 5u);
    EXPECT_THAT(Next(Rows("/d")), IsEmpty());
  }
}

TEST_F(ChangedFileTest, AFileReplacedByAnotherWithItsNameIsRefused) {
  WriteFile(&files_, "/d/f", Numbers(1, 3));
  Next(Rows("/d"));
  WriteFile(&files_, "/d/f", Numbers(5, 4));
  EXPECT_THAT(Refusal(Rows("/d")), HasSubstr("/d/f is another file"));
}

TEST_F(ChangedFileTest, ANewFileWithTheContentOfADeletedOneIsNewInput) {
  WriteFile(&files_, "/d/f", Numbers(1, 3));
  Next(Rows("/d"));
  ASSERT_TRUE(files_.RemoveFile("/d/f").ok());
  WriteFile(&files_, "/d/g", Numbers(1, 3));
  EXPECT_EQ(Next(Rows("/d")).size(), 3u);
}

TEST_F(ChangedFileTest, AFileThatWasReadToItsEndMayBeDeleted) {
  for (const char* path : {"/in/f", "/in"}) {
    WriteFile(&files_, "/in/f", Numbers(1, 3));
    progress_.clear();
    EXPECT_EQ(Next(Rows(path)).size(), 3u);
    ASSERT_TRUE(files_.RemoveFile("/in/f").ok());
    EXPECT_THAT(Next(Rows(path)), IsEmpty());
  }
}

TEST_F(ChangedFileTest, AFileDeletedBeforeItsEndIsTold) {
  WriteFile(&files_, "/in/f", Numbers(1000, 2000));
  Begin(Rows("/in/f"));
  ASSERT_TRUE(files_.RemoveFile("/in/f").ok());
  EXPECT_THAT(Refusal(Rows("/in/f"), StatusCode::kNotFound), HasSubstr("was not read to its end"));
  EXPECT_THAT(Refusal(Rows("/in"), StatusCode::kNotFound), HasSubstr("was not read to its end"));
}

TEST_F(ChangedFileTest, ANameThatIsNotUtf8IsRefusedAtTheStart) {
  WriteFile(&files_, "/d/caf\xE9", Numbers(1, 3));
  EXPECT_THAT(Refusal(Rows("/d")), HasSubstr("\"caf\\xe9\""));
}

TEST_F(ChangedFileTest, SplitsThatWereNotBegunHaveNoPosition) {
  WriteFile(&files_, "/in/f", Numbers(1000, 2000));
  Begin(Rows("/in/f"));
  ASSERT_GT(progress_.size(), 3u);
  EXPECT_NE(progress_[0].position, "");
  for (size_t i = 1; i < progress_.size(); ++i) EXPECT_EQ(progress_[i].position, "") << i;
}

TEST_F(ChangedFileTest, AParquetFileThatChangedAtEitherEndGrewOrWasCutIsRefused) {
  WriteFile(&files_, "/rows/f", Numbers(1, 500));
  ASSERT_TRUE(
      WriteThroughSink(&files_, Rows("/pq", "parquet"), Batches(&files_, Rows("/rows"))).ok());
  const auto written = files_.AllFiles();
  const auto found = written.lower_bound("/pq/");
  const std::string path = found->first;
  const std::string bytes = found->second;
  EXPECT_EQ(Next(Rows("/pq", "parquet")).size(), 500u);
  EXPECT_THAT(Next(Rows("/pq", "parquet")), IsEmpty());
  for (const size_t at : {size_t{10}, size_t{900}, bytes.size() - 100, bytes.size() - 10}) {
    std::string other = bytes;
    other[at] ^= 1;
    WriteFile(&files_, path, other);
    Refusal(Rows("/pq", "parquet"));
  }
  WriteFile(&files_, path, bytes + bytes);
  Refusal(Rows("/pq", "parquet"));
  WriteFile(&files_, path, bytes.substr(0, bytes.size() - 1));
  Refusal(Rows("/pq", "parquet"));
  WriteFile(&files_, path, bytes);
  EXPECT_THAT(Next(Rows("/pq", "parquet")), IsEmpty());
  ASSERT_TRUE(files_.Rename(path, "/pq/other").ok());
  EXPECT_THAT(Next(Rows("/pq", "parquet")), IsEmpty());
}

}  // namespace
}  // namespace cairn::connectors

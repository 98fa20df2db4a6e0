// SPDX-License-Identifier: Apache-2.0
#include "connectors/filesystem_sink.h"

#include <sys/stat.h>

#include <filesystem>

#include "connectors/filesystem_sink_testing.h"
#include "env/fault_file_system.h"

namespace cairn::connectors {
namespace {

using stream::RowKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr base::CheckpointId kNone;

class FilesystemSinkTest : public testing::Test {
 protected:
  std::unique_ptr<stream::Sink> Sink(env::FileSystem* files, const std::string& id = "w",
                                     std::map<std::string, std::string> options = {}) {
    options.insert({{"path", "/out"}, {"format", "ndjson"}});
    auto sink = MakeSink(NumberTable(options), false, {id, ++runs_}, files);
    EXPECT_TRUE(sink.ok()) << sink.status().ToString();
    return *std::move(sink);
  }

  std::unique_ptr<stream::SavedSink> Saved(const std::string& writer_id,
                                           const std::string& successor) {
    auto saved = MakeSavedSink(Sink(&files_)->Identity(), writer_id, successor, &files_);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
    return *std::move(saved);
  }

  /// Names under /out that a reader takes, with their contents.
  std::map<std::string, std::string> Visible() const {
    std::map<std::string, std::string> visible;
    for (const auto& [path, bytes] : files_.AllFiles()) {
      const std::string name = path.substr(path.rfind('/') + 1);
      if (!name.starts_with(".") && !name.starts_with("_")) visible[name] = bytes;
    }
    return visible;
  }
  /// Files that are neither rows to be seen nor the note of who publishes.
  size_t Hidden() const {
    size_t hidden = 0;
    for (const auto& [path, bytes] : files_.AllFiles()) {
      const std::string name = path.substr(path.rfind('/') + 1);
      const bool rows = !name.starts_with(".") && !name.starts_with("_");
      hidden += rows || name.starts_with(".owner-") ? 0 : 1;
    }
    return hidden;
  }

  env::MemoryFileSystem files_;
  uint64_t runs_ = 0;
};

TEST_F(FilesystemSinkTest, RowsAreSeenOnlyAfterTheCommit) {
  auto sink = Sink(&files_);
  ASSERT_TRUE(sink->Recover(kNone, {}).ok());
  auto writer = *sink->CreateWriter(3);
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 2))).ok());
  EXPECT_THAT(Visible(), IsEmpty());
  const auto descriptor = *writer->Prepare(base::CheckpointId(7));
  ASSERT_TRUE(descriptor.has_value());
  EXPECT_THAT(Visible(), IsEmpty());
  ASSERT_TRUE(sink->Commit({*descriptor}).ok());
  EXPECT_THAT(Visible(),
              ElementsAre(testing::Pair("part-00000000000000000007-3-w.ndjson",
                                        "{\"a\":1,\"b\":\"t1\"}\n{\"a\":2,\"b\":\"t2\"}\n")));
  EXPECT_EQ(Hidden(), 0u);
}

TEST_F(FilesystemSinkTest, ACheckpointWithoutRowsHasNoDescriptor) {
  auto sink = Sink(&files_);
  ASSERT_TRUE(sink->Recover(kNone, {}).ok());
  auto writer = *sink->CreateWriter(0);
  EXPECT_FALSE(writer->Prepare(base::CheckpointId(1))->has_value());
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 1)->Slice(0, 0))).ok());
  EXPECT_FALSE(writer->Prepare(base::CheckpointId(2))->has_value());
  EXPECT_THAT(Visible(), IsEmpty());
  EXPECT_EQ(Hidden(), 0u);
}

TEST_F(FilesystemSinkTest, CommitCanBeRepeated) {
  auto sink = Sink(&files_);
  ASSERT_TRUE(sink->Recover(kNone, {}).ok());
  auto writer = *sink->CreateWriter(0);
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 2))).ok());
  const std::string descriptor = **writer->Prepare(base::CheckpointId(1));
  ASSERT_TRUE(sink->Commit({descriptor}).ok());
  const auto before = Visible();
  ASSERT_TRUE(sink->Commit({descriptor}).ok());
  ASSERT_TRUE(Sink(&files_)->Recover(base::CheckpointId(1), {descriptor}).ok());
  EXPECT_EQ(Visible(), before);
}

// A commit that was under way when its process was given up, and lands after the recovery.
TEST_F(FilesystemSinkTest, Case20ACommitThatLandsAfterTheRecoveryPublishesNothingTwice) {
  auto old_process = Sink(&files_);
  ASSERT_TRUE(old_process->Recover(kNone, {}).ok());
  auto writer = *old_process->CreateWriter(0);
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 2))).ok());
  const std::string decided = **writer->Prepare(base::CheckpointId(1));
  ASSERT_TRUE(writer->Write(Plain(Numbers(3, 4))).ok());
  const std::string undecided = **writer->Prepare(base::CheckpointId(2));

  auto new_process = Sink(&files_);
  ASSERT_TRUE(new_process->Recover(base::CheckpointId(1), {decided}).ok());
  auto again = *new_process->CreateWriter(0);
  ASSERT_TRUE(again->Write(Plain(Numbers(3, 4))).ok());
  const std::string replayed = **again->Prepare(base::CheckpointId(3));
  ASSERT_TRUE(new_process->Commit({replayed}).ok());
  const auto published = Visible();
  ASSERT_EQ(published.size(), 2u);

  EXPECT_EQ(old_process->Commit({decided}).code(), StatusCode::kFenced);
  EXPECT_FALSE(old_process->Commit({undecided}).ok());
  EXPECT_EQ(Visible(), published);
}

TEST_F(FilesystemSinkTest, PreparedRowsThatAreGoneAreCorruption) {
  auto sink = Sink(&files_);
  ASSERT_TRUE(sink->Recover(kNone, {}).ok());
  auto writer = *sink->CreateWriter(0);
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 2))).ok());
  const std::string descriptor = **writer->Prepare(base::CheckpointId(1));
  for (const auto& [path, bytes] : files_.AllFiles()) ASSERT_TRUE(files_.RemoveFile(path).ok());
  EXPECT_EQ(sink->Commit({descriptor}).code(), StatusCode::kCorruption);
}

TEST_F(FilesystemSinkTest, ADirectoryThatIsGoneWithItsRowsIsToldWithWhatToDoAndNotMadeAnew) {
  auto sink = Sink(&files_);
  ASSERT_TRUE(sink->Recover(kNone, {}).ok());
  auto writer = *sink->CreateWriter(0);
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 2))).ok());
  const std::string descriptor = **writer->Prepare(base::CheckpointId(1));
  ASSERT_TRUE(sink->Commit({descriptor}).ok());
  for (const auto& [path, bytes] : files_.AllFiles()) ASSERT_TRUE(files_.RemoveFile(path).ok());
  ASSERT_TRUE(files_.RemoveDirectory("/out").ok());
  const Status status = Sink(&files_)->Recover(base::CheckpointId(1), {descriptor});
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Put the directory back"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--checkpoints"));
  EXPECT_EQ(files_.Stat("/out").status().code(), StatusCode::kNotFound);
}

TEST_F(FilesystemSinkTest, StagedRowsOfAnotherLengthAreCorruption) {
  auto sink = Sink(&files_);
  ASSERT_TRUE(sink->Recover(kNone, {}).ok());
  auto writer = *sink->CreateWriter(0);
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 2))).ok());
  const std::string descriptor = **writer->Prepare(base::CheckpointId(1));
  ASSERT_TRUE(files_.Truncate(files_.AllFiles().lower_bound("/out/.staged")->first, 3).ok());
  EXPECT_EQ(sink->Commit({descriptor}).code(), StatusCode::kCorruption);
  EXPECT_THAT(Visible(), IsEmpty());
}

TEST_F(FilesystemSinkTest, AFileThatHasTheFinalNameIsNotOverwritten) {
  auto sink = Sink(&files_);
  ASSERT_TRUE(sink->Recover(base::CheckpointId(1), {}).ok());
  auto writer = *sink->CreateWriter(0);
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 2))).ok());
  const std::string descriptor = **writer->Prepare(base::CheckpointId(1));
  WriteFile(&files_, "/out/part-00000000000000000001-0-w.ndjson", "precious");
  EXPECT_EQ(sink->Commit({descriptor}).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Visible().begin()->second, "precious");
}

TEST_F(FilesystemSinkTest, ARunThatBeginsBehindPublishedRowsIsRefused) {
  auto sink = Sink(&files_, "job-1");
  ASSERT_TRUE(sink->Recover(kNone, {}).ok());
  auto writer = *sink->CreateWriter(0);
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 2))).ok());
  const std::string descriptor = **writer->Prepare(base::CheckpointId(7));
  ASSERT_TRUE(sink->Commit({descriptor}).ok());

  const auto begin = [this](const std::string& writer_id, uint64_t id) {
    return Sink(&files_, writer_id)->Recover(base::CheckpointId(id), {});
  };
  for (const uint64_t id : {0, 5, 6}) {
    for (const Status& refused :
         {begin("job-1", id), Saved("job-1", "job-2")->Recover(base::CheckpointId(id), {})}) {
      EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << id;
      EXPECT_THAT(refused.message(), HasSubstr("rows that checkpoint 7 of this job has published"));
    }
  }
  EXPECT_TRUE(begin("job", 0).ok()) << "rows of another writer";
  EXPECT_TRUE(begin("job-1", 7).ok());
  EXPECT_TRUE(begin("job-1", 8).ok());
  EXPECT_TRUE(Saved("job-1", "job-2")->Recover(base::CheckpointId(7), {}).ok());
}

TEST_F(FilesystemSinkTest, OneWriterTakesOverWhatAnotherPreparedWhereItLies) {
  auto sink = Sink(&files_, "job-1");
  ASSERT_TRUE(sink->Recover(kNone, {}).ok());
  auto writer = *sink->CreateWriter(0);
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 2))).ok());
  const std::string prepared = **writer->Prepare(base::CheckpointId(7));
  const base::CheckpointId id(7);

  const auto second = Saved("job-1", "job-2");
  ASSERT_TRUE(second->Recover(id, {prepared}).ok());
  EXPECT_THAT(Visible(), SizeIs(1)) << "rows of the checkpoint are published";
  EXPECT_TRUE(Sink(&files_, "job-1")->Recover(id, {prepared}).ok()) << "the first may still go on";
  ASSERT_TRUE(second->TakeOver().ok());
  ASSERT_TRUE(second->Recover(id, {prepared}).ok()) << "a start that is repeated";
  ASSERT_TRUE(second->TakeOver().ok());
  EXPECT_THAT(Visible(), SizeIs(1));
  for (const Status& refused :
       {Sink(&files_, "job-1")->Recover(id, {prepared}),
        Saved("job-1", "job-3")->Recover(id, {prepared}), Saved("job-1", "job-3")->TakeOver()}) {
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused.ToString();
    EXPECT_THAT(refused.message(), HasSubstr("/out/_taken-over-job%2d1"));
  }
}

// A place and a copy of it both go on from one checkpoint, which the sink had no rows of yet.
TEST_F(FilesystemSinkTest, OfTwoRunsThatGoOnAtOnceTheLaterOnePublishes) {
  auto first = Sink(&files_);
  ASSERT_TRUE(first->Recover(base::CheckpointId(3), {}).ok());
  auto writer = *first->CreateWriter(0);
  auto second = Sink(&files_);
  ASSERT_TRUE(second->Recover(base::CheckpointId(3), {}).ok());
  auto other_writer = *second->CreateWriter(0);
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 2))).ok());
  ASSERT_TRUE(other_writer->Write(Plain(Numbers(1, 2))).ok());
  const Status refused = first->Commit({**writer->Prepare(base::CheckpointId(4))});
  EXPECT_EQ(refused.code(), StatusCode::kFenced) << refused.ToString();
  EXPECT_THAT(Visible(), IsEmpty());
  EXPECT_TRUE(second->Commit({**other_writer->Prepare(base::CheckpointId(70000))}).ok());
  EXPECT_THAT(Visible(), SizeIs(1));
}

// The other one had looked whether it may, and publishes when this one has begun.
TEST_F(FilesystemSinkTest, RowsThatAppearWhileARunBeginsAreSeenBeforeItsFirstCommit) {
  auto first = Sink(&files_);
  ASSERT_TRUE(first->Recover(base::CheckpointId(3), {}).ok());
  auto second = Sink(&files_);
  ASSERT_TRUE(second->Recover(base::CheckpointId(3), {}).ok());
  auto writer = *second->CreateWriter(0);
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 2))).ok());
  const std::string prepared = **writer->Prepare(base::CheckpointId(5));
  WriteFile(&files_, "/out/part-00000000000000000004-0-w.ndjson", "published by the first");
  const Status refused = second->Commit({prepared});
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused.ToString();
  EXPECT_THAT(refused.message(), HasSubstr("would be published again"));
}

TEST_F(FilesystemSinkTest, ASavedSinkThatKeptNothingIsNothingToTakeOver) {
  for (const char* connector : {"print", "blackhole"}) {
    const auto saved =
        MakeSavedSink(std::string(R"({"connector":")") + connector + "\"}", "a", "b", &files_);
    ASSERT_TRUE(saved.ok()) << saved.status().ToString();
    EXPECT_EQ(*saved, nullptr);
  }
  for (const char* identity :
       {"", "[]", R"({"connector":"kafka"})", R"({"connector":"filesystem"})"}) {
    EXPECT_EQ(MakeSavedSink(identity, "a", "b", &files_).status().code(),
              StatusCode::kInvalidArgument)
        << identity;
  }
}

TEST_F(FilesystemSinkTest, DescriptorsCannotReachOutsideTheDirectory) {
  auto sink = Sink(&files_);
  ASSERT_TRUE(sink->Recover(kNone, {}).ok());
  for (const char* descriptor :
       {"", "{}", "[]", R"({"staged":".staged-x/../y","final":"part-1","rows":1,"bytes":1})",
        R"({"staged":".staged-x","final":"../part-1","rows":1,"bytes":1})",
        R"({"staged":"f","final":"part-1","rows":1,"bytes":1})"}) {
    EXPECT_EQ(sink->Commit({descriptor}).code(), StatusCode::kCorruption) << descriptor;
  }
}

TEST_F(FilesystemSinkTest, RecoverCommitsItsCutAndRemovesOnlyItsOwnUndecidedFiles) {
  auto mine = Sink(&files_, "job-1");
  auto other = Sink(&files_, "job-12");
  ASSERT_TRUE(mine->Recover(kNone, {}).ok());
  auto writer = *mine->CreateWriter(0);
  auto other_writer = *other->CreateWriter(0);
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 1))).ok());
  const std::string decided = **writer->Prepare(base::CheckpointId(1));
  ASSERT_TRUE(writer->Write(Plain(Numbers(2, 1))).ok());
  (void)*writer->Prepare(base::CheckpointId(2));
  ASSERT_TRUE(other_writer->Write(Plain(Numbers(3, 1))).ok());
  const std::string of_other = **other_writer->Prepare(base::CheckpointId(1));
  ASSERT_TRUE(Sink(&files_, "job-1")->Recover(base::CheckpointId(1), {decided}).ok());
  EXPECT_THAT(Visible(), SizeIs(1));
  EXPECT_EQ(Hidden(), 1u);
  EXPECT_TRUE(other->Commit({of_other}).ok());
}

TEST_F(FilesystemSinkTest, AnUndecidedFileOfALaterRunIsNotTakenForACommittedOne) {
  auto sink = Sink(&files_);
  ASSERT_TRUE(sink->Recover(kNone, {}).ok());
  auto writer = *sink->CreateWriter(0);
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 2))).ok());
  const std::string committed = **writer->Prepare(base::CheckpointId(1));
  ASSERT_TRUE(sink->Commit({committed}).ok());
  const auto after_commit = Visible();
  for (int run = 0; run < 2; ++run) {  // killed each time before its checkpoint was decided
    auto next = Sink(&files_);
    ASSERT_TRUE(next->Recover(base::CheckpointId(1), {committed}).ok());
    auto again = *next->CreateWriter(0);
    ASSERT_TRUE(again->Write(Plain(Numbers(5, 2))).ok());
    ASSERT_TRUE(again->Prepare(base::CheckpointId(2)).ok());
  }
  const Status recovered = Sink(&files_)->Recover(base::CheckpointId(1), {committed});
  ASSERT_TRUE(recovered.ok()) << recovered.ToString();
  EXPECT_EQ(Visible(), after_commit);
  EXPECT_EQ(Hidden(), 0U);
}

// A process that was paused while it started wakes up behind its successor: it is the later one to
// say that it publishes, and the successor ends with its rows unharmed.
TEST_F(FilesystemSinkTest, ARunThatWasSucceededSweepsNothingOfItsSuccessor) {
  auto paused = Sink(&files_);
  auto successor = Sink(&files_);
  ASSERT_TRUE(successor->Recover(kNone, {}).ok());
  auto writer = *successor->CreateWriter(0);
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 2))).ok());
  const std::string prepared = **writer->Prepare(base::CheckpointId(1));
  ASSERT_TRUE(paused->Recover(kNone, {}).ok());
  EXPECT_EQ(successor->Commit({prepared}).code(), StatusCode::kFenced);
  EXPECT_TRUE(Sink(&files_)->Recover(base::CheckpointId(1), {prepared}).ok());
  EXPECT_THAT(Visible(), SizeIs(1));
}

TEST_F(FilesystemSinkTest, UnfinishedFilesGoWithTheirWriter) {
  auto sink = Sink(&files_);
  ASSERT_TRUE(sink->Recover(kNone, {}).ok());
  auto writer = *sink->CreateWriter(0);
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 1))).ok());
  EXPECT_EQ(Hidden(), 1u);
  writer = nullptr;
  EXPECT_THAT(Visible(), IsEmpty());
  EXPECT_EQ(Hidden(), 0u);
}

TEST_F(FilesystemSinkTest, TheSelectionAndTheKindsAreHonoured) {
  auto sink = Sink(&files_, "w", {{"changelog", "true"}});
  ASSERT_TRUE(sink->Recover(kNone, {}).ok());
  auto writer = *sink->CreateWriter(0);
  stream::Batch batch = Plain(Numbers(0, 5));
  batch.selection = std::make_shared<std::vector<uint32_t>>(std::vector<uint32_t>{1, 2, 4});
  batch.kinds = std::make_shared<std::vector<RowKind>>(
      std::vector<RowKind>{RowKind::kInsert, RowKind::kInsert, RowKind::kUpdateBefore,
                           RowKind::kInsert, RowKind::kDelete});
  ASSERT_TRUE(writer->Write(batch).ok());
  ASSERT_TRUE(sink->Commit({**writer->Prepare(base::CheckpointId(1))}).ok());
  EXPECT_EQ(Visible().begin()->second,
            "{\"op\":\"+I\",\"a\":1,\"b\":\"t1\"}\n{\"op\":\"-U\",\"a\":2,\"b\":\"t2\"}\n"
            "{\"op\":\"-D\",\"a\":4,\"b\":\"t4\"}\n");
}

TEST_F(FilesystemSinkTest, ParquetHonoursSelectionAndKindsAsWell) {
  auto sink = Sink(&files_, "w", {{"changelog", "true"}, {"format", "parquet"}});
  ASSERT_TRUE(sink->Recover(kNone, {}).ok());
  auto writer = *sink->CreateWriter(0);
  stream::Batch batch = Plain(Numbers(0, 3));
  batch.selection = std::make_shared<std::vector<uint32_t>>(std::vector<uint32_t>{0, 2});
  batch.kinds = std::make_shared<std::vector<RowKind>>(
      std::vector<RowKind>{RowKind::kInsert, RowKind::kInsert, RowKind::kUpdateAfter});
  ASSERT_TRUE(writer->Write(batch).ok());
  ASSERT_TRUE(sink->Commit({**writer->Prepare(base::CheckpointId(1))}).ok());
  const auto read = ReadAll(
      &files_, Table({{"op", "text"}, {"a", "bigint"}}, {{"path", "/out"}, {"format", "parquet"}}));
  EXPECT_THAT(read.lines, ElementsAre(R"({"op":"+I","a":0})", R"({"op":"+U","a":2})"));
}

TEST_F(FilesystemSinkTest, UpdatesNeedAChangelog) {
  auto sink = Sink(&files_);
  ASSERT_TRUE(sink->Recover(kNone, {}).ok());
  auto writer = *sink->CreateWriter(0);
  stream::Batch batch = Plain(Numbers(0, 2));
  batch.kinds = std::make_shared<std::vector<RowKind>>(
      std::vector<RowKind>{RowKind::kInsert, RowKind::kUpdateAfter});
  const Status status = writer->Write(batch);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("changelog"));
  EXPECT_EQ(writer->Write(Plain(Numbers(0, 1))).code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(writer->Prepare(base::CheckpointId(1)).ok());
}

TEST_F(FilesystemSinkTest, RowsOfOtherColumnsAreRefused) {
  for (const char* format : {"ndjson", "csv", "parquet"}) {
    auto sink = Sink(&files_, "w", {{"format", format}});
    ASSERT_TRUE(sink->Recover(kNone, {}).ok());
    auto writer = *sink->CreateWriter(0);
    auto rows = Numbers(0, 1)->SelectColumns({1, 0});
    EXPECT_EQ(writer->Write(Plain(*rows)).code(), StatusCode::kInvalidArgument) << format;
  }
}

TEST_F(FilesystemSinkTest, EveryFormatReadsBackToTheSameRows) {
  const std::string rows =
      R"({"b":-5,"i":7,"d":1.5,"t":"x,\"y\"\r\n\tz","o":true,"s":"2020-01-02 03:04:05.000006",)"
      R"("a":"2020-01-02","c":12.500})"
      "\n"
      R"({"b":null,"i":null,"d":null,"t":null,"o":null,"s":null,"a":null,"c":null})"
      "\n"
      R"({"b":9223372036854775807,"i":-2147483648,"d":1e-300,"t":"","o":false,)"
      R"("s":"1969-12-31 23:59:59.999999","a":"0001-01-01","c":-999999999.999})"
      "\n"
      R"({"b":0,"i":0,"d":"-Infinity","t":"NULL","o":false,"s":"9999-12-31 00:00:00",)"
      R"("a":"9999-12-31","c":0.000})"
      "\n"
      "{\"b\":1,\"i\":1,\"d\":0.1,\"t\":\"\xC3\xA9 long enough for the wide copy, and a "
      "\\\"quote\\\""
      "\",\"o\":true,\"s\":\"2020-02-29 00:00:00\",\"a\":\"2020-02-29\",\"c\":1.000}\n";
  WriteFile(&files_, "/rows/f", rows);
  const auto batches =
      Batches(&files_, Table(AllTypes(), {{"path", "/rows/f"}, {"format", "ndjson"}}));
  int id = 0;
  for (const std::map<std::string, std::string>& options :
       std::vector<std::map<std::string, std::string>>{
           {{"format", "ndjson"}},
           {{"format", "csv"}},
           {{"format", "csv"}, {"delimiter", ";"}, {"quote", "'"}, {"null", "NULL"}},
           {{"format", "csv"}, {"delimiter", "\\t"}, {"header", "false"}},
           {{"format", "parquet"}},
           {{"format", "parquet"}, {"compression", "none"}}}) {
    auto table = Table(AllTypes(), options);
    table.options["path"] = "/deep/er/" + std::to_string(++id);
    const Status written = WriteThroughSink(&files_, table, batches);
    ASSERT_TRUE(written.ok()) << written.ToString();
    const ReadResult read = ReadAll(&files_, table);
    ASSERT_TRUE(read.status.ok()) << read.status.ToString();
    std::string text;
    for (const std::string& line : read.lines) text += line + "\n";
    EXPECT_EQ(text, rows) << testing::PrintToString(options);
  }
}

TEST_F(FilesystemSinkTest, CsvRowsOfOneNullColumnReadBack) {
  WriteFile(&files_, "/rows/f", "{\"t\":null}\n{\"t\":\"\"}\n{\"t\":\"x\"}\n");
  const std::vector<TestColumn> columns = {{"t", "text"}};
  const auto table = Table(columns, {{"path", "/one"}, {"format", "csv"}});
  ASSERT_TRUE(WriteThroughSink(
                  &files_, table,
                  Batches(&files_, Table(columns, {{"path", "/rows/f"}, {"format", "ndjson"}})))
                  .ok());
  EXPECT_THAT(ReadAll(&files_, table).lines,
              ElementsAre(R"({"t":null})", R"({"t":""})", R"({"t":"x"})"));
}

TEST_F(FilesystemSinkTest, TheCommitsSyncSparesTheNextPrepareItsOwn) {
  env::FaultFileSystem counted(&files_);
  auto sink = Sink(&counted);
  ASSERT_TRUE(sink->Recover(kNone, {}).ok());
  auto writer = *sink->CreateWriter(0);
  ASSERT_TRUE(writer->Write(Plain(Numbers(0, 1))).ok());
  const std::string first = **writer->Prepare(base::CheckpointId(1));
  counted.Disarm();  // counts from here
  ASSERT_TRUE(writer->Write(Plain(Numbers(1, 1))).ok());
  ASSERT_TRUE(sink->Commit({first}).ok());
  (void)*writer->Prepare(base::CheckpointId(2));
  EXPECT_EQ(counted.Count("fsync"), 2u) << testing::PrintToString(counted.trace());
}

TEST_F(FilesystemSinkTest, ADiskThatFillsUpShowsNothingAndCostsNothing) {
  auto sink = Sink(&files_);
  ASSERT_TRUE(sink->Recover(kNone, {}).ok());
  auto writer = *sink->CreateWriter(0);
  ASSERT_TRUE(writer->Write(Plain(Numbers(0, 10))).ok());
  const std::string first = **writer->Prepare(base::CheckpointId(1));
  ASSERT_TRUE(sink->Commit({first}).ok());
  const auto before = Visible();
  files_.SetCapacity(before.begin()->second.size() + 20);
  ASSERT_TRUE(writer->Write(Plain(Numbers(10, 10))).ok());  // still in memory
  EXPECT_EQ(writer->Prepare(base::CheckpointId(2)).status().code(), StatusCode::kResourceExhausted);
  writer = nullptr;
  EXPECT_EQ(Visible(), before);
  EXPECT_EQ(Hidden(), 0u);
  files_.SetCapacity(1 << 20);
  auto again = *sink->CreateWriter(0);
  ASSERT_TRUE(again->Write(Plain(Numbers(10, 10))).ok());
  EXPECT_TRUE(sink->Commit({**again->Prepare(base::CheckpointId(3))}).ok());
  EXPECT_THAT(Visible(), SizeIs(2));
}

TEST(FilesystemSinkOnDisk, OutputHasTheModeThatProgramsGive) {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const std::string root = testing::TempDir() + "cairn_sink_" + std::to_string(::getpid());
  std::filesystem::remove_all(root);
  const std::string path = root + "/a/b";
  const auto table = NumberTable({{"path", path}, {"format", "csv"}});
  ASSERT_TRUE(WriteThroughSink(env::PosixFileSystem(), table, {Numbers(1, 2)}).ok());
  struct stat found;
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0777 & ~mask);
  ASSERT_EQ(::stat((root + "/a").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0777 & ~mask);
  const std::string file = path + "/part-00000000000000000001-0-w.csv";
  ASSERT_EQ(::stat(file.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0666 & ~mask);
  EXPECT_THAT(ReadAll(env::PosixFileSystem(), table).lines, SizeIs(2));
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace cairn::connectors

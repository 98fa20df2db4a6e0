// SPDX-License-Identifier: Apache-2.0
//
// One suite for every file system, then what only the posix one or the one in memory does.
#include "env/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

#include "env/fault_file_system.h"
#include "env/memory_file_system.h"

namespace cairn::env {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Status WriteFile(FileSystem* files, const std::string& path, std::string_view bytes, bool sync) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files->CreateFile(path));
  CAIRN_RETURN_IF_ERROR(file->Append(bytes));
  if (sync) CAIRN_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

std::string Contents(FileSystem* files, const std::string& path) {
  Result<std::string> bytes = ReadWholeFile(files, path, 1 << 20);
  return bytes.ok() ? *bytes : bytes.status().ToString();
}

struct World {
  std::string name;
  std::function<FileSystem*()> files;
};

class FileSystemContract : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "posix") {
      char path[] = "/tmp/cairn-env-XXXXXX";
      ASSERT_NE(::mkdtemp(path), nullptr);
      root_ = path;
      files_ = PosixFileSystem();
    } else {
      root_ = "/root";
      memory_ = std::make_unique<MemoryFileSystem>();
      faults_ = std::make_unique<FaultFileSystem>(memory_.get());
      files_ = GetParam() == "memory" ? static_cast<FileSystem*>(memory_.get()) : faults_.get();
      ASSERT_TRUE(files_->CreateDirectory(root_).ok());
    }
  }
  void TearDown() override { Remove(root_); }
  void Remove(const std::string& path) {
    Result<std::vector<DirectoryEntry>> entries = files_->ListDirectory(path);
    if (!entries.ok()) return;
    for (const DirectoryEntry& entry : *entries) {
      if (entry.is_directory) {
        Remove(JoinPath(path, entry.name));
      } else {
        ASSERT_TRUE(files_->RemoveFile(JoinPath(path, entry.name)).ok());
      }
    }
    ASSERT_TRUE(files_->RemoveDirectory(path).ok());
  }
  std::string At(std::string_view name) const { return JoinPath(root_, name); }

  std::unique_ptr<MemoryFileSystem> memory_;
  std::unique_ptr<FaultFileSystem> faults_;
  FileSystem* files_ = nullptr;
  std::string root_;
};

TEST_P(FileSystemContract, AFileIsReadBackAsWritten) {
  ASSERT_TRUE(WriteFile(files_, At("a"), "hello", true).ok());
  EXPECT_EQ(Contents(files_, At("a")), "hello");
  EXPECT_EQ(files_->Stat(At("a"))->size, 5u);
  Result<std::unique_ptr<RandomAccessFile>> file = files_->OpenForRead(At("a"));
  ASSERT_TRUE(file.ok());
  char middle[3];
  EXPECT_TRUE((*file)->ReadExactly(1, middle).ok());
  EXPECT_EQ(std::string(middle, 3), "ell");
  EXPECT_EQ((*file)->ReadExactly(3, middle).code(), StatusCode::kCorruption);
}

TEST_P(FileSystemContract, AFileBeyondTheLimitIsRefused) {
  ASSERT_TRUE(WriteFile(files_, At("a"), "hello", true).ok());
  EXPECT_EQ(ReadWholeFile(files_, At("a"), 4).status().code(), StatusCode::kCorruption);
}

TEST_P(FileSystemContract, CreatingATakenNameIsRefused) {
  ASSERT_TRUE(WriteFile(files_, At("a"), "1", false).ok());
  EXPECT_EQ(files_->CreateFile(At("a")).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(files_->CreateDirectory(At("a")).code(), StatusCode::kAlreadyExists);
}

TEST_P(FileSystemContract, MissingFilesAndDirectoriesAreNotFoundAndNamed) {
  EXPECT_EQ(files_->OpenForRead(At("x")).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(files_->OpenForRead(At("x")).status().message(), HasSubstr(At("x")));
  EXPECT_EQ(files_->Stat(At("x")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(files_->RemoveFile(At("x")).code(), StatusCode::kNotFound);
  EXPECT_EQ(files_->Rename(At("x"), At("y")).code(), StatusCode::kNotFound);
  EXPECT_EQ(files_->ListDirectory(At("x")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(files_->CreateFile(At("x/y")).status().code(), StatusCode::kNotFound);
}

TEST_P(FileSystemContract, LinkKeepsTheFirstAndRenameReplaces) {
  ASSERT_TRUE(WriteFile(files_, At("a"), "1", true).ok());
  ASSERT_TRUE(WriteFile(files_, At("b"), "2", true).ok());
  EXPECT_EQ(files_->Link(At("a"), At("b")).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Contents(files_, At("b")), "2");
  EXPECT_TRUE(files_->Rename(At("a"), At("b")).ok());
  EXPECT_EQ(Contents(files_, At("b")), "1");
  EXPECT_EQ(files_->Stat(At("a")).status().code(), StatusCode::kNotFound);
}

TEST_P(FileSystemContract, ARenamedFileKeepsItsIdentityAndAnotherHasItsOwn) {
  ASSERT_TRUE(WriteFile(files_, At("a"), "1", true).ok());
  const std::string identity = files_->Stat(At("a"))->identity;
  ASSERT_NE(identity, "");
  ASSERT_TRUE(files_->Rename(At("a"), At("b")).ok());
  EXPECT_EQ(files_->Stat(At("b"))->identity, identity);
  ASSERT_TRUE(WriteFile(files_, At("a"), "1", true).ok());
  EXPECT_NE(files_->Stat(At("a"))->identity, identity);
}

TEST_P(FileSystemContract, CanonicalPathsAreOneForAllSpellings) {
  ASSERT_TRUE(files_->CreateDirectory(At("d")).ok());
  const std::string canonical = files_->CanonicalPath(At("d/e/f"));
  EXPECT_EQ(canonical.front(), '/');
  EXPECT_EQ(files_->CanonicalPath(At("d/./e//x/../f/")), canonical);
  EXPECT_NE(files_->CanonicalPath(At("d/e/g")), canonical);
  EXPECT_EQ(files_->CanonicalPath("d"), files_->CanonicalPath("./d/"));
}

TEST_P(FileSystemContract, AppendingAtAnOffsetCutsOffWhatIsBehindIt) {
  ASSERT_TRUE(WriteFile(files_, At("a"), "hello", true).ok());
  {
    Result<std::unique_ptr<WritableFile>> file = files_->OpenForAppend(At("a"), 2);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Append("y").ok());
    ASSERT_TRUE((*file)->Close().ok());
  }
  EXPECT_EQ(Contents(files_, At("a")), "hey");
  EXPECT_EQ(files_->OpenForAppend(At("a"), 9).status().code(), StatusCode::kCorruption);
}

TEST_P(FileSystemContract, ListingIsSortedAndTellsDirectories) {
  ASSERT_TRUE(CreateDirectories(files_, At("d/e"), true).ok());
  ASSERT_TRUE(WriteFile(files_, At("b"), "12", true).ok());
  Result<std::vector<DirectoryEntry>> entries = files_->ListDirectory(root_);
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[0].name, "b");
  EXPECT_EQ((*entries)[0].size, 2u);
  EXPECT_TRUE((*entries)[1].is_directory);
  EXPECT_TRUE(CreateDirectories(files_, At("d/e"), true).ok());
  EXPECT_EQ(CreateDirectories(files_, At("b"), true).code(), StatusCode::kAlreadyExists);
}

TEST_P(FileSystemContract, ASecondLockIsFencedAndNamesItsHolder) {
  Result<std::unique_ptr<FileLock>> first = files_->Lock(At("LOCK"));
  ASSERT_TRUE(first.ok());
  const Status second = files_->Lock(At("LOCK")).status();
  EXPECT_EQ(second.code(), StatusCode::kFenced);
  EXPECT_THAT(second.message(), HasSubstr("process "));
  first->reset();
  EXPECT_TRUE(files_->Lock(At("LOCK")).ok());
}

INSTANTIATE_TEST_SUITE_P(All, FileSystemContract, ::testing::Values("posix", "memory", "faults"),
                         [](const auto& info) { return info.param; });

TEST(JoinPathTest, PutsExactlyOneSlashBetween) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "/b"), "a/b");
  EXPECT_EQ(JoinPath("/", "b"), "/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
}

TEST(PosixFileSystemTest, FilesAndDirectoriesArePrivateToTheirOwner) {
  char path[] = "/tmp/cairn-env-XXXXXX";
  ASSERT_NE(::mkdtemp(path), nullptr);
  const std::string root = path;
  const mode_t before = ::umask(0);
  ASSERT_TRUE(PosixFileSystem()->CreateDirectory(root + "/d").ok());
  ASSERT_TRUE(WriteFile(PosixFileSystem(), root + "/d/f", "x", true).ok());
  ASSERT_TRUE(PosixFileSystem()->Lock(root + "/d/LOCK").ok());
  ::umask(before);
  struct stat found;
  ASSERT_EQ(::stat((root + "/d").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
  for (const char* name : {"/d/f", "/d/LOCK"}) {
    ASSERT_EQ(::stat((root + name).c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600u);
    ASSERT_EQ(::unlink((root + name).c_str()), 0);
  }
  ASSERT_EQ(::rmdir((root + "/d").c_str()), 0);
  ASSERT_EQ(::rmdir(root.c_str()), 0);
}

TEST(PosixFileSystemTest, ALockHeldByAnotherProcessNamesIt) {
  char path[] = "/tmp/cairn-env-XXXXXX";
  ASSERT_NE(::mkdtemp(path), nullptr);
  const std::string lock = std::string(path) + "/LOCK";
  int ready[2];
  int done[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(done), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Result<std::unique_ptr<FileLock>> held = PosixFileSystem()->Lock(lock);
    char byte = held.ok() ? 'y' : 'n';
    if (::write(ready[1], &byte, 1) != 1) ::_exit(2);
    if (::read(done[0], &byte, 1) != 1) ::_exit(3);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  const Status refused = PosixFileSystem()->Lock(lock).status();
  EXPECT_EQ(refused.code(), StatusCode::kFenced);
  EXPECT_THAT(refused.message(), HasSubstr("process " + std::to_string(child) + " holds it"));
  ASSERT_EQ(::write(done[1], &byte, 1), 1);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(PosixFileSystem()->Lock(lock).ok());  // died with the process
  for (int fd : {ready[0], ready[1], done[0], done[1]}) ::close(fd);
  ::unlink(lock.c_str());
  ::rmdir(path);
}

TEST(PosixFileSystemTest, AFullDiskSaysSoAndNamesTheFile) {
  Result<std::unique_ptr<WritableFile>> full = PosixFileSystem()->OpenForAppend("/dev/full", 0);
  ASSERT_TRUE(full.ok()) << full.status().ToString();
  const Status status = (*full)->Append("x");
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("/dev/full: No space left on device"));
}

class PowerCut : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(files_.CreateDirectory("/d").ok());
    ASSERT_TRUE(files_.SyncDirectory("/").ok());
  }
  void Cut(Unsynced unsynced, uint64_t seed = 1) {
    files_.PowerCut(unsynced, seed);
    EXPECT_EQ(files_.Stat("/d").status().code(), StatusCode::kUnavailable);
    files_.PowerOn();
  }
  MemoryFileSystem files_;
};

TEST_F(PowerCut, LosesAFileWhoseDirectoryWasNotSynced) {
  ASSERT_TRUE(WriteFile(&files_, "/d/f", "x", true).ok());
  Cut(Unsynced::kDrop);
  EXPECT_EQ(files_.Stat("/d/f").status().code(), StatusCode::kNotFound);
}

TEST_F(PowerCut, LosesBytesThatWereNotSynced) {
  Result<std::unique_ptr<WritableFile>> file = files_.CreateFile("/d/f");
  ASSERT_TRUE((*file)->Append("synced").ok());
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Append("lost").ok());
  ASSERT_TRUE(files_.SyncDirectory("/d").ok());
  Cut(Unsynced::kDrop);
  EXPECT_EQ(Contents(&files_, "/d/f"), "synced");
  EXPECT_EQ((*file)->Append("x").code(), StatusCode::kUnavailable);
}

TEST_F(PowerCut, KeepsWhatWasSynced) {
  ASSERT_TRUE(WriteFile(&files_, "/d/f", "x", true).ok());
  ASSERT_TRUE(files_.SyncDirectory("/d").ok());
  for (Unsynced unsynced : {Unsynced::kDrop, Unsynced::kRandom, Unsynced::kKeep}) {
    Cut(unsynced);
    EXPECT_EQ(Contents(&files_, "/d/f"), "x");
  }
}

TEST_F(PowerCut, UndoesARenameWhoseDirectoryWasNotSynced) {
  ASSERT_TRUE(WriteFile(&files_, "/d/f", "old", true).ok());
  ASSERT_TRUE(files_.SyncDirectory("/d").ok());
  ASSERT_TRUE(WriteFile(&files_, "/d/t", "new", true).ok());
  ASSERT_TRUE(files_.Rename("/d/t", "/d/f").ok());
  Cut(Unsynced::kDrop);
  EXPECT_EQ(Contents(&files_, "/d/f"), "old");
}

TEST_F(PowerCut, AtRandomNeverTouchesSyncedBytesAndReachesEveryOutcome) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    MemoryFileSystem files;
    Result<std::unique_ptr<WritableFile>> file = files.CreateFile("/f");
    ASSERT_TRUE((*file)->Append("abc").ok());
    ASSERT_TRUE((*file)->Sync().ok());
    ASSERT_TRUE(files.SyncDirectory("/").ok());
    ASSERT_TRUE((*file)->Append("defg").ok());
    files.PowerCut(Unsynced::kRandom, seed);
    files.PowerOn();
    const std::string left = Contents(&files, "/f");
    ASSERT_EQ(left.substr(0, 3), "abc") << "seed " << seed;
    ASSERT_LE(left.size(), 7u);
    seen.insert(left);
  }
  EXPECT_TRUE(seen.contains("abc"));      // dropped
  EXPECT_TRUE(seen.contains("abcdefg"));  // kept
  EXPECT_GT(seen.size(), 8u);             // cut short, zeroed, garbled
}

TEST_F(PowerCut, GivesLocksBack) {
  Result<std::unique_ptr<FileLock>> lock = files_.Lock("/d/LOCK");
  ASSERT_TRUE(lock.ok());
  Cut(Unsynced::kKeep);
  EXPECT_TRUE(files_.Lock("/d/LOCK").ok());
}

TEST(MemoryFileSystemTest, AFullDiskCutsAWriteShort) {
  MemoryFileSystem files;
  files.SetCapacity(3);
  Result<std::unique_ptr<WritableFile>> file = files.CreateFile("/f");
  EXPECT_EQ((*file)->Append("hello").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Contents(&files, "/f"), "hel");
  files.SetCapacity(100);
  EXPECT_TRUE((*file)->Append("lo").ok());
}

TEST(FaultFileSystemTest, FailsTheChosenCallOnceOrForEver) {
  MemoryFileSystem memory;
  FaultFileSystem files(&memory);
  files.Arm({.call = 1, .kind = FaultKind::kFail});
  EXPECT_TRUE(files.CreateDirectory("/a").ok());
  EXPECT_EQ(files.CreateDirectory("/b").code(), StatusCode::kUnavailable);
  EXPECT_TRUE(files.CreateDirectory("/c").ok());
  EXPECT_TRUE(files.fired());
  EXPECT_THAT(files.trace(), ElementsAre("mkdir a", "mkdir b", "mkdir c"));
  files.Arm({.call = 0, .kind = FaultKind::kNoSpace, .for_ever = true});
  EXPECT_EQ(files.CreateDirectory("/d").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(files.CreateDirectory("/e").code(), StatusCode::kResourceExhausted);
  files.Disarm();
  EXPECT_TRUE(files.CreateDirectory("/d").ok());
  EXPECT_FALSE(files.fired());
}

TEST(FaultFileSystemTest, AShortWriteLeavesHalf) {
  MemoryFileSystem memory;
  FaultFileSystem files(&memory);
  files.Arm({.call = 1, .kind = FaultKind::kShortWrite});
  Result<std::unique_ptr<WritableFile>> file = files.CreateFile("/f");
  EXPECT_EQ((*file)->Append("abcd").code(), StatusCode::kUnavailable);
  EXPECT_EQ(Contents(&memory, "/f"), "ab");
}

TEST(FaultFileSystemTest, ALostAnswerFailsThoughTheWorkWasDone) {
  MemoryFileSystem memory;
  FaultFileSystem files(&memory);
  files.Arm({.call = 0, .kind = FaultKind::kFailAfter});
  EXPECT_EQ(files.CreateDirectory("/d").code(), StatusCode::kUnavailable);
  EXPECT_TRUE(memory.Stat("/d").ok());
}

TEST(FaultFileSystemTest, RunsTheCallbackAfterTheCall) {
  MemoryFileSystem memory;
  FaultFileSystem files(&memory);
  files.Arm({.call = 1, .kind = FaultKind::kCallback, .after = [&] {
               memory.PowerCut(Unsynced::kDrop);
             }});
  EXPECT_TRUE(files.CreateDirectory("/a").ok());
  EXPECT_TRUE(files.SyncDirectory("/").ok());
  EXPECT_EQ(files.CreateDirectory("/b").code(), StatusCode::kUnavailable);
  memory.PowerOn();
  EXPECT_TRUE(memory.Stat("/a").ok());
}

}  // namespace
}  // namespace cairn::env

// SPDX-License-Identifier: Apache-2.0
//
// More than 3 GiB of values in one key group, so in one binary column: past what 32-bit offsets of
// Arrow hold. Saved, restored and exported, every row compared by its hash. Of the long tier: it
// takes 6 GiB of disk and 7 GiB of memory.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/state_store.h"
#include "cli/command_line.h"
#include "format/canonical_stream.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kColumnBytes = (uint64_t{3} << 30) + 1;
constexpr uint64_t kValueBytesMost = 1 << 20;

uint64_t HashOf(std::string_view bytes) { return std::hash<std::string_view>()(bytes); }

uint64_t Mixed(uint64_t n) {
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9;
  n = (n ^ (n >> 27)) * 0x94d049bb133111eb;
  return n ^ (n >> 31);
}

/// The value of a key: up to 1 MiB that look random, so that rows in each other's place show.
std::string ValueOf(int64_t key) {
  uint64_t word = Mixed(static_cast<uint64_t>(key) + 1);
  std::string value(word % kValueBytesMost, '\0');
  for (size_t at = 0; at < value.size(); at += sizeof(word)) {
    word = word * 6364136223846793005 + 1442695040888963407;
    std::memcpy(value.data() + at, &word, std::min(sizeof(word), value.size() - at));
  }
  return value;
}

class FileSource final : public format::ByteSource {
 public:
  explicit FileSource(const fs::path& path)
      : size_(fs::file_size(path)), file_(path, std::ios::binary) {}
  uint64_t size() const override { return size_; }
  Status Read(std::span<char> out) override {
    file_.read(out.data(), static_cast<std::streamsize>(out.size()));
    return file_ ? Status() : Status::Unavailable("cannot read the exported file");
  }

 private:
  const uint64_t size_;
  std::ifstream file_;
};

class LargeColumn : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("CAIRN_LONG") == nullptr) GTEST_SKIP() << "CAIRN_LONG=1 saves 3 GiB";
    std::string pattern = (fs::temp_directory_path() / "cairn-column-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override {
    if (!dir_.empty()) fs::remove_all(dir_);
  }

  /// Open the one partition of the one key group; its values are in values_.
  Recovered Open() {
    StateStoreOptions options("column");
    options.state.key_groups = 1;
    options.state.memory_budget = uint64_t{8} << 30;
    options.checkpoint.timeout = std::chrono::hours(1);
    options.fs.fsync = false;
    auto store = StateStore::Open("file://" + (dir_ / "place").string(), std::move(options));
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    store_ = *std::move(store);
    partition_ = *store_->OpenPartition(0);
    values_ = *partition_->Operator("op")->keyed_state<int64_t, std::string>("values");
    const Result<Recovered> start = partition_->Recover();
    EXPECT_TRUE(start.ok()) << start.status().ToString();
    return start.ok() ? *start : Recovered();
  }

  /// Write rows until their values are kColumnBytes, and save them as one base.
  void Save() {
    Open();
    uint64_t bytes = 0;
    for (int64_t key = 0; bytes < kColumnBytes; ++key) {
      std::string value = ValueOf(key);
      bytes += value.size();
      hashes_.push_back(HashOf(value));
      ASSERT_TRUE(
          values_->Update(key, [&](std::string& now, bool) noexcept { now.swap(value); }).ok());
    }
    const Status saved = partition_->Checkpoint("")->Wait();
    ASSERT_TRUE(saved.ok()) << saved.ToString();
    EXPECT_GT(store_->stats().bytes_written, kColumnBytes);
    store_.reset();
  }

  /// Count the row as seen, once, with the value that was written.
  void Check(int64_t key, std::string_view value, std::vector<bool>* seen) const {
    ASSERT_LT(static_cast<size_t>(key), hashes_.size());
    EXPECT_EQ(HashOf(value), hashes_[static_cast<size_t>(key)]) << "key " << key;
    EXPECT_FALSE((*seen)[static_cast<size_t>(key)]) << "key " << key << " comes twice";
    (*seen)[static_cast<size_t>(key)] = true;
  }

  fs::path dir_;
  std::vector<uint64_t> hashes_;  ///< of the value of each key
  std::unique_ptr<StateStore> store_;
  Partition* partition_ = nullptr;
  KeyedState<int64_t, std::string>* values_ = nullptr;
};

TEST_F(LargeColumn, Case56ThreeGiBOfOneKeyGroupComeBackRowByRow) {
  ASSERT_NO_FATAL_FAILURE(Save());

  const Recovered start = Open();
  EXPECT_EQ(start.rows, hashes_.size());
  std::vector<bool> restored(hashes_.size());
  values_->ScanNow(partition_->key_groups(),
                   [&](int64_t key, const std::string& value) { Check(key, value, &restored); });
  EXPECT_EQ(std::count(restored.begin(), restored.end(), true), std::ssize(hashes_));
  store_.reset();

  const std::string place = (dir_ / "place").string(), file = (dir_ / "all.snap").string();
  const std::vector<const char*> argv = {"cairn",    "state",        "export", place.c_str(),
                                         "--format", "arrow-stream", "-o",     file.c_str()};
  ASSERT_EQ(cli::Main(env::PosixFileSystem(), static_cast<int>(argv.size()), argv.data()), 0);
  FileSource source(file);
  const auto reader = format::CanonicalStreamReader::Open(&source);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  std::vector<bool> exported(hashes_.size());
  for (;;) {
    const auto batch = (*reader)->Next();
    ASSERT_TRUE(batch.ok()) << batch.status().ToString();
    if (!batch->has_value()) break;
    const base::SavedRowSpan& rows = (*batch)->rows;
    for (size_t row = 0; row < rows.rows; ++row) {
      int64_t key = 0;  // the last bytes of a stored key
      const std::string_view stored = rows.key(row);
      ASSERT_GE(stored.size(), sizeof(key));
      std::memcpy(&key, stored.data() + stored.size() - sizeof(key), sizeof(key));
      ASSERT_NO_FATAL_FAILURE(Check(key, rows.value(row), &exported));
    }
  }
  EXPECT_EQ(std::count(exported.begin(), exported.end(), true), std::ssize(hashes_));
}

}  // namespace
}  // namespace cairn

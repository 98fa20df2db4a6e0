// SPDX-License-Identifier: Apache-2.0
//
// What happens at the limits of docs/limits.md once state is saved: persisted, restored at another
// number of partitions, and read by the tools.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "cairn/state_store.h"
#include "cli/command_line.h"

namespace cairn {

/// A text whose codec fails on "42", whichever way it goes.
struct PickyText {
  std::string text;
};

template <>
struct Codec<PickyText> {
  static constexpr std::string_view kName = "picky";
  size_t EncodedSize(const PickyText& value) const {
    if (value.text == "42") throw std::runtime_error("not 42");
    return value.text.size();
  }
  void Encode(const PickyText& value, char* out) const { value.text.copy(out, value.text.size()); }
  Result<PickyText> Decode(std::string_view bytes) const {
    if (bytes == "43") return Status::Corruption("not 43");
    return PickyText{std::string(bytes)};
  }
  size_t MemoryBytes(const PickyText& value) const { return value.text.size(); }
};

/// Says that it is as large as told: for sizes that a test does not want to have in memory.
struct ClaimedSize {
  std::string owner;  // makes it a boxed value
  uint64_t in_memory = 0;
  uint64_t saved = 0;
};

template <>
struct Codec<ClaimedSize> {
  static constexpr std::string_view kName = "claimed";
  size_t EncodedSize(const ClaimedSize& value) const { return value.saved; }
  void Encode(const ClaimedSize& value, char* out) const { std::fill_n(out, value.saved, 'x'); }
  Result<ClaimedSize> Decode(std::string_view bytes) const {
    return ClaimedSize{"", bytes.size(), bytes.size()};
  }
  size_t MemoryBytes(const ClaimedSize& value) const { return value.in_memory; }
};

namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr uint64_t kTwoGiB = uint64_t{2} << 30;

class SavedLimits : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "cairn-limits-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string Path(const std::string& name) const { return (dir_ / name).string(); }

  std::unique_ptr<StateStore> Open(uint32_t partitions = 1,
                                   uint32_t key_groups = kDefaultKeyGroups) {
    StateStoreOptions options("limits");
    options.partitions = partitions;
    options.state.key_groups = key_groups;
    options.fs.fsync = false;
    auto store = StateStore::Open("file://" + Path("place"), std::move(options));
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return store.ok() ? *std::move(store) : nullptr;
  }

  static Status Save(Partition* partition) {
    CAIRN_ASSIGN_OR_RETURN(CheckpointHandle handle, partition->Checkpoint("here"));
    return handle.Wait();
  }

  /// Run the command; its output is in out_ and err_.
  int Cairn(std::vector<std::string> arguments) {
    std::vector<const char*> argv{"cairn"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = cli::Main(env::PosixFileSystem(), static_cast<int>(argv.size()), argv.data());
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    return code;
  }
  size_t LinesOut() const {
    return static_cast<size_t>(std::count(out_.begin(), out_.end(), '\n'));
  }

  /// Every tool reads the place, and what it exports makes an equal one.
  void ExpectToolsWork(const std::string& rows) {
    EXPECT_EQ(Cairn({"checkpoint", "verify", Path("place")}), 0) << err_;
    EXPECT_EQ(Cairn({"state", "ls", Path("place"), "--json"}), 0) << err_;
    EXPECT_THAT(out_, HasSubstr(rows));
    EXPECT_EQ(Cairn({"state", "cat", Path("place"), "--limit", "3"}), 0) << err_;
    for (const std::string format : {"parquet", "arrow"}) {
      const std::string file = Path("all." + format), copy = Path("copy-" + format);
      EXPECT_EQ(Cairn({"state", "export", Path("place"), "--format", format, "-o", file}), 0)
          << err_;
      EXPECT_EQ(Cairn({"state", "import", file, "--to", copy}), 0) << err_;
      EXPECT_EQ(Cairn({"state", "diff", Path("place"), copy}), 0) << out_.substr(0, 300) << err_;
    }
  }

  fs::path dir_;
  std::string out_;
  std::string err_;
};

TEST_F(SavedLimits, AKeyAndAValueOfAMebibyteGoThroughRestoreAndTools) {
  const std::string key(1 << 20, 'k'), value(1 << 20, 'v');
  {
    const auto store = Open();
    Partition* partition = *store->OpenPartition(0);
    auto* texts = *partition->Operator("op")->keyed_state<std::string, std::string>("texts");
    ASSERT_TRUE(partition->Recover().ok());
    for (const std::string& one : {key, key + "2"}) {
      ASSERT_TRUE(texts->Update(one, [&](std::string& text, bool) { text = value; }).ok());
    }
    ASSERT_TRUE(Save(partition).ok());
  }
  const auto store = Open();
  Partition* partition = *store->OpenPartition(0);
  auto* texts = *partition->Operator("op")->keyed_state<std::string, std::string>("texts");
  const auto recovered = partition->Recover();
  ASSERT_TRUE(recovered.ok()) << recovered.status().ToString();
  EXPECT_EQ(recovered->rows, 2u);
  ASSERT_NE(texts->Find(key), nullptr);
  EXPECT_EQ(*texts->Find(key + "2"), value);
  ExpectToolsWork("\"rows\":2");
  EXPECT_EQ(Cairn({"state", "get", Path("place"), key, "--json"}), 0) << err_.substr(0, 300);
  EXPECT_EQ(LinesOut(), 1u);
  EXPECT_EQ(Cairn({"state", "get", Path("place"), key + "3"}), 1);
  EXPECT_LT(err_.size(), 2000u) << "the key is not in the message as a whole";
}

TEST_F(SavedLimits, AThousandSlotsAreSavedRestoredAndListed) {
  constexpr int kSlots = 1000;
  std::vector<KeyedState<int64_t, int64_t>*> slots;
  const auto declare = [&](Partition* partition) {
    slots.clear();
    for (int i = 0; i < kSlots; ++i) {
      slots.push_back(*partition->Operator("op" + std::to_string(i % 10))
                           ->keyed_state<int64_t, int64_t>("slot" + std::to_string(i)));
    }
  };
  {
    const auto store = Open();
    Partition* partition = *store->OpenPartition(0);
    declare(partition);
    ASSERT_TRUE(partition->Recover().ok());
    for (int i = 0; i < kSlots; ++i) {
      ASSERT_TRUE(slots[i]->Update(i, [&](int64_t& n, bool) { n = 7 * i; }).ok());
    }
    const Status saved = Save(partition);
    ASSERT_TRUE(saved.ok()) << saved.ToString();
    ASSERT_TRUE(slots[5]->Update(5, [](int64_t& n, bool) { n = -1; }).ok());
    ASSERT_TRUE(Save(partition).ok());
  }
  uint64_t found = 0;
  const auto store = Open(3);
  for (uint32_t index = 0; index < 3; ++index) {
    Partition* partition = *store->OpenPartition(index);
    declare(partition);
    ASSERT_TRUE(partition->Recover().ok());
    for (int i = 0; i < kSlots; ++i) {
      const int64_t* n = slots[i]->Find(i);
      if (n == nullptr) continue;
      ++found;
      EXPECT_EQ(*n, i == 5 ? -1 : 7 * i);
    }
  }
  EXPECT_EQ(found, static_cast<uint64_t>(kSlots));
  ExpectToolsWork("\"slot\":\"slot999\"");
  EXPECT_EQ(Cairn({"state", "ls", Path("place"), "--json"}), 0);
  EXPECT_EQ(LinesOut(), static_cast<size_t>(kSlots));
  EXPECT_EQ(Cairn({"state", "get", Path("place"), "700", "--slot", "slot700", "--json"}), 0);
  EXPECT_THAT(out_, HasSubstr("4900"));
}

TEST_F(SavedLimits, AnEmptyStateIsSavedRestoredAndListed) {
  for (int run = 0; run < 2; ++run) {
    const auto store = Open();
    Partition* partition = *store->OpenPartition(0);
    auto* counts = *partition->Operator("op")->keyed_state<std::string, int64_t>("counts");
    const auto recovered = partition->Recover();
    ASSERT_TRUE(recovered.ok()) << recovered.status().ToString();
    EXPECT_EQ(recovered->checkpoint > 0, run > 0);
    EXPECT_EQ(recovered->offsets, run > 0 ? "here" : "");
    EXPECT_EQ(counts->size(), 0u);
    ASSERT_TRUE(Save(partition).ok());
  }
  ExpectToolsWork("\"rows\":0");
  EXPECT_EQ(Cairn({"state", "get", Path("place"), "k"}), 1);
}

TEST_F(SavedLimits, OneKeyGroupMayHoldEverything) {
  constexpr int kRows = 50'000;
  {
    const auto store = Open(1, 1);
    Partition* partition = *store->OpenPartition(0);
    auto* counts = *partition->Operator("op")->keyed_state<int64_t, int64_t>("counts");
    ASSERT_TRUE(partition->Recover().ok());
    for (int i = 0; i < kRows; ++i) {
      ASSERT_TRUE(counts->Update(i, [&](int64_t& n, bool) { n = i; }).ok());
    }
    ASSERT_TRUE(Save(partition).ok());
  }
  const auto store = Open(1, 1);
  Partition* partition = *store->OpenPartition(0);
  auto* counts = *partition->Operator("op")->keyed_state<int64_t, int64_t>("counts");
  const auto recovered = partition->Recover();
  ASSERT_TRUE(recovered.ok()) << recovered.status().ToString();
  EXPECT_EQ(recovered->rows, static_cast<uint64_t>(kRows));
  EXPECT_EQ(*counts->Find(49'999), 49'999);
  ExpectToolsWork("\"rows\":50000");
  EXPECT_EQ(Cairn({"state", "get", Path("place"), "49999", "--json"}), 0) << err_;
}

TEST_F(SavedLimits, MorePartitionsThanKeyGroupsAreRefused) {
  StateStoreOptions options("limits");
  options.partitions = 3;
  options.state.key_groups = 2;
  const Status refused = StateStore::Open("file://" + Path("place"), std::move(options)).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("only 2 key groups"));
  EXPECT_FALSE(fs::exists(Path("place")));
}

TEST_F(SavedLimits, AnUpdateThatThrowsIsInNoCheckpoint) {
  {
    const auto store = Open();
    Partition* partition = *store->OpenPartition(0);
    auto* texts = *partition->Operator("op")->keyed_state<std::string, std::string>("texts");
    ASSERT_TRUE(partition->Recover().ok());
    ASSERT_TRUE(texts->Update("old", [](std::string& text, bool) { text = "before"; }).ok());
    ASSERT_TRUE(Save(partition).ok());
    for (const char* key : {"old", "new"}) {
      EXPECT_THROW((void)texts->Update(key,
                                       [](std::string& text, bool) {
                                         text = "half";
                                         throw std::runtime_error("no");
                                       }),
                   std::runtime_error);
    }
    ASSERT_TRUE(texts->Update("other", [](std::string& text, bool) { text = "x"; }).ok());
    ASSERT_TRUE(Save(partition).ok());
  }
  ExpectToolsWork("\"rows\":2");
  EXPECT_EQ(Cairn({"state", "get", Path("place"), "old"}), 0);
  EXPECT_THAT(out_, HasSubstr("before"));
  EXPECT_EQ(Cairn({"state", "get", Path("place"), "new"}), 1);
}

TEST_F(SavedLimits, ACodecThatFailsOnOneKeyFailsTheCheckpointByNameAndHarmsNothing) {
  const auto store = Open();
  Partition* partition = *store->OpenPartition(0);
  auto* texts = *partition->Operator("op")->keyed_state<int64_t, PickyText>("picky");
  ASSERT_TRUE(partition->Recover().ok());
  for (int64_t key = 0; key < 100; ++key) {
    ASSERT_TRUE(
        texts->Update(key, [&](PickyText& value, bool) { value.text = std::to_string(key); }).ok());
  }
  const Status failed = Save(partition);
  EXPECT_EQ(failed.code(), StatusCode::kInvalidArgument) << failed.ToString();
  const std::string message(failed.message());
  EXPECT_THAT(message, HasSubstr("operator op, slot picky"));
  EXPECT_THAT(message, HasSubstr("0x2a00000000000000"));
  EXPECT_EQ(message.find("operator op"), message.rfind("operator op")) << message;
  EXPECT_EQ(store->stats().last_checkpoint, 0u);
  EXPECT_EQ(texts->size(), 100u);
  ASSERT_TRUE(texts->Update(42, [](PickyText& value, bool) { value.text = "fine"; }).ok());
  const Status saved = Save(partition);
  ASSERT_TRUE(saved.ok()) << saved.ToString();
  EXPECT_EQ(Cairn({"state", "ls", Path("place"), "--json"}), 0);
  EXPECT_THAT(out_, HasSubstr("\"rows\":100"));
}

TEST_F(SavedLimits, AValueThatDoesNotDecodeFailsTheRestoreByName) {
  {
    const auto store = Open();
    Partition* partition = *store->OpenPartition(0);
    auto* texts = *partition->Operator("op")->keyed_state<int64_t, PickyText>("picky");
    ASSERT_TRUE(partition->Recover().ok());
    ASSERT_TRUE(texts->Update(42, [](PickyText& value, bool) { value.text = "43"; }).ok());
    ASSERT_TRUE(Save(partition).ok());
  }
  const auto store = Open();
  Partition* partition = *store->OpenPartition(0);
  auto* texts = *partition->Operator("op")->keyed_state<int64_t, PickyText>("picky");
  const Status refused = partition->Recover().status();
  EXPECT_EQ(refused.code(), StatusCode::kCorruption) << refused.ToString();
  const std::string message(refused.message());
  EXPECT_THAT(message, HasSubstr("slot picky"));
  EXPECT_THAT(message, HasSubstr("0x2a00000000000000"));
  EXPECT_EQ(message.find("operator op"), message.rfind("operator op")) << message;
  EXPECT_EQ(texts->size(), 0u);
}

TEST_F(SavedLimits, AValueOfTwoGiBIsRefusedOrFailsItsCheckpointByName) {
  const auto store = Open();
  Partition* partition = *store->OpenPartition(0);
  auto* values = *partition->Operator("op")->keyed_state<std::string, ClaimedSize>("values");
  ASSERT_TRUE(partition->Recover().ok());
  ASSERT_TRUE(values->Update("k", [](ClaimedSize& value, bool) { value.saved = 10; }).ok());
  const Status grown =
      values->Update("k", [](ClaimedSize& value, bool) { value.in_memory = kTwoGiB; });
  EXPECT_EQ(grown.code(), StatusCode::kInvalidArgument) << grown.ToString();
  EXPECT_THAT(std::string(grown.message()), HasSubstr("slot values"));
  EXPECT_EQ(values->Find("k")->in_memory, 0u) << "the old value stays";
  ASSERT_TRUE(Save(partition).ok());
  const uint64_t last = store->stats().last_checkpoint;

  // One that is small in memory and too large in a file.
  ASSERT_TRUE(values->Update("k", [](ClaimedSize& value, bool) { value.saved = kTwoGiB; }).ok());
  const Status failed = Save(partition);
  EXPECT_FALSE(failed.ok());
  EXPECT_THAT(std::string(failed.message()), HasSubstr("slot values"));
  EXPECT_THAT(std::string(failed.message()), HasSubstr("'k'"));
  EXPECT_EQ(store->stats().last_checkpoint, last);
  ASSERT_TRUE(values->Update("k", [](ClaimedSize& value, bool) { value.saved = 20; }).ok());
  const Status saved = Save(partition);
  EXPECT_TRUE(saved.ok()) << saved.ToString();
}

}  // namespace
}  // namespace cairn

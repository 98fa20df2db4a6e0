// SPDX-License-Identifier: Apache-2.0
//
// The byte contract, on every backend and in every way of running it: reads, writes, scans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backend_fixture.h"
#include "base/coding.h"

namespace cairn::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Every, BackendContract, ::testing::ValuesIn(AllBackends()),
                         [](const auto& info) { return info.param.name; });

// --- reads and writes --------------------------------------------------------------------------

TEST_P(BackendContract, PutGetAndEraseGoRoundTrip) {
  const std::string key = Row("counts", "alice");
  EXPECT_EQ(Read(backend_.get(), kOp, key), std::nullopt);
  ASSERT_OK(backend_->Erase(kOp, key));
  ASSERT_OK(backend_->Put(kOp, key, "1"));
  EXPECT_EQ(Read(backend_.get(), kOp, key), "1");
  ASSERT_OK(backend_->Put(kOp, key, "2"));
  EXPECT_EQ(Read(backend_.get(), kOp, key), "2");
  ASSERT_OK(backend_->Erase(kOp, key));
  EXPECT_EQ(Read(backend_.get(), kOp, key), std::nullopt);
}

TEST_P(BackendContract, OperatorsAndSlotsNeverAlias) {
  ASSERT_OK(backend_->Put(kOp, Row("a", "k"), "op a"));
  ASSERT_OK(backend_->Put(kOp, Row("aa", "k"), "op aa"));
  ASSERT_OK(backend_->Put(kOther, Row("a", "k"), "other a"));
  EXPECT_EQ(Read(backend_.get(), kOp, Row("a", "k")), "op a");
  EXPECT_EQ(Read(backend_.get(), kOp, Row("aa", "k")), "op aa");
  EXPECT_EQ(Read(backend_.get(), kOther, Row("a", "k")), "other a");
  EXPECT_EQ(Read(backend_.get(), kOther, Row("aa", "k")), std::nullopt);
  ASSERT_OK(backend_->Erase(kOp, Row("a", "k")));
  EXPECT_EQ(Read(backend_.get(), kOp, Row("aa", "k")), "op aa");
  EXPECT_EQ(Read(backend_.get(), kOther, Row("a", "k")), "other a");
}

TEST_P(BackendContract, ABatchIsAppliedInItsOrder) {
  WriteBatch batch;
  const std::string key = Row("log", "k");
  batch.Put(kOp, key, "a");
  batch.Merge(kOp, key, "b");
  batch.Erase(kOp, key);
  batch.Merge(kOp, key, "c");
  batch.Merge(kOp, key, "d");
  size_t applied = 0;
  ASSERT_OK(backend_->Apply(batch, &applied));
  EXPECT_EQ(applied, 5u);
  EXPECT_EQ(Read(backend_.get(), kOp, key), "cd");
}

TEST_P(BackendContract, GetManyAnswersByPosition) {
  for (const char* key : {"a", "b", "c"}) {
    ASSERT_OK(backend_->Put(kOp, Row("s", key), std::string("value ") + key));
  }
  const std::vector<std::string> keys = {Row("s", "c"), Row("s", "none"), Row("s", "a"),
                                         Row("s", "c")};
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  std::vector<std::optional<std::string>> values;
  ASSERT_OK(backend_->GetMany(kOp, views, &values));
  EXPECT_THAT(values, ElementsAre("value c", std::nullopt, "value a", "value c"));
}

TEST_P(BackendContract, AKeyUnderAnotherGroupThanItsOwnIsRefusedAndNamed) {
  std::string key = Row("s", "alice");
  ASSERT_EQ(static_cast<uint8_t>(key[0]), KeyGroupOf("alice", kDefaultKeyGroups));
  key[0] = static_cast<char>((static_cast<uint8_t>(key[0]) + 1) % kDefaultKeyGroups);
  WriteBatch batch;
  batch.Put(kOp, Row("s", "good"), "1");
  batch.Put(kOp, key, "1");
  const Status status = backend_->Apply(batch, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("slot s, key 'alice'"));
  // A malformed entry refuses the whole batch.
  EXPECT_EQ(Read(backend_.get(), kOp, Row("s", "good")), std::nullopt);
}

TEST_P(BackendContract, AKeyGroupOfAnotherSubtaskIsRefused) {
  const auto half = Open(1, 2);
  ASSERT_NE(half, nullptr);
  std::string theirs = "k";
  while (OwnerOfKeyGroup(KeyGroupOf(theirs, kDefaultKeyGroups), 2, kDefaultKeyGroups) == 1) {
    theirs += "k";
  }
  const Status status = half->Put(kOp, Row("s", theirs), "1");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("belongs to another subtask"));
}

TEST_P(BackendContract, AbsentEmptyAndZeroBytesAreThreeThings) {
  using namespace std::literals;
  ASSERT_OK(backend_->Put(kOp, Row("s", ""), ""));
  ASSERT_OK(backend_->Put(kOp, Row("s", "zero"), "\0"sv));
  ASSERT_OK(backend_->Put(kOp, Row("s", "null"), "null"));
  const BackendSnapshot snapshot = Snapshot(1);
  Reopen();
  ASSERT_OK(RestoreOwn(snapshot));
  EXPECT_EQ(Read(backend_.get(), kOp, Row("s", "")), "");
  EXPECT_EQ(Read(backend_.get(), kOp, Row("s", "zero")), std::string("\0", 1));
  EXPECT_EQ(Read(backend_.get(), kOp, Row("s", "null")), "null");
  EXPECT_EQ(Read(backend_.get(), kOp, Row("s", "absent")), std::nullopt);
}

TEST_P(BackendContract, AKeyOfOneMiBIsKept) {
  const std::string long_key(1 << 20, 'k');
  ASSERT_OK(backend_->Put(kOp, Row("s", long_key), "v"));
  ASSERT_OK(backend_->Put(kOp, Row("s", long_key + "2"), "w"));
  EXPECT_EQ(Read(backend_.get(), kOp, Row("s", long_key)), "v");
  EXPECT_EQ(Read(backend_.get(), kOp, Row("s", long_key + "2")), "w");
}

TEST_P(BackendContract, AppendingPastTheValueLimitIsRefusedAndEarlierElementsStay) {
  constexpr size_t kLimit = 2 << 20;
  backend_.reset();
  Result<std::unique_ptr<StateBackend>> opened =
      OpenCase(GetParam(), &world_, 0, 1, kDefaultKeyGroups, kLimit);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  backend_ = *std::move(opened);
  const std::string element(256 << 10, 'e');
  const std::string key = Row("list", "alice");
  for (int i = 0; i < 8; ++i) ASSERT_OK(backend_->Merge(kOp, key, element));
  const Status status = backend_->Merge(kOp, key, "x");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("slot list, key 'alice'"));
  EXPECT_EQ(Read(backend_.get(), kOp, key)->size(), kLimit);
  const BackendSnapshot snapshot = Snapshot(3);
  ASSERT_OK(RestoreOwn(snapshot));
  EXPECT_EQ(Read(backend_.get(), kOp, key)->size(), kLimit);
  EXPECT_FALSE(backend_->Put(kOp, key, std::string(kLimit + 1, 'x')).ok());
}

TEST_P(BackendContract, AfterCloseEveryCallFails) {
  ASSERT_OK(backend_->Put(kOp, Row("s", "k"), "v"));
  ASSERT_OK(backend_->Close());
  EXPECT_FALSE(backend_->Put(kOp, Row("s", "k"), "w").ok());
  EXPECT_FALSE(backend_->Get(kOp, Row("s", "k")).ok());
  EXPECT_FALSE(backend_->Capture(9).ok());
  EXPECT_OK(backend_->Close());
}

// --- scans -------------------------------------------------------------------------------------

TEST_P(BackendContract, AScanVisitsEachRowOnceInTheOrderOfTheStoredKeys) {
  if (!GetParam().scans) return;
  EXPECT_TRUE(ScanRows(backend_.get(), kOp).empty());
  WriteBatch batch;
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 2000; ++i) {
    const std::string slot = i % 3 == 0 ? "a" : i % 3 == 1 ? "aa" : "b";
    const std::string key = Row(slot, std::to_string(i));
    batch.Put(kOp, key, std::to_string(i * i));
    expected[key] = std::to_string(i * i);
  }
  for (const char* logical : {"offset", "off:1", "off:0"}) {
    batch.Put(kOp, OperatorRow(logical), logical);
    expected[OperatorRow(logical)] = logical;
  }
  batch.Put(kOp, "_legacy_", "raw");
  expected["_legacy_"] = "raw";
  batch.Put(kOther, Row("a", "elsewhere"), "");
  ASSERT_OK(backend_->Apply(batch, nullptr));
  EXPECT_EQ(ScanRows(backend_.get(), kOp), Rows(expected.begin(), expected.end()));
  EXPECT_EQ(backend_->Describe().rows, expected.size() + 1);
}

TEST_P(BackendContract, ARangeHoldsExactlyItsKeys) {
  if (!GetParam().scans) return;
  WriteBatch batch;
  std::map<std::string, std::string> all;
  for (int i = 0; i < 500; ++i) {
    const std::string key = Row(i % 2 == 0 ? "x" : "y", "key " + std::to_string(i));
    batch.Put(kOp, key, "v");
    all[key] = "v";
  }
  ASSERT_OK(backend_->Apply(batch, nullptr));
  const auto expect = [&](const ScanRange& range) {
    Rows rows;
    for (const auto& row : all) {
      if (range.Contains(row.first)) rows.push_back(row);
    }
    EXPECT_EQ(ScanRows(backend_.get(), kOp, range), rows);
    return rows.size();
  };
  const std::string middle = std::next(all.begin(), 250)->first;
  EXPECT_EQ(expect({middle, std::nullopt}), 250u);
  EXPECT_EQ(expect({"", middle}), 250u);
  EXPECT_EQ(expect({middle, middle}), 0u);
  EXPECT_GT(expect(ScanRange::OfPrefix(middle.substr(0, 1))), 0u);
  EXPECT_EQ(expect(ScanRange::OfPrefix(middle)), 1u);
  EXPECT_EQ(expect(ScanRange::OfPrefix(std::string(1, '\xff'))), 0u);
  EXPECT_EQ(expect({std::string(1, '\xff'), std::nullopt}), 0u);
}

TEST_P(BackendContract, AScanEndsWhenItsVisitorSaysSo) {
  if (!GetParam().scans) return;
  for (int i = 0; i < 20; ++i) ASSERT_OK(backend_->Put(kOp, Row("s", std::to_string(i)), "v"));
  int seen = 0;
  ASSERT_OK(backend_->Scan(kOp, ScanRange::All(),
                           [&](std::string_view, std::string_view) { return ++seen < 7; }));
  EXPECT_EQ(seen, 7);
}

TEST_P(BackendContract, AVisitorMayReadAndWriteAndDoesNotSeeItsWrites) {
  if (!GetParam().scans) return;
  for (int i = 0; i < 50; ++i) ASSERT_OK(backend_->Put(kOp, Row("s", std::to_string(i)), "old"));
  int seen = 0;
  ASSERT_OK(backend_->Scan(kOp, ScanRange::All(), [&](std::string_view key, std::string_view v) {
    EXPECT_EQ(v, "old");
    EXPECT_OK(backend_->Put(kOp, Row("s", std::to_string(seen)), "new"));
    EXPECT_OK(backend_->Put(kOp, Row("s", "extra " + std::to_string(seen)), "new"));
    EXPECT_TRUE(Read(backend_.get(), kOp, key).has_value());
    ++seen;
    return true;
  }));
  EXPECT_EQ(seen, 50);
  EXPECT_EQ(ScanRows(backend_.get(), kOp).size(), 100u);
}

TEST_P(BackendContract, ErasingOrExpiringOneKeyLeavesItsLookAlikes) {
  if (!GetParam().scans) return;
  using namespace std::literals;
  const std::vector<std::string> keys = {"key",
                                         "key2",
                                         "key|",
                                         "key|2",
                                         "ke",
                                         "",
                                         "\0"s,
                                         "key\0"s,
                                         "\xff"s,
                                         "\xff\xff"s,
                                         "\u00e9",
                                         "|",
                                         std::string(1 << 20, 'x')};
  for (const std::string& victim : keys) {
    for (const char* slot : {"a", "aa"}) {
      WriteBatch batch;
      std::map<std::string, std::string> expected;
      for (const std::string& key : keys) {
        for (const char* other : {"a", "aa"}) {
          batch.Put(kOp, Row(other, key), key.substr(0, 8));
          expected[Row(other, key)] = key.substr(0, 8);
        }
      }
      batch.Erase(kOp, Row(slot, victim));
      expected.erase(Row(slot, victim));
      ASSERT_OK(backend_->Apply(batch, nullptr));
      ASSERT_EQ(ScanRows(backend_.get(), kOp), Rows(expected.begin(), expected.end()));
      if (GetParam().restart) break;
    }
    if (GetParam().restart && victim == "key|") break;
  }
  ASSERT_NE(backend_->expiry(), nullptr);
  backend_->expiry()->Declare(kOther, "a");
  for (const char* key : {"key", "key2", "key|", "ke"}) {
    std::string value(8, '\0');
    base::StoreLE<int64_t>(value.data(), std::string_view(key) == "key" ? 10 : 20);
    ASSERT_OK(backend_->Put(kOther, Row("a", key), value + key));
    ASSERT_OK(backend_->Put(kOther, Row("aa", key), key));
  }
  backend_->expiry()->Advance(10);
  EXPECT_EQ(Read(backend_.get(), kOther, Row("a", "key")), std::nullopt);
  const Result<uint64_t> swept = backend_->expiry()->Sweep(1'000'000);
  ASSERT_TRUE(swept.ok());
  EXPECT_LE(*swept, 1u);  // a restart may have left the expired row behind already
  EXPECT_EQ(ScanRows(backend_.get(), kOther).size(), 7u);
}

TEST_P(BackendContract, OrderedNumbersScanInNumericOrder) {
  // Big-endian with the sign bit flipped: what ordered codecs write.
  const auto ordered = [](int64_t number) {
    const uint64_t flipped = static_cast<uint64_t>(number) ^ (uint64_t{1} << 63);
    std::string bytes;
    for (int shift = 56; shift >= 0; shift -= 8)
      bytes.push_back(static_cast<char>(flipped >> shift));
    return bytes;
  };
  const int64_t numbers[] = {0, -1,      std::numeric_limits<int64_t>::min(), 1, -5, 5,
                             4, 1 << 20, std::numeric_limits<int64_t>::max()};
  // Operator rows have no group in front, so that their order is the numbers' own.
  for (const int64_t number : numbers) {
    ASSERT_OK(backend_->Put(kOp, OperatorRow("n|" + ordered(number)), std::to_string(number)));
  }
  std::vector<std::string> values;
  for (const auto& row : ScanRows(backend_.get(), kOp, ScanRange::OfPrefix(OperatorRow("n|")))) {
    values.push_back(row.second);
  }
  EXPECT_THAT(values, ElementsAre("-9223372036854775808", "-5", "-1", "0", "1", "4", "5", "1048576",
                                  "9223372036854775807"));
  values.clear();
  for (const auto& row :
       ScanRows(backend_.get(), kOp,
                {OperatorRow("n|" + ordered(-5)), OperatorRow("n|" + ordered(5))})) {
    values.push_back(row.second);
  }
  EXPECT_THAT(values, ElementsAre("-5", "-1", "0", "1", "4"));
}

TEST_P(BackendContract, DescribeCountsRowsOnceWhateverWasWrittenToThem) {
  if (!GetParam().exact_rows) return;
  WriteBatch batch;
  for (int i = 0; i < 300; ++i) {
    const std::string key = Row("s", std::to_string(i % 100));
    if (i % 7 == 0) batch.Erase(kOp, key);
    batch.Put(kOp, key, "v");
    batch.Merge(kOp, key, "w");
    batch.Erase(kOp, Row("s", "none"));
  }
  for (int i = 0; i < 30; ++i) batch.Erase(kOp, Row("s", std::to_string(i)));
  batch.Put(kOp, OperatorRow("o"), "1");
  batch.Put(kOp, OperatorRow("o"), "2");
  ASSERT_OK(backend_->Apply(batch, nullptr));
  EXPECT_EQ(backend_->Describe().rows, 71u);
  const BackendSnapshot snapshot = Snapshot(1);
  ASSERT_OK(backend_->Put(kOp, Row("s", "more"), "v"));
  ASSERT_OK(RestoreOwn(snapshot));
  EXPECT_EQ(backend_->Describe().rows, 71u);
}

// --- operator state ----------------------------------------------------------------------------

TEST_P(BackendContract, ALegacyOperatorRowIsFoundAndErasedUnderItsKey) {
  ASSERT_OK(backend_->Put(kOp, "__source_offset__", "7"));
  EXPECT_EQ(Read(backend_.get(), kOp, OperatorRow("__source_offset__")), "7");
  ASSERT_OK(backend_->Put(kOp, OperatorRow("__source_offset__"), "8"));
  EXPECT_EQ(Read(backend_.get(), kOp, OperatorRow("__source_offset__")), "8");
  ASSERT_OK(backend_->Erase(kOp, OperatorRow("__source_offset__")));
  EXPECT_EQ(Read(backend_.get(), kOp, OperatorRow("__source_offset__")), std::nullopt);
  EXPECT_EQ(Read(backend_.get(), kOp, "__source_offset__"), std::nullopt);
}

}  // namespace
}  // namespace cairn::contract

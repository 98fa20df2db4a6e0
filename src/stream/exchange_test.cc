// SPDX-License-Identifier: Apache-2.0
#include "stream/exchange.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/type.h>
#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "base/coding.h"

namespace cairn::stream {
namespace {

std::shared_ptr<arrow::Schema> TwoColumns() {
  return arrow::schema(
      {arrow::field("k", arrow::int64(), false), arrow::field("s", arrow::utf8())});
}

Batch Rows(int64_t count) {
  arrow::Int64Builder keys;
  arrow::StringBuilder texts;
  for (int64_t i = 0; i < count; ++i) {
    EXPECT_TRUE(keys.Append(i % 97).ok());
    EXPECT_TRUE(texts.Append("t" + std::to_string(i % 5)).ok());
  }
  return {arrow::RecordBatch::Make(TwoColumns(), count,
                                   {keys.Finish().ValueOrDie(), texts.Finish().ValueOrDie()})};
}

KeyPartitioner MakePartitioner(std::vector<int> columns, uint32_t parallelism,
                               uint32_t groups = kDefaultKeyGroups) {
  auto partitioner =
      KeyPartitioner::Make({0, TwoColumns(), std::move(columns)}, parallelism, groups);
  EXPECT_TRUE(partitioner.ok()) << partitioner.status().ToString();
  return *std::move(partitioner);
}

TEST(KeyPartitioner, KeysAreTheRowsEightBytesAndTheirFnvHash) {
  KeyPartitioner partitioner = MakePartitioner({0}, 1);
  Batch batch = Rows(200);
  ASSERT_TRUE(partitioner.EncodeKeys(&batch).ok());
  for (size_t row = 0; row < 200; ++row) {
    std::string key;
    base::AppendLE(&key, static_cast<int64_t>(row % 97));
    EXPECT_EQ(batch.keys->key(row), key);
    EXPECT_EQ(batch.keys->hashes[row], Fnv1a64(key));
  }
}

TEST(KeyPartitioner, EveryRowGoesToTheOwnerOfItsKeyGroupAndToNoOther) {
  for (const uint32_t groups : {128u, 100u}) {
    for (const uint32_t parallelism : {1u, 2u, 3u, 7u}) {
      KeyPartitioner partitioner = MakePartitioner({0, 1}, parallelism, groups);
      std::vector<Batch> parts;
      ASSERT_TRUE(partitioner.Partition(Rows(1000), &parts).ok());
      ASSERT_EQ(parts.size(), parallelism);
      std::vector<int> seen(1000, 0);
      for (uint32_t subtask = 0; subtask < parallelism; ++subtask) {
        for (uint32_t row : *parts[subtask].selection) {
          ++seen[row];
          const uint32_t group = KeyGroupOf(parts[subtask].keys->key(row), groups);
          EXPECT_EQ(OwnerOfKeyGroup(group, parallelism, groups), subtask);
        }
      }
      EXPECT_EQ(seen, std::vector<int>(1000, 1));
    }
  }
}

TEST(KeyPartitioner, Behaviour53KeysThatDoublesCannotHoldGoToTheOwnersOfTheirOwnGroups) {
  const int64_t past = int64_t{1} << 53;
  arrow::Int64Builder numbers;
  for (int64_t i = -4; i <= 4; ++i) ASSERT_TRUE(numbers.Append(past + i).ok());
  for (int64_t i = 0; i < 4; ++i) ASSERT_TRUE(numbers.Append(INT64_MAX - i).ok());
  const auto schema = arrow::schema({arrow::field("k", arrow::int64(), false)});
  Batch batch;
  const auto column = numbers.Finish().ValueOrDie();
  batch.rows = arrow::RecordBatch::Make(schema, column->length(), {column});
  auto partitioner = KeyPartitioner::Make({0, schema, {0}}, 7, kDefaultKeyGroups);
  ASSERT_TRUE(partitioner.ok());
  std::vector<Batch> parts;
  ASSERT_TRUE(partitioner->Partition(batch, &parts).ok());
  std::set<std::string_view> keys;
  for (uint32_t subtask = 0; subtask < 7; ++subtask) {
    for (const uint32_t row : *parts[subtask].selection) {
      std::string expected;
      base::AppendLE(&expected, static_cast<const arrow::Int64Array&>(*column).Value(row));
      EXPECT_EQ(parts[subtask].keys->key(row), expected);
      const uint32_t group = KeyGroupOf(expected, kDefaultKeyGroups);
      EXPECT_EQ(OwnerOfKeyGroup(group, 7, kDefaultKeyGroups), subtask);
      EXPECT_TRUE(keys.insert(parts[subtask].keys->key(row)).second) << "two keys became one";
    }
  }
  EXPECT_EQ(keys.size(), 13u);
}

TEST(KeyPartitioner, ReceiversShareOneRecordBatchAndOneKeyColumn) {
  KeyPartitioner partitioner = MakePartitioner({0}, 3);
  Batch batch = Rows(100);
  const auto rows = batch.rows;
  std::vector<Batch> parts;
  ASSERT_TRUE(partitioner.Partition(std::move(batch), &parts).ok());
  for (const Batch& part : parts) {
    EXPECT_EQ(part.rows, rows);
    EXPECT_EQ(part.keys, parts[0].keys);
  }
}

TEST(KeyPartitioner, OnlySelectedRowsAreSent) {
  KeyPartitioner partitioner = MakePartitioner({0}, 2);
  Batch batch = Rows(100);
  batch.selection = std::make_shared<std::vector<uint32_t>>(std::vector<uint32_t>{3, 50, 99});
  std::vector<Batch> parts;
  ASSERT_TRUE(partitioner.Partition(std::move(batch), &parts).ok());
  std::vector<uint32_t> sent(*parts[0].selection);
  sent.insert(sent.end(), parts[1].selection->begin(), parts[1].selection->end());
  std::sort(sent.begin(), sent.end());
  EXPECT_EQ(sent, (std::vector<uint32_t>{3, 50, 99}));
}

TEST(KeyPartitioner, WithoutKeyColumnsAllRowsHaveOneKeyAndOneOwner) {
  KeyPartitioner partitioner = MakePartitioner({}, 3);
  std::vector<Batch> parts;
  ASSERT_TRUE(partitioner.Partition(Rows(10), &parts).ok());
  const uint32_t owner = OwnerOfKeyGroup(KeyGroupOf({}, kDefaultKeyGroups), 3, kDefaultKeyGroups);
  for (uint32_t subtask = 0; subtask < 3; ++subtask) {
    EXPECT_EQ(parts[subtask].num_rows(), subtask == owner ? 10 : 0);
  }
}

TEST(KeyPartitioner, BuffersComeBackWhenTheLastReceiverDropsThem) {
  KeyPartitioner partitioner = MakePartitioner({0}, 1);
  Batch first = Rows(10);
  ASSERT_TRUE(partitioner.EncodeKeys(&first).ok());
  const KeyColumn* buffer = first.keys.get();
  Batch second = Rows(10);
  ASSERT_TRUE(partitioner.EncodeKeys(&second).ok());
  EXPECT_NE(second.keys.get(), buffer);
  first.keys.reset();
  Batch third = Rows(10);
  ASSERT_TRUE(partitioner.EncodeKeys(&third).ok());
  EXPECT_EQ(third.keys.get(), buffer);
}

}  // namespace
}  // namespace cairn::stream

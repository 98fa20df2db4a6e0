// SPDX-License-Identifier: Apache-2.0
#include "operators/batch_groups.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "cairn/hash.h"

namespace cairn::operators {
namespace {

std::shared_ptr<stream::KeyColumn> KeysOf(const std::vector<std::string>& keys) {
  auto column = std::make_shared<stream::KeyColumn>();
  column->offsets.push_back(0);
  for (const std::string& key : keys) {
    column->data.insert(column->data.end(), key.begin(), key.end());
    column->offsets.push_back(static_cast<uint32_t>(column->data.size()));
    column->hashes.push_back(Fnv1a64(key));
  }
  return column;
}

stream::Batch BatchOf(const std::vector<std::string>& keys) {
  stream::Batch batch;
  batch.rows = arrow::RecordBatch::Make(arrow::schema(arrow::FieldVector{}),
                                        static_cast<int64_t>(keys.size()),
                                        std::vector<std::shared_ptr<arrow::Array>>{});
  batch.keys = KeysOf(keys);
  return batch;
}

/// Compare with a map from key to the number it gets in order of appearance.
void ExpectGroups(const stream::Batch& batch, const std::vector<std::string>& keys,
                  BatchGroups* groups) {
  groups->Assign(batch);
  std::map<std::string, uint32_t> numbers;
  std::vector<std::vector<uint32_t>> rows_of;
  ASSERT_EQ(groups->rows(), static_cast<size_t>(batch.num_rows()));
  for (size_t i = 0; i < groups->rows(); ++i) {
    const uint32_t row = batch.selection ? (*batch.selection)[i] : static_cast<uint32_t>(i);
    const auto [it, fresh] = numbers.try_emplace(keys[row], static_cast<uint32_t>(numbers.size()));
    if (fresh) {
      ASSERT_LT(it->second, groups->groups().size());
      EXPECT_EQ(groups->groups()[it->second].key, keys[row]);
      EXPECT_EQ(groups->groups()[it->second].first_row, row);
      EXPECT_EQ(groups->groups()[it->second].hash, batch.keys->hashes[row]);
      rows_of.emplace_back();
    }
    ASSERT_EQ(groups->group_of()[i], it->second);
    rows_of[it->second].push_back(row);
  }
  EXPECT_EQ(groups->groups().size(), numbers.size());
  BatchGroups::Buckets buckets;
  groups->Bucket(batch, &buckets);
  for (size_t g = 0; g < rows_of.size(); ++g) {
    const std::vector<uint32_t> bucket(buckets.rows.begin() + buckets.starts[g],
                                       buckets.rows.begin() + buckets.starts[g + 1]);
    EXPECT_EQ(bucket, rows_of[g]);
  }
}

TEST(BatchGroupsTest, NumbersRandomKeysOfAnyLengthLikeAMap) {
  std::mt19937_64 random(20261130);
  BatchGroups groups;
  for (int round = 0; round < 200; ++round) {
    const size_t rows = random() % 2000;
    const size_t length = random() % 20;
    const bool vary = random() % 2 == 0;
    const uint64_t distinct = 1 + random() % 1500;
    std::vector<std::string> keys;
    for (size_t i = 0; i < rows; ++i) {
      std::string key = std::to_string(random() % distinct);
      key.resize(vary ? length + key.size() % 3 : length, '.');
      keys.push_back(std::move(key));
    }
    stream::Batch batch = BatchOf(keys);
    if (random() % 2 == 0) {
      auto selection = std::make_shared<std::vector<uint32_t>>();
      for (uint32_t row = 0; row < rows; ++row) {
        if (random() % 3 != 0) selection->push_back(row);
      }
      batch.selection = std::move(selection);
    }
    ExpectGroups(batch, keys, &groups);
  }
}

TEST(BatchGroupsTest, TellsKeysOfOneHashApart) {
  const std::vector<std::string> keys = {"aaaaaaaa", "bbbbbbbb", "aaaaaaaa", "cc", "bbbbbbbb"};
  stream::Batch batch = BatchOf(keys);
  auto forged = std::make_shared<stream::KeyColumn>(*batch.keys);
  for (uint64_t& hash : forged->hashes) hash = 42;
  batch.keys = forged;
  BatchGroups groups;
  ExpectGroups(batch, keys, &groups);
}

TEST(BatchGroupsTest, ABatchWithoutKeysIsOneGroup) {
  stream::Batch batch = BatchOf({"a", "b", "c"});
  batch.keys = nullptr;
  BatchGroups groups;
  groups.Assign(batch);
  ASSERT_EQ(groups.groups().size(), 1u);
  EXPECT_EQ(groups.groups()[0].key, "");
  EXPECT_EQ(groups.groups()[0].hash, Fnv1a64({}));
  EXPECT_EQ(groups.group_of()[2], 0u);
}

}  // namespace
}  // namespace cairn::operators

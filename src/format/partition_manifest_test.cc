// SPDX-License-Identifier: Apache-2.0
#include "format/partition_manifest.h"

#include <gtest/gtest.h>

namespace cairn::format {
namespace {

constexpr const char* kId = "01890000-0001-7000-8000-000000000000";
constexpr const char* kParent = "01890000-0000-7000-8000-000000000000";

CheckpointManifestV2 FullManifest() {
  CheckpointManifestV2 manifest;
  manifest.checkpoint_id = kId;
  manifest.epoch = 7;
  manifest.timestamp_ms = 1'700'000'000'000;
  manifest.operators["count"] = {{{0, false, "a/0.snap", 3, "aa"}, {1, true, "a/1.delta", 4, {}}},
                                 7};
  manifest.source_offsets["bids"] = {"kafka", {{"0", "1234"}, {"1", "77"}}, 7};
  manifest.parent_id = kParent;
  manifest.watermark = -5;
  manifest.total_size_bytes = 7;
  return manifest;
}

TEST(PartitionManifest, ReadsBackWhatItWroteAndTheBytesAreCanonical) {
  const std::string bytes = *SerializePartitionManifest(FullManifest());
  EXPECT_EQ(
      bytes,
      R"({"checkpoint_id":"01890000-0001-7000-8000-000000000000","epoch":7,"operators":{"count":)"
      R"({"partitions":[{"is_delta":false,"partition_id":0,"path":"a/0.snap","sha256":"aa",)"
      R"("size_bytes":3},{"is_delta":true,"partition_id":1,"path":"a/1.delta","size_bytes":4}],)"
      R"("total_bytes":7}},"parent_id":"01890000-0000-7000-8000-000000000000","source_offsets":)"
      R"({"bids":{"epoch":7,"offsets":{"0":"1234","1":"77"},"source_type":"kafka"}},)"
      R"("timestamp_ms":1700000000000,"total_size_bytes":7,"version":2,"watermark":-5})");
  EXPECT_EQ(*ParsePartitionManifest(bytes), FullManifest());
}

TEST(PartitionManifest, AnEarlierWritersLayoutAndOrderAreRead) {
  const auto read = ParsePartitionManifest(R"({
    "version": 2, "checkpoint_id": "01890000-0001-7000-8000-000000000000", "epoch": 7,
    "timestamp_ms": 1, "total_size_bytes": 3, "source_offsets": {},
    "operators": {"count": {"total_bytes": 3, "partitions": [
      {"partition_id": 4, "is_delta": false, "path": "x", "size_bytes": 1},
      {"partition_id": 2, "is_delta": false, "path": "y", "size_bytes": 2}]}}})");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->operators.at("count").partitions[0].path, "y");
}

TEST(PartitionManifest, DamageAndOtherVersionsAreRefused) {
  const std::string good = *SerializePartitionManifest(FullManifest());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string bytes = good;
    bytes.replace(bytes.find(from), from.size(), to);
    return ParsePartitionManifest(bytes).status().code();
  };
  EXPECT_EQ(with("\"version\":2", "\"version\":3"), StatusCode::kUnsupportedFormat);
  EXPECT_EQ(with("\"epoch\":7,\"op", "\"colour\":7,\"op"), StatusCode::kCorruption);
  EXPECT_EQ(with("\"size_bytes\":3", "\"size_bytes\":4"), StatusCode::kCorruption);
  EXPECT_EQ(with("\"partition_id\":1", "\"partition_id\":-1"), StatusCode::kCorruption);
  EXPECT_EQ(with("01890000-0001", "01890000x0001"), StatusCode::kCorruption);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ParsePartitionManifest(std::string_view(good).substr(0, size)).ok());
  }
  CheckpointManifestV2 twice = FullManifest();
  twice.operators["count"].partitions[1] = twice.operators["count"].partitions[0];
  EXPECT_EQ(SerializePartitionManifest(twice).status().code(), StatusCode::kInvalidArgument);
  CheckpointManifestV2 orphan = FullManifest();
  orphan.parent_id.reset();
  EXPECT_EQ(SerializePartitionManifest(orphan).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn::format

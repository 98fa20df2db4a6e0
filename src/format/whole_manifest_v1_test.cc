// SPDX-License-Identifier: Apache-2.0
#include "format/whole_manifest_v1.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "format/manifest_testing.h"

namespace cairn::format {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string EarlierFile(const std::string& name) {
  std::ifstream in("testdata/format/v1/" + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

WholeManifestV1 GoldenManifestV1(const std::string& name) {
  const auto manifest = ParseWholeManifestV1(EarlierFile(name));
  EXPECT_TRUE(manifest.ok()) << manifest.status().ToString();
  return manifest.ok() ? *manifest : WholeManifestV1();
}

std::string EveryByte() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  return bytes;
}

TEST(WholeManifestV1Format, EveryFieldOfItsWriterIsRead) {
  const WholeManifestV1 m = GoldenManifestV1("whole-v1-inline.json");
  EXPECT_EQ(m.version, 1u);
  EXPECT_EQ(m.checkpoint_id, 7u);
  EXPECT_EQ(m.epoch, 107u);
  EXPECT_EQ(m.timestamp_ms, 1'700'000'000'007u);
  const ConnectorOffsetsV1 orders = {
      {{"partition-0", "1234"}, {"partition-1", "5678"}}, 107, {{"topic", "orders"}}};
  EXPECT_EQ(m.source_offsets.at("orders"), orders);
  EXPECT_EQ(m.source_offsets.at("users").offsets.at("lsn"), "0/1234ABCD");
  EXPECT_EQ(m.sink_epochs.at("audit"), 106u);
  EXPECT_EQ(m.sink_commit_statuses.at("out").state, SinkCommitState::kPending);
  EXPECT_EQ(m.sink_commit_statuses.at("audit").state, SinkCommitState::kCommitted);
  EXPECT_EQ(m.sink_commit_statuses.at("lake"),
            (SinkCommitStatus{SinkCommitState::kFailed, "no such table"}));
  EXPECT_EQ(m.table_offsets.at("rates").offsets.at("gtid_set"), "a-b:1-5");
  EXPECT_EQ(m.table_store_checkpoint_path, "/var/lib/tables/7");
  EXPECT_EQ(m.watermark, -5);
  EXPECT_EQ(m.source_watermarks.at("orders"), 1'699'999'999'000);
  EXPECT_THAT(m.source_names, ElementsAre("orders", "users"));
  EXPECT_THAT(m.sink_names, ElementsAre("audit", "lake", "out"));
  EXPECT_EQ(m.pipeline_hash, 18'446'744'073'709'551'557u);
  EXPECT_EQ(m.vnode_count, 256);
  EXPECT_EQ(*InlineStateOf(m, "agg"), EveryByte());
  EXPECT_EQ(*InlineStateOf(m, "join"), "");
  EXPECT_EQ(InlineChecksumOf(m), m.state_checksum);
  EXPECT_FALSE(m.NeedsSidecar());
  EXPECT_THAT(WarningsOf(m, 256), ElementsAre());
}

TEST(WholeManifestV1Format, WhatAnEarlyWriterLeftOutHasItsDefault) {
  const WholeManifestV1 m = GoldenManifestV1("whole-v1-early.json");
  WholeManifestV1 expected;
  expected.checkpoint_id = expected.epoch = 6;
  expected.timestamp_ms = 1;
  expected.operator_states["agg"] = m.operator_states.at("agg");
  EXPECT_EQ(m, expected);
  EXPECT_EQ(*InlineStateOf(m, "agg"), EveryByte());
  EXPECT_THAT(WarningsOf(m, 256), ElementsAre(HasSubstr("does not say its number of key groups")));
}

TEST(WholeManifestV1Format, AnOperatorWhoseStateIsBesideTheManifestSaysWhere) {
  const WholeManifestV1 m = GoldenManifestV1("whole-v1-both.json");
  EXPECT_TRUE(m.NeedsSidecar());
  EXPECT_EQ(m.operator_states.at("join"), (OperatorStateV1{std::nullopt, true, 500, 1500}));
  EXPECT_EQ(*InlineStateOf(m, "join"), std::nullopt);
}

// Its writer let the operator begin with nothing.
TEST(WholeManifestV1Format, DamagedBase64IsAnErrorThatNamesTheOperator) {
  WholeManifestV1 m = GoldenManifestV1("whole-v1-inline.json");
  const std::string good = *m.operator_states.at("agg").state_b64;
  for (const std::string& bad : {good.substr(1), good.substr(0, good.size() - 1), "*" + good,
                                 good + "====", std::string("AB=C"), std::string("AB==AB=="),
                                 std::string("AAB=").replace(2, 1, "B"), std::string("\nAAA")}) {
    m.operator_states.at("agg").state_b64 = bad;
    const auto state = InlineStateOf(m, "agg");
    ASSERT_EQ(state.status().code(), StatusCode::kCorruption) << bad;
    EXPECT_THAT(state.status().message(), HasSubstr("operator 'agg'"));
  }
  m.operator_states.at("agg").state_b64.reset();
  EXPECT_EQ(InlineStateOf(m, "agg").status().code(), StatusCode::kCorruption);
}

TEST(WholeManifestV1Format, DisagreementsAreWarnings) {
  WholeManifestV1 m = GoldenManifestV1("whole-v1-inline.json");
  m.version = 0;
  m.timestamp_ms = 0;
  m.sink_commit_statuses.erase("lake");
  m.source_names = {"orders"};
  EXPECT_THAT(
      WarningsOf(m, 128),
      ElementsAre(HasSubstr("version is 0"), HasSubstr("timestamp is 0"), HasSubstr("sink 'lake'"),
                  HasSubstr("'users'"), HasSubstr("256 key groups, this store expects 128")));
  m.sink_commit_statuses.clear();
  m.source_names.clear();
  EXPECT_EQ(WarningsOf(m, 256).size(), 2u);
}

TEST(WholeManifestV1Format, AFieldOfAnotherTypeIsRefusedByItsName) {
  const auto refused = [](const std::string& field) {
    const auto read = ParseWholeManifestV1(
        "{\"version\":1,\"checkpoint_id\":1,\"epoch\":1,\"timestamp_ms\":1," + field + "}");
    EXPECT_FALSE(read.ok()) << field;
    return std::string(read.status().message());
  };
  EXPECT_THAT(refused("\"source_offsets\":[]"), HasSubstr("source_offsets"));
  EXPECT_THAT(refused("\"source_offsets\":{\"a\":{\"epoch\":1}}"), HasSubstr("offsets"));
  EXPECT_THAT(refused("\"source_offsets\":{\"a\":{\"offsets\":{}}}"), HasSubstr("epoch"));
  EXPECT_THAT(refused("\"source_offsets\":{\"a\":{\"offsets\":{\"p\":1},\"epoch\":1}}"),
              HasSubstr("offsets is no text"));
  EXPECT_THAT(refused("\"vnode_count\":65536"), HasSubstr("vnode_count"));
  EXPECT_THAT(refused("\"watermark\":1.5"), HasSubstr("watermark"));
  EXPECT_THAT(refused("\"sink_commit_statuses\":{\"s\":\"Done\"}"), HasSubstr(".s"));
  EXPECT_THAT(refused("\"operator_states\":{\"o\":7}"), HasSubstr(".o"));
  EXPECT_THAT(refused("\"operator_states\":{\"o\":{\"external\":1}}"), HasSubstr("external"));
  for (const char* missing : {"version", "checkpoint_id", "epoch", "timestamp_ms"}) {
    std::string text = "{\"version\":1,\"checkpoint_id\":1,\"epoch\":1,\"timestamp_ms\":1}";
    text.replace(text.find(missing), 2, "xx");
    EXPECT_THAT(ParseWholeManifestV1(text).status().message(), HasSubstr(missing));
  }
}

TEST(WholeManifestV1Format, WhatIsNotWholeIsRefused) {
  const auto code = [](const std::string& field) {
    return ParseWholeManifestV1(
               "{\"version\":1,\"checkpoint_id\":1,\"epoch\":1,\"timestamp_ms\":1," + field + "}")
        .status()
        .code();
  };
  EXPECT_EQ(code("\"is_incremental\":true"), StatusCode::kUnsupportedFormat);
  EXPECT_EQ(code("\"inflight_data\":{\"agg\":[{\"input_id\":0,\"data_b64\":\"\"}]}"),
            StatusCode::kUnsupportedFormat);
  EXPECT_EQ(code("\"version\":2"), StatusCode::kUnsupportedFormat);
  EXPECT_EQ(code("\"some_later_field\":{\"a\":[1,2]}"), StatusCode::kOk);
}

TEST(WholeManifestV1Format, IsToldFromTheManifestOfThisFormat) {
  EXPECT_TRUE(IsWholeManifestV1(EarlierFile("whole-v1-early.json")));
  EXPECT_FALSE(IsWholeManifestV1(*SerializeManifest(GoodManifest())));
  EXPECT_FALSE(IsWholeManifestV1("{\"version\":"));
  EXPECT_FALSE(IsWholeManifestV1("[]"));
  EXPECT_FALSE(IsWholeManifestV1("{}"));
  const std::string own = *SerializeManifest(GoodManifest());
  for (size_t at = 0; at < own.size(); ++at) {
    std::string damaged = own;
    damaged[at] ^= 4;
    EXPECT_FALSE(IsWholeManifestV1(damaged)) << "byte " << at;
  }
}

}  // namespace
}  // namespace cairn::format

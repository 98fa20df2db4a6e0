// SPDX-License-Identifier: Apache-2.0
#include "format/store_records.h"

#include <gtest/gtest.h>

#include <functional>

#include "format/pipeline_identity.h"

namespace cairn::format {
namespace {

using base::CheckpointId;

constexpr char kUuid[] = "018bcfe5-687b-7000-8000-000000000002";

CutReference Cut(uint64_t id) {
  CutReference cut;
  cut.id = CheckpointId(id);
  cut.manifest_sha256.fill(static_cast<uint8_t>(id));
  cut.manifest_length = id * 100;
  cut.exactly_once_output = id % 2 == 1;
  return cut;
}

DecisionHead GoodHead() {
  DecisionHead head;
  head.deployment_id = kUuid;
  head.seq = 12;
  head.latest_commit = Cut(9);
  head.retained = {Cut(7), Cut(5)};
  head.floor = CheckpointId(5);
  head.next_id = CheckpointId(65537);
  head.pins = {{"export", "e1", CheckpointId(7)}, {"savepoint", "before-upgrade", CheckpointId(5)}};
  return head;
}

TEST(DecisionHead, ReadsBackWhatItWrote) {
  for (const DecisionHead& head : {GoodHead(), DecisionHead{.deployment_id = kUuid}}) {
    const auto bytes = SerializeDecisionHead(head);
    ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
    const auto read = ParseDecisionHead(*bytes);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(*read, head);
  }
}

TEST(DecisionHead, RefusesEveryBrokenShape) {
  const std::function<void(DecisionHead&)> changes[] = {
      [](auto& h) { h.deployment_id = "x"; },
      [](auto& h) { h.seq = 0; },
      [](auto& h) { h.next_id = CheckpointId(9); },
      [](auto& h) { h.next_id = CheckpointId(0); },
      [](auto& h) { h.floor = CheckpointId(6); },
      [](auto& h) { h.floor = CheckpointId(10); },
      [](auto& h) { h.latest_commit.reset(); },
      [](auto& h) { h.latest_commit->id = CheckpointId(7); },
      [](auto& h) { std::swap(h.retained[0], h.retained[1]); },
      [](auto& h) { h.retained[1] = h.retained[0]; },
      [](auto& h) { h.pins[0].kind = "lease"; },
      [](auto& h) { h.pins[0].checkpoint_id = CheckpointId(6); },
      [](auto& h) { std::swap(h.pins[0], h.pins[1]); },
      [](auto& h) { h.pins[1] = h.pins[0]; },
      [](auto& h) { h.pins.resize(kHeadPinsMax + 1); },
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    DecisionHead head = GoodHead();
    changes[i](head);
    EXPECT_EQ(ValidateDecisionHead(head).code(), StatusCode::kCorruption) << i;
    EXPECT_EQ(SerializeDecisionHead(head).status().code(), StatusCode::kInternal) << i;
  }
}

TEST(DecisionHead, HoldsItsLimitsInItsBytes) {
  DecisionHead head = GoodHead();
  head.pins.clear();
  head.retained.clear();
  head.floor = CheckpointId(0);
  head.latest_commit->id = CheckpointId(~0ull - 1);
  head.next_id = CheckpointId(~0ull);
  for (uint32_t i = 0; i < kRetainedCutsMax; ++i) {
    head.retained.push_back(Cut(~0ull - 2 - i));
    head.retained.back().manifest_length = ~0ull;
  }
  for (uint32_t i = 0; i < kHeadPinsMax; ++i) {
    head.pins.push_back(
        {"savepoint", std::string(250, static_cast<char>('a' + i % 26)) + std::to_string(1000 + i),
         head.retained[0].id});
  }
  std::sort(head.pins.begin(), head.pins.end(),
            [](const HeadPin& a, const HeadPin& b) { return a.name < b.name; });
  const auto bytes = SerializeDecisionHead(head);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  EXPECT_EQ(*ParseDecisionHead(*bytes), head);
}

TEST(DecisionHead, RefusesOtherVersionsUnknownFieldsAndOtherForms) {
  const std::string good = *SerializeDecisionHead(GoodHead());
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string bytes = good;
    const size_t at = bytes.find(from);
    EXPECT_NE(at, std::string::npos);
    return ParseDecisionHead(bytes.replace(at, from.size(), to)).status().code();
  };
  EXPECT_EQ(with("\"version\":1", "\"version\":2"), StatusCode::kUnsupportedFormat);
  EXPECT_EQ(with("\"seq\"", "\"abc\":1,\"seq\""), StatusCode::kCorruption);
  EXPECT_EQ(with("\"seq\":12", "\"seq\": 12"), StatusCode::kCorruption);
  EXPECT_EQ(with("\"seq\":12", "\"seq\":0"), StatusCode::kCorruption);
  EXPECT_EQ(with("\"floor\":5", "\"floor\":-5"), StatusCode::kCorruption);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ParseDecisionHead(std::string_view(good).substr(0, size)).ok());
  }
}

TEST(StoreFormat, ReadsBackWhatItWroteAndRefusesOtherPlaces) {
  StoreFormat format;
  format.durability = "none";
  format.key_groups = 1000;
  const std::string bytes = *SerializeStoreFormat(format);
  EXPECT_EQ(
      bytes,
      R"({"durability":"none","format":1,"key_groups":1000,"partitioning_abi":1,"profile":"local"})");
  EXPECT_EQ(*ParseStoreFormat(bytes), format);
  for (const char* bad :
       {R"({"durability":"half","format":1,"key_groups":1,"partitioning_abi":1,"profile":"local"})",
        R"({"durability":"full","format":1,"key_groups":0,"partitioning_abi":1,"profile":"local"})",
        R"({"durability":"full","format":1,"key_groups":1,"partitioning_abi":3,"profile":"local"})",
        R"({"durability":"full","format":1,"key_groups":1,"partitioning_abi":1,"profile":"moon"})",
        R"({"format":1})", "{}", ""}) {
    EXPECT_EQ(ParseStoreFormat(bad).status().code(), StatusCode::kCorruption) << bad;
  }
  EXPECT_EQ(ParseStoreFormat(R"({"format":2})").status().code(), StatusCode::kUnsupportedFormat);
}

TEST(DeploymentIdentity, ReadsBackWhatItWroteAndRefusesDamage) {
  const DeploymentIdentity identity{kUuid, 1'700'000'000'000, "top \"ten\"", {"xxh3-64", 7}};
  const std::string bytes = *SerializeDeploymentIdentity(identity);
  EXPECT_EQ(*ParseDeploymentIdentity(bytes), identity);
  EXPECT_EQ(ParseDeploymentIdentity(bytes + " ").status().code(), StatusCode::kCorruption);
  DeploymentIdentity bad = identity;
  bad.deployment_id = "x";
  EXPECT_EQ(SerializeDeploymentIdentity(bad).status().code(), StatusCode::kInvalidArgument);
  bad = identity;
  bad.slot_hash.function = "md5";
  EXPECT_EQ(SerializeDeploymentIdentity(bad).status().code(), StatusCode::kInvalidArgument);
}

TEST(LeaseRecord, ReadsBackWhatItWroteAndRefusesDamage) {
  const Lease lease{"process 7 on build-3", "boot/1", 7, 99, 3, 12, 10'000, true};
  const std::string bytes = *SerializeLease(lease);
  EXPECT_EQ(
      bytes,
      R"({"holder":"process 7 on build-3","machine":"boot/1","process":7,)"
      R"("process_started":99,"released":true,"renewals":12,"term":3,"ttl_ms":10000,"version":1})");
  EXPECT_EQ(*ParseLease(bytes), lease);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(ParseLease(bytes.substr(0, size)).status().code(), StatusCode::kCorruption);
  }
}

PipelineDescription Pipeline() {
  PipelineDescription pipeline;
  pipeline.sources = {{"bid",
                       "Filesystem",
                       {{"Path", "bids"}, {"password", "x"}, {"S3.Access_Key", "y"}},
                       {{"auction", "bigint", false}}}};
  pipeline.operators = {{"out/count/0", R"({"keys": ["auction"], "a": 1})"}, {"out/calc/0", "{}"}};
  pipeline.sinks = {{"out", "filesystem", {}, {}}};
  return pipeline;
}

TEST(PipelineIdentity, HashesTheDocumentedJson) {
  const std::string json = *CanonicalPipelineJson(Pipeline());
  EXPECT_EQ(
      json,
      R"({"canonical_version":1,"key_groups":128,"operators":[{"identity":{},"uid":"out/calc/0"},)"
      R"({"identity":{"a":1,"keys":["auction"]},"uid":"out/count/0"}],"partitioning_abi":1,)"
      R"("sinks":[{"connector":"filesystem","name":"out","options":{},"schema":[]}],)"
      R"("sources":[{"connector":"filesystem","name":"bid","options":{"path":"bids"},)"
      R"("schema":[{"name":"auction","nullable":false,"type":"bigint"}]}],"state_abi":1})");
  EXPECT_EQ(IdentityOf(Pipeline())->sha256, base::Sha256::Of(json));
}

TEST(PipelineIdentity, IgnoresOrderCaseAndCredentials) {
  PipelineDescription other = Pipeline();
  std::swap(other.operators[0], other.operators[1]);
  other.sources[0].connector = "filesystem";
  other.sources[0].options = {{"PATH", "bids"}, {"sasl.password", "z"}};
  EXPECT_EQ(IdentityOf(other)->sha256, IdentityOf(Pipeline())->sha256);
}

TEST(PipelineIdentity, ChangesWithEverythingElse) {
  const std::function<void(PipelineDescription&)> changes[] = {
      [](auto& p) { p.sources[0].options["format"] = "csv"; },
      [](auto& p) { p.sources[0].name = "bids"; },
      [](auto& p) { p.sources[0].schema[0].nullable = true; },
      [](auto& p) { p.operators[0].uid = "out/count/1"; },
      [](auto& p) { p.operators[0].identity_json = R"({"keys":["bidder"]})"; },
      [](auto& p) { p.sinks[0].connector = "kafka"; },
      [](auto& p) { p.key_groups = 256; },
      [](auto& p) { p.partitioning_abi = 2; },
  };
  for (const auto& change : changes) {
    PipelineDescription other = Pipeline();
    change(other);
    EXPECT_NE(IdentityOf(other)->sha256, IdentityOf(Pipeline())->sha256);
  }
}

TEST(PipelineIdentity, RefusesTwoOfOneNameAndIdentitiesThatPrintDifferently) {
  PipelineDescription twice = Pipeline();
  twice.operators[1].uid = twice.operators[0].uid;
  EXPECT_EQ(IdentityOf(twice).status().code(), StatusCode::kInvalidArgument);
  for (const char* bad : {"", "{", R"({"a":1.5})", R"([[0.1]])"}) {
    PipelineDescription pipeline = Pipeline();
    pipeline.operators[0].identity_json = bad;
    EXPECT_EQ(IdentityOf(pipeline).status().code(), StatusCode::kInvalidArgument) << bad;
  }
  PipelineDescription not_utf8 = Pipeline();
  not_utf8.sinks[0].options["path"] = "\xff";
  EXPECT_EQ(IdentityOf(not_utf8).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn::format

// SPDX-License-Identifier: Apache-2.0
#include "format/manifest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "format/manifest_testing.h"
#include "format/shared_records_testing.h"

namespace cairn::format {
namespace {

using M = CheckpointManifest;

std::string GoodBytes() { return *SerializeManifest(GoodManifest()); }

TEST(Manifest, ReadsBackWhatItWrote) {
  const M m = GoodManifest();
  const auto bytes = SerializeManifest(m);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  const auto read = ParseManifest(*bytes);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, m);
}

TEST(Manifest, OfAParticipantReadsBackAndLeavesTheBytesOfLocalOnesAlone) {
  const M m = GoodClusterManifest();
  const auto bytes = SerializeManifest(m);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  EXPECT_EQ(*ParseManifest(*bytes), m);
  EXPECT_EQ(GoodBytes().find("cluster"), std::string::npos);
  for (const AlteredText& altered :
       AlteredTexts(Json::parse(*bytes)["cluster"].dump(), std::vector<std::string>())) {
    Json changed = Json::parse(*bytes);
    changed["cluster"] = Json::parse(altered.text);
    EXPECT_EQ(ParseManifest(changed.dump()).status().code(), StatusCode::kCorruption)
        << altered.what;
  }
}

TEST(Manifest, ReadsBackACutInWhichNothingChanged) {
  M m = GoodManifest();
  std::erase_if(m.state_frames, [&](const StateFrame& f) { return f.chunk == m.node_data.chunk; });
  m.node_data = {m.node_data.chunk, 0, checkpoint_sha256({}), {}, {}};
  m.prepared_sinks.clear();
  m.prepared_sink_frame.reset();
  m.sink_artifact_intents.clear();
  m.sink_intent_frame.reset();
  Settle(&m);
  const auto bytes = SerializeManifest(m);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  EXPECT_EQ(*ParseManifest(*bytes), m);
}

TEST(Manifest, KeepsIntegersExactAtTheirLimits) {
  M m = GoodManifest();
  m.timestamp_ms = std::numeric_limits<uint64_t>::max();
  m.channel_progress[1].watermark = std::numeric_limits<int64_t>::min() + 1;
  m.checkpoint_watermark = std::numeric_limits<int64_t>::min() + 1;
  m.slot_hash.seed = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(*ParseManifest(*SerializeManifest(m)), m);
}

/// Replace the first `from` of the good manifest.
std::string With(std::string_view from, std::string_view to) {
  std::string bytes = GoodBytes();
  const size_t at = bytes.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return bytes.replace(at, from.size(), to);
}

TEST(Manifest, RefusesAnotherVersionWhateverElseIsInIt) {
  const Status status =
      ParseManifest(With("\"version\":1,\"view_logs\"", "\"version\":2,\"view_logs\"")).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupportedFormat);
  EXPECT_EQ(ParseManifest(R"({"format":"cairn-manifest","version":7,"novel":[]})").status().code(),
            StatusCode::kUnsupportedFormat);
}

TEST(Manifest, RefusesUnknownMissingAndMistypedFields) {
  const auto message = [](const std::string& bytes) {
    const Status status = ParseManifest(bytes).status();
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << bytes;
    return std::string(status.message());
  };
  EXPECT_NE(
      message(With("{\"attempt_id\"", "{\"a\":1,\"attempt_id\"")).find("manifest.a is an unknown"),
      std::string::npos);
  EXPECT_NE(message(With("\"crc32c\":", "\"crc32d\":")).find("crc32c is missing"),
            std::string::npos);
  EXPECT_NE(message(With("\"epoch\":9", "\"epoch\":\"9\"")).find("manifest.epoch"),
            std::string::npos);
  message(With("\"epoch\":9", "\"epoch\":9.0"));
  message(With("\"epoch\":9", "\"epoch\":-9"));
  message(With("\"key_groups\":128", "\"key_groups\":4294967424"));
  message(With("\"type\":\"base\"", "\"type\":\"full\""));
  message(With("\"kind\":\"keyed\"", "\"kind\":\"sink_intent\""));
  message(With("\"format\":\"cairn-manifest\"", "\"format\":\"other\""));
}

TEST(Manifest, RefusesBytesThatAreNotCanonical) {
  for (const std::string& bytes :
       {" " + GoodBytes(), GoodBytes() + "\n", With(",", ", "),
        With("\"epoch\":9", "\"epoch\":9,\"epoch\":9"), With("\"out\"", "\"\\u006fut\""),
        With("1111", "111A").replace(0, 0, "")}) {
    EXPECT_EQ(ParseManifest(bytes).status().code(), StatusCode::kCorruption);
  }
  EXPECT_EQ(ParseManifest("").status().code(), StatusCode::kCorruption);
  EXPECT_EQ(ParseManifest("[]").status().code(), StatusCode::kCorruption);
  EXPECT_EQ(ParseManifest(std::string(100'000, '[')).status().code(), StatusCode::kCorruption);
}

TEST(Manifest, RefusesMoreThanSixteenMebibytes) {
  EXPECT_EQ(ParseManifest(std::string(kManifestBytesMax + 1, ' ')).status().code(),
            StatusCode::kCorruption);
  M m = GoodManifest();
  m.source_offsets["bid"].metadata["note"] = std::string(kManifestBytesMax, 'x');
  EXPECT_EQ(SerializeManifest(m).status().code(), StatusCode::kResourceExhausted);
}

TEST(Manifest, RefusesTextThatIsNotUtf8WhenItWrites) {
  M m = GoodManifest();
  m.source_offsets["bid"].offsets["\xff.ndjson"] = {};
  EXPECT_EQ(SerializeManifest(m).status().code(), StatusCode::kInvalidArgument);
}

TEST(Manifest, SurvivesEveryTruncationAndRandomDamage) {
  const std::string good = GoodBytes();
  for (size_t size = 0; size < good.size(); size += 7) {
    EXPECT_FALSE(ParseManifest(std::string_view(good).substr(0, size)).ok());
  }
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = good;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto read = ParseManifest(bytes);
    if (read.ok()) {
      EXPECT_EQ(*SerializeManifest(*read), bytes);
    }
  }
}

TEST(ManifestLimits, HoldTheWorstViewLogsInSixteenMebibytes) {
  const auto local = SerializeManifest(ManyViewLogSegments(kMaxViewLogSegments));
  ASSERT_TRUE(local.ok()) << local.status().ToString();
  const auto cluster = SerializeManifest(ManyViewLogSegments(kMaxClusterViewLogSegments));
  ASSERT_TRUE(cluster.ok());
  EXPECT_LE(2 * cluster->size(), kManifestBytesMax);
}

TEST(ManifestLimits, ShareViewLogSegmentsOverParticipants) {
  EXPECT_EQ(view_log_segment_limit(1), kMaxViewLogSegments);
  EXPECT_EQ(view_log_segment_limit(2), kMaxClusterViewLogSegments / 2);
  EXPECT_EQ(view_log_segment_limit(129), kMaxClusterViewLogSegments / 129);
}

// The digests below were computed with Python's hashlib from docs/formats/manifest.md.
TEST(ManifestDigests, AreThoseOfTheDocumentedDomains) {
  EXPECT_EQ(base::ToHex(checkpoint_sha256("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(base::ToHex(checkpoint_descriptor_sha256(std::nullopt)),
            "e6abf5c4ed6e39cf5710a16ab4cddbab9abb15a754139c1e1a2895f0f3071d7b");
  EXPECT_EQ(base::ToHex(checkpoint_descriptor_sha256("")),
            "fe074d3579c5e6844655246299cc7d4eae99bab67c48c37089fb3579de9fd01e");
  EXPECT_EQ(base::ToHex(checkpoint_descriptor_sha256("abc")),
            "31dc845aa983a223f558470a19b6e79b2802e1a38bb8541c15cb411ecffa90ea");
  EXPECT_EQ(base::ToHex(checkpoint_artifact_intent_sha256(std::nullopt)),
            "3131f996a75f4a93e8d4db1f9dcade48e9dc2b9da1780dc30a04622bbe3f0b13");
  EXPECT_EQ(base::ToHex(checkpoint_artifact_intent_sha256("abc")),
            "6f3e1b30a8a023895e6a37d9cd950b9205b83d7a15ac84289dfeebfa77b9860a");
}

TEST(SinkRows, HaveKeysThatAscendAsTheManifestListsThem) {
  EXPECT_EQ(base::ToHex(SinkRowKey("out", CheckpointId(0x0102), 3)),
            "0000000000000102"
            "00000003"
            "6f7574");
}

TEST(Watermark, IsTheLeastOverActiveChannels) {
  const auto channel = [](std::optional<int64_t> watermark, bool idle) {
    return ChannelProgress{1, "s", "c", watermark, idle};
  };
  EXPECT_EQ(ClassifyWatermark({}), std::nullopt);
  EXPECT_EQ(ClassifyWatermark({channel(5, false), channel(3, false), channel(1, true)}), 3);
  EXPECT_EQ(ClassifyWatermark({channel(5, false), channel({}, false)}), std::nullopt);
  EXPECT_EQ(ClassifyWatermark({channel(5, true), channel({}, true)}), std::nullopt);
}

// The frames are read without a JSON tree where they are written as we write them, and as any JSON
// where they are not: either way, what is read is exactly what is written.
TEST(ManifestFrames, NoTextIsReadThatIsNotTheOneOfWhatItSays) {
  const std::string good = *SerializeManifest(GoodManifest());
  const size_t begin = good.find("\"state_frames\":[") + 16;
  const size_t end = good.find("],\"timestamp_ms\"");
  size_t refused = 0;
  const auto check = [&](const std::string& bytes) {
    const Result<CheckpointManifest> read = ParseManifest(bytes);
    refused += !read.ok();
    if (read.ok()) {
      EXPECT_EQ(*SerializeManifest(*read), bytes);
    }
  };
  for (size_t at = begin; at < end; ++at) {
    for (const char byte : {' ', '0', '"', '}', 'x'}) {
      std::string bytes = good;
      bytes[at] = byte;
      check(bytes);
      bytes = good;
      bytes.insert(at, 1, byte);
      check(bytes);
    }
    std::string bytes = good;
    bytes.erase(at, 1);
    check(bytes);
  }
  EXPECT_GT(refused, (end - begin) * 9);
}

TEST(ManifestFrames, ANameThatLooksLikeTheListIsNoList) {
  CheckpointManifest m = GoodManifest();
  m.source_offsets["bid"].metadata["x\"state_frames\":["] = "\"state_frames\":[]";
  const std::string bytes = *SerializeManifest(m);
  EXPECT_EQ(*ParseManifest(bytes), m);
}

}  // namespace
}  // namespace cairn::format

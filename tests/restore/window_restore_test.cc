// SPDX-License-Identifier: Apache-2.0
//
// Saved windows: what a program does with those that another version wrote, or that are damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "../../examples/embed/open_sessions.h"
#include "store/store_testing.h"

namespace cairn {

/// Windows as a program of another version saves them. The bytes are this version's, so nothing but
/// the slot's stamp tells them apart.
template <uint32_t version>
struct OtherSessions {
  OpenSessions open;
};

template <uint32_t version>
struct Codec<OtherSessions<version>> {
  static constexpr std::string_view kName = Codec<OpenSessions>::kName;
  static constexpr uint32_t kVersion = version;
  size_t EncodedSize(const OtherSessions<version>& value) const {
    return Codec<OpenSessions>().EncodedSize(value.open);
  }
  void Encode(const OtherSessions<version>& value, char* out) const {
    Codec<OpenSessions>().Encode(value.open, out);
  }
  Result<OtherSessions<version>> Decode(std::string_view bytes) const {
    CAIRN_ASSIGN_OR_RETURN(OpenSessions open, Codec<OpenSessions>().Decode(bytes));
    return OtherSessions<version>{std::move(open)};
  }
  size_t MemoryBytes(const OtherSessions<version>& value) const {
    return Codec<OpenSessions>().MemoryBytes(value.open);
  }
};

/// Any bytes, under the stamp of this version's windows.
struct AnySessions {
  std::string bytes;
};

template <>
struct Codec<AnySessions> : Codec<std::string> {
  static constexpr std::string_view kName = Codec<OpenSessions>::kName;
  static constexpr uint32_t kVersion = Codec<OpenSessions>::kVersion;
  size_t EncodedSize(const AnySessions& value) const { return value.bytes.size(); }
  void Encode(const AnySessions& value, char* out) const {
    Codec<std::string>::Encode(value.bytes, out);
  }
  Result<AnySessions> Decode(std::string_view bytes) const {
    return AnySessions{std::string(bytes)};
  }
  size_t MemoryBytes(const AnySessions& value) const { return value.bytes.capacity(); }
};

namespace {

using store::testing::StoreWorld;
using ::testing::HasSubstr;

constexpr uint32_t kVersion = Codec<OpenSessions>::kVersion;

OpenSessions ThreeSessions() {
  OpenSessions open;
  open.user = -7;
  for (const int64_t minute : {0, 5, 9}) open.Add({minute * kGapUs, minute * kGapUs + 10, 2});
  return open;
}

std::string Encoded(const OpenSessions& open) {
  const Codec<OpenSessions> codec;
  std::string bytes(codec.EncodedSize(open), '\0');
  codec.Encode(open, bytes.data());
  return bytes;
}

/// A store whose operator keeps windows of type V.
template <class V>
struct WindowService {
  std::unique_ptr<StateStore> store;
  Partition* partition = nullptr;
  KeyedState<std::string, V>* open = nullptr;
  Status started;

  explicit WindowService(StoreWorld* world) {
    store = *world->Open();
    partition = *store->OpenPartition(0);
    open = *partition->Operator("sessions")->template keyed_state<std::string, V>("open");
    started = partition->Recover().status();
  }
  void Save(std::string_view key, const V& value) {
    EXPECT_TRUE(started.ok()) << started.ToString();
    EXPECT_TRUE(open->Update(key, [&](V& now, bool) { now = value; }).ok());
    EXPECT_TRUE(partition->Checkpoint("")->Wait().ok());
  }
};

TEST(WindowCodec, Behaviour39RefusesEveryTruncationAndEveryUnknownVersion) {
  const OpenSessions open = ThreeSessions();
  const std::string bytes = Encoded(open);
  const Codec<OpenSessions> codec;
  const Result<OpenSessions> back = codec.Decode(bytes);
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(back->user, -7);
  ASSERT_EQ(back->sessions.size(), 3u);
  EXPECT_EQ(back->sessions[2].last_us, 9 * kGapUs + 10);

  for (size_t length = 0; length < bytes.size(); ++length) {
    const Status refused = codec.Decode(std::string_view(bytes).substr(0, length)).status();
    EXPECT_EQ(refused.code(), StatusCode::kCorruption) << "cut to " << length << " bytes";
    EXPECT_THAT(refused.ToString(), HasSubstr("got " + std::to_string(length)));
  }
  EXPECT_EQ(codec.Decode(bytes + '\0').status().code(), StatusCode::kCorruption);
  for (uint32_t version = 0; version < 256; ++version) {
    if (version == kVersion) continue;
    std::string other = bytes;
    other[0] = static_cast<char>(version);
    const Status refused = codec.Decode(other).status();
    EXPECT_EQ(refused.code(), StatusCode::kUnsupportedFormat) << version;
    EXPECT_THAT(refused.ToString(), HasSubstr("of version " + std::to_string(version) + ";"));
    EXPECT_THAT(refused.ToString(), HasSubstr("reads version " + std::to_string(kVersion)));
  }
}

template <uint32_t version>
void ExpectCutOfVersionRefused() {
  StoreWorld world;
  WindowService<OtherSessions<version>>(&world).Save("ada", {ThreeSessions()});
  {
    const WindowService<OpenSessions> service(&world);
    EXPECT_EQ(service.started.code(), StatusCode::kInvalidArgument);
    const std::string message = service.started.ToString();
    EXPECT_THAT(message, HasSubstr("operator sessions"));
    EXPECT_THAT(message, HasSubstr("slot open was saved as open-sessions version " +
                                   std::to_string(version)));
    EXPECT_THAT(message, HasSubstr("declares open-sessions version " + std::to_string(kVersion)));
    EXPECT_EQ(service.open->size(), 0u);
    EXPECT_FALSE(service.partition->Checkpoint("").ok()) << "nothing takes the old cut's place";
  }
  const WindowService<OtherSessions<version>> writer(&world);
  ASSERT_TRUE(writer.started.ok()) << writer.started.ToString();
  EXPECT_EQ(writer.open->Find("ada")->open.sessions.size(), 3u);
}

TEST(WindowCodec, Behaviour39ASavedCutOfANewerOrOlderVersionIsRefusedNotMisread) {
  ExpectCutOfVersionRefused<kVersion + 1>();
  ExpectCutOfVersionRefused<kVersion - 1>();
}

TEST(WindowCodec, Behaviour39ATruncatedOrUnknownWindowInASavedCutFailsTheRestoreByName) {
  const std::string bytes = Encoded(ThreeSessions());
  for (size_t length = 0; length <= bytes.size(); ++length) {
    StoreWorld world;
    // The last one is whole, of a version that nobody knows.
    std::string saved = bytes.substr(0, length);
    if (length == bytes.size()) saved[0] = static_cast<char>(kVersion + 1);
    WindowService<AnySessions>(&world).Save("ada", {saved});
    const WindowService<OpenSessions> service(&world);
    EXPECT_EQ(service.started.code(),
              length < bytes.size() ? StatusCode::kCorruption : StatusCode::kUnsupportedFormat)
        << service.started.ToString();
    const std::string message = service.started.ToString();
    EXPECT_THAT(message, HasSubstr("operator sessions"));
    EXPECT_THAT(message, HasSubstr("slot open"));
    EXPECT_THAT(message, HasSubstr("ada"));
    EXPECT_EQ(service.open->size(), 0u);
  }
}

}  // namespace
}  // namespace cairn

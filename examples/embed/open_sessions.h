// SPDX-License-Identifier: Apache-2.0
//
// The session windows of a user that are not over, and how they are saved: a value that grows, with
// a codec of its own. The codec names its version twice: kVersion is stamped on the slot, so a
// program that writes other bytes refuses the checkpoint as a whole and can register a migration
// (docs/state/schema.md); the first byte of each value protects it where it goes without its slot.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/codec.h"

inline constexpr int64_t kGapUs = 60'000'000;

struct Session {
  int64_t first_us;
  int64_t last_us;
  int64_t clicks;

  /// When the watermark says that no click joins it any more.
  int64_t end_ms() const { return (last_us + kGapUs + 999) / 1000; }
};

/// Several at a time: a later one may begin before an earlier one's end is certain.
struct OpenSessions {
  int64_t user = 0;
  std::vector<Session> sessions;

  void Add(Session added) {
    const auto joins = [&added](const Session& session) {
      return added.first_us < session.last_us + kGapUs && session.first_us < added.last_us + kGapUs;
    };
    // One click may join two sessions, no more: each that it meets makes `added` grow.
    for (auto found = std::find_if(sessions.begin(), sessions.end(), joins);
         found != sessions.end(); found = std::find_if(sessions.begin(), sessions.end(), joins)) {
      added.first_us = std::min(added.first_us, found->first_us);
      added.last_us = std::max(added.last_us, found->last_us);
      added.clicks += found->clicks;
      sessions.erase(found);
    }
    sessions.push_back(added);
  }
};

/// [version: 1][number of sessions: 4][user: 8], then the sessions, 24 bytes each.
template <>
struct cairn::Codec<OpenSessions> {
  static constexpr std::string_view kName = "open-sessions";
  static constexpr uint32_t kVersion = 2;  // version 1 had neither its version nor a number
  static constexpr size_t kHeaderBytes = 1 + sizeof(uint32_t) + sizeof(int64_t);

  size_t EncodedSize(const OpenSessions& value) const {
    return kHeaderBytes + value.sessions.size() * sizeof(Session);
  }
  void Encode(const OpenSessions& value, char* out) const {
    const auto count = static_cast<uint32_t>(value.sessions.size());
    out[0] = static_cast<char>(kVersion);
    std::memcpy(out + 1, &count, sizeof(count));
    std::memcpy(out + 1 + sizeof(count), &value.user, sizeof(value.user));
    if (count > 0) {
      std::memcpy(out + kHeaderBytes, value.sessions.data(), count * sizeof(Session));
    }
  }
  cairn::Result<OpenSessions> Decode(std::string_view bytes) const {
    if (!bytes.empty() && static_cast<uint8_t>(bytes[0]) != kVersion) {
      return cairn::Status::UnsupportedFormat(
          "open sessions of version " + std::to_string(static_cast<uint8_t>(bytes[0])) +
          "; this program reads version " + std::to_string(kVersion));
    }
    uint32_t count = 0;
    if (bytes.size() >= kHeaderBytes) std::memcpy(&count, bytes.data() + 1, sizeof(count));
    const uint64_t expected = kHeaderBytes + uint64_t{count} * sizeof(Session);
    if (bytes.size() != expected) {
      return cairn::Status::Corruption(std::to_string(count) + " open sessions take " +
                                       std::to_string(expected) + " bytes, got " +
                                       std::to_string(bytes.size()));
    }
    OpenSessions value;
    std::memcpy(&value.user, bytes.data() + 1 + sizeof(count), sizeof(value.user));
    value.sessions.resize(count);
    if (count > 0) {
      std::memcpy(value.sessions.data(), bytes.data() + kHeaderBytes, count * sizeof(Session));
    }
    return value;
  }
  size_t MemoryBytes(const OpenSessions& value) const {
    return value.sessions.capacity() * sizeof(Session);
  }
};

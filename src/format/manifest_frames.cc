// SPDX-License-Identifier: Apache-2.0
#include "format/manifest_frames.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>

#include "base/hash.h"

namespace cairn::format {
namespace {

constexpr std::string_view kFramesField = "\"state_frames\":[";
constexpr size_t kFrameBytesGuess = 400;

void AppendFrame(const StateFrame& frame, std::string* out) {
  fmt::format_to(std::back_inserter(*out),
                 "{{\"chunk\":{{\"checkpoint_id\":{},\"participant_id\":{}}},\"crc32c\":{},"
                 "\"entry_count\":{},\"key\":{{\"first_key_group\":{},\"kind\":\"{}\","
                 "\"last_key_group\":{},\"operator_id\":\"{:016x}\"}},\"parts\":{},"
                 "\"range\":{{\"length\":{},\"offset\":{}}},\"sha256\":\"{}\",\"type\":\"{}\"}}",
                 frame.chunk.checkpoint_id.value, frame.chunk.participant_id, frame.crc32c,
                 frame.entry_count, frame.key.first_key_group, FrameKindName(frame.key.kind),
                 frame.key.last_key_group, frame.key.operator_id.value, frame.parts,
                 frame.range.length, frame.range.offset, base::ToHex(frame.sha256),
                 frame.delta ? "delta" : "base");
}

/// Reads exact text. The first thing that is not as expected fails it for good.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  bool Eat(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }
  template <class T>
  Cursor& Number(std::string_view before, T* value) {
    if (!ok_ || !Eat(before)) return Fail();
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), *value);
    if (error != std::errc()) return Fail();
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return *this;
  }
  Cursor& Text(std::string_view before, std::string_view* value) {
    if (!ok_ || !Eat(before)) return Fail();
    const size_t end = rest_.find('"');
    if (end == std::string_view::npos) return Fail();
    *value = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return *this;
  }
  Cursor& End(std::string_view expected) {
    if (!ok_ || !Eat(expected)) return Fail();
    return *this;
  }
  bool ok() const { return ok_; }
  std::string_view rest() const { return rest_; }

 private:
  Cursor& Fail() {
    ok_ = false;
    return *this;
  }
  std::string_view rest_;
  bool ok_ = true;
};

bool KindOf(std::string_view name, FrameKind* kind) {
  for (const FrameKind candidate :
       {FrameKind::kOperatorMeta, FrameKind::kOperatorState, FrameKind::kKeyed}) {
    if (name != FrameKindName(candidate)) continue;
    *kind = candidate;
    return true;
  }
  return false;
}

bool DigestOf(std::string_view hex, Sha256Digest* digest) {
  std::string bytes;
  if (hex.size() != 2 * digest->size() || !base::FromHex(hex, &bytes)) return false;
  std::copy(bytes.begin(), bytes.end(), digest->begin());
  return true;
}

bool ReadFrame(Cursor* in, StateFrame* frame) {
  std::string_view kind, id, digest, type;
  in->Number("{\"chunk\":{\"checkpoint_id\":", &frame->chunk.checkpoint_id.value)
      .Number(",\"participant_id\":", &frame->chunk.participant_id)
      .Number("},\"crc32c\":", &frame->crc32c)
      .Number(",\"entry_count\":", &frame->entry_count)
      .Number(",\"key\":{\"first_key_group\":", &frame->key.first_key_group)
      .Text(",\"kind\":\"", &kind)
      .Number("\",\"last_key_group\":", &frame->key.last_key_group)
      .Text(",\"operator_id\":\"", &id)
      .Number("\"},\"parts\":", &frame->parts)
      .Number(",\"range\":{\"length\":", &frame->range.length)
      .Number(",\"offset\":", &frame->range.offset)
      .Text("},\"sha256\":\"", &digest)
      .Text("\",\"type\":\"", &type)
      .End("\"}");
  if (!in->ok() || !KindOf(kind, &frame->key.kind) || !DigestOf(digest, &frame->sha256) ||
      !base::ParseHex16(id, &frame->key.operator_id) || (type != "base" && type != "delta")) {
    return false;
  }
  frame->delta = type == "delta";
  return true;
}

}  // namespace

std::string WithFrames(std::string_view manifest, const std::vector<StateFrame>& frames) {
  const size_t at = manifest.find(kFramesField) + kFramesField.size();
  std::string text;
  text.reserve(manifest.size() + frames.size() * kFrameBytesGuess);
  text.append(manifest.substr(0, at));
  for (size_t i = 0; i < frames.size(); ++i) {
    if (i > 0) text += ',';
    AppendFrame(frames[i], &text);
  }
  text.append(manifest.substr(at));
  return text;
}

std::optional<TextAndFrames> TakeFrames(std::string_view manifest) {
  const size_t field = manifest.find(kFramesField);
  if (field == std::string_view::npos) return std::nullopt;
  const size_t begin = field + kFramesField.size();
  TextAndFrames taken;
  Cursor in(manifest.substr(begin));
  while (!in.rest().starts_with(']')) {
    if (!taken.frames.empty() && !in.Eat(",")) return std::nullopt;
    if (!ReadFrame(&in, &taken.frames.emplace_back())) return std::nullopt;
  }
  taken.text.append(manifest.substr(0, begin)).append(in.rest());
  return taken;
}

}  // namespace cairn::format

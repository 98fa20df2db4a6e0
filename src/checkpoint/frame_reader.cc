// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/frame_reader.h"

#include <cstring>

#include "base/coding.h"
#include "checkpoint/layout.h"

namespace cairn::checkpoint {
namespace {

// An Arrow file begins with its magic, padded to 8 bytes, then FF FF FF FF and the length of the
// schema message: enough to know where the prefix ends.
constexpr uint64_t kPrefixLengthBytes = 16;
constexpr std::string_view kArrowMagic{"ARROW1\0\0", 8};
constexpr uint64_t kPrefixBytesMax = 16 << 20;

std::string ObjectName(const format::StateChunkId& chunk) {
  return StateObjectKey(chunk.checkpoint_id);
}

}  // namespace

Status ReadObjectRange(env::ObjectRanges* objects, const format::StateChunkId& chunk,
                       const format::ByteRange& range, char* out) {
  const Status read = objects->ReadRange(ObjectName(chunk), range.offset,
                                         std::span<char>(out, static_cast<size_t>(range.length)));
  if (read.code() == StatusCode::kNotFound) {
    return Status::Corruption("object " + ObjectName(chunk) + " is missing");
  }
  return read;
}

Result<format::ObjectSchema> FrameReader::SchemaOf(const format::StateChunkId& chunk) const {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (auto found = schemas_.find(chunk); found != schemas_.end()) return found->second;
  }
  char start[kPrefixLengthBytes];
  CAIRN_RETURN_IF_ERROR(ReadObjectRange(objects_, chunk, {0, kPrefixLengthBytes}, start));
  const uint64_t length = kPrefixLengthBytes + base::LoadLE<uint32_t>(start + 12);
  if (std::memcmp(start, kArrowMagic.data(), kArrowMagic.size()) != 0 ||
      base::LoadLE<uint32_t>(start + 8) != 0xffffffffu || length > kPrefixBytesMax) {
    return Status::Corruption("object " + ObjectName(chunk) +
                              " does not begin as a state object does");
  }
  std::string prefix(length, '\0');
  CAIRN_RETURN_IF_ERROR(ReadObjectRange(objects_, chunk, {0, length}, prefix.data()));
  const format::NodeDataObject& own = manifest_->node_data;
  if (chunk == own.chunk && own.prefix &&
      (own.prefix->range.length != length || own.prefix->sha256 != base::Sha256::Of(prefix))) {
    return Status::Corruption("object " + ObjectName(chunk) + ": its prefix is damaged");
  }
  Result<format::ObjectSchema> schema = format::ReadObjectPrefix(prefix);
  if (!schema.ok()) return schema.status().WithContext("object " + ObjectName(chunk));
  if (schema->layout.key_groups() != manifest_->key_groups ||
      schema->slot_hash != manifest_->slot_hash) {
    return Status::Corruption("object " + ObjectName(chunk) +
                              " was written with other key groups or another slot hash than its "
                              "manifest says");
  }
  std::lock_guard<std::mutex> lock(mutex_);
  schemas_.emplace(chunk, *schema);
  return *std::move(schema);
}

Result<format::FrameRows> FrameReader::ReadAt(env::ObjectRanges* objects,
                                              const format::StateChunkId& chunk,
                                              const format::ByteRange& range,
                                              const format::FrameExpectation& expected,
                                              FrameBuffer* buffer) const {
  const auto name = [&] {
    return expected.identity.ToString() + " in " + ObjectName(chunk) + " at " +
           std::to_string(range.offset);
  };
  Result<format::ObjectSchema> schema = SchemaOf(chunk);
  if (!schema.ok()) return schema.status().WithContext(name());
  char* bytes = buffer->Resize(range.length);
  if (Status read = ReadObjectRange(objects, chunk, range, bytes); !read.ok()) {
    return read.WithContext(name());
  }
  Result<format::FrameRows> rows =
      format::ReadFrame(std::string_view(bytes, range.length), *schema, expected);
  if (!rows.ok()) return rows.status().WithContext(ObjectName(chunk));
  return rows;
}

Result<format::FrameRows> FrameReader::Read(const format::StateFrame& frame, bool verify_sha256,
                                            FrameBuffer* buffer, env::ObjectRanges* ranges) const {
  return ReadAt(ranges != nullptr ? ranges : objects_, frame.chunk, frame.range,
                frame.expectation(verify_sha256), buffer);
}

Result<format::FrameRows> FrameReader::ReadSinks(bool verify_sha256, FrameBuffer* buffer) const {
  const format::SinkFrame& frame = *manifest_->prepared_sink_frame;
  format::FrameExpectation expected;
  expected.identity.kind = format::FrameKind::kSinkDescriptor;
  expected.identity.checkpoint_id = manifest_->checkpoint_id;
  expected.parts = frame.parts;
  expected.entries = frame.entry_count;
  expected.crc32c = frame.crc32c;
  if (verify_sha256) expected.sha256 = &frame.sha256;
  return ReadAt(objects_, manifest_->node_data.chunk, frame.range, expected, buffer);
}

}  // namespace cairn::checkpoint

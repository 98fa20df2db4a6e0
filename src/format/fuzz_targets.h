// SPDX-License-Identifier: Apache-2.0
//
// One function a decoder, for libFuzzer (x_fuzz.cc) and for the replay of its findings
// (fuzz_replay_test.cc). Any bytes may come in; what is accepted must survive the way back.
#pragma once

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "format/canonical_stream.h"
#include "format/checkpoint_sidecars.h"
#include "format/frame.h"
#include "format/keys.h"
#include "format/manifest.h"
#include "format/object.h"
#include "format/partition_manifest.h"
#include "format/row_codec.h"
#include "format/store_records.h"
#include "format/topn_codec.h"
#include "format/view_log_segment.h"
#include "format/whole_manifest_v1.h"

namespace cairn::format {

inline void FuzzManifest(std::string_view bytes) {
  const auto manifest = ParseManifest(bytes);
  if (!manifest.ok()) return;
  CAIRN_CHECK(*SerializeManifest(*manifest) == bytes);
}

/// decision-head.json, FORMAT and identity.json.
inline void FuzzStoreRecords(std::string_view bytes) {
  if (const auto head = ParseDecisionHead(bytes); head.ok()) {
    CAIRN_CHECK(*SerializeDecisionHead(*head) == bytes);
  }
  if (const auto format = ParseStoreFormat(bytes); format.ok()) {
    CAIRN_CHECK(*SerializeStoreFormat(*format) == bytes);
  }
  if (const auto identity = ParseDeploymentIdentity(bytes); identity.ok()) {
    CAIRN_CHECK(*SerializeDeploymentIdentity(*identity) == bytes);
  }
  if (const auto manifest = ParsePartitionManifest(bytes); manifest.ok()) {
    const auto again = SerializePartitionManifest(*manifest);
    CAIRN_CHECK(again.ok() && *ParsePartitionManifest(*again) == *manifest);
  }
  if (const auto lease = ParseLease(bytes); lease.ok()) {
    CAIRN_CHECK(*SerializeLease(*lease) == bytes);
  }
}

/// Touch every byte of rows.
inline uint64_t SumRows(const base::SavedRowSpan& rows) {
  uint64_t sum = 0;
  for (size_t i = 0; i < rows.rows; ++i) sum += Fnv1a64(rows.key(i)) ^ Fnv1a64(rows.value(i));
  return sum;
}

/// A whole object, and every frame of it once more by its range.
inline void FuzzObject(std::string_view bytes) {
  const auto layout = ReadObject(bytes);
  if (!layout.ok()) return;
  for (const ObjectFrame& frame : layout->frames) {
    const FrameSummary& s = frame.summary;
    const auto rows =
        ReadFrame(bytes.substr(frame.range.offset, frame.range.length), layout->schema,
                  {s.identity, s.parts, s.entries, s.crc32c, &s.sha256});
    CAIRN_CHECK(rows.ok());
    uint64_t entries = 0;
    for (const base::SavedRowSpan& span : rows->batches) {
      SumRows(span);
      entries += span.rows;
    }
    CAIRN_CHECK(entries == s.entries);
  }
}

/// Bytes in memory, front to back.
class FuzzSource final : public ByteSource {
 public:
  explicit FuzzSource(std::string_view bytes) : rest_(bytes), size_(bytes.size()) {}
  uint64_t size() const override { return size_; }
  Status Read(std::span<char> out) override {
    CAIRN_CHECK(out.size() <= rest_.size());
    rest_.copy(out.data(), out.size());
    rest_.remove_prefix(out.size());
    return {};
  }

 private:
  std::string_view rest_;
  uint64_t size_;
};

/// The rows' sum, read a batch at a time.
inline Result<uint64_t> SumByBatches(std::string_view bytes) {
  FuzzSource source(bytes);
  CAIRN_ASSIGN_OR_RETURN(const auto reader, CanonicalStreamReader::Open(&source));
  uint64_t sum = 0;
  for (;;) {
    CAIRN_ASSIGN_OR_RETURN(const auto batch, reader->Next());
    if (!batch) return sum;
    sum += SumRows(batch->rows);
  }
}

inline void FuzzCanonicalStream(std::string_view bytes) {
  const auto stream = ReadCanonicalStream(bytes);
  uint64_t sum = 0;
  if (stream.ok()) {
    for (const CanonicalBatch& batch : stream->batches) sum += SumRows(batch.rows);
  }
  const auto by_batches = SumByBatches(bytes);
  CAIRN_CHECK(by_batches.ok() == stream.ok());
  CAIRN_CHECK(!stream.ok() || *by_batches == sum);
  if (const auto log = ReadChangelogStream(bytes); log.ok()) {
    for (const CanonicalBatch& batch : log->batches) SumRows(batch.rows);
    Fnv1a64(log->materialisation_value);
  }
}

inline void FuzzSidecar(std::string_view bytes) {
  const auto sidecar = ParseSidecar(bytes);
  if (sidecar.ok()) CAIRN_CHECK(*ParseSidecar(SerializeSidecar(*sidecar)) == *sidecar);
  if (const auto state = ParseStateSidecar(bytes); state.ok()) {
    CAIRN_CHECK(*ParseStateSidecar(*SerializeStateSidecar(*state)) == *state);
  }
  if (const auto sinks = ParseSinkStatuses(bytes); sinks.ok()) {
    CAIRN_CHECK(*ParseSinkStatuses(*SerializeSinkStatuses(*sinks)) == *sinks);
  }
  const auto tag = ParseFramePartTag(bytes);
  if (tag.ok()) CAIRN_CHECK(PackFramePartTag(*tag) == bytes);
  const auto versions = ParseStateVersions(bytes);
  if (versions.ok()) CAIRN_CHECK(PackStateVersions(*versions).ok());
}

/// The first byte chooses the columns, the rest is one row.
inline void FuzzRowCodec(std::string_view bytes) {
  static const std::vector<std::vector<ColumnSpec>> kColumns = {
      {{"k", "bigint", false}},
      {{"k", "bigint", true}, {"t", "text", true}},
      {{"o", "boolean", false}, {"d", "decimal(10,2)", true}, {"y", "bytes", true}},
      {{"f", "double", false},
       {"i", "integer", true},
       {"a", "date", true},
       {"s", "timestamp", true}}};
  if (bytes.empty()) return;
  const auto codec = RowCodec::Make(kColumns[static_cast<uint8_t>(bytes[0]) % kColumns.size()]);
  auto decoder = RowDecoder::Make(*codec);
  const std::string_view row = bytes.substr(1);
  if (!decoder->Append(row).ok()) return;
  const auto arrays = decoder->Finish();
  CAIRN_CHECK(arrays.ok());
  std::vector<uint32_t> offsets;
  std::vector<char> data;
  CAIRN_CHECK(codec->Encode(*arrays, nullptr, &offsets, &data, nullptr).ok());
  CAIRN_CHECK(std::string_view(data.data(), data.size()) == row);
}

/// A segment of a view log. What decodes is encoded again, and that decodes to the same rows.
inline void FuzzViewLogSegment(std::string_view bytes) {
  const auto segment = DecodeViewLogSegment(arrow::Buffer::FromString(std::string(bytes)));
  if (!segment.ok()) return;
  const auto encoder = ViewLogSegmentEncoder::Open(segment->schema, segment->id);
  CAIRN_CHECK(encoder.ok());
  for (const auto& batch : segment->batches) CAIRN_CHECK((*encoder)->Append(*batch).ok());
  const auto encoded = (*encoder)->Finish();
  CAIRN_CHECK(encoded.ok() && encoded->rows == segment->rows);
  CAIRN_CHECK(encoded->event_time == segment->event_time);
  const auto again = DecodeViewLogSegment(arrow::Buffer::FromString(std::string(encoded->view())));
  CAIRN_CHECK(again.ok() && again->id == segment->id && again->rows == segment->rows);
}

/// A manifest of version 1: every state in it decodes or names its operator.
inline void FuzzWholeManifestV1(std::string_view bytes) {
  DecodeBase64(bytes);
  const auto manifest = ParseWholeManifestV1(bytes);
  if (!manifest.ok()) return;
  InlineChecksumOf(*manifest);
  WarningsOf(*manifest, 256);
  for (const auto& [name, state] : manifest->operator_states) {
    const auto decoded = InlineStateOf(*manifest, name);
    CAIRN_CHECK(decoded.ok() || decoded.status().message().find(name) != std::string_view::npos);
    CAIRN_CHECK(!decoded.ok() || decoded->has_value() != state.external);
  }
}

/// A saved Top-N value.
inline void FuzzTopN(std::string_view bytes) {
  const auto rows = DecodeTopN(bytes);
  if (!rows.ok()) return;
  std::string again(EncodedTopNBytes(*rows), '\0');
  EncodeTopN(*rows, again.data());
  CAIRN_CHECK(again == bytes);
}

/// The first byte chooses the number of key groups, the rest is one stored key.
inline void FuzzStoredKey(std::string_view bytes) {
  if (bytes.empty()) return;
  const uint32_t key_groups[] = {1, 128, 129, 32768};
  const auto layout = KeyLayout::ForKeyGroups(key_groups[static_cast<uint8_t>(bytes[0]) % 4]);
  const std::string_view stored = bytes.substr(1);
  const StoredKey key = layout->Parse(stored);
  std::string again;
  if (key.kind == StoredKeyKind::kKeyed) {
    layout->AppendKeyed(key.group, key.slot, key.user_key, &again);
  } else if (key.kind == StoredKeyKind::kOperatorState) {
    layout->AppendOperatorState(key.user_key, &again);
  } else {
    again = key.user_key;
  }
  CAIRN_CHECK(again == stored);
}

struct FuzzTarget {
  const char* name;  ///< of its folder in testdata/fuzz
  void (*run)(std::string_view bytes);
};
inline constexpr FuzzTarget kFuzzTargets[] = {
    {"manifest", FuzzManifest},
    {"store_records", FuzzStoreRecords},
    {"object", FuzzObject},
    {"canonical_stream", FuzzCanonicalStream},
    {"sidecar", FuzzSidecar},
    {"row_codec", FuzzRowCodec},
    {"stored_key", FuzzStoredKey},
    {"topn", FuzzTopN},
    {"view_log_segment", FuzzViewLogSegment},
    {"whole_manifest_v1", FuzzWholeManifestV1},
};

}  // namespace cairn::format

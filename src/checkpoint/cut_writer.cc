// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/cut_writer.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <set>

#include "checkpoint/layout.h"

namespace cairn::checkpoint {
namespace {

using format::CheckpointManifest;
using format::FrameKind;
using format::StateFrame;

/// Pass the bytes of the format's writer on to the store's.
class StoreByteSink final : public format::ByteSink {
 public:
  explicit StoreByteSink(env::ObjectWriter* writer) : writer_(writer) {}
  Status Append(std::string_view bytes) override { return writer_->Append(bytes); }

 private:
  env::ObjectWriter* writer_;
};

/// The one object of an attempt. Begun with the first frame, so that a cut without one has none.
///
/// Threads:  any.
class ObjectBuilder {
 public:
  ObjectBuilder(env::ObjectStore* objects, std::string key, uint64_t bytes_expected,
                const format::ObjectSchema& schema)
      : objects_(objects), key_(std::move(key)), bytes_expected_(bytes_expected), schema_(schema) {}

  /// Append a frame. After a failure every later call returns the first error at once.
  Status Append(const format::EncodedFrame& frame, format::ByteRange* range) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failed_.ok()) return failed_;
    Result<format::ByteRange> at = AppendLocked(frame);
    if (!at.ok()) return failed_ = at.status();
    *range = *at;
    return {};
  }

  Status failed() {
    std::lock_guard<std::mutex> lock(mutex_);
    return failed_;
  }

  /// Make other threads stop at their next frame.
  void Fail(const Status& status) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failed_.ok()) failed_ = status;
  }

  Result<std::optional<format::ObjectSummary>> Finish() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failed_.ok()) return failed_;
    if (!writer_) return std::optional<format::ObjectSummary>();
    CAIRN_ASSIGN_OR_RETURN(const format::ObjectSummary summary, writer_->Finish());
    CAIRN_RETURN_IF_ERROR(store_writer_->Finish());
    return std::optional<format::ObjectSummary>(summary);
  }

 private:
  Result<format::ByteRange> AppendLocked(const format::EncodedFrame& frame) {
    if (!writer_) {
      CAIRN_ASSIGN_OR_RETURN(store_writer_, objects_->NewLargeWriter(key_, bytes_expected_));
      bytes_ = std::make_unique<StoreByteSink>(store_writer_.get());
      CAIRN_ASSIGN_OR_RETURN(writer_, format::ObjectWriter::Open(bytes_.get(), schema_));
    }
    return writer_->Append(frame);
  }

  env::ObjectStore* objects_;
  std::string key_;
  uint64_t bytes_expected_;
  format::ObjectSchema schema_;
  std::mutex mutex_;  // guards what follows
  Status failed_;
  std::unique_ptr<env::ObjectWriter> store_writer_;
  std::unique_ptr<StoreByteSink> bytes_;
  std::unique_ptr<format::ObjectWriter> writer_;
};

StateFrame ToStateFrame(const format::FrameSummary& summary, const format::ByteRange& range) {
  StateFrame frame;
  frame.key.kind = summary.identity.kind;
  frame.key.operator_id = summary.identity.operator_id;
  frame.key.first_key_group = summary.identity.first_group;
  frame.key.last_key_group = summary.identity.last_group;
  frame.delta = summary.identity.delta;
  frame.chunk.checkpoint_id = summary.identity.checkpoint_id;
  frame.range = range;
  frame.parts = summary.parts;
  frame.entry_count = summary.entries;
  frame.crc32c = summary.crc32c;
  frame.sha256 = summary.sha256;
  return frame;
}

/// Collect one subtask's frames.
class SubtaskFrameSink final : public format::FrameSink {
 public:
  explicit SubtaskFrameSink(ObjectBuilder* builder) : builder_(builder) {}

  Status TakeFrame(format::EncodedFrame frame) override {
    format::ByteRange range;
    CAIRN_RETURN_IF_ERROR(builder_->Append(frame, &range));
    frames.push_back(ToStateFrame(frame.summary, range));
    return {};
  }

  std::vector<StateFrame> frames;

 private:
  ObjectBuilder* builder_;
};

/// Give rows of an operator-state table, which knows one group, the number of its subtask.
class SubtaskRowSink final : public state::SavedRowSink {
 public:
  SubtaskRowSink(state::SavedRowSink* rows, uint32_t subtask) : rows_(rows), subtask_(subtask) {}
  Result<state::SavedRows*> BeginGroup(uint32_t) override { return rows_->BeginGroup(subtask_); }
  Status Flush() override { return rows_->Flush(); }

 private:
  state::SavedRowSink* rows_;
  uint32_t subtask_;
};

/// Count rows and keep none.
class CountingRowSink final : public state::SavedRowSink {
 public:
  Result<state::SavedRows*> BeginGroup(uint32_t) override { return &rows_; }
  Status Flush() override {
    flushed_ += rows_.rows();
    rows_.Clear();
    return {};
  }
  uint64_t count() const { return flushed_ + rows_.rows(); }

 private:
  state::SavedRows rows_;
  uint64_t flushed_ = 0;
};

/// Encode what one subtask has of a cut.
class SubtaskEncoder {
 public:
  SubtaskEncoder(const CapturedSubtask& subtask, size_t index, const CutPlan& plan,
                 const format::ObjectSchema& schema, base::CheckpointId id,
                 format::RowBufferPool* buffers, ObjectBuilder* builder)
      : subtask_(subtask),
        index_(index),
        plan_(plan),
        schema_(schema),
        id_(id),
        buffers_(buffers),
        sink_(builder) {}

  Status Run() {
    for (const OperatorPlan& one : plan_.operators) {
      if (index_ < one.keyed.size() && !one.keyed[index_].empty()) {
        CAIRN_RETURN_IF_ERROR(EncodeKeyed(one));
      }
      if (index_ < one.operator_state.size() && !one.operator_state[index_].empty()) {
        CAIRN_RETURN_IF_ERROR(EncodeOperatorState(one));
      }
    }
    return {};
  }

  std::vector<StateFrame>& frames() { return sink_.frames; }
  const std::vector<base::OperatorId>& unchanged() const { return unchanged_; }

 private:
  Status EncodeRows(const OperatorPlan& one, const state::StateTable& table, KeyGroupRange groups,
                    state::SavedRowSink* rows) const {
    const Status status =
        one.delta ? table.EncodeDelta(subtask_.view, *subtask_.committed_epoch, groups, rows)
                  : table.EncodeBase(subtask_.view, groups, rows);
    if (status.ok()) return status;
    return status.WithContext("operator " + one.uid + ", slot " + table.descriptor().name);
  }

  Status EncodeKeyed(const OperatorPlan& one) {
    format::FrameEncoderOptions options;
    options.kind = FrameKind::kKeyed;
    options.operator_id = one.operator_id;
    options.delta = one.delta;
    options.checkpoint_id = id_;
    options.frame_bytes_min = one.frame_bytes_min;
    options.frame_per_group = one.frame_per_group;
    format::FrameEncoder encoder(schema_, options, buffers_, &sink_);
    const auto& tables = one.keyed[index_];
    if (tables.size() == 1) {
      encoder.SetSlot(tables[0]->descriptor().name);
      CAIRN_RETURN_IF_ERROR(EncodeRows(one, *tables[0], tables[0]->key_groups(), &encoder));
      return encoder.Finish();
    }
    // Rows of several slots share frames, so the groups take turns over the slots.
    const KeyGroupRange groups = tables[0]->key_groups();
    for (uint32_t group = groups.first; group < groups.last; ++group) {
      for (const state::StateTable* table : tables) {
        encoder.SetSlot(table->descriptor().name);
        CAIRN_RETURN_IF_ERROR(EncodeRows(one, *table, {group, group + 1}, &encoder));
      }
    }
    return encoder.Finish();
  }

  Result<bool> OperatorStateChanged(const OperatorPlan& one) const {
    if (plan_.rewrite_operator_state || one.slots_changed || !subtask_.committed_epoch) return true;
    for (const state::StateTable* table : one.operator_state[index_]) {
      CountingRowSink changes;
      CAIRN_RETURN_IF_ERROR(table->EncodeDelta(subtask_.view, *subtask_.committed_epoch,
                                               table->key_groups(), &changes));
      if (changes.count() > 0) return true;
    }
    return false;
  }

  Status EncodeOperatorState(const OperatorPlan& one) {
    CAIRN_ASSIGN_OR_RETURN(const bool changed, OperatorStateChanged(one));
    if (!changed) {
      unchanged_.push_back(one.operator_id);
      return {};
    }
    format::FrameEncoderOptions options;
    options.kind = FrameKind::kOperatorState;
    options.operator_id = one.operator_id;
    options.checkpoint_id = id_;
    format::FrameEncoder encoder(schema_, options, buffers_, &sink_);
    SubtaskRowSink rows(&encoder, subtask_.subtask);
    for (const state::StateTable* table : one.operator_state[index_]) {
      encoder.SetSlot(table->descriptor().name);
      const Status status = table->EncodeBase(subtask_.view, table->key_groups(), &rows);
      if (!status.ok()) {
        return status.WithContext("operator " + one.uid + ", slot " + table->descriptor().name);
      }
    }
    return encoder.Finish();
  }

  const CapturedSubtask& subtask_;
  const size_t index_;
  const CutPlan& plan_;
  const format::ObjectSchema& schema_;
  const base::CheckpointId id_;
  format::RowBufferPool* buffers_;
  SubtaskFrameSink sink_;
  std::vector<base::OperatorId> unchanged_;
};

/// Run `encoder` where a user's codec may throw.
Status RunGuarded(SubtaskEncoder* encoder) {
  try {
    return encoder->Run();
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("no memory to encode the checkpoint");
  } catch (const std::exception& thrown) {
    return Status::Internal(std::string("a state codec threw: ") + thrown.what());
  } catch (...) {
    return Status::Internal("a state codec threw something that is no std::exception");
  }
}

struct SinkRow {
  format::PreparedSinkDescriptor record;
  const std::string* payload;
};

/// All prepared pieces, in the order in which manifest and frame list them.
std::vector<SinkRow> SortedSinkRows(const CapturedCut& captured) {
  std::vector<SinkRow> rows;
  for (const PreparedSink& sink : captured.sinks) {
    for (const PreparedPiece& piece : sink.pieces) {
      SinkRow row;
      row.record.sink_name = sink.sink;
      row.record.checkpoint_id = piece.checkpoint;
      row.record.subtask = piece.subtask;
      row.record.has_payload = true;
      row.record.sha256 = format::checkpoint_descriptor_sha256(piece.descriptor);
      row.payload = &piece.descriptor;
      rows.push_back(std::move(row));
    }
  }
  std::sort(rows.begin(), rows.end(), [](const SinkRow& a, const SinkRow& b) {
    return std::tie(a.record.sink_name, a.record.checkpoint_id, a.record.subtask) <
           std::tie(b.record.sink_name, b.record.checkpoint_id, b.record.subtask);
  });
  return rows;
}

Result<std::optional<format::SinkFrame>> WriteSinkFrame(const CapturedCut& captured,
                                                        const format::ObjectSchema& schema,
                                                        base::CheckpointId id,
                                                        ObjectBuilder* builder) {
  const std::vector<SinkRow> sorted = SortedSinkRows(captured);
  if (sorted.empty()) return std::optional<format::SinkFrame>();
  auto rows = std::make_shared<base::SavedRows>();
  for (const SinkRow& row : sorted) {
    const std::string key =
        format::SinkRowKey(row.record.sink_name, row.record.checkpoint_id, row.record.subtask);
    const base::SavedRows::Slot at =
        rows->Append(base::SavedRowKind::kMaterialised, key.size(), row.payload->size());
    std::memcpy(at.key, key.data(), key.size());
    // An empty column may have no memory yet, and memcpy takes no null.
    if (!row.payload->empty()) {
      std::memcpy(at.value, row.payload->data(), row.payload->size());
    }
  }
  format::FrameIdentity identity;
  identity.kind = FrameKind::kSinkDescriptor;
  identity.checkpoint_id = id;
  CAIRN_ASSIGN_OR_RETURN(const format::EncodedFrame frame,
                         format::EncodeFrame(schema, identity, std::move(rows)));
  format::SinkFrame saved;
  CAIRN_RETURN_IF_ERROR(builder->Append(frame, &saved.range));
  saved.parts = frame.summary.parts;
  saved.entry_count = frame.summary.entries;
  saved.crc32c = frame.summary.crc32c;
  saved.sha256 = frame.summary.sha256;
  return std::optional<format::SinkFrame>(saved);
}

Result<format::ObjectSchema> SchemaOf(const CutPlan& plan, const ManifestFrame& deployment) {
  format::ObjectSchema schema;
  CAIRN_ASSIGN_OR_RETURN(schema.layout, format::KeyLayout::ForKeyGroups(deployment.key_groups));
  schema.slot_hash = deployment.slot_hash;
  schema.with_row_kind = plan.with_row_kind;
  for (const OperatorPlan& one : plan.operators) {
    for (const format::SlotRecord& slot : one.slots) {
      schema.state_versions.push_back(
          {one.operator_id.value, slot.value_codec, slot.version, slot.name});
    }
  }
  std::sort(schema.state_versions.begin(), schema.state_versions.end());
  return schema;
}

void AddSources(const CapturedCut& captured, CheckpointManifest* manifest) {
  for (const SourceOffsets& source : captured.sources) {
    format::ConnectorCheckpoint& saved = manifest->source_offsets[source.source];
    for (const SplitOffset& split : source.splits) {
      saved.offsets[split.split] = {split.position, split.ended};
    }
    if (source.ended) manifest->ended_sources.push_back(source.source);
    if (source.event_time) {
      format::ChannelProgress progress;
      progress.source_name = source.source;
      progress.input_channel = std::string(format::kLogicalChannel);
      progress.watermark = source.watermark_ms;
      progress.idle = source.idle;
      manifest->channel_progress.push_back(std::move(progress));
    }
  }
  std::sort(manifest->ended_sources.begin(), manifest->ended_sources.end());
  std::sort(manifest->channel_progress.begin(), manifest->channel_progress.end(),
            [](const format::ChannelProgress& a, const format::ChannelProgress& b) {
              return a.source_name < b.source_name;
            });
  manifest->checkpoint_watermark = format::ClassifyWatermark(manifest->channel_progress);
}

/// True when a frame of the base cut stays as it is.
bool IsKept(const StateFrame& frame, const CutPlan& plan,
            const std::set<std::pair<base::OperatorId, uint32_t>>& unchanged) {
  if (frame.key.kind == FrameKind::kOperatorState) {
    return unchanged.contains({frame.key.operator_id, frame.key.first_key_group});
  }
  for (const OperatorPlan& one : plan.operators) {
    if (one.operator_id == frame.key.operator_id) return one.delta;
  }
  return false;
}

void AddReferencedChunks(const CheckpointManifest& base, CheckpointManifest* manifest) {
  std::map<format::StateChunkId, format::ReferencedStateChunk> known;
  for (const format::ReferencedStateChunk& chunk : base.referenced_chunks) {
    known[chunk.chunk] = chunk;
  }
  known[base.node_data.chunk] = {base.node_data.chunk, base.node_data.object_length,
                                 base.node_data.sha256, 0};
  for (auto& [chunk, referenced] : known) referenced.ref_count = 0;
  for (const StateFrame& frame : manifest->state_frames) {
    if (frame.chunk != manifest->node_data.chunk) ++known[frame.chunk].ref_count;
  }
  for (const auto& [chunk, referenced] : known) {
    if (referenced.ref_count > 0) manifest->referenced_chunks.push_back(referenced);
  }
}

void AddOperators(const CutPlan& plan, CheckpointManifest* manifest) {
  std::map<base::OperatorId, format::OperatorRecord> totals;
  for (const StateFrame& frame : manifest->state_frames) {
    format::OperatorRecord& total = totals[frame.key.operator_id];
    ++total.frames;
    total.entries += frame.entry_count;
    total.bytes += frame.range.length;
  }
  for (const OperatorPlan& one : plan.operators) {
    format::OperatorRecord record = totals[one.operator_id];
    record.operator_id = one.operator_id;
    record.uid = one.uid;
    record.slots = one.slots;
    manifest->operators.push_back(std::move(record));
  }
}

}  // namespace

Result<WrittenObject> WriteObject(env::ObjectStore* objects, const CapturedCut& captured,
                                  const CutPlan& plan, const ManifestFrame& deployment,
                                  const Attempt& attempt, format::RowBufferPool* buffers,
                                  Executor* executor) {
  CAIRN_ASSIGN_OR_RETURN(const format::ObjectSchema schema, SchemaOf(plan, deployment));
  uint64_t bytes_expected = 0;  // at most all of it again
  if (attempt.built_on != nullptr) {
    for (const StateFrame& frame : attempt.built_on->state_frames) {
      bytes_expected += frame.range.length;
    }
  }
  ObjectBuilder builder(objects, StateObjectKey(attempt.id), bytes_expected, schema);
  std::vector<std::unique_ptr<SubtaskEncoder>> encoders;
  for (size_t i = 0; i < captured.subtasks.size(); ++i) {
    encoders.push_back(std::make_unique<SubtaskEncoder>(captured.subtasks[i], i, plan, schema,
                                                        attempt.id, buffers, &builder));
  }
  std::vector<Status> outcomes(encoders.size());
  executor->Run(encoders.size(), [&](size_t i) {
    outcomes[i] = builder.failed();
    if (!outcomes[i].ok()) return;
    outcomes[i] = RunGuarded(encoders[i].get());
    if (!outcomes[i].ok()) builder.Fail(outcomes[i]);
  });
  CAIRN_RETURN_IF_ERROR(builder.failed());
  WrittenObject written;
  for (size_t i = 0; i < encoders.size(); ++i) {
    std::vector<StateFrame>& frames = encoders[i]->frames();
    written.frames.insert(written.frames.end(), frames.begin(), frames.end());
    for (base::OperatorId id : encoders[i]->unchanged()) {
      written.unchanged_operator_state.emplace_back(id, captured.subtasks[i].subtask);
    }
  }
  CAIRN_ASSIGN_OR_RETURN(written.sink_frame,
                         WriteSinkFrame(captured, schema, attempt.id, &builder));
  CAIRN_ASSIGN_OR_RETURN(written.summary, builder.Finish());
  return written;
}

Result<CheckpointManifest> MakeManifest(const CapturedCut& captured, const CutPlan& plan,
                                        const ManifestFrame& deployment, const Attempt& attempt,
                                        const WrittenObject& written,
                                        std::vector<format::ViewLog> view_logs) {
  const CheckpointManifest* const base = attempt.built_on;
  CheckpointManifest manifest;
  manifest.checkpoint_id = attempt.id;
  manifest.epoch = attempt.id.value;
  manifest.timestamp_ms = attempt.timestamp_ms;
  manifest.attempt_id = attempt.attempt_id;
  manifest.deployment_id = deployment.deployment_id;
  manifest.pipeline_identity = deployment.pipeline_identity;
  manifest.key_groups = deployment.key_groups;
  manifest.parallelism = captured.parallelism;
  manifest.slot_hash = deployment.slot_hash;
  manifest.source_names = deployment.source_names;
  manifest.sink_names = deployment.sink_names;
  if (base != nullptr) manifest.base_checkpoint_id = base->checkpoint_id;

  manifest.node_data.chunk.checkpoint_id = attempt.id;
  if (written.summary) {
    manifest.node_data.object_length = written.summary->length;
    manifest.node_data.sha256 = written.summary->digest;
    manifest.node_data.prefix = written.summary->prefix;
    manifest.node_data.suffix = written.summary->suffix;
  }
  manifest.state_frames = written.frames;
  if (base != nullptr) {
    const std::set<std::pair<base::OperatorId, uint32_t>> unchanged(
        written.unchanged_operator_state.begin(), written.unchanged_operator_state.end());
    for (const StateFrame& frame : base->state_frames) {
      if (IsKept(frame, plan, unchanged)) manifest.state_frames.push_back(frame);
    }
  }
  std::sort(manifest.state_frames.begin(), manifest.state_frames.end(), format::StateFrameLess);
  if (base != nullptr) AddReferencedChunks(*base, &manifest);
  AddOperators(plan, &manifest);
  AddSources(captured, &manifest);
  for (SinkRow& row : SortedSinkRows(captured)) {
    manifest.prepared_sinks.push_back(std::move(row.record));
  }
  manifest.prepared_sink_frame = written.sink_frame;
  manifest.view_logs = std::move(view_logs);
  return manifest;
}

}  // namespace cairn::checkpoint

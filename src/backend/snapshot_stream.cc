// SPDX-License-Identifier: Apache-2.0
#include "backend/snapshot_stream.h"

#include <cstring>
#include <utility>

namespace cairn::backend {

std::vector<format::StateVersion> ToStateVersions(const std::vector<StateStamp>& stamps) {
  std::vector<format::StateVersion> versions;
  for (const StateStamp& stamp : stamps) {
    versions.push_back({stamp.operator_id.value, stamp.state_type, stamp.version, stamp.slot});
  }
  return versions;
}

std::vector<StateStamp> ToStamps(const std::vector<format::StateVersion>& versions) {
  std::vector<StateStamp> stamps;
  for (const format::StateVersion& version : versions) {
    stamps.push_back(
        {OperatorId(version.operator_id), version.state_type, version.version, version.slot});
  }
  return stamps;
}

Result<std::unique_ptr<SnapshotWriter>> SnapshotWriter::Open(
    format::ByteSink* sink, const std::vector<StateStamp>& stamps) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<format::CanonicalStreamWriter> writer,
                         format::CanonicalStreamWriter::Open(sink, ToStateVersions(stamps)));
  return std::unique_ptr<SnapshotWriter>(new SnapshotWriter(std::move(writer)));
}

Status SnapshotWriter::Add(OperatorId op, std::string_view key, std::string_view value) {
  const base::SavedRows::Slot to =
      rows_.Append(base::SavedRowKind::kMaterialised, key.size(), value.size());
  if (!key.empty()) std::memcpy(to.key, key.data(), key.size());
  if (!value.empty()) std::memcpy(to.value, value.data(), value.size());
  operators_.push_back(op.value);
  return rows_.bytes() >= base::kSavedRowsFlushBytes ? WriteBatch() : Status();
}

Status SnapshotWriter::WriteBatch() {
  CAIRN_RETURN_IF_ERROR(writer_->Append(operators_, rows_.Span()));
  rows_.Clear();
  operators_.clear();
  return {};
}

Status SnapshotWriter::Finish() {
  if (rows_.rows() > 0) CAIRN_RETURN_IF_ERROR(WriteBatch());
  return writer_->Finish();
}

Status ForEachRow(const std::vector<format::CanonicalBatch>& batches, const RowTaker& take) {
  for (const format::CanonicalBatch& batch : batches) {
    for (size_t i = 0; i < batch.rows.rows; ++i) {
      CAIRN_RETURN_IF_ERROR(take(batch.rows.kind(i), OperatorId(batch.operator_ids[i]),
                                 batch.rows.key(i), batch.rows.value(i)));
    }
  }
  return {};
}

}  // namespace cairn::backend

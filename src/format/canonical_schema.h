// SPDX-License-Identifier: Apache-2.0
//
// The columns and metadata keys of the canonical stream, shared by its writer and reader.
#pragma once

#include <arrow/type.h>

namespace cairn::format {

inline constexpr char kCanonicalVersionKey[] = "clink.format_version";
inline constexpr char kCanonicalStateVersionsKey[] = "clink.state_versions";
inline constexpr char kSnapshotPartKey[] = "cairn.snapshot_part";
inline constexpr char kSnapshotKey[] = "cairn.snapshot";

/// op_id, key_bytes, value_bytes; of a changelog row_kind before them.
inline arrow::FieldVector CanonicalFields(bool with_row_kind) {
  arrow::FieldVector fields;
  if (with_row_kind) fields.push_back(arrow::field("row_kind", arrow::uint8(), false));
  fields.push_back(arrow::field("op_id", arrow::uint64(), false));
  fields.push_back(arrow::field("key_bytes", arrow::binary(), false));
  fields.push_back(arrow::field("value_bytes", arrow::binary(), false));
  return fields;
}

}  // namespace cairn::format

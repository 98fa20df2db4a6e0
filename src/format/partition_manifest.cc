// SPDX-License-Identifier: Apache-2.0
#include "format/partition_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/ids.h"
#include "format/json_fields.h"

namespace cairn::format {
namespace {

constexpr char kPartitionManifestRecord[] = "manifest.json";

bool EntryLess(const PartitionSnapshotEntry& a, const PartitionSnapshotEntry& b) {
  return std::tie(a.partition_id, a.is_delta) < std::tie(b.partition_id, b.is_delta);
}

/// Return what is wrong with the manifest, or nothing.
std::string FaultOf(const CheckpointManifestV2& manifest) {
  if (!base::IsCanonicalUuid(manifest.checkpoint_id)) {
    return fmt::format("checkpoint_id '{}' is no canonical UUID", manifest.checkpoint_id);
  }
  if (manifest.parent_id && !base::IsCanonicalUuid(*manifest.parent_id)) {
    return fmt::format("parent_id '{}' is no canonical UUID", *manifest.parent_id);
  }
  uint64_t total = 0;
  for (const auto& [name, op] : manifest.operators) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < op.partitions.size(); ++i) {
      bytes += op.partitions[i].size_bytes;
      if (i > 0 && !EntryLess(op.partitions[i - 1], op.partitions[i])) {
        return fmt::format("operator {}: partition {} is listed twice or out of order", name,
                           op.partitions[i].partition_id);
      }
      if (op.partitions[i].is_delta && !manifest.parent_id) {
        return fmt::format("operator {}: partition {} is a delta of no parent", name,
                           op.partitions[i].partition_id);
      }
    }
    if (bytes != op.total_bytes) {
      return fmt::format("operator {}: total_bytes is {}, its partitions have {}", name,
                         op.total_bytes, bytes);
    }
    total += bytes;
  }
  if (total != manifest.total_size_bytes) {
    return fmt::format("total_size_bytes is {}, the operators have {}", manifest.total_size_bytes,
                       total);
  }
  return {};
}

Json JsonOf(const OperatorSnapshotEntry& op) {
  Json partitions = Json::array();
  for (const PartitionSnapshotEntry& entry : op.partitions) {
    Json json = {{"partition_id", entry.partition_id},
                 {"is_delta", entry.is_delta},
                 {"path", entry.path},
                 {"size_bytes", entry.size_bytes}};
    if (entry.sha256) json["sha256"] = *entry.sha256;
    partitions.push_back(std::move(json));
  }
  return {{"partitions", std::move(partitions)}, {"total_bytes", op.total_bytes}};
}

OperatorSnapshotEntry ReadOperator(FieldReader* in) {
  OperatorSnapshotEntry op;
  in->ReadArray("partitions", [&](FieldReader* entry) {
    PartitionSnapshotEntry read;
    entry->Read("partition_id", &read.partition_id);
    entry->Read("is_delta", &read.is_delta);
    entry->Read("path", &read.path);
    entry->Read("size_bytes", &read.size_bytes);
    entry->ReadNullable("sha256", &read.sha256);
    op.partitions.push_back(std::move(read));
  });
  if (in->Has("total_bytes")) in->Read("total_bytes", &op.total_bytes);
  // Written in the order in which uploads ended by earlier writers.
  std::sort(op.partitions.begin(), op.partitions.end(), EntryLess);
  // Earlier writers need not have summed up.
  if (op.total_bytes == 0) {
    for (const PartitionSnapshotEntry& entry : op.partitions) op.total_bytes += entry.size_bytes;
  }
  return op;
}

void ReadPartitionManifest(FieldReader* in, CheckpointManifestV2* manifest) {
  in->Read("checkpoint_id", &manifest->checkpoint_id);
  in->Read("epoch", &manifest->epoch);
  in->Read("timestamp_ms", &manifest->timestamp_ms);
  // What earlier writers could leave out has a default.
  if (in->Has("operators")) {
    in->ReadMembers("operators", [&](const std::string& name, FieldReader* op) {
      manifest->operators[name] = ReadOperator(op);
    });
  }
  if (in->Has("source_offsets")) {
    in->ReadMembers("source_offsets", [&](const std::string& name, FieldReader* source) {
      SourceOffsetEntry& entry = manifest->source_offsets[name];
      source->Read("source_type", &entry.source_type);
      source->Read("offsets", &entry.offsets);
      source->Read("epoch", &entry.epoch);
    });
  }
  in->ReadNullable("parent_id", &manifest->parent_id);
  in->ReadNullable("watermark", &manifest->watermark);
  if (in->Has("total_size_bytes")) in->Read("total_size_bytes", &manifest->total_size_bytes);
  if (manifest->total_size_bytes == 0) {
    for (const auto& [name, op] : manifest->operators) {
      manifest->total_size_bytes += op.total_bytes;
    }
  }
}

}  // namespace

Result<std::string> SerializePartitionManifest(const CheckpointManifestV2& manifest) {
  if (const std::string fault = FaultOf(manifest); !fault.empty()) {
    return Status::InvalidArgument(std::string(kPartitionManifestRecord) + ": " + fault);
  }
  Json json = {{"version", kPartitionManifestVersion},
               {"checkpoint_id", manifest.checkpoint_id},
               {"epoch", manifest.epoch},
               {"timestamp_ms", manifest.timestamp_ms},
               {"operators", Json::object()},
               {"source_offsets", Json::object()},
               {"total_size_bytes", manifest.total_size_bytes}};
  for (const auto& [name, op] : manifest.operators) json["operators"][name] = JsonOf(op);
  for (const auto& [name, source] : manifest.source_offsets) {
    json["source_offsets"][name] = {
        {"source_type", source.source_type}, {"offsets", source.offsets}, {"epoch", source.epoch}};
  }
  if (manifest.parent_id) json["parent_id"] = *manifest.parent_id;
  if (manifest.watermark) json["watermark"] = *manifest.watermark;
  CAIRN_ASSIGN_OR_RETURN(std::string bytes, DumpCanonical(json, kPartitionManifestRecord));
  if (bytes.size() > kPartitionManifestBytesMax) {
    return Status::ResourceExhausted(fmt::format("{} has {} bytes, more than the {} allowed",
                                                 kPartitionManifestRecord, bytes.size(),
                                                 kPartitionManifestBytesMax));
  }
  return bytes;
}

Result<CheckpointManifestV2> ParsePartitionManifest(std::string_view bytes) {
  CheckpointManifestV2 manifest;
  CAIRN_RETURN_IF_ERROR(ReadRecord(bytes, kPartitionManifestBytesMax, kPartitionManifestRecord,
                                   kPartitionManifestVersion, "version",
                                   [&](FieldReader* in) { ReadPartitionManifest(in, &manifest); }));
  if (const std::string fault = FaultOf(manifest); !fault.empty()) {
    return Status::Corruption(std::string(kPartitionManifestRecord) + ": " + fault);
  }
  return manifest;
}

}  // namespace cairn::format

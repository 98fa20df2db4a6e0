// SPDX-License-Identifier: Apache-2.0
//
// The small records of a checkpoint place beside its manifests: FORMAT (what the place is),
// identity.json (whose it is), decision-head.json (which cut counts) and, where no file can be
// locked, lease.json (which process writes).
//
// All are canonical JSON with an exact version: unknown fields, another version and bytes that
// differ from their canonical re-encoding are refused.
//
// Threads: value types and pure functions.
// Format:  docs/formats/manifest.md, "Records beside the manifests".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "cairn/status.h"
#include "format/object_schema.h"

namespace cairn::format {

inline constexpr uint32_t kStoreFormatVersion = 1;
inline constexpr uint32_t kIdentityRecordVersion = 1;
inline constexpr uint32_t kDecisionHeadVersion = 1;
inline constexpr uint32_t kLeaseVersion = 1;
inline constexpr uint64_t kSmallRecordBytesMax = uint64_t{64} << 10;  ///< all but the head
inline constexpr uint64_t kDecisionHeadBytesMax = uint64_t{128} << 10;
inline constexpr uint32_t kRetainedCutsMax = 256;
inline constexpr uint32_t kHeadPinsMax = 128;
/// Checkpoint ids are taken from the head in blocks of this many.
inline constexpr uint64_t kCheckpointIdBlock = 65'536;

/// FORMAT: created once, never changed.
struct StoreFormat {
  std::string profile = "local";    ///< local | shared (several participants)
  std::string durability = "full";  ///< full | none (written without fsync)
  uint16_t partitioning_abi = 1;
  uint32_t key_groups = 128;
  friend bool operator==(const StoreFormat&, const StoreFormat&) = default;
};
Result<std::string> SerializeStoreFormat(const StoreFormat& format);
Result<StoreFormat> ParseStoreFormat(std::string_view bytes);

/// identity.json: created once, never changed.
struct DeploymentIdentity {
  std::string deployment_id;  ///< UUIDv7
  uint64_t created_ms = 0;
  std::string pipeline_name;
  SlotHash slot_hash;
  friend bool operator==(const DeploymentIdentity&, const DeploymentIdentity&) = default;
};
Result<std::string> SerializeDeploymentIdentity(const DeploymentIdentity& identity);
Result<DeploymentIdentity> ParseDeploymentIdentity(std::string_view bytes);

/// An exact reference to one cut.
struct CutReference {
  base::CheckpointId id;
  base::Sha256Digest manifest_sha256{};
  uint64_t manifest_length = 0;
  /// True when the cut published rows of an exactly-once sink: no older cut may be chosen after it.
  bool exactly_once_output = false;
  friend bool operator==(const CutReference&, const CutReference&) = default;
};

/// Keep a cut from retention.
struct HeadPin {
  std::string kind;  ///< savepoint | export | reader
  std::string name;
  base::CheckpointId checkpoint_id;
  friend bool operator==(const HeadPin&, const HeadPin&) = default;
};

/// decision-head.json: the authority on which checkpoint is committed. Changed by compare-and-swap.
///
/// Shape:    latest_commit.id < next_id; retained is newest first, all older than latest_commit and
///           not below floor; pins name latest or retained cuts and ascend by (kind, name).
struct DecisionHead {
  std::string deployment_id;
  uint64_t seq = 1;  ///< grows by one with every change
  std::optional<CutReference> latest_commit;
  std::vector<CutReference> retained;
  base::CheckpointId floor;       ///< nothing below may be chosen or referenced; never falls
  base::CheckpointId next_id{1};  ///< first id that no process has reserved
  std::vector<HeadPin> pins;
  friend bool operator==(const DecisionHead&, const DecisionHead&) = default;
};

/// Check the shape above.
///
/// Errors:   kCorruption, naming the field.
Status ValidateDecisionHead(const DecisionHead& head);

/// Errors:   kInternal for a head that breaks its shape · kResourceExhausted past the limit.
Result<std::string> SerializeDecisionHead(const DecisionHead& head);
/// Errors:   kUnsupportedFormat · kCorruption.
Result<DecisionHead> ParseDecisionHead(std::string_view bytes);

/// lease.json: which process writes. Changed by compare-and-swap.
///
/// Shape:    a holder that does not change the record for ttl_ms is gone, by the clock of whoever
///           watches it: clocks of two machines are never compared.
struct Lease {
  std::string holder;   ///< for people: "pid 7 on build-3"
  std::string machine;  ///< process ids are comparable only within one; empty = unknown
  uint64_t process = 0;
  uint64_t process_started = 0;  ///< tells two processes with one id apart
  uint64_t term = 1;             ///< grows with every new holder
  uint64_t renewals = 0;         ///< within the term
  uint64_t ttl_ms = 0;
  bool released = false;  ///< given back: the next holder need not wait
  friend bool operator==(const Lease&, const Lease&) = default;
};
Result<std::string> SerializeLease(const Lease& lease);
/// Errors:   kUnsupportedFormat · kCorruption.
Result<Lease> ParseLease(std::string_view bytes);

}  // namespace cairn::format

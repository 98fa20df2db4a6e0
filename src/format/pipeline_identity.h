// SPDX-License-Identifier: Apache-2.0
//
// Pipeline identity: the SHA-256 of what makes a pipeline the same one to recover. A checkpoint is
// only resumed by a pipeline of equal identity, so everything that changes the meaning of state or
// offsets is in it, and nothing else: no parallelism, no credentials, no paths of checkpoints.
//
// Threads: value types and pure functions.
// Format:  docs/formats/manifest.md, "Pipeline identity".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/column_spec.h"
#include "base/hash.h"
#include "cairn/status.h"

namespace cairn::format {

/// Version of the canonical payload that is hashed.
inline constexpr uint16_t kPipelineIdentityVersion = 1;
/// Version of how operators encode their state.
inline constexpr uint16_t kStateAbiVersion = 1;

/// Identity of the logical pipeline and of the layout of its state.
struct PipelineIdentity {
  uint16_t canonical_version = kPipelineIdentityVersion;
  base::Sha256Digest sha256 = base::Sha256::Of({});
  friend bool operator==(const PipelineIdentity&, const PipelineIdentity&) = default;
};

/// A source as it counts for identity.
struct SourceIdentity {
  std::string name;
  std::string connector;
  /// As the statement gave them. Keys are lower-cased; credentials are left out.
  std::map<std::string, std::string> options;
  std::vector<base::ColumnSpec> schema;
};

/// A stateful or stateless operator: its uid and the JSON its planner says of it.
struct OperatorIdentity {
  std::string uid;
  std::string identity_json = "{}";  ///< any JSON; made canonical here
};

struct SinkIdentity {
  std::string name;
  std::string connector;
  std::map<std::string, std::string> options;
  std::vector<base::ColumnSpec> schema;
};

struct PipelineDescription {
  std::vector<SourceIdentity> sources;
  std::vector<OperatorIdentity> operators;
  std::vector<SinkIdentity> sinks;
  uint32_t key_groups = 128;
  uint16_t partitioning_abi = 1;
};

/// True for option names whose values are secret: password, secret, token, key material.
bool IsCredentialOption(std::string_view lower_case_name);

/// The canonical JSON that is hashed; for a message that explains a difference.
///
/// Shape:    sources, operators and sinks sorted by name or uid.
/// Errors:   kInvalidArgument for two of one name, identity_json that is not JSON, text not UTF-8.
Result<std::string> CanonicalPipelineJson(const PipelineDescription& pipeline);

Result<PipelineIdentity> IdentityOf(const PipelineDescription& pipeline);

}  // namespace cairn::format

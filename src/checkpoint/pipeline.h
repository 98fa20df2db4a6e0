// SPDX-License-Identifier: Apache-2.0
//
// The job a store belongs to: its identity, and the words for what differs from another's.
#pragma once

#include <string>
#include <string_view>

#include "cairn/status.h"
#include "checkpoint/cut.h"
#include "format/pipeline_identity.h"

namespace cairn::checkpoint {

/// The identity that manifests carry.
///
/// Errors:   kInvalidArgument: two components of one name, or a definition that is not JSON.
Result<format::PipelineIdentity> IdentityOf(const Pipeline& pipeline, uint32_t key_groups);

/// The pipeline as text, for DifferenceOf. Kept beside the cuts as a hint.
///
/// Errors:   as IdentityOf.
Result<std::string> DescribePipeline(const Pipeline& pipeline);

/// Say what of `pipeline` differs from a saved description: "operator x was added; source y
/// changed". Empty when it cannot be told.
std::string DifferenceOf(std::string_view saved_description, const Pipeline& pipeline);

}  // namespace cairn::checkpoint

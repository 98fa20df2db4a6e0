// SPDX-License-Identifier: Apache-2.0
//
// The JSON of what several kinds of records hold: assignments, references to cuts, progress.
#pragma once

#include "format/assignment.h"
#include "format/json_fields.h"
#include "format/manifest.h"
#include "format/shared_records.h"

namespace cairn::format {

Json ToJson(const ProcessIdentity& process);
void Read(FieldReader* in, ProcessIdentity* process);
Json ToJson(const LeaderProof& leader);
void Read(FieldReader* in, LeaderProof* leader);
Json ToJson(const AssignmentFence& fence);
void Read(FieldReader* in, AssignmentFence* fence);
Json ToJson(const ClusterShare& share);
void Read(FieldReader* in, ClusterShare* share);
Json ToJson(const IndexReference& cut);
void Read(FieldReader* in, IndexReference* cut);
/// Read a cut that may be absent.
void ReadCutIfThere(FieldReader* in, const char* name, std::optional<IndexReference>* cut);
Json ToJson(const ChannelProgress& progress);
void Read(FieldReader* in, ChannelProgress* progress);

}  // namespace cairn::format

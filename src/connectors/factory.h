// SPDX-License-Identifier: Apache-2.0
//
// From CREATE TABLE … WITH (connector = …) to a source or sink.
//
// connector   as     options
// filesystem  source path, format (ndjson|csv|parquet), on_error (fail|skip), split_bytes;
//                    csv: delimiter, quote, header, null
//             sink   path, format, changelog; csv: delimiter, quote, header, null;
//                    parquet: compression (none|snappy|zstd|lz4|gzip)
// nexmark     source table (bid), events, seed, rate
// print       sink   format (ndjson|table), changelog
// blackhole   sink   changelog
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cairn/status.h"
#include "env/clock.h"
#include "env/file_system.h"
#include "stream/sink.h"
#include "stream/source.h"
#include "stream/table_definition.h"

namespace cairn::connectors {

/// Make the source of `table`, which reads the columns with the given indices, in that order.
///
/// Errors:   kInvalidArgument naming the table and what is wrong: an unknown connector, option or
///           value (with those it knows), a missing option, a type it cannot read.
Result<std::unique_ptr<stream::Source>> MakeSource(const stream::TableDefinition& table,
                                                   const std::vector<int>& columns,
                                                   env::FileSystem* files,
                                                   env::Clock* clock = env::SystemClock());

/// Check that offsets saved by a source of identity `saved` can serve one of identity `now`: only
/// where the rows lie may differ.
///
/// Errors:   kInvalidArgument, naming the option that may not.
Status CheckSavedOffsets(const std::string& saved, const std::string& now);

/// Make the sink of `table`. `updating` = its input has row kinds other than +I.
///
/// Errors:   as MakeSource; also kInvalidArgument when the input updates and the table has no
///           changelog = true.
Result<std::unique_ptr<stream::Sink>> MakeSink(const stream::TableDefinition& table, bool updating,
                                               const stream::SinkWriterId& writer,
                                               env::FileSystem* files);

/// True when a sink of the same deployment with identity `now` can commit what one of identity
/// `saved` prepared: both write to one place.
bool CommitsFor(const std::string& now, const std::string& saved);

/// Make what takes over a sink of another deployment, where it was called `writer`, for the one
/// that is called `successor`; null when such a sink leaves nothing to take over. `identity` is its
/// Sink::Identity.
///
/// Errors:   kInvalidArgument: an identity of a connector that is unknown.
Result<std::unique_ptr<stream::SavedSink>> MakeSavedSink(const std::string& identity,
                                                         const std::string& writer,
                                                         const std::string& successor,
                                                         env::FileSystem* files);

}  // namespace cairn::connectors

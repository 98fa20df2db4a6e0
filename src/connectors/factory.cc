// SPDX-License-Identifier: Apache-2.0
#include "connectors/factory.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "connectors/filesystem_sink.h"
#include "connectors/filesystem_source.h"
#include "connectors/nexmark_source.h"
#include "connectors/option_reader.h"
#include "connectors/print_sink.h"
#include "stream/event_time_options.h"

namespace cairn::connectors {
namespace {

FileFormat ReadFormat(OptionReader* options) {
  const std::string given = options->RequiredText("format");
  if (given.empty()) return FileFormat::kNdjson;
  return static_cast<FileFormat>(options->Choice("format", {"ndjson", "csv", "parquet"}, 0));
}

void ReadDialect(OptionReader* options, CsvDialect* dialect, std::string* null_text) {
  dialect->delimiter = options->Char("delimiter", ',');
  dialect->quote = options->Char("quote", '"');
  *null_text = options->Text("null", "");
  if (dialect->delimiter == dialect->quote) options->Fail("quote", "equals the delimiter");
  for (const char c : *null_text) {
    if (c == dialect->quote || c == dialect->delimiter || c == '\n' || c == '\r') {
      options->Fail("null", "holds a quote, a delimiter or a line end");
    }
  }
}

Result<std::unique_ptr<stream::Source>> FilesystemSourceOf(const stream::TableDefinition& table,
                                                           const std::vector<int>& columns,
                                                           env::FileSystem* files) {
  OptionReader reader(table);
  FilesystemSourceOptions options;
  options.path = reader.Path("path");
  options.format = ReadFormat(&reader);
  options.on_error = static_cast<OnError>(reader.Choice("on_error", {"fail", "skip"}, 0));
  options.split_bytes = reader.Number("split_bytes", kDefaultSplitBytes, 1, uint64_t{1} << 40);
  if (options.format == FileFormat::kCsv) {
    ReadDialect(&reader, &options.csv.dialect, &options.csv.null_text);
    options.csv.header = reader.Bool("header", true);
    options.csv.on_error = options.on_error;
  }
  reader.AlsoKnown({"changelog"});
  if (options.format == FileFormat::kParquet) reader.AlsoKnown({"compression"});
  CAIRN_RETURN_IF_ERROR(reader.Finish());
  reader.MayChange({"on_error"});
  options.identity = reader.Identity();
  if (options.format == FileFormat::kParquet && options.on_error == OnError::kSkip) {
    return Status::InvalidArgument("table " + table.name +
                                   ": on_error = 'skip' is for lines of text; a Parquet file is "
                                   "whole or damaged");
  }
  return MakeFilesystemSource(table, columns, std::move(options), files);
}

Result<std::unique_ptr<stream::Source>> NexmarkSourceOf(const stream::TableDefinition& table,
                                                        const std::vector<int>& columns,
                                                        env::Clock* clock) {
  OptionReader reader(table);
  NexmarkOptions options;
  (void)reader.Choice("table", {"bid"}, 0);
  (void)reader.RequiredText("events");
  options.events = reader.Number("events", 0, 0, uint64_t{1} << 50);
  options.seed = reader.Number("seed", 1, 0, UINT64_MAX);
  options.rate = reader.Number("rate", 0, 0, 1'000'000'000);
  CAIRN_RETURN_IF_ERROR(reader.Finish());
  reader.MayChange({"events", "rate"});  // more events only add bids
  options.identity = reader.Identity();
  return MakeNexmarkSource(table, columns, options, clock);
}

/// "a BIGINT, b TEXT".
std::string ColumnsText(const stream::TableDefinition& table) {
  std::string text;
  for (const stream::ColumnDefinition& column : table.columns) {
    text += (text.empty() ? "" : ", ") + column.name + " " + stream::SqlTypeName(*column.type);
  }
  return text;
}

Result<std::unique_ptr<stream::Sink>> FilesystemSinkOf(const stream::TableDefinition& table,
                                                       bool updating,
                                                       const stream::SinkWriterId& writer,
                                                       env::FileSystem* files) {
  OptionReader reader(table);
  FilesystemSinkOptions options;
  options.path = reader.Path("path");
  options.format = ReadFormat(&reader);
  options.changelog = reader.Bool("changelog", false);
  if (options.format == FileFormat::kCsv) {
    ReadDialect(&reader, &options.csv, &options.null_text);
    options.header = reader.Bool("header", true);
  }
  if (options.format == FileFormat::kParquet) {
    options.compression = reader.Text("compression", options.compression);
  }
  reader.AlsoKnown({"on_error", "split_bytes"});
  CAIRN_RETURN_IF_ERROR(reader.Finish());
  reader.MayChange({"compression"});  // each file says its own
  reader.Note("columns", ColumnsText(table));
  options.identity = reader.Identity();
  if (updating && !options.changelog) {
    return Status::InvalidArgument(
        "table " + table.name +
        ": the query updates rows it has written, which files cannot; give the table changelog = "
        "'true' to write every change with its kind in a column \"op\"");
  }
  return MakeFilesystemSink(table, std::move(options), writer, files);
}

Result<std::unique_ptr<stream::Sink>> PrintSinkOf(const stream::TableDefinition& table,
                                                  bool updating) {
  OptionReader reader(table);
  RowTextOptions options;
  constexpr RowTextFormat kFormats[] = {RowTextFormat::kNdjson, RowTextFormat::kTable};
  options.format = kFormats[reader.Choice("format", {"ndjson", "table"}, 0)];
  options.changelog = reader.Bool("changelog", updating) || updating;
  CAIRN_RETURN_IF_ERROR(reader.Finish());
  return MakePrintSink(table, options, stdout);
}

Status Unknown(const stream::TableDefinition& table, const char* role, const char* known) {
  return Status::InvalidArgument("table " + table.name + ": there is no connector '" +
                                 table.connector + "' " + role + "; those known: " + known);
}

}  // namespace

Result<std::unique_ptr<stream::Source>> MakeSource(const stream::TableDefinition& table,
                                                   const std::vector<int>& columns,
                                                   env::FileSystem* files, env::Clock* clock) {
  if (table.connector == "filesystem") return FilesystemSourceOf(table, columns, files);
  if (table.connector == "nexmark") return NexmarkSourceOf(table, columns, clock);
  return Unknown(table, "to read from", "filesystem, nexmark");
}

Result<std::unique_ptr<stream::Sink>> MakeSink(const stream::TableDefinition& table, bool updating,
                                               const stream::SinkWriterId& writer,
                                               env::FileSystem* files) {
  if (table.connector == "filesystem") return FilesystemSinkOf(table, updating, writer, files);
  if (table.connector == "print") return PrintSinkOf(table, updating);
  if (table.connector == "blackhole") {
    OptionReader reader(table);
    (void)reader.Bool("changelog", false);
    CAIRN_RETURN_IF_ERROR(reader.Finish());
    std::unique_ptr<stream::Sink> sink = std::make_unique<BlackholeSink>();
    return sink;
  }
  return Unknown(table, "to write to", "filesystem, print, blackhole");
}

Status CheckSavedOffsets(const std::string& saved_identity, const std::string& identity) {
  const auto saved = nlohmann::json::parse(saved_identity, nullptr, /*allow_exceptions=*/false);
  const auto now = nlohmann::json::parse(identity, nullptr, /*allow_exceptions=*/false);
  if (!saved.is_object() || !now.is_object()) return {};
  for (const nlohmann::json* one : {&saved, &now}) {
    for (const auto& [option, value] : one->items()) {
      // Another watermark means other times, which the user may want.
      if (option == "path" || option == stream::kWatermarkOption) continue;
      if (saved.contains(option) && now.contains(option) && saved[option] == now[option]) continue;
      return Status::InvalidArgument(
          "its offsets count by " + option + " = " +
          (saved.contains(option) ? saved[option].dump() : "nothing") + ", which is " +
          (now.contains(option) ? now[option].dump() : "not given") + " now");
    }
  }
  return {};
}

namespace {

/// What a sink's identity says of where it writes; empty = not said.
struct SinkTarget {
  std::string connector;
  std::string path;
};

SinkTarget TargetOf(const std::string& identity) {
  const auto json = nlohmann::json::parse(identity, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  const auto text = [&json](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  return {text("connector"), text("path")};
}

}  // namespace

bool CommitsFor(const std::string& now, const std::string& saved) {
  const SinkTarget one = TargetOf(now);
  const SinkTarget other = TargetOf(saved);
  return one.connector == "filesystem" && other.connector == "filesystem" && !one.path.empty() &&
         one.path == other.path;
}

Result<std::unique_ptr<stream::SavedSink>> MakeSavedSink(const std::string& identity,
                                                         const std::string& writer,
                                                         const std::string& successor,
                                                         env::FileSystem* files) {
  const SinkTarget target = TargetOf(identity);
  if (target.connector == "print" || target.connector == "blackhole") {
    return std::unique_ptr<stream::SavedSink>();
  }
  if (target.connector == "filesystem" && !target.path.empty()) {
    return MakeSavedFilesystemSink(target.path, writer, successor, files);
  }
  return Status::InvalidArgument("a sink was saved that this version cannot take over: " +
                                 identity.substr(0, 200));
}

}  // namespace cairn::connectors

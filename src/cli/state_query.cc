// SPDX-License-Identifier: Apache-2.0
//
// The engine reads typed exports like any other Parquet files, so a query needs no code of its own
// but the netting of its result: an updating query gives a changelog, and what stands at its end is
// the answer.
#include "cli/state_query.h"

#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cli/raw_projection.h"
#include "cli/staged_file.h"
#include "cli/state_export.h"
#include "cli/state_source.h"
#include "cli/typed_slot.h"
#include "engine/run_job.h"
#include "env/clock.h"
#include "format/row_codec.h"
#include "sql/compile.h"
#include "stream/table_definition.h"

namespace cairn::cli {
namespace {

constexpr std::string_view kRawTable = "state";
constexpr std::string_view kResultTable = "cairn_query_result";
constexpr uint64_t kResultFileBytesMax = uint64_t{1} << 40;

/// A directory of its own below $TMPDIR, removed with all files in it.
class TemporaryDirectory {
 public:
  static Result<std::unique_ptr<TemporaryDirectory>> Make(env::FileSystem* files) {
    const char* parent = std::getenv("TMPDIR");
    const std::string path =
        fmt::format("{}/cairn-query-{:016x}", parent == nullptr || *parent == 0 ? "/tmp" : parent,
                    env::SystemRandom()->Next());
    CAIRN_RETURN_IF_ERROR(files->CreateDirectory(path));
    return std::unique_ptr<TemporaryDirectory>(new TemporaryDirectory(files, path));
  }
  ~TemporaryDirectory() { Remove(path_); }
  const std::string& path() const { return path_; }

 private:
  TemporaryDirectory(env::FileSystem* files, std::string path)
      : files_(files), path_(std::move(path)) {}

  /// What cannot be removed stays in the system's temporary folder, which is its job to empty.
  void Remove(const std::string& directory) {
    const auto entries = files_->ListDirectory(directory);
    if (!entries.ok()) return;
    for (const env::DirectoryEntry& entry : *entries) {
      const std::string path = env::JoinPath(directory, entry.name);
      if (entry.is_directory) {
        Remove(path);
      } else {
        (void)files_->RemoveFile(path);
      }
    }
    (void)files_->RemoveDirectory(directory);
  }

  env::FileSystem* files_;
  std::string path_;
};

std::string Quoted(std::string_view text, char quote) {
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote) out += quote;
    out += c;
  }
  return out + quote;
}

/// The SQL spelling of a column's type.
Result<std::string> SqlTypeOf(const arrow::DataType& type) {
  CAIRN_ASSIGN_OR_RETURN(const std::string name, format::ColumnTypeOf(type));
  return name;
}

/// CREATE TABLE of the columns of `schema` that SQL can hold; opaque bytes have no SQL type and
/// are left out.
Result<std::string> CreateTable(std::string_view name, const arrow::Schema& schema,
                                std::string_view path, std::string_view options) {
  std::string columns;
  for (const auto& field : schema.fields()) {
    if (field->type()->id() == arrow::Type::BINARY) continue;
    CAIRN_ASSIGN_OR_RETURN(const std::string type, SqlTypeOf(*field->type()));
    columns +=
        fmt::format("{}{} {}", columns.empty() ? "" : ", ", Quoted(field->name(), '"'), type);
  }
  return fmt::format("CREATE TABLE {} ({}) WITH (connector = 'filesystem', path = {}, {}); ",
                     Quoted(name, '"'), columns, Quoted(path, '\''), options);
}

/// True when `word` stands in `text` as a word of its own: a table that the query may name.
bool Mentions(std::string_view text, std::string_view word) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  for (size_t at = 0; at + word.size() <= text.size(); ++at) {
    bool matches = true;
    for (size_t i = 0; i < word.size() && matches; ++i) matches = same(text[at + i], word[i]);
    const bool begins = at == 0 || !is_word(text[at - 1]);
    const bool ends = at + word.size() == text.size() || !is_word(text[at + word.size()]);
    if (matches && begins && ends) return true;
  }
  return false;
}

/// Export the tables that the query may name and return their CREATE TABLE statements, on one line.
Result<std::string> ExportTables(env::FileSystem* files, const StateSource& source,
                                 const std::string& sql, const std::string& directory) {
  std::string statements;
  std::string known(kRawTable);
  const std::vector<std::string> names = SlotTableNames(source.slots());
  for (size_t slot = 0; slot < names.size(); ++slot) {
    known += ", " + names[slot];
    if (!Mentions(sql, names[slot])) continue;
    CAIRN_ASSIGN_OR_RETURN(
        const auto file,
        StagedFile::Create(files, env::JoinPath(directory, names[slot] + ".parquet")));
    CAIRN_RETURN_IF_ERROR(WriteTypedSlot(source, slot, TableFormat::kParquet, file.get()).status());
    CAIRN_RETURN_IF_ERROR(file->Commit());
    CAIRN_ASSIGN_OR_RETURN(const auto schema, TypedSchemaOf(source.slots()[slot]));
    CAIRN_ASSIGN_OR_RETURN(const std::string statement,
                           CreateTable(names[slot], *schema, file->path(), "format = 'parquet'"));
    statements += statement;
  }
  const bool taken = std::find(names.begin(), names.end(), kRawTable) != names.end();
  if (!taken && Mentions(sql, kRawTable)) {
    CAIRN_ASSIGN_OR_RETURN(const auto file,
                           StagedFile::Create(files, env::JoinPath(directory, "state.parquet")));
    CAIRN_RETURN_IF_ERROR(WriteRawProjection(source, file.get()));
    CAIRN_RETURN_IF_ERROR(file->Commit());
    CAIRN_ASSIGN_OR_RETURN(
        const std::string statement,
        CreateTable(kRawTable, *RawProjectionSchema(), file->path(), "format = 'parquet'"));
    statements += statement;
  }
  if (statements.empty()) {
    return Status::InvalidArgument(
        fmt::format("the query names no table of {}. Its tables are: {}", source.Name(), known));
  }
  return statements;
}

/// The columns of the query's result, by compiling it.
Result<std::shared_ptr<arrow::Schema>> ResultSchema(const std::string& tables,
                                                    const std::string& sql) {
  CAIRN_ASSIGN_OR_RETURN(const stream::LogicalPlan plan, sql::Compile(tables + "\n" + sql));
  if (plan.pipelines.size() != 1 || plan.pipelines[0].sink.connector != "print" ||
      !plan.options.empty()) {
    return Status::InvalidArgument("a query is one SELECT statement. Leave out everything else");
  }
  return stream::SchemaOf(plan.pipelines[0].sink);
}

/// Rows of a changelog netted: each row that stands, and how often.
class NettedRows {
 public:
  /// Take a line {"op":"+I",…}.
  Status Add(std::string_view line) {
    constexpr std::string_view kOp = "{\"op\":\"";
    const size_t rest = kOp.size() + 3;  // the kind of two characters and its quote
    if (!line.starts_with(kOp) || line.size() <= rest) {
      return Status::Internal(fmt::format("a result row has no op: {}", line));
    }
    const bool adds = line[kOp.size()] == '+';
    // Behind the op: ,"a":1} or }, when there are no columns.
    std::string row = "{" + std::string(line.substr(line[rest] == ',' ? rest + 1 : rest));
    const auto at = copies_.try_emplace(std::move(row), 0).first;
    at->second += adds ? 1 : -1;
    if (at->second == 0) copies_.erase(at);
    return {};
  }
  void Print(Output* out) const {
    for (const auto& [row, copies] : copies_) {
      for (int64_t i = 0; i < copies; ++i) out->Line(row);
    }
  }

 private:
  std::map<std::string, int64_t> copies_;
};

Status PrintResult(env::FileSystem* files, const std::string& directory, Output* out) {
  NettedRows rows;
  const auto entries = files->ListDirectory(directory);
  if (!entries.ok()) {
    return entries.status().code() == StatusCode::kNotFound ? Status() : entries.status();
  }
  for (const env::DirectoryEntry& entry : *entries) {
    if (entry.is_directory || entry.name[0] == '_' || entry.name[0] == '.') continue;
    CAIRN_ASSIGN_OR_RETURN(
        const std::string text,
        env::ReadWholeFile(files, env::JoinPath(directory, entry.name), kResultFileBytesMax));
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      CAIRN_RETURN_IF_ERROR(rows.Add(std::string_view(text).substr(at, end - at)));
      at = end + 1;
    }
  }
  rows.Print(out);
  return {};
}

}  // namespace

Result<ExitCode> QueryState(env::FileSystem* files, const QueryOptions& options, Output* out) {
  std::string sql = options.sql;
  while (!sql.empty() &&
         (std::isspace(static_cast<unsigned char>(sql.back())) != 0 || sql.back() == ';')) {
    sql.pop_back();
  }
  CAIRN_ASSIGN_OR_RETURN(const auto source,
                         OpenStateSource(files, options.source, options.materialisation_store));
  CAIRN_ASSIGN_OR_RETURN(const auto scratch, TemporaryDirectory::Make(files));
  CAIRN_ASSIGN_OR_RETURN(const std::string tables,
                         ExportTables(files, *source, sql, scratch->path()));
  CAIRN_ASSIGN_OR_RETURN(const auto schema, ResultSchema(tables, sql));
  const std::string result = env::JoinPath(scratch->path(), "result");
  CAIRN_ASSIGN_OR_RETURN(
      const std::string sink,
      CreateTable(kResultTable, *schema, result, "format = 'ndjson', changelog = true"));

  engine::JobSpec spec;
  spec.name = "query";
  spec.sql = fmt::format("{}{}\nINSERT INTO {} {};", tables, sink, kResultTable, sql);
  spec.checkpoints = "none";
  spec.files = files;
  CAIRN_RETURN_IF_ERROR(engine::RunJob(spec, {}).status());
  CAIRN_RETURN_IF_ERROR(PrintResult(files, result, out));
  return ExitCode::kDone;
}

}  // namespace cairn::cli

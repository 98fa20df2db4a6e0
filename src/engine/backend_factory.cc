// SPDX-License-Identifier: Apache-2.0
#include "engine/backend_factory.h"

#include <charconv>
#include <utility>
#include <vector>

#include "backend/changelog/changelog_backend.h"
#include "backend/remote/disagg_local.h"
#include "backend/table/table_backend.h"

namespace cairn::engine {
namespace {

env::FileSystem* FilesOf(const BackendSpec& spec) {
  return spec.files != nullptr ? spec.files : env::PosixFileSystem();
}

std::string SubtaskDirectory(const std::string& base, uint32_t subtask) {
  return env::JoinPath(base, std::to_string(subtask));
}

/// Tables as `uri` wants them; a path makes their snapshots files.
backend::TableBackendOptions TablesOf(const BackendUri& uri, const BackendSpec& spec) {
  backend::TableBackendOptions options;
  options.state = spec.state;
  options.uri = uri.text.empty() ? "memory://" : uri.text;
  options.fsync = spec.fsync;
  if (!uri.path.empty()) {
    options.files = FilesOf(spec);
    options.directory = SubtaskDirectory(uri.path, spec.state.subtask);
  }
  return options;
}

Result<std::unique_ptr<StateBackend>> BuildTables(const BackendUri& uri, const BackendSpec& spec) {
  backend::TableBackendOptions options = TablesOf(uri, spec);
  if (uri.scheme == "memory+sharded") options.shards = backend::kShards;
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<StateBackend> built,
                         backend::TableBackend::Open(std::move(options)));
  return built;
}

Result<std::unique_ptr<StateBackend>> BuildChangelog(const BackendUri& uri,
                                                     const BackendSpec& spec) {
  backend::ChangelogOptions options;
  options.tables = TablesOf(uri, spec);
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<StateBackend> built,
                         backend::ChangelogBackend::Open(std::move(options)));
  return built;
}

/// A numeric parameter; nothing when it is not given.
Result<std::optional<uint64_t>> NumberOf(const BackendUri& uri, const std::string& name) {
  const auto given = uri.parameters.find(name);
  if (given == uri.parameters.end()) return std::optional<uint64_t>();
  uint64_t number = 0;
  const char* end = given->second.data() + given->second.size();
  const auto [stop, error] = std::from_chars(given->second.data(), end, number);
  if (error != std::errc() || stop != end || given->second.empty()) {
    return Status::InvalidArgument("parameter " + name + " of " + uri.text + " is '" +
                                   given->second + "'; it is a whole number");
  }
  return std::optional<uint64_t>(number);
}

constexpr uint64_t kMostIoThreads = 1'024;

Result<std::unique_ptr<StateBackend>> BuildDisaggLocal(const BackendUri& uri,
                                                       const BackendSpec& spec) {
  backend::DisaggLocalOptions options;
  options.state = spec.state;
  options.uri = uri.text;
  CAIRN_ASSIGN_OR_RETURN(options.io_threads, NumberOf(uri, "io_threads"));
  if (options.io_threads.value_or(0) > kMostIoThreads) {
    return Status::InvalidArgument("parameter io_threads of " + uri.text + " may be " +
                                   std::to_string(kMostIoThreads) + " at most");
  }
  CAIRN_ASSIGN_OR_RETURN(options.hot_max_bytes, NumberOf(uri, "hot_max_bytes"));
  return backend::OpenDisaggLocal(options);
}

/// The files of all subtasks that took part in a checkpoint.
Result<std::vector<RestorePart>> PartsOf(const BackendUri& uri, const BackendSpec& spec) {
  const BackendRestore& restore = *spec.restore;
  if (uri.scheme == "disagg-local") {
    return backend::FindDisaggLocal(spec.state.name, restore.checkpoint_id, restore.parallelism);
  }
  CAIRN_ASSIGN_OR_RETURN(const BackendUri from,
                         ParseUri(restore.uri.empty() ? uri.text : restore.uri));
  if (from.scheme != uri.scheme || from.path.empty()) {
    return Status::InvalidArgument("a backend " + uri.scheme + ":// cannot begin with checkpoint " +
                                   std::to_string(restore.checkpoint_id) + " of " + from.text +
                                   ": its snapshots are not files of that kind");
  }
  const std::string_view kind = from.scheme == "file" ? "checkpoint-" : "changelog-";
  std::vector<RestorePart> parts;
  for (uint32_t subtask = 0; subtask < restore.parallelism; ++subtask) {
    RestorePart& part = parts.emplace_back();
    part.subtask = subtask;
    part.parallelism = restore.parallelism;
    part.snapshot.checkpoint_id = restore.checkpoint_id;
    part.snapshot.form = SnapshotForm::kStored;
    part.snapshot.location =
        env::JoinPath(SubtaskDirectory(from.path, subtask),
                      std::string(kind) + std::to_string(restore.checkpoint_id) + ".snap");
  }
  return parts;
}

}  // namespace

BackendRegistry::BackendRegistry() {
  for (const char* scheme : {"memory", "memory+sharded", "file"}) builders_[scheme] = BuildTables;
  for (const char* scheme : {"changelog", "changelog+file"}) builders_[scheme] = BuildChangelog;
  builders_["disagg-local"] = BuildDisaggLocal;
}

Status BackendRegistry::Register(std::string_view scheme, BackendBuilder builder) {
  const std::string name(ResolveAlias(scheme));
  if (!IsKnownScheme(name)) {
    return Status::InvalidArgument("'" + name + "' is no scheme of a backend; there are " +
                                   KnownSchemes());
  }
  if (!builders_.emplace(name, std::move(builder)).second) {
    return Status::AlreadyExists("the scheme " + name + ":// has a builder already");
  }
  return {};
}

bool BackendRegistry::Has(std::string_view scheme) const {
  return builders_.contains(ResolveAlias(scheme));
}

Result<std::unique_ptr<StateBackend>> BackendRegistry::Build(const BackendSpec& spec) const {
  CAIRN_ASSIGN_OR_RETURN(const BackendUri uri, ParseUri(spec.uri));
  const auto builder = builders_.find(uri.scheme);
  if (builder == builders_.end()) {
    std::string built;
    for (const auto& [scheme, unused] : builders_) {
      built += (built.empty() ? "" : ", ") + scheme + "://";
    }
    return Status::InvalidArgument("the backend " + uri.scheme +
                                   ":// is not built yet; this build has " + built);
  }
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<StateBackend> backend, builder->second(uri, spec));
  if (!spec.restore) return backend;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<RestorePart> parts, PartsOf(uri, spec));
  CAIRN_RETURN_IF_ERROR(backend->Restore(parts).status());
  return backend;
}

}  // namespace cairn::engine

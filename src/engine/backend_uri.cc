// SPDX-License-Identifier: Apache-2.0
#include "engine/backend_uri.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace cairn::engine {
namespace {

/// Whether a scheme is followed by a path.
enum class PathRule { kNone, kDirectory, kAny };

/// One scheme with a meaning.
struct Scheme {
  std::string_view name;
  std::string_view alias_of;  ///< empty = none
  PathRule path;
  std::string_view parameters;  ///< those of an object store are kObject
  bool built;
};

constexpr std::string_view kNothing = "";
constexpr std::string_view kObject = "endpoint region anonymous path_style";
constexpr std::string_view kDeferred = "defer_reads io_threads";
constexpr std::string_view kSst =
    "sst_cache sst_cache_bytes defer_reads io_threads endpoint region anonymous path_style";
constexpr std::string_view kRemote =
    "hot_max_bytes io_threads endpoint region anonymous path_style";

constexpr Scheme kSchemes[] = {
    {"memory", "", PathRule::kNone, kNothing, true},
    {"memory+sharded", "", PathRule::kNone, kNothing, true},
    {"file", "", PathRule::kDirectory, kNothing, true},
    {"changelog", "", PathRule::kNone, kNothing, true},
    {"changelog+file", "", PathRule::kDirectory, kNothing, true},
    {"rocksdb", "", PathRule::kAny, kDeferred, false},
    {"changelog+rocksdb", "", PathRule::kAny, kDeferred, false},
    {"s3+rocksdb", "", PathRule::kAny, kObject, false},
    {"changelog+s3", "", PathRule::kAny, kObject, false},
    {"changelog+s3+rocksdb", "", PathRule::kAny, kObject, false},
    {"s3sst", "", PathRule::kAny, kSst, false},
    {"remote-read", "", PathRule::kAny, kRemote, false},
    {"disagg-local", "", PathRule::kNone, "hot_max_bytes io_threads", true},
    {"forst", "rocksdb", PathRule::kAny, kDeferred, false},
    {"changelog+forst", "changelog+rocksdb", PathRule::kAny, kDeferred, false},
    {"s3+forst", "s3+rocksdb", PathRule::kAny, kObject, false},
    {"changelog+s3+forst", "changelog+s3+rocksdb", PathRule::kAny, kObject, false},
    {"s3sst+forst", "s3sst", PathRule::kAny, kSst, false},
};

const Scheme* FindScheme(std::string_view name) {
  for (const Scheme& scheme : kSchemes) {
    if (scheme.name == name) return &scheme;
  }
  return nullptr;
}

std::string JoinSchemes(bool built_only) {
  std::string text;
  for (const Scheme& scheme : kSchemes) {
    if (built_only && !scheme.built) continue;
    text += (text.empty() ? "" : ", ") + std::string(scheme.name) + "://";
  }
  return text;
}

/// True when `name` is one of the words of `names`.
bool HasWord(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t space = std::min(names.find(' '), names.size());
    if (names.substr(0, space) == name) return true;
    names.remove_prefix(std::min(space + 1, names.size()));
  }
  return false;
}

/// Split SCHEME://PATH?PARAMETERS; a text without "://" is a path.
BackendUri SplitUri(std::string_view uri, std::string* query) {
  BackendUri parts;
  parts.text = std::string(uri);
  const size_t mark = uri.find("://");
  if (mark == std::string_view::npos) {
    parts.scheme = uri.empty() ? "memory" : "file";
    parts.path = std::string(uri);
    return parts;
  }
  parts.scheme = std::string(uri.substr(0, mark));
  parts.path = std::string(uri.substr(mark + 3));
  std::transform(parts.scheme.begin(), parts.scheme.end(), parts.scheme.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const size_t question = parts.path.find('?');
  if (question == std::string::npos) return parts;
  *query = parts.path.substr(question + 1);
  parts.path.resize(question);
  return parts;
}

/// "memory:", "s3:/bucket", "memory" or a blank would silently become a directory of that name.
Status RefuseAlmostScheme(std::string_view text, const std::string& schemes) {
  if (text.find("://") != std::string_view::npos) return {};
  if (!text.empty() && text.find_first_not_of(" \t") == std::string_view::npos) {
    return Status::InvalidArgument("'" + std::string(text) + "' is blank; give " + schemes +
                                   " or a directory");
  }
  const size_t colon = text.find(':');
  const bool before_slash = colon != std::string_view::npos && colon < text.find('/');
  const bool word = std::all_of(
      text.begin(), text.begin() + std::min(colon, text.size()),
      [](unsigned char c) { return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.'; });
  std::string scheme(text.substr(0, colon));
  if (!(before_slash && word && colon > 0) && FindScheme(scheme) == nullptr && scheme != "s3") {
    return {};
  }
  return Status::InvalidArgument("'" + std::string(text) +
                                 "' looks like a scheme without '://'; "
                                 "there are " +
                                 schemes + ". A directory of that name is ./" + std::string(text));
}

/// file://host/x would silently become the relative directory host/x.
Status RefuseHost(const BackendUri& parts) {
  const bool is_file = parts.scheme == "file" || parts.scheme == "changelog+file";
  if (!is_file || parts.text.find("://") == std::string::npos || parts.path.empty() ||
      parts.path.front() == '/') {
    return {};
  }
  return Status::InvalidArgument(parts.text + " names a host '" +
                                 parts.path.substr(0, parts.path.find('/')) +
                                 "': a local directory is written file:///absolute/path, or "
                                 "without file:// when it is relative");
}

Status ParseParameters(std::string_view query, std::string_view known, BackendUri* parts) {
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    const std::string name(pair.substr(0, equals));
    if (!HasWord(known, name)) {
      std::string list(known);
      std::replace(list.begin(), list.end(), ' ', ',');
      return Status::InvalidArgument("unknown parameter '" + name + "' in " + parts->text + ": " +
                                     parts->scheme + ":// takes " + (list.empty() ? "none" : list));
    }
    const std::string value(pair.substr(std::min(equals + 1, pair.size())));
    if (!parts->parameters.emplace(name, value).second) {
      return Status::InvalidArgument("parameter '" + name + "' is given twice in " + parts->text);
    }
  }
  return {};
}

}  // namespace

bool IsKnownScheme(std::string_view scheme) { return FindScheme(scheme) != nullptr; }

std::string KnownSchemes() { return JoinSchemes(false); }

std::string_view ResolveAlias(std::string_view scheme) {
  const Scheme* found = FindScheme(scheme);
  return found == nullptr || found->alias_of.empty() ? scheme : found->alias_of;
}

Result<BackendUri> ParseUri(std::string_view uri) {
  CAIRN_RETURN_IF_ERROR(RefuseAlmostScheme(uri, KnownSchemes()));
  std::string query;
  BackendUri parts = SplitUri(uri, &query);
  const Scheme* scheme = FindScheme(parts.scheme);
  if (scheme == nullptr) {
    return Status::InvalidArgument("no backend has the scheme '" + parts.scheme + "'; there are " +
                                   KnownSchemes());
  }
  CAIRN_RETURN_IF_ERROR(ParseParameters(query, scheme->parameters, &parts));
  CAIRN_RETURN_IF_ERROR(RefuseHost(parts));
  if (scheme->path == PathRule::kNone && !parts.path.empty()) {
    return Status::InvalidArgument(parts.scheme + ":// takes no path, got '" + parts.path +
                                   "'; give the checkpoint place with --checkpoints");
  }
  if (scheme->path == PathRule::kDirectory && parts.path.empty()) {
    return Status::InvalidArgument(parts.scheme + ":// needs a directory, such as " + parts.scheme +
                                   ":///var/lib/job");
  }
  parts.scheme = std::string(ResolveAlias(parts.scheme));
  return parts;
}

Result<Backend> ParseBackendUri(std::string_view uri) {
  CAIRN_ASSIGN_OR_RETURN(BackendUri parts, ParseUri(uri));
  if (!FindScheme(parts.scheme)->built) {
    return Status::InvalidArgument("the backend " + parts.scheme +
                                   ":// is not built yet; this build has " + JoinSchemes(true));
  }
  Backend backend;
  backend.changelog = parts.scheme.starts_with("changelog");
  for (const auto& [name, unused] : parts.parameters) {
    backend.parameters += (backend.parameters.empty() ? "" : " and ") + name;
  }
  backend.scheme = std::move(parts.scheme);
  backend.directory = std::move(parts.path);
  return backend;
}

Result<std::string> ParsePlaceUri(std::string_view uri) {
  CAIRN_RETURN_IF_ERROR(RefuseAlmostScheme(uri, "file:// and s3://"));
  std::string query;
  const BackendUri parts = SplitUri(uri, &query);
  if (parts.scheme == "s3") return std::string(uri);  // taken apart where it is opened
  if (parts.scheme != "file") {
    return Status::InvalidArgument("no checkpoint place has the scheme '" + parts.scheme +
                                   "'; give a directory, file://DIR or s3://BUCKET/PREFIX");
  }
  if (!query.empty()) {
    return Status::InvalidArgument("a checkpoint place takes no parameters, got '" + query + "'");
  }
  if (parts.path.empty()) return Status::InvalidArgument("a checkpoint place needs a directory");
  CAIRN_RETURN_IF_ERROR(RefuseHost(parts));
  return parts.path;
}

Result<std::string> CheckpointPlaceOf(const Backend& backend, std::string_view checkpoints,
                                      std::string_view job) {
  if (checkpoints == "none") return std::string();
  if (!checkpoints.empty()) return ParsePlaceUri(checkpoints);
  if (!backend.directory.empty()) return backend.directory;
  return "./" + std::string(job) + ".cairn";
}

}  // namespace cairn::engine

// SPDX-License-Identifier: Apache-2.0
#include "engine/backend_uri.h"

#include <algorithm>
#include <array>
#include <vector>

namespace cairn::engine {
namespace {

constexpr std::array<std::string_view, 2> kBuilt = {"memory", "file"};

/// Schemes with a meaning, which a later version builds; aliases with them.
constexpr std::array<std::string_view, 16> kPlanned = {
    "memory+sharded", "changelog",    "changelog+file",  "rocksdb",     "changelog+rocksdb",
    "s3+rocksdb",     "changelog+s3", "s3sst",           "remote-read", "changelog+s3+rocksdb",
    "disagg-local",   "forst",        "changelog+forst", "s3+forst",    "changelog+s3+forst",
    "s3sst+forst"};

template <size_t n>
std::string Join(const std::array<std::string_view, n>& names) {
  std::string text;
  for (std::string_view name : names) {
    text += (text.empty() ? "" : ", ") + std::string(name) + "://";
  }
  return text;
}

struct Parts {
  std::string scheme;
  std::string path;
};

/// Split SCHEME://PATH?PARAMETERS; a text without "://" is a path.
Result<Parts> Split(std::string_view uri) {
  const size_t mark = uri.find("://");
  if (mark == std::string_view::npos) return Parts{"file", std::string(uri)};
  Parts parts{std::string(uri.substr(0, mark)), std::string(uri.substr(mark + 3))};
  std::transform(parts.scheme.begin(), parts.scheme.end(), parts.scheme.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const size_t query = parts.path.find('?');
  if (query == std::string::npos) return parts;
  const std::string parameters = parts.path.substr(query + 1);
  parts.path.resize(query);
  const bool local = std::find(kBuilt.begin(), kBuilt.end(), parts.scheme) != kBuilt.end();
  if (!parameters.empty() && local) {
    return Status::InvalidArgument("unknown parameter '" +
                                   parameters.substr(0, parameters.find_first_of("=&")) + "' in " +
                                   std::string(uri) + ": " + parts.scheme + ":// takes none");
  }
  return parts;
}

}  // namespace

Result<Backend> ParseBackendUri(std::string_view uri) {
  if (uri.empty()) return Backend{"memory", ""};
  CAIRN_ASSIGN_OR_RETURN(const Parts parts, Split(uri));
  if (parts.scheme == "memory") {
    if (!parts.path.empty()) {
      return Status::InvalidArgument("memory:// takes no path, got '" + parts.path +
                                     "'; give the checkpoint place with --checkpoints");
    }
    return Backend{"memory", ""};
  }
  if (parts.scheme == "file") {
    if (parts.path.empty()) {
      return Status::InvalidArgument("file:// needs a directory, such as file:///var/lib/job");
    }
    return Backend{"file", parts.path};
  }
  if (std::find(kPlanned.begin(), kPlanned.end(), parts.scheme) != kPlanned.end()) {
    return Status::InvalidArgument("the backend " + parts.scheme +
                                   ":// is not built yet; this build has " + Join(kBuilt));
  }
  return Status::InvalidArgument("no backend has the scheme '" + parts.scheme + "'; there are " +
                                 Join(kBuilt) + "; planned are " + Join(kPlanned));
}

Result<std::string> ParsePlaceUri(std::string_view uri) {
  CAIRN_ASSIGN_OR_RETURN(const Parts parts, Split(uri));
  if (parts.scheme == "s3") {
    return Status::InvalidArgument(
        "checkpoints at s3:// are not built yet; give a directory, DIR or file://DIR");
  }
  if (parts.scheme != "file") {
    return Status::InvalidArgument("no checkpoint place has the scheme '" + parts.scheme +
                                   "'; give a directory or file://DIR");
  }
  if (parts.path.empty()) return Status::InvalidArgument("a checkpoint place needs a directory");
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

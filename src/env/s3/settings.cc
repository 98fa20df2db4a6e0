// SPDX-License-Identifier: Apache-2.0
#include "env/s3/settings.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

#include "env/s3/service_credentials.h"

namespace cairn::env {
namespace {

// Settings files are small; a larger one is something else.
constexpr uint64_t kSettingsFileMax = 1 << 20;

using Section = std::map<std::string, std::string>;

std::string_view Trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

/// Return the section of `profile` in an INI text: "[name]" or, in config files, "[profile name]".
Section SectionOf(std::string_view text, const std::string& profile) {
  Section section;
  bool inside = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view raw = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view line = Trim(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      const std::string_view name = Trim(line.substr(1, line.find(']') - 1));
      inside = name == profile || name == "profile " + profile;
      continue;
    }
    const size_t equals = line.find('=');
    // An indented line belongs to a nested setting such as "s3 =".
    if (!inside || equals == std::string_view::npos || raw.front() == ' ' || raw.front() == '\t') {
      continue;
    }
    section.emplace(Trim(line.substr(0, equals)), Trim(line.substr(equals + 1)));
  }
  return section;
}

struct ProfileFile {
  std::string path;
  Section section;
};

/// Read the profile in use from the file that `variable` names, else from ~/.aws/`name`.
Result<ProfileFile> ReadProfile(FileSystem* files, const EnvironmentLookup& environment,
                                const std::string& variable, const std::string& name) {
  ProfileFile file;
  if (std::optional<std::string> path = environment(variable)) {
    file.path = *path;
  } else if (std::optional<std::string> home = environment("HOME")) {
    file.path = JoinPath(*home, ".aws/" + name);
  } else {
    return file;
  }
  Result<std::string> text = ReadWholeFile(files, file.path, kSettingsFileMax);
  if (!text.ok()) {
    if (text.status().code() == StatusCode::kNotFound) return file;
    return std::move(text).status();
  }
  file.section = SectionOf(*text, environment("AWS_PROFILE").value_or("default"));
  return file;
}

Result<ProfileFile> ReadConfig(FileSystem* files, const EnvironmentLookup& environment) {
  return ReadProfile(files, environment, "AWS_CONFIG_FILE", "config");
}

std::optional<std::string> Find(const Section& section, const std::string& name) {
  const auto found = section.find(name);
  if (found == section.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

Result<std::optional<S3Credentials>> PairOf(std::optional<std::string> access,
                                            std::optional<std::string> secret,
                                            std::optional<std::string> token,
                                            const std::string& source) {
  if (!access && !secret) return std::optional<S3Credentials>();
  if (!access || !secret) {
    return Status::InvalidArgument(
        "S3 credentials of " + source + " have " +
        (access ? "an access key but no secret key" : "a secret key but no access key"));
  }
  return std::optional<S3Credentials>(
      S3Credentials{*std::move(access), *std::move(secret), token.value_or(""), source});
}

constexpr std::string_view kScheme = "s3://";
constexpr std::string_view kParameters[] = {"endpoint", "region", "path_style", "anonymous"};

Result<std::map<std::string, std::string>> ParametersOf(std::string_view query) {
  std::map<std::string, std::string> parameters;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    const std::string name(pair.substr(0, equals));
    if (std::find(std::begin(kParameters), std::end(kParameters), name) == std::end(kParameters)) {
      return Status::InvalidArgument("unknown parameter '" + name +
                                     "' of an s3:// URI; it takes endpoint, region, path_style and "
                                     "anonymous");
    }
    if (!parameters.emplace(name, pair.substr(std::min(equals + 1, pair.size()))).second) {
      return Status::InvalidArgument("parameter '" + name + "' of an s3:// URI is given twice");
    }
  }
  return parameters;
}

Result<bool> Flag(const std::map<std::string, std::string>& parameters, const std::string& name,
                  bool otherwise) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return otherwise;
  if (found->second == "true" || found->second == "1") return true;
  if (found->second == "false" || found->second == "0") return false;
  return Status::InvalidArgument("parameter " + name + " of an s3:// URI is true or false, not '" +
                                 found->second + "'");
}

Status CheckLocation(const S3Location& location) {
  const auto outside = [](unsigned char c) {
    return !std::isalnum(c) && c != '.' && c != '-' && c != '_';
  };
  if (location.bucket.empty()) {
    return Status::InvalidArgument("an s3:// URI names a bucket: s3://BUCKET/PREFIX");
  }
  if (std::any_of(location.bucket.begin(), location.bucket.end(), outside)) {
    return Status::InvalidArgument("'" + location.bucket + "' is no bucket name");
  }
  if (!location.endpoint.starts_with("http://") && !location.endpoint.starts_with("https://")) {
    return Status::InvalidArgument("S3 endpoint '" + location.endpoint +
                                   "' does not begin with http:// or https://");
  }
  return {};
}

}  // namespace

EnvironmentLookup ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::string(value);
  };
}

std::string S3Location::ToString() const {
  return "s3://" + bucket + (prefix.empty() ? "" : "/" + prefix);
}

Result<S3Location> ResolveS3Uri(std::string_view uri, FileSystem* files,
                                const EnvironmentLookup& environment) {
  if (!uri.starts_with(kScheme)) {
    return Status::InvalidArgument("'" + std::string(uri) + "' does not begin with s3://");
  }
  const size_t question = std::min(uri.find('?'), uri.size());
  CAIRN_ASSIGN_OR_RETURN(const auto parameters,
                         ParametersOf(uri.substr(std::min(question + 1, uri.size()))));
  const std::string_view bucket_and_prefix = uri.substr(kScheme.size(), question - kScheme.size());
  S3Location location;
  const size_t slash = std::min(bucket_and_prefix.find('/'), bucket_and_prefix.size());
  location.bucket = std::string(bucket_and_prefix.substr(0, slash));
  std::string_view prefix = bucket_and_prefix.substr(slash);
  while (!prefix.empty() && prefix.front() == '/') prefix.remove_prefix(1);
  while (!prefix.empty() && prefix.back() == '/') prefix.remove_suffix(1);
  location.prefix = std::string(prefix);

  CAIRN_ASSIGN_OR_RETURN(const ProfileFile config, ReadConfig(files, environment));
  const auto first = [&](const std::string& parameter, std::initializer_list<const char*> names,
                         const std::string& setting) -> std::optional<std::string> {
    if (const auto given = parameters.find(parameter); given != parameters.end()) {
      return given->second;
    }
    for (const char* name : names) {
      if (std::optional<std::string> value = environment(name)) return value;
    }
    return Find(config.section, setting);
  };
  location.region =
      first("region", {"AWS_REGION", "AWS_DEFAULT_REGION"}, "region").value_or("us-east-1");
  const std::optional<std::string> endpoint =
      first("endpoint", {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, "endpoint_url");
  location.endpoint = endpoint.value_or("https://s3." + location.region + ".amazonaws.com");
  while (location.endpoint.ends_with('/')) location.endpoint.pop_back();
  // A dot in a bucket's name does not match the certificate of *.s3.amazonaws.com.
  CAIRN_ASSIGN_OR_RETURN(
      location.path_style,
      Flag(parameters, "path_style",
           endpoint.has_value() || location.bucket.find('.') != std::string::npos));
  CAIRN_ASSIGN_OR_RETURN(location.anonymous, Flag(parameters, "anonymous", false));
  CAIRN_RETURN_IF_ERROR(CheckLocation(location));
  return location;
}

Result<S3Credentials> FindS3Credentials(FileSystem* files, const EnvironmentLookup& environment,
                                        HttpClient* http) {
  CAIRN_ASSIGN_OR_RETURN(
      std::optional<S3Credentials> found,
      PairOf(environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"),
             environment("AWS_SESSION_TOKEN"), "the environment"));
  if (found) return *std::move(found);
  const std::string profile = environment("AWS_PROFILE").value_or("default");
  CAIRN_ASSIGN_OR_RETURN(
      const ProfileFile shared,
      ReadProfile(files, environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials"));
  CAIRN_ASSIGN_OR_RETURN(const ProfileFile config, ReadConfig(files, environment));
  for (const ProfileFile* file : {&shared, &config}) {
    CAIRN_ASSIGN_OR_RETURN(found, PairOf(Find(file->section, "aws_access_key_id"),
                                         Find(file->section, "aws_secret_access_key"),
                                         Find(file->section, "aws_session_token"),
                                         "profile " + profile + " of " + file->path));
    if (found) return *std::move(found);
  }
  if (http != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(found, FindServiceCredentials(files, environment, http));
    if (found) return *std::move(found);
  }
  return Status::InvalidArgument(
      "no S3 credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set and profile '" +
      profile + "' has none in " + (shared.path.empty() ? "~/.aws/credentials" : shared.path) +
      " or " + (config.path.empty() ? "~/.aws/config" : config.path) +
      ", and this machine hands out none; add ?anonymous=true for a public bucket");
}

}  // namespace cairn::env

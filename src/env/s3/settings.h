// SPDX-License-Identifier: Apache-2.0
//
// S3 settings: which bucket, which server, whose credentials. From the URI, then the environment,
// then the files that every S3 tool reads.
//
// Invariant: a secret is in no message and no text form of these types.
//
// Threads: free functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/status.h"
#include "env/file_system.h"
#include "env/http_client.h"

namespace cairn::env {

/// Looks up an environment variable; nothing = not set or empty.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// The process's own environment.
EnvironmentLookup ProcessEnvironment();

struct S3Credentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token;  ///< empty = long-lived keys
  std::string source;         ///< "the environment", "profile x of FILE": for messages
};

/// Where objects lie.
struct S3Location {
  std::string bucket;
  std::string prefix;    ///< without slashes at either end; may be empty
  std::string endpoint;  ///< such as "https://s3.eu-west-1.amazonaws.com"; no slash at the end
  std::string region;
  bool path_style = false;  ///< the bucket in the path, not in the host name
  bool anonymous = false;   ///< requests are not signed

  /// "s3://bucket/prefix".
  std::string ToString() const;
};

/// Take s3://BUCKET/PREFIX?NAME=VALUE&… apart (endpoint, region, path_style, anonymous) and
/// complete it from AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION and the
/// profile's region and endpoint_url.
///
/// Shape:    without an endpoint Amazon's own; path_style defaults to true where one is given.
/// Errors:   kInvalidArgument: no bucket, an unknown parameter, or a value that has no meaning ·
///           kUnavailable.
Result<S3Location> ResolveS3Uri(std::string_view uri, FileSystem* files,
                                const EnvironmentLookup& environment);

/// Find credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN), else the
/// profile AWS_PROFILE (default "default") of AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials),
/// else of AWS_CONFIG_FILE (~/.aws/config), else what the machine hands out over `http`
/// (env/s3/service_credentials.h). Null `http` = that is not asked.
///
/// Errors:   kInvalidArgument: none found (says where was looked) or half a pair · what the
///           machine's service answered.
Result<S3Credentials> FindS3Credentials(FileSystem* files, const EnvironmentLookup& environment,
                                        HttpClient* http);

}  // namespace cairn::env

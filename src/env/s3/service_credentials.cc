// SPDX-License-Identifier: Apache-2.0
#include "env/s3/service_credentials.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace cairn::env {
namespace {

// The services are on the same machine: one that has not answered by then is not there.
constexpr int64_t kServiceTimeoutMs = 1'000;
constexpr int kServiceTries = 2;
constexpr uint64_t kServiceAnswerMax = 64 << 10;
constexpr uint64_t kTokenFileMax = 64 << 10;

constexpr std::string_view kContainerHost = "http://169.254.170.2";
constexpr std::string_view kInstanceEndpoint = "http://169.254.169.254";
constexpr std::string_view kInstanceRoles = "/latest/meta-data/iam/security-credentials/";
// Only the token's first use counts here: credentials are asked for anew when they have expired.
constexpr std::string_view kSessionSeconds = "300";

using Headers = std::vector<std::pair<std::string, std::string>>;

Result<HttpResponse> Ask(HttpClient* http, const std::string& method, const std::string& url,
                         const Headers& headers) {
  HttpRequest request;
  request.method = method;
  request.url = url;
  request.headers = headers;
  request.timeout_ms = kServiceTimeoutMs;
  request.max_response_bytes = kServiceAnswerMax;
  Result<HttpResponse> response = http->Send(request);
  for (int i = 1; i < kServiceTries && response.ok() && response->status >= 500; ++i) {
    response = http->Send(request);
  }
  return response;
}

/// Read {"AccessKeyId", "SecretAccessKey", "Token"}.
Result<S3Credentials> ParseCredentials(const std::string& body, const std::string& source) {
  const nlohmann::json json = nlohmann::json::parse(body, nullptr, false);
  const auto text = [&](const char* name) -> std::string {
    if (!json.is_object() || !json.contains(name) || !json[name].is_string()) return {};
    return json[name].get<std::string>();
  };
  S3Credentials credentials{text("AccessKeyId"), text("SecretAccessKey"), text("Token"), source};
  if (credentials.access_key.empty() || credentials.secret_key.empty()) {
    return Status::Unavailable(source + " answered without AccessKeyId and SecretAccessKey");
  }
  return credentials;
}

Status Refused(const std::string& source, int status) {
  const std::string text = source + " answered " + std::to_string(status);
  return status >= 500 ? Status::Unavailable(text) : Status::InvalidArgument(text);
}

/// The host of an http:// or https:// address, without its port.
std::string_view HostOf(std::string_view url) {
  url.remove_prefix(std::min(url.find("://") + 3, url.size()));
  url = url.substr(0, url.find_first_of("/?#"));
  if (url.starts_with('[')) return url.substr(0, url.find(']') + 1);
  return url.substr(0, url.find(':'));
}

/// Keys that anybody on the way can read come only from this machine.
bool MayHandOutKeys(std::string_view url) {
  if (url.find('@') != std::string_view::npos) return false;
  if (url.starts_with("https://")) return true;
  if (!url.starts_with("http://")) return false;
  const std::string_view host = HostOf(url);
  const bool loopback =
      host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos;
  return loopback || host == "localhost" || host == "[::1]" || host == "169.254.170.2" ||
         host == "169.254.170.23" || host == "[fd00:ec2::23]";
}

Result<S3Credentials> AskContainer(FileSystem* files, const EnvironmentLookup& environment,
                                   HttpClient* http, const std::string& url) {
  const std::string source = "the container credentials at " + url;
  if (!MayHandOutKeys(url)) {
    return Status::InvalidArgument(
        source + ": AWS_CONTAINER_CREDENTIALS_FULL_URI is https://, or http:// of this machine");
  }
  Headers headers = {{"Accept", "application/json"}};
  if (const auto file = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")) {
    CAIRN_ASSIGN_OR_RETURN(std::string token, ReadWholeFile(files, *file, kTokenFileMax));
    while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
    headers.emplace_back("Authorization", std::move(token));
  } else if (const auto token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN")) {
    headers.emplace_back("Authorization", *token);
  }
  if (headers.back().second.find_first_of("\r\n") != std::string::npos) {
    return Status::InvalidArgument(source + ": the authorization token has more than one line");
  }
  const Result<HttpResponse> response = Ask(http, "GET", url, headers);
  if (!response.ok()) return response.status().WithContext(source);
  if (response->status != 200) return Refused(source, response->status);
  return ParseCredentials(response->body, source);
}

Result<std::optional<S3Credentials>> AskInstance(const EnvironmentLookup& environment,
                                                 HttpClient* http) {
  std::string endpoint =
      environment("AWS_EC2_METADATA_SERVICE_ENDPOINT").value_or(std::string(kInstanceEndpoint));
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const std::string source = "the instance metadata at " + endpoint;
  const Result<HttpResponse> session =
      Ask(http, "PUT", endpoint + "/latest/api/token",
          {{"x-aws-ec2-metadata-token-ttl-seconds", std::string(kSessionSeconds)}});
  // No such service, or one that hands out nothing here: this is no instance of Amazon's.
  if (!session.ok() || session->status / 100 == 4) return std::optional<S3Credentials>();
  if (session->status != 200) return Refused(source, session->status);
  const Headers headers = {{"x-aws-ec2-metadata-token", session->body}};
  const std::string roles = endpoint + std::string(kInstanceRoles);
  CAIRN_ASSIGN_OR_RETURN(const HttpResponse role, Ask(http, "GET", roles, headers));
  if (role.status == 404) return std::optional<S3Credentials>();  // an instance without a role
  if (role.status != 200) return Refused(source, role.status);
  const std::string name = role.body.substr(0, role.body.find_first_of("\r\n"));
  CAIRN_ASSIGN_OR_RETURN(const HttpResponse keys, Ask(http, "GET", roles + name, headers));
  if (keys.status != 200) return Refused(source, keys.status);
  CAIRN_ASSIGN_OR_RETURN(S3Credentials found,
                         ParseCredentials(keys.body, source + ", role " + name));
  return std::optional<S3Credentials>(std::move(found));
}

}  // namespace

Result<std::optional<S3Credentials>> FindServiceCredentials(FileSystem* files,
                                                            const EnvironmentLookup& environment,
                                                            HttpClient* http) {
  std::optional<std::string> container;
  if (const auto path = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")) {
    container = std::string(kContainerHost) + *path;
  } else {
    container = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  }
  if (container) {
    CAIRN_ASSIGN_OR_RETURN(S3Credentials found, AskContainer(files, environment, http, *container));
    return std::optional<S3Credentials>(std::move(found));
  }
  if (environment("AWS_EC2_METADATA_DISABLED").value_or("") == "true") {
    return std::optional<S3Credentials>();
  }
  return AskInstance(environment, http);
}

}  // namespace cairn::env

// SPDX-License-Identifier: Apache-2.0
//
// The seam to HTTP: one request, one answer, no policy. Who calls it decides what to try again.
//
// Implementations: CurlHttpClient() and, in tests, scripted ones that lose answers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/status.h"

namespace cairn::env {

/// Sign a request with AWS Signature Version 4.
struct RequestSigner {
  std::string region;
  std::string service;
  std::string access_key;
  std::string secret_key;
};

struct HttpRequest {
  std::string method;
  std::string url;  ///< encoded, parameters sorted by name (the signature covers them as they are)
  std::vector<std::pair<std::string, std::string>> headers;
  std::string_view body;  ///< outlives the call
  std::optional<RequestSigner> signer;
  int64_t timeout_ms = 30'000;
  /// An answer's body beyond it fails with kResourceExhausted.
  uint64_t max_response_bytes = 64 << 20;
};

struct HttpResponse {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  ///< names in lower case
  std::string body;

  /// Value of header `name` (lower case), or nothing.
  std::optional<std::string_view> Header(std::string_view name) const;
};

/// Send requests.
///
/// Threads:  any; requests of several threads run at once.
class HttpClient {
 public:
  virtual ~HttpClient() = default;

  /// Send one request and wait for its whole answer, whatever its status.
  ///
  /// Blocks:   up to the request's timeout.
  /// Errors:   kUnavailable: no whole answer came (unreachable, cut off, too late); what the server
  ///           did is unknown · kResourceExhausted: the answer is too long · kInvalidArgument.
  virtual Result<HttpResponse> Send(const HttpRequest& request) = 0;
};

/// A client over libcurl that keeps its connections. Verifies TLS certificates against the system's
/// store; never follows redirects.
std::unique_ptr<HttpClient> CurlHttpClient();

}  // namespace cairn::env

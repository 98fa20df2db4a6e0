// SPDX-License-Identifier: Apache-2.0
#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <mutex>

#include "env/http_client.h"

namespace cairn::env {
namespace {

constexpr long kConnectTimeoutMs = 5'000;

struct EasyCloser {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
using EasyHandle = std::unique_ptr<CURL, EasyCloser>;

struct ListCloser {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, ListCloser>;

/// What the callbacks of one request fill.
struct Receiver {
  HttpResponse response;
  uint64_t max_bytes = 0;
  bool too_long = false;
};

size_t TakeBody(char* data, size_t size, size_t count, void* context) {
  auto* receiver = static_cast<Receiver*>(context);
  const size_t bytes = size * count;
  if (receiver->response.body.size() + bytes > receiver->max_bytes) {
    receiver->too_long = true;
    return 0;  // fewer than given: ends the transfer
  }
  receiver->response.body.append(data, bytes);
  return bytes;
}

size_t TakeHeader(char* data, size_t size, size_t count, void* context) {
  auto* receiver = static_cast<Receiver*>(context);
  std::string_view line(data, size * count);
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {
    receiver->response.headers.clear();  // an interim answer (100) came before
  } else if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    receiver->response.headers.emplace_back(std::move(name), std::string(value));
  }
  return size * count;
}

class CurlClient final : public HttpClient {
 public:
  CurlClient() {
    // Once a process; curl counts further calls.
    static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
    (void)initialised;
  }

  Result<HttpResponse> Send(const HttpRequest& request) override {
    EasyHandle easy = TakeHandle();
    if (easy == nullptr) return Status::ResourceExhausted("libcurl gave no handle");
    Receiver receiver;
    receiver.max_bytes = request.max_response_bytes;
    HeaderList headers;
    for (const auto& [name, value] : request.headers) {
      curl_slist* longer = curl_slist_append(headers.get(), (name + ": " + value).c_str());
      if (longer == nullptr) return Status::ResourceExhausted("no memory for a header");
      (void)headers.release();
      headers.reset(longer);
    }
    SetUp(easy.get(), request, headers.get(), &receiver);
    const CURLcode code = curl_easy_perform(easy.get());
    if (code != CURLE_OK) {
      // The handle goes with its connection, which may have the rest of an answer in it.
      if (receiver.too_long) {
        return Status::ResourceExhausted(request.method + " " + request.url + ": answer of over " +
                                         std::to_string(request.max_response_bytes) + " bytes");
      }
      return ErrorOf(code, request);
    }
    long status = 0;
    curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
    receiver.response.status = static_cast<int>(status);
    GiveBack(std::move(easy));
    return std::move(receiver.response);
  }

 private:
  static Status ErrorOf(CURLcode code, const HttpRequest& request) {
    const std::string what = request.method + " " + request.url + ": " + curl_easy_strerror(code);
    switch (code) {
      case CURLE_URL_MALFORMAT:
      case CURLE_UNSUPPORTED_PROTOCOL:
      case CURLE_PEER_FAILED_VERIFICATION:
      case CURLE_SSL_CACERT_BADFILE:
        return Status::InvalidArgument(what);
      default:
        return Status::Unavailable(what);
    }
  }

  static void SetUp(CURL* easy, const HttpRequest& request, curl_slist* headers,
                    Receiver* receiver) {
    curl_easy_reset(easy);  // keeps connections
    curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                     static_cast<long>(std::min<int64_t>(kConnectTimeoutMs, request.timeout_ms)));
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout_ms));
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, TakeBody);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, receiver);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, TakeHeader);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, receiver);
    if (request.method == "HEAD") {
      curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    } else if (request.method != "GET") {
      curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                       static_cast<curl_off_t>(request.body.size()));
      curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data() ? request.body.data() : "");
      curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    }
    if (request.signer) {
      const RequestSigner& signer = *request.signer;
      curl_easy_setopt(easy, CURLOPT_AWS_SIGV4,
                       ("aws:amz:" + signer.region + ":" + signer.service).c_str());
      curl_easy_setopt(easy, CURLOPT_USERNAME, signer.access_key.c_str());
      curl_easy_setopt(easy, CURLOPT_PASSWORD, signer.secret_key.c_str());
    }
  }

  EasyHandle TakeHandle() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!idle_.empty()) {
        EasyHandle easy = std::move(idle_.back());
        idle_.pop_back();
        return easy;
      }
    }
    return EasyHandle(curl_easy_init());
  }

  void GiveBack(EasyHandle easy) {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(easy));
  }

  std::mutex mutex_;
  std::vector<EasyHandle> idle_;
};

}  // namespace

std::optional<std::string_view> HttpResponse::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return std::nullopt;
}

std::unique_ptr<HttpClient> CurlHttpClient() { return std::make_unique<CurlClient>(); }

}  // namespace cairn::env

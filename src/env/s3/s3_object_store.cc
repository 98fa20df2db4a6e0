// SPDX-License-Identifier: Apache-2.0
#include "env/s3/s3_object_store.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <pugixml.hpp>

#include "base/hash.h"
#include "env/s3/s3_object_writer.h"

namespace cairn::env {
namespace {

// Longest record that a swap or create reads back to compare.
constexpr uint64_t kRecordMax = 64 << 20;
// Answers that are no object: errors, listings of 1,000 keys of 1 KiB.
constexpr uint64_t kAnswerMax = 8 << 20;

std::string PercentEncoded(std::string_view text, bool keep_slash) {
  std::string encoded;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    const bool plain = (u >= 'A' && u <= 'Z') || (u >= 'a' && u <= 'z') || (u >= '0' && u <= '9') ||
                       u == '-' || u == '.' || u == '_' || u == '~' || (u == '/' && keep_slash);
    if (plain) {
      encoded += c;
    } else {
      constexpr char kDigits[] = "0123456789ABCDEF";
      encoded += {'%', kDigits[u >> 4], kDigits[u & 15]};
    }
  }
  return encoded;
}

std::string PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string byte;
    if (text[i] == '%' && i + 2 < text.size() && base::FromHex(text.substr(i + 1, 2), &byte)) {
      decoded += byte;
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

/// Milliseconds of "2026-11-30T12:00:00.000Z"; 0 when it is none.
int64_t UnixMillisOf(const char* text) {
  std::tm time = {};
  if (strptime(text, "%Y-%m-%dT%H:%M:%S", &time) == nullptr) return 0;
  return static_cast<int64_t>(timegm(&time)) * 1000;
}

/// Milliseconds of "Mon, 30 Nov 2026 12:00:00 GMT"; 0 when it is none.
int64_t UnixMillisOfHttpDate(const std::string& text) {
  std::tm time = {};
  if (strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S", &time) == nullptr) return 0;
  return static_cast<int64_t>(timegm(&time)) * 1000;
}

struct S3Error {
  std::string code;
  std::string message;
};

S3Error ErrorIn(const std::string& body) {
  pugi::xml_document document;
  if (!document.load_buffer(body.data(), body.size())) return {};
  const pugi::xml_node error = document.child("Error");
  return {error.child_value("Code"), error.child_value("Message")};
}

uint64_t LengthOf(const HttpResponse& response) {
  uint64_t length = 0;
  const std::string_view text = response.Header("content-length").value_or("");
  std::from_chars(text.data(), text.data() + text.size(), length);
  return length;
}

bool IsExpired(const S3Error& error) {
  return error.code == "ExpiredToken" || error.code == "ExpiredTokenException" ||
         error.code == "InvalidToken" || error.code == "InvalidAccessKeyId";
}

/// True when the answer does not say whether the request was carried out, or asks to come again.
bool LeavesOpen(int status) {
  return status >= 500 || status == 409 || status == 408 || status == 429;
}

}  // namespace

/// One request to the store.
struct S3ObjectStore::Call {
  std::string method;
  std::string key;
  std::string query;  ///< sorted by name, encoded
  std::vector<std::pair<std::string, std::string>> headers;
  std::string_view body;
  uint64_t max_response_bytes = kAnswerMax;
};

/// The tries of one call: pauses that grow, with jitter, up to a deadline.
class S3ObjectStore::Tries {
 public:
  explicit Tries(const S3StoreOptions& options)
      : options_(options),
        until_ns_(options.clock->MonotonicNanos() + options.deadline_ms * 1'000'000),
        pause_ms_(options.first_pause_ms) {}

  /// Pause before the next try, after `last` went wrong. False when the deadline comes first.
  bool Next(const Status& last) {
    // Half to all of the pause: writers that failed together do not come back together.
    const int64_t half = std::max<int64_t>(pause_ms_ / 2, 1);
    const int64_t ms =
        half + static_cast<int64_t>(options_.random->Next() % static_cast<uint64_t>(half + 1));
    const int64_t left_ns = until_ns_ - options_.clock->MonotonicNanos();
    if (ms * 1'000'000 >= left_ns) return false;
    ++tries_;
    // The first pauses are too short to be worth a word.
    if (options_.on_retry && pause_ms_ >= options_.first_pause_ms * 4) {
      options_.on_retry(std::string(last.message()) + "; attempt " + std::to_string(tries_) +
                        ", giving up in " +
                        std::to_string((left_ns + 999'999'999) / 1'000'000'000) + " s");
    }
    options_.clock->SleepMillis(ms);
    pause_ms_ = std::min(pause_ms_ * 2, options_.longest_pause_ms);
    return true;
  }

 private:
  const S3StoreOptions& options_;
  int64_t until_ns_;
  int64_t pause_ms_;
  int tries_ = 1;
};

S3ObjectStore::S3ObjectStore(S3StoreOptions options)
    : options_(std::move(options)),
      upload_slots_(std::clamp<uint32_t>(options_.max_concurrent_uploads, 1, 1024)) {}

S3ObjectStore::~S3ObjectStore() = default;

Result<std::unique_ptr<S3ObjectStore>> S3ObjectStore::Open(S3StoreOptions options) {
  if (options.clock == nullptr) options.clock = SystemClock();
  if (options.random == nullptr) options.random = SystemRandom();
  std::unique_ptr<S3ObjectStore> store(new S3ObjectStore(std::move(options)));
  if (store->options_.http == nullptr) {
    store->own_http_ = CurlHttpClient();
    store->options_.http = store->own_http_.get();
  }
  CAIRN_RETURN_IF_ERROR(store->RenewCredentials());
  return store;
}

Status S3ObjectStore::RenewCredentials() {
  if (options_.location.anonymous) return {};
  CAIRN_ASSIGN_OR_RETURN(S3Credentials credentials, options_.credentials());
  std::lock_guard<std::mutex> lock(mutex_);
  credentials_ = std::move(credentials);
  return {};
}

std::string S3ObjectStore::Name(const std::string& key) const {
  return options_.location.ToString() + "/" + key;
}

std::string S3ObjectStore::FullKey(const std::string& key) const {
  const std::string& root = options_.location.prefix;
  return root.empty() ? key : root + "/" + key;
}

std::string S3ObjectStore::UrlOf(const std::string& object, const std::string& query) const {
  const S3Location& location = options_.location;
  std::string url = location.endpoint;
  if (location.path_style) {
    url += "/" + location.bucket;
  } else {
    url.insert(url.find("://") + 3, location.bucket + ".");
  }
  url += "/";
  if (!object.empty()) {
    url += PercentEncoded(FullKey(object), true);
  }
  if (!query.empty()) url += "?" + query;
  return url;
}

Result<HttpResponse> S3ObjectStore::SendSigned(const Call& call) {
  HttpRequest request;
  request.method = call.method;
  request.url = UrlOf(call.key, call.query);
  request.headers = call.headers;
  request.body = call.body;
  request.timeout_ms = options_.request_timeout_ms;
  request.max_response_bytes = call.max_response_bytes;
  if (call.method == "PUT" || call.method == "POST") {
    request.headers.emplace_back("Content-Type", "application/octet-stream");
  }
  if (!options_.location.anonymous) {
    // The hash is signed: bytes that change on the way are refused by the server.
    request.headers.emplace_back("x-amz-content-sha256", base::Sha256::HexOf(call.body));
    std::lock_guard<std::mutex> lock(mutex_);
    request.signer = RequestSigner{options_.location.region, "s3", credentials_.access_key,
                                   credentials_.secret_key};
    if (!credentials_.session_token.empty()) {
      request.headers.emplace_back("x-amz-security-token", credentials_.session_token);
    }
  }
  if (call.method == "PUT" || call.method == "POST") {
    use_.AddPut();
  } else {
    call.method == "DELETE" ? use_.AddDelete() : use_.AddGet();
  }
  Result<HttpResponse> response = options_.http->Send(request);
  if (response.ok() && response->status / 100 == 2) use_.AddBytes(call.body.size());
  return response;
}

Result<HttpResponse> S3ObjectStore::SendOnce(const Call& call) {
  Result<HttpResponse> response = SendSigned(call);
  if (!response.ok() || response->status / 100 != 4 || !IsExpired(ErrorIn(response->body))) {
    return response;
  }
  CAIRN_RETURN_IF_ERROR(RenewCredentials());  // keys in a file are renewed by other programs
  return SendSigned(call);
}

/// Send a request that may be sent twice without harm, until it gets an answer that will not
/// change.
Result<HttpResponse> S3ObjectStore::SendUntilAnswered(const Call& call) {
  Tries tries(options_);
  for (;;) {
    Result<HttpResponse> response = SendOnce(call);
    if (response.ok() && !LeavesOpen(response->status)) return response;
    if (!response.ok() && response.status().code() != StatusCode::kUnavailable) return response;
    if (const Status last = GivenUp(call, response); !tries.Next(last)) return last;
  }
}

Status S3ObjectStore::GivenUp(const Call& call, const Result<HttpResponse>& last) const {
  if (!last.ok()) return last.status();
  return Status::Unavailable(std::string(ErrorOf(call, *last).message()));
}

Status S3ObjectStore::ErrorOf(const Call& call, const HttpResponse& response) const {
  const S3Error error = ErrorIn(response.body);
  std::string text = call.method + " " + Name(call.key) + ": " + std::to_string(response.status) +
                     (error.code.empty() ? "" : " " + error.code) +
                     (error.message.empty() ? "" : " (" + error.message + ")");
  if (const auto id = response.Header("x-amz-request-id")) text += ", request " + std::string(*id);
  switch (response.status) {
    case 404:
      if (error.code == "NoSuchBucket") {
        return Status::InvalidArgument(text + "; create the bucket or correct its name");
      }
      return Status::NotFound(text);
    case 401:
    case 403:
      if (error.code == "RequestTimeTooSkewed") {
        return Status::Unavailable(text + "; set this machine's clock");
      }
      return Status::InvalidArgument(text +
                                     "; check the credentials and their permissions on the prefix "
                                     "(get, put, delete, and list on the bucket)");
    case 301:
    case 307:
      return Status::InvalidArgument(text + "; the bucket is in another region: give ?region=");
    case 416:
      return Status::Corruption(text);
    default:
      return LeavesOpen(response.status) ? Status::Unavailable(text)
                                         : Status::InvalidArgument(text);
  }
}

Result<std::string> S3ObjectStore::PutIf(const std::string& key,
                                         const std::optional<std::string>& expected,
                                         std::string_view bytes, bool equal_is_success) {
  // Tells our own bytes from equal ones of another writer when an answer was lost.
  const std::string token = RandomToken(options_.random);
  Call call{"PUT", key, "", {{"x-amz-meta-cairn-write", token}}, bytes};
  if (expected) {
    call.headers.emplace_back("If-Match", *expected);
  } else {
    call.headers.emplace_back("If-None-Match", "*");
  }
  Tries tries(options_);
  bool in_doubt = false;  // an earlier try may have written
  for (;;) {
    Result<HttpResponse> response = SendOnce(call);
    if (response.ok() && response->status == 200) {
      return std::string(response->Header("etag").value_or(""));
    }
    if (!response.ok() && response.status().code() != StatusCode::kUnavailable) {
      return std::move(response).status();
    }
    const bool open = !response.ok() || LeavesOpen(response->status);
    const bool condition_failed =
        response.ok() && (response->status == 412 || (expected && response->status == 404));
    if (!open && !condition_failed) return ErrorOf(call, *response);
    in_doubt = in_doubt || open;
    HttpResponse there;
    Result<VersionedBytes> record = GetRecord(key, kRecordMax, &there);
    if (!record.ok() && record.status().code() != StatusCode::kNotFound) {
      return Status::Unavailable("PUT " + Name(key) + ": whether it was written is unknown; " +
                                 std::string(record.status().message()));
    }
    const bool ours = in_doubt && there.Header("x-amz-meta-cairn-write") == token;
    if (record.ok() && record->bytes == bytes && (ours || equal_is_success)) {
      return std::move(record->version);
    }
    const bool unchanged = expected ? record.ok() && record->version == *expected : !record.ok();
    if (!unchanged) return Status::Fenced(Name(key));
    // A condition that failed against what is there now was about something that has gone.
    if (const Status last = GivenUp(call, response); !tries.Next(last)) return last;
  }
}

Status S3ObjectStore::CreateIfAbsent(const std::string& key, std::string_view bytes) {
  Result<std::string> created = PutIf(key, std::nullopt, bytes, true);
  if (created.ok()) return {};
  if (created.status().code() != StatusCode::kFenced) return std::move(created).status();
  return Status::AlreadyExists("create " + Name(key) + ": it exists with other bytes");
}

Result<std::string> S3ObjectStore::CompareAndSwap(const std::string& key,
                                                  const std::optional<std::string>& expected,
                                                  std::string_view bytes) {
  Result<std::string> swapped = PutIf(key, expected, bytes, false);
  if (!swapped.ok() && swapped.status().code() == StatusCode::kFenced) {
    return Status::Fenced("replace " + Name(key) +
                          ": it changed since it was read; another process has written here");
  }
  return swapped;
}

Status S3ObjectStore::PutHint(const std::string& key, std::string_view bytes) {
  const Call call{"PUT", key, "", {}, bytes};
  CAIRN_ASSIGN_OR_RETURN(const HttpResponse response, SendUntilAnswered(call));
  return response.status == 200 ? Status() : ErrorOf(call, response);
}

Result<std::unique_ptr<ObjectWriter>> S3ObjectStore::NewLargeWriter(const std::string& key,
                                                                    uint64_t bytes) {
  CAIRN_ASSIGN_OR_RETURN(const uint64_t part, PartBytesFor(bytes, options_.part_bytes));
  return std::unique_ptr<ObjectWriter>(std::make_unique<S3ObjectWriter>(this, key, part));
}

Result<VersionedBytes> S3ObjectStore::Get(const std::string& key, uint64_t max_bytes) {
  HttpResponse answer;
  return GetRecord(key, max_bytes, &answer);
}

Result<VersionedBytes> S3ObjectStore::GetRecord(const std::string& key, uint64_t max_bytes,
                                                HttpResponse* answer) {
  Call call{"GET", key, "", {}, {}};
  call.max_response_bytes = std::max(max_bytes, kAnswerMax);
  Result<HttpResponse> response = SendUntilAnswered(call);
  const bool too_long =
      !response.ok() && response.status().code() == StatusCode::kResourceExhausted;
  if (!response.ok() && !too_long) return std::move(response).status();
  if (too_long || (response->status == 200 && response->body.size() > max_bytes)) {
    return Status::Corruption("GET " + Name(key) + ": more than " + std::to_string(max_bytes) +
                              " bytes where a record was expected");
  }
  if (response->status != 200) return ErrorOf(call, *response);
  std::string version(response->Header("etag").value_or(""));
  std::string bytes = std::move(response->body);
  *answer = *std::move(response);
  return VersionedBytes{std::move(bytes), std::move(version)};
}

Status S3ObjectStore::ReadRange(const std::string& key, uint64_t offset, std::span<char> out) {
  if (out.empty()) return {};
  Call call{"GET", key, "", {}, {}};
  call.headers.emplace_back(
      "Range", "bytes=" + std::to_string(offset) + "-" + std::to_string(offset + out.size() - 1));
  call.max_response_bytes = std::max<uint64_t>(out.size(), kAnswerMax);
  CAIRN_ASSIGN_OR_RETURN(const HttpResponse response, SendUntilAnswered(call));
  if (response.status == 200) {
    return Status::Unavailable("GET " + Name(key) + ": the server ignores byte ranges");
  }
  if (response.status != 206) return ErrorOf(call, response);
  if (response.body.size() != out.size()) {
    return Status::Corruption("GET " + Name(key) + ": " + std::to_string(response.body.size()) +
                              " bytes from " + std::to_string(offset) + " where " +
                              std::to_string(out.size()) + " were expected; the object is cut off");
  }
  std::copy(response.body.begin(), response.body.end(), out.begin());
  return {};
}

Result<ObjectInfo> S3ObjectStore::Head(const std::string& key) {
  const Call call{"HEAD", key, "", {}, {}};
  CAIRN_ASSIGN_OR_RETURN(const HttpResponse response, SendUntilAnswered(call));
  if (response.status != 200) return ErrorOf(call, response);
  return ObjectInfo{
      key, LengthOf(response),
      UnixMillisOfHttpDate(std::string(response.Header("last-modified").value_or("")))};
}

Result<std::vector<ObjectInfo>> S3ObjectStore::List(const std::string& prefix) {
  const std::string& root = options_.location.prefix;
  const std::string full = FullKey(prefix);
  std::vector<ObjectInfo> found;
  std::string after;
  for (;;) {
    Call call{"GET", "", "", {}, {}};
    if (!after.empty()) call.query = "continuation-token=" + PercentEncoded(after, false) + "&";
    call.query += "encoding-type=url&list-type=2&prefix=" + PercentEncoded(full, false);
    CAIRN_ASSIGN_OR_RETURN(const HttpResponse response, SendUntilAnswered(call));
    if (response.status != 200) return ErrorOf(call, response);
    pugi::xml_document document;
    if (!document.load_buffer(response.body.data(), response.body.size())) {
      return Status::Unavailable("list " + Name(prefix) + ": the answer is no XML");
    }
    const pugi::xml_node result = document.child("ListBucketResult");
    // Not every server encodes when it is asked to.
    const bool encoded = std::string_view(result.child_value("EncodingType")) == "url";
    for (const pugi::xml_node& entry : result.children("Contents")) {
      std::string key = entry.child_value("Key");
      if (encoded) key = PercentDecoded(key);
      if (!key.starts_with(full)) continue;
      if (!root.empty()) key.erase(0, root.size() + 1);
      found.push_back({std::move(key), entry.child("Size").text().as_ullong(),
                       UnixMillisOf(entry.child_value("LastModified"))});
    }
    if (!result.child("IsTruncated").text().as_bool()) break;
    after = result.child_value("NextContinuationToken");
    if (after.empty()) {
      return Status::Unavailable("list " + Name(prefix) + ": cut off without a way to go on");
    }
  }
  std::sort(found.begin(), found.end(),
            [](const ObjectInfo& a, const ObjectInfo& b) { return a.key < b.key; });
  return found;
}

Status S3ObjectStore::Delete(const std::string& key) {
  const Call call{"DELETE", key, "", {}, {}};
  CAIRN_ASSIGN_OR_RETURN(const HttpResponse response, SendUntilAnswered(call));
  if (response.status / 100 == 2) return {};
  const Status error = ErrorOf(call, response);
  return error.code() == StatusCode::kNotFound ? Status() : error;
}

Result<std::string> S3ObjectStore::StartMultipart(const std::string& key,
                                                  const std::string& token) {
  const Call call{"POST", key, "uploads=", {{"x-amz-meta-cairn-upload", token}}, {}};
  CAIRN_ASSIGN_OR_RETURN(const HttpResponse response, SendUntilAnswered(call));
  if (response.status != 200) return ErrorOf(call, response);
  pugi::xml_document document;
  (void)document.load_buffer(response.body.data(), response.body.size());
  std::string upload = document.child("InitiateMultipartUploadResult").child_value("UploadId");
  if (upload.empty()) {
    return Status::Unavailable("POST " + Name(key) + ": the answer names no upload");
  }
  return upload;
}

Result<std::string> S3ObjectStore::UploadPart(const std::string& key, const std::string& upload,
                                              uint32_t part, std::string_view bytes) {
  const Call call{
      "PUT",
      key,
      "partNumber=" + std::to_string(part) + "&uploadId=" + PercentEncoded(upload, false),
      {},
      bytes};
  CAIRN_ASSIGN_OR_RETURN(const HttpResponse response, SendUntilAnswered(call));
  if (response.status != 200) return ErrorOf(call, response);
  return std::string(response.Header("etag").value_or(""));
}

Status S3ObjectStore::CompleteMultipart(const std::string& key, const std::string& upload,
                                        const std::vector<std::string>& etags,
                                        const std::string& token) {
  std::string body = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < etags.size(); ++i) {
    body += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" + etags[i] +
            "</ETag></Part>";
  }
  body += "</CompleteMultipartUpload>";
  const Call call{
      "POST", key, "uploadId=" + PercentEncoded(upload, false), {{"If-None-Match", "*"}}, body};
  Tries tries(options_);
  for (;;) {
    Result<HttpResponse> response = SendOnce(call);
    // A failure after the first byte of the answer comes as a 200 with an error in its body.
    if (response.ok() && response->status == 200 && ErrorIn(response->body).code.empty()) return {};
    if (!response.ok() && response.status().code() != StatusCode::kUnavailable) {
      return std::move(response).status();
    }
    const Call look{"HEAD", key, "", {}, {}};
    CAIRN_ASSIGN_OR_RETURN(const HttpResponse there, SendUntilAnswered(look));
    if (there.status == 200) {
      if (there.Header("x-amz-meta-cairn-upload") == token) return {};
      return Status::AlreadyExists("create " + Name(key) + ": another writer has created it");
    }
    if (there.status != 404) return ErrorOf(look, there);
    const bool open = !response.ok() || LeavesOpen(response->status) || response->status == 200;
    if (!open) return ErrorOf(call, *response);
    if (const Status last = GivenUp(call, response); !tries.Next(last)) return last;
  }
}

Status S3ObjectStore::AbortMultipart(const std::string& key, const std::string& upload) {
  const Call call{"DELETE", key, "uploadId=" + PercentEncoded(upload, false), {}, {}};
  CAIRN_ASSIGN_OR_RETURN(const HttpResponse response, SendOnce(call));
  if (response.status / 100 == 2) return {};
  const Status error = ErrorOf(call, response);
  return error.code() == StatusCode::kNotFound ? Status() : error;  // it has ended by itself
}

Result<uint64_t> S3ObjectStore::EndUnfinished(const std::string& prefix,
                                              const AbandonedObjects& is_abandoned) {
  const std::string& root = options_.location.prefix;
  const std::string full = FullKey(prefix);
  std::string from_key;
  std::string from_upload;
  uint64_t ended = 0;
  for (;;) {
    Call call{"GET", "", "", {}, {}};  // parameters sorted by name
    if (!from_key.empty()) call.query = "key-marker=" + PercentEncoded(from_key, false) + "&";
    call.query += "prefix=" + PercentEncoded(full, false) + "&";
    if (!from_upload.empty()) {
      call.query += "upload-id-marker=" + PercentEncoded(from_upload, false) + "&";
    }
    call.query += "uploads=";
    CAIRN_ASSIGN_OR_RETURN(const HttpResponse response, SendUntilAnswered(call));
    if (response.status != 200) return ErrorOf(call, response);
    pugi::xml_document document;
    (void)document.load_buffer(response.body.data(), response.body.size());
    const pugi::xml_node result = document.child("ListMultipartUploadsResult");
    if (!result) return Status::Unavailable("uploads of " + Name(prefix) + ": no list is answered");
    // Ages by the server's own clock.
    const int64_t now = UnixMillisOfHttpDate(std::string(response.Header("date").value_or("")));
    for (const pugi::xml_node& entry : result.children("Upload")) {
      std::string key = entry.child_value("Key");
      const int64_t begun = UnixMillisOf(entry.child_value("Initiated"));
      if (!key.starts_with(full)) continue;
      if (!root.empty()) key.erase(0, root.size() + 1);
      if (!is_abandoned(key, now - begun)) continue;
      CAIRN_RETURN_IF_ERROR(AbortMultipart(key, entry.child_value("UploadId")));
      ++ended;
    }
    if (!result.child("IsTruncated").text().as_bool()) return ended;
    from_key = result.child_value("NextKeyMarker");
    from_upload = result.child_value("NextUploadIdMarker");
    if (from_key.empty()) {
      return Status::Unavailable("uploads of " + Name(prefix) + ": cut off without a way to go on");
    }
  }
}

}  // namespace cairn::env

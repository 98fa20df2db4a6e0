// SPDX-License-Identifier: Apache-2.0
//
// An S3-compatible store at its strictest, behind the seam to HTTP: it lets its user into one
// prefix and no further, takes parts of one size only, and can lose answers. Bytes of parts may be
// counted instead of kept.
//
// Threads: any; one lock.
#pragma once

#include <charconv>
#include <ctime>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "env/http_client.h"

namespace cairn::checkpoint::testing {

class StrictS3 final : public env::HttpClient {
 public:
  /// "http://strict/bucket/" comes before every object's key in a URL of it.
  static constexpr std::string_view kEndpoint = "http://strict";
  static constexpr std::string_view kBucket = "bucket";

  explicit StrictS3(std::string allowed_prefix) : allowed_(std::move(allowed_prefix)) {}

  Result<env::HttpResponse> Send(const env::HttpRequest& request) override {
    std::lock_guard<std::mutex> lock(mutex_);
    std::string_view rest(request.url);
    rest.remove_prefix(kEndpoint.size() + 1 + kBucket.size() + 1);
    const size_t question = std::min(rest.find('?'), rest.size());
    const Request parsed{&request, std::string(rest.substr(0, question)),
                         ParametersOf(rest.substr(std::min(question + 1, rest.size())))};
    const uint64_t number = requests++;
    log.push_back(request.method + " " + std::string(rest));
    env::HttpResponse answer = Answer(parsed);
    if (number == lose_answer_of) return Status::Unavailable("the answer was lost");
    return answer;
  }

  /// Set before use. Parts are counted, not kept: an object of them has its size and no bytes.
  bool counts_only = false;
  uint64_t lose_answer_of = UINT64_MAX;

  uint64_t requests = 0;
  std::vector<std::string> log;      ///< "PUT prefix/key?…"
  std::vector<std::string> refused;  ///< those outside the prefix
  std::vector<std::string> broken;   ///< rules of parts that were broken
  uint64_t parts_seen = 0;           ///< of the upload that was completed last
  uint64_t size_seen = 0;

 private:
  struct Object {
    std::string bytes;
    std::string etag;
    std::vector<std::pair<std::string, std::string>> metadata;
  };
  struct Upload {
    std::string key;
    std::vector<std::pair<std::string, std::string>> metadata;
    std::map<uint32_t, uint64_t> sizes;
    std::map<uint32_t, std::string> parts;
  };
  struct Request {
    const env::HttpRequest* http;
    std::string key;
    std::map<std::string, std::string> parameters;
    std::string Header(std::string_view name) const {
      for (const auto& [key, value] : http->headers) {
        if (key == name) return value;
      }
      return "";
    }
    bool Has(const std::string& name) const { return parameters.contains(name); }
  };

  static std::string Decoded(std::string_view text) {
    std::string decoded;
    for (size_t i = 0; i < text.size(); ++i) {
      std::string byte;
      if (text[i] == '%' && base::FromHex(text.substr(i + 1, 2), &byte)) {
        decoded += byte;
        i += 2;
      } else {
        decoded += text[i];
      }
    }
    return decoded;
  }

  static std::map<std::string, std::string> ParametersOf(std::string_view query) {
    std::map<std::string, std::string> parameters;
    while (!query.empty()) {
      const size_t end = std::min(query.find('&'), query.size());
      const std::string_view pair = query.substr(0, end);
      query.remove_prefix(std::min(end + 1, query.size()));
      const size_t equals = std::min(pair.find('='), pair.size());
      parameters[std::string(pair.substr(0, equals))] =
          Decoded(pair.substr(std::min(equals + 1, pair.size())));
    }
    return parameters;
  }

  static env::HttpResponse Error(int status, const std::string& code) {
    return {status, {}, "<Error><Code>" + code + "</Code></Error>"};
  }

  static std::vector<std::pair<std::string, std::string>> MetadataOf(const Request& request) {
    std::vector<std::pair<std::string, std::string>> metadata;
    for (const auto& header : request.http->headers) {
      if (header.first.starts_with("x-amz-meta-")) metadata.push_back(header);
    }
    return metadata;
  }

  env::HttpResponse Answer(const Request& request) {
    const auto prefix = request.parameters.find("prefix");
    const bool inside = request.key.empty()
                            ? prefix != request.parameters.end() &&
                                  prefix->second.starts_with(allowed_) && !request.Has("uploads")
                            : request.key.starts_with(allowed_);
    if (!inside) {
      refused.push_back(log.back());
      return Error(403, "AccessDenied");
    }
    const std::string& method = request.http->method;
    if (request.key.empty()) return List(prefix->second);
    if (request.Has("uploadId")) return OfUpload(request);
    if (request.Has("uploads")) return Begin(request);
    if (method == "PUT") return Put(request);
    if (method == "DELETE") {
      objects_.erase(request.key);
      return {204, {}, ""};
    }
    return Get(request, method == "HEAD");
  }

  env::HttpResponse List(const std::string& prefix) {
    std::string body = "<ListBucketResult>";
    for (const auto& [key, object] : objects_) {
      if (!key.starts_with(prefix)) continue;
      body += "<Contents><Key>" + key + "</Key><Size>" + std::to_string(object.bytes.size()) +
              "</Size><LastModified>2026-11-30T12:00:00.000Z</LastModified></Contents>";
    }
    return {200, {}, body + "<IsTruncated>false</IsTruncated></ListBucketResult>"};
  }

  /// The error of a condition that does not hold, or nothing.
  bool ConditionFails(const Request& request) const {
    const auto there = objects_.find(request.key);
    if (request.Header("If-None-Match") == "*") return there != objects_.end();
    const std::string wanted = request.Header("If-Match");
    return !wanted.empty() && (there == objects_.end() || there->second.etag != wanted);
  }

  env::HttpResponse Put(const Request& request) {
    if (ConditionFails(request)) return Error(412, "PreconditionFailed");
    Object& object = objects_[request.key];
    object.bytes = std::string(request.http->body);
    object.etag = '"' + base::Sha256::HexOf(object.bytes) + '"';
    object.metadata = MetadataOf(request);
    return {200, {{"etag", object.etag}}, ""};
  }

  env::HttpResponse Get(const Request& request, bool head) {
    const auto found = objects_.find(request.key);
    if (found == objects_.end()) return Error(404, "NoSuchKey");
    env::HttpResponse answer{200, found->second.metadata, ""};
    answer.headers.emplace_back("etag", found->second.etag);
    answer.headers.emplace_back("content-length", std::to_string(found->second.bytes.size()));
    if (head) return answer;
    const std::string range = request.Header("Range");  // "bytes=FIRST-LAST"
    if (range.empty()) {
      answer.body = found->second.bytes;
      return answer;
    }
    uint64_t first = 0;
    uint64_t last = 0;
    const size_t dash = range.find('-');
    std::from_chars(range.data() + 6, range.data() + dash, first);
    std::from_chars(range.data() + dash + 1, range.data() + range.size(), last);
    if (first >= found->second.bytes.size()) return Error(416, "InvalidRange");
    answer.status = 206;
    answer.body = found->second.bytes.substr(first, last - first + 1);
    return answer;
  }

  env::HttpResponse Begin(const Request& request) {
    const std::string id = "upload" + std::to_string(uploads_.size());
    uploads_[id] = {request.key, MetadataOf(request), {}, {}};
    return {200,
            {},
            "<InitiateMultipartUploadResult><UploadId>" + id +
                "</UploadId></InitiateMultipartUploadResult>"};
  }

  env::HttpResponse OfUpload(const Request& request) {
    const auto found = uploads_.find(request.parameters.at("uploadId"));
    if (found == uploads_.end()) return Error(404, "NoSuchUpload");
    Upload& upload = found->second;
    if (request.http->method == "DELETE") {
      uploads_.erase(found);
      return {204, {}, ""};
    }
    if (request.http->method == "PUT") {
      uint32_t number = 0;
      const std::string& text = request.parameters.at("partNumber");
      std::from_chars(text.data(), text.data() + text.size(), number);
      if (number < 1 || number > 10'000) broken.push_back("part number " + text);
      upload.sizes[number] = request.http->body.size();
      if (!counts_only) upload.parts[number] = std::string(request.http->body);
      return {200, {{"etag", "\"part" + text + "\""}}, ""};
    }
    return Complete(request, &upload);
  }

  env::HttpResponse Complete(const Request& request, Upload* upload) {
    if (ConditionFails(request)) return Error(412, "PreconditionFailed");
    parts_seen = upload->sizes.size();
    size_seen = 0;
    for (const auto& [number, size] : upload->sizes) {
      size_seen += size;
      const bool is_last = number == upload->sizes.rbegin()->first;
      if (!is_last && (size != upload->sizes.begin()->second || size < 5 << 20)) {
        broken.push_back("part " + std::to_string(number) + " of " + std::to_string(size));
      }
    }
    Object& object = objects_[upload->key];
    for (const auto& [number, bytes] : upload->parts) object.bytes += bytes;
    object.etag = "\"of parts\"";
    object.metadata = upload->metadata;
    uploads_.erase(request.parameters.at("uploadId"));
    return {200, {}, "<CompleteMultipartUploadResult/>"};
  }

  const std::string allowed_;
  std::mutex mutex_;
  std::map<std::string, Object> objects_;
  std::map<std::string, Upload> uploads_;
};

}  // namespace cairn::checkpoint::testing

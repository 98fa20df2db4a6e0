// SPDX-License-Identifier: Apache-2.0
#include "env/s3/s3_object_writer.h"

#include <algorithm>

#include "env/s3/s3_object_store.h"

namespace cairn::env {
namespace {

constexpr uint64_t kPartsMax = 10'000;
constexpr uint64_t kObjectBytesMax = uint64_t{5} << 40;

}  // namespace

Result<uint64_t> PartBytesFor(uint64_t bytes, uint64_t least) {
  if (bytes > kObjectBytesMax) {
    return Status::ResourceExhausted("an object of " + std::to_string(bytes) +
                                     " bytes is over the 5 TiB that a bucket takes");
  }
  const uint64_t most = least * kPartsMax;
  return least * std::max<uint64_t>((2 * bytes + most - 1) / most, 1);
}

S3ObjectWriter::S3ObjectWriter(S3ObjectStore* store, std::string key, uint64_t part_bytes)
    : store_(store),
      key_(std::move(key)),
      part_bytes_(part_bytes),
      token_(RandomToken(store->options_.random)) {}

S3ObjectWriter::~S3ObjectWriter() {
  if (upload_.empty()) return;
  (void)WaitForParts();
  (void)store_->AbortMultipart(key_, upload_);  // else the bucket's lifecycle rule removes it
}

Status S3ObjectWriter::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    if (part_.capacity() < part_bytes_ && part_.size() + bytes.size() >= part_bytes_) {
      part_.reserve(part_bytes_);
    }
    const size_t taken = std::min<uint64_t>(bytes.size(), part_bytes_ - part_.size());
    part_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    // A part that is just full waits: it may be the whole object.
    if (part_.size() == part_bytes_ && !bytes.empty()) CAIRN_RETURN_IF_ERROR(SendPart());
  }
  return {};
}

Status S3ObjectWriter::SendPart() {
  if (upload_.empty()) {
    CAIRN_ASSIGN_OR_RETURN(upload_, store_->StartMultipart(key_, token_));
  }
  const auto number = static_cast<uint32_t>(etags_.size() + under_way_.size() + 1);
  if (number > kPartsMax) {
    return Status::ResourceExhausted("PUT " + key_ + ": over " + std::to_string(kPartsMax) +
                                     " parts of " + std::to_string(part_bytes_) + " bytes");
  }
  store_->upload_slots_.acquire();
  under_way_.push_back(std::async(std::launch::async, [store = store_, key = key_, upload = upload_,
                                                       number, bytes = std::move(part_)] {
    Result<std::string> etag = store->UploadPart(key, upload, number, bytes);
    store->upload_slots_.release();
    return etag;
  }));
  part_.clear();
  return {};
}

Status S3ObjectWriter::WaitForParts() {
  Status first;
  for (std::future<Result<std::string>>& part : under_way_) {
    Result<std::string> etag = part.get();
    if (etag.ok()) {
      etags_.push_back(*std::move(etag));
    } else if (first.ok()) {
      first = std::move(etag).status();
    }
  }
  under_way_.clear();
  return first;
}

Status S3ObjectWriter::Finish() {
  if (upload_.empty()) return store_->CreateIfAbsent(key_, part_);
  if (!part_.empty()) CAIRN_RETURN_IF_ERROR(SendPart());
  CAIRN_RETURN_IF_ERROR(WaitForParts());
  CAIRN_RETURN_IF_ERROR(store_->CompleteMultipart(key_, upload_, etags_, token_));
  upload_.clear();
  return {};
}

}  // namespace cairn::env

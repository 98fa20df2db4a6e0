// SPDX-License-Identifier: Apache-2.0
#include "env/s3/s3_object_writer.h"

#include <algorithm>

#include "env/s3/s3_object_store.h"

namespace cairn::env {
namespace {

// S3 takes 10,000 parts; doubling every 1,000 reaches its largest object (5 TiB) with 8 MiB parts.
constexpr size_t kPartsPerSize = 1'000;

}  // namespace

S3ObjectWriter::S3ObjectWriter(S3ObjectStore* store, std::string key)
    : store_(store), key_(std::move(key)), token_(RandomToken(store->options_.random)) {}

S3ObjectWriter::~S3ObjectWriter() {
  if (upload_.empty()) return;
  (void)WaitForParts();
  (void)store_->AbortMultipart(key_, upload_);  // else the bucket's lifecycle rule removes it
}

uint64_t S3ObjectWriter::PartBytes() const {
  const size_t sent = etags_.size() + under_way_.size();
  return store_->options_.part_bytes << std::min<size_t>(sent / kPartsPerSize, 9);
}

Status S3ObjectWriter::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const uint64_t full = PartBytes();
    if (part_.capacity() < full && part_.size() + bytes.size() >= full) part_.reserve(full);
    const size_t taken = std::min<uint64_t>(bytes.size(), full - part_.size());
    part_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    // A part that is just full waits: it may be the whole object.
    if (part_.size() == full && !bytes.empty()) CAIRN_RETURN_IF_ERROR(SendPart());
  }
  return {};
}

Status S3ObjectWriter::SendPart() {
  if (upload_.empty()) {
    CAIRN_ASSIGN_OR_RETURN(upload_, store_->StartMultipart(key_, token_));
  }
  const auto number = static_cast<uint32_t>(etags_.size() + under_way_.size() + 1);
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

// SPDX-License-Identifier: Apache-2.0
//
// Write one object: one conditional PUT up to a part's size, else a multipart upload whose parts
// travel while the next ones are filled. All parts but the last are of one size, as some stores
// take no others, and there are at most 10,000: so the size is fixed before the first byte.
//
// Threads: one; each part is sent on a thread of its own, at most max_concurrent_uploads a store.
// Memory:  one part being filled and those under way.
#pragma once

#include <cstdint>
#include <future>
#include <string>
#include <string_view>
#include <vector>

#include "env/object_store.h"

namespace cairn::env {

class S3ObjectStore;

/// Size of the parts of an object of about `bytes`: `least`, or as many times it as keep the parts
/// of twice the bytes within 10,000.
///
/// Errors:   kResourceExhausted: over 5 TiB, which no store takes.
Result<uint64_t> PartBytesFor(uint64_t bytes, uint64_t least);

class S3ObjectWriter final : public ObjectWriter {
 public:
  S3ObjectWriter(S3ObjectStore* store, std::string key, uint64_t part_bytes);
  /// Gives an unfinished upload back, so that its parts are not stored (and paid) for ever.
  ~S3ObjectWriter() override;

  Status Append(std::string_view bytes) override;
  Status Finish() override;

 private:
  Status SendPart();
  Status WaitForParts();

  S3ObjectStore* store_;
  std::string key_;
  const uint64_t part_bytes_;
  std::string token_;   ///< names this upload in the object's metadata
  std::string part_;    ///< being filled
  std::string upload_;  ///< empty until the first part is sent
  std::vector<std::future<Result<std::string>>> under_way_;
  std::vector<std::string> etags_;  ///< of the parts that have arrived, in order
};

}  // namespace cairn::env

// SPDX-License-Identifier: Apache-2.0
//
// Write one object of any size: one conditional PUT up to a part's size, else a multipart upload
// whose parts travel while the next ones are filled.
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

class S3ObjectWriter final : public ObjectWriter {
 public:
  S3ObjectWriter(S3ObjectStore* store, std::string key);
  /// Gives an unfinished upload back, so that its parts are not stored (and paid) for ever.
  ~S3ObjectWriter() override;

  Status Append(std::string_view bytes) override;
  Status Finish() override;

 private:
  uint64_t PartBytes() const;
  Status SendPart();
  Status WaitForParts();

  S3ObjectStore* store_;
  std::string key_;
  std::string token_;   ///< names this upload in the object's metadata
  std::string part_;    ///< being filled
  std::string upload_;  ///< empty until the first part is sent
  std::vector<std::future<Result<std::string>>> under_way_;
  std::vector<std::string> etags_;  ///< of the parts that have arrived, in order
};

}  // namespace cairn::env

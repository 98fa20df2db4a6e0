// SPDX-License-Identifier: Apache-2.0
//
// Stores that look like one and keep no condition: they are refused, by the promise they break.
#include <gtest/gtest.h>

#include "env/manual_clock.h"
#include "env/memory_object_store.h"
#include "env/store_probe.h"

namespace cairn::checkpoint {
namespace {

enum class Weakness { kCreateReplaces, kStreamReplaces, kSwapForgets, kSwapCreates };

/// Objects in memory, but for one condition that is not looked at.
class WeakObjectStore final : public env::ObjectStore {
 public:
  explicit WeakObjectStore(Weakness weakness) : weakness_(weakness) {}

  Status CreateIfAbsent(const std::string& key, std::string_view bytes) override {
    if (weakness_ == Weakness::kCreateReplaces) return memory_.PutHint(key, bytes);
    return memory_.CreateIfAbsent(key, bytes);
  }
  Result<std::string> CompareAndSwap(const std::string& key,
                                     const std::optional<std::string>& expected,
                                     std::string_view bytes) override {
    const bool forgets = weakness_ == Weakness::kSwapForgets && expected.has_value();
    const bool creates = weakness_ == Weakness::kSwapCreates && !expected.has_value();
    if (!forgets && !creates) return memory_.CompareAndSwap(key, expected, bytes);
    CAIRN_RETURN_IF_ERROR(memory_.PutHint(key, bytes));
    CAIRN_ASSIGN_OR_RETURN(const env::VersionedBytes there, memory_.Get(key, bytes.size()));
    return there.version;
  }
  Status PutHint(const std::string& key, std::string_view bytes) override {
    return memory_.PutHint(key, bytes);
  }
  Result<std::unique_ptr<env::ObjectWriter>> NewWriter(const std::string& key) override {
    if (weakness_ == Weakness::kStreamReplaces) CAIRN_RETURN_IF_ERROR(memory_.Delete(key));
    return memory_.NewWriter(key);
  }
  Result<env::VersionedBytes> Get(const std::string& key, uint64_t max_bytes) override {
    return memory_.Get(key, max_bytes);
  }
  Status ReadRange(const std::string& key, uint64_t offset, std::span<char> out) override {
    return memory_.ReadRange(key, offset, out);
  }
  Result<env::ObjectInfo> Head(const std::string& key) override { return memory_.Head(key); }
  Result<std::vector<env::ObjectInfo>> List(const std::string& prefix) override {
    return memory_.List(prefix);
  }
  Status Delete(const std::string& key) override { return memory_.Delete(key); }

 private:
  const Weakness weakness_;
  env::MemoryObjectStore memory_;
};

TEST(WeakStoreTest, AStoreWithoutConditionalWritesIsRefusedByThePromiseItBreaks) {
  const std::pair<Weakness, const char*> cases[] = {
      {Weakness::kCreateReplaces, "a create does not replace an object"},
      {Weakness::kStreamReplaces, "a streamed object does not replace an object"},
      {Weakness::kSwapForgets, "a swap of a stale version is refused"},
      {Weakness::kSwapCreates, "a swap that expects no object is refused where there is one"},
  };
  for (const auto& [weakness, promise] : cases) {
    WeakObjectStore store(weakness);
    env::SeededRandom random(1);
    const Status verdict = env::VerdictOf(env::ProbeStore(&store, &random));
    EXPECT_EQ(verdict.code(), StatusCode::kInvalidArgument) << promise;
    EXPECT_EQ(
        verdict.message(),
        std::string("this store cannot hold checkpoints: it does not keep the promise that ") +
            promise + " (the store carried it out); use a store with conditional writes");
    EXPECT_TRUE(store.List("")->empty()) << promise << ": the probe left something";
  }
}

}  // namespace
}  // namespace cairn::checkpoint

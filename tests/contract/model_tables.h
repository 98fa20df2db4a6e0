// SPDX-License-Identifier: Apache-2.0
//
// A table of the model test with its types hidden, and every comparison with the model.
#pragma once

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model_world.h"

namespace cairn::model {

/// Thrown by callbacks on purpose.
struct Thrown : std::runtime_error {
  Thrown() : std::runtime_error("on purpose") {}
};

class AnyTable {
 public:
  virtual ~AnyTable() = default;
  virtual StateTable* table() = 0;

  // Changes, with the model kept in step.
  virtual void Upsert(uint64_t number, uint64_t digest, bool noexcept_fn) = 0;
  virtual void UpsertMany(const std::vector<std::pair<uint64_t, uint64_t>>& rows) = 0;
  virtual void ThrowingUpdate(uint64_t number) = 0;
  virtual void Erase(uint64_t number) = 0;
  virtual void CheckNow(uint64_t number) = 0;

  // Reads, on any thread.
  virtual void CheckScan(const View& view, const ModelTable& model) const = 0;
  virtual void CheckGets(const View& view, const ModelTable& model, std::mt19937_64* random,
                         uint64_t keys) const = 0;
  virtual void CheckGroup(const View& view, const ModelTable& model, uint32_t group) const = 0;
  virtual void CheckDelta(const View& view, uint64_t since, const ModelTable& model) const = 0;
  virtual void CheckRestored(const std::vector<const MemorySink*>& cuts,
                             const ModelTable& model) const = 0;

  ModelTable model;  ///< as of now; the writer's
};

template <class K, class V>
class TypedTable final : public AnyTable {
 public:
  using ValueCodec = typename CodecOf<V>::type;
  using KeyArg = typename Table<K, V, Codec<K>, ValueCodec>::KeyArg;

  TypedTable(StateDomain* domain, const std::string& name, TableOptions options)
      : domain_(domain), options_(options), table_(domain, Descriptor(name), options) {}

  StateTable* table() override { return &table_; }

  void Upsert(uint64_t number, uint64_t digest, bool noexcept_fn) override {
    const bool expect_inserted = !IsLive(number);
    const auto key = KeyOf<K>::Make(number);
    const uint64_t before = expect_inserted ? 0 : model[number].digest;
    auto change = [&](V& value, bool inserted) {
      EXPECT_EQ(inserted, expect_inserted);
      EXPECT_EQ(inserted ? 0 : DigestOf(value), before);
      SetValue(digest, &value);
    };
    if (noexcept_fn) {
      ASSERT_TRUE(table_.Update(key, [&](V& v, bool i) noexcept { change(v, i); }).ok());
    } else {
      ASSERT_TRUE(table_.Update(key, change).ok());
    }
    Record(number, digest);
  }

  void UpsertMany(const std::vector<std::pair<uint64_t, uint64_t>>& rows) override {
    std::vector<decltype(KeyOf<K>::Make(0))> keys;
    std::vector<uint64_t> hashes;
    for (const auto& row : rows) {
      keys.push_back(KeyOf<K>::Make(row.first));
      hashes.push_back(Fnv1a64(KeyOf<K>::Encoded(row.first)));
    }
    size_t next = 0;
    const Status status = table_.UpdateBatch(
        rows.size(), [&](size_t i) -> KeyArg { return keys[i]; },
        [&](size_t i) { return hashes[i]; },
        [&](size_t i, V& value, bool inserted) noexcept {
          EXPECT_EQ(i, next++);
          EXPECT_EQ(inserted, !IsLive(rows[i].first));
          SetValue(rows[i].second, &value);
          Record(rows[i].first, rows[i].second);
        });
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_EQ(next, rows.size());
  }

  void ThrowingUpdate(uint64_t number) override {
    const uint64_t size = table_.size();
    EXPECT_THROW((void)table_.Update(KeyOf<K>::Make(number),
                                     [&](V& value, bool) {
                                       SetValue(666, &value);
                                       throw Thrown();
                                     }),
                 Thrown);
    EXPECT_EQ(table_.size(), size);
    CheckNow(number);
  }

  void Erase(uint64_t number) override {
    EXPECT_EQ(table_.Erase(KeyOf<K>::Make(number)), IsLive(number));
    if (IsLive(number)) model[number] = {0, false, domain_->current_epoch()};
  }

  void CheckNow(uint64_t number) override {
    const V* value = table_.Find(KeyOf<K>::Make(number));
    ASSERT_EQ(value != nullptr, IsLive(number)) << number;
    if (value != nullptr) {
      EXPECT_EQ(DigestOf(*value), model[number].digest);
    }
  }

  void CheckScan(const View& view, const ModelTable& expected) const override {
    uint64_t live = 0;
    for (const auto& [number, row] : expected) live += row.live ? 1 : 0;
    ASSERT_EQ(table_.CountRows(view), live);
    CompareScan(view, {0, kMaxKeyGroups}, expected, live);
  }

  void CheckGroup(const View& view, const ModelTable& expected, uint32_t group) const override {
    uint64_t live = 0;
    for (const auto& [number, row] : expected) {
      const uint32_t own = KeyGroupOf(KeyOf<K>::Encoded(number), options_.key_groups);
      live += row.live && own == group ? 1 : 0;
    }
    CompareScan(view, {group, group + 1}, expected, live);
  }

  void CheckGets(const View& view, const ModelTable& expected, std::mt19937_64* random,
                 uint64_t keys) const override {
    for (int i = 0; i < 40; ++i) {
      const uint64_t number = (*random)() % keys;
      const auto it = expected.find(number);
      const bool live = it != expected.end() && it->second.live;
      uint64_t digest = 0;
      const bool found = table_.Get(view, KeyOf<K>::Make(number),
                                    [&](const V& value) { digest = DigestOf(value); });
      ASSERT_EQ(found, live) << "key " << number << " in the view of epoch " << view.epoch();
      if (live) {
        ASSERT_EQ(digest, it->second.digest) << "key " << number;
      }
    }
  }

  void CheckDelta(const View& view, uint64_t since, const ModelTable& expected) const override {
    uint64_t changed = 0;
    for (const auto& [number, row] : expected) changed += row.stamp > since ? 1 : 0;
    uint64_t seen = 0;
    std::set<uint64_t> keys;
    table_.Delta(view, since, [&](SavedRowKind kind, const K& key, const V* value) {
      const uint64_t number = KeyOf<K>::Number(key);
      EXPECT_TRUE(keys.insert(number).second) << "key " << number << " twice in a delta";
      const auto it = expected.find(number);
      ASSERT_TRUE(it != expected.end() && it->second.stamp > since)
          << "key " << number << " did not change after " << since;
      ASSERT_EQ(kind, it->second.live ? SavedRowKind::kPut : SavedRowKind::kErase);
      ASSERT_EQ(value != nullptr, it->second.live);
      if (value != nullptr) {
        ASSERT_EQ(DigestOf(*value), it->second.digest);
      }
      ++seen;
    });
    ASSERT_EQ(seen, changed) << "delta of view " << view.epoch() << " since " << since;
  }

  // Loads a base and its deltas into a new table of half the groups and compares both halves.
  void CheckRestored(const std::vector<const MemorySink*>& cuts,
                     const ModelTable& expected) const override {
    const uint32_t groups = options_.key_groups;
    for (const KeyGroupRange half :
         {KeyGroupRange{0, groups / 2}, KeyGroupRange{groups / 2, groups}}) {
      if (half.size() == 0) continue;
      auto domain = StateDomain::Create({.name = "restored"});
      TableOptions options = options_;
      options.range = half;
      Table<K, V, Codec<K>, ValueCodec> restored(domain.get(), Descriptor("restored"), options);
      uint64_t rows = 0;
      LoadCounts counts;
      for (const MemorySink* cut : cuts) {
        for (const auto& part : cut->parts()) {
          rows += part->rows.rows();
          const Status status = restored.Load(part->rows.Span(), 2, 2, &counts);
          ASSERT_TRUE(status.ok()) << status.ToString();
        }
      }
      ASSERT_EQ(counts.rows + counts.skipped, rows);
      uint64_t live = 0;
      for (const auto& [number, row] : expected) {
        if (!row.live || !half.Contains(KeyGroupOf(KeyOf<K>::Encoded(number), groups))) continue;
        ++live;
        const V* value = restored.Find(KeyOf<K>::Make(number));
        ASSERT_NE(value, nullptr) << number;
        ASSERT_EQ(DigestOf(*value), row.digest);
      }
      ASSERT_EQ(restored.size(), live);
    }
  }

 private:
  static SlotDescriptor Descriptor(const std::string& name) {
    SlotDescriptor descriptor;
    descriptor.operator_uid = "model";
    descriptor.name = name;
    return descriptor;
  }

  bool IsLive(uint64_t number) const {
    const auto it = model.find(number);
    return it != model.end() && it->second.live;
  }
  void Record(uint64_t number, uint64_t digest) {
    model[number] = {digest, true, domain_->current_epoch()};
  }

  void CompareScan(const View& view, KeyGroupRange range, const ModelTable& expected,
                   uint64_t live) const {
    uint64_t seen = 0;
    std::set<uint64_t> keys;
    table_.Scan(view, range, [&](const K& key, const V& value) {
      const uint64_t number = KeyOf<K>::Number(key);
      EXPECT_TRUE(keys.insert(number).second) << "key " << number << " twice in a scan";
      const auto it = expected.find(number);
      ASSERT_TRUE(it != expected.end() && it->second.live)
          << "key " << number << " is not in the view of epoch " << view.epoch();
      ASSERT_EQ(DigestOf(value), it->second.digest) << "key " << number;
      ++seen;
    });
    ASSERT_EQ(seen, live) << "view of epoch " << view.epoch();
  }

  StateDomain* const domain_;
  const TableOptions options_;
  Table<K, V, Codec<K>, ValueCodec> table_;
};

}  // namespace cairn::model

// SPDX-License-Identifier: Apache-2.0
//
// Slots of every kind of state with their types hidden, and what the kinds' model test compares
// them with: ordered maps of keys to elements with deadlines.
#pragma once

#include <random>

#include "cairn/list_state.h"
#include "cairn/map_state.h"
#include "cairn/value_state.h"
#include "model_world.h"

namespace cairn::model {

struct ModelElement {
  uint64_t digest = 0;
  int64_t deadline_ms = detail::kDeadlineMax;
};
using ModelCollection = std::map<uint64_t, ModelElement>;
/// Key number -> element number (of lists the index, of values 0).
struct ModelSlot {
  std::map<uint64_t, ModelCollection> rows;
  std::map<uint64_t, uint64_t> next_index;  ///< of lists
};
/// What is alive: key number -> element number -> digest.
using Alive = std::map<uint64_t, std::map<uint64_t, uint64_t>>;

inline Alive AliveAt(const ModelSlot& model, const detail::TtlNow& now) {
  Alive alive;
  for (const auto& [key, elements] : model.rows) {
    for (const auto& [number, element] : elements) {
      if (!now.IsDead(element.deadline_ms)) alive[key][number] = element.digest;
    }
  }
  return alive;
}

class AnySlot {
 public:
  virtual ~AnySlot() = default;
  virtual StateTable* table() = 0;
  virtual bool is_list() const { return false; }
  /// One change of element `number` of `key`; lists append when `number` is not in the model.
  virtual void Write(uint64_t key, uint64_t number, uint64_t digest, bool in_place) = 0;
  virtual void Remove(uint64_t key, uint64_t number) = 0;
  virtual void Clear(uint64_t key) = 0;
  virtual Alive Now() const = 0;
  virtual Alive At(const View& view) const = 0;
  virtual std::map<uint64_t, uint64_t> One(const View& view, uint64_t key) const = 0;
  virtual std::unique_ptr<AnySlot> Another(StateDomain* domain, TableOptions options,
                                           TtlConfig ttl) const = 0;
};

inline SlotDescriptor KindDescriptor(const TtlConfig& ttl) {
  SlotDescriptor descriptor;
  descriptor.operator_uid = "model";
  descriptor.name = "kind";
  descriptor.ttl = ttl;
  return descriptor;
}

template <class K, class V>
class ListSlot final : public AnySlot {
 public:
  ListSlot(StateDomain* domain, TableOptions options, TtlConfig ttl)
      : state_(domain, KindDescriptor(ttl), options) {}
  StateTable* table() override { return &state_; }
  bool is_list() const override { return true; }
  void Write(uint64_t key, uint64_t number, uint64_t digest, bool) override {
    V value{};
    SetValue(digest, &value);
    const Result<bool> set = state_.Set(KeyOf<K>::Make(key), number, value);
    ASSERT_TRUE(set.ok());
    if (*set) return;
    ASSERT_TRUE(state_.Append(KeyOf<K>::Make(key), value).ok());
  }
  void Remove(uint64_t key, uint64_t number) override {
    ASSERT_TRUE(state_.RemoveAt(KeyOf<K>::Make(key), number).ok());
  }
  void Clear(uint64_t key) override { ASSERT_TRUE(state_.Clear(KeyOf<K>::Make(key)).ok()); }
  Alive Now() const override {
    Alive all;
    for (uint64_t key = 0; key < kKeys; ++key) {
      state_.ForEach(KeyOf<K>::Make(key),
                     [&](uint64_t i, const V& value) { all[key][i] = DigestOf(value); });
    }
    return all;
  }
  Alive At(const View& view) const override {
    Alive all;
    state_.Scan(view, state_.key_groups(), [&](const K& key, uint64_t index, const V& value) {
      auto& elements = all[KeyOf<K>::Number(key)];
      EXPECT_TRUE(elements.empty() || elements.rbegin()->first < index) << "in order";
      elements[index] = DigestOf(value);
    });
    return all;
  }
  std::map<uint64_t, uint64_t> One(const View& view, uint64_t key) const override {
    std::map<uint64_t, uint64_t> all;
    state_.ForEach(view, KeyOf<K>::Make(key),
                   [&](uint64_t i, const V& value) { all[i] = DigestOf(value); });
    EXPECT_EQ(state_.Size(view, KeyOf<K>::Make(key)), all.size());
    return all;
  }
  std::unique_ptr<AnySlot> Another(StateDomain* domain, TableOptions options,
                                   TtlConfig ttl) const override {
    return std::make_unique<ListSlot>(domain, options, ttl);
  }

 private:
  static constexpr uint64_t kKeys = 64;
  ListState<K, V> state_;
};

/// Map keys of strings are made as byte-string keys are.
template <class MK>
struct MapKeyOf : KeyOf<MK> {};
template <>
struct MapKeyOf<std::string> : KeyOf<Bytes> {
  static uint64_t Number(const std::string& key) { return KeyOf<Bytes>::Number(Bytes(key)); }
};

template <class K, class MK, class V, class MapKeyCodec = Codec<MK>>
class MapSlot final : public AnySlot {
 public:
  MapSlot(StateDomain* domain, TableOptions options, TtlConfig ttl)
      : state_(domain, KindDescriptor(ttl), options) {}
  StateTable* table() override { return &state_; }
  void Write(uint64_t key, uint64_t number, uint64_t digest, bool in_place) override {
    if (digest % 3 == 0) {
      V value{};
      SetValue(digest, &value);
      ASSERT_TRUE(state_.Put(KeyOf<K>::Make(key), MapKeyOf<MK>::Make(number), value).ok());
    } else if (in_place) {
      ASSERT_TRUE(state_
                      .Update(KeyOf<K>::Make(key), MapKeyOf<MK>::Make(number),
                              [&](V& value, bool) noexcept { SetValue(digest, &value); })
                      .ok());
    } else {
      ASSERT_TRUE(state_
                      .Update(KeyOf<K>::Make(key), MapKeyOf<MK>::Make(number),
                              [&](V& value, bool) { SetValue(digest, &value); })
                      .ok());
    }
  }
  void Remove(uint64_t key, uint64_t number) override {
    ASSERT_TRUE(state_.Remove(KeyOf<K>::Make(key), MapKeyOf<MK>::Make(number)).ok());
  }
  void Clear(uint64_t key) override { ASSERT_TRUE(state_.Clear(KeyOf<K>::Make(key)).ok()); }
  Alive Now() const override {
    Alive all;
    for (uint64_t key = 0; key < 64; ++key) {
      state_.ForEach(KeyOf<K>::Make(key), [&](const MK& map_key, const V& value) {
        all[key][MapKeyOf<MK>::Number(map_key)] = DigestOf(value);
      });
    }
    return all;
  }
  Alive At(const View& view) const override {
    Alive all;
    state_.Scan(view, state_.key_groups(), [&](const K& key, const MK& map_key, const V& value) {
      auto& elements = all[KeyOf<K>::Number(key)];
      EXPECT_TRUE(elements.emplace(MapKeyOf<MK>::Number(map_key), DigestOf(value)).second);
    });
    return all;
  }
  std::map<uint64_t, uint64_t> One(const View& view, uint64_t key) const override {
    std::map<uint64_t, uint64_t> all;
    state_.ForEach(view, KeyOf<K>::Make(key), [&](const MK& map_key, const V& value) {
      all[MapKeyOf<MK>::Number(map_key)] = DigestOf(value);
    });
    for (const auto& [number, digest] : all) {
      uint64_t got = 0;
      EXPECT_TRUE(state_.Get(view, KeyOf<K>::Make(key), MapKeyOf<MK>::Make(number),
                             [&](const V& value) { got = DigestOf(value); }));
      EXPECT_EQ(got, digest);
    }
    return all;
  }
  std::unique_ptr<AnySlot> Another(StateDomain* domain, TableOptions options,
                                   TtlConfig ttl) const override {
    return std::make_unique<MapSlot>(domain, options, ttl);
  }

 private:
  MapState<K, MK, V, Codec<K>, MapKeyCodec> state_;
};

template <class K, class V>
class ValueSlot final : public AnySlot {
 public:
  ValueSlot(StateDomain* domain, TableOptions options, TtlConfig ttl)
      : state_(domain, KindDescriptor(ttl), options) {}
  StateTable* table() override { return &state_; }
  void Write(uint64_t key, uint64_t, uint64_t digest, bool in_place) override {
    const auto set = [&](V& value) { SetValue(digest, &value); };
    if (in_place) {
      ASSERT_TRUE(
          state_.Update(KeyOf<K>::Make(key), [&](V& value, bool) noexcept { set(value); }).ok());
    } else {
      ASSERT_TRUE(state_.Update(KeyOf<K>::Make(key), [&](V& value, bool) { set(value); }).ok());
    }
  }
  void Remove(uint64_t key, uint64_t) override { state_.Erase(KeyOf<K>::Make(key)); }
  void Clear(uint64_t key) override { state_.Erase(KeyOf<K>::Make(key)); }
  Alive Now() const override {
    Alive all;
    state_.ScanNow(state_.key_groups(), [&](const K& key, const V& value) {
      all[KeyOf<K>::Number(key)][0] = DigestOf(value);
    });
    return all;
  }
  Alive At(const View& view) const override {
    Alive all;
    state_.Scan(view, state_.key_groups(), [&](const K& key, const V& value) {
      all[KeyOf<K>::Number(key)][0] = DigestOf(value);
    });
    return all;
  }
  std::map<uint64_t, uint64_t> One(const View& view, uint64_t key) const override {
    std::map<uint64_t, uint64_t> all;
    state_.Get(view, KeyOf<K>::Make(key), [&](const V& value) { all[0] = DigestOf(value); });
    return all;
  }
  std::unique_ptr<AnySlot> Another(StateDomain* domain, TableOptions options,
                                   TtlConfig ttl) const override {
    return std::make_unique<ValueSlot>(domain, options, ttl);
  }

 private:
  ValueState<K, V> state_;
};

}  // namespace cairn::model

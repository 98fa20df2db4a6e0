// SPDX-License-Identifier: Apache-2.0
//
// Slots beside each other in one domain.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "model_world.h"

namespace cairn {
namespace {

using model::MemorySink;

/// Three slots whose keys have the same bytes, and one of another operator.
struct FourSlots {
  using Numbers = Table<int64_t, int64_t>;
  using Texts = Table<int64_t, std::string>;
  using ByBytes = Table<Bytes, std::string>;

  static SlotDescriptor Named(const std::string& uid, const std::string& name) {
    SlotDescriptor slot;
    slot.operator_uid = uid;
    slot.operator_id = OperatorIdOf(uid);
    slot.name = name;
    return slot;
  }

  std::unique_ptr<StateDomain> domain = StateDomain::Create({});
  Numbers numbers{domain.get(), Named("op", "numbers")};
  Texts texts{domain.get(), Named("op", "texts")};
  ByBytes by_bytes{domain.get(), Named("op", "bytes")};
  Numbers others{domain.get(), Named("other op", "numbers")};
};

TEST(Slots, OfOneKeyAndOtherTypesNeverAlias) {
  const std::string key_bytes("\x07\0\0\0\0\0\0\0", 8);  // what the int64 codec writes for 7
  FourSlots slots;
  ASSERT_TRUE(slots.numbers.Update(7, [](int64_t& n, bool) { n = 1; }).ok());
  ASSERT_TRUE(slots.others.Update(7, [](int64_t& n, bool) { n = 2; }).ok());
  ASSERT_TRUE(slots.texts.Update(7, [](std::string& text, bool) { text = "text"; }).ok());
  ASSERT_TRUE(slots.by_bytes.Update(key_bytes, [](std::string& text, bool) { text = "x"; }).ok());

  MemorySink numbers, texts, by_bytes, others;
  const View view = slots.domain->Capture();
  constexpr KeyGroupRange kEvery{0, kDefaultKeyGroups};
  ASSERT_TRUE(slots.numbers.EncodeBase(view, kEvery, &numbers).ok());
  ASSERT_TRUE(slots.texts.EncodeBase(view, kEvery, &texts).ok());
  ASSERT_TRUE(slots.by_bytes.EncodeBase(view, kEvery, &by_bytes).ok());
  ASSERT_TRUE(slots.others.EncodeBase(view, kEvery, &others).ok());

  slots.numbers.Erase(7);
  EXPECT_EQ(slots.numbers.Find(7), nullptr);
  EXPECT_EQ(*slots.others.Find(7), 2);
  EXPECT_EQ(*slots.texts.Find(7), "text");
  EXPECT_EQ(*slots.by_bytes.Find(key_bytes), "x");

  FourSlots restored;
  const auto load = [](StateTable* table, const MemorySink& saved) {
    LoadCounts counts;
    for (const auto& part : saved.parts()) {
      const Status status = table->Load(part->rows.Span(), 2, 2, &counts);
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    EXPECT_EQ(counts.rows, 1u);
  };
  load(&restored.numbers, numbers);
  load(&restored.others, others);
  load(&restored.texts, texts);
  load(&restored.by_bytes, by_bytes);
  EXPECT_EQ(*restored.numbers.Find(7), 1);
  EXPECT_EQ(*restored.others.Find(7), 2);
  EXPECT_EQ(*restored.texts.Find(7), "text");
  EXPECT_EQ(*restored.by_bytes.Find(key_bytes), "x");
}

}  // namespace
}  // namespace cairn

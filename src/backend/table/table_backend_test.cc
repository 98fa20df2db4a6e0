// SPDX-License-Identifier: Apache-2.0
//
// What only declared slots do; what every backend does is in
// tests/contract/backend_contract_test.cc.
#include "backend/table/table_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "backend/changelog/changelog_backend.h"
#include "backend/table/byte_slot.h"

namespace cairn::backend {
namespace {

TEST(TableBackendTest, Behaviour05ASlotWhoseNameHoldsASeparatorIsRefused) {
  MemoryBudget budget(0);
  TableBackendOptions tables;
  tables.state.budget = &budget;
  const auto plain = *TableBackend::Open(tables);
  ChangelogOptions changelog;
  changelog.tables.state.budget = &budget;
  const auto logged = *ChangelogBackend::Open(changelog);
  for (const std::string& name :
       {std::string("a|b"), std::string("a\nb"), std::string("a\0b", 3), std::string()}) {
    SlotDescriptor slot;
    slot.operator_uid = "op";
    slot.name = name;
    const SlotMaker maker = TypedSlot<int64_t, int64_t>::Maker();
    for (const Status& refused :
         {plain->DeclareSlot(slot, maker), logged->DeclareSlot(slot, maker)}) {
      EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("slot name"));
    }
  }
}

}  // namespace
}  // namespace cairn::backend

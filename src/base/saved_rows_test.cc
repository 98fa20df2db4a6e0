// SPDX-License-Identifier: Apache-2.0
#include "base/saved_rows.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::base {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

void AppendOneByOne(const Pairs& pairs, SavedRows* rows) {
  for (const auto& [key, value] : pairs) {
    const SavedRows::Slot to = rows->Append(SavedRowKind::kPut, key.size(), value.size());
    key.copy(to.key, key.size());
    value.copy(to.value, value.size());
  }
}

void AppendAsRun(const Pairs& pairs, SavedRows* rows) {
  size_t key_bytes = 0;
  size_t value_bytes = 0;
  for (const auto& [key, value] : pairs) {
    key_bytes += key.size();
    value_bytes += value.size();
  }
  SavedRows::Run run(rows, pairs.size(), key_bytes, value_bytes);
  for (const auto& [key, value] : pairs) {
    const SavedRows::Slot to = run.Append(SavedRowKind::kPut, key.size(), value.size());
    key.copy(to.key, key.size());
    value.copy(to.value, value.size());
  }
  run.Finish();
}

TEST(SavedRowsRun, AppendsWhatSingleRowsWouldForPrefixesOfAnyLength) {
  Pairs pairs;
  for (size_t i = 0; i < 40; ++i) pairs.emplace_back(std::string(i % 9, 'k'), std::string(i, 'v'));
  for (size_t prefix_bytes : {0, 1, 7, 15, 16, 17, 40}) {
    SavedRows one_by_one;
    SavedRows run;
    for (char repeat : {'a', 'b'}) {
      for (SavedRows* rows : {&one_by_one, &run}) {
        rows->SetKeyPrefix(std::string(prefix_bytes, repeat));
      }
      AppendOneByOne(pairs, &one_by_one);
      AppendAsRun(pairs, &run);
    }
    ASSERT_EQ(run.rows(), 2 * pairs.size());
    ASSERT_EQ(run.bytes(), one_by_one.bytes());
    const SavedRowSpan expected = one_by_one.Span();
    const SavedRowSpan got = run.Span();
    for (size_t i = 0; i < expected.rows; ++i) {
      ASSERT_EQ(got.key(i), expected.key(i)) << prefix_bytes << ", row " << i;
      ASSERT_EQ(got.value(i), expected.value(i)) << prefix_bytes << ", row " << i;
      ASSERT_EQ(got.kind(i), SavedRowKind::kPut);
    }
  }
}

TEST(SavedRowsRun, AppendsNothingWithoutFinish) {
  SavedRows rows;
  AppendOneByOne({{"key", "value"}}, &rows);
  const size_t before = rows.bytes();
  {
    SavedRows::Run run(&rows, 1, 100, 100);
    run.Append(SavedRowKind::kPut, 100, 100);
  }
  EXPECT_EQ(rows.rows(), 1u);
  EXPECT_EQ(rows.bytes(), before);
  EXPECT_EQ(rows.Span().key(0), "key");
}

TEST(PrefixRun, EndsBeforeTheFirstKeyWithAnotherPrefix) {
  for (size_t prefix_bytes = 1; prefix_bytes <= 20; ++prefix_bytes) {
    for (size_t differs = 0; differs < prefix_bytes; ++differs) {
      std::string other(prefix_bytes, 'p');
      other[differs] = 'q';
      for (size_t tail : {0, 1, 9}) {
        const std::string same = std::string(prefix_bytes, 'p');
        SavedRows rows;
        AppendOneByOne({{same + "1", ""},
                        {same + std::string(tail, 'x'), ""},
                        {other + std::string(tail, 'x'), ""},
                        {same + "2", ""}},
                       &rows);
        ASSERT_EQ(rows.Span().PrefixRun(0, prefix_bytes), 2u)
            << prefix_bytes << " bytes, byte " << differs << " differs, tail " << tail;
      }
    }
  }
}

TEST(PrefixRun, EndsBeforeAKeyThatIsTooShortAndIsZeroAtOne) {
  SavedRows rows;
  AppendOneByOne({{"prefix|1", ""}, {"prefix|2", ""}, {"pre", ""}}, &rows);
  EXPECT_EQ(rows.Span().PrefixRun(0, 7), 2u);
  EXPECT_EQ(rows.Span().PrefixRun(2, 7), 0u);
}

}  // namespace
}  // namespace cairn::base

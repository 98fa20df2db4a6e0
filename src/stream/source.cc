// SPDX-License-Identifier: Apache-2.0
#include "stream/source.h"

#include <algorithm>

#include "base/units.h"

namespace cairn::stream {

namespace {

template <class Predicate>
uint64_t Count(const std::vector<SplitProgress>& splits, Predicate of) {
  return static_cast<uint64_t>(std::count_if(splits.begin(), splits.end(), of));
}

}  // namespace

std::string DescribeSplits(const std::vector<SplitProgress>& saved,
                           const std::vector<SplitProgress>& found) {
  const uint64_t ended = Count(found, [](const SplitProgress& split) { return split.ended; });
  const uint64_t begun = Count(
      saved, [](const SplitProgress& split) { return !split.ended && !split.position.empty(); });
  const uint64_t fresh =
      Count(found, [](const SplitProgress& split) { return split.is_new && !split.ended; });
  return base::FormatCount(ended) + " of " + base::FormatCount(found.size()) +
         (found.size() == 1 ? " split done, " : " splits done, ") + base::FormatCount(begun) +
         " under way" + (fresh == 0 ? "" : ", " + base::FormatCount(fresh) + " new");
}

}  // namespace cairn::stream

// SPDX-License-Identifier: Apache-2.0
//
// One function a decoder, for libFuzzer (x_fuzz.cc) and for the replay of its findings
// (fuzz_replay_test.cc). Any bytes may come in; what is accepted must survive the way back.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/changelog/changelog_backend.h"
#include "backend/table/table_backend.h"
#include "base/check.h"
#include "cairn/bytes.h"
#include "cairn/detail/timer_row_key.h"
#include "cairn/element_row_key.h"
#include "cairn/list_state.h"
#include "cairn/map_state.h"
#include "cairn/state_domain.h"

namespace cairn::backend {

inline std::unique_ptr<TableBackend> FuzzedTables(MemoryBudget* budget) {
  TableBackendOptions options;
  options.state.budget = budget;
  auto opened = TableBackend::Open(std::move(options));
  CAIRN_CHECK(opened.ok());
  return *std::move(opened);
}

inline Status RestoreBytes(StateBackend* backend, SnapshotForm form, std::string_view bytes) {
  RestorePart part;
  part.snapshot.form = form;
  part.snapshot.bytes = bytes;
  return backend->Restore({&part, 1}).status();
}

/// Bytes as the canonical snapshot of a backend: what is taken is saved, and taken again, the same.
inline void FuzzSnapshot(std::string_view bytes) {
  MemoryBudget budget(uint64_t{64} << 20);
  const auto first = FuzzedTables(&budget);
  if (!RestoreBytes(first.get(), SnapshotForm::kCanonical, bytes).ok()) {
    CAIRN_CHECK(first->Describe().rows == 0);
    return;
  }
  const Result<BackendSnapshot> saved = first->Snapshot(1);
  CAIRN_CHECK(saved.ok());
  const auto second = FuzzedTables(&budget);
  CAIRN_CHECK(RestoreBytes(second.get(), SnapshotForm::kCanonical, saved->bytes).ok());
  CAIRN_CHECK(second->Describe().rows == first->Describe().rows);
  CAIRN_CHECK(second->Snapshot(1)->bytes == saved->bytes);
}

/// Bytes as a changelog: replayed in a backend, and made canonical without one, it holds the same.
inline void FuzzChangelog(std::string_view bytes) {
  const Result<std::string> canonical = CanonicaliseChangelog(bytes, nullptr);
  MemoryBudget budget(uint64_t{64} << 20);
  ChangelogOptions options;
  options.tables.state.budget = &budget;
  auto opened = ChangelogBackend::Open(std::move(options));
  CAIRN_CHECK(opened.ok());
  const Status replayed = RestoreBytes(opened->get(), SnapshotForm::kChangelog, bytes);
  if (!replayed.ok()) {
    CAIRN_CHECK((*opened)->Describe().rows == 0);
    return;
  }
  CAIRN_CHECK(canonical.ok());
  const auto tables = FuzzedTables(&budget);
  CAIRN_CHECK(RestoreBytes(tables.get(), SnapshotForm::kCanonical, *canonical).ok());
  CAIRN_CHECK(tables->Describe().rows == (*opened)->Describe().rows);
}

/// The key of a saved timer.
inline void FuzzTimerRow(std::string_view bytes) {
  detail::TimerRowKey key;
  if (!detail::TimerRowKey::Parse(bytes, &key)) return;
  std::string again(detail::TimerRowKey::Size(key.user_key.size(), key.ns.size()), '\0');
  CAIRN_CHECK(again.size() == bytes.size());
  char* at = detail::TimerRowKey::WriteLength(again.data(), key.user_key.size());
  at += key.user_key.copy(at, key.user_key.size());
  key.ns.copy(detail::TimerRowKey::WriteTime(at, key.domain, key.time), key.ns.size());
  CAIRN_CHECK(again == bytes);
  // Tools find the group of a timer's row the way they find an element's.
  CAIRN_CHECK(ElementRowKey::Parse(bytes).user_key == key.user_key);
}

/// Rows of one group, in memory.
class FuzzRowSink final : public SavedRowSink {
 public:
  Result<SavedRows*> BeginGroup(uint32_t group) override {
    CAIRN_CHECK(group == 0);
    rows_.SetKeyPrefix(std::string(2, '\0'));
    return &rows_;
  }
  Status Flush() override { return {}; }
  const SavedRows& rows() const { return rows_; }

 private:
  SavedRows rows_;
};

/// Load rows into a collection; what it takes, it saves in a form that it takes again.
template <class Collection>
void FuzzCollection(const SavedRows& rows) {
  SlotDescriptor slot;
  slot.operator_uid = "op";
  slot.name = "slot";
  TableOptions options;
  options.key_groups = 1;
  const auto first = StateDomain::Create({});
  Collection loaded(first.get(), slot, options);
  LoadCounts counts;
  if (!loaded.Load(rows.Span(), 2, 2, &counts).ok()) return;
  FuzzRowSink saved, again;
  CAIRN_CHECK(loaded.EncodeBase(first->Capture(), {0, 1}, &saved).ok());
  const auto second = StateDomain::Create({});
  Collection restored(second.get(), slot, options);
  const Status status = restored.Load(saved.rows().Span(), 2, 2, &counts);
  CAIRN_CHECK(status.ok());
  CAIRN_CHECK(restored.EncodeBase(second->Capture(), {0, 1}, &again).ok());
  CAIRN_CHECK(again.rows().rows() == saved.rows().rows());
}

/// The first byte chooses a list or a map, then come rows: a kind, and two texts with their lengths
/// in front.
inline void FuzzElementRows(std::string_view bytes) {
  if (bytes.empty()) return;
  const bool list = bytes[0] % 2 == 0;
  bytes.remove_prefix(1);
  const auto take = [&bytes](size_t size) {
    const std::string_view taken = bytes.substr(0, size);
    bytes.remove_prefix(taken.size());
    return taken;
  };
  const auto text = [&] {
    const std::string_view size = take(1);
    return take(size.empty() ? 0 : static_cast<uint8_t>(size[0]));
  };
  SavedRows rows;
  rows.SetKeyPrefix(std::string(2, '\0'));
  while (!bytes.empty()) {
    const auto kind = static_cast<SavedRowKind>(take(1)[0] % 3u);
    const std::string_view key = text(), value = text();
    const SavedRows::Slot to = rows.Append(kind, key.size(), value.size());
    key.copy(to.key, key.size());
    value.copy(to.value, value.size());
  }
  if (list) {
    FuzzCollection<ListState<Bytes, std::string>>(rows);
  } else {
    FuzzCollection<MapState<Bytes, std::string, std::string>>(rows);
  }
}

struct FuzzTarget {
  const char* name;  ///< of its folder in testdata/fuzz
  void (*run)(std::string_view bytes);
};
inline constexpr FuzzTarget kFuzzTargets[] = {{"snapshot", FuzzSnapshot},
                                              {"changelog", FuzzChangelog},
                                              {"timer_row", FuzzTimerRow},
                                              {"element_rows", FuzzElementRows}};

}  // namespace cairn::backend

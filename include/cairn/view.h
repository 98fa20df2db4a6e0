// SPDX-License-Identifier: Apache-2.0
//
// View: an immutable cut of all tables of a StateDomain.
//
// Invariants
//  1. What a view shows never changes while one handle of it is open.
//  2. Views may be released in any order, on any thread, after the domain's tables are gone too.
//  3. A handle that is passed to another thread is passed with synchronisation, as any object is.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "cairn/ttl.h"

namespace cairn {
inline namespace v0 {

class StateDomain;
namespace detail {
struct ViewNode;
}  // namespace detail

/// Handle of a cut: copies share it, the last one to go releases it.
///
/// Threads:  any; one handle is used by one thread at a time, copies are independent.
/// Cost:     a copy is one atomic add; the last release hands what only this view saw to the next
///           older view, or frees it.
class View {
 public:
  View() = default;
  View(const View& other) noexcept;
  View(View&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  View& operator=(View other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~View() { Release(); }

  /// Epoch of the cut: it shows every change made up to and including this epoch. 0 = no view.
  uint64_t epoch() const;
  /// What a clock of the domain showed at the capture; nothing before its first time.
  std::optional<int64_t> TimeOf(TtlClock clock) const;
  /// The first time that the clock showed, in this run or those it was restored from.
  std::optional<int64_t> FirstTimeOf(TtlClock clock) const;
  explicit operator bool() const { return node_ != nullptr; }

  /// Drop this handle. Blocks: never on the writer.
  void Release();

  /// For the tables, which find their root in it.
  const detail::ViewNode* node() const { return node_; }

 private:
  friend class StateDomain;
  explicit View(detail::ViewNode* node) : node_(node) {}
  detail::ViewNode* node_ = nullptr;
};

}  // namespace v0
}  // namespace cairn

// SPDX-License-Identifier: Apache-2.0
//
// RowSorter: rows of many slots, given in any order, in the order in which a cut holds them, in
// fixed memory.
//
//   rows -> a buffer -> sorted runs in a scratch file each -> merged front to back
//
// Order: operator id, keyed before operator state, key group, slot name, slot hash of the key, key.
// That is the order of frames in an object and of rows in a frame, so a cut is written by one pass.
//
// Threads: one.
//
// Invariants
//  1. Memory is at most Options::memory_bytes plus one row and 64 bytes a slot, whatever is added.
//  2. The scratch directory is made with the first run and removed with the sorter.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/state_table.h"
#include "cairn/status.h"
#include "env/file_system.h"

namespace cairn::checkpoint {

/// A row as it comes out. The views die with the next call of the merge.
struct SortedRow {
  size_t slot = 0;  ///< as AddSlot numbered it
  uint32_t group = 0;
  std::string_view user_key;
  std::string_view value;
};

/// What a key that comes twice means.
enum class DuplicateRule : uint8_t {
  kRefuse,    ///< an error: a table has a key once
  kLaterWins  ///< as a snapshot is read (format::ResolveDuplicate)
};

class RowMerge;

class RowSorter {
 public:
  struct Options {
    env::FileSystem* files = nullptr;
    std::string scratch;  ///< a directory that does not exist
    uint64_t memory_bytes = uint64_t{64} << 20;
    uint32_t key_groups = kDefaultKeyGroups;
    uint64_t slot_hash_seed = 0;
  };

  explicit RowSorter(Options options);
  ~RowSorter();

  /// Add a slot and return its number. (operator id, name) is unique: the caller's to see to.
  size_t AddSlot(SlotDescriptor slot);
  const std::vector<SlotDescriptor>& slots() const { return slots_; }

  /// Add a row. Rows of operator state have the group 0.
  ///
  /// Errors:   kResourceExhausted or kUnavailable of the scratch files · kInvalidArgument for a key
  ///           or a value of 2 GiB or more.
  Status Add(size_t slot, std::string_view user_key, std::string_view value, DuplicateRule rule);

  /// Bytes of keys and values added to `slot`.
  uint64_t bytes(size_t slot) const { return bytes_[slot]; }

  /// Merge what was added; may be called again for another pass. No Add may follow.
  Result<std::unique_ptr<RowMerge>> Merge();

 private:
  friend class RowMerge;
  struct Row {
    uint32_t slot = 0;
    uint32_t group = 0;
    uint64_t hash = 0;
    std::string_view key;
    std::string_view value;
    DuplicateRule rule = DuplicateRule::kRefuse;
  };
  struct Entry {
    uint64_t at = 0;  ///< of the key in buffer_; the value follows it. Grows: earlier rows first
    uint64_t hash = 0;
    uint32_t slot = 0;
    uint32_t group = 0;
    uint32_t key_bytes = 0;
    uint32_t value_bytes = 0;
    DuplicateRule rule = DuplicateRule::kRefuse;
  };

  Row RowOf(const Entry& entry) const;
  int Compare(const Row& a, const Row& b) const;
  void SortBuffer();
  Status SpillRun();
  std::string RunPath(size_t run) const;
  Status MakeScratch();

  Options options_;
  std::vector<SlotDescriptor> slots_;
  std::vector<uint64_t> bytes_;  // by slot
  std::string buffer_;
  std::vector<Entry> entries_;
  bool sorted_ = false;
  bool scratch_made_ = false;
  size_t runs_ = 0;
};

/// The sorted rows, duplicates resolved, front to back.
class RowMerge {
 public:
  ~RowMerge();

  /// The row at the front; null at the end.
  const SortedRow* row() const { return done_ ? nullptr : &row_; }
  /// Go to the next row.
  ///
  /// Errors:   kInvalidArgument for a key that came twice, naming operator, slot and key ·
  ///           kUnavailable of the scratch files.
  Status Next();

 private:
  friend class RowSorter;
  class Run;
  explicit RowMerge(RowSorter* sorter);
  Status Open();
  Status Duplicate(const RowSorter::Row& row) const;
  Run* Least() const;

  RowSorter* sorter_;
  std::vector<std::unique_ptr<Run>> runs_;
  std::string key_;  // of row_
  std::string value_;
  SortedRow row_;
  bool done_ = false;
};

}  // namespace cairn::checkpoint

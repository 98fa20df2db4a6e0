// SPDX-License-Identifier: Apache-2.0
//
// SavepointReader and SavepointWriter: saved state read and written slot by slot without the job
// that saved it, in fixed memory. For tools that look into state, repair it, or seed a job that
// never ran.
//
//   reader = SavepointReader::Open("job.cairn");
//   writer = SavepointWriter::Create("edited.cairn", {.like = "job.cairn"});
//   slot = writer->AddSlot(reader->slots()[0]);
//   reader->Scan(0, [&](const SavepointRow& row) { return writer->Put(slot, row.key, edited); });
//   writer->CopyRest(*reader);
//   writer->Commit();
//
// Keys and values are the encoded bytes; Codec (cairn/codec.h) makes and reads them. Of a slot with
// TTL a value begins with 8 bytes, its expiry in milliseconds, little-endian.
//
// Threads: each belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/state_table.h"
#include "cairn/status.h"

namespace cairn {
inline namespace v0 {

/// One live row. The views die with the call that got them.
struct SavepointRow {
  std::string_view key;
  std::string_view value;
  uint32_t key_group = 0;  ///< of operator state: the subtask that saved it
};

/// Take a row. kCancelled ends the scan early, and the scan then returns OK.
using SavepointVisitor = std::function<Status(const SavepointRow&)>;

class SavepointReader {
 public:
  virtual ~SavepointReader() = default;

  /// Open the newest committed cut of the place in directory `place`, or cut `checkpoint_id`. It
  /// takes no lock and writes nothing.
  ///
  /// Errors:   kNotFound (no place, no cut, or not this one) · kCorruption · kUnavailable.
  static Result<std::unique_ptr<SavepointReader>> Open(const std::string& place,
                                                       uint64_t checkpoint_id = 0);

  virtual uint64_t checkpoint_id() const = 0;
  virtual uint32_t key_groups() const = 0;
  /// Every slot saved, ascending by (operator id, name).
  virtual const std::vector<SlotDescriptor>& slots() const = 0;

  /// Visit the live rows of slot number `slot`, deltas laid over their bases, key groups ascending.
  ///
  /// Errors:   kCorruption · what `visit` returned.
  /// Cost:     memory of the frames of one key group of the slot's operator.
  virtual Status Scan(size_t slot, const SavepointVisitor& visit) const = 0;

  /// The value of one key; nothing when it is not there. Of keyed state only.
  ///
  /// Errors:   kCorruption · kInvalidArgument for a slot of operator state.
  /// Cost:     reads the frames of the key's group.
  virtual Result<std::optional<std::string>> Get(size_t slot, std::string_view key) const = 0;
};

struct SavepointWriterOptions {
  /// A place whose job, source offsets and prepared rows the new one takes over; empty = none: the
  /// new place is then for tools only.
  std::string like;
  uint64_t like_checkpoint = 0;  ///< 0 = its newest
  uint32_t key_groups = 0;       ///< 0 = those of `like`, else 128
  /// Rows are sorted in this much memory, and beyond it in files beside the new place.
  uint64_t memory_bytes = uint64_t{64} << 20;
};

struct SavepointSummary {
  uint64_t checkpoint_id = 0;
  uint64_t rows = 0;
};

class SavepointWriter {
 public:
  virtual ~SavepointWriter() = default;

  /// Prepare a new place in directory `place`. Nothing is made before Commit.
  ///
  /// Errors:   kInvalidArgument (the place holds a checkpoint, too many key groups) · those of
  ///           reading `like`.
  static Result<std::unique_ptr<SavepointWriter>> Create(const std::string& place,
                                                         SavepointWriterOptions options = {});

  /// Add a slot and return its number. One without rows is saved as such.
  ///
  /// Errors:   kInvalidArgument for a bad name or a slot that is there already.
  virtual Result<size_t> AddSlot(SlotDescriptor slot) = 0;

  /// Add a row, in any order of keys and slots. A key that comes twice is found by Commit.
  ///
  /// Errors:   kResourceExhausted or kUnavailable of the files beside the place.
  virtual Status Put(size_t slot, std::string_view key, std::string_view value) = 0;

  /// Copy every slot of `reader` that was not added.
  virtual Status CopyRest(const SavepointReader& reader) = 0;

  /// Check everything, make the place and commit its first cut. No call may follow.
  ///
  /// Errors:   kInvalidArgument for a key that came twice, naming operator, slot and key; no place
  ///           was made then · kResourceExhausted · kUnavailable.
  virtual Result<SavepointSummary> Commit() = 0;
};

}  // namespace v0
}  // namespace cairn

// SPDX-License-Identifier: Apache-2.0
//
// StateSource: saved state to read, whether it lies in a checkpoint place or in a snapshot file.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/hash.h"
#include "cairn/state_table.h"
#include "cairn/status.h"
#include "checkpoint/inspect.h"
#include "cli/source_reference.h"
#include "env/file_system.h"
#include "format/object_schema.h"

namespace cairn::cli {

/// "FILE.meta" beside a snapshot FILE says how long it is and what its CRC is.
inline constexpr std::string_view kSidecarSuffix = ".meta";

/// One live row. The views die with the call that got them.
struct StateRow {
  size_t slot = 0;  ///< index in StateSource::slots()
  bool keyed = true;
  uint32_t group = 0;
  std::string_view user_key;
  std::string_view stored_key;
  std::string_view value;
};

/// Take a row. kCancelled ends the scan early, and the scan then returns OK.
using StateRowVisitor = std::function<Status(const StateRow&)>;

class StateSource {
 public:
  virtual ~StateSource() = default;

  /// "dir@7" or the file's name: for messages and the metadata of exports.
  virtual std::string Name() const = 0;
  virtual uint32_t key_groups() const = 0;
  virtual const format::SlotHash& slot_hash() const = 0;
  virtual const std::vector<format::StateVersion>& state_versions() const = 0;
  /// Ascending by operator id, then name.
  virtual const std::vector<SlotDescriptor>& slots() const = 0;
  /// The cut, when the source is one; else null.
  virtual const checkpoint::CutReader* cut() const { return nullptr; }

  /// Visit the live rows of one operator in `groups`, ascending by stored key: the order depends on
  /// nothing but the state, so equal states export equal bytes.
  ///
  /// Errors:   kCorruption · what `visit` returned.
  virtual Status Scan(OperatorId op, KeyGroupRange groups, const StateRowVisitor& visit) const = 0;

  /// The same for the same saved state and for no other: by which parts of it belong together.
  virtual std::string Identity() const = 0;

  /// Visit the rows of all operators.
  Status ScanAll(const StateRowVisitor& visit) const;

  /// Find slots by operator (uid or 16 hex digits) and name; an empty text matches all.
  ///
  /// Errors:   kNotFound, listing what there is.
  Result<std::vector<size_t>> Find(const std::string& op, const std::string& slot) const;

 protected:
  /// Index of a slot; slots().size() when it is not among them.
  size_t IndexOf(OperatorId op, std::string_view slot) const;
};

/// Open SOURCE: the newest or the named cut of a place, or a snapshot file in the canonical stream
/// format or its changelog variant.
///
/// Shape:    a changelog's materialisation that is kept outside is looked for in the directory
///           `materialisation_store`; when that is empty, in `materializations` beside the file.
/// Errors:   as ResolveSource and CutReader::Open · kInvalidArgument for a part of a split snapshot
/// ·
///           kCorruption · kUnsupportedFormat.
Result<std::unique_ptr<StateSource>> OpenStateSource(
    env::FileSystem* files, std::string_view source,
    const std::string& materialisation_store = std::string());

/// Open the bytes of a snapshot file.
Result<std::unique_ptr<StateSource>> OpenSnapshot(std::string name, std::string bytes,
                                                  uint32_t key_groups = kDefaultKeyGroups);

}  // namespace cairn::cli

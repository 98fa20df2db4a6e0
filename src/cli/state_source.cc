// SPDX-License-Identifier: Apache-2.0
#include "cli/state_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "backend/changelog/changelog_backend.h"
#include "backend/changelog/materialisation_store.h"
#include "base/coding.h"
#include "base/hash.h"
#include "base/ids.h"
#include "checkpoint/merged_scan.h"
#include "cli/slot_json.h"
#include "cli/snapshot_parts.h"
#include "cli/snapshot_slots.h"
#include "format/canonical_stream.h"
#include "format/keys.h"

namespace cairn::cli {
namespace {

/// How opaque bytes are declared: the codec that is written when nothing is known.
constexpr std::string_view kOpaqueCodec = "bytes";

bool SlotLess(const SlotDescriptor& a, const SlotDescriptor& b) {
  return std::tie(a.operator_id, a.name) < std::tie(b.operator_id, b.name);
}

/// The rows of one key group (or of one subtask's operator state), put in the order of their keys.
class SortedGroup {
 public:
  bool BelongsTo(const checkpoint::MergedRow& row) const {
    return rows_.empty() || (rows_[0].keyed == row.keyed && rows_[0].group == row.group);
  }
  void Add(const checkpoint::MergedRow& row) {
    rows_.push_back({row.keyed, row.group, row.slot.size(), row.user_key.size(),
                     row.stored_key.size(), bytes_.size(), row.value.size()});
    bytes_.append(row.stored_key).append(row.value);
  }
  /// True when a visitor has ended the scan.
  bool ended() const { return ended_; }

  Status Drain(const checkpoint::MergedRowVisitor& visit) {
    std::sort(rows_.begin(), rows_.end(),
              [this](const Row& a, const Row& b) { return StoredKey(a) < StoredKey(b); });
    for (const Row& row : rows_) {
      const std::string_view stored = StoredKey(row);
      // The user key ends the stored key; a named slot stands before it, with a '|' between.
      const std::string_view user_key = stored.substr(stored.size() - row.user_key);
      const std::string_view slot =
          row.slot == 0 ? std::string_view()
                        : stored.substr(stored.size() - row.user_key - 1 - row.slot, row.slot);
      Status visited = visit({row.keyed, row.group, slot, user_key, stored,
                              std::string_view(bytes_).substr(row.at + row.stored, row.value)});
      ended_ = visited.code() == StatusCode::kCancelled;
      CAIRN_RETURN_IF_ERROR(visited);
    }
    rows_.clear();
    bytes_.clear();
    return {};
  }

 private:
  struct Row {
    bool keyed;
    uint32_t group;
    size_t slot;  // lengths, and where stored key and value begin
    size_t user_key;
    size_t stored;
    size_t at;
    size_t value;
  };
  std::string_view StoredKey(const Row& row) const {
    return std::string_view(bytes_).substr(row.at, row.stored);
  }

  std::vector<Row> rows_;
  std::string bytes_;
  bool ended_ = false;
};

class CutSource final : public StateSource {
 public:
  explicit CutSource(std::unique_ptr<checkpoint::CutReader> cut) : cut_(std::move(cut)) {
    for (const auto& op : cut_->manifest().operators) {
      for (const auto& slot : op.slots) {
        slots_.push_back(SlotOf(op, slot));
        if (slot.value_codec == kOpaqueCodec && slot.version == 1) continue;  // says nothing
        versions_.push_back({op.operator_id.value, slot.value_codec, slot.version, slot.name});
      }
    }
    std::sort(slots_.begin(), slots_.end(), SlotLess);
    std::sort(versions_.begin(), versions_.end());
  }

  std::string Name() const override {
    return fmt::format("{}@{}", cut_->directory(), cut_->manifest().checkpoint_id.value);
  }
  std::string Identity() const override {
    return fmt::format("{}@{}", cut_->manifest().deployment_id,
                       cut_->manifest().checkpoint_id.value);
  }
  uint32_t key_groups() const override { return cut_->manifest().key_groups; }
  const format::SlotHash& slot_hash() const override { return cut_->manifest().slot_hash; }
  const std::vector<format::StateVersion>& state_versions() const override { return versions_; }
  const std::vector<SlotDescriptor>& slots() const override { return slots_; }
  const checkpoint::CutReader* cut() const override { return cut_.get(); }

  Status Scan(OperatorId op, KeyGroupRange groups, const StateRowVisitor& visit) const override {
    SortedGroup rows;
    CAIRN_RETURN_IF_ERROR(checkpoint::ScanOperator(
        *cut_, op, groups, [&](const checkpoint::MergedRow& row) -> Status {
          if (!rows.BelongsTo(row)) CAIRN_RETURN_IF_ERROR(VisitGroup(op, &rows, visit));
          rows.Add(row);
          return {};
        }));
    Status visited = rows.ended() ? Status() : VisitGroup(op, &rows, visit);
    return visited.code() == StatusCode::kCancelled ? Status() : visited;
  }

 private:
  Status VisitGroup(OperatorId op, SortedGroup* rows, const StateRowVisitor& visit) const {
    return rows->Drain([&](const checkpoint::MergedRow& row) -> Status {
      const size_t slot = IndexOf(op, row.slot);
      if (slot == slots_.size()) {
        return Status::Corruption(
            fmt::format("operator {} has rows of slot '{}', which the manifest does not name",
                        base::ToHex16(op), row.slot));
      }
      return visit({slot, row.keyed, row.group, row.user_key, row.stored_key, row.value});
    });
  }

  std::unique_ptr<checkpoint::CutReader> cut_;
  std::vector<SlotDescriptor> slots_;
  std::vector<format::StateVersion> versions_;
};

/// Where a row of a snapshot lies.
struct SnapshotRow {
  std::string_view key;
  std::string_view value;
};

class SnapshotSource final : public StateSource {
 public:
  SnapshotSource(std::string name, std::string bytes, format::KeyLayout layout)
      : name_(std::move(name)), bytes_(std::move(bytes)), layout_(layout) {}

  Status Load() {
    Result<format::CanonicalStream> stream = format::ReadCanonicalStream(bytes_);
    if (stream.ok()) {
      CAIRN_RETURN_IF_ERROR(RefusePart(name_, stream->part));
      Apply(stream->batches);
      versions_ = stream->state_versions;
      keep_alive_.push_back(std::make_shared<format::CanonicalStream>(*std::move(stream)));
      return FindSlots();
    }
    Result<format::ChangelogStream> changelog = format::ReadChangelogStream(bytes_);
    if (!changelog.ok()) return std::move(stream).status().WithContext(name_);
    return LoadChangelog(*std::move(changelog));
  }

  std::string Name() const override { return name_; }
  std::string Identity() const override { return base::Sha256::HexOf(bytes_); }
  uint32_t key_groups() const override { return layout_.key_groups(); }
  const format::SlotHash& slot_hash() const override { return slot_hash_; }
  const std::vector<format::StateVersion>& state_versions() const override { return versions_; }
  const std::vector<SlotDescriptor>& slots() const override { return slots_; }

  Status Scan(OperatorId op, KeyGroupRange groups, const StateRowVisitor& visit) const override {
    const auto found = rows_.find(op.value);
    if (found == rows_.end()) return {};
    for (const auto& [stored, row] : found->second) {
      const format::StoredKey key = layout_.Parse(stored);
      const bool keyed = key.kind == format::StoredKeyKind::kKeyed;
      if (keyed ? !groups.Contains(key.group) : groups.size() != key_groups()) continue;
      const SnapshotKey split = SplitSnapshotKey(key);
      Status visited =
          visit({IndexOf(op, split.slot), keyed, key.group, split.user_key, stored, row.value});
      if (visited.code() == StatusCode::kCancelled) return {};
      CAIRN_RETURN_IF_ERROR(visited);
    }
    return {};
  }

 private:
  /// The later row wins; of two operator-state counters of 8 bytes the greater one does, so that
  /// source offsets merged from several subtasks never go back.
  void Put(uint64_t op, std::string_view key, std::string_view value) {
    auto [at, inserted] = rows_[op].try_emplace(key, SnapshotRow{key, value});
    if (inserted) return;
    if (layout_.Parse(key).kind == format::StoredKeyKind::kOperatorState && value.size() == 8 &&
        at->second.value.size() == 8 &&
        base::LoadLE<int64_t>(value.data()) < base::LoadLE<int64_t>(at->second.value.data())) {
      return;
    }
    at->second.value = value;
  }

  void Apply(const std::vector<format::CanonicalBatch>& batches) {
    for (const auto& batch : batches) {
      for (size_t i = 0; i < batch.rows.rows; ++i) {
        if (batch.rows.kind(i) == base::SavedRowKind::kErase) {
          rows_[batch.operator_ids[i]].erase(batch.rows.key(i));
        } else {
          Put(batch.operator_ids[i], batch.rows.key(i), batch.rows.value(i));
        }
      }
    }
  }

  Status LoadChangelog(format::ChangelogStream changelog) {
    if (changelog.materialisation == format::ChangelogRowKind::kMaterialisedHandle &&
        !changelog.materialisation_value.empty()) {
      return Status::InvalidArgument(
          fmt::format("'{}' keeps its materialisation outside ({}): open it as a file", name_,
                      changelog.materialisation_value));
    }
    auto kept = std::make_shared<format::ChangelogStream>(std::move(changelog));
    // The inner snapshot may lie at any offset of the outer one: copied, so that it is aligned.
    auto inner_bytes = std::make_shared<std::string>(kept->materialisation_value);
    Result<format::CanonicalStream> inner = format::ReadCanonicalStream(*inner_bytes);
    if (!inner.ok()) return std::move(inner).status().WithContext(name_);
    versions_ = inner->state_versions;
    Apply(inner->batches);
    Apply(kept->batches);
    keep_alive_ = {inner_bytes, kept, std::make_shared<format::CanonicalStream>(*std::move(inner))};
    return FindSlots();
  }

  Status FindSlots() {
    std::set<std::tuple<uint64_t, std::string, SlotKind>> found;
    for (const auto& [op, rows] : rows_) {
      for (const auto& [stored, row] : rows) {
        const SnapshotKey key = SplitSnapshotKey(layout_.Parse(stored));
        found.emplace(op, std::string(key.slot), key.kind);
      }
    }
    for (const auto& [op, name, kind] : found) {
      if (!slots_.empty() && slots_.back().operator_id.value == op && slots_.back().name == name) {
        return Status::InvalidArgument(
            fmt::format("'{}': operator {} has slot '{}' as keyed and as operator state", name_,
                        base::ToHex16(OperatorId(op)), name));
      }
      slots_.push_back(SnapshotSlot(OperatorId(op), name, kind, versions_));
    }
    return {};
  }

  std::string name_;
  std::string bytes_;
  format::KeyLayout layout_;
  format::SlotHash slot_hash_;
  std::vector<format::StateVersion> versions_;
  std::vector<SlotDescriptor> slots_;
  std::vector<std::shared_ptr<const void>> keep_alive_;
  std::map<uint64_t, std::map<std::string_view, SnapshotRow>> rows_;
};

constexpr uint64_t kSnapshotBytesMax = uint64_t{1} << 40;

/// Replace a changelog whose materialisation is kept outside by the snapshot that the two are.
Status TakeMaterialisation(env::FileSystem* files, const std::string& path,
                           const std::string& materialisation_store, std::string* bytes) {
  const Result<format::ChangelogStream> changelog = format::ReadChangelogStream(*bytes);
  if (!changelog.ok() || changelog->materialisation_value.empty() ||
      changelog->materialisation != format::ChangelogRowKind::kMaterialisedHandle) {
    return {};
  }
  const size_t slash = path.rfind('/');
  const std::string directory =
      !materialisation_store.empty()
          ? materialisation_store
          : (slash == std::string::npos ? "" : path.substr(0, slash + 1)) + "materializations";
  Result<std::string> canonical =
      backend::CanonicaliseChangelog(*bytes, [&](std::string_view handle) {
        return backend::ReadMaterialisation(files, directory, handle);
      });
  if (!canonical.ok()) {
    return canonical.status().WithContext(fmt::format(
        "'{}' keeps its materialisation outside; name its directory with --materialisation-store",
        path));
  }
  *bytes = *std::move(canonical);
  return {};
}

/// A file without a sidecar that does not even begin like a snapshot is something else, not a
/// damaged one. An empty file is the empty snapshot.
Status RefuseOtherFile(env::FileSystem* files, const std::string& path, std::string_view bytes) {
  constexpr std::string_view kStreamStart = "\xff\xff\xff\xff";  // of an Arrow stream's message
  const bool is_table = bytes.starts_with("ARROW1") || bytes.starts_with("PAR1");  // said later
  // A stream that was cut in its first bytes is damaged all the same.
  const bool is_stream =
      kStreamStart.starts_with(bytes.substr(0, std::min(bytes.size(), kStreamStart.size())));
  if (is_stream || is_table) return {};
  if (files->Stat(path + ".meta").ok()) return {};
  return Status::InvalidArgument(
      fmt::format("'{}' is not a checkpoint: the file is no snapshot. Name a place of checkpoints "
                  "or what `cairn "
                  "state export --format arrow-stream` wrote",
                  path));
}

std::string OperatorText(const SlotDescriptor& slot) {
  const std::string hex = base::ToHex16(slot.operator_id);
  return slot.operator_uid.empty() ? hex : fmt::format("{} ({})", slot.operator_uid, hex);
}

}  // namespace

size_t StateSource::IndexOf(OperatorId op, std::string_view slot) const {
  const auto& all = slots();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].operator_id == op && all[i].name == slot) return i;
  }
  return all.size();
}

Status StateSource::ScanAll(const StateRowVisitor& visit) const {
  std::set<OperatorId> operators;
  for (const SlotDescriptor& slot : slots()) operators.insert(slot.operator_id);
  for (const OperatorId op : operators) {
    CAIRN_RETURN_IF_ERROR(Scan(op, {0, key_groups()}, visit));
  }
  return {};
}

Result<std::vector<size_t>> StateSource::Find(const std::string& op,
                                              const std::string& slot) const {
  std::vector<size_t> found;
  std::string there;
  for (size_t i = 0; i < slots().size(); ++i) {
    const SlotDescriptor& candidate = slots()[i];
    there += fmt::format("{}{} slot {}", there.empty() ? "" : "; ", OperatorText(candidate),
                         candidate.name);
    const bool of_operator =
        op.empty() || op == candidate.operator_uid || op == base::ToHex16(candidate.operator_id);
    if (of_operator && (slot.empty() || slot == candidate.name)) found.push_back(i);
  }
  if (!found.empty()) return found;
  return Status::NotFound(fmt::format(
      "{} has no slot{}{}. It has: {}", Name(), op.empty() ? "" : " of operator '" + op + "'",
      slot.empty() ? "" : " named '" + slot + "'", there.empty() ? "no state" : there));
}

Result<std::unique_ptr<StateSource>> OpenSnapshot(std::string name, std::string bytes,
                                                  uint32_t key_groups) {
  if (bytes.starts_with("ARROW1") || bytes.starts_with("PAR1")) {
    return Status::InvalidArgument(fmt::format(
        "'{}' is {}, not a snapshot. Make a place of it with `cairn state import`, or open it with "
        "any {} reader",
        name, bytes[0] == 'A' ? "an Arrow file" : "a Parquet file",
        bytes[0] == 'A' ? "Arrow" : "Parquet"));
  }
  CAIRN_ASSIGN_OR_RETURN(const format::KeyLayout layout,
                         format::KeyLayout::ForKeyGroups(key_groups));
  auto source = std::make_unique<SnapshotSource>(std::move(name), std::move(bytes), layout);
  CAIRN_RETURN_IF_ERROR(source->Load());
  return std::unique_ptr<StateSource>(std::move(source));
}

Result<std::unique_ptr<StateSource>> OpenStateSource(env::FileSystem* files, std::string_view text,
                                                     const std::string& materialisation_store) {
  CAIRN_ASSIGN_OR_RETURN(const SourceReference source, ResolveSource(files, text));
  if (source.is_file) {
    CAIRN_ASSIGN_OR_RETURN(std::string bytes,
                           env::ReadWholeFile(files, source.path, kSnapshotBytesMax));
    CAIRN_RETURN_IF_ERROR(RefuseOtherFile(files, source.path, bytes));
    CAIRN_RETURN_IF_ERROR(CheckSnapshotSidecar(files, source.path));
    CAIRN_RETURN_IF_ERROR(TakeMaterialisation(files, source.path, materialisation_store, &bytes));
    return OpenSnapshot(source.path, std::move(bytes));
  }
  CAIRN_ASSIGN_OR_RETURN(auto cut, checkpoint::CutReader::Open(files, source.path, source.id));
  return std::unique_ptr<StateSource>(std::make_unique<CutSource>(std::move(cut)));
}

}  // namespace cairn::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/state_export.h"

#include <arrow/array/array_base.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "backend/snapshot_files.h"
#include "base/hash.h"
#include "base/saved_rows.h"
#include "base/units.h"
#include "cairn/hash.h"
#include "cli/slot_json.h"
#include "cli/snapshot_parts.h"
#include "cli/staged_file.h"
#include "cli/typed_slot.h"
#include "format/arrow_status.h"
#include "format/canonical_stream.h"

namespace cairn::cli {
namespace {

constexpr int64_t kBatchRows = 64 << 10;
constexpr uint64_t kBatchBytes = uint64_t{16} << 20;
/// Group of operator-state rows in an opaque table, as their stored keys begin.
constexpr uint16_t kOperatorStateGroup = 0xFF;
constexpr uint16_t kWideOperatorStateGroup = 0xFFFF;

/// Count and check-sum bytes on their way.
class CountingSink final : public format::ByteSink {
 public:
  explicit CountingSink(format::ByteSink* next) : next_(next) {}
  Status Append(std::string_view bytes) override {
    bytes_ += bytes.size();
    crc_ = base::Crc32c(crc_, bytes);
    return next_ == nullptr ? Status() : next_->Append(bytes);
  }
  uint64_t bytes() const { return bytes_; }
  uint32_t crc32c() const { return crc_; }

 private:
  format::ByteSink* next_;  // null = nowhere
  uint64_t bytes_ = 0;
  uint32_t crc_ = 0;
};

class StdoutSink final : public format::ByteSink {
 public:
  Status Append(std::string_view bytes) override {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size()) return {};
    return Status::ResourceExhausted("writing to standard output failed. Free disk space");
  }
  Status Finish() {
    if (std::fflush(stdout) == 0) return {};
    return Status::ResourceExhausted("writing to standard output failed. Free disk space");
  }
};

/// The operators of the chosen slots, ascending, and which slots are chosen.
struct Choice {
  explicit Choice(const StateSource& source, const std::vector<size_t>& chosen)
      : is_chosen(source.slots().size(), false) {
    for (const size_t slot : chosen) {
      is_chosen[slot] = true;
      operators.insert(source.slots()[slot].operator_id);
    }
  }
  std::set<OperatorId> operators;
  std::vector<bool> is_chosen;
};

std::vector<format::StateVersion> VersionsOf(const StateSource& source,
                                             const std::vector<size_t>& chosen) {
  std::set<std::pair<uint64_t, std::string>> names;
  std::set<uint64_t> operators;
  for (const size_t slot : chosen) {
    names.emplace(source.slots()[slot].operator_id.value, source.slots()[slot].name);
    operators.insert(source.slots()[slot].operator_id.value);
  }
  std::vector<format::StateVersion> versions;
  for (const auto& version : source.state_versions()) {
    const bool kept = version.slot.empty() ? operators.count(version.operator_id) > 0
                                           : names.count({version.operator_id, version.slot}) > 0;
    if (kept) versions.push_back(version);
  }
  return versions;
}

/// Columns of opaque rows.
class OpaqueBatch {
 public:
  explicit OpaqueBatch(std::shared_ptr<arrow::Schema> schema) : schema_(std::move(schema)) {}

  Status Append(const SlotDescriptor& slot, const StateRow& row, uint16_t group) {
    CAIRN_RETURN_IF_ARROW_ERROR(op_id_.Append(slot.operator_id.value));
    CAIRN_RETURN_IF_ARROW_ERROR(group_.Append(group));
    CAIRN_RETURN_IF_ARROW_ERROR(slot_.Append(slot.name));
    CAIRN_RETURN_IF_ARROW_ERROR(key_.Append(row.user_key));
    CAIRN_RETURN_IF_ARROW_ERROR(value_.Append(row.value));
    bytes_ += row.user_key.size() + row.value.size();
    return {};
  }
  bool full() const { return op_id_.length() >= kBatchRows || bytes_ >= kBatchBytes; }

  Result<std::shared_ptr<arrow::RecordBatch>> Finish() {
    std::vector<std::shared_ptr<arrow::Array>> columns(5);
    CAIRN_RETURN_IF_ARROW_ERROR(op_id_.Finish(&columns[0]));
    CAIRN_RETURN_IF_ARROW_ERROR(group_.Finish(&columns[1]));
    CAIRN_RETURN_IF_ARROW_ERROR(slot_.Finish(&columns[2]));
    CAIRN_RETURN_IF_ARROW_ERROR(key_.Finish(&columns[3]));
    CAIRN_RETURN_IF_ARROW_ERROR(value_.Finish(&columns[4]));
    bytes_ = 0;
    const int64_t rows = columns[0]->length();
    return arrow::RecordBatch::Make(schema_, rows, std::move(columns));
  }

 private:
  std::shared_ptr<arrow::Schema> schema_;
  arrow::UInt64Builder op_id_;
  arrow::UInt16Builder group_;
  arrow::StringBuilder slot_;
  arrow::BinaryBuilder key_;
  arrow::BinaryBuilder value_;
  uint64_t bytes_ = 0;
};

std::shared_ptr<arrow::Schema> OpaqueSchema(const StateSource& source,
                                            const std::vector<size_t>& chosen) {
  auto slots = nlohmann::ordered_json::array();
  for (const size_t slot : chosen) slots.push_back(SlotToJson(source.slots()[slot]));
  return arrow::schema(
      {arrow::field("op_id", arrow::uint64(), false),
       arrow::field("key_group", arrow::uint16(), false),
       arrow::field("slot", arrow::utf8(), false), arrow::field("user_key", arrow::binary(), false),
       arrow::field("value_bytes", arrow::binary(), false)},
      arrow::key_value_metadata(
          {std::string(kSlotsMetadataKey), std::string(kKeyGroupsMetadataKey)},
          {slots.dump(), std::to_string(source.key_groups())}));
}

Result<TableFormat> ParseTableFormat(const std::string& text) {
  if (text == "arrow") return TableFormat::kArrow;
  if (text == "parquet") return TableFormat::kParquet;
  return Status::InvalidArgument(
      fmt::format("'{}' is no format. Choose arrow, parquet or arrow-stream", text));
}

/// Write one file's content to a sink; called twice for standard output.
using WriteContent = std::function<Result<ExportTotals>(format::ByteSink*)>;

Result<ExportTotals> ToStandardOutput(const WriteContent& write) {
  if (isatty(STDOUT_FILENO) != 0) {
    return Status::InvalidArgument(
        "an export is not text and would go to the terminal. Name a file with -o, or redirect");
  }
  // What is on its way cannot be taken back, so all input is read and checked beforehand.
  CountingSink nowhere(nullptr);
  CAIRN_RETURN_IF_ERROR(write(&nowhere).status());
  StdoutSink sink;
  Result<ExportTotals> totals = write(&sink);
  if (totals.ok()) CAIRN_RETURN_IF_ERROR(sink.Finish());
  return totals;
}

Result<ExportTotals> ToFile(env::FileSystem* files, const std::string& path,
                            const WriteContent& write) {
  CAIRN_ASSIGN_OR_RETURN(const auto file, StagedFile::Create(files, path));
  CAIRN_ASSIGN_OR_RETURN(const ExportTotals totals, write(file.get()));
  CAIRN_RETURN_IF_ERROR(file->Commit());
  return totals;
}

/// A snapshot named *.snap gets the sidecar that others look for beside it.
Status WriteSidecar(env::FileSystem* files, const std::string& path,
                    const format::SnapshotSidecar& sidecar) {
  CAIRN_ASSIGN_OR_RETURN(const auto file,
                         StagedFile::Create(files, path + std::string(kSidecarSuffix)));
  CAIRN_RETURN_IF_ERROR(file->Append(format::SerializeSidecar(sidecar)));
  return file->Commit();
}

Result<ExportTotals> ExportCanonical(env::FileSystem* files, const StateSource& source,
                                     const std::vector<size_t>& slots, const std::string& path) {
  format::SnapshotSidecar sidecar;
  const auto write = [&](format::ByteSink* sink) -> Result<ExportTotals> {
    CountingSink counted(sink);
    CAIRN_ASSIGN_OR_RETURN(const ExportTotals totals,
                           WriteCanonicalStream(source, slots, &counted));
    sidecar.payload_bytes = counted.bytes();
    sidecar.payload_crc32c = counted.crc32c();
    return totals;
  };
  if (path.empty()) return ToStandardOutput(write);
  CAIRN_ASSIGN_OR_RETURN(const ExportTotals totals, ToFile(files, path, write));
  if (path.ends_with(".snap")) {
    if (source.cut() != nullptr) {
      sidecar.checkpoint_id = source.cut()->manifest().checkpoint_id.value;
    }
    CAIRN_RETURN_IF_ERROR(WriteSidecar(files, path, sidecar));
  }
  return totals;
}

/// The parts of a split export: unless they are kept, they go again.
class WrittenParts {
 public:
  explicit WrittenParts(uint64_t id) : id_(id) {}
  ~WrittenParts() {
    // A failed removal leaves parts that every reader refuses as such.
    for (const auto& of_subtask : written_) (void)of_subtask->Purge(id_);
  }

  backend::SnapshotFiles* Add(std::unique_ptr<backend::SnapshotFiles> of_subtask) {
    written_.push_back(std::move(of_subtask));
    return written_.back().get();
  }
  void Keep() { written_.clear(); }

 private:
  const uint64_t id_;
  std::vector<std::unique_ptr<backend::SnapshotFiles>> written_;
};

/// Write a snapshot for each subtask of a job of `parallelism`: DIR/<subtask>/checkpoint-<id>.snap.
Result<ExportTotals> ExportSplit(env::FileSystem* files, const StateSource& source,
                                 const std::vector<size_t>& slots, uint32_t parallelism,
                                 const std::string& directory) {
  if (directory.empty() || parallelism > source.key_groups()) {
    return Status::InvalidArgument(fmt::format(
        "--split writes a directory (-o DIR) for 1 to {} subtasks", source.key_groups()));
  }
  CAIRN_RETURN_IF_ERROR(RefuseUsedSplit(files, directory));
  const uint64_t id = source.cut() == nullptr ? 1 : source.cut()->manifest().checkpoint_id.value;
  ExportTotals totals;
  WrittenParts parts(id);
  for (uint32_t subtask = 0; subtask < parallelism; ++subtask) {
    const std::string place = env::JoinPath(directory, std::to_string(subtask));
    CAIRN_ASSIGN_OR_RETURN(auto opened, backend::SnapshotFiles::Open(files, place, {}));
    backend::SnapshotFiles* snapshots = parts.Add(std::move(opened));
    std::optional<format::SnapshotPart> part;
    if (parallelism > 1) part = {subtask + 1, parallelism, source.Identity()};
    const auto write = [&](format::ByteSink* sink) -> Status {
      CAIRN_ASSIGN_OR_RETURN(
          const ExportTotals one,
          WriteCanonicalStream(source, slots, sink,
                               KeyGroupsOfSubtask(subtask, parallelism, source.key_groups()),
                               part));
      totals.rows += one.rows;
      totals.bytes += one.bytes;
      return {};
    };
    CAIRN_RETURN_IF_ERROR(snapshots->Write(id, write).status());
  }
  parts.Keep();
  return totals;
}

/// Write every typed slot before the first gets its name.
Result<ExportTotals> ExportTypedSlots(env::FileSystem* files, const StateSource& source,
                                      const std::vector<size_t>& slots, TableFormat format,
                                      const std::string& directory) {
  if (!files->Stat(directory).ok()) {
    CAIRN_RETURN_IF_ERROR(env::CreateDirectories(files, directory, false));
    CAIRN_RETURN_IF_ERROR(files->UseDefaultMode(directory));
  }
  const std::vector<std::string> names = SlotTableNames(source.slots());
  const std::string_view suffix = format == TableFormat::kArrow ? ".arrow" : ".parquet";
  std::vector<std::unique_ptr<StagedFile>> written;
  ExportTotals totals;
  for (const size_t slot : slots) {
    CAIRN_ASSIGN_OR_RETURN(
        auto file,
        StagedFile::Create(files, env::JoinPath(directory, names[slot] + std::string(suffix))));
    CAIRN_ASSIGN_OR_RETURN(const ExportTotals one,
                           WriteTypedSlot(source, slot, format, file.get()));
    totals.rows += one.rows;
    totals.bytes += one.bytes;
    written.push_back(std::move(file));
  }
  for (const auto& file : written) CAIRN_RETURN_IF_ERROR(file->Commit());
  return totals;
}

Result<ExportTotals> ExportTables(env::FileSystem* files, const StateSource& source,
                                  const std::vector<size_t>& slots, const ExportOptions& options) {
  CAIRN_ASSIGN_OR_RETURN(const TableFormat format, ParseTableFormat(options.format));
  const Result<env::FileInfo> there = options.output.empty()
                                          ? Result<env::FileInfo>(Status::NotFound(""))
                                          : files->Stat(options.output);
  const bool into_directory = there.ok() && there->is_directory;
  if (options.typed && (slots.size() > 1 || into_directory)) {
    if (options.output.empty() || (there.ok() && !there->is_directory)) {
      return Status::InvalidArgument(fmt::format(
          "{} slots are {} typed files. Name a directory with -o, or one slot with --slot",
          slots.size(), slots.size()));
    }
    return ExportTypedSlots(files, source, slots, format, options.output);
  }
  const auto write = [&](format::ByteSink* sink) -> Result<ExportTotals> {
    if (!options.typed) return WriteOpaqueTable(source, slots, format, sink);
    return WriteTypedSlot(source, slots.front(), format, sink);
  };
  return options.output.empty() ? ToStandardOutput(write) : ToFile(files, options.output, write);
}

}  // namespace

std::vector<std::string> SlotTableNames(const std::vector<SlotDescriptor>& slots) {
  std::map<std::string, int> uses;
  for (const SlotDescriptor& slot : slots) ++uses[slot.name];
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const SlotDescriptor& slot : slots) {
    const std::string owner =
        slot.operator_uid.empty() ? base::ToHex16(slot.operator_id) : slot.operator_uid;
    std::string name = uses[slot.name] == 1 ? slot.name : owner + "_" + slot.name;
    for (char& c : name) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
      name = "slot_" + name;
    }
    const std::string base = name;
    for (int n = 2; !taken.insert(name).second; ++n) name = fmt::format("{}_{}", base, n);
    names.push_back(std::move(name));
  }
  return names;
}

Result<ExportTotals> WriteTypedSlot(const StateSource& source, size_t slot, TableFormat format,
                                    format::ByteSink* sink) {
  CountingSink counted(sink);
  CAIRN_ASSIGN_OR_RETURN(TypedSlotDecoder decoder, TypedSlotDecoder::Make(source.slots()[slot]));
  auto metadata = decoder.schema()->metadata()->Copy();
  metadata->Append(std::string(kKeyGroupsMetadataKey), std::to_string(source.key_groups()));
  CAIRN_ASSIGN_OR_RETURN(
      const auto writer,
      TableWriter::Open(format, decoder.schema()->WithMetadata(metadata), &counted));
  ExportTotals totals;
  const auto flush = [&]() -> Status {
    CAIRN_ASSIGN_OR_RETURN(const auto batch, decoder.Finish());
    return batch->num_rows() == 0 ? Status() : writer->Write(*batch);
  };
  CAIRN_RETURN_IF_ERROR(source.Scan(
      source.slots()[slot].operator_id, {0, source.key_groups()},
      [&](const StateRow& row) -> Status {
        if (row.slot != slot) return {};
        ++totals.rows;
        CAIRN_RETURN_IF_ERROR(decoder.Append(row.user_key, row.value));
        const bool full = decoder.rows() >= kBatchRows || decoder.bytes() >= kBatchBytes;
        return full ? flush() : Status();
      }));
  CAIRN_RETURN_IF_ERROR(flush());
  CAIRN_RETURN_IF_ERROR(writer->Finish());
  totals.bytes = counted.bytes();
  return totals;
}

Result<ExportTotals> WriteCanonicalStream(const StateSource& source,
                                          const std::vector<size_t>& slots, format::ByteSink* sink,
                                          std::optional<KeyGroupRange> groups,
                                          std::optional<format::SnapshotPart> part) {
  if (source.key_groups() > kDefaultKeyGroups) {
    return Status::InvalidArgument(fmt::format(
        "{} has {} key groups, and keys of the arrow-stream format hold {} at most. Export it as "
        "arrow or parquet",
        source.Name(), source.key_groups(), kDefaultKeyGroups));
  }
  CountingSink counted(sink);
  CAIRN_ASSIGN_OR_RETURN(const auto writer, format::CanonicalStreamWriter::Open(
                                                &counted, VersionsOf(source, slots), part));
  const Choice choice(source, slots);
  ExportTotals totals;
  base::SavedRows rows;
  for (const OperatorId op : choice.operators) {
    const auto flush = [&]() -> Status {
      if (rows.rows() == 0) return {};
      CAIRN_RETURN_IF_ERROR(writer->Append(op, rows.Span()));
      rows.Clear();
      return {};
    };
    CAIRN_RETURN_IF_ERROR(
        source.Scan(op, {0, source.key_groups()}, [&](const StateRow& row) -> Status {
          if (!choice.is_chosen[row.slot]) return {};
          if (groups && row.keyed && !groups->Contains(row.group)) return {};
          ++totals.rows;
          const auto at = rows.Append(base::SavedRowKind::kMaterialised, row.stored_key.size(),
                                      row.value.size());
          row.stored_key.copy(at.key, row.stored_key.size());
          row.value.copy(at.value, row.value.size());
          return rows.bytes() >= kBatchBytes ? flush() : Status();
        }));
    CAIRN_RETURN_IF_ERROR(flush());
  }
  CAIRN_RETURN_IF_ERROR(writer->Finish());
  totals.bytes = counted.bytes();
  return totals;
}

Result<ExportTotals> WriteOpaqueTable(const StateSource& source, const std::vector<size_t>& slots,
                                      TableFormat format, format::ByteSink* sink) {
  CountingSink counted(sink);
  const auto schema = OpaqueSchema(source, slots);
  CAIRN_ASSIGN_OR_RETURN(const auto writer, TableWriter::Open(format, schema, &counted));
  const Choice choice(source, slots);
  const uint16_t operator_group =
      source.key_groups() > kDefaultKeyGroups ? kWideOperatorStateGroup : kOperatorStateGroup;
  OpaqueBatch batch(schema);
  ExportTotals totals;
  const auto flush = [&]() -> Status {
    CAIRN_ASSIGN_OR_RETURN(const auto rows, batch.Finish());
    return rows->num_rows() == 0 ? Status() : writer->Write(*rows);
  };
  for (const OperatorId op : choice.operators) {
    CAIRN_RETURN_IF_ERROR(
        source.Scan(op, {0, source.key_groups()}, [&](const StateRow& row) -> Status {
          if (!choice.is_chosen[row.slot]) return {};
          ++totals.rows;
          CAIRN_RETURN_IF_ERROR(
              batch.Append(source.slots()[row.slot], row,
                           row.keyed ? static_cast<uint16_t>(row.group) : operator_group));
          return batch.full() ? flush() : Status();
        }));
  }
  CAIRN_RETURN_IF_ERROR(flush());
  CAIRN_RETURN_IF_ERROR(writer->Finish());
  totals.bytes = counted.bytes();
  return totals;
}

/// The canonical stream has a row a key and no word for what kind of slot it is of.
Status RefuseElements(const StateSource& source, const std::vector<size_t>& slots) {
  for (const size_t slot : slots) {
    const SlotDescriptor& found = source.slots()[slot];
    if (!HasElementRows(found.kind)) continue;
    return Status::InvalidArgument(fmt::format(
        "slot {} is a list or a map, which the arrow-stream format cannot tell apart from values. "
        "Export it with --typed or --format arrow, or the others with --slot",
        found.name));
  }
  return {};
}

Result<ExitCode> ExportState(env::FileSystem* files, const ExportOptions& options) {
  const bool stream = options.format == "arrow-stream";
  if (stream && options.typed) {
    return Status::InvalidArgument(
        "--typed and --format arrow-stream exclude each other: that format's columns are fixed");
  }
  if (!stream) CAIRN_RETURN_IF_ERROR(ParseTableFormat(options.format).status());
  if (!stream && options.split != 0) {
    return Status::InvalidArgument("--split is of --format arrow-stream only");
  }
  CAIRN_ASSIGN_OR_RETURN(const auto source,
                         OpenStateSource(files, options.source, options.materialisation_store));
  CAIRN_ASSIGN_OR_RETURN(const auto slots, source->Find(options.op, options.slot));
  if (stream) CAIRN_RETURN_IF_ERROR(RefuseElements(*source, slots));
  CAIRN_ASSIGN_OR_RETURN(const ExportTotals totals,
                         options.split != 0
                             ? ExportSplit(files, *source, slots, options.split, options.output)
                         : stream ? ExportCanonical(files, *source, slots, options.output)
                                  : ExportTables(files, *source, slots, options));
  fmt::print(stderr, "cairn: exported {} rows of {} slot{} from {} to {} ({}{}, {})\n",
             base::FormatCount(totals.rows), slots.size(), slots.size() == 1 ? "" : "s",
             source->Name(), options.output.empty() ? "standard output" : options.output,
             options.typed ? "typed " : "", options.format, base::FormatBytes(totals.bytes));
  return ExitCode::kDone;
}

}  // namespace cairn::cli

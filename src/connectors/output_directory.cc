// SPDX-License-Identifier: Apache-2.0
#include "connectors/output_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "env/clock.h"

namespace cairn::connectors {
namespace {

constexpr size_t kIdDigits = 20;  ///< of a checkpoint in a file's name
constexpr uint64_t kNoteBytesMax = 4096;

/// The way out when what a checkpoint says was written cannot be had again.
constexpr const char* kStartAnew =
    "a run with another place (--checkpoints) and an empty directory writes all rows again";

/// True for a plain name: a damaged descriptor must not reach outside the directory.
bool IsFileName(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

Result<PreparedFile> ParseDescriptor(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  PreparedFile file;
  const auto name = [&json](const char* key, std::string* out) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_string()) return false;
    *out = found->get<std::string>();
    return IsFileName(*out);
  };
  const auto number = [&json](const char* key, uint64_t* out) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_number_unsigned()) return false;
    *out = found->get<uint64_t>();
    return true;
  };
  if (!json.is_object() || !name("staged", &file.staged) || !name("final", &file.final) ||
      !number("rows", &file.rows) || !number("bytes", &file.bytes) ||
      !file.staged.starts_with(".staged-") || !file.final.starts_with("part-")) {
    return Status::Corruption("a sink descriptor cannot be read: " + text.substr(0, 200));
  }
  return file;
}

/// The writer id as part of a file name: letters, digits, '.', '_' as they are, others as %XX. No
/// '-' is left, so that no id's files begin with another id's prefix.
std::string FileNameOf(const std::string& writer_id) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string name;
  for (const char c : writer_id) {
    const auto byte = static_cast<unsigned char>(c);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
        c == '.') {
      name += c;
    } else {
      name += '%';
      name += kHex[byte >> 4];
      name += kHex[byte & 0xF];
    }
  }
  return name;
}

std::string Hex16(uint64_t number) { return fmt::format("{:016x}", number); }

/// The checkpoint that published the file `name` of `writer`; nothing for any other file.
std::optional<base::CheckpointId> PublishedBy(const std::string& name, const std::string& writer) {
  constexpr std::string_view kPart = "part-";
  const size_t end = kPart.size() + kIdDigits;
  if (!name.starts_with(kPart) || name.size() <= end || name[end] != '-') return std::nullopt;
  const size_t subtask_end = name.find('-', end + 1);
  if (subtask_end == std::string::npos ||
      !std::string_view(name).substr(subtask_end + 1).starts_with(writer + ".")) {
    return std::nullopt;
  }
  uint64_t id = 0;
  const char* const digits = name.data() + kPart.size();
  const auto [last, error] = std::from_chars(digits, digits + kIdDigits, id);
  if (error != std::errc() || last != digits + kIdDigits) return std::nullopt;
  return base::CheckpointId(id);
}

Status AlreadyTakenOver(const std::string& path) {
  return Status::InvalidArgument(
      "another run began with --from at a checkpoint of the same job and publishes its rows from "
      "there on; both would publish the same rows. Go on with that run; or, if it published "
      "nothing and never will, remove " +
      path);
}

}  // namespace

std::string ToJson(const PreparedFile& file) {
  nlohmann::ordered_json json;
  json["staged"] = file.staged;
  json["final"] = file.final;
  json["rows"] = file.rows;
  json["bytes"] = file.bytes;
  return json.dump();
}

OutputDirectory::OutputDirectory(std::string path, const stream::SinkWriterId& writer,
                                 env::FileSystem* files)
    : path_(std::move(path)),
      writer_(FileNameOf(writer.name)),
      is_only_run_(writer.run == 0),
      run_(Hex16(writer.run)),
      nonce_(Hex16(env::SystemRandom()->Next())),
      files_(files) {}

std::string OutputDirectory::StagedName(uint32_t subtask, uint64_t number) const {
  return StagedPrefix() + run_ + "-" + nonce_ + "-" + std::to_string(subtask) + "-" +
         std::to_string(number);
}

std::string OutputDirectory::FinalName(base::CheckpointId id, uint32_t subtask,
                                       std::string_view extension) const {
  std::string number = std::to_string(id.value);
  number.insert(0, kIdDigits - std::min(kIdDigits, number.size()), '0');
  return "part-" + number + "-" + std::to_string(subtask) + "-" + writer_ + "." +
         std::string(extension);
}

Status OutputDirectory::Make() {
  const auto info = files_->Stat(path_);
  if (info.ok()) {
    if (info->is_directory) return {};
    return Status::InvalidArgument("the sink's path " + path_ +
                                   " is a file; it must be a "
                                   "directory or not exist");
  }
  if (info.status().code() != StatusCode::kNotFound) return info.status();
  // Parents that are missing get the default mode as well: they are the user's, not ours.
  std::vector<std::string> made;
  for (std::string at = path_; !at.empty() && at != "/" && at != ".";) {
    if (files_->Stat(at).ok()) break;
    made.push_back(at);
    const size_t slash = at.find_last_of('/');
    at = slash == std::string::npos ? "" : at.substr(0, slash);
  }
  CAIRN_RETURN_IF_ERROR(env::CreateDirectories(files_, path_, /*sync=*/true));
  for (const std::string& directory : made) {
    CAIRN_RETURN_IF_ERROR(files_->UseDefaultMode(directory));
  }
  return {};
}

uint64_t OutputDirectory::Now() {
  std::lock_guard<std::mutex> lock(mutex_);
  return syncs_started_;
}

Status OutputDirectory::Sync() {
  uint64_t number;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    number = ++syncs_started_;
  }
  CAIRN_RETURN_IF_ERROR(files_->SyncDirectory(path_));
  std::lock_guard<std::mutex> lock(mutex_);
  last_good_sync_ = std::max(last_good_sync_, number);
  return {};
}

Status OutputDirectory::EnsureNameDurable(uint64_t made) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (last_good_sync_ > made) return {};
  }
  return Sync();
}

Status OutputDirectory::Publish(const std::vector<std::string>& descriptors) {
  if (descriptors.empty()) return {};
  for (const std::string& text : descriptors) {
    CAIRN_ASSIGN_OR_RETURN(const PreparedFile file, ParseDescriptor(text));
    CAIRN_RETURN_IF_ERROR(PublishOne(file));
  }
  // Also when every file had its name already: a crash may have come before the sync.
  return Sync();
}

Status OutputDirectory::Own() {
  if (is_only_run_) return {};
  const std::string unfinished = PathOf(StagedPrefix() + run_ + "-" + nonce_ + "-owner");
  CAIRN_ASSIGN_OR_RETURN(const auto file, files_->CreateFile(unfinished));
  CAIRN_RETURN_IF_ERROR(file->Append(run_ + "-" + nonce_));
  CAIRN_RETURN_IF_ERROR(file->Sync());  // after a power cut it is the old one or the new one, whole
  CAIRN_RETURN_IF_ERROR(file->Close());
  const Status renamed = files_->Rename(unfinished, OwnerPath());
  if (renamed.code() != StatusCode::kNotFound) return renamed;
  return Status::Fenced(
      "another run of this job began to publish in " + path_ +
      " at the same moment and swept what this one had begun. Run one of the two");
}

Status OutputDirectory::CheckOwned() const {
  const Result<std::string> owner = env::ReadWholeFile(files_, OwnerPath(), kNoteBytesMax);
  if (owner.status().code() == StatusCode::kNotFound) return {};
  CAIRN_RETURN_IF_ERROR(owner.status());
  if (*owner == run_ + "-" + nonce_) return {};
  return Status::Fenced("another run of this job has begun to publish in " + path_ +
                        ", such as one of a copy of its checkpoint place; this one publishes "
                        "nothing more. Run one of the two places only");
}

Status OutputDirectory::CheckIsWhole(const std::vector<std::string>& descriptors) const {
  for (const std::string& text : descriptors) {
    CAIRN_ASSIGN_OR_RETURN(const PreparedFile file, ParseDescriptor(text));
    CAIRN_RETURN_IF_ERROR(Find(file).status());
  }
  return {};
}

Result<OutputDirectory::Found> OutputDirectory::Find(const PreparedFile& file) const {
  const std::string staged = PathOf(file.staged);
  const std::string final = PathOf(file.final);
  const auto staged_info = files_->Stat(staged);
  const auto final_info = files_->Stat(final);
  const bool staged_missing =
      !staged_info.ok() && staged_info.status().code() == StatusCode::kNotFound;
  const bool final_missing =
      !final_info.ok() && final_info.status().code() == StatusCode::kNotFound;
  if (!staged_info.ok() && !staged_missing) return staged_info.status();
  if (!final_info.ok() && !final_missing) return final_info.status();
  if (staged_missing && final_missing) {
    return Status::Corruption("committed rows are gone: neither " + final + " nor " + staged +
                              " exists (" + std::to_string(file.rows) + " rows). Put " +
                              (files_->Stat(path_).ok() ? "the file" : "the directory") +
                              " back; or give the rows up and start anew: " + kStartAnew);
  }
  if (!staged_missing && !final_missing) {
    // Some file systems can leave both names of a rename after a power cut.
    CAIRN_ASSIGN_OR_RETURN(const bool same, SameBytes(staged, final));
    if (same) return Found::kBoth;
    return Status::AlreadyExists(final +
                                 " exists already and is not of this checkpoint; move it away, its "
                                 "place belongs to " +
                                 staged);
  }
  const uint64_t size = staged_missing ? final_info->size : staged_info->size;
  if (size != file.bytes) {
    return Status::Corruption((staged_missing ? final : staged) + " has " + std::to_string(size) +
                              " bytes, its checkpoint says " + std::to_string(file.bytes) +
                              ". Put the file back as it was; or start anew: " + kStartAnew);
  }
  return staged_missing ? Found::kPublished : Found::kStaged;
}

Status OutputDirectory::PublishOne(const PreparedFile& file) {
  CAIRN_ASSIGN_OR_RETURN(const Found found, Find(file));
  if (found == Found::kPublished) return {};
  if (found == Found::kBoth) return files_->RemoveFile(PathOf(file.staged));
  return files_->Rename(PathOf(file.staged), PathOf(file.final));
}

Result<bool> OutputDirectory::SameBytes(const std::string& a, const std::string& b) const {
  CAIRN_ASSIGN_OR_RETURN(const auto first, files_->OpenForRead(a));
  CAIRN_ASSIGN_OR_RETURN(const auto second, files_->OpenForRead(b));
  if (first->size() != second->size()) return false;
  std::string of_first;
  std::string of_second;
  for (uint64_t at = 0; at < first->size(); at += of_first.size()) {
    const uint64_t piece = std::min<uint64_t>(first->size() - at, 1 << 20);
    of_first.resize(piece);
    of_second.resize(piece);
    CAIRN_RETURN_IF_ERROR(first->ReadExactly(at, of_first));
    CAIRN_RETURN_IF_ERROR(second->ReadExactly(at, of_second));
    if (of_first != of_second) return false;
  }
  return true;
}

Result<std::vector<env::DirectoryEntry>> OutputDirectory::Entries() const {
  auto entries = files_->ListDirectory(path_);
  if (entries.status().code() == StatusCode::kNotFound) return std::vector<env::DirectoryEntry>();
  return entries;
}

Status OutputDirectory::RemoveStaged() {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<env::DirectoryEntry> entries, Entries());
  const std::string prefix = StagedPrefix();
  for (const env::DirectoryEntry& entry : entries) {
    if (entry.is_directory || !entry.name.starts_with(prefix)) continue;
    if (std::string_view(entry.name).substr(prefix.size()) >= run_) continue;
    const Status removed = files_->RemoveFile(PathOf(entry.name));
    if (!removed.ok() && removed.code() != StatusCode::kNotFound) return removed;
  }
  return {};
}

Status OutputDirectory::CheckNothingIsNewerThan(base::CheckpointId id) const {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<env::DirectoryEntry> entries, Entries());
  for (const env::DirectoryEntry& entry : entries) {
    const std::optional<base::CheckpointId> by = PublishedBy(entry.name, writer_);
    if (!by || *by <= id) continue;
    return Status::InvalidArgument(
        PathOf(entry.name) + " holds rows that checkpoint " + std::to_string(by->value) +
        " of this job has published, and the run would begin " +
        (id.value == 0 ? std::string("from the start")
                       : "at checkpoint " + std::to_string(id.value)) +
        ": they would be published again. Begin with checkpoint " + std::to_string(by->value) +
        " or a later one; or begin anew in an empty place, with an empty output directory");
  }
  return {};
}

Status OutputDirectory::CheckNotTakenOver(const std::string& successor) const {
  const std::string path = NotePath();
  const Result<std::string> by = env::ReadWholeFile(files_, path, kNoteBytesMax);
  if (by.status().code() == StatusCode::kNotFound) return {};
  CAIRN_RETURN_IF_ERROR(by.status());
  return !successor.empty() && *by == FileNameOf(successor) ? Status() : AlreadyTakenOver(path);
}

Status OutputDirectory::TakeOver(const std::string& successor) {
  if (files_->Stat(path_).status().code() == StatusCode::kNotFound) return {};
  const std::string path = NotePath();
  const std::string unfinished = path + "-" + FileNameOf(successor);
  const Status removed = files_->RemoveFile(unfinished);  // of a run that died in here
  if (!removed.ok() && removed.code() != StatusCode::kNotFound) return removed;
  CAIRN_ASSIGN_OR_RETURN(const auto file, files_->CreateFile(unfinished));
  CAIRN_RETURN_IF_ERROR(file->Append(FileNameOf(successor)));
  CAIRN_RETURN_IF_ERROR(file->Sync());
  CAIRN_RETURN_IF_ERROR(file->Close());
  const Status linked = files_->Link(unfinished, path);  // the first one wins
  CAIRN_RETURN_IF_ERROR(files_->RemoveFile(unfinished));
  if (linked.code() == StatusCode::kAlreadyExists) {
    CAIRN_RETURN_IF_ERROR(CheckNotTakenOver(successor));
  } else {
    CAIRN_RETURN_IF_ERROR(linked);
  }
  return Sync();
}

}  // namespace cairn::connectors

// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/row_sorter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/coding.h"
#include "base/ids.h"
#include "cairn/detail/slot_hash.h"
#include "cairn/element_row_key.h"
#include "cairn/hash.h"
#include "format/canonical_stream.h"

namespace cairn::checkpoint {
namespace {

constexpr size_t kRunHeaderBytes = 25;  // slot, group, hash, rule, length of key and of value
constexpr size_t kWriteBytes = size_t{256} << 10;
constexpr size_t kReadBytesMin = size_t{16} << 10;
constexpr size_t kReadBytesMax = size_t{1} << 20;
constexpr size_t kFieldBytesMax = (size_t{1} << 31) - 1;

std::string PrintableKey(std::string_view key) {
  const bool plain = !key.empty() && std::all_of(key.begin(), key.end(),
                                                 [](char c) { return c >= 0x20 && c < 0x7f; });
  if (plain) return std::string(key);
  std::string text = "0x";
  for (const char c : key) text += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return text;
}

template <class T>
int CompareValues(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

}  // namespace

/// One sorted run: in memory, or in a scratch file that is read some KiB at a time.
class RowMerge::Run {
 public:
  explicit Run(const RowSorter* in_memory) : sorter_(in_memory) {}
  Run(std::unique_ptr<env::RandomAccessFile> file, size_t read_bytes)
      : file_(std::move(file)), read_bytes_(read_bytes) {}

  bool done() const { return done_; }
  const RowSorter::Row& row() const { return row_; }

  Status Next() {
    if (sorter_ != nullptr) {
      done_ = entry_ == sorter_->entries_.size();
      if (!done_) row_ = sorter_->RowOf(sorter_->entries_[entry_++]);
      return {};
    }
    begin_ += row_bytes_;
    row_bytes_ = 0;
    done_ = begin_ == end_ && read_ == file_->size();
    if (done_) return {};
    CAIRN_RETURN_IF_ERROR(Fill(kRunHeaderBytes));
    const char* at = buffer_.data() + begin_;
    row_.slot = base::LoadLE<uint32_t>(at);
    row_.group = base::LoadLE<uint32_t>(at + 4);
    row_.hash = base::LoadLE<uint64_t>(at + 8);
    row_.rule = static_cast<DuplicateRule>(at[16]);
    const size_t key_bytes = base::LoadLE<uint32_t>(at + 17);
    const size_t value_bytes = base::LoadLE<uint32_t>(at + 21);
    row_bytes_ = kRunHeaderBytes + key_bytes + value_bytes;
    CAIRN_RETURN_IF_ERROR(Fill(row_bytes_));
    at = buffer_.data() + begin_ + kRunHeaderBytes;
    row_.key = {at, key_bytes};
    row_.value = {at + key_bytes, value_bytes};
    return {};
  }

 private:
  /// Have `bytes` in the buffer from begin_ on.
  Status Fill(size_t bytes) {
    if (end_ - begin_ >= bytes) return {};
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    if (buffer_.size() < std::max(bytes, read_bytes_)) buffer_.resize(std::max(bytes, read_bytes_));
    const size_t more = std::min<uint64_t>(buffer_.size() - end_, file_->size() - read_);
    CAIRN_RETURN_IF_ERROR(file_->ReadExactly(read_, {buffer_.data() + end_, more}));
    read_ += more;
    end_ += more;
    if (end_ >= bytes) return {};
    return Status::Unavailable("a scratch file of the sort ends early");
  }

  const RowSorter* sorter_ = nullptr;
  size_t entry_ = 0;
  std::unique_ptr<env::RandomAccessFile> file_;
  size_t read_bytes_ = 0;
  uint64_t read_ = 0;  // of the file
  std::string buffer_;
  size_t begin_ = 0;  // of the row
  size_t end_ = 0;
  size_t row_bytes_ = 0;
  RowSorter::Row row_;
  bool done_ = false;
};

RowSorter::RowSorter(Options options) : options_(std::move(options)) {}

RowSorter::~RowSorter() {
  for (size_t run = 0; run < runs_; ++run) (void)options_.files->RemoveFile(RunPath(run));
  if (scratch_made_) (void)options_.files->RemoveDirectory(options_.scratch);
}

size_t RowSorter::AddSlot(SlotDescriptor slot) {
  slots_.push_back(std::move(slot));
  bytes_.push_back(0);
  return slots_.size() - 1;
}

Status RowSorter::Add(size_t slot, std::string_view user_key, std::string_view value,
                      DuplicateRule rule) {
  if (user_key.size() > kFieldBytesMax || value.size() > kFieldBytesMax) {
    return Status::InvalidArgument(
        fmt::format("slot {}: a key or a value has 2 GiB or more", slots_[slot].name));
  }
  const uint64_t grown =
      buffer_.size() + user_key.size() + value.size() + (entries_.size() + 1) * sizeof(Entry);
  if (grown > options_.memory_bytes && !entries_.empty()) CAIRN_RETURN_IF_ERROR(SpillRun());
  Entry entry;
  entry.at = buffer_.size();
  const std::string_view hashed = UserKeyOfRow(slots_[slot].kind, user_key);
  const std::string_view grouped = GroupKeyOfRow(slots_[slot], user_key);
  if (hashed.data() == nullptr || grouped.data() == nullptr) {
    return Status::InvalidArgument(
        fmt::format("slot {}: the key {} has not the parts of a list's, map's or timer's",
                    slots_[slot].name, PrintableKey(user_key)));
  }
  entry.hash = detail::SlotHasher(options_.slot_hash_seed).Hash(hashed);
  entry.slot = static_cast<uint32_t>(slot);
  entry.group = IsKeyed(slots_[slot].kind) ? KeyGroupOf(grouped, options_.key_groups) : 0;
  entry.key_bytes = static_cast<uint32_t>(user_key.size());
  entry.value_bytes = static_cast<uint32_t>(value.size());
  entry.rule = rule;
  buffer_.append(user_key).append(value);
  entries_.push_back(entry);
  bytes_[slot] += user_key.size() + value.size();
  return {};
}

RowSorter::Row RowSorter::RowOf(const Entry& entry) const {
  const char* at = buffer_.data() + entry.at;
  return {entry.slot,
          entry.group,
          entry.hash,
          {at, entry.key_bytes},
          {at + entry.key_bytes, entry.value_bytes},
          entry.rule};
}

int RowSorter::Compare(const Row& a, const Row& b) const {
  const SlotDescriptor& slot_a = slots_[a.slot];
  const SlotDescriptor& slot_b = slots_[b.slot];
  if (a.slot != b.slot) {
    if (const int by = CompareValues(slot_a.operator_id, slot_b.operator_id)) return by;
    if (const int by = CompareValues(slot_a.kind, slot_b.kind)) return by;
  }
  if (const int by = CompareValues(a.group, b.group)) return by;
  if (a.slot != b.slot) return slot_a.name.compare(slot_b.name);
  if (const int by = CompareValues(a.hash, b.hash)) return by;
  return a.key.compare(b.key);
}

void RowSorter::SortBuffer() {
  std::sort(entries_.begin(), entries_.end(), [this](const Entry& a, const Entry& b) {
    const int by = Compare(RowOf(a), RowOf(b));
    return by != 0 ? by < 0 : a.at < b.at;
  });
}

std::string RowSorter::RunPath(size_t run) const {
  return env::JoinPath(options_.scratch, "run-" + std::to_string(run));
}

Status RowSorter::MakeScratch() {
  if (scratch_made_) return {};
  CAIRN_RETURN_IF_ERROR(env::CreateDirectories(options_.files, options_.scratch, false));
  scratch_made_ = true;
  return {};
}

Status RowSorter::SpillRun() {
  CAIRN_RETURN_IF_ERROR(MakeScratch());
  SortBuffer();
  CAIRN_ASSIGN_OR_RETURN(const auto file, options_.files->CreateFile(RunPath(runs_)));
  ++runs_;
  std::string out;
  for (const Entry& entry : entries_) {
    base::AppendLE<uint32_t>(&out, entry.slot);
    base::AppendLE<uint32_t>(&out, entry.group);
    base::AppendLE<uint64_t>(&out, entry.hash);
    out.push_back(static_cast<char>(entry.rule));
    base::AppendLE<uint32_t>(&out, entry.key_bytes);
    base::AppendLE<uint32_t>(&out, entry.value_bytes);
    out.append(buffer_, entry.at, size_t{entry.key_bytes} + entry.value_bytes);
    if (out.size() < kWriteBytes) continue;
    CAIRN_RETURN_IF_ERROR(file->Append(out));
    out.clear();
  }
  CAIRN_RETURN_IF_ERROR(file->Append(out));
  CAIRN_RETURN_IF_ERROR(file->Close());
  buffer_.clear();
  entries_.clear();
  return {};
}

Result<std::unique_ptr<RowMerge>> RowSorter::Merge() {
  if (!sorted_) {
    // With runs on disk the buffer's memory goes to reading them.
    if (runs_ > 0 && !entries_.empty()) CAIRN_RETURN_IF_ERROR(SpillRun());
    if (runs_ > 0) {
      buffer_.shrink_to_fit();
      entries_.shrink_to_fit();
    }
    SortBuffer();
    sorted_ = true;
  }
  std::unique_ptr<RowMerge> merge(new RowMerge(this));
  CAIRN_RETURN_IF_ERROR(merge->Open());
  return merge;
}

RowMerge::RowMerge(RowSorter* sorter) : sorter_(sorter) {}
RowMerge::~RowMerge() = default;

Status RowMerge::Open() {
  if (sorter_->runs_ == 0) {
    runs_.push_back(std::make_unique<Run>(sorter_));
  }
  for (size_t run = 0; run < sorter_->runs_; ++run) {
    CAIRN_ASSIGN_OR_RETURN(auto file, sorter_->options_.files->OpenForRead(sorter_->RunPath(run)));
    const size_t share = sorter_->options_.memory_bytes / sorter_->runs_;
    runs_.push_back(
        std::make_unique<Run>(std::move(file), std::clamp(share, kReadBytesMin, kReadBytesMax)));
  }
  for (const auto& run : runs_) CAIRN_RETURN_IF_ERROR(run->Next());
  return Next();
}

/// The run with the least row; of equal rows the one that was added first.
RowMerge::Run* RowMerge::Least() const {
  Run* least = nullptr;
  for (const auto& run : runs_) {
    if (run->done()) continue;
    if (least == nullptr || sorter_->Compare(run->row(), least->row()) < 0) least = run.get();
  }
  return least;
}

Status RowMerge::Duplicate(const RowSorter::Row& row) const {
  const SlotDescriptor& slot = sorter_->slots_[row.slot];
  return Status::InvalidArgument(
      fmt::format("operator {} slot {} has key {} twice. Leave one of the rows out",
                  slot.operator_uid, slot.name, PrintableKey(row.key)));
}

Status RowMerge::Next() {
  Run* least = Least();
  done_ = least == nullptr;
  if (done_) return {};
  RowSorter::Row first = least->row();
  key_ = first.key;
  value_ = first.value;
  first.key = key_;
  CAIRN_RETURN_IF_ERROR(least->Next());
  const bool operator_state = !IsKeyed(sorter_->slots_[first.slot].kind);
  for (Run* next = Least(); next != nullptr && sorter_->Compare(next->row(), first) == 0;
       next = Least()) {
    if (first.rule == DuplicateRule::kRefuse || next->row().rule == DuplicateRule::kRefuse) {
      return Duplicate(first);
    }
    const std::string kept(
        format::ResolveDuplicate(operator_state ? "\xff" : "", value_, next->row().value));
    value_ = kept;
    CAIRN_RETURN_IF_ERROR(next->Next());
  }
  row_ = {first.slot, first.group, key_, value_};
  return {};
}

}  // namespace cairn::checkpoint

// SPDX-License-Identifier: Apache-2.0
#include "connectors/source_files.h"

#include <algorithm>
#include <utility>

#include "format/utf8.h"

namespace cairn::connectors {
namespace {

class BoundedInput final : public env::RandomAccessFile {
 public:
  BoundedInput(std::unique_ptr<env::RandomAccessFile> file, std::string path, uint64_t limit)
      : file_(std::move(file)), path_(std::move(path)), size_(std::min(file_->size(), limit)) {}

  Status ReadExactly(uint64_t offset, std::span<char> out) const override {
    Status status = file_->ReadExactly(offset, out);
    if (status.code() != StatusCode::kCorruption) return status;
    return Status::InvalidArgument(path_ + " ends before byte " +
                                   std::to_string(offset + out.size()) +
                                   ": it was cut while it was read");
  }
  uint64_t size() const override { return size_; }

 private:
  std::unique_ptr<env::RandomAccessFile> file_;
  std::string path_;
  uint64_t size_;
};

/// A name for a message: what is not printable ASCII as \xNN.
std::string Escaped(std::string_view name) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F && c != '\\') {
      text += c;
    } else {
      text += {'\\', 'x', kHex[byte >> 4], kHex[byte & 0xF]};
    }
  }
  return text;
}

}  // namespace

std::string FileNameOfPath(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Result<FileList> ListFiles(const SourceTable& table) {
  const std::string& path = table.options.path;
  auto info = table.files->Stat(path);
  if (!info.ok()) return info.status().WithContext("the source's path");
  FileList list;
  if (!info->is_directory) {
    list[FileNameOfPath(path)] = {path, info->identity};
    return list;
  }
  CAIRN_ASSIGN_OR_RETURN(const auto entries, table.files->ListDirectory(path));
  for (const env::DirectoryEntry& entry : entries) {
    if (entry.is_directory || entry.name.starts_with('_') || entry.name.starts_with('.')) continue;
    if (!format::IsUtf8(entry.name)) {
      return Status::InvalidArgument("the name of a file in " + path + " is not valid UTF-8: \"" +
                                     Escaped(entry.name) +
                                     "\". Rename it, or begin its name with '_' or '.' so that it "
                                     "is passed over");
    }
    const std::string file = env::JoinPath(path, entry.name);
    auto found = table.files->Stat(file);
    if (found.status().code() == StatusCode::kNotFound) continue;  // removed meanwhile
    if (!found.ok()) return found.status();
    list[entry.name] = {file, found->identity};
  }
  return list;
}

Result<InputFile> OpenInput(const SourceTable& table, const std::string& path, uint64_t limit) {
  CAIRN_ASSIGN_OR_RETURN(auto file, table.files->OpenForRead(path));
  return InputFile(std::make_shared<BoundedInput>(std::move(file), path, limit));
}

}  // namespace cairn::connectors

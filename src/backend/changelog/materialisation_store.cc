// SPDX-License-Identifier: Apache-2.0
#include "backend/changelog/materialisation_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace cairn::backend {
namespace {

constexpr std::string_view kHead = "mat-";
constexpr std::string_view kTail = ".bin";

std::string HandleOf(uint64_t id) { return fmt::format("{}{}{}", kHead, id, kTail); }

Result<uint64_t> IdOf(std::string_view handle) {
  std::string_view name = handle.substr(handle.rfind('/') + 1);
  uint64_t id = 0;
  if (name.starts_with(kHead) && name.ends_with(kTail) &&
      name.size() > kHead.size() + kTail.size()) {
    name = name.substr(kHead.size(), name.size() - kHead.size() - kTail.size());
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error == std::errc() && end == name.data() + name.size()) return id;
  }
  return Status::Corruption(fmt::format("'{}' names no materialisation", handle));
}

}  // namespace

Result<std::unique_ptr<FileMaterialisationStore>> FileMaterialisationStore::Open(
    env::FileSystem* files, std::string directory, bool fsync) {
  CAIRN_ASSIGN_OR_RETURN(
      std::unique_ptr<SnapshotFiles> place,
      SnapshotFiles::Open(files, std::move(directory), {"mat", std::string(kTail), fsync, false}));
  return std::unique_ptr<FileMaterialisationStore>(new FileMaterialisationStore(std::move(place)));
}

Result<MaterialisationStore::Kept> FileMaterialisationStore::Put(uint64_t id,
                                                                 const WriteBody& body) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<uint64_t> taken, files_->ListAll());
  while (std::binary_search(taken.begin(), taken.end(), id)) ++id;
  CAIRN_ASSIGN_OR_RETURN(const uint64_t bytes, files_->Write(id, body));
  return Kept{HandleOf(id), bytes};
}

Result<std::string> FileMaterialisationStore::Get(std::string_view handle) {
  CAIRN_ASSIGN_OR_RETURN(const uint64_t id, IdOf(handle));
  return files_->Read(files_->PathOf(id));
}

Result<std::string> ReadMaterialisation(env::FileSystem* files, const std::string& directory,
                                        std::string_view handle) {
  CAIRN_ASSIGN_OR_RETURN(const uint64_t id, IdOf(handle));
  const SnapshotFiles place =
      SnapshotFiles::ForReading(files, directory, {"mat", std::string(kTail), false, false, false});
  return place.Read(place.PathOf(id));
}

Result<std::vector<std::string>> FileMaterialisationStore::List() {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids, files_->ListAll());
  std::vector<std::string> handles;
  for (const uint64_t id : ids) handles.push_back(HandleOf(id));
  return handles;
}

Status FileMaterialisationStore::Remove(std::string_view handle) {
  CAIRN_ASSIGN_OR_RETURN(const uint64_t id, IdOf(handle));
  return files_->Purge(id);
}

}  // namespace cairn::backend

// SPDX-License-Identifier: Apache-2.0
//
// Every directory keeps two maps of names, as now and as synced; every file two byte strings. A
// power cut rebuilds "now" out of the two. A rename is two independent changes of names here, which
// is harsher than journalling file systems are.
#include "env/memory_file_system.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <set>

namespace cairn::env {

struct MemoryFileSystem::Node {
  explicit Node(bool directory) : is_directory(directory) {}
  bool is_directory;
  const uint64_t number = next_number++;  ///< tells nodes apart, also those that are gone
  static inline std::atomic<uint64_t> next_number = 1;
  // Of a file.
  std::string bytes;
  std::string synced_bytes;
  // Of a directory.
  std::map<std::string, std::shared_ptr<Node>> names;
  std::map<std::string, std::shared_ptr<Node>> synced_names;
  int64_t modified = 0;
};

struct MemoryFileSystem::State {
  mutable std::mutex mutex;
  std::shared_ptr<Node> root = std::make_shared<Node>(true);
  bool power = true;
  uint64_t boots = 0;
  uint64_t capacity = UINT64_MAX;
  uint64_t used = 0;
  uint64_t open_handles = 0;
  int64_t ticks = 0;
  std::set<std::string> locks;

  Status CheckPower(std::string_view call, const std::string& path) const {
    if (power) return {};
    return Status::Unavailable(std::string(call) + " " + path + ": the power is off");
  }

  static std::vector<std::string> PartsOf(const std::string& path) {
    std::vector<std::string> parts;
    size_t at = 0;
    while (at < path.size()) {
      const size_t slash = std::min(path.find('/', at), path.size());
      if (slash > at && path.compare(at, slash - at, ".") != 0) {
        parts.push_back(path.substr(at, slash - at));
      }
      at = slash + 1;
    }
    return parts;
  }

  std::shared_ptr<Node> Find(const std::string& path) const {
    std::shared_ptr<Node> node = root;
    for (const std::string& part : PartsOf(path)) {
      if (!node->is_directory) return nullptr;
      auto found = node->names.find(part);
      if (found == node->names.end()) return nullptr;
      node = found->second;
    }
    return node;
  }

  /// The directory that holds `path`, and the last part in `name`; null when there is none.
  std::shared_ptr<Node> ParentOf(const std::string& path, std::string* name) const {
    std::vector<std::string> parts = PartsOf(path);
    if (parts.empty()) return nullptr;
    *name = parts.back();
    std::shared_ptr<Node> node = root;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      auto found = node->names.find(parts[i]);
      if (found == node->names.end() || !found->second->is_directory) return nullptr;
      node = found->second;
    }
    return node;
  }

  Result<std::shared_ptr<Node>> FileAt(std::string_view call, const std::string& path) const {
    std::shared_ptr<Node> node = Find(path);
    if (!node) return Missing(call, path);
    if (node->is_directory) {
      return Status::Unavailable(std::string(call) + " " + path + ": Is a directory");
    }
    return node;
  }

  static Status Missing(std::string_view call, const std::string& path) {
    return Status::NotFound(std::string(call) + " " + path + ": No such file or directory");
  }
  static Status Exists(std::string_view call, const std::string& path) {
    return Status::AlreadyExists(std::string(call) + " " + path + ": File exists");
  }

  void Recount() {
    used = 0;
    std::set<const Node*> seen;
    CountBelow(*root, &seen);
  }
  void CountBelow(const Node& node, std::set<const Node*>* seen) {
    if (!seen->insert(&node).second) return;
    used += node.bytes.size();
    for (const auto& [name, child] : node.names) CountBelow(*child, seen);
  }
};

namespace {

/// Decide what is left of a file: the synced bytes, then sectors by chance.
std::string SurvivingBytes(const std::string& synced, const std::string& now, Unsynced unsynced,
                           std::mt19937_64* random) {
  if (unsynced == Unsynced::kKeep || synced == now) return now;
  if (unsynced == Unsynced::kDrop) return synced;
  constexpr size_t kSector = 512;
  // The length is metadata of its own: it may be any between the two.
  const size_t low = std::min(synced.size(), now.size());
  const size_t high = std::max(synced.size(), now.size());
  std::string left = now.substr(0, low + (*random)() % (high - low + 1));
  for (size_t at = synced.size() / kSector * kSector; at < left.size(); at += kSector) {
    const size_t end = std::min(at + kSector, left.size());
    const uint64_t fate = (*random)() % 3;
    for (size_t i = std::max(at, synced.size()); i < end; ++i) {
      if (fate == 1) left[i] = '\0';
      if (fate == 2) left[i] = static_cast<char>((*random)());
    }
  }
  return left;
}

}  // namespace

class MemoryFileSystem::Writable final : public WritableFile {
 public:
  Writable(std::shared_ptr<State> state, std::shared_ptr<Node> node, std::string path)
      : state_(std::move(state)),
        node_(std::move(node)),
        path_(std::move(path)),
        boot_(state_->boots) {
    ++state_->open_handles;
  }
  ~Writable() override {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (open_) --state_->open_handles;
  }

  Status Append(std::string_view bytes) override {
    std::lock_guard<std::mutex> lock(state_->mutex);
    CAIRN_RETURN_IF_ERROR(Check("write"));
    const uint64_t room = state_->capacity - std::min(state_->capacity, state_->used);
    const std::string_view fits = bytes.substr(0, std::min<uint64_t>(room, bytes.size()));
    node_->bytes.append(fits);
    node_->modified = ++state_->ticks;
    state_->used += fits.size();
    if (fits.size() < bytes.size()) {
      return Status::ResourceExhausted("write " + path_ + ": No space left on device");
    }
    return {};
  }

  Status Sync() override {
    std::lock_guard<std::mutex> lock(state_->mutex);
    CAIRN_RETURN_IF_ERROR(Check("fsync"));
    node_->synced_bytes = node_->bytes;
    return {};
  }

  Status Close() override {
    std::lock_guard<std::mutex> lock(state_->mutex);
    CAIRN_RETURN_IF_ERROR(Check("close"));
    open_ = false;
    --state_->open_handles;
    return {};
  }

 private:
  Status Check(std::string_view call) const {
    CAIRN_RETURN_IF_ERROR(state_->CheckPower(call, path_));
    if (boot_ != state_->boots || !open_) {
      return Status::Unavailable(std::string(call) + " " + path_ + ": the handle is closed");
    }
    return {};
  }

  std::shared_ptr<State> state_;
  std::shared_ptr<Node> node_;
  std::string path_;
  uint64_t boot_;
  bool open_ = true;
};

class MemoryFileSystem::Readable final : public RandomAccessFile {
 public:
  Readable(std::shared_ptr<State> state, std::shared_ptr<Node> node, std::string path)
      : state_(std::move(state)),
        node_(std::move(node)),
        path_(std::move(path)),
        size_(node_->bytes.size()) {
    ++state_->open_handles;
  }
  ~Readable() override {
    std::lock_guard<std::mutex> lock(state_->mutex);
    --state_->open_handles;
  }

  Status ReadExactly(uint64_t offset, std::span<char> out) const override {
    std::lock_guard<std::mutex> lock(state_->mutex);
    CAIRN_RETURN_IF_ERROR(state_->CheckPower("read", path_));
    if (offset > node_->bytes.size() || node_->bytes.size() - offset < out.size()) {
      return Status::Corruption("read " + path_ + ": the file ends at byte " +
                                std::to_string(node_->bytes.size()));
    }
    if (!out.empty()) std::memcpy(out.data(), node_->bytes.data() + offset, out.size());
    return {};
  }
  uint64_t size() const override { return size_; }

 private:
  std::shared_ptr<State> state_;
  std::shared_ptr<Node> node_;
  std::string path_;
  uint64_t size_;
};

class MemoryFileSystem::HeldLock final : public FileLock {
 public:
  HeldLock(std::shared_ptr<State> state, std::string path)
      : state_(std::move(state)), path_(std::move(path)), boot_(state_->boots) {}
  ~HeldLock() override {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (boot_ == state_->boots) state_->locks.erase(path_);
  }

 private:
  std::shared_ptr<State> state_;
  std::string path_;
  uint64_t boot_;
};

MemoryFileSystem::MemoryFileSystem() : state_(std::make_shared<State>()) {}
MemoryFileSystem::~MemoryFileSystem() = default;

void MemoryFileSystem::PowerCut(Unsynced unsynced, uint64_t seed) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  std::mt19937_64 random(seed);
  std::vector<std::shared_ptr<Node>> left = {state_->root};
  std::set<const Node*> done;
  while (!left.empty()) {
    std::shared_ptr<Node> node = left.back();
    left.pop_back();
    if (!done.insert(node.get()).second) continue;
    if (!node->is_directory) {
      node->bytes = SurvivingBytes(node->synced_bytes, node->bytes, unsynced, &random);
      node->synced_bytes = node->bytes;
      continue;
    }
    if (unsynced == Unsynced::kDrop) {
      node->names = node->synced_names;
    } else if (unsynced == Unsynced::kRandom) {
      std::set<std::string> all;
      for (const auto& [name, child] : node->names) all.insert(name);
      for (const auto& [name, child] : node->synced_names) all.insert(name);
      std::map<std::string, std::shared_ptr<Node>> names;
      for (const std::string& name : all) {
        const auto& side = random() % 2 == 0 ? node->names : node->synced_names;
        if (auto found = side.find(name); found != side.end()) names[name] = found->second;
      }
      // A rename is atomic: a file that had a durable name and still has one never loses both.
      for (const auto& [old_name, child] : node->synced_names) {
        const auto is_child = [&child](const auto& entry) { return entry.second == child; };
        const auto renamed = std::find_if(node->names.begin(), node->names.end(), is_child);
        if (renamed == node->names.end()) continue;  // removed: may be gone
        if (std::find_if(names.begin(), names.end(), is_child) != names.end()) continue;
        names[names.contains(old_name) ? renamed->first : old_name] = child;
      }
      node->names = std::move(names);
    }
    node->synced_names = node->names;
    for (const auto& [name, child] : node->names) left.push_back(child);
  }
  state_->power = false;
  state_->locks.clear();
  ++state_->boots;
  state_->Recount();
}

void MemoryFileSystem::PowerOn() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->power = true;
}

void MemoryFileSystem::SetCapacity(uint64_t bytes) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->capacity = bytes;
  state_->Recount();
}

Status MemoryFileSystem::FlipByte(const std::string& path, uint64_t offset, uint8_t mask) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<Node> node, state_->FileAt("flip", path));
  if (offset >= node->bytes.size()) return Status::InvalidArgument("flip beyond the end");
  node->bytes[offset] = static_cast<char>(node->bytes[offset] ^ mask);
  node->synced_bytes = node->bytes;
  return {};
}

Status MemoryFileSystem::Truncate(const std::string& path, uint64_t size) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<Node> node, state_->FileAt("truncate", path));
  if (size > node->bytes.size()) return Status::InvalidArgument("truncate beyond the end");
  node->bytes.resize(size);
  node->synced_bytes = node->bytes;
  return {};
}

std::map<std::string, std::string> MemoryFileSystem::AllFiles() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  std::map<std::string, std::string> files;
  std::vector<std::pair<std::string, std::shared_ptr<Node>>> left = {{"", state_->root}};
  while (!left.empty()) {
    auto [path, node] = left.back();
    left.pop_back();
    if (!node->is_directory) files[path] = node->bytes;
    for (const auto& [name, child] : node->names) left.emplace_back(path + "/" + name, child);
  }
  return files;
}

uint64_t MemoryFileSystem::open_handles() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->open_handles;
}

Result<std::unique_ptr<WritableFile>> MemoryFileSystem::CreateFile(const std::string& path) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  CAIRN_RETURN_IF_ERROR(state_->CheckPower("create", path));
  std::string name;
  std::shared_ptr<Node> parent = state_->ParentOf(path, &name);
  if (!parent) return State::Missing("create", path);
  if (parent->names.contains(name)) return State::Exists("create", path);
  auto node = std::make_shared<Node>(false);
  node->modified = ++state_->ticks;
  parent->names[name] = node;
  return std::unique_ptr<WritableFile>(new Writable(state_, std::move(node), path));
}

Result<std::unique_ptr<WritableFile>> MemoryFileSystem::OpenForAppend(const std::string& path,
                                                                      uint64_t offset) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  CAIRN_RETURN_IF_ERROR(state_->CheckPower("open", path));
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<Node> node, state_->FileAt("open", path));
  if (node->bytes.size() < offset) {
    return Status::Corruption("open " + path + " to append at " + std::to_string(offset) +
                              ": the file has only " + std::to_string(node->bytes.size()) +
                              " bytes");
  }
  node->bytes.resize(offset);
  state_->Recount();
  return std::unique_ptr<WritableFile>(new Writable(state_, std::move(node), path));
}

Result<std::unique_ptr<RandomAccessFile>> MemoryFileSystem::OpenForRead(const std::string& path) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  CAIRN_RETURN_IF_ERROR(state_->CheckPower("open", path));
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<Node> node, state_->FileAt("open", path));
  return std::unique_ptr<RandomAccessFile>(new Readable(state_, std::move(node), path));
}

Status MemoryFileSystem::Link(const std::string& source, const std::string& target) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  CAIRN_RETURN_IF_ERROR(state_->CheckPower("link", target));
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<Node> node, state_->FileAt("link", source));
  std::string name;
  std::shared_ptr<Node> parent = state_->ParentOf(target, &name);
  if (!parent) return State::Missing("link", target);
  if (parent->names.contains(name)) return State::Exists("link", target);
  parent->names[name] = std::move(node);
  return {};
}

Status MemoryFileSystem::Rename(const std::string& source, const std::string& target) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  CAIRN_RETURN_IF_ERROR(state_->CheckPower("rename", target));
  std::string from;
  std::string to;
  std::shared_ptr<Node> from_parent = state_->ParentOf(source, &from);
  std::shared_ptr<Node> to_parent = state_->ParentOf(target, &to);
  if (!from_parent || !from_parent->names.contains(from)) return State::Missing("rename", source);
  if (!to_parent) return State::Missing("rename", target);
  std::shared_ptr<Node> node = from_parent->names[from];
  if (auto there = to_parent->names.find(to); there != to_parent->names.end()) {
    if (there->second == node) return {};
    if (there->second->is_directory != node->is_directory ||
        (node->is_directory && !there->second->names.empty())) {
      return State::Exists("rename", target);
    }
  }
  from_parent->names.erase(from);
  to_parent->names[to] = std::move(node);
  state_->Recount();
  return {};
}

Status MemoryFileSystem::RemoveFile(const std::string& path) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  CAIRN_RETURN_IF_ERROR(state_->CheckPower("unlink", path));
  CAIRN_RETURN_IF_ERROR(state_->FileAt("unlink", path).status());
  std::string name;
  state_->ParentOf(path, &name)->names.erase(name);
  state_->Recount();
  return {};
}

Status MemoryFileSystem::RemoveDirectory(const std::string& path) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  CAIRN_RETURN_IF_ERROR(state_->CheckPower("rmdir", path));
  std::shared_ptr<Node> node = state_->Find(path);
  if (!node) return State::Missing("rmdir", path);
  if (!node->is_directory || !node->names.empty()) {
    return Status::Unavailable("rmdir " + path + ": Directory not empty");
  }
  std::string name;
  state_->ParentOf(path, &name)->names.erase(name);
  return {};
}

Status MemoryFileSystem::CreateDirectory(const std::string& path) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  CAIRN_RETURN_IF_ERROR(state_->CheckPower("mkdir", path));
  std::string name;
  std::shared_ptr<Node> parent = state_->ParentOf(path, &name);
  if (!parent) return State::Missing("mkdir", path);
  if (parent->names.contains(name)) return State::Exists("mkdir", path);
  parent->names[name] = std::make_shared<Node>(true);
  return {};
}

Status MemoryFileSystem::SyncDirectory(const std::string& path) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  CAIRN_RETURN_IF_ERROR(state_->CheckPower("fsync directory", path));
  std::shared_ptr<Node> node = state_->Find(path);
  if (!node || !node->is_directory) return State::Missing("fsync directory", path);
  node->synced_names = node->names;
  return {};
}

Result<std::vector<DirectoryEntry>> MemoryFileSystem::ListDirectory(const std::string& path) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  CAIRN_RETURN_IF_ERROR(state_->CheckPower("list", path));
  std::shared_ptr<Node> node = state_->Find(path);
  if (!node || !node->is_directory) return State::Missing("list", path);
  std::vector<DirectoryEntry> entries;
  for (const auto& [name, child] : node->names) {
    entries.push_back({name, child->is_directory, child->bytes.size()});
  }
  return entries;
}

Result<FileInfo> MemoryFileSystem::Stat(const std::string& path) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  CAIRN_RETURN_IF_ERROR(state_->CheckPower("stat", path));
  std::shared_ptr<Node> node = state_->Find(path);
  if (!node) return State::Missing("stat", path);
  return FileInfo{node->is_directory, node->bytes.size(), node->modified,
                  std::to_string(node->number)};
}

Result<std::unique_ptr<FileLock>> MemoryFileSystem::Lock(const std::string& path) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  CAIRN_RETURN_IF_ERROR(state_->CheckPower("lock", path));
  std::string name;
  std::shared_ptr<Node> parent = state_->ParentOf(path, &name);
  if (!parent) return State::Missing("lock", path);
  if (!parent->names.contains(name)) parent->names[name] = std::make_shared<Node>(false);
  if (!state_->locks.insert(path).second) {
    return Status::Fenced("lock " + path + ": process 1 holds it; stop that process or choose " +
                          "another place");
  }
  return std::unique_ptr<FileLock>(new HeldLock(state_, path));
}

}  // namespace cairn::env

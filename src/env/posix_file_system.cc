// SPDX-License-Identifier: Apache-2.0
//
// The machine's files through plain system calls: every interrupted call is repeated, every short
// transfer continued, and every failure says which call, which path and why.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "env/file_system.h"

namespace cairn::env {
namespace {

// Few enough calls to cost nothing, large enough writes for any disk.
constexpr uint64_t kWritebackBytes = uint64_t{8} << 20;

std::string Reason(int error) { return std::generic_category().message(error); }

Status PosixError(std::string_view call, const std::string& path, int error) {
  std::string message = std::string(call) + " " + path + ": " + Reason(error);
  switch (error) {
    case ENOENT:
      return Status::NotFound(std::move(message));
    case EEXIST:
      return Status::AlreadyExists(std::move(message));
    case ENOSPC:
    case EDQUOT:
      return Status::ResourceExhausted(std::move(message) + "; free space there and try again");
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Status::ResourceExhausted(std::move(message));
    default:
      return Status::Unavailable(std::move(message));
  }
}

/// Repeat `call` while a signal interrupts it.
template <class Call>
auto Uninterrupted(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int Release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

int OpenDescriptor(const std::string& path, int flags, mode_t mode = 0) {
  return Uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); });
}

class PosixWritableFile final : public WritableFile {
 public:
  /// `offset` is where the next byte goes.
  PosixWritableFile(std::string path, int fd, uint64_t offset)
      : path_(std::move(path)), fd_(fd), end_(offset), started_(offset) {}

  Status Append(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written =
          Uninterrupted([&] { return ::write(fd_.get(), bytes.data(), bytes.size()); });
      if (written < 0) return PosixError("write", path_, errno);
      bytes.remove_prefix(static_cast<size_t>(written));
      end_ += static_cast<uint64_t>(written);
    }
    StartWriteback();
    return {};
  }

  Status Sync() override {
    // Not repeated after any error: the kernel may have dropped the dirty pages, so that a second
    // fsync would succeed without having written them.
    if (::fdatasync(fd_.get()) != 0) return PosixError("fsync", path_, errno);
    return {};
  }

  Status Close() override {
    const int fd = fd_.Release();
    if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) return PosixError("close", path_, errno);
    return {};
  }

 private:
  /// Let the disk write while the caller makes more bytes, so that Sync finds little left. Without
  /// a wait it only starts: Sync still meets, and reports, every error.
  void StartWriteback() {
    if (end_ - started_ < kWritebackBytes) return;
    (void)::sync_file_range(fd_.get(), static_cast<off_t>(started_),
                            static_cast<off_t>(end_ - started_), SYNC_FILE_RANGE_WRITE);
    started_ = end_;
  }

  std::string path_;
  Descriptor fd_;
  uint64_t end_;
  uint64_t started_;  ///< write-back was started up to here
};

class PosixRandomAccessFile final : public RandomAccessFile {
 public:
  PosixRandomAccessFile(std::string path, int fd, uint64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}

  Status ReadExactly(uint64_t offset, std::span<char> out) const override {
    const uint64_t wanted_from = offset;
    const size_t wanted = out.size();
    while (!out.empty()) {
      const ssize_t got = Uninterrupted(
          [&] { return ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset)); });
      if (got < 0) return PosixError("read", path_, errno);
      if (got == 0) {
        return Status::Corruption("read " + path_ + ": the file ends at byte " +
                                  std::to_string(offset) + ", " + std::to_string(wanted) +
                                  " bytes were wanted from " + std::to_string(wanted_from));
      }
      out = out.subspan(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
    return {};
  }

  uint64_t size() const override { return size_; }

 private:
  std::string path_;
  Descriptor fd_;
  uint64_t size_;
};

class PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(int fd) : fd_(fd) {}

 private:
  Descriptor fd_;  // closing it gives the lock back
};

/// Read the process id that the holder of a lock left in it; empty when it cannot be told.
std::string HolderOf(int fd) {
  char text[24] = {};
  const ssize_t got = Uninterrupted([&] { return ::pread(fd, text, sizeof(text) - 1, 0); });
  std::string holder(text, got > 0 ? static_cast<size_t>(got) : 0);
  while (!holder.empty() && (holder.back() < '0' || holder.back() > '9')) holder.pop_back();
  return holder;
}

FileInfo InfoOf(const struct stat& from) {
  FileInfo info;
  info.is_directory = S_ISDIR(from.st_mode);
  info.size = static_cast<uint64_t>(from.st_size);
  info.modified_unix_ns = from.st_mtim.tv_sec * int64_t{1'000'000'000} + from.st_mtim.tv_nsec;
  return info;
}

/// Inode and time of birth: the number of an inode is given again, but hardly within the clock tick
/// in which its last owner was born.
std::string IdentityOf(const std::string& path) {
  struct statx found;
  constexpr unsigned kWanted = STATX_INO | STATX_BTIME;
  if (::statx(AT_FDCWD, path.c_str(), 0, kWanted, &found) != 0) return {};
  if ((found.stx_mask & kWanted) != kWanted) return {};
  return std::to_string(found.stx_ino) + "-" + std::to_string(found.stx_btime.tv_sec) + "." +
         std::to_string(found.stx_btime.tv_nsec);
}

/// The process's umask as it was at the first call. Read from /proc: the system call can only ask
/// by setting it, which other threads would see.
mode_t ProcessUmask() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    unsigned mask = 0;
    if (word == "Umask:" && status >> std::oct >> mask) return static_cast<mode_t>(mask);
  }
  return 022;
}

class PosixFiles final : public FileSystem {
 public:
  Result<std::unique_ptr<WritableFile>> CreateFile(const std::string& path) override {
    const int fd = OpenDescriptor(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0) return PosixError("create", path, errno);
    return std::unique_ptr<WritableFile>(new PosixWritableFile(path, fd, 0));
  }

  Result<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path,
                                                      uint64_t offset) override {
    Descriptor fd(OpenDescriptor(path, O_WRONLY));
    if (fd.get() < 0) return PosixError("open", path, errno);
    struct stat found;
    if (::fstat(fd.get(), &found) != 0) return PosixError("stat", path, errno);
    if (static_cast<uint64_t>(found.st_size) < offset) {
      return Status::Corruption("open " + path + " to append at " + std::to_string(offset) +
                                ": the file has only " + std::to_string(found.st_size) + " bytes");
    }
    if (static_cast<uint64_t>(found.st_size) > offset &&
        Uninterrupted([&] { return ::ftruncate(fd.get(), static_cast<off_t>(offset)); }) != 0) {
      return PosixError("truncate", path, errno);
    }
    if (::lseek(fd.get(), static_cast<off_t>(offset), SEEK_SET) < 0) {
      return PosixError("seek", path, errno);
    }
    return std::unique_ptr<WritableFile>(new PosixWritableFile(path, fd.Release(), offset));
  }

  Result<std::unique_ptr<RandomAccessFile>> OpenForRead(const std::string& path) override {
    Descriptor fd(OpenDescriptor(path, O_RDONLY));
    if (fd.get() < 0) return PosixError("open", path, errno);
    struct stat found;
    if (::fstat(fd.get(), &found) != 0) return PosixError("stat", path, errno);
    if (S_ISDIR(found.st_mode)) return PosixError("open", path, EISDIR);
    return std::unique_ptr<RandomAccessFile>(
        new PosixRandomAccessFile(path, fd.Release(), static_cast<uint64_t>(found.st_size)));
  }

  Status Link(const std::string& source, const std::string& target) override {
    if (::link(source.c_str(), target.c_str()) != 0) return PosixError("link", target, errno);
    return {};
  }

  Status Rename(const std::string& source, const std::string& target) override {
    if (::rename(source.c_str(), target.c_str()) != 0) return PosixError("rename", target, errno);
    return {};
  }

  Status RemoveFile(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) return PosixError("unlink", path, errno);
    return {};
  }

  Status RemoveDirectory(const std::string& path) override {
    if (::rmdir(path.c_str()) != 0) return PosixError("rmdir", path, errno);
    return {};
  }

  Status CreateDirectory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0700) != 0) return PosixError("mkdir", path, errno);
    return {};
  }

  Status SyncDirectory(const std::string& path) override {
    Descriptor fd(OpenDescriptor(path, O_RDONLY | O_DIRECTORY));
    if (fd.get() < 0) return PosixError("open directory", path, errno);
    if (::fsync(fd.get()) != 0) return PosixError("fsync directory", path, errno);
    return {};
  }

  Status UseDefaultMode(const std::string& path) override {
    static const mode_t mask = ProcessUmask();
    struct stat found;
    if (::stat(path.c_str(), &found) != 0) return PosixError("stat", path, errno);
    const mode_t full = S_ISDIR(found.st_mode) ? 0777 : 0666;
    if (::chmod(path.c_str(), full & ~mask) != 0) return PosixError("chmod", path, errno);
    return {};
  }

  Result<std::vector<DirectoryEntry>> ListDirectory(const std::string& path) override {
    std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), &::closedir);
    if (!directory) return PosixError("list", path, errno);
    std::vector<DirectoryEntry> entries;
    while (true) {
      errno = 0;
      const dirent* found = ::readdir(directory.get());
      if (found == nullptr) {
        if (errno != 0) return PosixError("list", path, errno);
        break;
      }
      DirectoryEntry entry;
      entry.name = found->d_name;
      if (entry.name == "." || entry.name == "..") continue;
      Result<FileInfo> info = Stat(JoinPath(path, entry.name));
      if (!info.ok()) {
        if (info.status().code() == StatusCode::kNotFound) continue;  // removed meanwhile
        return std::move(info).status();
      }
      entry.is_directory = info->is_directory;
      entry.size = info->size;
      entries.push_back(std::move(entry));
    }
    std::sort(entries.begin(), entries.end(),
              [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
    return entries;
  }

  Result<FileInfo> Stat(const std::string& path) override {
    struct stat found;
    if (::stat(path.c_str(), &found) != 0) return PosixError("stat", path, errno);
    FileInfo info = InfoOf(found);
    info.identity = IdentityOf(path);
    return info;
  }

  std::string CanonicalPath(const std::string& path) override {
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::absolute(path, error);
    if (error) return FileSystem::CanonicalPath(path);
    const std::filesystem::path canonical = std::filesystem::weakly_canonical(absolute, error);
    // A part that cannot be looked at is taken by its name.
    return FileSystem::CanonicalPath(error ? absolute.string() : canonical.string());
  }

  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    Descriptor fd(OpenDescriptor(path, O_RDWR | O_CREAT, 0600));
    if (fd.get() < 0) return PosixError("open", path, errno);
    if (Uninterrupted([&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB); }) != 0) {
      if (errno != EWOULDBLOCK) return PosixError("lock", path, errno);
      const std::string holder = HolderOf(fd.get());
      return Status::Fenced("lock " + path + ": " +
                            (holder.empty() ? "another process" : "process " + holder) +
                            " holds it; stop that process or choose another place");
    }
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (::ftruncate(fd.get(), 0) != 0 ||
        ::pwrite(fd.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
      return PosixError("write", path, errno);
    }
    return std::unique_ptr<FileLock>(new PosixFileLock(fd.Release()));
  }

  Result<std::unique_ptr<FileLock>> TakeTurn(const std::string& path) override {
    Descriptor fd(OpenDescriptor(path, O_RDONLY | O_DIRECTORY));
    if (fd.get() < 0) return PosixError("open", path, errno);
    if (Uninterrupted([&] { return ::flock(fd.get(), LOCK_EX); }) != 0) {
      return PosixError("lock", path, errno);
    }
    return std::unique_ptr<FileLock>(new PosixFileLock(fd.Release()));
  }
};

}  // namespace

FileSystem* PosixFileSystem() {
  static PosixFiles* files = new PosixFiles();
  return files;
}

}  // namespace cairn::env

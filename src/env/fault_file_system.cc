// SPDX-License-Identifier: Apache-2.0
#include "env/fault_file_system.h"

#include <algorithm>

namespace cairn::env {

struct FaultFileSystem::Plan {
  mutable std::mutex mutex;
  FaultPlan plan;
  uint64_t calls = 0;
  bool fired = false;
  std::vector<std::string> trace;

  /// Count one call and say what happens to it.
  FaultKind Next(std::string_view call, const std::string& path) {
    std::lock_guard<std::mutex> lock(mutex);
    const size_t slash = path.rfind('/');
    trace.push_back(std::string(call) + " " +
                    (slash == std::string::npos ? path : path.substr(slash + 1)));
    const uint64_t at = calls++;
    if (plan.kind == FaultKind::kNone || at < plan.call) return FaultKind::kNone;
    if (at > plan.call && !plan.for_ever) return FaultKind::kNone;
    fired = true;
    return plan.kind;
  }

  static Status Injected(FaultKind kind, std::string_view call, const std::string& path) {
    std::string message = std::string(call) + " " + path + ": injected fault";
    return kind == FaultKind::kNoSpace ? Status::ResourceExhausted(std::move(message))
                                       : Status::Unavailable(std::move(message));
  }

  void RunCallback() {
    std::function<void()> after;
    {
      std::lock_guard<std::mutex> lock(mutex);
      after = plan.after;
    }
    if (after) after();
  }

  /// Make one call under the plan.
  template <class Call>
  auto Run(std::string_view call, const std::string& path, Call make) -> decltype(make()) {
    const FaultKind kind = Next(call, path);
    switch (kind) {
      case FaultKind::kNone:
        return make();
      case FaultKind::kCallback: {
        auto result = make();
        RunCallback();
        return result;
      }
      case FaultKind::kFailAfter: {
        auto result = make();
        if (!IsOk(result)) return result;
        return Injected(kind, call, path);
      }
      default:
        return Injected(kind, call, path);
    }
  }

  static bool IsOk(const Status& status) { return status.ok(); }
  template <class T>
  static bool IsOk(const Result<T>& result) {
    return result.ok();
  }
};

class FaultFileSystem::Writable final : public WritableFile {
 public:
  Writable(std::shared_ptr<Plan> plan, std::unique_ptr<WritableFile> file, std::string path)
      : plan_(std::move(plan)), file_(std::move(file)), path_(std::move(path)) {}

  Status Append(std::string_view bytes) override {
    const FaultKind kind = plan_->Next("append", path_);
    if (kind == FaultKind::kNone) return file_->Append(bytes);
    if (kind == FaultKind::kCallback) {
      Status status = file_->Append(bytes);
      plan_->RunCallback();
      return status;
    }
    if (kind == FaultKind::kShortWrite) {
      CAIRN_RETURN_IF_ERROR(file_->Append(bytes.substr(0, bytes.size() / 2)));
    } else if (kind == FaultKind::kFailAfter) {
      CAIRN_RETURN_IF_ERROR(file_->Append(bytes));
    }
    return Plan::Injected(kind, "append", path_);
  }
  Status Sync() override {
    return plan_->Run("fsync", path_, [&] { return file_->Sync(); });
  }
  Status Close() override {
    return plan_->Run("close", path_, [&] { return file_->Close(); });
  }

 private:
  std::shared_ptr<Plan> plan_;
  std::unique_ptr<WritableFile> file_;
  std::string path_;
};

class FaultFileSystem::Readable final : public RandomAccessFile {
 public:
  Readable(std::shared_ptr<Plan> plan, std::unique_ptr<RandomAccessFile> file, std::string path)
      : plan_(std::move(plan)), file_(std::move(file)), path_(std::move(path)) {}

  Status ReadExactly(uint64_t offset, std::span<char> out) const override {
    return plan_->Run("read", path_, [&] { return file_->ReadExactly(offset, out); });
  }
  uint64_t size() const override { return file_->size(); }

 private:
  std::shared_ptr<Plan> plan_;
  std::unique_ptr<RandomAccessFile> file_;
  std::string path_;
};

FaultFileSystem::FaultFileSystem(FileSystem* files)
    : files_(files), plan_(std::make_shared<Plan>()) {}
FaultFileSystem::~FaultFileSystem() = default;

void FaultFileSystem::Arm(FaultPlan plan) {
  std::lock_guard<std::mutex> lock(plan_->mutex);
  plan_->plan = std::move(plan);
  plan_->calls = 0;
  plan_->fired = false;
  plan_->trace.clear();
}

uint64_t FaultFileSystem::calls() const {
  std::lock_guard<std::mutex> lock(plan_->mutex);
  return plan_->calls;
}

bool FaultFileSystem::fired() const {
  std::lock_guard<std::mutex> lock(plan_->mutex);
  return plan_->fired;
}

std::vector<std::string> FaultFileSystem::trace() const {
  std::lock_guard<std::mutex> lock(plan_->mutex);
  return plan_->trace;
}

uint64_t FaultFileSystem::Count(std::string_view prefix) const {
  const std::vector<std::string> all = trace();
  return static_cast<uint64_t>(std::count_if(
      all.begin(), all.end(), [&](const std::string& call) { return call.starts_with(prefix); }));
}

Result<std::unique_ptr<WritableFile>> FaultFileSystem::CreateFile(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                         plan_->Run("create", path, [&] { return files_->CreateFile(path); }));
  return std::unique_ptr<WritableFile>(new Writable(plan_, std::move(file), path));
}

Result<std::unique_ptr<WritableFile>> FaultFileSystem::OpenForAppend(const std::string& path,
                                                                     uint64_t offset) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, plan_->Run("open-append", path, [&] {
    return files_->OpenForAppend(path, offset);
  }));
  return std::unique_ptr<WritableFile>(new Writable(plan_, std::move(file), path));
}

Result<std::unique_ptr<RandomAccessFile>> FaultFileSystem::OpenForRead(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file,
                         plan_->Run("open", path, [&] { return files_->OpenForRead(path); }));
  return std::unique_ptr<RandomAccessFile>(new Readable(plan_, std::move(file), path));
}

Status FaultFileSystem::Link(const std::string& source, const std::string& target) {
  return plan_->Run("link", target, [&] { return files_->Link(source, target); });
}
Status FaultFileSystem::Rename(const std::string& source, const std::string& target) {
  return plan_->Run("rename", target, [&] { return files_->Rename(source, target); });
}
Status FaultFileSystem::RemoveFile(const std::string& path) {
  return plan_->Run("unlink", path, [&] { return files_->RemoveFile(path); });
}
Status FaultFileSystem::RemoveDirectory(const std::string& path) {
  return plan_->Run("rmdir", path, [&] { return files_->RemoveDirectory(path); });
}
Status FaultFileSystem::CreateDirectory(const std::string& path) {
  return plan_->Run("mkdir", path, [&] { return files_->CreateDirectory(path); });
}
Status FaultFileSystem::SyncDirectory(const std::string& path) {
  return plan_->Run("fsync-directory", path, [&] { return files_->SyncDirectory(path); });
}
Result<std::vector<DirectoryEntry>> FaultFileSystem::ListDirectory(const std::string& path) {
  return plan_->Run("list", path, [&] { return files_->ListDirectory(path); });
}
Status FaultFileSystem::UseDefaultMode(const std::string& path) {
  return plan_->Run("chmod", path, [&] { return files_->UseDefaultMode(path); });
}
Result<FileInfo> FaultFileSystem::Stat(const std::string& path) {
  return plan_->Run("stat", path, [&] { return files_->Stat(path); });
}
Result<std::unique_ptr<FileLock>> FaultFileSystem::Lock(const std::string& path) {
  return plan_->Run("lock", path, [&] { return files_->Lock(path); });
}

}  // namespace cairn::env

// SPDX-License-Identifier: Apache-2.0
//
// StagedFile: a result that appears under its name whole or not at all.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cairn/status.h"
#include "env/file_system.h"
#include "format/object.h"

namespace cairn::cli {

class StagedFile final : public format::ByteSink {
 public:
  /// Begin a file beside `path`, under a name with a leading '.' and ".tmp".
  ///
  /// Errors:   kInvalidArgument (the directory does not exist, or `path` is a directory) ·
  ///           kAlreadyExists · those of the file system.
  static Result<std::unique_ptr<StagedFile>> Create(env::FileSystem* files,
                                                    const std::string& path);
  /// Without Commit: removes what was written.
  ~StagedFile() override;

  Status Append(std::string_view bytes) override;
  uint64_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

  /// Give the file its name. Errors: kAlreadyExists when another took it meanwhile.
  ///
  /// Durable:  yes.
  Status Commit();

 private:
  StagedFile(env::FileSystem* files, std::string path, std::string temporary,
             std::unique_ptr<env::WritableFile> file)
      : files_(files),
        path_(std::move(path)),
        temporary_(std::move(temporary)),
        file_(std::move(file)) {}

  env::FileSystem* files_;
  std::string path_;
  std::string temporary_;
  std::unique_ptr<env::WritableFile> file_;
  uint64_t bytes_ = 0;
  bool committed_ = false;
};

/// The directory of a path: "." for a bare name.
std::string DirectoryOf(const std::string& path);

}  // namespace cairn::cli

// SPDX-License-Identifier: Apache-2.0
#include "stream/step_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace cairn::stream {
namespace {

constexpr size_t kMappedBytes = 1;

}  // namespace

Result<StepFile> StepFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat info;
  void* mapped = MAP_FAILED;
  if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size > 0) {
    mapped = mmap(nullptr, kMappedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (fd >= 0) close(fd);
  if (mapped == MAP_FAILED) {
    return Status::InvalidArgument("CAIRN_STEP_FILE: cannot map " + path +
                                   ", which must be an existing file of one byte or more");
  }
  StepFile file;
  file.byte_ = static_cast<unsigned char*>(mapped);
  return file;
}

Result<StepFile> StepFile::FromEnvironment() {
  const char* path = std::getenv("CAIRN_STEP_FILE");
  if (path == nullptr || *path == '\0') return StepFile();
  return Open(path);
}

StepFile::StepFile(StepFile&& other) noexcept : byte_(std::exchange(other.byte_, nullptr)) {}

StepFile& StepFile::operator=(StepFile&& other) noexcept {
  std::swap(byte_, other.byte_);
  return *this;
}

StepFile::~StepFile() {
  if (byte_ != nullptr) munmap(byte_, kMappedBytes);
}

}  // namespace cairn::stream

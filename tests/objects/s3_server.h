// SPDX-License-Identifier: Apache-2.0
//
// A real S3 server on loopback: versitygw over a temporary directory, started by the test that
// needs it and stopped by its process id.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "cairn/status.h"

namespace cairn::testing {

class S3Server {
 public:
  static constexpr const char* kAccessKey = "tester";
  static constexpr const char* kSecretKey = "not-a-secret";
  static constexpr const char* kBucket = "bucket";

  /// True when $CAIRN_S3_SERVER is "none": this machine cannot have a server.
  static bool Unavailable() {
    const char* named = std::getenv("CAIRN_S3_SERVER");
    return named != nullptr && std::string_view(named) == "none";
  }

  /// Start a server that has one empty bucket. The program is $CAIRN_S3_SERVER, else
  /// .cache/bin/versitygw below the working directory.
  static Result<std::unique_ptr<S3Server>> Start() {
    const char* named = std::getenv("CAIRN_S3_SERVER");
    const std::string program = named != nullptr ? named : ".cache/bin/versitygw";
    if (access(program.c_str(), X_OK) != 0) {
      return Status::NotFound("no S3 server at " + program +
                              "; ./dev test fetches it, or set CAIRN_S3_SERVER");
    }
    std::unique_ptr<S3Server> server(new S3Server());
    char directory[] = "/tmp/cairn-s3-XXXXXX";
    if (mkdtemp(directory) == nullptr) return Status::Unavailable("mkdtemp failed");
    server->directory_ = directory;
    std::filesystem::create_directory(server->directory_ + "/" + kBucket);
    server->port_ = FreePort();
    server->Spawn(program);
    for (int i = 0; i < 1000; ++i) {
      if (Connects(server->port_)) return server;
      if (waitpid(server->process_, nullptr, WNOHANG) != 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return Status::Unavailable("the S3 server did not start; see " + server->directory_ + "/log");
  }

  ~S3Server() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  }

  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
  const std::string& directory() const { return directory_; }

 private:
  S3Server() = default;

  static sockaddr_in Loopback(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  static int FreePort() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = Loopback(0);
    socklen_t length = sizeof(address);
    (void)bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    (void)getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
    close(fd);
    return ntohs(address.sin_port);
  }

  static bool Connects(int port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = Loopback(port);
    const bool connected =
        connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    close(fd);
    return connected;
  }

  void Spawn(const std::string& program) {
    const std::string listen = "127.0.0.1:" + std::to_string(port_);
    const std::string log = directory_ + "/log";
    process_ = fork();
    if (process_ != 0) return;
    const int out = open(log.c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execl(program.c_str(), "versitygw", "--quiet", "--keep-alive", "--access", kAccessKey,
          "--secret", kSecretKey, "--port", listen.c_str(), "posix", directory_.c_str(), nullptr);
    _exit(127);
  }

  std::string directory_;
  int port_ = 0;
  pid_t process_ = -1;
};

}  // namespace cairn::testing

// SPDX-License-Identifier: Apache-2.0
//
// An HTTP server on loopback that answers what a test says, one request a connection.
//
// Threads: requests are answered one after another on a thread of its own; what was asked is read
// after Stop.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::testing {

class LoopbackServer {
 public:
  struct Request {
    std::string line;                            ///< "GET /path"
    std::map<std::string, std::string> headers;  ///< names in lower case
  };
  struct Answer {
    int status = 200;
    std::string body;
    bool dropped = false;  ///< the connection is cut instead
  };

  explicit LoopbackServer(std::function<Answer(const Request&)> answer)
      : answer_(std::move(answer)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~LoopbackServer() { Stop(); }

  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }

  /// End it; return what was asked.
  const std::vector<Request>& Stop() {
    if (thread_.joinable()) {
      shutdown(listener_, SHUT_RDWR);  // accept returns
      thread_.join();
      close(listener_);
    }
    return asked_;
  }

 private:
  void Serve() {
    for (;;) {
      const int connection = accept(listener_, nullptr, nullptr);
      if (connection < 0) return;
      Request request;
      if (Read(connection, &request)) {
        asked_.push_back(request);
        const Answer answer = answer_(request);
        const std::string text =
            "HTTP/1.1 " + std::to_string(answer.status) +
            " x\r\nConnection: close\r\nContent-Length: " + std::to_string(answer.body.size()) +
            "\r\n\r\n" + answer.body;
        if (!answer.dropped) (void)!write(connection, text.data(), text.size());
      }
      close(connection);
    }
  }

  static bool Read(int connection, Request* request) {
    std::string text;
    char part[1024];
    while (text.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = read(connection, part, sizeof(part));
      if (got <= 0) return false;
      text.append(part, static_cast<size_t>(got));
    }
    size_t at = text.find("\r\n");
    request->line = text.substr(0, text.rfind(' ', at));
    for (at += 2; text.compare(at, 2, "\r\n") != 0;) {
      const size_t end = text.find("\r\n", at);
      const size_t colon = text.find(':', at);
      std::string name = text.substr(at, colon - at);
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      request->headers[name] = text.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
    return true;
  }

  std::function<Answer(const Request&)> answer_;
  int listener_ = -1;
  int port_ = 0;
  std::vector<Request> asked_;
  std::thread thread_;
};

}  // namespace cairn::testing

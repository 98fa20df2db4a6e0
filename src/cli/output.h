// SPDX-License-Identifier: Apache-2.0
//
// Output: lines of results to standard output, and the outcome of writing them. A full disk behind
// a redirection must not look like a short result.
//
// Threads: one.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/status.h"

namespace cairn::cli {

class Output {
 public:
  explicit Output(std::FILE* file) : file_(file) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void Write(std::string_view text) {
    failed_ = std::fwrite(text.data(), 1, text.size(), file_) != text.size() || failed_;
  }
  void Line(std::string_view text) {
    Write(text);
    Write("\n");
  }

  /// Hand everything to the system.
  ///
  /// Errors:   kResourceExhausted when a write failed.
  Status Finish() {
    failed_ = std::fflush(file_) != 0 || failed_;
    if (!failed_) return {};
    return Status::ResourceExhausted(
        "writing to standard output failed: the result is cut off. Free disk space and run again");
  }

 private:
  std::FILE* file_;
  bool failed_ = false;
};

/// Pad columns of text so that they line up: the listings of the tools.
class TextTable {
 public:
  /// `alignment` has one character a column: '<' text, '>' number.
  explicit TextTable(std::string alignment) : alignment_(std::move(alignment)) {}
  void Row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void Print(Output* output) const;

 private:
  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace cairn::cli

// SPDX-License-Identifier: Apache-2.0
//
// Several processes that do one thing at the same moment, and what each says of it.
//
// Threads: one; there must be no other in the process that forks.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace cairn::checkpoint::testing {

/// Blocks a process until all of them have come here.
class StartingLine {
 public:
  StartingLine(int ready, int go) : ready_(ready), go_(go) {}
  void Wait() const {
    char byte = 'r';
    (void)!write(ready_, &byte, 1);
    (void)!read(go_, &byte, 1);  // the end of the pipe, once the parent has closed it
  }

 private:
  int ready_;
  int go_;
};

/// Run `work` in `count` forked processes; each calls Wait once, when it is ready. Return their
/// texts, by number.
inline std::vector<std::string> RunProcesses(
    int count, const std::function<std::string(int, const StartingLine&)>& work) {
  std::array<int, 2> ready{};
  std::array<int, 2> go{};
  EXPECT_EQ(pipe(ready.data()) | pipe(go.data()), 0);
  std::vector<pid_t> processes;
  std::vector<int> answers;
  for (int i = 0; i < count; ++i) {
    std::array<int, 2> answer{};
    EXPECT_EQ(pipe(answer.data()), 0);
    const pid_t process = fork();
    if (process == 0) {
      close(go[1]);
      close(ready[0]);
      const std::string text = work(i, StartingLine(ready[1], go[0]));
      (void)!write(answer[1], text.data(), text.size());
      _exit(0);
    }
    close(answer[1]);
    processes.push_back(process);
    answers.push_back(answer[0]);
  }
  close(ready[1]);
  for (int i = 0; i < count; ++i) {
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1) << "a process has ended before it was ready";
  }
  close(go[1]);
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) {
    std::string text;
    char part[512];
    for (ssize_t got; (got = read(answers[i], part, sizeof(part))) > 0;) {
      text.append(part, static_cast<size_t>(got));
    }
    close(answers[i]);
    int status = 0;
    waitpid(processes[i], &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "process " << i << ": " << status;
    texts.push_back(std::move(text));
  }
  close(ready[0]);
  close(go[0]);
  return texts;
}

}  // namespace cairn::checkpoint::testing

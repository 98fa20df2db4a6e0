// SPDX-License-Identifier: Apache-2.0
#include "env/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "env/clock.h"

namespace cairn::env {
namespace {

TEST(Process, ThisOneIsNotGone) {
  const ProcessIdentity self = ThisProcess();
  EXPECT_FALSE(self.machine.empty());
  EXPECT_NE(self.started, 0u);
  EXPECT_FALSE(IsGone(self));
}

TEST(Process, OneThatHasEndedIsGone) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ProcessIdentity ended = ThisProcess();
  ended.id = static_cast<uint64_t>(child);
  EXPECT_TRUE(IsGone(ended));
}

TEST(Process, AnotherProcessThatWasGivenTheIdIsNotTakenForIt) {
  ProcessIdentity earlier = ThisProcess();
  earlier.started -= 1;
  EXPECT_TRUE(IsGone(earlier));
}

TEST(Process, OfAnotherMachineNothingIsKnown) {
  ProcessIdentity other = ThisProcess();
  other.machine += "0";
  other.id = 4'000'000;
  EXPECT_FALSE(IsGone(other));
  other.machine.clear();
  EXPECT_FALSE(IsGone(other));
}

TEST(Process, AForkedOneDrawsOtherBits) {
  (void)SystemRandom()->Next();  // its state is there, to be copied
  int answer[2];
  ASSERT_EQ(pipe(answer), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string token = RandomToken(SystemRandom());
    _exit(write(answer[1], token.data(), token.size()) == static_cast<ssize_t>(token.size()) ? 0
                                                                                             : 1);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const std::string ours = RandomToken(SystemRandom());
  std::string theirs(ours.size(), '\0');
  ASSERT_EQ(read(answer[0], theirs.data(), theirs.size()), static_cast<ssize_t>(theirs.size()));
  EXPECT_NE(theirs, ours);
  close(answer[0]);
  close(answer[1]);
}

}  // namespace
}  // namespace cairn::env

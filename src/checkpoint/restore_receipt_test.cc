// SPDX-License-Identifier: Apache-2.0
//
// The receipt of a restore: what each operator got is what its frames hold.
#include "checkpoint/restore_receipt.h"

#include <gtest/gtest.h>

#include "checkpoint/job_testing.h"

namespace cairn::checkpoint {
namespace {

using testing::SlotOf;
using testing::TestJob;

TEST(RestoreReceiptTest, EachOperatorsEntriesAreCountedOnceWhateverTheParallelism) {
  TestJob job({SlotOf("a"), SlotOf("b"), SlotOf("empty")});
  ASSERT_TRUE(job.Start(2).ok());
  for (int i = 0; i < 1000; ++i) job.Put(0, "key" + std::to_string(i), "v");
  for (int i = 0; i < 10; ++i) job.Put(1, "key" + std::to_string(i), "v");
  ASSERT_TRUE(job.Checkpoint().ok());
  job.Put(0, "key1", "changed");  // a delta: one entry more
  ASSERT_TRUE(job.Checkpoint().ok());
  for (uint32_t p : {1, 2, 5}) {
    ASSERT_TRUE(job.Start(p).ok());
    const RestoreReceipt receipt = SumReceipts(*job.cut, job.receipts);
    EXPECT_EQ(receipt.checkpoint, job.cut->id());
    EXPECT_EQ(receipt.total.expected, 1011u) << p;
    EXPECT_EQ(receipt.total.loaded, 1011u) << p;
    ASSERT_EQ(receipt.operators.size(), 3u);
    uint64_t frames = 0;
    uint64_t bytes = 0;
    for (const OperatorReceipt& one : receipt.operators) {
      const uint64_t expected = one.uid == "a" ? 1001 : one.uid == "b" ? 10 : 0;
      EXPECT_EQ(one.expected, expected) << one.uid;
      EXPECT_EQ(one.loaded, expected) << one.uid;
      frames += one.frames;
      bytes += one.bytes;
    }
    EXPECT_EQ(receipt.total.frames, frames);
    EXPECT_EQ(receipt.total.bytes, bytes);
    EXPECT_GT(bytes, 0u);
  }
}

TEST(RestoreReceiptTest, OperatorStateIsOneStateThoughEverySubtaskLoadsIt) {
  TestJob job({SlotOf("offsets", state::SlotKind::kOperatorValue)});
  ASSERT_TRUE(job.Start(1).ok());
  for (int i = 0; i < 7; ++i) job.Put(0, "key" + std::to_string(i), "v");
  ASSERT_TRUE(job.Checkpoint().ok());
  ASSERT_TRUE(job.Start(4).ok());
  const RestoreReceipt receipt = SumReceipts(*job.cut, job.receipts);
  EXPECT_EQ(receipt.total.expected, 7u);
  EXPECT_EQ(receipt.total.loaded, 7u);
}

TEST(RestoreReceiptTest, TheTextSaysItInALine) {
  RestoreReceipt receipt;
  receipt.duration_ms = 50;
  receipt.operators.resize(2);
  receipt.operators[0].frames = 142;
  receipt.total = {{}, "", 142, 2 << 20, 26335, 26335, 0};
  EXPECT_EQ(ReceiptText(receipt),
            "26,335 of 26,335 entries, 142 frames of 1 operator, 2.0 MiB in 0.05 s");
  receipt.total.left_out = 3;
  EXPECT_EQ(ReceiptText(receipt),
            "26,335 of 26,335 entries, 142 frames of 1 operator, 2.0 MiB in 0.05 s; 3 given up");
}

}  // namespace
}  // namespace cairn::checkpoint

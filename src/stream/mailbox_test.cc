// SPDX-License-Identifier: Apache-2.0
#include "stream/mailbox.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/type.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace cairn::stream {
namespace {

Batch BatchOfRows(int64_t count) {
  arrow::Int64Builder builder;
  for (int64_t i = 0; i < count; ++i) EXPECT_TRUE(builder.Append(i).ok());
  auto schema = arrow::schema({arrow::field("x", arrow::int64())});
  return {arrow::RecordBatch::Make(schema, count, {builder.Finish().ValueOrDie()})};
}

Message BatchOf(int64_t rows) { return {BatchOfRows(rows), static_cast<uint64_t>(rows) * 8}; }

size_t ChannelOfNext(Mailbox* mailbox) {
  auto next = mailbox->Next();
  EXPECT_TRUE(next.ok());
  return std::get<Delivery>(*next).channel;
}

TEST(Mailbox, ControlWordsComeBeforeMessages) {
  Mailbox mailbox(1, {});
  ASSERT_TRUE(mailbox.Push(0, BatchOf(1)).ok());
  mailbox.Post({Control::Kind::kStart});
  auto first = mailbox.Next();
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(std::holds_alternative<Control>(*first));
  EXPECT_EQ(ChannelOfNext(&mailbox), 0u);
}

TEST(Mailbox, DeliversChannelsInTurn) {
  Mailbox mailbox(2, {});
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(mailbox.Push(0, BatchOf(1)).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(mailbox.Push(1, BatchOf(1)).ok());
  EXPECT_EQ(ChannelOfNext(&mailbox), 0u);
  EXPECT_EQ(ChannelOfNext(&mailbox), 1u);
  EXPECT_EQ(ChannelOfNext(&mailbox), 0u);
}

TEST(Mailbox, AWatermarkTakesThePlaceOfOneRightBeforeItAndNoOther) {
  Mailbox mailbox(1, {});
  for (const int64_t time_ms : {1, 2}) ASSERT_TRUE(mailbox.Push(0, {Watermark{time_ms}}).ok());
  ASSERT_TRUE(mailbox.Push(0, BatchOf(1)).ok());
  ASSERT_TRUE(mailbox.Push(0, {Watermark{3}}).ok());
  const auto content = [&] { return std::get<Delivery>(*mailbox.Next()).message.content; };
  EXPECT_EQ(std::get<Watermark>(content()).time_ms, 2);
  EXPECT_TRUE(std::holds_alternative<Batch>(content()));
  EXPECT_EQ(std::get<Watermark>(content()).time_ms, 3);
}

TEST(Mailbox, AWaitThatEndsGivesNothing) {
  Mailbox mailbox(1, {});
  auto nothing = mailbox.NextFor(0);
  ASSERT_TRUE(nothing.ok());
  EXPECT_FALSE(nothing->has_value());
  ASSERT_TRUE(mailbox.Push(0, BatchOf(1)).ok());
  auto delivery = mailbox.NextFor(0);
  ASSERT_TRUE(delivery.ok());
  EXPECT_TRUE(delivery->has_value());
  mailbox.Cancel();
  EXPECT_EQ(mailbox.NextFor(1000).status().code(), StatusCode::kCancelled);
}

TEST(Mailbox, KeepsTheMessagesOfABlockedChannel) {
  Mailbox mailbox(2, {});
  ASSERT_TRUE(mailbox.Push(0, BatchOf(1)).ok());
  ASSERT_TRUE(mailbox.Push(1, BatchOf(1)).ok());
  mailbox.Block(0);
  EXPECT_EQ(ChannelOfNext(&mailbox), 1u);
  mailbox.UnblockAll();
  EXPECT_EQ(ChannelOfNext(&mailbox), 0u);
}

TEST(Mailbox, AFullChannelHoldsItsProducerUntilThereIsRoom) {
  Mailbox mailbox(1, {.rows = 10, .bytes = 1 << 20});
  ASSERT_TRUE(mailbox.Push(0, BatchOf(10)).ok());
  std::atomic<bool> pushed{false};
  std::thread producer([&] {
    EXPECT_TRUE(mailbox.Push(0, BatchOf(1)).ok());
    pushed = true;
  });
  EXPECT_EQ(ChannelOfNext(&mailbox), 0u);  // makes room
  EXPECT_EQ(ChannelOfNext(&mailbox), 0u);  // waits for the producer
  producer.join();
  EXPECT_TRUE(pushed);
}

TEST(Mailbox, AFullBlockedChannelLeavesRoomForTheOthers) {
  Mailbox mailbox(2, {.rows = 10, .bytes = 1 << 20});
  ASSERT_TRUE(mailbox.Push(0, BatchOf(10)).ok());
  mailbox.Block(0);
  ASSERT_TRUE(mailbox.Push(1, BatchOf(10)).ok());
  ASSERT_TRUE(mailbox.Push(1, {Barrier{base::CheckpointId(1)}}).ok());
  EXPECT_EQ(ChannelOfNext(&mailbox), 1u);
  EXPECT_EQ(ChannelOfNext(&mailbox), 1u);
}

TEST(Mailbox, ABatchLargerThanTheBoundPassesAlone) {
  Mailbox mailbox(1, {.rows = 10, .bytes = 1 << 20});
  ASSERT_TRUE(mailbox.Push(0, BatchOf(100)).ok());
  EXPECT_EQ(ChannelOfNext(&mailbox), 0u);
  ASSERT_TRUE(mailbox.Push(0, BatchOf(100)).ok());
}

TEST(Mailbox, BarriersPassAFullChannel) {
  Mailbox mailbox(1, {.rows = 10, .bytes = 1 << 20});
  ASSERT_TRUE(mailbox.Push(0, BatchOf(10)).ok());
  ASSERT_TRUE(mailbox.Push(0, {Barrier{base::CheckpointId(1)}}).ok());
  EXPECT_EQ(ChannelOfNext(&mailbox), 0u);
}

TEST(Mailbox, CancelFreesProducerAndOwner) {
  Mailbox full(1, {.rows = 1, .bytes = 1 << 20});
  ASSERT_TRUE(full.Push(0, BatchOf(1)).ok());
  auto producer = std::async(std::launch::async, [&] { return full.Push(0, BatchOf(1)); });
  Mailbox empty(1, {});
  auto owner = std::async(std::launch::async, [&] { return empty.Next().status(); });
  full.Cancel();
  empty.Cancel();
  EXPECT_EQ(producer.get().code(), StatusCode::kCancelled);
  EXPECT_EQ(owner.get().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace cairn::stream

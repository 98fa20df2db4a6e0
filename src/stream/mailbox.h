// SPDX-License-Identifier: Apache-2.0
//
// Mailbox: how batches, barriers and control words reach the thread of a subtask.
//
// One channel an upstream subtask. Each channel is bounded by rows and bytes of its own, so a
// channel that an alignment has blocked can fill up without stopping the others: with one bound for
// all, its producer could hold the room that another channel's barrier needs.
//
// Threads:  Push of one channel by its producer only; Post and Cancel by any; the rest by the
// owner.
//
// Invariants
//  1. Messages of a channel are delivered in the order pushed; control words in the order posted
//  and
//     before any message.
//  2. A message of a blocked channel is not delivered.
//  3. A channel accepts a message when it is empty or below both bounds: a batch larger than a
//  bound
//     passes alone.
//  4. After Cancel nothing blocks: Push returns kCancelled and Next too.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "cairn/status.h"
#include "stream/batch.h"

namespace cairn::stream {

/// Separates what belongs to checkpoint `id` from what does not.
struct Barrier {
  base::CheckpointId id;
  /// The job stops after this checkpoint: sources read nothing behind it.
  bool stop = false;
};

/// No batch follows on the channel. Barriers still may.
struct EndOfInput {};

/// No row with an event time before it is expected on the channel any more.
struct Watermark {
  int64_t time_ms = 0;
};

struct Message {
  std::variant<Batch, Barrier, EndOfInput, Watermark> content;
  uint64_t bytes = 0;  ///< memory that a batch keeps alive
};

/// What the coordinator tells a subtask.
struct Control {
  enum class Kind : uint8_t {
    kTrigger,    ///< to sources: begin checkpoint `barrier`
    kCommitted,  ///< the cut of view epoch `epoch` is committed
    kResume,     ///< checkpoint `barrier` is persisted or given up (synchronous snapshots only)
    kStart,      ///< all subtasks are restored: begin
    kShutdown,   ///< leave
  };
  Kind kind = Kind::kShutdown;
  Barrier barrier;
  uint64_t epoch = 0;
};

struct ChannelLimits {
  uint64_t rows = 128 * 1024;
  uint64_t bytes = uint64_t{32} << 20;
};

/// A message and the channel it came through.
struct Delivery {
  size_t channel = 0;
  Message message;
};

class Mailbox {
 public:
  Mailbox(size_t channels, ChannelLimits limits);

  /// Append to `channel`. A watermark behind another takes its place.
  ///
  /// Blocks:   while the channel is full.
  /// Errors:   kCancelled after Cancel.
  Status Push(size_t channel, Message message);

  /// Append a control word. Never blocks.
  void Post(Control control);

  /// Wait for the next control word, or message of a channel that is not blocked.
  ///
  /// Errors:   kCancelled after Cancel.
  Result<std::variant<Control, Delivery>> Next();
  /// The same for at most `wait_ms`; nothing when none came.
  Result<std::optional<std::variant<Control, Delivery>>> NextFor(int64_t wait_ms);

  /// Wait for the next control word and leave messages where they are.
  Result<Control> NextControl();
  /// The same for at most `wait_ms`; nothing when none came.
  Result<std::optional<Control>> NextControlFor(int64_t wait_ms);

  /// Take a control word if there is one.
  ///
  /// Cost:     one relaxed load when there is none.
  std::optional<Control> PollControl();

  void Block(size_t channel);
  void UnblockAll();

  void Cancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  struct Channel {
    std::deque<Message> messages;
    uint64_t rows = 0;
    uint64_t bytes = 0;
    bool blocked = false;
    bool producer_waits = false;
    std::condition_variable room;
  };

  static uint64_t RowsOf(const Message& message);
  bool HasRoom(const Channel& channel) const;
  std::optional<Delivery> TakeMessage();
  std::optional<std::variant<Control, Delivery>> TakeEvent();
  Control TakeControl();

  const ChannelLimits limits_;
  std::mutex mutex_;
  std::condition_variable arrival_;
  bool owner_waits_ = false;
  std::vector<std::unique_ptr<Channel>> channels_;
  size_t next_channel_ = 0;  ///< where the round robin goes on
  std::deque<Control> control_;
  std::atomic<bool> has_control_{false};
  std::atomic<bool> cancelled_{false};
};

}  // namespace cairn::stream

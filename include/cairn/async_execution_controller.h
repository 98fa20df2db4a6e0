// SPDX-License-Identifier: Apache-2.0
//
// AsyncExecutionController: runs the records of a runner as tasks, many at a time, so that their
// state reads overlap while every key still sees its records one after another.
//
// Threads:  the runner's, which also runs the queue the tasks resume from.
// Invariants
//  1. Of two records with one key the second starts when the first has ended: it sees all it wrote.
//     Records of different keys overlap.
//  2. At most max_in_flight records are admitted and not ended. More are refused, not queued.
//  3. A watermark is released when every record submitted before it has ended, and in the order the
//     watermarks came.
//  4. The first record that fails fails the controller: no later record starts, no watermark is
//     released and no drain succeeds. A record that throws fails in the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cairn/async_io.h"
#include "cairn/async_reads.h"
#include "cairn/async_task.h"
#include "cairn/status.h"

namespace cairn {
inline namespace v0 {

struct AsyncExecutionOptions {
  size_t max_in_flight = 6000;
  /// Where the tasks resume. Outlives the controller.
  ResumeQueue* queue = nullptr;
  /// Flushed when no record can go on; may be null. Outlives the controller.
  AsyncReads* reads = nullptr;
  /// Called for each watermark as it is released; may submit records while there is room. An error
  /// fails the controller.
  std::function<Status(int64_t watermark)> on_watermark;
};

class AsyncExecutionController {
 public:
  /// What a record does; called once, when its turn has come. It and all it captures live until the
  /// record has ended.
  using Record = std::function<AsyncTask<Status>()>;

  explicit AsyncExecutionController(AsyncExecutionOptions options);
  /// Cancels.
  ~AsyncExecutionController();
  AsyncExecutionController(const AsyncExecutionController&) = delete;
  AsyncExecutionController& operator=(const AsyncExecutionController&) = delete;

  /// Admit a record. It runs to its first wait before Submit returns, or waits for its key.
  ///
  /// Errors:   kResourceExhausted at the cap: call WaitForRoom · kCancelled after Cancel · the
  /// error
  ///           that failed the controller, which may be this record's.
  Status Submit(std::string_view key, Record record);

  /// Close the epoch of the records so far: on_watermark(watermark) follows when they have ended,
  /// which may be before this returns.
  Status Watermark(int64_t watermark);

  /// Go on with what is done, then send reads that were held back. Blocks: never.
  Status Poll();

  /// Go on until another record may be submitted.
  Status WaitForRoom();

  /// Go on until every record has ended and every watermark is released: at a barrier, before the
  /// state is captured.
  ///
  /// Errors:   the error that failed the controller · kCancelled when the queue was closed.
  Status Drain();

  /// Destroy all records under way. What they wait for comes back to nobody. Not from a record.
  void Cancel();

  /// Records admitted and not ended.
  size_t in_flight() const { return in_flight_; }
  uint64_t completed() const { return completed_; }
  /// OK until a record failed.
  const Status& status() const { return status_; }

 private:
  struct Epoch {
    size_t open = 0;
    bool closed = false;
    int64_t watermark = 0;
  };
  struct InFlight;
  struct KeyHash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
  };
  using KeyMap = std::unordered_map<std::string, InFlight*, KeyHash, std::equal_to<>>;

  static void OnDone(void* record) noexcept;
  void Begin(InFlight* record);
  void Fail(Status status);
  void FailRecord(std::string_view key, const Status& cause);
  void Settle();
  void EndRecord(InFlight* record);
  void ReleaseWatermarks();
  Status Advance(bool wait);

  const AsyncExecutionOptions options_;
  KeyMap last_of_key_;         // the newest record of each key in flight
  InFlight* all_ = nullptr;    // list of all records in flight
  InFlight* ended_ = nullptr;  // list of those to be settled, newest first
  std::deque<Epoch> epochs_;   // never empty; the last is open
  size_t in_flight_ = 0;
  uint64_t completed_ = 0;
  bool settling_ = false;
  bool cancelled_ = false;
  Status status_;
};

}  // namespace v0
}  // namespace cairn

// SPDX-License-Identifier: Apache-2.0
//
// Directed tests for what random ones cannot see: each was written because a deliberate fault
// survived the model test.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <thread>
#include <vector>

#include "cairn/table.h"

namespace cairn {
namespace {

using Numbers = Table<int64_t, int64_t>;
using Strings = Table<int64_t, std::string>;

SlotDescriptor LitmusSlot() {
  SlotDescriptor descriptor;
  descriptor.operator_uid = "litmus";
  descriptor.name = "slot";
  return descriptor;
}

// The release of a view is all that orders a reader's last read before the writer's next change in
// place. The view is handed over with release and acquire and nothing else connects the threads, so
// that ThreadSanitizer sees a relaxed load or store of the newest view. Any other mutex or atomic
// between the two threads would hide it.
template <class V, class Set>
void ReadBesideChanges(Set set) {
  constexpr int64_t kKeys = 300;
  constexpr int kRounds = 200;
  auto domain = StateDomain::Create({});
  Table<int64_t, V> table(domain.get(), LitmusSlot(), {.key_groups = 4});
  std::atomic<View*> handed{nullptr};
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      View* view = handed.load(std::memory_order_acquire);
      if (view == nullptr) {
        std::this_thread::yield();
        continue;
      }
      for (int64_t key = 0; key < kKeys; ++key) {
        table.Get(*view, key, [&](const V& value) { EXPECT_EQ(value, set(0)); });
      }
      view->Release();
      handed.store(nullptr, std::memory_order_relaxed);
    }
  });
  View view;
  for (int round = 0; round < kRounds; ++round) {
    for (int64_t key = 0; key < kKeys; ++key) {
      ASSERT_TRUE(table.Update(key, [&](V& value, bool) noexcept { value = set(0); }).ok());
    }
    view = domain->Capture();
    handed.store(&view, std::memory_order_release);
    // Some of these changes find the view open and some find it released.
    for (int64_t key = 0; key < kKeys; ++key) {
      ASSERT_TRUE(table.Update(key, [&](V& value, bool) noexcept { value = set(1); }).ok());
    }
    while (handed.load(std::memory_order_relaxed) != nullptr) {
      for (int64_t key = 0; key < kKeys; key += 37) {
        ASSERT_TRUE(table.Update(key, [&](V& value, bool) noexcept { value = set(2); }).ok());
      }
      std::this_thread::yield();
    }
  }
  stop.store(true, std::memory_order_relaxed);
  reader.join();
}

TEST(ViewLitmus, TheLastReadOfAViewComesBeforeTheNextChangeInPlace) {
  ReadBesideChanges<int64_t>([](int x) { return int64_t{x}; });
}

TEST(ViewLitmus, TheLastReadOfABoxComesBeforeItIsFreed) {
  ReadBesideChanges<std::string>([](int x) { return std::string(40, static_cast<char>('a' + x)); });
}

// A segment's highest stamp lets a delta skip it. Phases without any view leave stamps that nothing
// but the delta reads, and bursts of a few keys leave most segments to be skipped.
TEST(DeltaSkip, FindsTinyBurstsMadeWithoutAnyView) {
  constexpr int64_t kKeys = 20000;
  auto domain = StateDomain::Create({});
  Numbers table(domain.get(), LitmusSlot(), {.key_groups = 8, .segment_bytes_max = 1024});
  for (int64_t key = 0; key < kKeys; ++key) {
    ASSERT_TRUE(table.Update(key, [](int64_t& value, bool) { value = 0; }).ok());
  }
  uint64_t since = domain->Capture().epoch();
  domain->SetCommitted(since);
  std::map<int64_t, int64_t> touched;
  for (int phase = 1; phase <= 200; ++phase) {
    touched.clear();
    for (int i = 0; i < phase % 4; ++i) {
      const int64_t key = (phase * 7919 + i * 104729) % kKeys;
      ASSERT_TRUE(table.Update(key, [&](int64_t& value, bool) { value = phase; }).ok());
      touched[key] = phase;
      // A cut that is gone at once: the changes of this burst have different stamps.
      if (phase % 3 == 0) domain->Capture();
    }
    const View view = domain->Capture();
    // Changes after the cut are in segments the delta may skip and in ones it may not.
    const int64_t later = (phase * 31337) % kKeys;
    ASSERT_TRUE(table.Update(later, [&](int64_t& value, bool) { value = -phase; }).ok());
    std::map<int64_t, int64_t> delta;
    table.Delta(view, since, [&](SavedRowKind kind, const int64_t& key, const int64_t* value) {
      ASSERT_EQ(kind, SavedRowKind::kPut);
      delta[key] = *value;
    });
    if (phase > 1) {
      // The change made after the previous cut.
      const int64_t previous = ((phase - 1) * 31337) % kKeys;
      touched.emplace(previous, -(phase - 1));
    }
    ASSERT_EQ(delta, touched) << "phase " << phase;
    since = view.epoch();
    domain->SetCommitted(since);
  }
}

// A reader of an old view walks through pre-images newer than its view. A chunk of the log is
// therefore kept while any view is open that is as old as the newest one its records were made
// under, not only while a view is open that sees them.
TEST(LogLifetime, AReaderPassesThroughRecordsNewerThanItsView) {
  constexpr int64_t kKeys = 64;
  constexpr uint32_t kChunkRows = 8;
  for (int released_first = 0; released_first < 2; ++released_first) {
    auto domain = StateDomain::Create({});
    Numbers table(domain.get(), LitmusSlot(),
                  {.key_groups = 1, .log_chunk_rows = kChunkRows, .log_percent_max = 1000000});
    const auto set_all = [&](int64_t value) {
      for (int64_t key = 0; key < kKeys; ++key) {
        ASSERT_TRUE(table.Update(key, [&](int64_t& to, bool) noexcept { to = value + key; }).ok());
      }
    };
    set_all(1000);
    View old = domain->Capture();
    // Every round makes records of all keys under a view that goes before the old one does.
    std::vector<View> between;
    for (int round = 1; round <= 20; ++round) {
      set_all(1000 + round * 1000);
      View passing = domain->Capture();
      if (round % 3 == 0) between.push_back(passing);
      set_all(1000 + round * 1000 + 500);
      passing.Release();
      if (round % 4 == 0 && !between.empty()) {
        between.erase(released_first == 0 ? between.begin() : between.end() - 1);
      }
      domain->Poll(1000);
      // What was freed is used again, so that a chunk freed too early reads as something else.
      for (int64_t key = kKeys; key < kKeys + 16; ++key) {
        ASSERT_TRUE(table.Update(key, [](int64_t& to, bool) noexcept { to = -1; }).ok());
        ASSERT_TRUE(table.Erase(key));
      }
      for (int64_t key = 0; key < kKeys; ++key) {
        int64_t seen = 0;
        ASSERT_TRUE(table.Get(old, key, [&](const int64_t& value) { seen = value; }));
        ASSERT_EQ(seen, 1000 + key) << "round " << round;
      }
    }
  }
}

// Readers that stand in segments all the time make the writer copy segments instead of waiting.
TEST(SegmentPin, TheWriterNeverWaitsForAReader) {
  constexpr int64_t kKeys = 2000;
  auto domain = StateDomain::Create({});
  Strings table(domain.get(), LitmusSlot(), {.key_groups = 2, .segment_bytes_max = 1024});
  for (int64_t key = 0; key < kKeys; ++key) {
    ASSERT_TRUE(table.Update(key, [&](std::string& to, bool) { to = "first"; }).ok());
  }
  const View view = domain->Capture();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> scans{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&, view] {
      while (!stop.load(std::memory_order_relaxed)) {
        uint64_t rows = 0;
        table.Scan(view, {0, 2}, [&](const int64_t&, const std::string& value) {
          EXPECT_EQ(value, "first");
          ++rows;
        });
        EXPECT_EQ(rows, static_cast<uint64_t>(kKeys));
        scans.fetch_add(1);
      }
    });
  }
  for (int round = 0; scans.load() < 20 || round < 20; ++round) {
    for (int64_t key = 0; key < kKeys; ++key) {
      ASSERT_TRUE(table.Update(key, [&](std::string& to, bool) { to = "later"; }).ok());
      if (key % 5 == 0) {
        ASSERT_TRUE(table.Erase(key));
      }
    }
    if (round % 4 == 0) domain->Capture();
  }
  stop.store(true, std::memory_order_relaxed);
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace cairn

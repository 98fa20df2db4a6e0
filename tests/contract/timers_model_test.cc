// SPDX-License-Identifier: Apache-2.0
//
// Seeded model test of timers: a job of p subtasks registers, deletes and fires timers, takes
// checkpoints that commit or abort, between batches and from callbacks, and goes down and comes up
// with another p. An ordered set a subtask is the model; what callbacks do follows from the timer
// alone, so the model does it too. Views are encoded on another thread while timers fire.
//
// CAIRN_SEED picks the first seed, CAIRN_ROUNDS the number of seeds. Both are printed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <future>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cairn/timers.h"
#include "model_world.h"

namespace cairn::model {
namespace {

constexpr uint32_t kSubtasksMax = 16;

SlotDescriptor TimersDescriptor() {
  SlotDescriptor descriptor;
  descriptor.operator_uid = "model/timers/0";
  descriptor.name = "timers";
  descriptor.key_codec = "key";
  descriptor.value_codec = "int64";
  return descriptor;
}

/// A timer as the model has it, ordered as timers fire.
struct ModelTimer {
  int64_t time = 0;
  uint64_t rank = 0;
  uint64_t number = 0;  ///< of the key
  int64_t ns = 0;
  TimeDomain domain = TimeDomain::kEvent;
  friend auto operator<=>(const ModelTimer&, const ModelTimer&) = default;
};
using ModelTimers = std::set<ModelTimer>;
using ModelDomains = std::array<ModelTimers, kTimeDomains>;

enum class TimerActionKind { kRegister, kDelete };
struct TimerAction {
  TimerActionKind kind;
  ModelTimer timer;
};

template <class K>
class TimersWorld {
 public:
  using Timers = TimerService<K, int64_t>;
  using Timer = typename Timers::Timer;

  explicit TimersWorld(uint64_t seed) : random_(seed), salt_(random_()) {
    const uint32_t groups[] = {1, 7, 128, 1000};
    key_groups_ = groups[random_() % 4];
    slot_hash_seed_ = random_();
    keys_ = 1 + random_() % 60;
    now_[0] = now_[1] = static_cast<int64_t>(random_() % 2000) - 1000;
    Open(1 + static_cast<uint32_t>(random_() % kSubtasksMax));
  }

  void Run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      ++tick_;
      Step();
    }
    FinishPersist(true);
    Restart();
  }
  uint64_t fired() const { return fired_; }
  uint64_t restarts() const { return restarts_; }

 private:
  struct Subtask {
    std::unique_ptr<StateDomain> domain;
    std::unique_ptr<Timers> timers;
    ModelDomains model;
    int64_t now[kTimeDomains] = {INT64_MIN, INT64_MIN};
    std::vector<std::unique_ptr<MemorySink>> cuts;  ///< committed: a base and its deltas
  };
  struct Captured {
    View view;
    ModelDomains model;
    std::unique_ptr<MemorySink> rows;
    bool base = false;
  };

  bool OneIn(uint64_t n) { return random_() % n == 0; }

  void Open(uint32_t parallelism) {
    subtasks_.clear();
    for (uint32_t i = 0; i < parallelism; ++i) {
      Subtask& subtask = subtasks_.emplace_back();
      subtask.domain = StateDomain::Create({.name = "timers"});
      TableOptions options{.key_groups = key_groups_,
                           .range = KeyGroupsOfSubtask(i, parallelism, key_groups_),
                           .slot_hash_seed = slot_hash_seed_};
      options.segment_bytes_max = 1024;
      options.log_chunk_rows = 4;
      if (options.range.size() == 0) continue;  // owns nothing and stays without timers
      subtask.timers = std::make_unique<Timers>(subtask.domain.get(), TimersDescriptor(), options);
    }
  }

  uint32_t OwnerOf(uint64_t number) const {
    return OwnerOfKeyGroup(KeyGroupOf(KeyOf<K>::Encoded(number), key_groups_),
                           static_cast<uint32_t>(subtasks_.size()), key_groups_);
  }

  ModelTimer Make(TimeDomain domain, uint64_t number, int64_t time, int64_t ns) const {
    const std::string ns_bytes(reinterpret_cast<const char*>(&ns), sizeof(ns));
    return {time, Fnv1a64(ns_bytes, Fnv1a64(KeyOf<K>::Encoded(number))), number, ns, domain};
  }
  ModelTimer ModelOf(const Timer& timer) const {
    const K key(timer.key);
    return Make(timer.domain, KeyOf<K>::Number(key), timer.time, timer.ns);
  }
  ModelTimer AnyTimer() {
    const auto domain = static_cast<TimeDomain>(random_() % 2);
    const int64_t around = now_[static_cast<int>(domain)];
    int64_t time = around + static_cast<int64_t>(random_() % 400) - 80;
    if (OneIn(200)) time = OneIn(2) ? std::numeric_limits<int64_t>::min() : INT64_MAX - 1;
    return Make(domain, random_() % keys_, time, static_cast<int64_t>(random_() % 3) - 1);
  }

  // --- steps -----------------------------------------------------------------------------------

  void Step() {
    const uint64_t dice = random_() % 100;
    if (dice < 40) {
      const uint64_t count = random_() % 30;
      for (uint64_t i = 0; i < count; ++i) RegisterOne(AnyTimer());
    } else if (dice < 55) {
      const uint64_t count = random_() % 20;
      for (uint64_t i = 0; i < count; ++i) DeleteOne();
    } else if (dice < 85) {
      AdvanceAll();
    } else if (dice < 97) {
      if (persist_.valid()) FinishPersist(OneIn(4) ? false : true);
      CaptureAll();
    } else if (persist_.valid() || committed_) {
      FinishPersist(OneIn(2));
      if (committed_) Restart();
    }
  }

  void RegisterOne(const ModelTimer& timer) {
    Subtask& subtask = subtasks_[OwnerOf(timer.number)];
    const auto key = KeyOf<K>::Make(timer.number);
    const Status status = subtask.timers->Register(timer.domain, key, timer.time, timer.ns);
    ASSERT_TRUE(status.ok()) << status.ToString();
    subtask.model[static_cast<int>(timer.domain)].insert(timer);
  }

  void DeleteOne() {
    ModelTimer timer = AnyTimer();
    Subtask* subtask = &subtasks_[OwnerOf(timer.number)];
    const ModelTimers& pending = subtask->model[static_cast<int>(timer.domain)];
    const auto near = pending.lower_bound(timer);
    if (near != pending.end() && !OneIn(8)) timer = *near;
    const bool was = subtask->model[static_cast<int>(timer.domain)].erase(timer) > 0;
    const auto key = KeyOf<K>::Make(timer.number);
    EXPECT_EQ(subtask->timers->IsPending(timer.domain, key, timer.time, timer.ns), was);
    EXPECT_EQ(subtask->timers->Delete(timer.domain, key, timer.time, timer.ns), was);
  }

  // What the callback of `timer` does: the same whenever it fires in this step.
  std::vector<TimerAction> ActionsOf(const ModelTimer& timer, int64_t now) const {
    uint64_t dice = Scramble(timer.rank ^ salt_ ^ (tick_ << 20) ^
                             (static_cast<uint64_t>(timer.time) * 0x9e3779b97f4a7c15ULL));
    const auto roll = [&](uint64_t n) {
      dice = Scramble(dice + 1);
      return dice % n;
    };
    std::vector<TimerAction> actions;
    for (uint64_t left = roll(4) == 0 ? 1 + roll(3) : 0; left > 0; --left) {
      ModelTimer other = timer;
      switch (roll(6)) {
        case 0:
          break;  // itself
        case 1:   // a late one
          other = Make(timer.domain, timer.number, TimeAfter(timer.time, -int64_t(roll(50))), 7);
          break;
        case 2:  // one between it and now, or after
          other = Make(timer.domain, timer.number, TimeAfter(timer.time, 1 + int64_t(roll(60))),
                       timer.ns);
          break;
        case 3:  // of the same time
          other = Make(timer.domain, timer.number, timer.time, static_cast<int64_t>(roll(5)));
          break;
        case 4:  // of the other clock
          other = Make(static_cast<TimeDomain>(1 - static_cast<int>(timer.domain)), timer.number,
                       TimeAfter(now, static_cast<int64_t>(roll(100)) - 50), 3);
          break;
        default:
          other = Make(timer.domain, timer.number, TimeAfter(now, 1 + int64_t(roll(100))), -1);
      }
      actions.push_back(
          {roll(4) == 0 ? TimerActionKind::kDelete : TimerActionKind::kRegister, other});
    }
    return actions;
  }

  void AdvanceAll() {
    const auto domain = static_cast<TimeDomain>(random_() % 2);
    int64_t& now = now_[static_cast<int>(domain)];
    const int64_t to = OneIn(5) ? now - 20 : now + static_cast<int64_t>(random_() % 150);
    now = std::max(now, to);
    const int64_t capture_at = OneIn(4) ? static_cast<int64_t>(random_() % 8) : -1;
    bool captures = capture_at >= 0;
    for (uint32_t i = 0; i < subtasks_.size(); ++i) {
      if (subtasks_[i].timers == nullptr) continue;
      AdvanceOne(&subtasks_[i], domain, to, captures ? capture_at : -1);
      captures = captures && !captured_in_callback_;
      captured_in_callback_ = false;
    }
  }

  void AdvanceOne(Subtask* subtask, TimeDomain domain, int64_t to, int64_t capture_at) {
    // What a callback captures is compared with the model as of the same point.
    std::vector<ModelTimer> expected;
    std::optional<ModelDomains> model_at;
    ModelDomains after = subtask->model;
    int64_t& latest = subtask->now[static_cast<int>(domain)];
    latest = std::max(latest, to);
    const int64_t now = latest;
    Expect(&after, domain, now, capture_at, &expected, &model_at);
    if (model_at) subtask->model = *model_at;
    std::vector<ModelTimer> fired;
    Timers& timers = *subtask->timers;
    const Status status = timers.Advance(domain, to, [&](const Timer& timer) -> Status {
      const ModelTimer id = ModelOf(timer);
      if (static_cast<int64_t>(fired.size()) == capture_at) {
        if (persist_.valid()) FinishPersist(true);
        CaptureAll();
        captured_in_callback_ = true;
      }
      fired.push_back(id);
      for (const TimerAction& action : ActionsOf(id, now)) {
        const auto key = KeyOf<K>::Make(action.timer.number);
        if (action.kind == TimerActionKind::kDelete) {
          timers.Delete(action.timer.domain, key, action.timer.time, action.timer.ns);
        } else {
          CAIRN_RETURN_IF_ERROR(
              timers.Register(action.timer.domain, key, action.timer.time, action.timer.ns));
        }
      }
      return {};
    });
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_EQ(fired.size(), expected.size());
    for (size_t i = 0; i < fired.size(); ++i) {
      ASSERT_TRUE(fired[i] == expected[i])
          << "place " << i << ": " << fired[i].time << ", expected " << expected[i].time;
    }
    fired_ += fired.size();
    subtask->model = std::move(after);
    CheckStatistics(subtask);
  }

  // Fires the model's timers up to now by the rules of docs/state/timers.md.
  void Expect(ModelDomains* model, TimeDomain domain, int64_t now, int64_t capture_at,
              std::vector<ModelTimer>* expected, std::optional<ModelDomains>* model_at) const {
    ModelTimers& pending = (*model)[static_cast<int>(domain)];
    ModelTimers held;
    std::optional<ModelTimer> highest;
    for (;;) {
      const auto next = std::find_if(pending.begin(), pending.end(),
                                     [&](const ModelTimer& t) { return !held.contains(t); });
      if (next == pending.end() || next->time > now) return;
      const ModelTimer timer = *next;
      pending.erase(next);
      if (static_cast<int64_t>(expected->size()) == capture_at) *model_at = *model;
      expected->push_back(timer);
      const bool late = highest && timer < *highest;
      if (!late) highest = timer;
      for (const TimerAction& action : ActionsOf(timer, now)) {
        ModelTimers& of = (*model)[static_cast<int>(action.timer.domain)];
        if (action.kind == TimerActionKind::kDelete) {
          of.erase(action.timer);
          held.erase(action.timer);
        } else if (of.insert(action.timer).second && action.timer.domain == domain &&
                   action.timer.time <= now &&
                   (action.timer == timer || (late && !(*highest < action.timer)))) {
          held.insert(action.timer);
        }
      }
    }
  }

  void CheckStatistics(Subtask* subtask) {
    const TimerStatistics statistics = subtask->timers->Statistics();
    for (int d = 0; d < kTimeDomains; ++d) {
      const ModelTimers& model = subtask->model[static_cast<size_t>(d)];
      ASSERT_EQ(statistics.pending[d], model.size());
      ASSERT_EQ(statistics.next_due[d].has_value(), !model.empty());
      if (!model.empty()) {
        ASSERT_EQ(*statistics.next_due[d], model.begin()->time);
      }
    }
  }

  // --- checkpoints -----------------------------------------------------------------------------

  void CaptureAll() {
    captured_.clear();
    for (Subtask& subtask : subtasks_) {
      Captured& captured = captured_.emplace_back();
      if (subtask.timers == nullptr) continue;
      captured.view = subtask.domain->Capture();
      captured.model = subtask.model;
      captured.base = subtask.cuts.empty() || OneIn(4);
      captured.rows = std::make_unique<MemorySink>();
    }
    std::vector<uint64_t> since;
    for (Subtask& subtask : subtasks_) since.push_back(subtask.domain->committed_epoch());
    persist_ = std::async(std::launch::async, [this, since] {
      for (size_t i = 0; i < captured_.size(); ++i) {
        const Captured& captured = captured_[i];
        if (!captured.view) continue;
        const Timers& timers = *subtasks_[i].timers;
        const KeyGroupRange all{0, kMaxKeyGroups};
        const Status status =
            captured.base ? timers.EncodeBase(captured.view, all, captured.rows.get())
                          : timers.EncodeDelta(captured.view, since[i], all, captured.rows.get());
        EXPECT_TRUE(status.ok()) << status.ToString();
        CheckScan(timers, captured);
      }
    });
  }

  void CheckScan(const Timers& timers, const Captured& captured) const {
    size_t seen = 0;
    const Status status = timers.Scan(captured.view, {0, kMaxKeyGroups}, [&](const Timer& timer) {
      const ModelTimer id = ModelOf(timer);
      EXPECT_TRUE(captured.model[static_cast<size_t>(timer.domain)].contains(id));
      ++seen;
    });
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(seen, captured.model[0].size() + captured.model[1].size());
    EXPECT_EQ(timers.CountRows(captured.view), seen);
  }

  // Waits for the persist under way and makes it the cut to go back to, or forgets it.
  void FinishPersist(bool commit) {
    if (!persist_.valid()) return;
    persist_.get();
    if (commit) {
      committed_ = true;
      committed_models_.clear();
      for (size_t i = 0; i < captured_.size(); ++i) {
        Captured& captured = captured_[i];
        if (!captured.view) continue;
        Subtask& subtask = subtasks_[i];
        subtask.domain->SetCommitted(captured.view.epoch());
        if (captured.base) subtask.cuts.clear();
        subtask.cuts.push_back(std::move(captured.rows));
        committed_models_.push_back(std::move(captured.model));
      }
    }
    captured_.clear();
  }

  // Goes down and comes up from the committed cut with another parallelism.
  void Restart() {
    if (!committed_) return;
    FinishPersist(false);
    ++restarts_;
    std::vector<std::unique_ptr<MemorySink>> cuts;
    for (Subtask& subtask : subtasks_) {
      for (auto& cut : subtask.cuts) cuts.push_back(std::move(cut));
    }
    Open(1 + static_cast<uint32_t>(random_() % kSubtasksMax));
    uint64_t saved = 0;
    for (const ModelDomains& model : committed_models_) {
      for (const ModelTimers& timers : model) {
        saved += timers.size();
        for (const ModelTimer& timer : timers) {
          subtasks_[OwnerOf(timer.number)].model[static_cast<size_t>(timer.domain)].insert(timer);
        }
      }
    }
    uint64_t restored = 0;
    for (Subtask& subtask : subtasks_) {
      if (subtask.timers == nullptr) continue;
      LoadCounts counts;
      for (const auto& cut : cuts) {
        for (const auto& part : cut->parts()) {
          const Status status = subtask.timers->Load(part->rows.Span(), 2, 2, &counts);
          ASSERT_TRUE(status.ok()) << status.ToString();
        }
      }
      restored += subtask.timers->size();
      CheckStatistics(&subtask);
    }
    ASSERT_EQ(restored, saved);
    // As after a real restore, the first checkpoint is a base, and time starts anew.
    committed_ = false;
    CaptureAll();
    FinishPersist(true);
  }

  std::mt19937_64 random_;
  const uint64_t salt_;
  uint32_t key_groups_ = 1;
  uint64_t slot_hash_seed_ = 0;
  uint64_t keys_ = 1;
  uint64_t tick_ = 0;
  int64_t now_[kTimeDomains] = {};  ///< around which timers are made
  std::vector<Subtask> subtasks_;
  std::vector<Captured> captured_;
  std::future<void> persist_;
  bool captured_in_callback_ = false;
  bool committed_ = false;
  std::vector<ModelDomains> committed_models_;
  uint64_t fired_ = 0;
  uint64_t restarts_ = 0;
};

uint64_t TimersFromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(TimersModel, EveryTimerFiresOnceInOrderAcrossCheckpointRestoreAndRescale) {
  const uint64_t first = TimersFromEnvironment("CAIRN_SEED", std::random_device()());
  const uint64_t rounds = TimersFromEnvironment("CAIRN_ROUNDS", 24);
  std::cout << "CAIRN_SEED=" << first << " CAIRN_ROUNDS=" << rounds << std::endl;
  uint64_t fired = 0;
  uint64_t restarts = 0;
  const auto run = [&](auto world) {
    world->Run(300);
    fired += world->fired();
    restarts += world->restarts();
  };
  for (uint64_t seed = first; seed < first + rounds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run(std::make_unique<TimersWorld<int64_t>>(seed));
    run(std::make_unique<TimersWorld<Bytes>>(seed));
    if (HasFailure()) std::cout << "failed with CAIRN_SEED=" << seed << " CAIRN_ROUNDS=1\n";
  }
  std::cout << fired << " fired, " << restarts << " restarts" << std::endl;
  EXPECT_GT(fired, rounds * 100);
  EXPECT_GT(restarts, rounds);
}

}  // namespace
}  // namespace cairn::model

// SPDX-License-Identifier: Apache-2.0
//
// Listing, printing and comparing saved lists, maps and slots with a TTL.
#include "cli/state_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/coding.h"
#include "checkpoint/cut_builder.h"
#include "cli/import_target.h"
#include "cli/slot_row.h"
#include "cli/state_diff.h"
#include "cli/state_source.h"
#include "cli/typed_slot.h"
#include "env/memory_file_system.h"

namespace cairn::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string EightBytes(int64_t value) {
  std::string bytes;
  base::AppendLE(&bytes, value);
  return bytes;
}

/// Lines that a command prints.
class Printed {
 public:
  Output* out() { return &out_; }
  std::string Text() {
    std::fflush(file_);
    std::string text(static_cast<size_t>(std::ftell(file_)), '\0');
    std::rewind(file_);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), file_), text.size());
    return text;
  }
  ~Printed() { std::fclose(file_); }

 private:
  std::FILE* file_ = std::tmpfile();
  Output out_{file_};
};

SlotDescriptor SlotOfKind(SlotKind kind, const std::string& name) {
  SlotDescriptor slot;
  slot.operator_uid = "visits/0";
  slot.operator_id = OperatorIdOf(slot.operator_uid);
  slot.name = name;
  slot.kind = kind;
  slot.key_codec = "string";
  slot.value_codec = "int64";
  return slot;
}

StateOptions Asked(std::string slot, bool json = true, std::string key = "", uint64_t limit = 50) {
  StateOptions options;
  options.source = "/a";
  options.slot = std::move(slot);
  options.key = std::move(key);
  options.limit = limit;
  options.json = json;
  return options;
}

/// A place with a list (a: 10, 20), a map with a TTL (a: x -> 1, expired: y -> 2).
class StateCommandTest : public ::testing::Test {
 protected:
  void Make(const std::string& place, int64_t second) {
    checkpoint::CutBuilderOptions options;
    options.files = &disk_;
    options.place = place;
    options.pipeline.job = "visits";
    options.pipeline.components = {{"operator", "visits/0", "{}", false}};
    auto builder = *checkpoint::CutBuilder::Open(std::move(options));
    const SlotDescriptor list = SlotOfKind(SlotKind::kKeyedList, "list");
    SlotDescriptor map = SlotOfKind(SlotKind::kKeyedMap, "map");
    map.element_key_codec = "string";
    map.ttl.ttl_ms = 100;
    map.ttl_time_ms = 500;
    map.ttl_first_ms = 0;
    const size_t list_at = *builder->AddSlot(list);
    const size_t map_at = *builder->AddSlot(map);
    const auto add = [&](size_t at, const SavedSlotRow& row) {
      const Status added = builder->Add(at, row.key, row.value);
      ASSERT_TRUE(added.ok()) << added.ToString();
    };
    const auto element = [&](const SlotDescriptor& slot, const std::string& key, int64_t value,
                             std::optional<int64_t> expires) {
      const std::string bytes = EightBytes(value);
      SlotRow row;
      row.user_key = "a";
      row.element_key = key;
      row.value = bytes;
      row.expires_at_ms = expires;
      return PutTogether(slot, row);
    };
    add(list_at, HeaderRow("a", 2, 9));
    add(list_at, element(list, OrderedElementKey(list, EightBytes(7)), 10, {}));
    add(list_at, element(list, OrderedElementKey(list, EightBytes(8)), second, {}));
    add(map_at, HeaderRow("a", 2, 0));
    add(map_at, element(map, "x", 1, 501));
    add(map_at, element(map, "y", 2, 500));
    const auto built = builder->Commit();
    ASSERT_TRUE(built.ok()) << built.status().ToString();
  }

  std::string Run(Result<ExitCode> (*command)(env::FileSystem*, const StateOptions&, Output*),
                  const StateOptions& options, ExitCode expected = ExitCode::kDone) {
    Printed printed;
    const Result<ExitCode> code = command(&disk_, options, printed.out());
    EXPECT_TRUE(code.ok()) << code.status().ToString();
    EXPECT_EQ(code.ok() ? *code : ExitCode::kUsage, expected);
    return printed.Text();
  }

  env::MemoryFileSystem disk_;
};

TEST_F(StateCommandTest, LsCountsElementsAndWhatHasExpired) {
  Make("/a", 20);
  const std::string text = Run(ListState, Asked("", false));
  EXPECT_THAT(text, HasSubstr("EXPIRED"));
  EXPECT_THAT(text, HasSubstr("index bigint"));
  EXPECT_THAT(text, HasSubstr("map_key text"));
  const std::string json = Run(ListState, Asked("map"));
  EXPECT_THAT(json, HasSubstr(R"("live":1,"expired":1)"));
  EXPECT_THAT(json, HasSubstr(R"("kind":"keyed_map")"));
}

TEST_F(StateCommandTest, CatDecodesElementsAndHidesWhatHasExpired) {
  Make("/a", 20);
  const std::string json = Run(PrintState, Asked(""));
  EXPECT_THAT(json, HasSubstr(R"("slot":"list","key":"a","index":7,"value":10})"));
  EXPECT_THAT(json, HasSubstr(R"("slot":"list","key":"a","index":8,"value":20})"));
  EXPECT_THAT(json,
              HasSubstr(R"("slot":"map","key":"a","map_key":"x","value":1,"expires_at_ms":501})"));
  EXPECT_THAT(json, Not(HasSubstr(R"("map_key":"y")")));
  EXPECT_THAT(Run(PrintState, Asked("list", false, "", 1)),
              HasSubstr("key=\"a\"  index=7  ->  value=10"));
}

TEST_F(StateCommandTest, GetFindsEveryElementOfAKey) {
  Make("/a", 20);
  const std::string json = Run(GetState, Asked("list", true, "a"));
  EXPECT_THAT(json, HasSubstr(R"("index":7,"value":10)"));
  EXPECT_THAT(json, HasSubstr(R"("index":8,"value":20)"));
  EXPECT_EQ(Run(GetState, Asked("list", true, "b"), ExitCode::kNegative), "");
}

TEST_F(StateCommandTest, DiffNamesTheElementThatChanged) {
  Make("/a", 20);
  Make("/b", 21);
  Printed printed;
  DiffOptions options;
  options.a = "/a";
  options.b = "/b";
  const Result<ExitCode> code = DiffState(&disk_, options, printed.out());
  ASSERT_TRUE(code.ok()) << code.status().ToString();
  EXPECT_EQ(*code, ExitCode::kNegative);
  const std::string text = printed.Text();
  EXPECT_THAT(text, HasSubstr("0 added, 0 removed, 1 changed"));
  EXPECT_THAT(text, HasSubstr("\"index\":8"));
}

TEST_F(StateCommandTest, AnImportKeepsListsMapsAndTheirDeadlines) {
  Make("/a", 20);
  const auto source = OpenStateSource(&disk_, "/a");
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  checkpoint::CutBuilderOptions options;
  options.files = &disk_;
  options.place = "/copy";
  options.pipeline.job = "visits";
  options.pipeline.components = {{"operator", "visits/0", "{}", false}};
  ImportTarget target(std::move(options), false, nullptr);
  ASSERT_TRUE(target.TakeKeyGroups((*source)->key_groups(), "/a").ok());
  const Status taken = target.TakeSource(**source, false);
  ASSERT_TRUE(taken.ok()) << taken.ToString();
  ASSERT_TRUE(target.Commit().ok());
  Printed printed;
  StateOptions copy = Asked("");
  copy.source = "/copy";
  const auto code = PrintState(&disk_, copy, printed.out());
  ASSERT_TRUE(code.ok()) << code.status().ToString();
  EXPECT_EQ(printed.Text(), Run(PrintState, Asked("")));
}

}  // namespace
}  // namespace cairn::cli

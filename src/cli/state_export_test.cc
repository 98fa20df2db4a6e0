// SPDX-License-Identifier: Apache-2.0
//
// Split exports: all parts or none, and which of them belong together.
#include "cli/state_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/coding.h"
#include "checkpoint/cut_builder.h"
#include "cli/state_import.h"
#include "env/fault_file_system.h"
#include "env/memory_file_system.h"

namespace cairn::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class SplitExportTest : public ::testing::Test {
 protected:
  void Make(const std::string& place, int64_t value) {
    checkpoint::CutBuilderOptions options;
    options.files = &disk_;
    options.place = place;
    options.pipeline.job = "visits";
    options.pipeline.components = {{"operator", "visits/0", "{}", false}};
    auto builder = *checkpoint::CutBuilder::Open(std::move(options));
    SlotDescriptor slot;
    slot.operator_uid = "visits/0";
    slot.operator_id = OperatorIdOf(slot.operator_uid);
    slot.name = "visits";
    slot.key_codec = "string";
    slot.value_codec = "int64";
    const size_t at = *builder->AddSlot(slot);
    std::string bytes;
    base::AppendLE(&bytes, value);
    for (int key = 0; key < 100; ++key) {
      const Status added = builder->Add(at, "key" + std::to_string(key), bytes);
      ASSERT_TRUE(added.ok()) << added.ToString();
    }
    ASSERT_TRUE(builder->Commit().ok());
  }

  ExportOptions Split(const std::string& source, const std::string& directory, uint32_t parts) {
    ExportOptions options;
    options.source = source;
    options.format = "arrow-stream";
    options.split = parts;
    options.output = directory;
    return options;
  }

  /// Snapshots and sidecars below a directory of parts.
  std::vector<std::string> FilesIn(const std::string& directory) {
    std::vector<std::string> found;
    for (const auto& [path, bytes] : disk_.AllFiles()) {
      if (path.starts_with(directory + "/")) found.push_back(path);
    }
    return found;
  }

  Status Import(const std::vector<std::string>& parts, const std::string& place) {
    ImportOptions options;
    options.files = parts;
    options.place = place;
    return ImportState(&disk_, options).status();
  }

  env::MemoryFileSystem disk_;
};

TEST_F(SplitExportTest, OneThatFailsAtAnyCallLeavesNoPart) {
  Make("/a", 1);
  env::FaultFileSystem files(&disk_);
  for (uint64_t n = 0;; ++n) {
    ASSERT_LT(n, 1000u);
    SCOPED_TRACE("no space at call " + std::to_string(n));
    const std::string directory = "/parts" + std::to_string(n);
    files.Arm({.call = n, .kind = env::FaultKind::kNoSpace});
    const Result<ExitCode> code = ExportState(&files, Split("/a", directory, 3));
    const bool fired = files.fired();
    files.Disarm();
    if (code.ok()) {
      EXPECT_THAT(FilesIn(directory), SizeIs(6));
    } else {
      EXPECT_THAT(FilesIn(directory), SizeIs(0));
    }
    if (!fired) break;
  }
}

TEST_F(SplitExportTest, PartsOfTwoSnapshotFilesAreNotTakenForOne) {
  ASSERT_TRUE(disk_.CreateDirectory("/snaps").ok());
  for (const std::string name : {"a", "b"}) {
    Make("/" + name, name == "a" ? 1 : 2);
    const std::string snapshot = "/snaps/" + name + ".snap";
    ASSERT_TRUE(ExportState(&disk_, Split("/" + name, snapshot, 0)).ok());
    const auto split = ExportState(&disk_, Split(snapshot, "/parts/" + name, 2));
    ASSERT_TRUE(split.ok()) << split.status().ToString();
  }
  const Status mixed = Import({"/parts/a/0", "/parts/b/1"}, "/mixed");
  EXPECT_EQ(mixed.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(mixed.ToString(), HasSubstr("is missing"));
  const Status whole = Import({"/parts/a/0", "/parts/a/1"}, "/whole");
  EXPECT_TRUE(whole.ok()) << whole.ToString();
}

}  // namespace
}  // namespace cairn::cli

// SPDX-License-Identifier: Apache-2.0
//
// bench_state_persist [--quick] [--json FILE]: a checkpoint of 5 M int64 rows to a local place with
// fsync, and its verified restore, in wall time: by as many subtasks as wrote it and by one more.
//
// Peers, interleaved in the same process: the same rows (operator id, 15-byte key, 8-byte value)
// built into Arrow columns from a flat map, written as an IPC file and fsynced; that file read back
// and its rows inserted into a reserved flat map. CAIRN_BENCH_DIR says where the files go.
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fcntl.h>
#include <unistd.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cairn/table.h"
#include "checkpoint/executor.h"
#include "checkpoint/recovery.h"
#include "checkpoint/store.h"
#include "env/file_system.h"
#include "store_harness.h"

namespace cairn::bench {

inline void Check(const arrow::Status& status) {
  if (!status.ok()) Fail(status.ToString());
}
template <class T>
T Check(arrow::Result<T> result) {
  if (!result.ok()) Fail(result.status().ToString());
  return *std::move(result);
}

namespace {

using Numbers = Table<int64_t, int64_t>;
using RawNumbers = boost::unordered_flat_map<int64_t, int64_t>;

constexpr size_t kKeyBytes = 15;
constexpr int64_t kBatchRows = 65536;

// --- the peers ---------------------------------------------------------------------------------

void RawWrite(const RawNumbers& raw, const std::string& path) {
  const auto schema = arrow::schema({arrow::field("op_id", arrow::uint64(), false),
                                     arrow::field("key_bytes", arrow::binary(), false),
                                     arrow::field("value_bytes", arrow::binary(), false)});
  auto out = Check(arrow::io::FileOutputStream::Open(path));
  auto writer = Check(arrow::ipc::MakeFileWriter(out, schema));
  arrow::UInt64Builder ids;
  arrow::BinaryBuilder keys, values;
  char key[kKeyBytes] = {'\0', ' ', 'c', 'o', 'u', 'n', '|'};
  const auto flush = [&] {
    std::shared_ptr<arrow::Array> columns[3];
    Check(ids.Finish(&columns[0]));
    Check(keys.Finish(&columns[1]));
    Check(values.Finish(&columns[2]));
    Check(writer->WriteRecordBatch(*arrow::RecordBatch::Make(
        schema, columns[0]->length(), {columns[0], columns[1], columns[2]})));
  };
  for (const auto& [number, value] : raw) {
    if (ids.length() == 0) {
      Check(ids.Reserve(kBatchRows));
      Check(keys.Reserve(kBatchRows));
      Check(keys.ReserveData(kBatchRows * kKeyBytes));
      Check(values.Reserve(kBatchRows));
      Check(values.ReserveData(kBatchRows * 8));
    }
    std::memcpy(key + kKeyBytes - 8, &number, 8);
    ids.UnsafeAppend(1);
    keys.UnsafeAppend(reinterpret_cast<const uint8_t*>(key), kKeyBytes);
    values.UnsafeAppend(reinterpret_cast<const uint8_t*>(&value), 8);
    if (ids.length() == kBatchRows) flush();
  }
  if (ids.length() > 0) flush();
  Check(writer->Close());
  const int fd = out->file_descriptor();
  if (fsync(fd) != 0) Fail("fsync failed");
  Check(out->Close());
}

size_t RawRead(const std::string& path, size_t rows) {
  RawNumbers raw;
  raw.reserve(rows);
  auto reader =
      Check(arrow::ipc::RecordBatchFileReader::Open(Check(arrow::io::ReadableFile::Open(path))));
  for (int i = 0; i < reader->num_record_batches(); ++i) {
    const auto batch = Check(reader->ReadRecordBatch(i));
    const auto& keys = static_cast<const arrow::BinaryArray&>(*batch->column(1));
    const auto& values = static_cast<const arrow::BinaryArray&>(*batch->column(2));
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      int64_t number, value;
      std::memcpy(&number, keys.GetView(row).data() + kKeyBytes - 8, 8);
      std::memcpy(&value, values.GetView(row).data(), 8);
      raw[number] = value;
    }
  }
  return raw.size();
}

// --- the store ---------------------------------------------------------------------------------

/// The tables of a job of `subtasks` subtasks, each with its share of the key groups.
struct Job {
  std::vector<std::unique_ptr<StateDomain>> domains;
  std::vector<std::unique_ptr<Numbers>> tables;

  Job(uint32_t subtasks, uint64_t slot_hash_seed) {
    for (uint32_t i = 0; i < subtasks; ++i) {
      TableOptions options;
      options.range = KeyGroupsOfSubtask(i, subtasks, kDefaultKeyGroups);
      options.slot_hash_seed = slot_hash_seed;
      domains.push_back(StateDomain::Create({}));
      tables.push_back(std::make_unique<Numbers>(domains.back().get(), Descriptor(), options));
    }
  }

  void Put(int64_t key, int64_t value) {
    const std::string_view bytes(reinterpret_cast<const char*>(&key), sizeof(key));
    const auto owner = OwnerOfKeyGroup(KeyGroupOf(bytes, kDefaultKeyGroups),
                                       static_cast<uint32_t>(tables.size()), kDefaultKeyGroups);
    Check(tables[owner]->Update(key, [&](int64_t& now, bool) noexcept { now = value; }));
  }
};

/// Save everything as a new base: no committed epoch is named.
double PersistMs(const Job& job, const std::string& directory, size_t keys) {
  auto store = Check(checkpoint::OpenStoreAt(env::PosixFileSystem(), directory, StoreOptions()));
  (void)Check(store->Recover());
  const base::CheckpointId id = Check(store->NextId());
  checkpoint::CapturedCut captured;
  captured.parallelism = static_cast<uint32_t>(job.tables.size());
  for (size_t i = 0; i < job.tables.size(); ++i) {
    checkpoint::CapturedSubtask subtask;
    subtask.subtask = static_cast<uint32_t>(i);
    subtask.tables.push_back(job.tables[i].get());
    subtask.view = job.domains[i]->Capture();
    captured.subtasks.push_back(std::move(subtask));
  }
  captured.sources.push_back({"in", {{"file#0", "0", false}}});
  checkpoint::ThreadsExecutor executor(job.tables.size());
  checkpoint::PersistedCut persisted;
  const double ms = TimeWallMs([&] {
    persisted = Check(store->Persist(id, captured, &executor));
    Check(store->Commit(persisted));
  });
  if (persisted.rows_new != keys) Fail("the checkpoint does not hold every row");
  return ms;
}

double RestoreMs(uint32_t subtasks, const std::string& directory, size_t keys) {
  auto store = Check(checkpoint::OpenStoreAt(env::PosixFileSystem(), directory, StoreOptions()));
  Job job(subtasks, store->slot_hash_seed());
  std::vector<std::vector<state::StateTable*>> tables;
  for (const auto& table : job.tables) tables.push_back({table.get()});
  checkpoint::ThreadsExecutor executor(subtasks);
  const double ms = TimeWallMs([&] {
    const auto cut = Check(store->Recover());
    (void)Check(checkpoint::LoadState(*cut, tables, &executor));
  });
  size_t rows = 0;
  for (const auto& table : job.tables) rows += table->size();
  if (rows != keys) Fail("the restore does not hold every row");
  return ms;
}

/// The cases with `subtasks` subtasks, interleaved with the peers.
void Run(Report* report, uint32_t subtasks, const std::string& suffix,
         const std::string& directory) {
  const size_t keys = report->quick() ? 500000 : 5000000;
  const std::string place = directory + "/place" + suffix;
  const std::string raw_path = directory + "/raw.arrow";
  uint64_t seed = 0;
  {
    // The place fixes the seed of the hash that orders rows.
    auto store = Check(checkpoint::OpenStoreAt(env::PosixFileSystem(), place, StoreOptions()));
    seed = store->slot_hash_seed();
  }
  Job job(subtasks, seed);
  RawNumbers raw;
  for (size_t i = 0; i < keys; ++i) {
    const int64_t key = ScatteredKey(i + 1);
    job.Put(key, static_cast<int64_t>(i));
    raw[key] = static_cast<int64_t>(i);
  }
  std::vector<double> persist, raw_write, restore, raw_read, rescale;
  for (int rep = 0; rep < 5; ++rep) {
    raw_write.push_back(TimeWallMs([&] { RawWrite(raw, raw_path); }));
    persist.push_back(PersistMs(job, place, keys));
    raw_read.push_back(TimeWallMs([&] {
      if (RawRead(raw_path, keys) != keys) Fail("the raw file does not hold every row");
    }));
    restore.push_back(RestoreMs(subtasks, place, keys));
    if (subtasks == 2) rescale.push_back(RestoreMs(3, place, keys));
  }
  report->Add("persist.5M" + suffix, Median(persist), "ms", "less", "raw Arrow IPC write",
              Median(raw_write));
  report->Add("restore.5M" + suffix, Median(restore), "ms", "less", "raw Arrow read and inserts",
              Median(raw_read));
  if (subtasks == 2) {
    report->Add("rescale.2_to_3.5M", Median(rescale), "ms", "less", "restore by 2",
                Median(restore));
  }
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  cairn::bench::Report report("state", argc, argv);
  const char* chosen = std::getenv("CAIRN_BENCH_DIR");
  const std::string directory =
      (chosen != nullptr ? std::string(chosen) : std::filesystem::temp_directory_path().string()) +
      "/cairn-bench-" + std::to_string(getpid());
  std::filesystem::create_directories(directory);
  cairn::bench::Run(&report, 2, "", directory);
  cairn::bench::Run(&report, 1, ".p1", directory);
  std::filesystem::remove_all(directory);
  return 0;
}

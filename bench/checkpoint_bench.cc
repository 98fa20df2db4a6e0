// SPDX-License-Identifier: Apache-2.0
//
// bench_checkpoint [--quick] [--json FILE]: what a checkpoint costs where it goes.
//
//   ckpt.1M.*      a checkpoint of 1 M int64 rows of which 1, 10 or 100 % changed: bytes and time
//   in a
//                  directory with fsync, against the one that writes everything
//   commit.local   the smallest checkpoint against as many bare writes with fsync
//   ckpt.s3.*      requests of a checkpoint, and how many wait for each other
//   restore.s3     a restore against a download of the same bytes
//   validate.16MiB reading and checking the largest manifest
//   viewlog.*      rows of a view's log: written with a checkpoint against bare writes with fsync,
//   read
//                  back against reading the files, and how often small appends are written again
//
// The S3 cases talk to the server of CAIRN_BENCH_S3 (an s3:// URI; credentials as for any client).
// CAIRN_BENCH_DIR says where the files go.
#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cairn/table.h"
#include "checkpoint/executor.h"
#include "checkpoint/inspect.h"
#include "checkpoint/layout.h"
#include "checkpoint/place.h"
#include "checkpoint/recovery.h"
#include "checkpoint/store.h"
#include "checkpoint/view_log_reader.h"
#include "checkpoint/view_log_writer.h"
#include "env/fault_file_system.h"
#include "env/memory_file_system.h"
#include "env/s3/s3_object_store.h"
#include "format/manifest.h"
#include "format/manifest_testing.h"
#include "store_harness.h"

namespace cairn::bench {
namespace {

using Numbers = Table<int64_t, int64_t>;

/// A job of one subtask over a store.
class Job {
 public:
  explicit Job(std::unique_ptr<checkpoint::CheckpointStore> store) : store_(std::move(store)) {
    TableOptions options;
    options.slot_hash_seed = store_->slot_hash_seed();
    table_ = std::make_unique<Numbers>(domain_.get(), Descriptor(), options);
    cut_ = Check(store_->Recover());
  }

  void Put(size_t rows, int64_t value) {
    for (size_t i = 0; i < rows; ++i) {
      Check(table_->Update(ScatteredKey(i + 1), [&](int64_t& now, bool) noexcept { now = value; }));
    }
  }
  void Restore() {
    checkpoint::InlineExecutor executor;
    (void)Check(checkpoint::LoadState(*cut_, {{table_.get()}}, &executor));
  }

  struct Written {
    double ms = 0;  ///< of persist and commit
    uint64_t bytes = 0;
  };
  Written Checkpoint() {
    checkpoint::CapturedCut captured;
    captured.parallelism = 1;
    checkpoint::CapturedSubtask subtask;
    subtask.tables.push_back(table_.get());
    subtask.view = domain_->Capture();
    subtask.committed_epoch = committed_;
    const uint64_t epoch = subtask.view.epoch();
    captured.subtasks.push_back(std::move(subtask));
    captured.sources.push_back({"in", {{"file#0", "0", false}}});
    checkpoint::InlineExecutor executor;
    Written written;
    const base::CheckpointId id = Check(store_->NextId());
    written.ms = TimeWallMs([&] {
      const auto persisted = Check(store_->Persist(id, captured, &executor));
      Check(store_->Commit(persisted));
      written.bytes = persisted.bytes_new;
    });
    committed_ = epoch;
    domain_->SetCommitted(epoch);
    return written;
  }
  checkpoint::CheckpointStore* store() { return store_.get(); }
  size_t rows() const { return table_->size(); }

 private:
  std::unique_ptr<checkpoint::CheckpointStore> store_;
  std::shared_ptr<const checkpoint::Cut> cut_;
  std::unique_ptr<StateDomain> domain_ = StateDomain::Create({});
  std::unique_ptr<Numbers> table_;
  std::optional<uint64_t> committed_;
};

// --- a directory -------------------------------------------------------------------------------

void LocalCases(Report* report, const std::string& directory) {
  const size_t rows = report->quick() ? 100'000 : 1'000'000;
  env::FaultFileSystem files(env::PosixFileSystem());  // counts
  Job job(Check(checkpoint::OpenStoreAt(&files, directory + "/place", StoreOptions())));
  struct Share {
    const char* name;
    size_t rows;
  };
  const Share shares[] = {{"1pct", rows / 100}, {"10pct", rows / 10}, {"100pct", rows}};
  std::vector<double> bytes[3];
  std::vector<double> ms[3];
  int64_t value = 0;
  job.Put(rows, value);
  job.Checkpoint();
  uint64_t syncs = 0;
  for (int rep = 0; rep < 5; ++rep) {
    // Each measured checkpoint follows one that wrote everything: a delta over a whole base.
    for (int i = 0; i < 3; ++i) {
      job.Put(rows, ++value);
      job.store()->MaterializeNow();
      job.Checkpoint();
      (void)job.store()->Retire();
      job.Put(shares[i].rows, ++value);
      if (i == 2) job.store()->MaterializeNow();
      files.Disarm();
      const Job::Written written = job.Checkpoint();
      syncs = std::max(syncs, files.Count("fsync"));
      bytes[i].push_back(static_cast<double>(written.bytes));
      ms[i].push_back(written.ms);
    }
  }
  for (int i = 0; i < 3; ++i) {
    const std::string name = std::string("ckpt.1M.") + shares[i].name;
    report->Add(name + ".bytes", Median(bytes[i]), "B", "less", "everything written",
                Median(bytes[2]));
    report->Add(name, Median(ms[i]), "ms", "less", "everything written", Median(ms[2]));
  }
  report->Add("ckpt.fsyncs", static_cast<double>(syncs), "calls", "less", "the protocol's most", 6);

  // The smallest checkpoint that writes an object, against as many bare syncs of files as small.
  std::vector<double> commit, bare;
  for (int rep = 0; rep < 21; ++rep) {
    job.Put(1, ++value);
    commit.push_back(job.Checkpoint().ms);
    bare.push_back(TimeWallMs([&] {
      for (uint64_t i = 0; i < syncs; ++i) {
        const std::string path = directory + "/bare" + std::to_string(i);
        const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, "x", 1) != 1 || fsync(fd) != 0) Fail("a bare write failed");
        close(fd);
      }
    }));
    (void)job.store()->Retire();
  }
  report->Add("commit.local", Median(commit), "ms", "less", "as many bare fsyncs", Median(bare));
}

// --- a bucket ----------------------------------------------------------------------------------

/// Counts requests, and those that began after another had ended.
class CountingHttp final : public env::HttpClient {
 public:
  Result<env::HttpResponse> Send(const env::HttpRequest& request) override {
    requests_.fetch_add(1);
    if (request.method == "PUT" || request.method == "POST") puts_.fetch_add(1);
    if (under_way_.fetch_add(1) == 0) trips_.fetch_add(1);
    Result<env::HttpResponse> response = real_->Send(request);
    under_way_.fetch_sub(1);
    return response;
  }
  void Reset() { requests_ = puts_ = trips_ = 0; }
  uint64_t puts() const { return puts_; }
  uint64_t trips() const { return trips_; }

 private:
  std::unique_ptr<env::HttpClient> real_ = env::CurlHttpClient();
  std::atomic<uint64_t> requests_{0}, puts_{0}, trips_{0}, under_way_{0};
};

std::unique_ptr<env::S3ObjectStore> OpenBucket(const std::string& uri, env::HttpClient* http) {
  env::S3StoreOptions options;
  options.location =
      Check(env::ResolveS3Uri(uri, env::PosixFileSystem(), env::ProcessEnvironment()));
  options.location.prefix += "/bench-" + std::to_string(getpid());
  options.credentials = [] {
    return env::FindS3Credentials(env::PosixFileSystem(), env::ProcessEnvironment(), nullptr);
  };
  options.http = http;
  return Check(env::S3ObjectStore::Open(options));
}

void BucketCases(Report* report, const std::string& uri) {
  const size_t rows = report->quick() ? 100'000 : 1'000'000;
  CountingHttp http;
  {
    Job job(Check(checkpoint::OpenStore(OpenBucket(uri, &http), nullptr, StoreOptions())));
    job.Put(rows, 1);
    job.Checkpoint();
    job.Put(rows / 100, 2);
    http.Reset();
    job.Checkpoint();
    report->Add("ckpt.s3.round_trips", static_cast<double>(http.trips()), "requests", "less",
                "the protocol's most", 5);
    report->Add("ckpt.s3.puts", static_cast<double>(http.puts()), "requests", "less",
                "the protocol's most", 5);
  }
  auto bucket = OpenBucket(uri, &http);
  const auto objects = Check(bucket->List("nodes/"));
  std::vector<double> restore, download;
  for (int rep = 0; rep < 5; ++rep) {
    Job job(Check(checkpoint::OpenStore(OpenBucket(uri, &http), nullptr, StoreOptions())));
    restore.push_back(TimeWallMs([&] { job.Restore(); }));
    if (job.rows() != rows) Fail("the restore does not hold every row");
    download.push_back(TimeWallMs([&] {
      std::string bytes;
      for (const env::ObjectInfo& object : objects) {
        bytes.resize(object.size);
        Check(bucket->ReadRange(object.key, 0, bytes));
      }
    }));
  }
  report->Add("restore.s3", Median(restore), "ms", "less", "download of the objects",
              Median(download));
  for (const env::ObjectInfo& object : Check(bucket->List(""))) {
    Check(bucket->Delete(object.key));
  }
}

// --- the largest manifest ------------------------------------------------------------------------

/// One operator with a frame for each of as many groups as fit into 16 MiB.
std::string LargestManifest() {
  format::CheckpointManifest manifest = format::GoodManifest();
  manifest.key_groups = kMaxKeyGroups;
  manifest.referenced_chunks.clear();
  manifest.prepared_sinks.clear();
  manifest.prepared_sink_frame.reset();
  manifest.sink_artifact_intents.clear();
  manifest.sink_intent_frame.reset();
  manifest.view_logs.clear();
  manifest.operators.resize(1);
  manifest.operators[0].slots.resize(1);
  std::string bytes;
  // About 420 bytes a frame: find the number that just fits.
  size_t frames = 0;
  for (size_t step = kMaxKeyGroups / 2; step > 0; step /= 2) {
    manifest.state_frames.clear();
    uint64_t at = 512;
    for (size_t i = 0; i < frames + step; ++i) {
      const auto group = static_cast<uint16_t>(i);
      manifest.state_frames.push_back(
          {{format::FrameKind::kKeyed, manifest.operators[0].operator_id, group, group},
           false,
           manifest.node_data.chunk,
           {at, 64},
           1,
           10,
           1,
           format::FilledDigest(static_cast<uint8_t>(i))});
      at += 64;
    }
    manifest.node_data.suffix = format::ObjectSection{{at, 400}, format::FilledDigest(2)};
    manifest.node_data.object_length = at + 400;
    format::Settle(&manifest);
    Result<std::string> serialized = format::SerializeManifest(manifest);
    if (!serialized.ok()) {
      if (serialized.status().code() != StatusCode::kResourceExhausted) Check(serialized.status());
      continue;
    }
    frames += step;
    bytes = *std::move(serialized);
  }
  return bytes;
}

void ManifestCase(Report* report) {
  const std::string bytes = LargestManifest();
  std::vector<double> ms;
  for (int rep = 0; rep < (report->quick() ? 1 : 5); ++rep) {
    ms.push_back(TimeWallMs([&] { (void)Check(format::ParseManifest(bytes)); }));
  }
  report->Add("validate.16MiB", Median(ms) * (16 << 20) / static_cast<double>(bytes.size()), "ms",
              "less", "the aim", 200);
}

// --- view logs -----------------------------------------------------------------------------------

/// Rows of a number, a text of 100 bytes and a time.
std::shared_ptr<arrow::RecordBatch> LogRows(int64_t rows) {
  const auto time = arrow::timestamp(arrow::TimeUnit::MICRO);
  arrow::Int64Builder number;
  arrow::StringBuilder text;
  arrow::TimestampBuilder at(time, arrow::default_memory_pool());
  for (int64_t i = 0; i < rows; ++i) {
    if (!number.Append(i).ok() || !text.Append(std::string(100, 'x')).ok() || !at.Append(i).ok()) {
      Fail("no rows to append");
    }
  }
  const auto schema =
      arrow::schema({arrow::field("number", arrow::int64()), arrow::field("text", arrow::utf8()),
                     arrow::field("at", time)});
  return arrow::RecordBatch::Make(schema, rows, {*number.Finish(), *text.Finish(), *at.Finish()});
}

/// A store, and a view that keeps a log of one partition.
class LogWriter {
 public:
  LogWriter(env::FileSystem* files, const std::string& place, uint64_t segment_bytes) {
    checkpoint::StoreOptions options = StoreOptions();
    options.view_log_segment_bytes = segment_bytes;
    store_ = Check(checkpoint::OpenStoreAt(files, place, options));
    (void)Check(store_->Recover());
    writer_ = Check(checkpoint::ViewLogWriter::Open(
        {"rows", "018f0000-0000-7000-8000-000000000001", LogRows(0)->schema(), "at"}));
  }
  void Append(const std::shared_ptr<arrow::RecordBatch>& batch) {
    Check(writer_->Append(0, batch));
  }
  checkpoint::PersistedCut Checkpoint() {
    checkpoint::CapturedCut captured;
    captured.sources.push_back({"in", {{"file#0", "0", false}}});
    captured.view_logs.push_back(writer_->Capture());
    checkpoint::InlineExecutor executor;
    const base::CheckpointId id = Check(store_->NextId());
    const auto persisted = Check(store_->Persist(id, captured, &executor));
    Check(store_->Commit(persisted));
    writer_->Committed(captured.view_logs[0]);
    return persisted;
  }
  checkpoint::CheckpointStore* store() { return store_.get(); }

 private:
  std::unique_ptr<checkpoint::CheckpointStore> store_;
  std::unique_ptr<checkpoint::ViewLogWriter> writer_;
};

uint64_t ReadLog(const std::string& place) {
  const auto cut = Check(checkpoint::CutReader::Open(env::PosixFileSystem(), place, std::nullopt));
  const auto log =
      Check(checkpoint::ViewLogReader::Open(cut->objects(), cut->shared_manifest(), "rows"));
  const auto scan = Check(log->Scan(0, {}));
  uint64_t rows = 0;
  while (const auto batch = Check(scan->Next())) {
    rows += static_cast<uint64_t>(batch->rows->num_rows());
  }
  return rows;
}

int WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd, bytes.data(), bytes.size());
    if (done <= 0) return -1;
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  return 0;
}

void ViewLogCases(Report* report, const std::string& directory) {
  constexpr int64_t kBatchRows = 8192;
  const uint64_t batches = report->quick() ? 8 : 64;
  const auto batch = LogRows(kBatchRows);
  std::vector<double> write, bare, read, files;
  for (int rep = 0; rep < 5; ++rep) {
    const std::string place = directory + "/log" + std::to_string(rep);
    LogWriter log(env::PosixFileSystem(), place, uint64_t{16} << 20);
    for (uint64_t i = 0; i < batches; ++i) log.Append(batch);
    uint64_t bytes = 0;
    write.push_back(TimeWallMs([&] { bytes = log.Checkpoint().view_log_bytes_new; }));
    const std::string blank(bytes, 'x');
    bare.push_back(TimeWallMs([&] {
      const int fd = open((directory + "/bare").c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
      if (fd < 0 || WriteAll(fd, blank) != 0 || fsync(fd) != 0) Fail("a bare write failed");
      close(fd);
    }));
    read.push_back(TimeWallMs([&] {
      if (ReadLog(place) != batches * uint64_t{kBatchRows}) Fail("the log does not hold every row");
    }));
    files.push_back(TimeWallMs([&] {
      (void)Check(env::ReadWholeFile(env::PosixFileSystem(), directory + "/bare", bytes));
    }));
  }
  report->Add("viewlog.write", Median(write), "ms", "less", "a bare write and fsync", Median(bare));
  report->Add("viewlog.read", Median(read), "ms", "less", "reading the bytes", Median(files));

  // Many small checkpoints: what merging writes, over what was appended.
  const auto few = LogRows(128);
  env::MemoryFileSystem memory;
  LogWriter log(&memory, "/place", uint64_t{1} << 20);
  uint64_t written = 0;
  uint64_t first = 0;
  const int checkpoints = report->quick() ? 200 : 1000;
  for (int i = 0; i < checkpoints; ++i) {
    log.Append(few);
    const uint64_t bytes = log.Checkpoint().view_log_bytes_new;
    if (i == 0) first = bytes;
    written += bytes;
    (void)log.store()->Retire();
  }
  report->Add("viewlog.amplification",
              static_cast<double>(written) / static_cast<double>(first * checkpoints), "x", "less",
              "every row written once", 1);
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  cairn::bench::Report report("checkpoint", argc, argv);
  const char* chosen = std::getenv("CAIRN_BENCH_DIR");
  const std::string directory =
      (chosen != nullptr ? std::string(chosen) : std::filesystem::temp_directory_path().string()) +
      "/cairn-bench-checkpoint-" + std::to_string(getpid());
  std::filesystem::create_directories(directory);
  if (report.Wants("manifest")) cairn::bench::ManifestCase(&report);
  if (report.Wants("local")) cairn::bench::LocalCases(&report, directory);
  if (report.Wants("viewlog")) cairn::bench::ViewLogCases(&report, directory);
  if (const char* bucket = std::getenv("CAIRN_BENCH_S3"); bucket != nullptr && report.Wants("s3")) {
    cairn::bench::BucketCases(&report, bucket);
  }
  std::filesystem::remove_all(directory);
  return 0;
}

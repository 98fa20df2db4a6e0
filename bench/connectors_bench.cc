// SPDX-License-Identifier: Apache-2.0
//
// bench_connectors: CPU nanoseconds a row of the connectors alone, one thread, over generated bids:
// generate, encode (to files on the machine's disk, without fsync's wait in the CPU time), decode
// of all seven columns and of the one that a count by auction needs. Medians over the repetitions,
// cases interleaved. One JSON object a line.
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "connectors/factory.h"
#include "env/file_system.h"

namespace {

using cairn::Result;
using cairn::Status;

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

[[noreturn]] void Fail(const Status& status) {
  std::fprintf(stderr, "bench_connectors: %s\n", status.ToString().c_str());
  std::exit(1);
}

template <class T>
T Must(Result<T> result) {
  if (!result.ok()) Fail(result.status());
  return *std::move(result);
}

void Must(const Status& status) {
  if (!status.ok()) Fail(status);
}

cairn::stream::TableDefinition Bids(const std::string& connector,
                                    std::map<std::string, std::string> options) {
  cairn::stream::TableDefinition table;
  table.name = "bid";
  table.connector = connector;
  table.options = std::move(options);
  for (const char* name : {"auction", "bidder", "price"}) {
    table.columns.push_back({name, arrow::int64(), true});
  }
  table.columns.push_back({"channel", arrow::utf8(), true});
  table.columns.push_back({"url", arrow::utf8(), true});
  table.columns.push_back({"date_time", arrow::timestamp(arrow::TimeUnit::MICRO), true});
  table.columns.push_back({"extra", arrow::utf8(), true});
  return table;
}

using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

/// Read a table with one reader; keep the batches when asked to.
int64_t ReadAll(const cairn::stream::TableDefinition& table, const std::vector<int>& columns,
                Batches* kept) {
  auto source = Must(cairn::connectors::MakeSource(table, columns, cairn::env::PosixFileSystem()));
  auto reader = Must(source->CreateReader(Must(source->Discover({}))));
  int64_t rows = 0;
  for (;;) {
    auto batch = Must(reader->Next());
    if (batch == nullptr) return rows;
    rows += batch->num_rows();
    if (kept != nullptr) kept->push_back(std::move(batch));
  }
}

int64_t WriteAll(const cairn::stream::TableDefinition& table, const Batches& batches) {
  auto sink =
      Must(cairn::connectors::MakeSink(table, false, {"bench"}, cairn::env::PosixFileSystem()));
  Must(sink->Recover({}, {}));
  auto writer = Must(sink->CreateWriter(0));
  int64_t rows = 0;
  for (const auto& rows_of_batch : batches) {
    cairn::stream::Batch batch;
    batch.rows = rows_of_batch;
    Must(writer->Write(batch));
    rows += rows_of_batch->num_rows();
  }
  Must(sink->Commit({*Must(writer->Prepare(cairn::base::CheckpointId(1)))}));
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  const int64_t events = quick ? 200'000 : 1'000'000;
  const int repetitions = quick ? 3 : 7;
  const std::vector<int> all = {0, 1, 2, 3, 4, 5, 6};
  const std::vector<int> one = {0};
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("cairn_bench_" + std::to_string(::getpid()));
  const auto generated = Bids("nexmark", {{"events", std::to_string(events)}});
  Batches batches;
  ReadAll(generated, all, &batches);

  std::vector<std::pair<std::string, std::function<int64_t()>>> cases;
  cases.emplace_back("generate.all", [&] { return ReadAll(generated, all, nullptr); });
  cases.emplace_back("generate.auction", [&] { return ReadAll(generated, one, nullptr); });
  for (const std::string format : {"ndjson", "csv", "parquet"}) {
    const auto table =
        Bids("filesystem", {{"path", (folder / format).string()}, {"format", format}});
    cases.emplace_back("encode." + format, [table, &batches, path = folder / format] {
      std::filesystem::remove_all(path);
      return WriteAll(table, batches);
    });
    cases.emplace_back("decode." + format + ".all",
                       [table, &all] { return ReadAll(table, all, nullptr); });
    cases.emplace_back("decode." + format + ".auction",
                       [table, &one] { return ReadAll(table, one, nullptr); });
  }
  std::map<std::string, std::vector<double>> values;
  for (int repetition = 0; repetition <= repetitions; ++repetition) {
    for (const auto& [name, run] : cases) {
      const double begin = CpuSeconds();
      const int64_t rows = run();
      if (rows != events) {
        std::fprintf(stderr, "bench_connectors: %s gave %lld rows\n", name.c_str(),
                     static_cast<long long>(rows));
        return 1;
      }
      const double nanos = (CpuSeconds() - begin) * 1e9 / static_cast<double>(rows);
      if (repetition > 0) values[name].push_back(nanos);  // the first warms up
    }
  }
  std::filesystem::remove_all(folder);
  for (const auto& [name, run] : cases) {
    std::vector<double>& of_case = values[name];
    std::sort(of_case.begin(), of_case.end());
    std::printf(
        "{\"suite\": \"connectors\", \"case\": \"%s\", \"value\": %.1f, \"unit\": \"ns/row\", "
        "\"better\": \"less\", \"peer\": null, \"peer_value\": null, \"ratio\": null}\n",
        name.c_str(), of_case[of_case.size() / 2]);
  }
  return 0;
}

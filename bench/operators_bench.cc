// SPDX-License-Identifier: Apache-2.0
//
// bench_operators [--quick]: the state work of the two Nexmark jobs alone. Bids are generated and
// held as Arrow batches beforehand; timed are the keys of the exchange, the operator with its table
// and a sink that drops what it gets. The peer is the plain loop over flat arrays that a programmer
// would write for the same question, in the same run, interleaved. CPU time of the thread.
#include <arrow/array/array_primitive.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <time.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cairn/state_domain.h"
#include "connectors/nexmark_source.h"
#include "operators/operator_factory.h"
#include "stream/exchange.h"
#include "stream/plan.h"

namespace cairn {
namespace {

constexpr int64_t kBatchRows = 32 * 1024;
constexpr int kTopN = 10;

[[noreturn]] void Fail(const Status& status) {
  std::fprintf(stderr, "bench_operators: %s\n", status.ToString().c_str());
  std::exit(1);
}

void Check(const Status& status) {
  if (!status.ok()) Fail(status);
}

template <class T>
T Check(Result<T> result) {
  if (!result.ok()) Fail(result.status());
  return *std::move(result);
}

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Bids (auction, price, url) as batches, and as the flat arrays of the plain loops.
struct Bids {
  std::shared_ptr<arrow::Schema> schema;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  std::vector<int64_t> auctions;
  std::vector<int64_t> prices;
};

Bids GenerateBids(uint64_t events) {
  stream::TableDefinition table;
  table.name = "bid";
  const auto text = arrow::utf8();
  table.columns = {{"auction", arrow::int64()},
                   {"bidder", arrow::int64()},
                   {"price", arrow::int64()},
                   {"channel", text},
                   {"url", text},
                   {"date_time", arrow::timestamp(arrow::TimeUnit::MICRO)},
                   {"extra", text}};
  table.connector = "nexmark";
  connectors::NexmarkOptions options;
  options.events = events;
  const auto source =
      Check(connectors::MakeNexmarkSource(table, {0, 2, 4}, options, env::SystemClock()));
  auto reader = Check(source->CreateReader(Check(source->Discover({}))));
  Bids bids;
  bids.schema = source->schema();
  while (auto batch = Check(reader->Next())) {
    for (int64_t at = 0; at < batch->num_rows(); at += kBatchRows) {
      bids.batches.push_back(batch->Slice(at, std::min(kBatchRows, batch->num_rows() - at)));
    }
    const auto& auction = static_cast<const arrow::Int64Array&>(*batch->column(0));
    const auto& price = static_cast<const arrow::Int64Array&>(*batch->column(1));
    for (int64_t i = 0; i < batch->num_rows(); ++i) {
      bids.auctions.push_back(auction.Value(i));
      bids.prices.push_back(price.Value(i));
    }
  }
  return bids;
}

class DropAll final : public stream::Collector {
 public:
  Status Emit(stream::Batch batch) override {
    rows += batch.num_rows();
    return {};
  }
  int64_t rows = 0;
};

/// CPU seconds of one operator over all bids, from an empty table.
double RunOperator(const stream::PlanNode& node, const Bids& bids, int64_t* rows_out) {
  const auto factory = Check(operators::MakeOperator(node, bids.schema, false));
  MemoryBudget budget(0);
  StateDomainOptions options;
  options.budget = &budget;
  const auto domain = StateDomain::Create(options);
  const auto op = factory->Create();
  stream::OperatorContext context;
  context.uid = "bench/" + factory->name() + "/0";
  context.range = {0, kDefaultKeyGroups};
  context.state = domain.get();
  Check(op->Open(context));
  stream::ExchangeSpec exchange;
  exchange.schema = bids.schema;
  exchange.key_columns = {0};
  auto keys = Check(stream::KeyPartitioner::Make(exchange, 1, kDefaultKeyGroups));
  DropAll sink;
  const double start = CpuSeconds();
  for (const auto& rows : bids.batches) {
    stream::Batch batch;
    batch.rows = rows;
    Check(keys.EncodeKeys(&batch));
    Check(op->ProcessBatch(std::move(batch), &sink));
  }
  const double seconds = CpuSeconds() - start;
  *rows_out = sink.rows;
  return seconds;
}

double RunPlainCounts(const Bids& bids, uint64_t* check) {
  boost::unordered_flat_map<int64_t, int64_t> counts;
  const double start = CpuSeconds();
  for (int64_t auction : bids.auctions) ++counts[auction];
  const double seconds = CpuSeconds() - start;
  *check = counts.size();
  return seconds;
}

/// The first ten bids of an auction, best first: three arrays in one cell.
struct PlainTop {
  int64_t size = 0;
  int64_t price[kTopN];
  int64_t number[kTopN];
  int64_t row[kTopN];
};

double RunPlainTopN(const Bids& bids, uint64_t* check) {
  boost::unordered_flat_map<int64_t, PlainTop> tops;
  uint64_t updates = 0;
  const double start = CpuSeconds();
  for (size_t i = 0; i < bids.auctions.size(); ++i) {
    PlainTop& top = tops[bids.auctions[i]];
    const int64_t price = bids.prices[i];
    if (top.size == kTopN) {
      if (price <= top.price[kTopN - 1]) continue;
    } else {
      ++top.size;
    }
    int64_t at = top.size - 1;
    for (; at > 0 && top.price[at - 1] < price; --at) {
      top.price[at] = top.price[at - 1];
      top.number[at] = top.number[at - 1];
      top.row[at] = top.row[at - 1];
    }
    top.price[at] = price;
    top.number[at] = bids.auctions[i];
    top.row[at] = static_cast<int64_t>(i);
    ++updates;
  }
  const double seconds = CpuSeconds() - start;
  *check = updates;
  return seconds;
}

stream::GroupAggregateNode CountsNode(const Bids& bids) {
  stream::GroupAggregateNode node;
  node.keys = {0};
  node.calls = {{stream::AggregateFunction::kCountStar, -1, false, "n", arrow::int64()}};
  node.output = arrow::schema({bids.schema->field(0), arrow::field("n", arrow::int64(), false)});
  return node;
}

stream::TopNNode TopNode(const Bids& bids) {
  stream::TopNNode node;
  node.partition = {0};
  node.sort = {{1, true, true}};
  node.limit = kTopN;
  node.emit_rank = true;
  arrow::FieldVector fields = bids.schema->fields();
  fields.push_back(arrow::field("rn", arrow::int64(), false));
  node.output = arrow::schema(fields);
  return node;
}

void Report(const char* name, const std::vector<double>& ours, const std::vector<double>& plain,
            double rows, int64_t rows_out, const char* what, uint64_t check) {
  const double value = Median(ours) / rows * 1e9;
  const double peer = Median(plain) / rows * 1e9;
  std::printf(
      "{\"suite\": \"nexmark\", \"case\": \"state.%s\", \"value\": %.2f, \"unit\": \"cpu_ns/row\", "
      "\"better\": \"less\", \"peer\": \"plain_loop\", \"peer_value\": %.2f, \"ratio\": %.2f, "
      "\"rows_out\": %lld, \"%s\": %llu}\n",
      name, value, peer, value / peer, static_cast<long long>(rows_out), what,
      static_cast<unsigned long long>(check));
}

int Run(bool quick) {
  const Bids bids = GenerateBids(quick ? 200'000 : 2'000'000);
  const double rows = static_cast<double>(bids.auctions.size());
  const int repetitions = quick ? 3 : 7;
  std::vector<double> counts, plain_counts, top, plain_top;
  int64_t count_rows = 0, top_rows = 0;
  uint64_t auctions = 0, updates = 0;
  for (int i = 0; i < repetitions; ++i) {
    counts.push_back(RunOperator(CountsNode(bids), bids, &count_rows));
    plain_counts.push_back(RunPlainCounts(bids, &auctions));
    top.push_back(RunOperator(TopNode(bids), bids, &top_rows));
    plain_top.push_back(RunPlainTopN(bids, &updates));
  }
  Report("counts", counts, plain_counts, rows, count_rows, "keys", auctions);
  Report("q19", top, plain_top, rows, top_rows, "updates_of_the_loop", updates);
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  return cairn::Run(argc > 1 && std::strcmp(argv[1], "--quick") == 0);
}

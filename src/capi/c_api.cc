// SPDX-License-Identifier: Apache-2.0
//
// The C interface over cairn/state_store.h: it converts and decides nothing. No exception leaves a
// function; the last error is kept by thread.
#include "cairn/c.h"

#include <charconv>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "cairn/state_store.h"
#include "capi/handles.h"

using cairn::Bytes;
using cairn::CheckpointHandle;
using cairn::Partition;
using cairn::Recovered;
using cairn::Result;
using cairn::StateStore;
using cairn::StateStoreOptions;
using cairn::Status;
using cairn::capi::Call;
using cairn::capi::Fail;
using cairn::capi::ViewOf;

struct cairn_options {
  StateStoreOptions options;
};
struct cairn_store {
  std::unique_ptr<StateStore> store;
  std::vector<std::unique_ptr<cairn_partition>> partitions;
};
struct cairn_partition {
  Partition* partition;
  Recovered recovered;
  std::vector<cairn_bytes> offsets;
  std::vector<std::unique_ptr<cairn_table>> tables;
};
struct cairn_checkpoint {
  CheckpointHandle handle;
};

namespace {

std::string_view TextOf(cairn_bytes bytes) { return ViewOf(bytes); }

cairn_bytes BytesOf(std::string_view text) { return {text.data(), text.size()}; }

Status Declare(cairn_partition* partition, const char* operator_uid, const char* slot,
               const cairn::TtlConfig& ttl, cairn_table** out) {
  CAIRN_ASSIGN_OR_RETURN(
      auto* table,
      (partition->partition->Operator(operator_uid)->keyed_state<Bytes, std::string>(slot, ttl)));
  partition->tables.push_back(std::make_unique<cairn_table>(cairn_table{table}));
  *out = partition->tables.back().get();
  return {};
}

/// A number of an option.
template <class T>
Status ReadNumber(const char* name, std::string_view text, T* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (error == std::errc() && end == text.data() + text.size()) return {};
  return Status::InvalidArgument(std::string(name) + " = '" + std::string(text) +
                                 "': give a whole number");
}

Status SetOption(StateStoreOptions* options, const char* name, const char* value) {
  const std::string_view option(name);
  if (option == "name") {
    options->name = value;
  } else if (option == "partitions") {
    return ReadNumber(name, value, &options->partitions);
  } else if (option == "checkpoints") {
    options->checkpoints = value;
  } else if (option == "recover_at") {
    return ReadNumber(name, value, &options->recover_at);
  } else if (option == "fresh") {
    const std::string_view flag(value);
    if (flag != "true" && flag != "false") {
      return Status::InvalidArgument("fresh is true or false");
    }
    options->fresh = flag == "true";
  } else {
    return options->Set(name, value);
  }
  return {};
}

/// What an executor of C carries: the task, freed once it ran.
void RunTask(void* argument) {
  const std::unique_ptr<std::function<void()>> task(static_cast<std::function<void()>*>(argument));
  (*task)();
}

Status OpenPartition(cairn_store* store, uint32_t index, cairn_partition** out) {
  CAIRN_ASSIGN_OR_RETURN(Partition * partition, store->store->OpenPartition(index));
  auto made = std::make_unique<cairn_partition>();
  made->partition = partition;
  *out = made.get();
  // An element belongs to the thread that opened its partition.
  store->partitions[index] = std::move(made);
  return {};
}

Status Recover(cairn_partition* partition) {
  CAIRN_ASSIGN_OR_RETURN(partition->recovered, partition->partition->Recover());
  for (const std::string& offsets : partition->recovered.all_offsets) {
    partition->offsets.push_back(BytesOf(offsets));
  }
  return {};
}

}  // namespace

extern "C" {

int32_t cairn_c_api_version(void) { return CAIRN_C_API_VERSION; }

const char* cairn_code_name(cairn_code code) {
  return cairn::StatusCodeName(static_cast<cairn::StatusCode>(code)).data();
}

// --- options -------------------------------------------------------------------------------------

cairn_options* cairn_options_new(void) { return new (std::nothrow) cairn_options(); }
void cairn_options_free(cairn_options* options) { delete options; }

cairn_code cairn_options_set(cairn_options* options, const char* name, const char* value) {
  return Call([&] { return SetOption(&options->options, name, value); });
}

cairn_code cairn_options_set_executor(cairn_options* options, cairn_executor executor,
                                      void* context) {
  return Call([&]() -> Status {
    options->options.executor = nullptr;
    if (executor == nullptr) return {};
    options->options.executor = [executor, context](std::function<void()> task) {
      executor(context, RunTask, new std::function<void()>(std::move(task)));
    };
    return {};
  });
}

// --- store ---------------------------------------------------------------------------------------

cairn_code cairn_store_open(const char* uri, const cairn_options* options, cairn_store** out) {
  return Call([&]() -> Status {
    CAIRN_ASSIGN_OR_RETURN(
        std::unique_ptr<StateStore> store,
        StateStore::Open(uri, options == nullptr ? StateStoreOptions() : options->options));
    auto made = std::make_unique<cairn_store>();
    made->partitions.resize(store->partitions());
    made->store = std::move(store);
    *out = made.release();
    return {};
  });
}

void cairn_store_close(cairn_store* store) { delete store; }

int32_t cairn_store_poll(cairn_store* store) {
  int32_t done = 0;
  Call([&]() -> Status {
    done = store->store->Poll() ? 1 : 0;
    return {};
  });
  return done;
}

uint32_t cairn_store_partition_of(const cairn_store* store, cairn_bytes key) {
  return store->store->PartitionOfBytes(TextOf(key));
}

uint64_t cairn_store_last_checkpoint(const cairn_store* store) {
  return store->store->stats().last_checkpoint;
}

// --- partition -----------------------------------------------------------------------------------

cairn_code cairn_partition_open(cairn_store* store, uint32_t index, cairn_partition** out) {
  return Call([&] { return OpenPartition(store, index, out); });
}

cairn_code cairn_table_declare(cairn_partition* partition, const char* operator_uid,
                               const char* slot, cairn_table** out) {
  return Call([&] { return Declare(partition, operator_uid, slot, {}, out); });
}

cairn_code cairn_table_declare_ttl(cairn_partition* partition, const char* operator_uid,
                                   const char* slot, int64_t ttl_ms, const char* clock,
                                   cairn_table** out) {
  return Call([&]() -> Status {
    const std::optional<cairn::TtlClock> known = cairn::TtlClockOf(clock);
    if (!known.has_value() || ttl_ms <= 0) {
      return Status::InvalidArgument(
          "a time to live is a positive number of milliseconds of the clock event, wall or "
          "stopped_while_down");
    }
    cairn::TtlConfig ttl;
    ttl.ttl_ms = ttl_ms;
    ttl.clock = *known;
    return Declare(partition, operator_uid, slot, ttl, out);
  });
}

cairn_code cairn_partition_recover(cairn_partition* partition, uint64_t* checkpoint,
                                   cairn_bytes* offsets) {
  return Call([&]() -> Status {
    CAIRN_RETURN_IF_ERROR(Recover(partition));
    if (checkpoint != nullptr) *checkpoint = partition->recovered.checkpoint;
    if (offsets != nullptr) *offsets = BytesOf(partition->recovered.offsets);
    return {};
  });
}

size_t cairn_partition_recovered_offsets(const cairn_partition* partition,
                                         const cairn_bytes** offsets) {
  *offsets = partition->offsets.data();
  return partition->offsets.size();
}

cairn_code cairn_partition_advance_watermark(cairn_partition* partition, int64_t time_ms) {
  return Call([&] { return partition->partition->AdvanceWatermark(time_ms); });
}

void cairn_partition_maintain(cairn_partition* partition, int64_t budget_ns) {
  Call([&]() -> Status {
    partition->partition->Maintain(std::chrono::nanoseconds(budget_ns));
    return {};
  });
}

int32_t cairn_partition_checkpoint_due(const cairn_partition* partition) {
  return partition->partition->CheckpointDue() ? 1 : 0;
}

// --- tables --------------------------------------------------------------------------------------

cairn_code cairn_table_put(cairn_table* table, size_t count, const cairn_bytes* keys,
                           const cairn_bytes* values, size_t* done) {
  size_t written = 0;
  const cairn_code code = Call([&] {
    const auto key_at = [&](size_t i) { return TextOf(keys[i]); };
    const auto fnv_at = [&](size_t i) { return cairn::Fnv1a64(TextOf(keys[i])); };
    return table->table->UpdateBatch(count, key_at, fnv_at,
                                     [&](size_t i, std::string& value, bool) {
                                       value.assign(TextOf(values[i]));
                                       ++written;
                                     });
  });
  if (done != nullptr) *done = written;
  return code;
}

cairn_code cairn_table_get(cairn_table* table, size_t count, const cairn_bytes* keys,
                           cairn_bytes* values) {
  return Call([&]() -> Status {
    const auto key_at = [&](size_t i) { return TextOf(keys[i]); };
    const auto fnv_at = [&](size_t i) { return cairn::Fnv1a64(TextOf(keys[i])); };
    table->table->FindBatch(count, key_at, fnv_at, [&](size_t i, const std::string* value) {
      values[i] = value == nullptr ? cairn_bytes{nullptr, 0} : BytesOf(*value);
    });
    return {};
  });
}

cairn_code cairn_table_erase(cairn_table* table, size_t count, const cairn_bytes* keys,
                             size_t* erased) {
  size_t gone = 0;
  const cairn_code code = Call([&]() -> Status {
    for (size_t i = 0; i < count; ++i) gone += table->table->Erase(TextOf(keys[i])) ? 1 : 0;
    return {};
  });
  if (erased != nullptr) *erased = gone;
  return code;
}

uint64_t cairn_table_size(const cairn_table* table) { return table->table->size(); }

// --- checkpoints ---------------------------------------------------------------------------------

cairn_code cairn_partition_checkpoint(cairn_partition* partition, cairn_bytes offsets,
                                      cairn_checkpoint** out) {
  return Call([&]() -> Status {
    CAIRN_ASSIGN_OR_RETURN(CheckpointHandle handle,
                           partition->partition->Checkpoint(TextOf(offsets)));
    if (out != nullptr) *out = new cairn_checkpoint{std::move(handle)};
    return {};
  });
}

uint64_t cairn_checkpoint_id(const cairn_checkpoint* checkpoint) { return checkpoint->handle.id(); }

int32_t cairn_checkpoint_done(const cairn_checkpoint* checkpoint) {
  return checkpoint->handle.done() ? 1 : 0;
}

cairn_code cairn_checkpoint_result(const cairn_checkpoint* checkpoint) {
  return Call([&] { return checkpoint->handle.result(); });
}

cairn_code cairn_checkpoint_wait(cairn_checkpoint* checkpoint) {
  return Call([&] { return checkpoint->handle.Wait(); });
}

void cairn_checkpoint_on_done(cairn_checkpoint* checkpoint,
                              void (*fn)(void* context, cairn_code code, const char* message),
                              void* context) {
  checkpoint->handle.OnDone([fn, context](const Status& status) {
    fn(context, static_cast<cairn_code>(status.code()), status.ToString().c_str());
  });
}

void cairn_checkpoint_free(cairn_checkpoint* checkpoint) { delete checkpoint; }

// --- views ---------------------------------------------------------------------------------------

cairn_code cairn_view_capture(cairn_partition* partition, cairn_view** out) {
  return Call([&]() -> Status {
    *out = new cairn_view{partition->partition->Capture()};
    return {};
  });
}

cairn_code cairn_view_latest(cairn_partition* partition, cairn_view** out) {
  return Call([&]() -> Status {
    cairn::View view = partition->partition->LatestView();
    if (!view) {
      return Status::NotFound("no view is published yet; cairn_partition_maintain publishes one");
    }
    *out = new cairn_view{std::move(view)};
    return {};
  });
}

cairn_code cairn_view_get(const cairn_view* view, const cairn_table* table, cairn_bytes key,
                          void* buffer, size_t capacity, size_t* size) {
  return Call([&]() -> Status {
    Status copied;
    const auto copy = [&](const std::string& value) {
      *size = value.size();
      if (value.size() > capacity) {
        copied = Status::ResourceExhausted("the value has " + std::to_string(value.size()) +
                                           " bytes, the buffer " + std::to_string(capacity));
      } else if (!value.empty()) {
        std::memcpy(buffer, value.data(), value.size());
      }
    };
    if (table->table->Get(view->view, TextOf(key), copy)) return copied;
    return Status::NotFound("the view shows no such key");
  });
}

uint64_t cairn_view_count(const cairn_view* view, const cairn_table* table) {
  return table->table->CountRows(view->view);
}

void cairn_view_free(cairn_view* view) { delete view; }

}  // extern "C"

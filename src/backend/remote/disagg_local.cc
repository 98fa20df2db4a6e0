// SPDX-License-Identifier: Apache-2.0
#include "backend/remote/disagg_local.h"

#include <utility>

#include "backend/remote/layered_pool.h"
#include "backend/remote/remote_read_backend.h"
#include "backend/write_rules.h"

namespace cairn::backend {
namespace {

std::string LocationOf(const std::string& name, uint32_t subtask, uint32_t parallelism) {
  return "disagg-local/" + name + "/" + std::to_string(subtask) + "-of-" +
         std::to_string(parallelism);
}

}  // namespace

Result<std::unique_ptr<StateBackend>> OpenDisaggLocal(const DisaggLocalOptions& options) {
  CAIRN_ASSIGN_OR_RETURN(const format::KeyLayout layout,
                         format::KeyLayout::ForKeyGroups(options.state.key_groups));
  const std::shared_ptr<LayeredPoolStore> store = LayeredPoolStore::Default();
  auto pool = std::make_shared<LayeredPool>(
      store,
      store->MakeLocation(
          LocationOf(options.state.name, options.state.subtask, options.state.parallelism)),
      layout, OwnedGroups(options.state));
  RemoteReadOptions remote;
  remote.backend = options.state;
  remote.uri = options.uri;
  remote.hot_max_bytes = options.hot_max_bytes;
  if (options.io_threads) remote.io_threads = *options.io_threads;
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<StateBackend> opened,
                         RemoteReadBackend::OverPool(std::move(pool), std::move(remote)));
  return opened;
}

Result<std::vector<RestorePart>> FindDisaggLocal(const std::string& name, uint64_t id,
                                                 uint32_t parallelism) {
  std::vector<RestorePart> parts;
  for (uint32_t subtask = 0; subtask < parallelism; ++subtask) {
    const std::string prefix = LocationOf(name, subtask, parallelism);
    std::optional<std::string> location = LayeredPoolStore::Default()->FindLocation(prefix, id);
    if (!location) {
      return Status::NotFound("checkpoint " + std::to_string(id) + " of " + name +
                              " is not in this process for subtask " + std::to_string(subtask) +
                              " of " + std::to_string(parallelism) +
                              ": disagg-local:// keeps checkpoints in memory only");
    }
    RestorePart& part = parts.emplace_back();
    part.snapshot.checkpoint_id = id;
    part.snapshot.form = SnapshotForm::kStored;
    part.snapshot.location = *std::move(location);
    part.subtask = subtask;
    part.parallelism = parallelism;
  }
  return parts;
}

}  // namespace cairn::backend

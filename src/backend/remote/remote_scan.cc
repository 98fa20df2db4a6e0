// SPDX-License-Identifier: Apache-2.0
//
// Scans and exports: the pages of a checkpoint under the writes that it lacks.
//
// What is held for a scan is one page, its copy of the deltas' rows in the range and the checkpoint
// itself; the first two are charged, the last is let go when the reader is too old.
#include <algorithm>
#include <exception>
#include <utility>

#include "backend/remote/remote_lookup.h"
#include "backend/remote/remote_read_backend.h"

namespace cairn::backend {
namespace {

constexpr size_t kRowsAPage = 1024;

std::optional<StateKey> EndOf(OperatorId op, const ScanRange& range) {
  if (range.last) return StateKey(op, *range.last);
  if (op.value == UINT64_MAX) return std::nullopt;
  return StateKey(OperatorId(op.value + 1), "");
}

uint64_t BytesOf(const std::vector<PoolRow>& rows) {
  uint64_t bytes = 0;
  for (const PoolRow& row : rows) {
    bytes += sizeof(PoolRow) + row.key.key.size() + (row.value ? row.value->size() : 0);
  }
  return bytes;
}

}  // namespace

Status RemoteReadBackend::Scan(OperatorId op, const ScanRange& range, const ScanVisitor& visit) {
  const std::string operator_state(layout_.prefix_bytes(), '\xFF');
  if (loader_ != nullptr && !range.first.starts_with(operator_state)) {
    return Status::InvalidArgument(
        "a backend over a loader cannot scan keyed state: the loader answers keys, it lists none");
  }
  return ScanLive(
      {StateKey(op, range.first), EndOf(op, range)},
      [&](OperatorId, std::string_view key, std::string_view value) { return visit(key, value); });
}

Status RemoteReadBackend::ExportLive(const ExportVisitor& visit) {
  if (loader_ != nullptr) {
    return Status::InvalidArgument(
        "a backend over a loader cannot be exported: the loader answers keys, it lists none; "
        "export where the loader reads from");
  }
  return ScanLive({StateKey(), std::nullopt}, visit);
}

Status RemoteReadBackend::ScanLive(const PoolRange& range, const ExportVisitor& visit) {
  ExpiryRule expiry(layout_);
  {
    std::lock_guard lock(mutex_);
    expiry = expiry_;
  }
  Status status;
  CAIRN_RETURN_IF_ERROR(
      ScanRows(range, [&](OperatorId op, std::string_view key, std::string_view value) {
        const Result<bool> dead = expiry.IsDead({op, key}, value);
        if (!dead.ok()) status = dead.status();
        return dead.ok() && (*dead || visit(op, key, value));
      }));
  return status;
}

Status RemoteReadBackend::ScanRows(const PoolRange& range, const ExportVisitor& visit) {
  std::vector<PoolRow> overlay;
  std::list<Reader>::iterator reader;
  uint64_t overlay_bytes = 0;
  {
    std::lock_guard lock(mutex_);
    CAIRN_RETURN_IF_ERROR(CheckOpen());
    overlay = hot_.Overlay(range.first, range.last);
    overlay_bytes = BytesOf(overlay);
    CAIRN_RETURN_IF_ERROR(reader_owner_->Charge(overlay_bytes).WithContext("a scan"));
    readers_.push_front({committed_id_, clock_->MonotonicNanos() / 1'000'000, false});
    reader = readers_.begin();
    Pin(reader->checkpoint);
  }
  Status status;
  try {
    status = ScanPages(*reader, range, std::move(overlay), visit);
  } catch (...) {
    status = StatusOfException(std::current_exception(), "a scan");
  }
  {
    std::lock_guard lock(mutex_);
    if (!reader->expired) Unpin(reader->checkpoint);
    readers_.erase(reader);
    reader_owner_->Release(overlay_bytes);
  }
  RunPurges();
  return status;
}

Status RemoteReadBackend::ScanPages(const Reader& reader, const PoolRange& range,
                                    std::vector<PoolRow> overlay, const ExportVisitor& visit) {
  PoolRange rest = range;
  PoolPage page;
  page.more = reader.checkpoint != 0;
  size_t in_page = 0;
  size_t in_overlay = 0;
  for (;;) {
    if (in_page == page.rows.size() && page.more) {
      const int64_t age = clock_->MonotonicNanos() / 1'000'000 - reader.since_ms;
      if (age > options_.reader_age_max_ms) {
        return Status::Unavailable("a scan or export was open for " + std::to_string(age) +
                                   " ms, at most " + std::to_string(options_.reader_age_max_ms) +
                                   " are allowed: its checkpoint is let go; start again");
      }
      CAIRN_ASSIGN_OR_RETURN(page, pool_->ScanCheckpoint(reader.checkpoint, rest, kRowsAPage));
      in_page = 0;
      if (!page.rows.empty()) {
        rest.first = page.rows.back().key;
        rest.first.key.push_back('\0');  // the next key there can be
      }
      continue;
    }
    const PoolRow* durable = in_page < page.rows.size() ? &page.rows[in_page] : nullptr;
    const PoolRow* written = in_overlay < overlay.size() ? &overlay[in_overlay] : nullptr;
    if (durable == nullptr && written == nullptr) return {};
    if (durable != nullptr && written != nullptr && durable->key == written->key) {
      ++in_page;  // overwritten or erased since
      continue;
    }
    const bool take_durable =
        durable != nullptr && (written == nullptr || durable->key < written->key);
    const PoolRow& row = take_durable ? *durable : *written;
    ++(take_durable ? in_page : in_overlay);
    if (row.value == nullptr || row.value == ErasedOverLoader()) continue;
    if (!visit(row.key.operator_id, row.key.key, *row.value)) return {};
  }
}

}  // namespace cairn::backend

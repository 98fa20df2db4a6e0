// SPDX-License-Identifier: Apache-2.0
#include "stream/exchange.h"

#include <arrow/array.h>
#include <arrow/type.h>

#include <bit>

namespace cairn::stream {
namespace {

/// Append each row to the selection of its owner: the store is unconditional and only the count
/// depends on the row, so nothing is mispredicted.
template <class RowAt, class GroupOf>
void Distribute(size_t count, RowAt row_at, GroupOf group_of, const uint32_t* owner_of_group,
                const std::vector<uint64_t>& hashes, uint32_t* const* out, size_t* sizes) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t row = row_at(i);
    const uint32_t owner = owner_of_group[group_of(hashes[row])];
    out[owner][sizes[owner]++] = row;
  }
}

template <class RowAt>
void DistributeRows(size_t count, RowAt row_at, uint32_t key_groups, const uint32_t* owners,
                    const std::vector<uint64_t>& hashes, uint32_t* const* out, size_t* sizes) {
  if (std::has_single_bit(key_groups)) {
    const uint64_t mask = key_groups - 1;
    Distribute(
        count, row_at, [mask](uint64_t hash) { return hash & mask; }, owners, hashes, out, sizes);
  } else {
    Distribute(
        count, row_at, [key_groups](uint64_t hash) { return hash % key_groups; }, owners, hashes,
        out, sizes);
  }
}

}  // namespace

Result<KeyPartitioner> KeyPartitioner::Make(const ExchangeSpec& exchange, uint32_t parallelism,
                                            uint32_t key_groups) {
  KeyPartitioner partitioner;
  std::vector<format::ColumnSpec> columns;
  if (!exchange.key_columns.empty()) {
    CAIRN_ASSIGN_OR_RETURN(columns, format::ColumnSpecsOf(*exchange.schema, exchange.key_columns));
  }
  CAIRN_ASSIGN_OR_RETURN(partitioner.codec_,
                         format::RowCodec::Make(std::move(columns), format::RowUse::kKey));
  partitioner.key_columns_ = exchange.key_columns;
  partitioner.parallelism_ = parallelism;
  partitioner.key_groups_ = key_groups;
  for (uint32_t group = 0; group < key_groups; ++group) {
    partitioner.owner_of_group_.push_back(OwnerOfKeyGroup(group, parallelism, key_groups));
  }
  return partitioner;
}

Status KeyPartitioner::EncodeKeys(Batch* batch) {
  std::shared_ptr<KeyColumn> keys = key_pool_.Acquire();
  if (key_columns_.empty()) {
    const size_t rows = static_cast<size_t>(batch->rows->num_rows());
    keys->offsets.assign(rows + 1, 0);
    keys->data.clear();
    keys->hashes.assign(rows, Fnv1a64({}));
  } else {
    key_arrays_.clear();
    for (int column : key_columns_) key_arrays_.push_back(batch->rows->column(column));
    CAIRN_RETURN_IF_ERROR(codec_.Encode(key_arrays_, batch->selection.get(), &keys->offsets,
                                        &keys->data, &keys->hashes));
    key_arrays_.clear();
  }
  batch->keys = std::move(keys);
  return {};
}

Status KeyPartitioner::Partition(Batch batch, std::vector<Batch>* out) {
  CAIRN_RETURN_IF_ERROR(EncodeKeys(&batch));
  const size_t count = static_cast<size_t>(batch.num_rows());
  std::vector<std::shared_ptr<std::vector<uint32_t>>> selections;
  std::vector<uint32_t*> rows_of(parallelism_);
  std::vector<size_t> sizes(parallelism_, 0);
  for (uint32_t i = 0; i < parallelism_; ++i) {
    selections.push_back(selection_pool_.Acquire());
    selections.back()->resize(count);
    rows_of[i] = selections.back()->data();
  }
  const std::vector<uint64_t>& hashes = batch.keys->hashes;
  if (batch.selection != nullptr) {
    const uint32_t* selected = batch.selection->data();
    DistributeRows(
        count, [selected](size_t i) { return selected[i]; }, key_groups_, owner_of_group_.data(),
        hashes, rows_of.data(), sizes.data());
  } else {
    DistributeRows(
        count, [](size_t i) { return static_cast<uint32_t>(i); }, key_groups_,
        owner_of_group_.data(), hashes, rows_of.data(), sizes.data());
  }
  out->assign(parallelism_, batch);
  for (uint32_t i = 0; i < parallelism_; ++i) {
    selections[i]->resize(sizes[i]);
    (*out)[i].selection = std::move(selections[i]);
  }
  return {};
}

}  // namespace cairn::stream

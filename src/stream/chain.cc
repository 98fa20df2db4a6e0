// SPDX-License-Identifier: Apache-2.0
#include "stream/chain.h"

#include <arrow/array/data.h>
#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>

#include <utility>

#include "stream/exchange.h"

namespace cairn::stream {
namespace {

/// Memory that a batch keeps alive, shared out by the rows each receiver got.
uint64_t ShareOfBytes(uint64_t total, const Batch& batch) {
  const uint64_t rows = static_cast<uint64_t>(batch.rows->num_rows());
  return rows == 0 ? 0 : total * static_cast<uint64_t>(batch.num_rows()) / rows;
}

}  // namespace

/// Pass a batch to every child. With one child the batch is moved, never copied.
class Chain::Fanout final : public ChainNode {
 public:
  void AddChild(ChainNode* child) { children_.push_back(child); }

  Status Emit(Batch batch) override {
    if (batch.rows == nullptr || batch.num_rows() == 0 || children_.empty()) return {};
    for (size_t i = 0; i + 1 < children_.size(); ++i) {
      CAIRN_RETURN_IF_ERROR(children_[i]->Emit(batch));
    }
    return children_.back()->Emit(std::move(batch));
  }

 private:
  std::vector<ChainNode*> children_;
};

class Chain::OperatorNode final : public ChainNode {
 public:
  OperatorNode(std::string uid, std::unique_ptr<Operator> op)
      : uid_(std::move(uid)), op_(std::move(op)) {}

  Fanout* output() { return &output_; }

  Status Open(const OperatorContext& context) override {
    OperatorContext own = context;
    own.uid = uid_;
    return op_->Open(own).WithContext(uid_);
  }
  std::vector<state::StateTable*> tables() override { return op_->tables(); }
  Status Emit(Batch batch) override { return Named(op_->ProcessBatch(std::move(batch), &output_)); }
  Status OnWatermark(int64_t time_ms) override {
    return Named(op_->OnWatermark(time_ms, &output_));
  }
  std::optional<int64_t> NextProcessingTime() override { return op_->NextProcessingTime(); }
  Status OnProcessingTime(int64_t now_ms) override {
    return Named(op_->OnProcessingTime(now_ms, &output_));
  }
  Status EndInput() override {
    CAIRN_RETURN_IF_ERROR(Named(op_->OnWatermark(kEndOfTime, &output_)));
    CAIRN_RETURN_IF_ERROR(Named(op_->EndInput(&output_)));
    return Flush();
  }
  Status Flush() override { return Named(op_->Flush(&output_)); }

 private:
  /// Name the operator where the error arose, not again in each one before it.
  Status Named(Status status) const {
    if (status.ok() || status.message().starts_with("operator ")) return status;
    return status.WithContext("operator " + uid_);
  }

  const std::string uid_;
  std::unique_ptr<Operator> op_;
  Fanout output_;
};

class Chain::SinkNode final : public ChainNode {
 public:
  SinkNode(std::string uid, std::unique_ptr<SinkWriter> writer, TaskMetrics* metrics)
      : uid_(std::move(uid)),
        context_("operator " + uid_ + " (sink)"),
        writer_(std::move(writer)),
        metrics_(metrics) {}

  Status Emit(Batch batch) override {
    Add(&metrics_->rows_out, static_cast<uint64_t>(batch.num_rows()));
    return writer_->Write(batch).WithContext(context_);
  }

  Status Prepare(base::CheckpointId id, std::vector<PreparedRows>* prepared) override {
    Result<std::optional<std::string>> descriptor = writer_->Prepare(id);
    if (!descriptor.ok()) return descriptor.status().WithContext(context_);
    if (descriptor->has_value()) prepared->push_back({uid_, **std::move(descriptor)});
    return {};
  }

 private:
  const std::string uid_;
  const std::string context_;
  std::unique_ptr<SinkWriter> writer_;
  TaskMetrics* metrics_;
};

/// Partition by key and send to the subtasks of another stage.
class Chain::SendNode final : public ChainNode {
 public:
  SendNode(KeyPartitioner partitioner, std::vector<OutputChannel> channels)
      : partitioner_(std::move(partitioner)), channels_(std::move(channels)) {}

  Status Emit(Batch batch) override {
    const uint64_t bytes = static_cast<uint64_t>(arrow::util::TotalBufferSize(*batch.rows));
    CAIRN_RETURN_IF_ERROR(partitioner_.Partition(std::move(batch), &parts_));
    for (size_t i = 0; i < channels_.size(); ++i) {
      if (parts_[i].num_rows() == 0) continue;
      const uint64_t share = ShareOfBytes(bytes, parts_[i]);
      CAIRN_RETURN_IF_ERROR(
          channels_[i].mailbox->Push(channels_[i].channel, {std::move(parts_[i]), share}));
    }
    parts_.clear();
    return {};
  }

  Status OnWatermark(int64_t time_ms) override { return SendAll({Watermark{time_ms}}); }
  Status SendBarrier(const Barrier& barrier) override { return SendAll({barrier}); }
  Status SendEnd() override { return SendAll({EndOfInput{}}); }

 private:
  Status SendAll(const Message& message) {
    for (const OutputChannel& out : channels_) {
      CAIRN_RETURN_IF_ERROR(out.mailbox->Push(out.channel, message));
    }
    return {};
  }

  KeyPartitioner partitioner_;
  std::vector<OutputChannel> channels_;
  std::vector<Batch> parts_;
};

/// The exchange of a job with one subtask: keys are computed, the call is direct.
class Chain::DirectNode final : public ChainNode {
 public:
  explicit DirectNode(KeyPartitioner partitioner) : partitioner_(std::move(partitioner)) {}

  Fanout* output() { return &output_; }

  Status Emit(Batch batch) override {
    CAIRN_RETURN_IF_ERROR(partitioner_.EncodeKeys(&batch));
    return output_.Emit(std::move(batch));
  }

 private:
  KeyPartitioner partitioner_;
  Fanout output_;
};

Status Chain::AddStage(const Plan& plan, size_t stage_index, Fanout* input) {
  const StageSpec& stage = plan.graph->stages[stage_index];
  std::vector<Fanout*> outputs;  // of the stage's nodes; null = a node without children
  for (const NodeSpec& spec : stage.nodes) {
    Fanout* parent = spec.parent < 0 ? input : outputs[static_cast<size_t>(spec.parent)];
    if (parent == nullptr) return Status::Internal("a sink or exchange cannot have children");
    std::unique_ptr<ChainNode> node;
    Fanout* output = nullptr;
    Fanout* next_stage = nullptr;
    if (spec.op != nullptr) {
      auto op = std::make_unique<OperatorNode>(spec.uid, spec.op->Create());
      output = op->output();
      node = std::move(op);
    } else if (spec.sink != nullptr) {
      CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<SinkWriter> writer,
                             spec.sink->CreateWriter(plan.subtask));
      node = std::make_unique<SinkNode>(spec.uid, std::move(writer), plan.metrics);
    } else {
      CAIRN_ASSIGN_OR_RETURN(
          KeyPartitioner partitioner,
          KeyPartitioner::Make(*spec.exchange, plan.graph->parallelism, plan.graph->key_groups));
      if (plan.direct(spec.exchange->target_stage)) {
        auto direct = std::make_unique<DirectNode>(std::move(partitioner));
        next_stage = direct->output();
        node = std::move(direct);
      } else {
        node = std::make_unique<SendNode>(std::move(partitioner), plan.connect(*spec.exchange));
      }
    }
    parent->AddChild(node.get());
    nodes_.push_back(std::move(node));
    outputs.push_back(output);
    if (next_stage != nullptr) {
      CAIRN_RETURN_IF_ERROR(AddStage(plan, spec.exchange->target_stage, next_stage));
    }
  }
  return {};
}

Result<std::unique_ptr<Chain>> Chain::Make(const Plan& plan) {
  std::unique_ptr<Chain> chain(new Chain());
  auto root = std::make_unique<Fanout>();
  CAIRN_RETURN_IF_ERROR(chain->AddStage(plan, plan.stage, root.get()));
  chain->root_ = std::move(root);
  return chain;
}

Status Chain::Open(const OperatorContext& context) {
  for (const auto& node : nodes_) {
    CAIRN_RETURN_IF_ERROR(node->Open(context));
    for (state::StateTable* table : node->tables()) tables_.push_back(table);
  }
  return {};
}

Status Chain::OnWatermark(int64_t time_ms) {
  for (const auto& node : nodes_) CAIRN_RETURN_IF_ERROR(node->OnWatermark(time_ms));
  return {};
}

std::optional<int64_t> Chain::NextProcessingTime() {
  std::optional<int64_t> first;
  for (const auto& node : nodes_) {
    const std::optional<int64_t> next = node->NextProcessingTime();
    if (next.has_value() && (!first.has_value() || *next < *first)) first = next;
  }
  return first;
}

Status Chain::OnProcessingTime(int64_t now_ms) {
  for (const auto& node : nodes_) CAIRN_RETURN_IF_ERROR(node->OnProcessingTime(now_ms));
  return {};
}

Status Chain::EndInput() {
  for (const auto& node : nodes_) CAIRN_RETURN_IF_ERROR(node->EndInput());
  return {};
}

Status Chain::Flush() {
  for (const auto& node : nodes_) CAIRN_RETURN_IF_ERROR(node->Flush());
  return {};
}

Status Chain::SendBarrier(const Barrier& barrier) {
  for (const auto& node : nodes_) CAIRN_RETURN_IF_ERROR(node->SendBarrier(barrier));
  return {};
}

Status Chain::SendEnd() {
  for (const auto& node : nodes_) CAIRN_RETURN_IF_ERROR(node->SendEnd());
  return {};
}

Status Chain::Prepare(base::CheckpointId id, std::vector<PreparedRows>* prepared) {
  for (const auto& node : nodes_) CAIRN_RETURN_IF_ERROR(node->Prepare(id, prepared));
  return {};
}

}  // namespace cairn::stream

// SPDX-License-Identifier: Apache-2.0
#include "stream/mailbox.h"

#include <chrono>
#include <utility>

namespace cairn::stream {
namespace {

Status Cancelled() { return Status::Cancelled("the job is shutting down"); }

}  // namespace

Mailbox::Mailbox(size_t channels, ChannelLimits limits) : limits_(limits) {
  for (size_t i = 0; i < channels; ++i) channels_.push_back(std::make_unique<Channel>());
}

uint64_t Mailbox::RowsOf(const Message& message) {
  const Batch* batch = std::get_if<Batch>(&message.content);
  return batch == nullptr ? 0 : static_cast<uint64_t>(batch->num_rows());
}

bool Mailbox::HasRoom(const Channel& channel) const {
  return channel.rows == 0 || (channel.rows < limits_.rows && channel.bytes < limits_.bytes);
}

Status Mailbox::Push(size_t channel_index, Message message) {
  const uint64_t rows = RowsOf(message);
  Channel& channel = *channels_[channel_index];
  std::unique_lock lock(mutex_);
  if (rows > 0 && !HasRoom(channel)) {
    channel.producer_waits = true;
    channel.room.wait(lock, [&] { return cancelled() || HasRoom(channel); });
    channel.producer_waits = false;
  }
  if (cancelled()) return Cancelled();
  if (std::holds_alternative<Watermark>(message.content) && !channel.messages.empty() &&
      std::holds_alternative<Watermark>(channel.messages.back().content)) {
    channel.messages.back() = std::move(message);
    return {};
  }
  channel.rows += rows;
  channel.bytes += message.bytes;
  channel.messages.push_back(std::move(message));
  if (owner_waits_ && !channel.blocked) arrival_.notify_one();
  return {};
}

void Mailbox::Post(Control control) {
  std::lock_guard lock(mutex_);
  control_.push_back(control);
  has_control_.store(true, std::memory_order_relaxed);
  if (owner_waits_) arrival_.notify_one();
}

Control Mailbox::TakeControl() {
  const Control control = control_.front();
  control_.pop_front();
  has_control_.store(!control_.empty(), std::memory_order_relaxed);
  return control;
}

std::optional<Delivery> Mailbox::TakeMessage() {
  for (size_t step = 0; step < channels_.size(); ++step) {
    const size_t index = (next_channel_ + step) % channels_.size();
    Channel& channel = *channels_[index];
    if (channel.blocked || channel.messages.empty()) continue;
    next_channel_ = (index + 1) % channels_.size();
    Delivery delivery{index, std::move(channel.messages.front())};
    channel.messages.pop_front();
    channel.rows -= RowsOf(delivery.message);
    channel.bytes -= delivery.message.bytes;
    if (channel.producer_waits && HasRoom(channel)) channel.room.notify_one();
    return delivery;
  }
  return std::nullopt;
}

std::optional<std::variant<Control, Delivery>> Mailbox::TakeEvent() {
  if (!control_.empty()) return TakeControl();
  if (std::optional<Delivery> delivery = TakeMessage()) return *std::move(delivery);
  return std::nullopt;
}

Result<std::variant<Control, Delivery>> Mailbox::Next() {
  std::unique_lock lock(mutex_);
  while (!cancelled()) {
    if (auto event = TakeEvent()) return *std::move(event);
    owner_waits_ = true;
    arrival_.wait(lock);
    owner_waits_ = false;
  }
  return Cancelled();
}

Result<std::optional<std::variant<Control, Delivery>>> Mailbox::NextFor(int64_t wait_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  std::unique_lock lock(mutex_);
  while (!cancelled()) {
    if (auto event = TakeEvent()) return event;
    owner_waits_ = true;
    const std::cv_status woken = arrival_.wait_until(lock, deadline);
    owner_waits_ = false;
    if (woken == std::cv_status::timeout) return TakeEvent();
  }
  return Cancelled();
}

Result<Control> Mailbox::NextControl() {
  std::unique_lock lock(mutex_);
  while (!cancelled()) {
    if (!control_.empty()) return TakeControl();
    owner_waits_ = true;
    arrival_.wait(lock);
    owner_waits_ = false;
  }
  return Cancelled();
}

Result<std::optional<Control>> Mailbox::NextControlFor(int64_t wait_ms) {
  std::unique_lock lock(mutex_);
  owner_waits_ = true;
  arrival_.wait_for(lock, std::chrono::milliseconds(wait_ms),
                    [this] { return cancelled() || !control_.empty(); });
  owner_waits_ = false;
  if (cancelled()) return Cancelled();
  if (control_.empty()) return std::optional<Control>();
  return std::optional<Control>(TakeControl());
}

std::optional<Control> Mailbox::PollControl() {
  if (!has_control_.load(std::memory_order_relaxed)) return std::nullopt;
  std::lock_guard lock(mutex_);
  if (control_.empty()) return std::nullopt;
  return TakeControl();
}

void Mailbox::Block(size_t channel) {
  std::lock_guard lock(mutex_);
  channels_[channel]->blocked = true;
}

void Mailbox::UnblockAll() {
  std::lock_guard lock(mutex_);
  for (auto& channel : channels_) channel->blocked = false;
}

void Mailbox::Cancel() {
  std::lock_guard lock(mutex_);
  cancelled_.store(true, std::memory_order_relaxed);
  arrival_.notify_all();
  for (auto& channel : channels_) channel->room.notify_all();
}

}  // namespace cairn::stream

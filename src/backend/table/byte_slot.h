// SPDX-License-Identifier: Apache-2.0
//
// ByteSlot: a table of any types seen through the bytes of its codecs, for the byte contract. Rows
// are decoded when they are written and encoded when they are read; in between they are typed.
//
// Threads: the table's writer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cairn/bytes.h"
#include "cairn/state_table.h"
#include "cairn/table.h"

namespace cairn::backend {

class ByteSlot {
 public:
  virtual ~ByteSlot() = default;

  /// Shape:    *rows grows by the number of rows that are new.
  /// Errors:   kInvalidArgument for bytes that the codecs refuse · kResourceExhausted.
  virtual Status Put(std::string_view user_key, std::string_view value, uint64_t* rows) = 0;
  /// Append to the value. Errors: kInvalidArgument where values are no byte strings.
  virtual Status Append(std::string_view user_key, std::string_view operand, uint64_t* rows) = 0;
  /// True when there was a row.
  virtual Result<bool> Erase(std::string_view user_key) = 0;
  virtual Status Get(std::string_view user_key, std::optional<std::string>* value) const = 0;
  /// Bytes of the value; 0 when there is none.
  virtual uint64_t ValueBytes(std::string_view user_key) const = 0;

  virtual const StateTable& table() const = 0;
};

/// Makes the table of a slot in a domain.
using SlotMaker = std::function<std::unique_ptr<ByteSlot>(
    StateDomain* domain, const SlotDescriptor& descriptor, const TableOptions& options)>;

template <class K, class V, class KeyCodec = Codec<K>, class ValueCodec = Codec<V>>
class TypedSlot final : public ByteSlot {
 public:
  using Rows = Table<K, V, KeyCodec, ValueCodec>;

  TypedSlot(StateDomain* domain, const SlotDescriptor& descriptor, const TableOptions& options)
      : rows_(domain, descriptor, options) {}

  static SlotMaker Maker() {
    return [](StateDomain* domain, const SlotDescriptor& descriptor, const TableOptions& options) {
      return std::make_unique<TypedSlot>(domain, descriptor, options);
    };
  }

  Rows& rows() { return rows_; }

  Status Put(std::string_view user_key, std::string_view value, uint64_t* rows) override {
    CAIRN_ASSIGN_OR_RETURN(const KeyArg key, DecodeKey(user_key));
    Result<V> decoded = value_codec_.Decode(value);
    if (!decoded.ok()) return Refuse(decoded.status(), "the value of", user_key);
    bool is_new = false;
    CAIRN_RETURN_IF_ERROR(
        rows_.Update(key, [&](V& to, bool inserted) noexcept(std::is_nothrow_move_assignable_v<V>) {
          to = *std::move(decoded);
          is_new = inserted;
        }));
    *rows += is_new ? 1 : 0;
    return {};
  }

  Status Append(std::string_view user_key, std::string_view operand, uint64_t* rows) override {
    if constexpr (std::is_same_v<V, std::string>) {
      CAIRN_ASSIGN_OR_RETURN(const KeyArg key, DecodeKey(user_key));
      bool is_new = false;
      CAIRN_RETURN_IF_ERROR(rows_.Update(key, [&](V& to, bool inserted) noexcept {
        to.append(operand);
        is_new = inserted;
      }));
      *rows += is_new ? 1 : 0;
      return {};
    } else {
      return Refuse(Status::InvalidArgument("values of this slot cannot be appended to"), "",
                    user_key);
    }
  }

  Result<bool> Erase(std::string_view user_key) override {
    CAIRN_ASSIGN_OR_RETURN(const KeyArg key, DecodeKey(user_key));
    return rows_.Erase(key);
  }

  Status Get(std::string_view user_key, std::optional<std::string>* value) const override {
    CAIRN_ASSIGN_OR_RETURN(const KeyArg key, DecodeKey(user_key));
    const V* found = rows_.Find(key);
    if (found == nullptr) return {};
    value->emplace(value_codec_.EncodedSize(*found), '\0');
    value_codec_.Encode(*found, (*value)->data());
    return {};
  }

  uint64_t ValueBytes(std::string_view user_key) const override {
    const Result<KeyArg> key = DecodeKey(user_key);
    const V* found = key.ok() ? rows_.Find(*key) : nullptr;
    return found == nullptr ? 0 : value_codec_.EncodedSize(*found);
  }

  const StateTable& table() const override { return rows_; }

 private:
  using KeyArg = typename Rows::KeyArg;

  Result<KeyArg> DecodeKey(std::string_view user_key) const {
    if constexpr (std::is_same_v<KeyArg, std::string_view>) {
      return user_key;
    } else {
      Result<K> key = key_codec_.Decode(user_key);
      if (!key.ok()) return Refuse(key.status(), "", user_key);
      return *key;
    }
  }

  // Bytes that a caller hands in are his mistake, not damage.
  Status Refuse(const Status& cause, std::string_view of, std::string_view user_key) const {
    return detail::RowErrorOf(rows_.descriptor(),
                              Status::InvalidArgument(std::string(cause.message())),
                              std::string("cannot take ") + std::string(of), user_key);
  }

  Rows rows_;
  KeyCodec key_codec_;
  ValueCodec value_codec_;
};

/// What a slot that nobody declared is.
using BytesSlot = TypedSlot<Bytes, std::string>;

}  // namespace cairn::backend

// SPDX-License-Identifier: Apache-2.0
//
// Canonical JSON: how the records of a checkpoint place are written and strictly read.
//
// Canonical = keys sorted at every level, no spaces, integers only, strings in UTF-8 with the
// shortest escapes. A reader names each field it takes; what it did not take is unknown and
// refused.
//
// Threads: one.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "cairn/status.h"

namespace cairn::format {

using Json = nlohmann::json;  // sorts its keys

/// Print canonically.
///
/// Errors:   kInvalidArgument for text that is not UTF-8; names the record.
Result<std::string> DumpCanonical(const Json& json, std::string_view record);

/// Parse a record's text into a JSON object.
///
/// Errors:   kCorruption; names the record.
Result<Json> ParseRecord(std::string_view bytes, uint64_t bytes_max, std::string_view record);

/// What breaks a record's shape is damage where it is read, and a bug where it is written.
Status AsInternal(const Status& status);

/// Take the fields of one JSON object by name. The first thing that is wrong is kept and everything
/// after it reads as empty, so that a record is read straight through and asked once.
class FieldReader {
 public:
  /// `status` collects the first error of all readers of a record; `path` says where this one is.
  FieldReader(const Json& object, std::string path, Status* status);

  void Read(const char* name, std::string* value);
  void Read(const char* name, bool* value);
  void Read(const char* name, uint64_t* value);
  void Read(const char* name, uint32_t* value);
  void Read(const char* name, uint16_t* value);
  void Read(const char* name, int64_t* value);
  void Read(const char* name, base::CheckpointId* value) { Read(name, &value->value); }
  void Read(const char* name, base::Sha256Digest* value);
  void Read(const char* name, std::vector<std::string>* value);
  void Read(const char* name, std::map<std::string, std::string>* value);
  /// 16 lower-case hex digits.
  void ReadHex16(const char* name, uint64_t* value);
  /// Any bytes, as lower-case hex.
  void ReadHexBytes(const char* name, std::string* value);

  template <class T>
  void ReadOptional(const char* name, std::optional<T>* value) {
    value->reset();
    if (object_.is_object() && object_.contains(name)) Read(name, &value->emplace());
  }

  /// As ReadOptional; null is as good as absent. For records that others wrote.
  template <class T>
  void ReadNullable(const char* name, std::optional<T>* value) {
    value->reset();
    if (!object_.is_object() || !object_.contains(name)) return;
    if (object_.at(name).is_null()) {
      Take(name);
    } else {
      Read(name, &value->emplace());
    }
  }

  /// An object inside this one as its canonical text, for a reader of its own.
  void ReadRecordText(const char* name, std::string* text);

  bool Has(const char* name) const { return object_.is_object() && object_.contains(name); }
  /// Read an object inside this one.
  void ReadObject(const char* name, const std::function<void(FieldReader*)>& read);
  /// Read each element, an object, of an array.
  void ReadArray(const char* name, const std::function<void(FieldReader*)>& read);
  /// Read each member, an object, of an object by its key.
  void ReadMembers(const char* name,
                   const std::function<void(const std::string&, FieldReader*)>& read);
  /// Read each member, an object, of this one by its key: all its names are data.
  void ReadAllMembers(const std::function<void(const std::string&, FieldReader*)>& read);

  /// Report the fields that nobody took.
  void Finish();

  /// Report a value that is not what the field holds.
  void Fail(const char* name, std::string_view what);

 private:
  const Json* Take(const char* name);
  uint64_t ReadUnsigned(const char* name, uint64_t max);

  const Json& object_;
  const std::string path_;
  Status* const status_;
  std::vector<std::string_view> taken_;
};

/// A version that this build does not know: "FORMAT has version 2, this build reads 1; upgrade
/// cairn".
///
/// Errors:   always kUnsupportedFormat.
Status UnknownVersion(std::string_view record, uint64_t version, uint64_t known);

/// Read a whole record: parse its text, refuse another version, take its fields with `read`, refuse
/// those that nobody took.
///
/// Errors:   kUnsupportedFormat · kCorruption; name the record.
Status ReadRecord(std::string_view bytes, uint64_t bytes_max, std::string_view record,
                  uint32_t version, const char* version_field,
                  const std::function<void(FieldReader*)>& read);

/// ReadRecord, then compare with what `serialize` makes of it: only canonical bytes are a record.
Status ReadExactRecord(std::string_view bytes, uint64_t bytes_max, std::string_view record,
                       uint32_t version, const char* version_field,
                       const std::function<void(FieldReader*)>& read,
                       const std::function<Result<std::string>()>& serialize);

/// Print canonically and refuse what is larger than the record may be.
///
/// Errors:   as DumpCanonical · kResourceExhausted.
Result<std::string> PrintRecord(const Json& json, uint64_t bytes_max, std::string_view record);

}  // namespace cairn::format

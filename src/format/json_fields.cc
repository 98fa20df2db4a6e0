// SPDX-License-Identifier: Apache-2.0
#include "format/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace cairn::format {

Result<std::string> DumpCanonical(const Json& json, std::string_view record) {
  try {
    return json.dump();
  } catch (const Json::exception&) {
    return Status::InvalidArgument(
        fmt::format("{} cannot be written: a name or text in it is not UTF-8", record));
  }
}

Result<Json> ParseRecord(std::string_view bytes, uint64_t bytes_max, std::string_view record) {
  if (bytes.size() > bytes_max) {
    return Status::Corruption(
        fmt::format("{} has {} bytes, more than the {} allowed", record, bytes.size(), bytes_max));
  }
  Json json = Json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Status::Corruption(fmt::format("{} is not a JSON object", record));
  return json;
}

Status AsInternal(const Status& status) {
  return status.ok() ? Status() : Status::Internal(std::string(status.message()));
}

FieldReader::FieldReader(const Json& object, std::string path, Status* status)
    : object_(object), path_(std::move(path)), status_(status) {
  if (!object_.is_object() && status_->ok()) {
    *status_ = Status::Corruption(fmt::format("{} is not an object", path_));
  }
}

void FieldReader::Fail(const char* name, std::string_view what) {
  if (status_->ok()) *status_ = Status::Corruption(fmt::format("{}.{} {}", path_, name, what));
}

const Json* FieldReader::Take(const char* name) {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(name);
  if (found == object_.end()) {
    Fail(name, "is missing");
    return nullptr;
  }
  taken_.push_back(name);
  return &*found;
}

void FieldReader::Read(const char* name, std::string* value) {
  const Json* json = Take(name);
  if (json == nullptr) return;
  if (!json->is_string()) return Fail(name, "is not a text");
  *value = json->get_ref<const std::string&>();
}

void FieldReader::Read(const char* name, bool* value) {
  const Json* json = Take(name);
  if (json == nullptr) return;
  if (!json->is_boolean()) return Fail(name, "is neither true nor false");
  *value = json->get<bool>();
}

uint64_t FieldReader::ReadUnsigned(const char* name, uint64_t max) {
  const Json* json = Take(name);
  if (json == nullptr) return 0;
  if (!json->is_number_unsigned() || json->get<uint64_t>() > max) {
    Fail(name, fmt::format("is not an integer of 0..{}", max));
    return 0;
  }
  return json->get<uint64_t>();
}

void FieldReader::Read(const char* name, uint64_t* value) {
  *value = ReadUnsigned(name, std::numeric_limits<uint64_t>::max());
}
void FieldReader::Read(const char* name, uint32_t* value) {
  *value = static_cast<uint32_t>(ReadUnsigned(name, std::numeric_limits<uint32_t>::max()));
}
void FieldReader::Read(const char* name, uint16_t* value) {
  *value = static_cast<uint16_t>(ReadUnsigned(name, std::numeric_limits<uint16_t>::max()));
}

void FieldReader::Read(const char* name, int64_t* value) {
  const Json* json = Take(name);
  if (json == nullptr) return;
  if (!json->is_number_integer() ||
      (json->is_number_unsigned() &&
       json->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))) {
    return Fail(name, "is not a signed 64-bit integer");
  }
  *value = json->get<int64_t>();
}

void FieldReader::Read(const char* name, base::Sha256Digest* value) {
  std::string text;
  Read(name, &text);
  std::string bytes;
  if (!status_->ok()) return;
  if (text.size() != 64 || !base::FromHex(text, &bytes)) return Fail(name, "is not a SHA-256");
  std::copy(bytes.begin(), bytes.end(), value->begin());
}

void FieldReader::Read(const char* name, std::vector<std::string>* value) {
  const Json* json = Take(name);
  if (json == nullptr) return;
  if (!json->is_array()) return Fail(name, "is not an array");
  for (const Json& element : *json) {
    if (!element.is_string()) return Fail(name, "holds something other than texts");
    value->push_back(element.get_ref<const std::string&>());
  }
}

void FieldReader::Read(const char* name, std::map<std::string, std::string>* value) {
  const Json* json = Take(name);
  if (json == nullptr) return;
  if (!json->is_object()) return Fail(name, "is not an object");
  for (const auto& [key, element] : json->items()) {
    if (!element.is_string()) return Fail(name, "holds something other than texts");
    (*value)[key] = element.get_ref<const std::string&>();
  }
}

void FieldReader::ReadHex16(const char* name, uint64_t* value) {
  std::string text;
  Read(name, &text);
  base::OperatorId id;
  if (!status_->ok()) return;
  if (!base::ParseHex16(text, &id)) return Fail(name, "is not 16 hex digits");
  *value = id.value;
}

void FieldReader::ReadHexBytes(const char* name, std::string* value) {
  std::string text;
  Read(name, &text);
  if (status_->ok() && !base::FromHex(text, value)) Fail(name, "is not hex");
}

void FieldReader::ReadRecordText(const char* name, std::string* text) {
  const Json* json = Take(name);
  if (json == nullptr) return;
  if (!json->is_object()) return Fail(name, "is not an object");
  *text = json->dump(-1, ' ', false, Json::error_handler_t::replace);
}

void FieldReader::ReadObject(const char* name, const std::function<void(FieldReader*)>& read) {
  const Json* json = Take(name);
  if (json == nullptr || !status_->ok()) return;
  FieldReader reader(*json, fmt::format("{}.{}", path_, name), status_);
  read(&reader);
  reader.Finish();
}

void FieldReader::ReadArray(const char* name, const std::function<void(FieldReader*)>& read) {
  const Json* json = Take(name);
  if (json == nullptr) return;
  if (!json->is_array()) return Fail(name, "is not an array");
  size_t index = 0;
  for (const Json& element : *json) {
    if (!status_->ok()) return;
    FieldReader reader(element, fmt::format("{}.{}[{}]", path_, name, index++), status_);
    read(&reader);
    reader.Finish();
  }
}

void FieldReader::ReadMembers(const char* name,
                              const std::function<void(const std::string&, FieldReader*)>& read) {
  const Json* json = Take(name);
  if (json == nullptr) return;
  if (!json->is_object()) return Fail(name, "is not an object");
  for (const auto& [key, element] : json->items()) {
    if (!status_->ok()) return;
    FieldReader reader(element, fmt::format("{}.{}.{}", path_, name, key), status_);
    read(key, &reader);
    reader.Finish();
  }
}

void FieldReader::ReadAllMembers(
    const std::function<void(const std::string&, FieldReader*)>& read) {
  if (!object_.is_object()) return;
  for (auto at = object_.begin(); at != object_.end() && status_->ok(); ++at) {
    taken_.push_back(at.key());
    FieldReader reader(*at, fmt::format("{}.{}", path_, at.key()), status_);
    read(at.key(), &reader);
    reader.Finish();
  }
}

void FieldReader::Finish() {
  if (!status_->ok() || !object_.is_object() || object_.size() == taken_.size()) return;
  for (const auto& [key, element] : object_.items()) {
    if (std::find(taken_.begin(), taken_.end(), key) != taken_.end()) continue;
    *status_ = Status::Corruption(fmt::format("{}.{} is an unknown field", path_, key));
    return;
  }
}

Status UnknownVersion(std::string_view record, uint64_t version, uint64_t known) {
  return Status::UnsupportedFormat(fmt::format("{} has version {}, this build reads {}{}", record,
                                               version, known,
                                               version > known ? "; upgrade cairn" : ""));
}

Status ReadRecord(std::string_view bytes, uint64_t bytes_max, std::string_view record,
                  uint32_t version, const char* version_field,
                  const std::function<void(FieldReader*)>& read) {
  CAIRN_ASSIGN_OR_RETURN(const Json json, ParseRecord(bytes, bytes_max, record));
  const auto found = json.find(version_field);
  if (found == json.end() || !found->is_number_unsigned()) {
    return Status::Corruption(fmt::format("{}.{} is not a number", record, version_field));
  }
  if (*found != version) {
    return UnknownVersion(record, found->get<uint64_t>(), version);
  }
  Status status;
  FieldReader reader(json, std::string(record), &status);
  uint32_t ignored = 0;
  reader.Read(version_field, &ignored);
  read(&reader);
  reader.Finish();
  return status;
}

Status ReadExactRecord(std::string_view bytes, uint64_t bytes_max, std::string_view record,
                       uint32_t version, const char* version_field,
                       const std::function<void(FieldReader*)>& read,
                       const std::function<Result<std::string>()>& serialize) {
  CAIRN_RETURN_IF_ERROR(ReadRecord(bytes, bytes_max, record, version, version_field, read));
  const Result<std::string> canonical = serialize();
  if (!canonical.ok()) return Status::Corruption(std::string(canonical.status().message()));
  if (*canonical != bytes) {
    return Status::Corruption(fmt::format("{} is not in canonical form", record));
  }
  return {};
}

Result<std::string> PrintRecord(const Json& json, uint64_t bytes_max, std::string_view record) {
  CAIRN_ASSIGN_OR_RETURN(std::string bytes, DumpCanonical(json, record));
  if (bytes.size() <= bytes_max) return bytes;
  return Status::ResourceExhausted(
      fmt::format("{} has {} bytes, more than the {} allowed", record, bytes.size(), bytes_max));
}

}  // namespace cairn::format

// SPDX-License-Identifier: Apache-2.0
#include "connectors/option_reader.h"

#include <algorithm>
#include <charconv>

namespace cairn::connectors {

const std::string* OptionReader::Find(const std::string& name) {
  AlsoKnown({name});
  const auto found = table_.options.find(name);
  return found == table_.options.end() ? nullptr : &found->second;
}

void OptionReader::AlsoKnown(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) known_.push_back(name);
  }
}

void OptionReader::Fail(const std::string& name, const std::string& reason) {
  if (!error_.ok()) return;
  error_ = Status::InvalidArgument("table " + table_.name + ": option " + name + " " + reason);
}

std::string OptionReader::Text(const std::string& name, const std::string& otherwise) {
  const std::string* value = Find(name);
  return value == nullptr ? otherwise : *value;
}

std::string OptionReader::RequiredText(const std::string& name) {
  const std::string* value = Find(name);
  if (value != nullptr && !value->empty()) return *value;
  Fail(name, "is missing; the " + table_.connector + " connector needs it");
  return {};
}

bool OptionReader::Bool(const std::string& name, bool otherwise) {
  const std::string* value = Find(name);
  if (value == nullptr) return otherwise;
  if (*value == "true" || *value == "TRUE" || *value == "1") return true;
  if (*value != "false" && *value != "FALSE" && *value != "0") {
    Fail(name, "is '" + *value + "'; it may be true or false");
  }
  return false;
}

uint64_t OptionReader::Number(const std::string& name, uint64_t otherwise, uint64_t min,
                              uint64_t max) {
  const std::string* value = Find(name);
  if (value == nullptr) return otherwise;
  uint64_t number = 0;
  const char* const end = value->data() + value->size();
  const auto result = std::from_chars(value->data(), end, number);
  if (result.ec != std::errc() || result.ptr != end || number < min || number > max) {
    Fail(name, "is '" + *value + "'; it may be a whole number from " + std::to_string(min) +
                   " to " + std::to_string(max));
    return otherwise;
  }
  return number;
}

char OptionReader::Char(const std::string& name, char otherwise) {
  const std::string* value = Find(name);
  if (value == nullptr) return otherwise;
  if (*value == "\\t") return '\t';
  if (value->size() == 1 && value->front() != '\n' && value->front() != '\r') {
    return value->front();
  }
  Fail(name, "is '" + *value + "'; it may be one character, or \\t for the tab");
  return otherwise;
}

size_t OptionReader::Choice(const std::string& name, const std::vector<std::string>& values,
                            size_t otherwise) {
  const std::string* value = Find(name);
  if (value == nullptr) return otherwise;
  const auto found = std::find(values.begin(), values.end(), *value);
  if (found != values.end()) return static_cast<size_t>(found - values.begin());
  std::string list;
  for (const std::string& known : values) list += (list.empty() ? "" : ", ") + known;
  Fail(name, "is '" + *value + "'; it may be one of: " + list);
  return otherwise;
}

Status OptionReader::Finish() const {
  CAIRN_RETURN_IF_ERROR(error_);
  for (const auto& [name, value] : table_.options) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    std::string list;
    for (const std::string& known : known_) list += (list.empty() ? "" : ", ") + known;
    return Status::InvalidArgument("table " + table_.name + ": the " + table_.connector +
                                   " connector has no option " + name + " here; it knows: " + list);
  }
  return {};
}

}  // namespace cairn::connectors

// SPDX-License-Identifier: Apache-2.0
#include "connectors/option_reader.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "stream/event_time_options.h"

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
  return taken_[name] = value == nullptr ? otherwise : *value;
}

std::string OptionReader::RequiredText(const std::string& name) {
  const std::string* value = Find(name);
  if (value != nullptr && !value->empty()) return taken_[name] = *value;
  Fail(name, "is missing; the " + table_.connector + " connector needs it");
  return {};
}

std::string OptionReader::Path(const std::string& name) {
  std::string path = RequiredText(name);
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return taken_[name] = path;
}

bool OptionReader::Bool(const std::string& name, bool otherwise) {
  const std::string* value = Find(name);
  bool on = otherwise;
  if (value != nullptr) {
    on = *value == "true" || *value == "TRUE" || *value == "1";
    if (!on && *value != "false" && *value != "FALSE" && *value != "0") {
      Fail(name, "is '" + *value + "'; it may be true or false");
    }
  }
  taken_[name] = on ? "true" : "false";
  return on;
}

uint64_t OptionReader::Number(const std::string& name, uint64_t otherwise, uint64_t min,
                              uint64_t max) {
  const std::string* value = Find(name);
  uint64_t number = otherwise;
  if (value != nullptr) {
    const char* const end = value->data() + value->size();
    const auto result = std::from_chars(value->data(), end, number);
    if (result.ec != std::errc() || result.ptr != end || number < min || number > max) {
      Fail(name, "is '" + *value + "'; it may be a whole number from " + std::to_string(min) +
                     " to " + std::to_string(max));
      number = otherwise;
    }
  }
  taken_[name] = std::to_string(number);
  return number;
}

char OptionReader::Char(const std::string& name, char otherwise) {
  const std::string* value = Find(name);
  char c = otherwise;
  if (value != nullptr && *value == "\\t") {
    c = '\t';
  } else if (value != nullptr && value->size() == 1 && *value != "\n" && *value != "\r") {
    c = value->front();
  } else if (value != nullptr) {
    Fail(name, "is '" + *value + "'; it may be one character, or \\t for the tab");
  }
  taken_[name] = std::string(1, c);
  return c;
}

size_t OptionReader::Choice(const std::string& name, const std::vector<std::string>& values,
                            size_t otherwise) {
  const std::string* value = Find(name);
  size_t choice = otherwise;
  if (value != nullptr) {
    const auto found = std::find(values.begin(), values.end(), *value);
    if (found != values.end()) {
      choice = static_cast<size_t>(found - values.begin());
    } else {
      std::string list;
      for (const std::string& known : values) list += (list.empty() ? "" : ", ") + known;
      Fail(name, "is '" + *value + "'; it may be one of: " + list);
    }
  }
  taken_[name] = values[choice];
  return choice;
}

void OptionReader::MayChange(const std::vector<std::string>& names) {
  may_change_.insert(names.begin(), names.end());
}

std::string OptionReader::Identity() const {
  nlohmann::ordered_json identity;
  identity["connector"] = table_.connector;
  for (const auto& [name, value] : taken_) {
    if (!may_change_.contains(name)) identity[name] = value;
  }
  // A single byte of an option may be half a character.
  return identity.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Status OptionReader::Finish() const {
  CAIRN_RETURN_IF_ERROR(error_);
  for (const auto& [name, value] : table_.options) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    if (name == stream::kWatermarkOption || name == stream::kWatermarkDelayOption) continue;
    std::string list;
    for (const std::string& known : known_) list += (list.empty() ? "" : ", ") + known;
    return Status::InvalidArgument("table " + table_.name + ": the " + table_.connector +
                                   " connector has no option " + name + " here; it knows: " + list);
  }
  return {};
}

}  // namespace cairn::connectors

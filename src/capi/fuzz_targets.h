// SPDX-License-Identifier: Apache-2.0
//
// The C interface under any calls, for libFuzzer (c_api_fuzz.cc) and for the replay of its findings
// (fuzz_replay_test.cc): the bytes are a script of calls, compared with a plain map.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include "base/check.h"
#include "cairn/c.h"

namespace cairn::capi {

/// Takes a script apart; gives zeros and empty texts behind its end.
class CallScript {
 public:
  explicit CallScript(std::string_view bytes) : rest_(bytes) {}
  bool empty() const { return rest_.empty(); }
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  std::string Text() {
    const std::string_view text = rest_.substr(0, Byte());
    rest_.remove_prefix(text.size());
    return std::string(text);
  }

 private:
  std::string_view rest_;
};

inline cairn_bytes BytesOf(const std::string& text) { return {text.data(), text.size()}; }

/// One open table beside the map that it must equal.
class ScriptedTable {
 public:
  ScriptedTable(cairn_partition* partition, cairn_table* table)
      : partition_(partition), table_(table) {}

  void Run(CallScript* script) {
    while (!script->empty()) {
      const uint8_t call = script->Byte();
      const std::string key = script->Text();
      if (call % 4 == 0) {
        Put(key, script->Text());
      } else if (call % 4 == 1) {
        Erase(key);
      } else if (call % 4 == 2) {
        CheckView(key);
      } else {
        CheckGet(key);
      }
      CAIRN_CHECK(cairn_table_size(table_) == model_.size());
    }
  }

 private:
  void Put(const std::string& key, const std::string& value) {
    const cairn_bytes k = BytesOf(key), v = BytesOf(value);
    size_t done = 7;
    CAIRN_CHECK(cairn_table_put(table_, 1, &k, &v, &done) == CAIRN_OK && done == 1);
    model_[key] = value;
  }
  void Erase(const std::string& key) {
    const cairn_bytes k = BytesOf(key);
    size_t erased = 7;
    CAIRN_CHECK(cairn_table_erase(table_, 1, &k, &erased) == CAIRN_OK);
    CAIRN_CHECK(erased == model_.erase(key));
  }
  void CheckGet(const std::string& key) {
    const cairn_bytes k = BytesOf(key);
    cairn_bytes value = {nullptr, 7};
    CAIRN_CHECK(cairn_table_get(table_, 1, &k, &value) == CAIRN_OK);
    const auto expected = model_.find(key);
    CAIRN_CHECK((value.data != nullptr) == (expected != model_.end()));
    if (expected == model_.end()) return;
    CAIRN_CHECK(std::string_view(static_cast<const char*>(value.data), value.size) ==
                expected->second);
  }
  void CheckView(const std::string& key) {
    cairn_view* view = nullptr;
    CAIRN_CHECK(cairn_view_capture(partition_, &view) == CAIRN_OK);
    CAIRN_CHECK(cairn_view_count(view, table_) == model_.size());
    char buffer[64];
    size_t size = 0;
    const cairn_code code =
        cairn_view_get(view, table_, BytesOf(key), buffer, sizeof(buffer), &size);
    const auto expected = model_.find(key);
    CAIRN_CHECK((code == CAIRN_NOT_FOUND) == (expected == model_.end()));
    if (expected != model_.end()) {
      CAIRN_CHECK(size == expected->second.size());
      CAIRN_CHECK(code == (size > sizeof(buffer) ? CAIRN_RESOURCE_EXHAUSTED : CAIRN_OK));
      if (code == CAIRN_OK) CAIRN_CHECK(std::memcmp(buffer, expected->second.data(), size) == 0);
    }
    cairn_view_free(view);
  }

  cairn_partition* partition_;
  cairn_table* table_;
  std::map<std::string, std::string> model_;
};

/// A failure that says nothing is one.
inline void CheckRefused(cairn_code code) {
  CAIRN_CHECK(code == CAIRN_OK || std::strlen(cairn_last_error()) > 0);
}

/// The script: an option and its value, an operator and a slot, then calls.
inline void FuzzCApi(std::string_view bytes) {
  CallScript script(bytes);
  cairn_options* options = cairn_options_new();
  const std::string name = script.Text(), value = script.Text();
  if (name != "checkpoints") {  // would write where it says
    CheckRefused(cairn_options_set(options, name.c_str(), value.c_str()));
  }
  cairn_store* store = nullptr;
  const cairn_code opened = cairn_store_open("memory://", options, &store);
  cairn_options_free(options);
  CheckRefused(opened);
  if (opened != CAIRN_OK) return;
  cairn_partition* partition = nullptr;
  cairn_table* table = nullptr;
  CAIRN_CHECK(cairn_partition_open(store, 0, &partition) == CAIRN_OK);
  const std::string uid = script.Text(), slot = script.Text();
  const cairn_code declared = cairn_table_declare(partition, uid.c_str(), slot.c_str(), &table);
  CheckRefused(declared);
  CAIRN_CHECK(cairn_partition_recover(partition, nullptr, nullptr) == CAIRN_OK);
  // With more than one partition a key may belong to another one.
  const bool whole = name != "partitions";
  if (declared == CAIRN_OK && whole) ScriptedTable(partition, table).Run(&script);
  cairn_store_close(store);
}

}  // namespace cairn::capi

// SPDX-License-Identifier: Apache-2.0
#include "sql/parse_tree.h"

#include <pg_query.h>
#include <pthread.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace cairn::sql {
namespace {

// The parser prints its tree recursively: about 170 bytes of stack for a level that costs two bytes
// of text ("a+a+a..."). 256 KiB of text then need 22 MiB; untouched pages of a stack cost nothing.
constexpr size_t kParserStackBytes = 96u << 20;

struct ParserCall {
  const char* text;
  PgQueryParseResult result;
};

void* RunParser(void* argument) {
  auto* call = static_cast<ParserCall*>(argument);
  call->result = pg_query_parse(call->text);
  return nullptr;
}

Status RunParserThread(ParserCall* call) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kParserStackBytes);
  pthread_t thread;
  const int failed = pthread_create(&thread, &attributes, RunParser, call);
  pthread_attr_destroy(&attributes);
  if (failed != 0) {
    return Status::ResourceExhausted("no thread for the SQL parser: pthread_create says " +
                                     std::to_string(failed));
  }
  pthread_join(thread, nullptr);
  return {};
}

// Words that say what to write instead of what PostgreSQL's grammar refuses.
std::string HintFor(const SourceText& text, Place place) {
  const std::string_view rest = text.text().substr(place.offset);
  const std::string_view before = text.text().substr(0, place.offset);
  const auto ends_with_word = [&](std::string_view word) {
    const size_t end = before.find_last_not_of(" \t\r\n");
    if (end == std::string_view::npos || end + 1 < word.size()) return false;
    const std::string_view tail = before.substr(end + 1 - word.size(), word.size());
    return std::equal(tail.begin(), tail.end(), word.begin(), [](char a, char b) {
      return std::toupper(static_cast<unsigned char>(a)) == b;
    });
  };
  if ((rest.starts_with("FOR") || rest.starts_with("for")) && ends_with_word("WATERMARK")) {
    return "; say WITH (watermark = 'COLUMN', watermark_delay = '4s')";
  }
  return "";
}

Status ParserError(const SourceText& text, const PgQueryError& error) {
  const Place place = text.PlaceOfCharacter(error.cursorpos);
  return text.Error(place, std::string(error.message) + HintFor(text, place));
}

const char* FriendlyName(std::string_view field) {
  static constexpr std::pair<std::string_view, const char*> kNames[] = {
      {"sortClause", "ORDER BY outside of ROW_NUMBER() OVER (...)"},
      {"limitCount", "LIMIT"},
      {"limitOffset", "OFFSET"},
      {"lockingClause", "FOR UPDATE / FOR SHARE"},
      {"withClause", "WITH (common table expressions)"},
      {"windowClause", "a WINDOW clause"},
      {"intoClause", "SELECT INTO"},
      {"valuesLists", "VALUES"},
      {"groupDistinct", "GROUP BY DISTINCT"},
      {"larg", "UNION / INTERSECT / EXCEPT"},
      {"onConflictClause", "ON CONFLICT"},
      {"returningList", "RETURNING"},
      {"schemaname", "a schema name"},
      {"catalogname", "a catalog name"},
      {"inhRelations", "INHERITS"},
      {"partspec", "PARTITION BY of a table"},
      {"partbound", "PARTITION OF"},
      {"tablespacename", "TABLESPACE"},
      {"accessMethod", "USING (access method)"},
      {"if_not_exists", "IF NOT EXISTS"},
      {"ofTypename", "OF type"},
      {"collClause", "COLLATE"},
      {"is_local", "SET LOCAL"},
      {"lateral", "LATERAL"},
      {"agg_order", "ORDER BY inside a function call"},
      {"agg_within_group", "WITHIN GROUP"},
      {"func_variadic", "VARIADIC"},
      {"arrayBounds", "an array type"},
      {"setof", "SETOF"},
      {"indirection", "a subscript or field selection"},
      {"compression", "COMPRESSION"},
      {"fdwoptions", "OPTIONS"},
      {"name", "a named window"},
      {"refname", "a named window"},
      {"agg_filter", "FILTER here"},
      {"agg_distinct", "DISTINCT inside a function call"},
      {"agg_star", "* as an argument"},
  };
  for (const auto& [name, friendly] : kNames) {
    if (name == field) return friendly;
  }
  return nullptr;
}

// Where to look for a clause whose node carries no location.
std::string_view KeywordOf(std::string_view field) {
  static constexpr std::pair<std::string_view, std::string_view> kKeywords[] = {
      {"lockingClause", "FOR"},         {"withClause", "WITH"},
      {"intoClause", "INTO"},           {"valuesLists", "VALUES"},
      {"groupDistinct", "DISTINCT"},    {"onConflictClause", "ON"},
      {"returningList", "RETURNING"},   {"inhRelations", "INHERITS"},
      {"tablespacename", "TABLESPACE"}, {"accessMethod", "USING"},
      {"if_not_exists", "IF"},          {"is_local", "LOCAL"},
      {"lateral", "LATERAL"},           {"sortClause", "ORDER"},
      {"limitCount", "LIMIT"},          {"agg_within_group", "WITHIN"},
      {"func_variadic", "VARIADIC"},
  };
  for (const auto& [name, keyword] : kKeywords) {
    if (name == field) return keyword;
  }
  return {};
}

void FirstLocation(const Json& node, int64_t* first) {
  if (node.is_object()) {
    for (const auto& [key, value] : node.items()) {
      if (key == "location" && value.is_number_integer()) {
        const int64_t location = value.get<int64_t>();
        if (location > 0 && (*first < 0 || location < *first)) *first = location;
      } else if (value.is_structured()) {
        FirstLocation(value, first);
      }
    }
  } else if (node.is_array()) {
    for (const Json& value : node) FirstLocation(value, first);
  }
}

// Refuse a tree that nests too deep for the recursive passes that follow, before it is built.
Status CheckDepth(const SourceText& text, std::string_view json) {
  constexpr int kDepthMax = 1500;
  int depth = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') {
      for (++i; i < json.size() && json[i] != '"'; ++i) {
        if (json[i] == '\\') ++i;
      }
    } else if (c == '{' || c == '[') {
      if (++depth > kDepthMax) {
        constexpr std::string_view kLocation = "\"location\":";
        size_t offset = 0;
        if (const size_t at = json.find(kLocation, i); at != std::string_view::npos) {
          for (size_t d = at + kLocation.size(); d < json.size() && std::isdigit(json[d]); ++d) {
            offset = offset * 10 + static_cast<size_t>(json[d] - '0');
          }
        }
        return text.Error({offset}, "the statement nests too deep here");
      }
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return {};
}

Json WithoutLocations(const Json& node) {
  if (node.is_array()) {
    Json out = Json::array();
    for (const Json& value : node) out.push_back(WithoutLocations(value));
    return out;
  }
  if (!node.is_object()) return node;
  Json out = Json::object();
  for (const auto& [key, value] : node.items()) {
    if (key != "location") out[key] = WithoutLocations(value);
  }
  return out;
}

}  // namespace

Node NodeOf(const Json& wrapper) {
  if (!wrapper.is_object() || wrapper.size() != 1) return {};
  const auto member = wrapper.begin();
  if (!member.value().is_object()) return {};
  return {member.key(), &member.value()};
}

const Json* Find(const Json& body, const char* field) {
  const auto found = body.find(field);
  return found == body.end() ? nullptr : &*found;
}

std::string StringField(const Json& body, const char* field) {
  const Json* value = Find(body, field);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

bool BoolField(const Json& body, const char* field) {
  const Json* value = Find(body, field);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

const Json& ListField(const Json& body, const char* field) {
  static const Json kEmpty = Json::array();
  const Json* value = Find(body, field);
  return value != nullptr && value->is_array() ? *value : kEmpty;
}

std::vector<std::string> NamesOf(const Json& list) {
  std::vector<std::string> names;
  for (const Json& member : list) {
    const Node node = NodeOf(member);
    names.push_back(node.is("String") ? StringField(*node.body, "sval") : "*");
  }
  return names;
}

Place PlaceOf(const Json& node, Place fallback) {
  const Node wrapped = NodeOf(node);
  const Json& body = wrapped.body != nullptr ? *wrapped.body : node;
  if (body.is_object()) {
    const Json* own = Find(body, "location");
    if (own != nullptr && own->is_number_integer() && own->get<int64_t>() > 0) {
      return {static_cast<size_t>(own->get<int64_t>())};
    }
  }
  int64_t first = -1;
  FirstLocation(body, &first);
  return first < 0 ? fallback : Place{static_cast<size_t>(first)};
}

std::string ShapeOf(const Json& node) { return WithoutLocations(node).dump(); }

ParseTree::ParseTree() = default;
ParseTree::ParseTree(ParseTree&&) noexcept = default;
ParseTree& ParseTree::operator=(ParseTree&&) noexcept = default;
ParseTree::~ParseTree() = default;

Result<ParseTree> ParseTree::Parse(const SourceText& text) {
  CAIRN_RETURN_IF_ERROR(text.CheckEncoding());
  const std::string copy(text.text());
  ParserCall call{copy.c_str(), {}};
  CAIRN_RETURN_IF_ERROR(RunParserThread(&call));
  struct Release {
    PgQueryParseResult* result;
    ~Release() { pg_query_free_parse_result(*result); }
  } release{&call.result};
  if (call.result.error != nullptr) return ParserError(text, *call.result.error);

  CAIRN_RETURN_IF_ERROR(CheckDepth(text, call.result.parse_tree));

  ParseTree tree;
  tree.root_ = std::make_unique<Json>(Json::parse(call.result.parse_tree, nullptr, false));
  if (tree.root_->is_discarded()) return Status::Internal("the parser's JSON cannot be read");
  for (const Json& entry : ListField(*tree.root_, "stmts")) {
    const Json* wrapper = Find(entry, "stmt");
    if (wrapper == nullptr) continue;
    const Json* location = Find(entry, "stmt_location");
    const Json* length = Find(entry, "stmt_len");
    const size_t begin = location != nullptr ? location->get<size_t>() : 0;
    const size_t end = length != nullptr ? begin + length->get<size_t>() : text.text().size();
    tree.statements_.push_back({NodeOf(*wrapper), text.SkipBlank({begin}), {end}});
  }
  return tree;
}

Status RequireOnly(const SourceText& text, const Json& body, Place place,
                   std::initializer_list<std::string_view> known) {
  for (const auto& [field, value] : body.items()) {
    if (field == "location" || std::find(known.begin(), known.end(), field) != known.end()) {
      continue;
    }
    const char* friendly = FriendlyName(field);
    Place where = value.is_structured() ? PlaceOf(value, place) : place;
    if (field == "larg") {
      where = place;
      for (const char* word : {"UNION", "INTERSECT", "EXCEPT"}) {
        if (where.offset == place.offset) {
          where = text.FindKeyword(word, place, {text.text().size()});
        }
      }
    } else if (where.offset == place.offset) {
      if (const std::string_view keyword = KeywordOf(field); !keyword.empty()) {
        where = text.FindKeyword(keyword, place, {text.text().size()});
      }
    }
    return text.Error(where, friendly != nullptr ? std::string(friendly) + " is not supported"
                                                 : "\"" + field + "\" is not supported");
  }
  return {};
}

}  // namespace cairn::sql

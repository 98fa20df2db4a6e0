// SPDX-License-Identifier: Apache-2.0
//
// ParseTree: PostgreSQL's parse tree of a SQL text, as libpg_query's JSON, with the accessors that
// the compiler needs.
//
// A node is written {"Kind": {field: value, ...}}. Fields that are 0, false or empty are left out.
//
// Threads: a tree is immutable; any.
#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/status.h"
#include "sql/text.h"

namespace cairn::sql {

using Json = nlohmann::json;

/// One node of the tree: its kind ("A_Expr", "ColumnRef", ...) and its fields.
struct Node {
  std::string_view kind;  ///< empty = no node
  const Json* body = nullptr;

  bool is(std::string_view name) const { return kind == name; }
};

/// Return the node that `wrapper` ({"Kind": {...}}) is; an empty one when it is no node.
Node NodeOf(const Json& wrapper);

/// Return a field of a node's body, or null when it is left out.
const Json* Find(const Json& body, const char* field);
std::string StringField(const Json& body, const char* field);  ///< "" when left out
bool BoolField(const Json& body, const char* field);           ///< false when left out
const Json& ListField(const Json& body, const char* field);    ///< an empty list when left out

/// Return the strings of a list of {"String": {"sval": ...}}; other members become "*".
std::vector<std::string> NamesOf(const Json& list);

/// Return where a node stands: its own location, else the first one inside it, else `fallback`.
Place PlaceOf(const Json& node, Place fallback);

/// Print a node without its locations: equal text = equal expression.
std::string ShapeOf(const Json& node);

struct Statement {
  Node node;
  Place begin;  ///< first word of the statement
  Place end;
};

/// Parse a text.
///
/// Blocks:   runs the parser in a thread of its own with a deep stack, because it recurses as deep
///           as the text nests and keeps its memory in thread-local storage.
/// Errors:   kInvalidArgument with the place of a syntax error.
class ParseTree {
 public:
  static Result<ParseTree> Parse(const SourceText& text);

  ParseTree(ParseTree&&) noexcept;
  ParseTree& operator=(ParseTree&&) noexcept;
  ~ParseTree();

  const std::vector<Statement>& statements() const { return statements_; }

 private:
  ParseTree();

  std::unique_ptr<Json> root_;
  std::vector<Statement> statements_;
};

/// Refuse every field of `body` that is not named in `known`, with its place: what is not
/// understood is never ignored.
Status RequireOnly(const SourceText& text, const Json& body, Place place,
                   std::initializer_list<std::string_view> known);

}  // namespace cairn::sql

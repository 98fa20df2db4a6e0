// SPDX-License-Identifier: Apache-2.0
#include "sql/compile.h"

#include <arrow/type.h>

#include <algorithm>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "sql/kernels.h"
#include "sql/parse_tree.h"
#include "sql/plan_text.h"
#include "sql/query.h"

namespace cairn::sql {
namespace {

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

class StatementCompiler {
 public:
  explicit StatementCompiler(const SourceText& text) : text_(text) {}

  Status Compile(const Statement& statement) {
    statement_ = &statement;
    const Node& node = statement.node;
    if (node.is("CreateStmt")) return CreateTable(*node.body);
    if (node.is("InsertStmt")) return Insert(*node.body);
    if (node.is("SelectStmt")) return BareSelect(*node.body);
    if (node.is("VariableSetStmt")) return Set(*node.body);
    if (node.is("CreateTableAsStmt")) {
      return text_.Error(statement.begin,
                         StringField(*node.body, "objtype") == "OBJECT_MATVIEW"
                             ? "CREATE MATERIALIZED VIEW is not supported yet"
                             : "CREATE TABLE AS is not supported: write CREATE TABLE and INSERT");
    }
    return text_.Error(statement.begin,
                       "this statement is not supported; the statements are CREATE TABLE, INSERT "
                       "INTO ... SELECT, SELECT and SET cairn.NAME = value");
  }

  stream::LogicalPlan TakePlan() { return std::move(plan_); }

 private:
  Place begin() const { return statement_->begin; }

  Status CreateTable(const Json& body);
  Status AddColumn(const Json& element, stream::TableDefinition* table);
  Status AddOption(const Json& element, stream::TableDefinition* table);
  Result<std::string> OptionValue(const Json& option, Place place);
  Status Set(const Json& body);
  Result<std::string> SettingValue(const Json& body);
  Status Insert(const Json& body);
  Status BareSelect(const Json& body);
  Result<std::vector<int>> SinkColumns(const Json& body, const stream::TableDefinition& sink);
  Status CheckUpdates(const stream::TableDefinition& sink, bool updating);
  Result<TypedExpression> AssignTo(const stream::ColumnDefinition& column, TypedExpression value);
  Status FitToSink(const std::vector<int>& columns, const stream::TableDefinition& sink,
                   Selection* selection);
  Status AddPipeline(Relation relation, stream::TableDefinition sink);

  const SourceText& text_;
  const Statement* statement_ = nullptr;
  Catalog catalog_;
  stream::LogicalPlan plan_;
  int selects_ = 0;
};

Status StatementCompiler::AddColumn(const Json& element, stream::TableDefinition* table) {
  const Node node = NodeOf(element);
  const Place place = PlaceOf(element, begin());
  if (node.is("TableLikeClause")) return text_.Error(place, "LIKE is not supported");
  if (!node.is("ColumnDef")) {
    return text_.Error(place, "table constraints are not supported: only NOT NULL of a column");
  }
  CAIRN_RETURN_IF_ERROR(
      RequireOnly(text_, *node.body, place, {"colname", "typeName", "is_local", "constraints"}));
  stream::ColumnDefinition column;
  column.name = StringField(*node.body, "colname");
  CAIRN_ASSIGN_OR_RETURN(column.type, TypeFromTree(text_, node.body->at("typeName"), place));
  for (const Json& wrapper : ListField(*node.body, "constraints")) {
    const Json& constraint = *NodeOf(wrapper).body;
    const std::string type = StringField(constraint, "contype");
    if (type == "CONSTR_NOTNULL") {
      column.nullable = false;
    } else if (type != "CONSTR_NULL") {
      return text_.Error(PlaceOf(wrapper, place),
                         "this constraint is not supported: a column can only be NOT NULL");
    }
  }
  for (const stream::ColumnDefinition& other : table->columns) {
    if (other.name == column.name) {
      return text_.Error(place, "column \"" + column.name + "\" is there twice");
    }
  }
  table->columns.push_back(std::move(column));
  return {};
}

Result<std::string> StatementCompiler::OptionValue(const Json& option, Place place) {
  const Json* argument = Find(option, "arg");
  if (argument == nullptr) return std::string("true");
  const Node value = NodeOf(*argument);
  if (value.is("String")) return StringField(*value.body, "sval");
  if (value.is("Float")) return StringField(*value.body, "fval");
  if (value.is("Integer")) {
    if (const Json* number = Find(*value.body, "ival")) {
      return std::to_string(number->get<int64_t>());
    }
    // 0 or below: the tree has no value, the text behind "name =" has.
    Place at = text_.SkipBlank(text_.SkipName(place));
    while (at.offset < text_.text().size() && text_.text()[at.offset] == '.') {
      at = text_.SkipBlank(text_.SkipName(text_.SkipBlank({at.offset + 1})));
    }
    return text_.IntegerAt({at.offset + 1});
  }
  if (value.is("TypeName")) {  // a bare word
    std::string word;
    for (const std::string& part : NamesOf(ListField(*value.body, "names"))) {
      if (part != "pg_catalog") word += (word.empty() ? "" : ".") + part;
    }
    return word;
  }
  return text_.Error(place, "the value of an option is a string, a number, true or false");
}

Status StatementCompiler::AddOption(const Json& element, stream::TableDefinition* table) {
  const Json& option = *NodeOf(element).body;
  const Place place = PlaceOf(element, begin());
  std::string name = LowerCase(StringField(option, "defname"));
  if (const std::string space = StringField(option, "defnamespace"); !space.empty()) {
    name = LowerCase(space) + "." + name;
  }
  CAIRN_ASSIGN_OR_RETURN(std::string value, OptionValue(option, place));
  if (name == "connector") {
    if (!table->connector.empty()) return text_.Error(place, "connector is there twice");
    table->connector = LowerCase(std::move(value));
    if (table->connector.empty()) return text_.Error(place, "the connector has no name");
    return {};
  }
  if (!table->options.emplace(name, std::move(value)).second) {
    return text_.Error(place, "option \"" + name + "\" is there twice");
  }
  return {};
}

Status StatementCompiler::CreateTable(const Json& body) {
  CAIRN_RETURN_IF_ERROR(
      RequireOnly(text_, body, begin(), {"relation", "tableElts", "options", "oncommit"}));
  const Json& relation = body.at("relation");
  const Place place = PlaceOf(relation, begin());
  CAIRN_RETURN_IF_ERROR(RequireOnly(text_, relation, place, {"relname", "inh", "relpersistence"}));
  if (StringField(relation, "relpersistence") != "p") {
    return text_.Error(begin(), "TEMPORARY and UNLOGGED tables are not supported");
  }
  if (StringField(body, "oncommit") != "ONCOMMIT_NOOP") {
    return text_.Error(text_.FindKeyword("ON", begin(), statement_->end),
                       "ON COMMIT is not supported");
  }
  stream::TableDefinition table;
  table.name = StringField(relation, "relname");
  table.position = text_.PositionOf(place);
  for (const Json& element : ListField(body, "tableElts")) {
    CAIRN_RETURN_IF_ERROR(AddColumn(element, &table));
  }
  if (table.columns.empty()) {
    return text_.Error(place, "table \"" + table.name + "\" has no columns");
  }
  for (const Json& element : ListField(body, "options")) {
    CAIRN_RETURN_IF_ERROR(AddOption(element, &table));
  }
  if (table.connector.empty()) {
    return text_.Error(place, "table \"" + table.name +
                                  "\" has no connector: write WITH (connector = 'filesystem', ...) "
                                  "behind its columns");
  }
  if (!catalog_.emplace(table.name, table).second) {
    return text_.Error(place, "table \"" + table.name + "\" is there twice");
  }
  plan_.tables.push_back(std::move(table));
  return {};
}

Result<std::string> StatementCompiler::SettingValue(const Json& body) {
  const Json& arguments = ListField(body, "args");
  if (arguments.size() != 1) return text_.Error(begin(), "SET takes one value");
  const Node value = NodeOf(arguments[0]);
  const Place place = PlaceOf(arguments[0], begin());
  if (value.is("A_Const")) {
    if (const Json* text = Find(*value.body, "sval")) return StringField(*text, "sval");
    if (const Json* number = Find(*value.body, "fval")) return StringField(*number, "fval");
    if (const Json* number = Find(*value.body, "ival")) {
      if (const Json* integer = Find(*number, "ival")) {
        return std::to_string(integer->get<int64_t>());
      }
      return text_.IntegerAt(place);
    }
  }
  return text_.Error(place, "the value of an option is a string, a number, true or false");
}

Status StatementCompiler::Set(const Json& body) {
  constexpr std::string_view kPrefix = "cairn.";
  const std::string name = StringField(body, "name");
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) {
    return text_.Error(begin(), "only options of Cairn can be set: SET cairn.NAME = value");
  }
  if (StringField(body, "kind") != "VAR_SET_VALUE") {
    return text_.Error(begin(), "RESET and SET ... TO DEFAULT are not supported");
  }
  CAIRN_RETURN_IF_ERROR(RequireOnly(text_, body, begin(), {"kind", "name", "args"}));
  CAIRN_ASSIGN_OR_RETURN(std::string value, SettingValue(body));
  plan_.options.push_back(
      {name.substr(kPrefix.size()), std::move(value), text_.PositionOf(begin())});
  return {};
}

Result<std::vector<int>> StatementCompiler::SinkColumns(const Json& body,
                                                        const stream::TableDefinition& sink) {
  std::vector<int> columns;
  const Json& list = ListField(body, "cols");
  for (const Json& wrapper : list) {
    const Json& target = *NodeOf(wrapper).body;
    const Place place = PlaceOf(wrapper, begin());
    CAIRN_RETURN_IF_ERROR(RequireOnly(text_, target, place, {"name"}));
    const std::string name = StringField(target, "name");
    int found = -1;
    for (size_t i = 0; i < sink.columns.size(); ++i) {
      if (sink.columns[i].name == name) found = static_cast<int>(i);
    }
    if (found < 0) {
      return text_.Error(place, "table \"" + sink.name + "\" has no column \"" + name + "\"");
    }
    if (std::find(columns.begin(), columns.end(), found) != columns.end()) {
      return text_.Error(place, "column \"" + name + "\" is there twice");
    }
    columns.push_back(found);
  }
  for (int i = 0; list.empty() && i < static_cast<int>(sink.columns.size()); ++i) {
    columns.push_back(i);
  }
  return columns;
}

Status StatementCompiler::CheckUpdates(const stream::TableDefinition& sink, bool updating) {
  if (!updating || sink.connector != "filesystem") return {};
  const auto changelog = sink.options.find("changelog");
  if (changelog != sink.options.end() && LowerCase(changelog->second) == "true") return {};
  return text_.Error(begin(), "the query updates rows that it gave before, and table \"" +
                                  sink.name +
                                  "\" only takes new ones: add changelog = true to its WITH (...)");
}

Result<TypedExpression> StatementCompiler::AssignTo(const stream::ColumnDefinition& column,
                                                    TypedExpression value) {
  const ExpressionBuilder builder(text_);
  const Place place = value.place;
  const bool open = value.literal != LiteralKind::kNone &&
                    (IsNumeric(*column.type) || value.literal != LiteralKind::kNumber);
  if (!open && !IsAssignable(*value.type, *column.type)) {
    return text_.Error(place, "column \"" + column.name + "\" is " + SqlTypeName(*column.type) +
                                  ", but the value is " + SqlTypeName(*value.type) +
                                  ": write CAST(... AS " + SqlTypeName(*column.type) + ")");
  }
  if (value.literal == LiteralKind::kNumber && IsInteger(*column.type) && IsDecimal(*value.type)) {
    return text_.Error(place, value.literal_text + " is not a value of column \"" + column.name +
                                  "\", which is " + SqlTypeName(*column.type));
  }
  CAIRN_ASSIGN_OR_RETURN(value, builder.Coerce(std::move(value), column.type));
  if (column.nullable || !value.nullable) return value;
  CAIRN_ASSIGN_OR_RETURN(TypedExpression name,
                         builder.Coerce(builder.String(column.name, place), arrow::utf8()));
  return builder.Call(kRequireNotNull, {std::move(value), std::move(name)}, column.type, place,
                      {.fallible = true, .nullable = false});
}

Status StatementCompiler::FitToSink(const std::vector<int>& columns,
                                    const stream::TableDefinition& sink, Selection* selection) {
  if (columns.size() != selection->outputs.size()) {
    return text_.Error(begin(), "the query has " + std::to_string(selection->outputs.size()) +
                                    " columns, but " + std::to_string(columns.size()) +
                                    " are to be written to table \"" + sink.name + "\"");
  }
  const ExpressionBuilder builder(text_);
  std::vector<TypedExpression> values;
  std::vector<Target> targets;
  for (size_t i = 0; i < sink.columns.size(); ++i) {
    const auto source = std::find(columns.begin(), columns.end(), static_cast<int>(i));
    TypedExpression value =
        source == columns.end()
            ? builder.Null(arrow::null(), begin())
            : std::move(selection->outputs[static_cast<size_t>(source - columns.begin())]);
    CAIRN_ASSIGN_OR_RETURN(value, AssignTo(sink.columns[i], std::move(value)));
    values.push_back(std::move(value));
    targets.push_back({sink.columns[i].name, nullptr, 0, begin()});
  }
  selection->outputs = std::move(values);
  selection->targets = std::move(targets);
  return {};
}

Status StatementCompiler::AddPipeline(Relation relation, stream::TableDefinition sink) {
  CAIRN_RETURN_IF_ERROR(relation.chain.Finish());
  stream::Pipeline pipeline;
  pipeline.scan = std::move(relation.chain.scan);
  pipeline.nodes = std::move(relation.chain.nodes);
  pipeline.sink = std::move(sink);
  pipeline.position = text_.PositionOf(begin());
  pipeline.text = text_.text().substr(begin().offset, statement_->end.offset - begin().offset);
  plan_.pipelines.push_back(std::move(pipeline));
  return {};
}

Status StatementCompiler::Insert(const Json& body) {
  CAIRN_RETURN_IF_ERROR(
      RequireOnly(text_, body, begin(), {"relation", "cols", "selectStmt", "override"}));
  const Json& range = body.at("relation");
  const Place place = PlaceOf(range, begin());
  CAIRN_RETURN_IF_ERROR(RequireOnly(text_, range, place, {"relname", "inh", "relpersistence"}));
  const std::string name = StringField(range, "relname");
  const auto found = catalog_.find(name);
  if (found == catalog_.end()) {
    return text_.Error(
        place, "table \"" + name + "\" does not exist: write a CREATE TABLE before this statement");
  }
  if (StringField(body, "override") != "OVERRIDING_NOT_SET") {
    return text_.Error(text_.FindKeyword("OVERRIDING", begin(), statement_->end),
                       "OVERRIDING is not supported");
  }
  const stream::TableDefinition& sink = found->second;
  const Json* query = Find(body, "selectStmt");
  if (query == nullptr) return text_.Error(begin(), "DEFAULT VALUES is not supported");
  const Node select = NodeOf(*query);
  CAIRN_ASSIGN_OR_RETURN(const std::vector<int> columns, SinkColumns(body, sink));
  const Place select_place = text_.FindKeyword("SELECT", begin(), statement_->end);
  QueryCompiler compiler(text_, catalog_);
  CAIRN_ASSIGN_OR_RETURN(Selection selection, compiler.Select(*select.body, select_place));
  if (selection.from.chain.scan.table.name == name) {
    return text_.Error(place, "table \"" + name + "\" is read and written by one statement");
  }
  if (selection.distinct) {
    // Rows are made distinct as they are selected, and converted afterwards.
    CAIRN_ASSIGN_OR_RETURN(Relation distinct, compiler.Project(std::move(selection), ""));
    selection = {};
    const ExpressionBuilder builder(text_);
    for (const RelationColumn& column : distinct.columns) {
      selection.outputs.push_back(
          builder.Column(column.index, column.type, column.nullable, select_place));
    }
    selection.from = std::move(distinct);
  }
  CAIRN_RETURN_IF_ERROR(CheckUpdates(sink, selection.from.updating));
  CAIRN_RETURN_IF_ERROR(FitToSink(columns, sink, &selection));
  CAIRN_ASSIGN_OR_RETURN(Relation relation, compiler.Project(std::move(selection), ""));
  return AddPipeline(std::move(relation), sink);
}

Status StatementCompiler::BareSelect(const Json& body) {
  QueryCompiler compiler(text_, catalog_);
  CAIRN_ASSIGN_OR_RETURN(Selection selection, compiler.Select(body, begin()));
  CAIRN_ASSIGN_OR_RETURN(Relation relation, compiler.Project(std::move(selection), ""));
  stream::TableDefinition sink;
  do {
    ++selects_;
    sink.name = selects_ == 1 ? "select" : "select_" + std::to_string(selects_);
  } while (catalog_.contains(sink.name));
  sink.connector = "print";
  sink.position = text_.PositionOf(begin());
  // Printed rows are objects of JSON, where a second value of one name would hide the first.
  std::set<std::string> names;
  if (relation.updating) names.insert("op");
  for (const RelationColumn& column : relation.columns) {
    std::string name = column.name;
    for (int n = 2; !names.insert(name).second; ++n) name = column.name + "_" + std::to_string(n);
    sink.columns.push_back({std::move(name), column.type, column.nullable});
  }
  return AddPipeline(std::move(relation), std::move(sink));
}

Result<stream::LogicalPlan> CompileText(const SourceText& text) {
  CAIRN_RETURN_IF_ERROR(RegisterKernels());
  CAIRN_ASSIGN_OR_RETURN(const ParseTree tree, ParseTree::Parse(text));
  StatementCompiler compiler(text);
  for (const Statement& statement : tree.statements()) {
    CAIRN_RETURN_IF_ERROR(compiler.Compile(statement));
  }
  return compiler.TakePlan();
}

}  // namespace

Result<stream::LogicalPlan> Compile(std::string_view text, const CompileOptions& options) {
  // JSON and Arrow may throw; nothing crosses the module's boundary.
  try {
    return CompileText(SourceText(std::string(text), options.name));
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("no memory left to compile the SQL text");
  } catch (const std::exception& error) {
    return Status::Internal(std::string("cannot compile the SQL text: ") + error.what());
  }
}

}  // namespace cairn::sql

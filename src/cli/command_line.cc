// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "cli/checkpoint_command.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/place_command.h"
#include "cli/run_command.h"
#include "cli/state_command.h"
#include "cli/state_diff.h"
#include "cli/state_export.h"
#include "cli/state_import.h"
#include "cli/state_migrate.h"
#include "cli/state_query.h"
#include "cli/store_command.h"
#include "engine/options.h"

#ifndef CAIRN_VERSION
#define CAIRN_VERSION "0.1.0"
#endif

namespace cairn::cli {
namespace {

/// Refuse, as a check of the parser, a value that would look like no option at all.
std::string RefuseBlank(const std::string& text) {
  return text.find_first_not_of(" \t") == std::string::npos ? "is blank" : "";
}

std::string RefuseNoRowLimit(const std::string& text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return digits ? "" : "'" + text + "' is no number of rows: give a whole number, or 0 for all";
}

/// Options whose value is a number: a negative one behind them is theirs, and refused by them.
bool TakesNumber(std::string_view option) {
  return option == "--limit" || option == "--parallelism" || option == "--split" ||
         option == "--key-groups";
}

/// What the parsed command line asks for.
using Action = std::function<Result<ExitCode>(Output*)>;

constexpr const char* kSourceHelp =
    "A checkpoint place (directory, file://DIR or s3://BUCKET/PREFIX; its newest committed "
    "checkpoint, or PLACE@ID), or a snapshot file";
constexpr const char* kPlaceHelp =
    "A checkpoint place: a directory, file://DIR or s3://BUCKET/PREFIX; its newest committed "
    "checkpoint, or PLACE@ID";

/// Everything the options are bound to; lives as long as the parse and the action.
struct Arguments {
  RunOptions run;
  std::string http;
  CheckpointOptions checkpoint;
  StateOptions state;
  ExportOptions export_state;
  ImportOptions import_state;
  QueryOptions query;
  DiffOptions diff;
  CheckOptions check;
  MigrateOptions migrate;
  StoreCheckOptions store_check;
  PlaceOptions place;
};

std::string RunFooter() {
  std::string text = "Options of --set (and of SET cairn.NAME = 'VALUE' in the text):\n";
  for (const engine::OptionInfo& option : engine::KnownOptions()) {
    text +=
        fmt::format("  {:36} {} (default {})\n", option.name, option.meaning, option.default_text);
  }
  text +=
      "\nBackends (working state is in memory in all of them; they differ in where checkpoints lie "
      "by\ndefault and in when one is written whole):\n"
      "  memory://                        ./<job>.cairn\n"
      "  memory+sharded://                the same; for embedders, a byte store for many threads\n"
      "  file://DIR, or a path            checkpoints in DIR, which is absolute behind file://\n"
      "  changelog://                     ./<job>.cairn; written whole again only when the "
      "changes\n"
      "                                   since pass 64 KiB and half of the whole\n"
      "  changelog+file://DIR             the same, in DIR\n"
      "  disagg-local://?hot_max_bytes=N&io_threads=N\n"
      "                                   ./<job>.cairn; for embedders, a byte store of two tiers\n"
      "\nExamples:\n"
      "  cairn run job.sql\n"
      "  cairn run job.sql --parallelism 2 --interval 1s\n"
      "  cairn run job.sql --checkpoints file:///var/lib/job --set checkpoint.retained=10\n"
      "  cairn run job.sql --checkpoints s3://bucket/job\n"
      "  cairn run job.sql --checkpoints none          no checkpoints; commit at the end only\n"
      "  cairn run job.sql --from 41                   go back to a retained checkpoint\n"
      "  cairn run new.sql --from job.cairn --plan     what a changed job would take over\n"
      "\n"
      "Stop it with Ctrl-C: it takes a last checkpoint; run it again and it goes on from there.";
  return text;
}

/// How a job that was changed takes over the checkpoint of another place.
void AddConsent(CLI::App* run, engine::RestoreConsent* consent) {
  run->add_option(
         "--allow-non-restored", consent->non_restored,
         "With --from: saved, and may be given up: OPERATOR, OPERATOR.SLOT, or a source or "
         "sink (repeatable)")
      ->allow_extra_args(false)
      ->type_name("NAME");
  run->add_option("--rename", consent->renames,
                  "With --from: the saved operator, source or sink OLD is NEW in this job "
                  "(repeatable)")
      ->allow_extra_args(false)
      ->type_name("OLD=NEW");
  run->add_flag("--accept-changes", consent->accept_changes,
                "With --from: keep state and offsets of operators and sources that were redefined");
}

void AddRun(CLI::App* app, env::FileSystem* files, Arguments* args, Action* action) {
  CLI::App* run = app->add_subcommand("run", "Run a streaming SQL job");
  RunOptions& options = args->run;
  run->add_option("JOB.sql", options.file, "The job: CREATE TABLE and INSERT INTO … SELECT")
      ->required();
  run->add_option("--set", options.settings, "Set an option: NAME=VALUE (repeatable)")
      ->allow_extra_args(false)
      ->type_name("NAME=VALUE");
  run->add_option("--backend", options.backend,
                  "Where working state lives, see below (default memory://)")
      ->check(RefuseBlank)
      ->type_name("URI");
  run->add_option("--checkpoints", options.checkpoints,
                  "Where checkpoints live: a directory, s3://BUCKET/PREFIX, or none (default: the "
                  "backend's, else ./<job>.cairn)")
      ->check(RefuseBlank)
      ->type_name("URI");
  run->add_option("--interval", options.interval,
                  "Least time between the starts of two checkpoints (default 10s)")
      ->check(RefuseBlank)
      ->type_name("DURATION");
  run->add_option("--parallelism", options.parallelism, "Subtasks of each operator")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  run->add_option("--name", options.name, "Name of the job (default: that of the file)")
      ->check(RefuseBlank);
  run->add_option("--from", options.from,
                  "Begin from a retained checkpoint: its ID, or another PLACE or PLACE@ID")
      ->check(RefuseBlank)
      ->type_name("ID|URI");
  AddConsent(run, &options.consent);
  run->add_flag("--plan", options.plan,
                "Print what would be restored and how; run nothing (exit 1: it would be refused)");
  run->add_flag("--json", options.json,
                "One JSON object a line: the plan, or all that is said while it runs");
  run->add_flag("--fresh", options.fresh, "Begin anew; refuse a place that holds a checkpoint")
      ->excludes("--plan");
  run->add_option("--http", args->http, "Serve state over HTTP (not built yet)")
      ->type_name("HOST:PORT");
  run->add_flag("--explain", options.explain,
                "Check the job and print its stages and options; run nothing")
      ->excludes("--plan");
  run->add_option("--progress", options.progress, "Live line: auto, on or off")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "on", "off"}));
  run->footer(RunFooter);
  run->callback([=] {
    *action = [=](Output* out) -> Result<ExitCode> {
      if (!args->http.empty()) {
        return Status::InvalidArgument(
            "--http: serving state over HTTP is not built yet. Run without it, and read "
            "checkpoints with `cairn state`");
      }
      return RunJobFile(files, args->run, out);
    };
  });
}

/// What a place holds and why, and its repair.
void AddPlaceVerbs(CLI::App* checkpoint, env::FileSystem* files, Arguments* args, Action* action) {
  PlaceOptions& options = args->place;
  const auto add = [&](const char* verb, const char* help, const char* source_help, auto body) {
    CLI::App* command = checkpoint->add_subcommand(verb, help);
    command->add_option("SOURCE", options.source, source_help)->required();
    command->callback([=] { *action = body; });
    return command;
  };
  constexpr const char* kWholePlaceHelp =
      "A checkpoint place: a directory, file://DIR or s3://BUCKET/PREFIX";
  CLI::App* why = add("why", "Say which checkpoints keep which objects", kWholePlaceHelp,
                      [=](Output* out) { return ExplainObjects(files, args->place, out); });
  why->add_option("OBJECT", options.object, "Only this one, such as nodes/1/checkpoints/…");
  CLI::App* gc =
      add("gc", "Delete what no checkpoint needs (a running job does it by itself)",
          kWholePlaceHelp, [=](Output* out) { return CollectPlace(files, args->place, out); });
  gc->add_flag("--dry-run", options.dry_run, "Only say what would be deleted; takes no lock");
  CLI::App* upgrade =
      add("upgrade", "Check that a place is of the newest format version; nothing is older yet",
          kWholePlaceHelp, [=](Output* out) { return UpgradePlace(files, args->place, out); });
  for (CLI::App* command : {why, gc, upgrade}) {
    command->add_flag("--json", options.json, "One JSON object a line");
  }
  CLI::App* copy =
      add("copy", "Copy a checkpoint into a place of its own, and verify the copy", kPlaceHelp,
          [=](Output*) { return CopyCheckpoint(files, args->place, stderr); });
  copy->add_option("TO", options.to, "The new place: a directory or s3://BUCKET/PREFIX")
      ->required();
  CLI::App* rebuild =
      add("rebuild-head", "Find a lost or damaged head again from the checkpoints there are",
          kWholePlaceHelp, [=](Output* out) { return RebuildHead(files, args->place, out); });
  rebuild->add_flag("--write", options.write, "Write it; without it, only say what it would be");
}

void AddCheckpoint(CLI::App* app, env::FileSystem* files, Arguments* args, Action* action) {
  CLI::App* checkpoint = app->add_subcommand("checkpoint", "Look at checkpoints and verify them");
  checkpoint->require_subcommand(1);
  CheckpointOptions& options = args->checkpoint;
  const auto add = [&](const char* verb, const char* help, auto body) {
    CLI::App* command = checkpoint->add_subcommand(verb, help);
    command->add_option("SOURCE", options.source, kPlaceHelp)->required();
    command->add_flag("--json", options.json, "One JSON object a line");
    command->callback([=] { *action = body; });
  };
  add("ls", "List committed checkpoints, newest first",
      [=](Output* out) { return ListCheckpoints(files, args->checkpoint, out); });
  add("show", "Show all of one checkpoint: operators, frames, offsets, sinks",
      [=](Output* out) { return ShowCheckpoint(files, args->checkpoint, out); });
  add("verify", "Check every byte of a checkpoint (exit 0 valid, 1 not valid)",
      [=](Output* out) { return VerifyCheckpoint(files, args->checkpoint, out, stderr); });
  AddPlaceVerbs(checkpoint, files, args, action);  // before the footer, which they would inherit
  checkpoint->footer(
      "Reading takes no lock and writes nothing: it works beside a running job.\n"
      "\nExamples:\n"
      "  cairn checkpoint ls job.cairn\n"
      "  cairn checkpoint show job.cairn@41 --json\n"
      "  cairn checkpoint verify job.cairn\n"
      "  cairn checkpoint copy job.cairn@41 s3://bucket/kept/41");
}

void AddStore(CLI::App* app, env::FileSystem* files, Arguments* args, Action* action) {
  CLI::App* store = app->add_subcommand("store", "Prove that a store can hold checkpoints");
  store->require_subcommand(1);
  CLI::App* check = store->add_subcommand(
      "check", "Try every promise that checkpoints stand on (exit 0 kept, 1 broken)");
  StoreCheckOptions& options = args->store_check;
  check->add_option("URI", options.place, "A directory or s3://BUCKET/PREFIX?NAME=VALUE")
      ->required();
  check->add_flag("--json", options.json, "One JSON object a line");
  check->callback(
      [=] { *action = [=](Output* out) { return CheckStore(files, args->store_check, out); }; });
  check->footer(
      "Writes, reads and removes objects below control/probe-….\n"
      "An s3:// URI takes endpoint, region, path_style and anonymous; credentials come from\n"
      "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, else from ~/.aws (AWS_PROFILE).\n"
      "\nExample:\n"
      "  cairn store check 's3://bucket/job?endpoint=http://127.0.0.1:9000'");
}

void AddMaterialisationStore(CLI::App* command, std::string* directory) {
  command
      ->add_option("--materialisation-store", *directory,
                   "Where a changelog snapshot's base lies (default: materializations beside it)")
      ->type_name("DIR");
}

CLI::App* AddStateVerb(CLI::App* state, const char* verb, const char* help, std::string* source,
                       std::string* materialisation_store) {
  CLI::App* command = state->add_subcommand(verb, help);
  command->add_option("SOURCE", *source, kSourceHelp)->required();
  AddMaterialisationStore(command, materialisation_store);
  return command;
}

void AddSlotChoice(CLI::App* command, std::string* op, std::string* slot) {
  command->add_option("--operator", *op, "Only this operator: its uid, or its id in 16 hex digits")
      ->type_name("UID|ID");
  command->add_option("--slot", *slot, "Only this slot")->type_name("NAME");
}

void AddStateReaders(CLI::App* state, env::FileSystem* files, Arguments* args, Action* action) {
  StateOptions& options = args->state;
  CLI::App* ls = AddStateVerb(state, "ls", "List operators and slots with their rows and bytes",
                              &options.source, &options.materialisation_store);
  ls->add_flag("--json", options.json, "One JSON object a line");
  ls->callback([=] { *action = [=](Output* out) { return ListState(files, args->state, out); }; });

  CLI::App* cat = AddStateVerb(state, "cat", "Print rows, typed and decoded", &options.source,
                               &options.materialisation_store);
  AddSlotChoice(cat, &options.op, &options.slot);
  cat->add_option("--limit", options.limit, "Rows of a slot; 0 = all")
      ->capture_default_str()
      ->check(RefuseNoRowLimit);
  cat->add_flag("--json", options.json, "One JSON object a line");
  cat->callback(
      [=] { *action = [=](Output* out) { return PrintState(files, args->state, out); }; });

  CLI::App* get = AddStateVerb(state, "get", "Look up one key (exit 1 when absent)",
                               &options.source, &options.materialisation_store);
  get->add_option("KEY", options.key,
                  "The key: a JSON array with a value for each key column, or the plain value of a "
                  "single one")
      ->required();
  AddSlotChoice(get, &options.op, &options.slot);
  get->add_flag("--json", options.json, "One JSON object a line");
  get->callback([=] { *action = [=](Output* out) { return GetState(files, args->state, out); }; });
}

void AddJobText(CLI::App* command, JobText* job, const char* help) {
  command->add_option("--job", job->file, help)->type_name("JOB.sql");
  command->add_option("--name", job->name, "Name of the job (default: that of the file)");
  command->add_option("--set", job->settings, "Set an option of the job (repeatable)")
      ->allow_extra_args(false)
      ->type_name("NAME=VALUE");
}

void AddStateSchema(CLI::App* state, env::FileSystem* files, Arguments* args, Action* action) {
  CheckOptions& checked = args->check;
  CLI::App* check = AddStateVerb(
      state, "check", "Print slots and versions, or whether they fit a job (exit 1: not)",
      &checked.source, &checked.materialisation_store);
  AddJobText(check, &checked.job, "The job that is to read the state");
  check
      ->add_option("--expected", checked.expected,
                   "Slots to compare with: what `state ls --json` printed, or another SOURCE")
      ->type_name("FILE|SOURCE");
  check->add_flag("--quiet", checked.quiet, "Print only what does not fit");
  check->add_flag("--json", checked.json, "One JSON object a line");
  check->callback(
      [=] { *action = [=](Output* out) { return CheckState(files, args->check, out); }; });

  MigrateOptions& migrated = args->migrate;
  CLI::App* migrate = AddStateVerb(state, "migrate",
                                   "Make a new place in which saved state fits a job as it is now",
                                   &migrated.source, &migrated.materialisation_store);
  migrate->add_option("--to", migrated.place, "The new place; must hold no checkpoint")
      ->type_name("PLACE")
      ->required();
  AddJobText(migrate, &migrated.job, "The job that is to go on from the state");
  migrate
      ->add_option("--expected", migrated.expected,
                   "Slots as they are to be: JSON lines like those of `state ls --json`, or "
                   "another SOURCE")
      ->type_name("FILE|SOURCE");
  migrate->add_flag("--drop", migrated.drop, "Leave out slots and progress that are not declared");
  migrate->add_flag("--accept-changes", migrated.accept_changes,
                    "Keep state and offsets of operators and sources that were redefined");
  migrate->callback([=] { *action = [=](Output*) { return MigrateState(files, args->migrate); }; });
}

void AddStateDiff(CLI::App* state, env::FileSystem* files, Arguments* args, Action* action) {
  DiffOptions& options = args->diff;
  CLI::App* diff =
      state->add_subcommand("diff", "Compare two saved states row by row (exit 1: they differ)");
  diff->add_option("A", options.a, kSourceHelp)->required();
  diff->add_option("B", options.b, "The other SOURCE")->required();
  AddMaterialisationStore(diff, &options.materialisation_store);
  AddSlotChoice(diff, &options.op, &options.slot);
  diff->add_option("--limit", options.limit, "Rows printed of a slot; 0 = all. Counts are exact")
      ->capture_default_str()
      ->check(RefuseNoRowLimit);
  diff->add_flag("--summary", options.summary,
                 "Only counts: of every slot, equal or not, and of the fields that changed");
  diff->add_flag("--json", options.json, "One JSON object a line");
  diff->callback([=] { *action = [=](Output* out) { return DiffState(files, args->diff, out); }; });
}

void AddStateTables(CLI::App* state, env::FileSystem* files, Arguments* args, Action* action) {
  ExportOptions& exported = args->export_state;
  CLI::App* export_state = AddStateVerb(state, "export", "Write state as Parquet or Arrow",
                                        &exported.source, &exported.materialisation_store);
  AddSlotChoice(export_state, &exported.op, &exported.slot);
  export_state->add_option("--format", exported.format, "parquet, arrow or arrow-stream")
      ->capture_default_str()
      ->check(CLI::IsMember({"parquet", "arrow", "arrow-stream"}));
  export_state->add_flag("--typed", exported.typed,
                         "Named, decoded columns: one table a slot, one row a ranked row");
  export_state
      ->add_option("--split", exported.split,
                   "Of arrow-stream: a snapshot for each of N subtasks, in the directory PATH")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  export_state
      ->add_option("-o,--output", exported.output,
                   "File, or directory for several typed slots (default: standard output)")
      ->type_name("PATH");
  export_state->callback(
      [=] { *action = [=](Output*) { return ExportState(files, args->export_state); }; });

  ImportOptions& imported = args->import_state;
  CLI::App* import_state = state->add_subcommand(
      "import", "Make a checkpoint place of exported state: seed a job, or edit its state");
  import_state->add_option(
      "FILE", imported.files,
      "What `cairn state export` wrote (arrow-stream, arrow or parquet; typed files of several "
      "slots one after another), or a checkpoint place. None with --like or --job: their slots "
      "alone");
  import_state->add_option("--to", imported.place, "The new place; must hold no checkpoint")
      ->type_name("PLACE")
      ->required();
  import_state
      ->add_option("--like", imported.like,
                   "A checkpoint whose job, offsets and other slots the new one takes over")
      ->type_name("SOURCE");
  AddJobText(import_state, &imported.job, "The job that the state is for; it need never have run");
  import_state
      ->add_option("--key-groups", imported.key_groups,
                   "Regroup to this many key groups, 1 to 32768 (default: as the input)")
      ->type_name("N");
  AddSlotChoice(import_state, &imported.op, &imported.slot);
  AddMaterialisationStore(import_state, &imported.materialisation_store);
  import_state->callback(
      [=] { *action = [=](Output*) { return ImportState(files, args->import_state); }; });

  QueryOptions& query = args->query;
  CLI::App* query_state = AddStateVerb(state, "query", "Run SQL over saved state; rows as NDJSON",
                                       &query.source, &query.materialisation_store);
  query_state
      ->add_option(
          "SQL", query.sql,
          "One SELECT. Tables: each slot by its name (see `state ls`), and state, all rows "
          "undecoded")
      ->required();
  query_state->callback(
      [=] { *action = [=](Output* out) { return QueryState(files, args->query, out); }; });
}

void AddState(CLI::App* app, env::FileSystem* files, Arguments* args, Action* action) {
  CLI::App* state = app->add_subcommand("state", "Look at saved state, move it in and out");
  state->require_subcommand(1);
  AddStateReaders(state, files, args, action);
  AddStateTables(state, files, args, action);
  AddStateSchema(state, files, args, action);
  AddStateDiff(state, files, args, action);
  state->footer(
      "Examples:\n"
      "  cairn state ls job.cairn\n"
      "  cairn state cat job.cairn --slot groups --limit 10\n"
      "  cairn state get job.cairn 1007\n"
      "  cairn state get job.cairn '[1007, \"apple\"]'\n"
      "  cairn state export job.cairn --typed --format parquet -o state/\n"
      "  cairn state query job.cairn 'SELECT auction, n FROM groups WHERE n > 100'\n"
      "  cairn state import edited.parquet --like job.cairn --to job2.cairn\n"
      "  cairn state import --like job.cairn --key-groups 1024 --to wide.cairn\n"
      "  cairn state check job.cairn --job job-v2.sql\n"
      "  cairn state migrate job.cairn --job job-v2.sql --to job-v2.cairn");
}

void PrintError(const Status& status) { fmt::print(stderr, "cairn: {}\n", status.message()); }

int Report(const Result<ExitCode>& outcome) {
  if (outcome.ok()) return static_cast<int>(*outcome);
  PrintError(outcome.status());
  return static_cast<int>(ExitCodeOf(outcome.status().code()));
}

/// The verb that help is wanted of: `cairn state export` in an error about its options.
std::string VerbOf(const CLI::App& app) {
  std::string verb = "cairn";
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    verb += " " + at->get_name();
  }
  return verb;
}

int ReportParseError(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    return app.exit(error);  // --help and --version, on standard output
  }
  std::string what = error.what();
  if (what == "A subcommand is required") {
    const auto left = app.remaining(true);
    what = left.empty() ? "a verb is missing" : fmt::format("'{}' is no verb here", left.front());
  }
  fmt::print(stderr, "cairn: {}. See `{} --help`\n", what, VerbOf(app));
  return static_cast<int>(ExitCode::kUsage);
}

/// The arguments as the parser takes them: last first, without the program's name. A negative
/// number is a KEY, never an option, so such ones go to the end, behind "--".
std::vector<std::string> ReversedArguments(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  std::vector<std::string> numbers;
  bool verbatim = false;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    verbatim = verbatim || text == "--";
    const bool number =
        !verbatim && text.size() > 1 && text[0] == '-' && text[1] >= '0' && text[1] <= '9';
    if (number && !arguments.empty() && TakesNumber(arguments.back())) {
      arguments.back() += "=" + text;
    } else {
      (number ? numbers : arguments).push_back(text);
    }
  }
  if (!numbers.empty() && !verbatim) arguments.emplace_back("--");
  arguments.insert(arguments.end(), numbers.begin(), numbers.end());
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

int ParseAndRun(env::FileSystem* files, int argc, const char* const* argv) {
  CLI::App app("Durable keyed state and exactly-once checkpoints for stream processing", "cairn");
  app.set_version_flag("--version", "cairn " CAIRN_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Start with: cairn run job.sql, then cairn checkpoint ls job.cairn and cairn state ls "
      "job.cairn.\n"
      "Exit codes: 0 done, 1 not valid or not found, 2 usage or bad input, 3 damaged or "
      "unreadable state,\n"
      "4 unavailable, 130/143 stopped by a signal after a last checkpoint.");
  Arguments args;
  Action action;
  AddRun(&app, files, &args, &action);
  AddCheckpoint(&app, files, &args, &action);
  AddState(&app, files, &args, &action);
  AddStore(&app, files, &args, &action);
  try {
    app.parse(ReversedArguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    return ReportParseError(app, error);
  }
  Output out(stdout);
  Result<ExitCode> outcome = action(&out);
  const Status written = out.Finish();
  if (outcome.ok() && !written.ok()) outcome = written;
  return Report(outcome);
}

}  // namespace

int Main(env::FileSystem* files, int argc, const char* const* argv) {
  try {
    return ParseAndRun(files, argc, argv);
  } catch (const std::bad_alloc&) {
    PrintError(Status::ResourceExhausted("out of memory. Free some, or set state.memory_budget"));
    return static_cast<int>(ExitCodeOf(StatusCode::kResourceExhausted));
  } catch (const std::exception& error) {
    PrintError(Status::Internal(fmt::format("unexpected: {}. Report this as a bug", error.what())));
    return static_cast<int>(ExitCodeOf(StatusCode::kInternal));
  }
}

}  // namespace cairn::cli

#include "manifest/document/diff.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/file.h"
#include "libshard/base/not_fetched.h"
#include "libshard/base/quote.h"
#include "libshard/base/text.h"
#include "manifest/document/node_record.h"
#include "manifest/node/diff_nodes.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/base/table.h"
#include "tools/options/options.h"
#include "tools/options/source.h"

namespace moepack::cli {
namespace diff_command {
namespace {

constexpr const char* kTensorChange = "tensor";

struct Arguments {
  std::string a, b;
  RemoteArguments remote;
  bool exit_code = false, tensors = false, json = false;
};

// A distribution or a node: its directory, or the file that describes it.
struct Side {
  std::string directory;
  bool is_node = false;
  SourceTreePtr tree = nullptr;  // of a distribution elsewhere
};

// Of an address only what it is as a whole can be compared: a distribution.
Result<Side> SideOf(const std::string& path, const RemoteArguments& remote) {
  if (IsAddress(path)) {
    SHARD_TRY(const moepack::Source source, OpenSource(path, remote));
    return Side{source.tree->name(), false, source.tree};
  }
  const fs::path named(path);
  const bool manifest = named.filename() == manifest::kManifestFile;
  const bool node = named.filename() == manifest::kNodeFile;
  if (!manifest && !node) return Side{path, manifest::IsNodeDirectory(path)};
  return Side{named.has_parent_path() ? named.parent_path().string() : ".", node};
}

Result<manifest::Manifest> ReadSide(const Side& side) {
  return side.tree ? manifest::ReadManifest(*side.tree) : manifest::ReadManifest(side.directory);
}

Result<manifest::DiffReport> Compare(const Side& a, const Side& b) {
  if (a.is_node != b.is_node) {
    return Error{Code::kInvalidArgument,
                 Cat(a.directory, " is ", a.is_node ? "a node" : "a distribution", ", but ",
                     b.directory, " is ", b.is_node ? "a node" : "a distribution"),
                 "diff compares two distributions, or two nodes that assemble made"};
  }
  if (a.is_node) {
    SHARD_TRY(const manifest::NodeRecord before, manifest::ReadNodeRecord(a.directory));
    SHARD_TRY(const manifest::NodeRecord after, manifest::ReadNodeRecord(b.directory));
    return manifest::DiffNodes(before, after);
  }
  SHARD_TRY(const manifest::Manifest before, ReadSide(a));
  SHARD_TRY(const manifest::Manifest after, ReadSide(b));
  return manifest::DiffManifests(before, after);
}

std::string ChangeTable(const manifest::DiffReport& report, bool tensors) {
  Table table({"what", "name", "before", "after"});
  const auto shown = [](const std::string& text) { return text.empty() ? "-" : text; };
  for (const manifest::Change& change : report.changes) {
    if ((change.what == kTensorChange) == tensors)
      table.Row({change.what, change.name, shown(change.before), shown(change.after)});
  }
  return table.empty() ? "" : table.Render() + "\n";
}

std::string DiffText(const Arguments& arguments, const manifest::DiffReport& report,
                     const char* files) {
  const std::string a = Shown(arguments.a), b = Shown(arguments.b);
  if (report.same()) return Cat(a, " and ", b, " are the same\n");
  std::string text = ChangeTable(report, false);
  if (arguments.tensors) text += ChangeTable(report, true);
  const auto tensors = static_cast<uint64_t>(
      std::count_if(report.changes.begin(), report.changes.end(),
                    [](const manifest::Change& change) { return change.what == kTensorChange; }));
  text += Plural(report.changes.size(), "change");
  if (tensors > 0 && !arguments.tensors)
    text += Cat(", ", FormatCount(tensors), " of them in tensors (--tensors lists them)");
  return text + Cat("; of the ", files, " of ", b, ", ", ExactBytes(report.changed_bytes),
                    " are new and ", ExactBytes(report.same_bytes), " are already in ", a, "\n");
}

Json DiffJson(const Arguments& arguments, const manifest::DiffReport& report) {
  Json changes = Json::array();
  const auto text = [](const std::string& value) {
    return value.empty() ? Json(nullptr) : Json(value);
  };
  for (const manifest::Change& change : report.changes) {
    changes.push_back({{"what", change.what},
                       {"name", change.name},
                       {"before", text(change.before)},
                       {"after", text(change.after)}});
  }
  return {{"a", arguments.a},
          {"b", arguments.b},
          {"same", report.same()},
          {"changes", std::move(changes)},
          {"same_bytes", report.same_bytes},
          {"changed_bytes", report.changed_bytes}};
}

Result<int> Run(Arguments& arguments) {
  if (!IsAddress(arguments.a) && !IsAddress(arguments.b))
    SHARD_CHECK(CheckRemoteUse(arguments.remote, arguments.a));
  SHARD_TRY(const Side a, SideOf(arguments.a, arguments.remote));
  SHARD_TRY(const Side b, SideOf(arguments.b, arguments.remote));
  arguments.a = WithoutSecrets(arguments.a);
  arguments.b = WithoutSecrets(arguments.b);
  SHARD_TRY(const manifest::DiffReport report, Compare(a, b));
  const char* files = a.is_node ? "files" : "bundles";
  SHARD_CHECK(arguments.json ? WriteJsonResult(DiffJson(arguments, report))
                             : WriteResult(DiffText(arguments, report, files)));
  return arguments.exit_code && !report.same() ? kExitMismatch : kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  app.add_option(
         "A", arguments->a,
         "A distribution or a node that assemble made, or the path of its distribution.json or "
         "moepack_node.json. A distribution may be at an address (https://host/path/).")
      ->required();
  app.add_option("B", arguments->b, "The one to compare it with.")->required();
  StartSection(app, Section::kGeneral);
  app.add_flag("--tensors", arguments->tensors,
               "List every changed tensor too, not only their number. --json always does.");
  app.add_flag("--exit-code", arguments->exit_code, "Exit with status 6 when they differ.");
  AddRemoteOptions(app, arguments->remote);
  AddJson(app, arguments->json);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace diff_command

constinit const Command kDiff = {
    "diff",
    "Shows what changed between two distributions, or two nodes",
    "Compares the manifests: model, partition, overlay, routing, the digests of files, tensors and "
    "assets, recipe and version of the tool. Says how many bytes a node that has A must fetch for "
    "B. No bundle is read. Of two nodes: versions, group, experts, files, recipe and version of "
    "the tool.",
    {"moepack diff out out-q4", "moepack diff out/distribution.json joined --json"},
    diff_command::Bind};

}  // namespace moepack::cli

#include "manifest/diff.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/file.h"
#include "libshard/quote.h"
#include "libshard/text.h"
#include "tools/command.h"
#include "tools/exit_code.h"
#include "tools/options.h"
#include "tools/output.h"
#include "tools/table.h"

namespace cli {
namespace {

using shard::Cat;
using shard::Json;

constexpr const char* kTensorChange = "tensor";

struct Arguments {
  std::string a, b;
  bool exit_code = false, tensors = false, json = false;
};

// A directory, or the distribution.json in it.
Result<manifest::Manifest> Read(const std::string& path) {
  const shard::fs::path named(path);
  if (named.filename() != manifest::kManifestFile) return manifest::ReadManifest(path);
  return manifest::ReadManifest(named.has_parent_path() ? named.parent_path().string() : ".");
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

std::string DiffText(const Arguments& arguments, const manifest::DiffReport& report) {
  const std::string a = shard::Shown(arguments.a), b = shard::Shown(arguments.b);
  if (report.same()) return Cat(a, " and ", b, " are the same\n");
  std::string text = ChangeTable(report, false);
  if (arguments.tensors) text += ChangeTable(report, true);
  const auto tensors = static_cast<uint64_t>(
      std::count_if(report.changes.begin(), report.changes.end(),
                    [](const manifest::Change& change) { return change.what == kTensorChange; }));
  text += Plural(report.changes.size(), "change");
  if (tensors > 0 && !arguments.tensors)
    text += Cat(", ", shard::FormatCount(tensors), " of them in tensors (--tensors lists them)");
  return text + Cat("; of the bundles of ", b, ", ", ExactBytes(report.changed_bytes),
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

Result<int> Run(const Arguments& arguments) {
  SHARD_TRY(const manifest::Manifest a, Read(arguments.a));
  SHARD_TRY(const manifest::Manifest b, Read(arguments.b));
  const manifest::DiffReport report = manifest::DiffManifests(a, b);
  SHARD_CHECK(arguments.json ? WriteJsonResult(DiffJson(arguments, report))
                             : WriteResult(DiffText(arguments, report)));
  return arguments.exit_code && !report.same() ? kExitMismatch : kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  app.add_option("A", arguments->a, "A distribution, or the path of its distribution.json.")
      ->required();
  app.add_option("B", arguments->b, "The one to compare it with.")->required();
  app.add_flag("--tensors", arguments->tensors,
               "List every changed tensor too, not only their number. --json always does.");
  app.add_flag("--exit-code", arguments->exit_code, "Exit with status 6 when they differ.");
  AddJson(app, arguments->json);
  return [arguments] { return Run(*arguments); };
}

}  // namespace

constinit const Command kDiff = {
    "diff",
    "Shows what changed between two distributions",
    "Compares the manifests: model, partition, overlay, routing, the digests of files, tensors and "
    "assets, recipe and version of the tool. Says how many bytes a node that has A must fetch for "
    "B. No bundle is read.",
    {"moepack diff out out-q4", "moepack diff out/distribution.json parts --json"},
    Bind};

}  // namespace cli

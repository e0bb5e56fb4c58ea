#include "manifest/document/diff.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/files/file.h"
#include "libshard/base/text/address.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "manifest/document/node_record.h"
#include "manifest/node/diff_nodes.h"
#include "manifest/registry/diff_sets.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/base/table.h"
#include "tools/options/options.h"
#include "tools/options/reference_option.h"
#include "tools/options/source.h"

namespace moepack::cli {
namespace diff_command {
namespace {

using registry::Reference;

constexpr const char* kTensorChange = "tensor";
// Bytes of a cell of the table, and how many of them come before the first difference.
constexpr size_t kMaxCell = 120, kBefore = 30;

struct Arguments {
  std::string a, b;
  std::optional<uint32_t> group;
  RemoteArguments remote;
  RegistryArguments registry;
  bool exit_code = false, tensors = false, json = false;
};

// A distribution or a node: its directory, or the file that describes it.
struct Side {
  std::string directory;
  bool is_node = false;
  SourceTreePtr tree = nullptr;  // of a distribution elsewhere
};

// For an address only the whole can be compared: a distribution.
Result<Side> SideOf(const std::string& path, const RemoteArguments& remote) {
  if (IsAddress(path)) {
    SHARD_TRY(const moepack::Source source, OpenSource(path, remote));
    return Side{source.tree->name(), false, source.tree};
  }
  SHARD_CHECK(CheckIsNoReference(path));
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
    // What cannot be read is neither.
    SHARD_CHECK(manifest::ReadNodeRecord(a.is_node ? a.directory : b.directory));
    SHARD_CHECK(ReadSide(a.is_node ? b : a));
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

// A cell of the table: of a long text, whose whole is in --json, the part from about `first` on.
std::string Excerpt(const std::string& text, size_t first) {
  if (text.empty()) return "-";
  if (text.size() <= kMaxCell) return text;
  size_t start = std::min(first > kBefore ? first - kBefore : 0, text.size() - kMaxCell);
  start = WholeCharacters(text, start).size();
  const std::string_view part = WholeCharacters(std::string_view(text).substr(start), kMaxCell);
  const bool whole_end = start + part.size() == text.size();
  return Cat(start > 0 ? "..." : "", part, whole_end ? "" : "...");
}

std::string ChangeTable(const manifest::DiffReport& report, bool tensors) {
  Table table({"what", "name", "before", "after"});
  for (const manifest::Change& change : report.changes) {
    if ((change.what == kTensorChange) != tensors) continue;
    const std::string &before = change.before, &after = change.after;
    // Where one is absent, the other is shown from its beginning.
    const auto first =
        std::mismatch(before.begin(), before.end(), after.begin(), after.end()).first;
    const auto at = static_cast<size_t>(first - before.begin());
    table.Row({change.what, change.name, Excerpt(before, at), Excerpt(after, at)});
  }
  return table.empty() ? "" : table.Render() + "\n";
}

std::string DiffLine(const Arguments& arguments, const manifest::DiffReport& report,
                     const char* files) {
  const std::string a = Shown(arguments.a), b = Shown(arguments.b);
  if (report.same()) return Cat(a, " and ", b, " are the same");
  const auto tensors = static_cast<uint64_t>(
      std::count_if(report.changes.begin(), report.changes.end(),
                    [](const manifest::Change& change) { return change.what == kTensorChange; }));
  std::string text = Plural(report.changes.size(), "change");
  if (tensors > 0 && !arguments.tensors)
    text += Cat(", ", FormatCount(tensors), " of them in tensors (--tensors lists them)");
  return text + Cat("; of the ", files, " of ", b, ", ", ExactBytes(report.changed_bytes),
                    " are new and ", ExactBytes(report.same_bytes), " are already in ", a);
}

std::string DiffText(const Arguments& arguments, const manifest::DiffReport& report,
                     const char* files) {
  std::string text = report.same() ? "" : ChangeTable(report, false);
  if (arguments.tensors && !report.same()) text += ChangeTable(report, true);
  return Cat(text, DiffLine(arguments, report, files), "\n");
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

// ---- Published sets

bool IsPublished(const std::string& text) {
  const auto reference = registry::ParseReference(text);
  return reference && reference->kind != Reference::Kind::kFiles;
}

// One of them may be a distribution as files, given by its directory or its distribution.json.
std::string PlaceOf(const std::string& text) {
  const fs::path named(text);
  if (IsPublished(text) || IsAddress(text) || named.filename() != manifest::kManifestFile)
    return text;
  return named.has_parent_path() ? named.parent_path().string() : ".";
}

std::string NodeTable(const registry::SetDiff& diff) {
  Table nodes({">group", ">bytes of a node", ">to fetch"});
  for (const registry::SetDiff::Node& node : diff.nodes)
    nodes.Row({Cat(node.group), FormatCount(node.bytes), FormatCount(node.fetch_bytes)});
  return nodes.empty() ? "" : "\n" + nodes.Render();
}

std::string SetsText(const Arguments& arguments, const registry::SetDiff& diff) {
  std::string text = DiffText(arguments, diff.report, "layers");
  if (diff.report.same()) return text;
  return Cat(text, Plural(diff.added, "layer"), " added, ", diff.removed, " removed, ", diff.shared,
             " shared; ",
             diff.same_base ? "trunk and groups are the same" : "trunk and groups are not the same",
             "\n", NodeTable(diff));
}

Json SetsJson(const Arguments& arguments, const registry::SetDiff& diff) {
  Json document = DiffJson(arguments, diff.report);
  document["layers"] = {{"added", diff.added}, {"removed", diff.removed}, {"shared", diff.shared}};
  document["same_base"] = diff.same_base;
  Json& nodes = document["nodes"] = Json::array();
  for (const registry::SetDiff::Node& node : diff.nodes) {
    nodes.push_back(
        {{"group", node.group}, {"bytes", node.bytes}, {"fetch_bytes", node.fetch_bytes}});
  }
  return document;
}

// Options for addresses have an effect if a distribution or a layout at one is read.
Status CheckAddressUse(const RemoteArguments& remote, const Reference& a, const Reference& b) {
  const auto is_server = [](const Reference& one) { return one.kind == Reference::Kind::kServer; };
  Status use = CheckRemoteUse(remote, Shown(ReferenceText(a)),
                              is_server(a) ? "a registry" : "on this machine");
  for (const Reference* one : {&a, &b}) {
    if (is_server(*one) || IsOnThisMachine(*one)) continue;
    use = CheckEndpointUse(remote, one->place);
    if (use) break;
  }
  return use;
}

Result<int> RunPublished(Arguments& arguments) {
  if (arguments.tensors) {
    return Error{Code::kInvalidArgument,
                 "--tensors works with distributions, not with references: published manifests "
                 "name files, not tensors"};
  }
  // Options for registries have an effect if one of them is a registry.
  const auto second = registry::ParseReference(arguments.b);
  const bool by_b = second && second->kind == Reference::Kind::kServer;
  arguments.registry.plain_http = arguments.remote.plain_http;
  SHARD_TRY(NamedStore named, ParseNamed(by_b ? arguments.b : arguments.a, arguments.registry));
  remote::RemoteOptions& remote = named.access.remote;
  remote.endpoint = arguments.remote.endpoint;
  remote.cache = arguments.remote.cache;
  remote.cache_size = arguments.remote.cache_size;
  remote.full_download = arguments.remote.full_download;
  remote.has_full_download = true;
  SHARD_TRY(const Reference a, registry::ParseReference(PlaceOf(arguments.a)));
  SHARD_TRY(const Reference b, registry::ParseReference(PlaceOf(arguments.b)));
  SHARD_CHECK(CheckAddressUse(arguments.remote, a, b));
  SHARD_TRY(const registry::SetDiff diff, registry::DiffSets(a, b, arguments.group, named.access));
  arguments.a = WithoutSecrets(arguments.a);
  arguments.b = WithoutSecrets(arguments.b);
  SHARD_CHECK(arguments.json ? WriteJsonResult(SetsJson(arguments, diff))
                             : WriteReport(SetsText(arguments, diff),
                                           DiffLine(arguments, diff.report, "layers")));
  return arguments.exit_code && !diff.report.same() ? kExitMismatch : kExitDone;
}

Result<int> Run(Arguments& arguments) {
  if (IsPublished(arguments.a) || IsPublished(arguments.b)) return RunPublished(arguments);
  if (arguments.group) {
    return Error{Code::kInvalidArgument,
                 "--group works with published references, not with directories"};
  }
  SHARD_CHECK(CheckRegistryUse(arguments.registry, WithoutSecrets(arguments.a)));
  if (!IsAddress(arguments.a) && !IsAddress(arguments.b))
    SHARD_CHECK(CheckRemoteUse(arguments.remote, arguments.a));
  SHARD_TRY(const Side a, SideOf(arguments.a, arguments.remote));
  SHARD_TRY(const Side b, SideOf(arguments.b, arguments.remote));
  arguments.a = WithoutSecrets(arguments.a);
  arguments.b = WithoutSecrets(arguments.b);
  SHARD_TRY(const manifest::DiffReport report, Compare(a, b));
  const char* files = a.is_node ? "files" : "bundles";
  SHARD_CHECK(arguments.json ? WriteJsonResult(DiffJson(arguments, report))
                             : WriteReport(DiffText(arguments, report, files),
                                           DiffLine(arguments, report, files)));
  return arguments.exit_code && !report.same() ? kExitMismatch : kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  app.add_option(
         "A", arguments->a,
         "A distribution or a node that assemble made, or the path of its distribution.json or "
         "moepack_node.json. A distribution may be at an address (https://host/path/), or be "
         "published: layout:DIR[:tag], oci://host/repository[:tag], "
         "layout+https://host/path[:tag].")
      ->required();
  app.add_option("B", arguments->b, "The one to compare it with.")->required();
  StartSection(app, "General");
  app.add_flag("--tensors", arguments->tensors,
               "List every changed tensor too, not only their number. --json always does.");
  app.add_flag("--exit-code", arguments->exit_code, "Exit with status 6 when they differ.");
  app.add_option(
         "--group", arguments->group,
         "For published references: show how much a node of this group must fetch. Default: all.")
      ->type_name("G")
      ->transform(AsCount(0, kMaxGroups - 1));
  AddRemoteOptions(app, arguments->remote);
  AddJson(app, arguments->json);
  AddRegistryOptions(app, arguments->registry);
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
    "the tool. If one of them is published: layers and annotations of the manifests, and what a "
    "node of each group must fetch.",
    {"moepack diff out out-q4", "moepack diff out/distribution.json joined --json"},
    {"--tensors", "--group", "--exit-code", "--json"},
    diff_command::Bind};

}  // namespace moepack::cli

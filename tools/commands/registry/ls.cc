#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/text/address.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/list_store.h"
#include "manifest/registry/open_store.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/table.h"
#include "tools/options/options.h"
#include "tools/options/reference_option.h"

namespace moepack::cli {
namespace ls_command {
namespace {

using registry::ListedManifest;

struct Arguments {
  std::string place;
  RegistryArguments registry;
  bool json = false;
};

const char* KindOf(const ListedManifest& listed) {
  if (!listed.problem.empty()) return "broken";
  if (listed.is_signature) return "signature";
  if (!listed.is_set) return "other";
  return listed.is_view ? "node" : "set";
}

// A manifest with several tags is counted once.
std::string ListLine(const std::vector<ListedManifest>& all) {
  std::set<std::string> manifests, signatures;
  size_t tags = 0;
  for (const ListedManifest& listed : all) {
    (listed.is_signature ? signatures : manifests).insert(listed.digest);
    if (!listed.is_signature && !listed.tag.empty()) ++tags;
  }
  return Cat(Plural(manifests.size(), "manifest"),
             tags > manifests.size() ? Cat(" under ", tags, " tags") : "",
             signatures.empty() ? "" : Cat(", ", Plural(signatures.size(), "signature")));
}

std::string ListText(const std::vector<ListedManifest>& all) {
  Table table({"tag", "what", "groups", "overlay", ">files", ">bytes", "manifest"});
  for (const ListedManifest& listed : all) {
    if (listed.is_signature) continue;  // their tags are digests, which nobody reads
    table.Row({listed.tag, KindOf(listed), moepack::Join(listed.groups, ","),
               listed.overlay_version, listed.is_set ? FormatCount(listed.files) : "",
               listed.is_set ? FormatCount(listed.bytes) : "", listed.digest});
  }
  return Cat(table.Render(), "\n", ListLine(all), "\n");
}

Json ListJson(const Arguments& arguments, const std::vector<ListedManifest>& all) {
  Json manifests = Json::array();
  for (const ListedManifest& listed : all) {
    manifests.push_back({{"tag", listed.tag}, {"digest", listed.digest}, {"what", KindOf(listed)}});
    Json& last = manifests.back();
    if (!listed.problem.empty()) last["problem"] = listed.problem;
    if (!listed.is_set) continue;
    last["groups"] = listed.groups;
    last["overlay"] = listed.overlay_version;
    last["files"] = listed.files;
    last["bytes"] = listed.bytes;
  }
  return {{"reference", WithoutSecrets(arguments.place)}, {"manifests", std::move(manifests)}};
}

// Everything is listed, so a tag would promise something that is not done.
Status CheckWholePlace(const std::string& text, const registry::Reference& reference) {
  if (reference.tag.empty() && reference.digest.empty()) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(Shown(text), ": ls lists the whole place; leave out the tag or digest"),
               Cat("name ", ShellWord(registry::ReferenceText(reference.With(""))))};
}

Result<int> Run(const Arguments& arguments) {
  SHARD_TRY(const NamedStore named, ParseNamed(arguments.place, arguments.registry));
  SHARD_CHECK(CheckWholePlace(arguments.place, named.reference));
  SHARD_TRY(const registry::StorePtr store, registry::OpenStore(named.reference, named.access));
  SHARD_TRY(const std::vector<ListedManifest> all, registry::ListStore(*store));
  for (const ListedManifest& listed : all) {
    if (listed.problem.empty()) continue;
    const std::string tag = listed.tag.empty() ? "" : Cat("tag ", Quoted(listed.tag), ": ");
    PrintWarnings({tag + listed.problem});
  }
  SHARD_CHECK(arguments.json ? WriteJsonResult(ListJson(arguments, all))
                             : WriteReport(ListText(all), ListLine(all)));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddReference(app, "REF", arguments->place,
               "oci://host[:port]/repository of a registry, layout:DIR of this machine, or "
               "layout+https://host/path of a web server.");
  AddJson(app, arguments->json);
  AddRegistryOptions(app, arguments->registry);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace ls_command

constinit const Command kLs = {
    "ls",
    "Lists what a registry or an image layout holds",
    "Lists the tags of a repository or of an OCI image layout with the digests of their manifests: "
    "whole sets, the "
    "views that have one node's files, and what other tools put there. The bytes are those of all "
    "files that a manifest names; the blobs themselves are not read. A manifest that is corrupt or "
    "missing is listed as broken, with a warning.",
    {"moepack ls layout:models", "moepack ls layout:models --json"},
    {"--username", "--password-stdin", "--plain-http", "--json"},
    ls_command::Bind};

}  // namespace moepack::cli

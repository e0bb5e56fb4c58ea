#include "manifest/registry/tag.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/text/address.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/base/table.h"
#include "tools/options/options.h"
#include "tools/options/reference_option.h"
#include "tools/reports/store_report.h"

namespace moepack::cli {
namespace tag_command {
namespace {

using registry::RemovedTags;

struct Arguments {
  std::string place;
  std::vector<std::string> tags;
  RegistryArguments registry;
  registry::PutOptions tag;
  bool remove = false, json = false;
};

Status CheckTagWords(const Arguments& arguments) {
  if (arguments.remove && arguments.tag.force) {
    return Error{Code::kInvalidArgument, "--force has no effect beside --remove",
                 "leave it out: it is for tags that are moved"};
  }
  if (arguments.remove == arguments.tags.empty()) return Ok();
  if (arguments.remove) {
    return Error{Code::kInvalidArgument, "--remove takes one REF and no new tags",
                 "run it once for each tag to remove"};
  }
  return Error{Code::kInvalidArgument, "give at least one new tag",
               "--remove removes the tag of REF"};
}

Json Begun(const Arguments& arguments) {
  return {{"reference", WithoutSecrets(arguments.place)}, {"dry_run", arguments.tag.dry_run}};
}

std::string RemovedLine(const Arguments& arguments, const RemovedTags& removed) {
  std::string text =
      Cat(arguments.tag.dry_run ? "would remove " : "removed ", Plural(removed.tags.size(), "tag"));
  if (!removed.other.empty()) {
    std::vector<std::string> words;
    for (const std::string& tag : removed.other) words.push_back(Shown(tag));
    text += Cat("; the manifest also has ", moepack::Join(words, ", "));
  }
  return text + "; `moepack gc` removes blobs that no tag refers to any more";
}

std::string RemovedText(const Arguments& arguments, const RemovedTags& removed) {
  Table table({"tag", "manifest"});
  for (const registry::Tagged& one : removed.tags) table.Row({one.tag, one.manifest.digest});
  return Cat(table.Render(), "\n", RemovedLine(arguments, removed), "\n");
}

Json RemovedJson(const Arguments& arguments, const RemovedTags& removed) {
  Json document = Begun(arguments);
  Json& tags = document["removed"] = Json::array();
  for (const registry::Tagged& one : removed.tags)
    tags.push_back({{"tag", one.tag}, {"digest", one.manifest.digest}});
  document["other_tags"] = removed.other;
  return document;
}

Result<int> Run(Arguments& arguments) {
  SHARD_CHECK(CheckTagWords(arguments));
  SHARD_TRY(NamedStore named, ParseNamed(arguments.place, arguments.registry));
  registry::PutOptions& options = arguments.tag;
  options.access = std::move(named.access);
  if (arguments.remove) {
    SHARD_TRY(const RemovedTags removed, registry::RemoveTags(named.reference, options));
    SHARD_CHECK(arguments.json ? WriteJsonResult(RemovedJson(arguments, removed))
                               : WriteReport(RemovedText(arguments, removed),
                                             RemovedLine(arguments, removed)));
    return kExitDone;
  }
  SHARD_TRY(const registry::StoreReport report,
            registry::AddTags(named.reference, arguments.tags, options));
  Json document = Begun(arguments);
  document["digest"] = report.digest();
  document["tags"] = TagsJson(report);
  SHARD_CHECK(arguments.json ? WriteJsonResult(document)
                             : WriteReport(TagTable(report), TagLine(report)));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddReference(app, "REF", arguments->place,
               "What is tagged: oci://host[:port]/repository[:tag][@sha256:...] or "
               "layout:DIR[:tag][@sha256:...]. Default tag: latest.");
  app.add_option("TAG", arguments->tags, "The tags to add.")->check([](const std::string& tag) {
    return registry::IsTag(tag) ? "" : Cat(Quoted(tag), " is not a tag");
  });
  StartSection(app, "Output");
  app.add_flag("!--no-views", arguments->tag.views,
               "Leave the node views of a set as they are. Default: they get <TAG>-g000 and so "
               "on, and lose theirs with --remove.");
  app.add_flag("--force", arguments->tag.force, "Move tags that name something else.");
  app.add_flag(
      "--remove", arguments->remove,
      "Remove the tag of REF. For layouts only: registries have no portable way to do it.");
  AddDryRun(app, arguments->tag.dry_run);
  AddJson(app, arguments->json);
  AddRegistryOptions(app, arguments->registry);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace tag_command

constinit const Command kTag = {
    "tag",
    "Adds tags to a published set, or removes one",
    "The manifest that REF names gets more tags in the same registry or layout, and so do the node "
    "views of a set. Nothing is copied. --remove removes a tag of a layout; its blobs stay until "
    "gc.",
    {"moepack tag layout:models:v1 stable", "moepack tag layout:models:stable --remove"},
    {"--remove", "--force", "--username", "--password-stdin", "--dry-run"},
    tag_command::Bind};

}  // namespace moepack::cli

#include "manifest/registry/inspect.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/text/address.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/describe_set.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/table.h"
#include "tools/options/options.h"
#include "tools/options/reference_option.h"

namespace moepack::cli {
namespace inspect_command {
namespace {

using registry::Inspection;

struct Arguments {
  std::string place;
  RegistryArguments registry;
  bool raw = false, json = false;
};

const char* KindName(Inspection::Kind kind) {
  switch (kind) {
    case Inspection::Kind::kSet:
      return "set";
    case Inspection::Kind::kView:
      return "node";
    case Inspection::Kind::kIndex:
      return "index";
    case Inspection::Kind::kOther:
      break;
  }
  return "other";
}

// A member of one of the objects of the ModelPack config, whose form was not checked any further.
std::string ConfigText(const Json& config, const char* object, const char* key) {
  const auto found = config.find(object);
  return found == config.end() || !found->is_object() ? "" : TextMember(*found, key);
}

// The facts of the page in order: what, and its value.
using Facts = std::vector<std::pair<std::string, std::string>>;

void AddModelFacts(const Inspection& found, const Json& config, Facts& facts) {
  facts.insert(facts.end(), {{"model", ConfigText(config, "descriptor", "name")},
                             {"revision", ConfigText(config, "descriptor", "revision")},
                             {"family", ConfigText(config, "descriptor", "family")},
                             {"architecture", ConfigText(config, "config", "architecture")},
                             {"format", ConfigText(config, "config", "format")},
                             {"parameters", ConfigText(config, "config", "paramSize")},
                             {"recipe", ConfigText(config, "config", "quantization")}});
  const auto note = [&](const char* what, const std::string& key) {
    facts.emplace_back(what, registry::AnnotationOf(found.annotations, key));
  };
  note("calibrated", registry::kCalibratedKey);
  note("versions", "org.opencontainers.image.version");
  note("created", "org.opencontainers.image.created");
  note("set id", registry::kSetIdKey);
  note("groups", registry::kGroupsKey);
  note("overlay", registry::kOverlayVersionKey);
  note("distribution.json", registry::kDistributionKey);
  note("view of", registry::kViewOfKey);
}

std::string SignatureText(const Inspection& found) {
  if (!found.signatures) return "none";
  return Cat(found.signature_count, " (not verified), ", found.signatures->blob.digest);
}

char ToUpper(char letter) {
  return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
}

Facts FactsOf(const Inspection& found, const Json& config) {
  Facts facts = {{"manifest", found.manifest.blob.digest},
                 {"what", KindName(found.kind)},
                 {"type", found.manifest.blob.media_type},
                 {"artifact", found.artifact_type}};
  AddModelFacts(found, config, facts);
  // ModelPack writes "30b", and cards "30B".
  for (auto& [what, value] : facts)
    if (what == "parameters") std::transform(value.begin(), value.end(), value.begin(), ToUpper);
  facts.emplace_back("tags", moepack::Join(found.tags, ", "));
  facts.emplace_back("signatures", SignatureText(found));
  std::erase_if(facts, [](const auto& fact) { return fact.second.empty(); });
  return facts;
}

std::string PageText(const Inspection& found, const Json& config) {
  const Facts facts = FactsOf(found, config);
  size_t width = 0;
  for (const auto& [what, value] : facts) width = std::max(width, what.size() + 2);
  std::string text;
  for (const auto& [what, value] : facts)
    text += Cat(what, std::string(width - what.size(), ' '), Shown(value), "\n");
  Table parts({"role", ">files", ">bytes"});
  for (const Inspection::Part& part : found.parts)
    parts.Row({part.role.empty() ? "other" : part.role, FormatCount(part.files),
               FormatCount(part.bytes)});
  if (!parts.empty()) text += "\n" + parts.Render();
  Table nodes({">group", ">group bytes", ">files of a node", ">bytes of a node"});
  for (const Inspection::Node& node : found.nodes)
    nodes.Row({Cat(node.group), FormatCount(node.group_bytes), FormatCount(node.files),
               FormatCount(node.bytes)});
  if (!nodes.empty()) text += "\n" + nodes.Render();
  return text;
}

Json PageJson(const Arguments& arguments, const Inspection& found, const Json& config) {
  Json document = {{"reference", WithoutSecrets(arguments.place)},
                   {"digest", found.manifest.blob.digest},
                   {"what", KindName(found.kind)},
                   {"media_type", found.manifest.blob.media_type},
                   {"artifact_type", found.artifact_type},
                   {"tags", found.tags}};
  Facts facts;
  AddModelFacts(found, config, facts);
  for (const auto& [what, value] : facts) {
    if (!value.empty()) document["facts"][what] = value;
  }
  Json& parts = document["parts"] = Json::array();
  for (const Inspection::Part& part : found.parts)
    parts.push_back({{"role", part.role}, {"files", part.files}, {"bytes", part.bytes}});
  Json& nodes = document["nodes"] = Json::array();
  for (const Inspection::Node& node : found.nodes) {
    nodes.push_back({{"group", node.group},
                     {"group_bytes", node.group_bytes},
                     {"files", node.files},
                     {"bytes", node.bytes}});
  }
  document["signatures"] = {{"count", found.signature_count}};
  if (found.signatures) document["signatures"]["digest"] = found.signatures->blob.digest;
  return document;
}

Result<int> Run(const Arguments& arguments) {
  SHARD_TRY(const NamedStore named, ParseNamed(arguments.place, arguments.registry));
  SHARD_TRY(const Inspection found, registry::Inspect(named.reference, named.access));
  const std::string& text = found.manifest.text;
  if (arguments.raw) {
    SHARD_CHECK(WriteJsonText(text));
    return kExitDone;
  }
  Json config = Json::object();
  if (!found.config.empty()) {
    SHARD_TRY(config, ParseJson("config", found.config));
  }
  if (!arguments.json) {
    SHARD_CHECK(WriteReport(PageText(found, config)));
    return kExitDone;
  }
  Json document = PageJson(arguments, found, config);
  SHARD_TRY(document["manifest"], ParseJson("manifest", text));
  document["config"] = std::move(config);
  SHARD_CHECK(WriteJsonResult(document));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddReference(app, "REF", arguments->place,
               "oci://host[:port]/repository[:tag][@sha256:...] of a registry, "
               "layout:DIR[:tag][@sha256:...] of this machine, layout+https://host/path[:tag] of a "
               "web server, or a distribution as files. Default tag: latest.");
  CLI::Option* raw = app.add_flag(
      "--raw", arguments->raw,
      "Print only the bytes of the manifest. Terminal control characters are escaped.");
  AddJson(app, arguments->json);
  raw->excludes("--json");
  AddRegistryOptions(app, arguments->registry);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace inspect_command

constinit const Command kInspect = {
    "inspect",
    "Shows what one published manifest is",
    "Prints a page about the manifest that REF names: set or node view, model, recipe, "
    "calibration, "
    "versions, groups and overlay, sizes by role and by node, its tags, and how many signatures "
    "there are. "
    "The manifest and its config are read, and compared with their digests; signatures are not "
    "verified.",
    {"moepack inspect layout:models:v1", "moepack inspect layout:models:v1-g000 --json"},
    {"--raw", "--username", "--password-stdin", "--plain-http", "--json"},
    inspect_command::Bind};

}  // namespace moepack::cli

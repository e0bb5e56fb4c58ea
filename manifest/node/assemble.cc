#include "manifest/node/assemble.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/digest.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "libshard/model/config.h"
#include "libshard/model/family_find.h"
#include "libshard/model/family_match.h"
#include "libshard/model/hf_config.h"
#include "libshard/refit/node_top_k.h"
#include "manifest/document/asset_names.h"
#include "manifest/document/group_range.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/pull_lock.h"
#include "manifest/document/use_overlay.h"
#include "manifest/node/assemble_gguf.h"
#include "manifest/node/node_config.h"
#include "manifest/node/node_files.h"
#include "manifest/node/node_parts.h"
#include "manifest/write/assets.h"
#include "manifest/write/output_path.h"

namespace moepack::manifest {
namespace {

namespace fs = moepack::fs;

constexpr const char* kIndexName = "model.safetensors.index.json";

// Everything about the node that is decided before a byte is written.
struct Node {
  Manifest manifest;
  ModelConfig config;
  NodeConfig node_config;
  NodeParts parts;
};

Error NoEffect(const char* option, const std::string& why, const char* hint) {
  return {Code::kInvalidArgument, Cat(option, " has no effect", why), hint};
}

Status CheckForGguf(const std::string& distribution, const AssembleOptions& options) {
  if (!options.family_file.empty()) {
    return NoEffect("--family", Cat(": ", distribution, " has GGUF bundles"),
                    "leave it out: the names of a GGUF are the same for every family");
  }
  if (options.layout != NodeLayout::kSingle) return Ok();
  const char* option = options.link                ? "--link"
                       : options.max_part_size > 0 ? "--max-part-size"
                                                   : nullptr;
  if (option == nullptr) return Ok();
  return NoEffect(option, " with --layout single",
                  "leave it out: a single file holds trunk and experts together");
}

Status CheckForSafetensors(const std::string& distribution, const AssembleOptions& options) {
  const char* option = options.layout                               ? "--layout"
                       : options.link                               ? "--link"
                       : !options.name.empty()                      ? "--name"
                       : options.max_part_size > 0                  ? "--max-part-size"
                       : options.alignment != kGgufDefaultAlignment ? "--alignment"
                                                                    : nullptr;
  if (option == nullptr) return Ok();
  return NoEffect(option, Cat(": ", distribution, " has safetensors bundles"),
                  "leave it out: such a node is always one checkpoint in Hugging Face's layout");
}

Error WrongDigest(const SourceTree& distribution, const AssetRecord& asset,
                  const std::string& found) {
  return Error{
      Code::kMismatch,
      Cat(distribution.NameOf(asset.file), ": sha256: expected ", asset.sha256, ", found ", found),
      kCorruptHint};
}

// Opens every asset, so that a missing one ends the run before anything is written.
Status CheckAssets(const SourceTree& distribution, const Manifest& manifest) {
  for (const AssetRecord& asset : manifest.assets) SHARD_CHECK(distribution.Open(asset.file));
  return Ok();
}

// Reads config.json and checks its digest, because the node's config is made from it.
Result<std::string> ReadConfigAsset(const SourceTree& distribution, const Manifest& manifest) {
  const AssetRecord* config = nullptr;
  for (const AssetRecord& asset : manifest.assets) {
    if (asset.file == kConfigAsset) config = &asset;
  }
  if (config == nullptr) {
    return Error{
        Code::kNotFound,
        Cat(distribution.name(), ": ", kConfigAsset, ": expected it in the manifest, found none"),
        "add the assets with shard-experts --only assets"};
  }
  SHARD_TRY(std::string text, distribution.ReadText(kConfigAsset, moepack::kMaxConfigBytes));
  const std::string sha256 = Sha256Hex(text);
  if (sha256 != config->sha256) return WrongDigest(distribution, *config, sha256);
  return text;
}

Result<Node> PrepareNode(const SourceTreePtr& distribution, Manifest manifest,
                         const AssembleOptions& options) {
  Node node;
  node.manifest = std::move(manifest);
  const Plan& plan = node.manifest.plan;
  const std::string config_path = distribution->NameOf(kConfigAsset);
  SHARD_CHECK(CheckAssets(*distribution, node.manifest));
  SHARD_TRY(const std::string text, ReadConfigAsset(*distribution, node.manifest));
  SHARD_TRY(node.config, ParseModelConfig(config_path, text));
  Family from_file;
  const Family* family = &from_file;
  if (options.family_file.empty()) {
    SHARD_TRY(family, FindFamily(config_path, node.config));
  } else {
    SHARD_TRY(from_file, ReadFamilyFile(options.family_file));
  }
  const Routing routing = ResolveRouting(*family, node.config);
  uint32_t top_k = 0;
  if (node.manifest.refit) {
    SHARD_TRY(top_k, NodeTopK(distribution->name(), *node.manifest.refit));
  }
  SHARD_TRY(node.node_config,
            MakeNodeConfig({config_path, text, node.config, routing, top_k}, plan, options.group));
  FamilyMatcher matcher(*family, node.config.layers);
  SHARD_TRY(node.parts, CutNode(distribution, node.manifest, matcher, options.group));
  return node;
}

std::vector<fs::path> InputsOf(const Node& node, const fs::path& distribution) {
  std::vector<fs::path> inputs;
  for (const BundleRecord& bundle : node.manifest.bundles) {
    inputs.push_back(distribution / bundle.file);
  }
  for (const AssetRecord& asset : node.manifest.assets) {
    inputs.push_back(distribution / asset.file);
  }
  return inputs;
}

std::string IndexText(const std::vector<OutputFile>& files) {
  uint64_t total = 0;
  std::map<std::string, std::string> file_of;
  for (const OutputFile& file : files) {
    for (const OutputTensor& tensor : file.tensors) {
      total += tensor.entry.bytes;
      file_of[tensor.entry.name] = file.path;
    }
  }
  Json weight_map = Json::object();
  for (const auto& [tensor, file] : file_of) {
    weight_map.get_ref<Json::object_t&>().push_back({tensor, Json(file)});
  }
  Json index = Json::object();
  index["metadata"] = {{"total_size", total}};
  index["weight_map"] = std::move(weight_map);
  return WriteJson(index);
}

std::vector<AssembleReport::File> ListFiles(const Node& node) {
  std::vector<AssembleReport::File> files;
  for (const OutputFile& file : node.parts.files) files.push_back({file.path, file.size});
  for (const AssetRecord& asset : node.manifest.assets) {
    const uint64_t bytes = asset.file == kConfigAsset ? node.node_config.text.size() : asset.size;
    files.push_back({asset.file.substr(kAssetDirectory.size()), bytes});
  }
  files.push_back({kIndexName, IndexText(node.parts.files).size()});
  return files;
}

// True for text with "experts.17" or, in a regular expression, "experts\\.17".
bool NamesAnExpert(std::string_view text) {
  constexpr std::string_view kWord = "experts";
  for (size_t at = text.find(kWord); at != text.npos; at = text.find(kWord, at + 1)) {
    std::string_view rest = text.substr(at + kWord.size());
    while (rest.starts_with('\\')) rest.remove_prefix(1);
    if (rest.size() > 1 && rest[0] == '.' && rest[1] >= '0' && rest[1] <= '9') return true;
  }
  return false;
}

// Notes configs whose quantization settings list modules of single experts, because the experts'
// numbers change in a node.
Status NoteNamedExperts(const Node& node, const SourceTree& distribution,
                        std::vector<std::string>& notes) {
  for (const AssetRecord& asset : node.manifest.assets) {
    if (asset.file != kConfigAsset && asset.file != "assets/hf_quant_config.json") continue;
    SHARD_TRY(const std::string text, distribution.ReadText(asset.file, moepack::kMaxConfigBytes));
    if (!NamesAnExpert(text)) continue;
    notes.push_back(Cat(asset.file.substr(kAssetDirectory.size()),
                        " names single experts (of a quantization?) by their numbers in the whole "
                        "model; the node counts its experts from 0: see ",
                        kNodeFile));
  }
  return Ok();
}

// Writes assets and index, and adds their digests to `digests` by name.
Status WriteSmallFiles(const Node& node, const SourceTree& distribution, StagingDirectory& to,
                       std::map<std::string, std::string>& digests) {
  for (const AssetRecord& asset : node.manifest.assets) {
    const std::string name = asset.file.substr(kAssetDirectory.size());
    if (asset.file == kConfigAsset) {
      SHARD_CHECK(to.WriteText(name, node.node_config.text));
      digests[name] = Sha256Hex(node.node_config.text);
      continue;
    }
    SHARD_TRY(const std::string text, distribution.ReadText(asset.file, kMaxAssetBytes));
    const std::string sha256 = Sha256Hex(text);
    if (sha256 != asset.sha256) return WrongDigest(distribution, asset, sha256);
    SHARD_CHECK(to.WriteText(name, text));
    digests[name] = sha256;
  }
  const std::string index = IndexText(node.parts.files);
  digests[kIndexName] = Sha256Hex(index);
  return to.WriteText(kIndexName, index);
}

Result<AssembleReport> AssembleCheckpoint(const SourceTreePtr& tree, Manifest manifest,
                                          const NodeRecord& record, const std::string& out,
                                          const AssembleOptions& options) {
  SHARD_TRY(Node node, PrepareNode(tree, std::move(manifest), options));
  if (const auto directory = tree->LocalPath("")) {
    SHARD_CHECK(CheckOutsideDistribution(out, directory->string(), InputsOf(node, *directory)));
  }
  SHARD_CHECK(CheckReplaceable(out, options.force || options.dry_run));
  AssembleReport report;
  report.files = ListFiles(node);
  report.expert_count = node.parts.expert_count;
  report.notes = node.node_config.notes;
  SHARD_CHECK(NoteNamedExperts(node, *tree, report.notes));
  const std::vector<AssembleReport::File> files = report.files;
  SHARD_TRY(const std::string planned, NodeText(record, files, {}));
  report.files.push_back({kNodeFile, planned.size()});
  if (options.dry_run) return report;

  NodeParts& parts = node.parts;
  // Tensors of which only rows are copied are hashed whole first. Whole copies are compared after
  // packing, which hashes them anyway.
  SHARD_CHECK(CheckCutTensors(parts.cut, parts.sources, options.pack));
  const std::string identity = PackIdentity(parts.sources, parts.files);
  SHARD_TRY(StagingDirectory staging, StagingDirectory::Start(out, identity, OwnOutput()));
  SHARD_TRY(const PackResult packed, Pack(parts.sources, parts.files, staging, options.pack));
  SHARD_CHECK(CheckCopied(parts.files, packed.files, parts.digests, parts.sources));
  std::map<std::string, std::string> digests;
  for (size_t i = 0; i < parts.files.size(); ++i) {
    digests[parts.files[i].path] = packed.files[i].sha256;
  }
  SHARD_CHECK(WriteSmallFiles(node, *tree, staging, digests));
  // The node file comes last because it holds the digests of all others.
  SHARD_TRY(const std::string text, NodeText(record, files, digests));
  SHARD_CHECK(staging.WriteText(kNodeFile, text));
  SHARD_CHECK(staging.Publish(options.force));
  report.warnings = staging.warnings();
  return report;
}

// Leaves the node's overlay in the manifest, and says which one if that is not the current one.
Result<std::string> ChooseOverlay(const std::string& distribution, const SourceTree& tree,
                                  const AssembleOptions& options, Manifest& manifest) {
  DefaultOverlay chosen{.version = options.overlay, .none = !options.with_overlay};
  if (chosen.version.empty() && !chosen.none) {
    SHARD_TRY(chosen, OverlayByDefault(tree, manifest.plan));
  }
  if (chosen.none) {
    UseNoOverlay(manifest);
  } else {
    SHARD_CHECK(UseOverlay(distribution, chosen.version, manifest));
  }
  return std::move(chosen.note);
}

// The sizes of what a node of the group is made from. REQUIRES: the overlay was chosen.
uint64_t SourceBytes(const Manifest& manifest, uint64_t manifest_bytes, uint32_t group) {
  uint64_t bytes = manifest_bytes;
  for (const BundleRecord& bundle : manifest.bundles) {
    const bool of_others = bundle.group && bundle.group != group;
    const bool unused = bundle.role == Role::kRouters || bundle.role == Role::kRemainder;
    bytes += of_others || unused ? 0 : bundle.size;
  }
  if (manifest.is_gguf()) return bytes;
  for (const AssetRecord& asset : manifest.assets) bytes += asset.size;
  return bytes;
}

Result<AssembleReport> Assemble(const std::string& distribution, const std::string& out,
                                const AssembleOptions& options) {
  if (!options.distribution) SHARD_CHECK(CheckOutsideDistribution(out, distribution));
  const SourceTreePtr tree =
      options.distribution ? options.distribution : std::make_shared<const LocalTree>(distribution);
  SHARD_TRY(const std::string text, ReadManifestText(*tree));
  SHARD_TRY(Manifest manifest, ParseManifest(tree->NameOf(kManifestFile), text));
  SHARD_CHECK(CheckGroup(distribution, options.group, manifest.plan.groups.size()));
  SHARD_TRY(const std::string note, ChooseOverlay(distribution, *tree, options, manifest));
  const NodeRecord record = DescribeNode(manifest, Sha256Hex(text), options.group);
  const uint64_t source_bytes = SourceBytes(manifest, text.size(), options.group);
  SHARD_CHECK(manifest.is_gguf() ? CheckForGguf(distribution, options)
                                 : CheckForSafetensors(distribution, options));
  SHARD_TRY(AssembleReport report,
            manifest.is_gguf()
                ? AssembleGgufNode(tree, manifest, record, out, options)
                : AssembleCheckpoint(tree, std::move(manifest), record, out, options));
  report.source_bytes = source_bytes;
  if (!note.empty()) report.notes.insert(report.notes.begin(), note);
  return report;
}

}  // namespace

uint64_t AssembleReport::total_bytes() const {
  uint64_t total = 0;
  for (const File& file : files) total += file.bytes;
  return total;
}

Result<AssembleReport> AssembleNode(const std::string& distribution, const std::string& out,
                                    const AssembleOptions& options) {
  Result<AssembleReport> report = Assemble(distribution, out, options);
  if (!report) return NameCorrupt(distribution, std::move(report).error());
  return report;
}

}  // namespace moepack::manifest

#include "manifest/document/node_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/inside_path.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/publish_inside.h"
#include "libshard/base/files/scan_file.h"
#include "libshard/base/files/unreadable.h"
#include "libshard/base/limits.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/format_version.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "libshard/format/checkpoint_index.h"
#include "manifest/document/damaged.h"
#include "manifest/document/describe_model.h"
#include "manifest/document/manifest_json.h"

namespace moepack::manifest {
namespace {

namespace fs = moepack::fs;

constexpr uint64_t kMaxNodeFileBytes = 64u << 20;  // one list of ids per layer, one line per file

std::string DamagedNodeHint(const std::string& directory) {
  return Cat("the node is damaged: ", VerifyCommand(directory),
             " says where; assemble it again to fix it");
}

Json ExpertsToJson(const NodeRecord& record) {
  // Layers are sorted by number, whereas the map has "10" before "2".
  std::vector<std::pair<std::string, std::string>> layers(record.experts_by_layer.begin(),
                                                          record.experts_by_layer.end());
  // Numbers without leading zeros are in order once shorter ones come first.
  std::stable_sort(layers.begin(), layers.end(),
                   [](const auto& a, const auto& b) { return a.first.size() < b.first.size(); });
  Json out = Json::object();
  for (const auto& [layer, ids] : layers) out[layer] = ids;
  return out;
}

Status ReadExperts(const JsonFields& fields, NodeRecord& record) {
  SHARD_TRY(const Json* experts, fields.Object("experts"));
  for (const auto& [layer, ids] : experts->items()) {
    const bool known = layer == "*" || ParseUint(layer).value_or(UINT64_MAX) <= kMaxLayer;
    if (!known || !ids.is_string()) {
      return Error{Code::kCorrupt, Cat(fields.where(), ": experts: expected expert ids by layer, ",
                                       "found ", Quoted(layer), ": ", DescribeJson(ids))};
    }
    SHARD_CHECK(ParseIds(Cat(fields.where(), ": experts: layer ", layer),
                         ids.get_ref<const std::string&>(), kMaxExpertsPerLayer - 1));
    record.experts_by_layer[layer] = ids.get<std::string>();
  }
  return Ok();
}

Result<NodeFileRecord> FileFromJson(const std::string& where, const Json& value) {
  if (!value.is_object()) {
    return Error{Code::kCorrupt, Cat(where, ": expected an object, found ", DescribeJson(value))};
  }
  const JsonFields fields(value, where);
  NodeFileRecord out;
  SHARD_TRY(out.file, fields.String("file"));
  const bool plain = IsSafeRelativePath(out.file) && out.file.size() <= kMaxPath &&
                     out.file.find('/') == std::string::npos && out.file != kNodeFile &&
                     !IsKeptName(out.file);
  if (!plain) {
    return Error{Code::kCorrupt, Cat(where, ": file: expected the name of a file beside ",
                                     kNodeFile, ", found ", Quoted(out.file))};
  }
  SHARD_TRY(out.size, NumberField(fields, "size", kMaxFileBytes));
  SHARD_TRY(out.sha256, HexField(fields, "sha256", 64));
  return out;
}

Status ReadFiles(const JsonFields& fields, NodeRecord& record) {
  SHARD_TRY(const Json* files, fields.Array("files"));
  TextSet<std::string> names;
  for (const Json& value : *files) {
    SHARD_TRY(NodeFileRecord file, FileFromJson(Cat(fields.where(), ": files"), value));
    if (!names.insert(file.file).second) {
      return Error{Code::kCorrupt, Cat(fields.where(), ": files: ", Quoted(file.file),
                                       ": expected once, found twice")};
    }
    record.files.push_back(std::move(file));
  }
  if (!record.files.empty()) return Ok();
  return Error{Code::kCorrupt,
               Cat(fields.where(), ": files: expected the files of the node, found none")};
}

// Reads what version 1.1 of the format added.
Status ReadProvenance(const JsonFields& fields, NodeRecord& record) {
  SHARD_TRY(const Json* distribution, fields.Object("distribution"));
  SHARD_TRY(
      record.distribution_sha256,
      HexField(JsonFields(*distribution, Cat(fields.where(), ": distribution")), "sha256", 64));
  SHARD_TRY(const Json* tool, fields.Object("tool"));
  const JsonFields tool_fields(*tool, Cat(fields.where(), ": tool"));
  SHARD_TRY(record.tool_version, tool_fields.String("version"));
  SHARD_TRY(record.recipe, RecipeFromJson(tool_fields));
  return ReadFiles(fields, record);
}

}  // namespace

const NodeFileRecord* NodeRecord::FindFile(std::string_view file) const {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const NodeFileRecord& one) { return one.file == file; });
  return found == files.end() ? nullptr : &*found;
}

NodeRecord DescribeNode(const Manifest& manifest, const std::string& distribution_sha256,
                        uint32_t group) {
  LayerExperts eligible;
  for (const auto& [layer, expert_count] : manifest.plan.layers) {
    eligible[layer] = Eligible(manifest.plan, group, layer);
  }
  NodeRecord record;
  record.versions = manifest.versions;
  record.group = group;
  const Json experts = LayerExpertsToJson(eligible, manifest.plan.layers);
  for (const auto& [layer, ids] : experts.items())
    record.experts_by_layer[layer] = ids.get<std::string>();
  record.distribution_sha256 = distribution_sha256;
  record.tool_version = ToolVersion();
  record.recipe = manifest.recipe;
  return record;
}

Json NodeToolToJson(const NodeRecord& record) {
  Json tool = {{"name", "moepack"}, {"version", record.tool_version}};
  AppendRecipe(record.recipe, tool);
  return tool;
}

std::string WriteNodeRecord(NodeRecord record) {
  std::sort(record.files.begin(), record.files.end(),
            [](const NodeFileRecord& a, const NodeFileRecord& b) { return a.file < b.file; });
  Json document = {{"format", kNodeFormatName}};
  document["format_version"] = Cat(kNodeFormatMajor, ".", kNodeFormatMinor);
  document["versions"] = VersionsToJson(record.versions);
  document["group"] = record.group;
  document["experts"] = ExpertsToJson(record);
  document["distribution"] = {{"sha256", record.distribution_sha256}};
  document["tool"] = NodeToolToJson(record);
  Json& files = document["files"] = Json::array();
  for (const NodeFileRecord& file : record.files) {
    files.push_back({{"file", file.file}, {"size", file.size}, {"sha256", file.sha256}});
  }
  return WriteJson(document);
}

Result<NodeRecord> ParseNodeRecord(const std::string& where, std::string_view text) {
  SHARD_TRY(const Json document, ParseJson(where, text));
  if (!document.is_object()) {
    return Error{Code::kCorrupt,
                 Cat(where, ": expected an object, found ", DescribeJson(document))};
  }
  const JsonFields fields(document, where);
  NodeRecord record;
  SHARD_TRY(const FormatVersion version, CheckFormat(fields, kNodeFormatName, kNodeFormatMajor));
  SHARD_TRY(const Json* versions, fields.Object("versions"));
  SHARD_TRY(record.versions, VersionsFromJson(JsonFields(*versions, Cat(where, ": versions"))));
  SHARD_TRY(const uint64_t group, NumberField(fields, "group", kMaxExpertsPerLayer - 1));
  record.group = static_cast<uint32_t>(group);
  SHARD_CHECK(ReadExperts(fields, record));
  if (fields.Has("files") || version.minor > 0) SHARD_CHECK(ReadProvenance(fields, record));
  return record;
}

Result<std::string> ReadableNodeText(const NodeRecord& record) {
  std::string text = WriteNodeRecord(record);
  if (text.size() > kMaxNodeFileBytes)
    return moepack::Unreadable(
        kNodeFile, "one",
        Cat("expected at most ", kMaxNodeFileBytes, " bytes, found ", text.size()));
  const Result<NodeRecord> read = ParseNodeRecord(kNodeFile, text);
  if (!read) return moepack::Unreadable(kNodeFile, "one", read.error().message);
  if (WriteNodeRecord(*read) != text)
    return moepack::Unreadable(kNodeFile, "one", "it would read another record");
  return text;
}

Result<NodeRecord> ReadNodeRecord(const std::string& directory) {
  const LocalTree tree(directory);
  SHARD_TRY(const std::string text, tree.ReadText(kNodeFile, kMaxNodeFileBytes));
  return ParseNodeRecord(tree.NameOf(kNodeFile), text);
}

bool IsNodeDirectory(const std::string& directory) {
  const fs::path path(directory);
  const Result<bool> node = IsThere(path / kNodeFile);
  const Result<bool> manifest = IsThere(path / kManifestFile);
  return node && *node && manifest && !*manifest;
}

Status CheckNodeFile(const std::string& directory, const NodeFileRecord& file,
                     ProgressCounter& progress) {
  const LocalTree tree(directory, LinkRule::kAnywhere);
  SHARD_TRY(const ByteSourcePtr source, tree.Open(file.file));
  if (source->size() != file.size) {
    return Error{
        Code::kMismatch,
        Cat(source->name(), ": size: expected ", file.size, " bytes, found ", source->size()),
        DamagedNodeHint(directory)};
  }
  SHARD_TRY(const std::string sha256,
            Sha256Of(*source, [&](uint64_t bytes) { progress.Add(bytes); }));
  if (sha256 == file.sha256) return Ok();
  return Error{Code::kMismatch,
               Cat(source->name(), ": sha256: expected ", file.sha256, ", found ", sha256),
               DamagedNodeHint(directory)};
}

Status CheckNodeFiles(const std::string& directory, const NodeRecord& record, size_t jobs,
                      const OnProgress& report) {
  uint64_t total = 0;
  for (const NodeFileRecord& file : record.files) total += file.size;
  ProgressCounter progress(report, total);
  return ParallelFor(record.files.size(), ThreadsForFiles(jobs),
                     [&](size_t i) { return CheckNodeFile(directory, record.files[i], progress); });
}

}  // namespace moepack::manifest

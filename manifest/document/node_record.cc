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
#include "libshard/base/tool_version.h"
#include "libshard/format/checkpoint_index.h"
#include "manifest/document/corrupt.h"
#include "manifest/document/manifest_json.h"

namespace moepack::manifest {
namespace {

namespace fs = moepack::fs;

constexpr uint64_t kMaxNodeFileBytes = 64u << 20;  // one list of ids per layer, one line per file

std::string DamagedNodeHint(const std::string& directory) {
  return Cat("the node is corrupt: ", VerifyCommand(directory),
             " says where; assemble it again with --force to fix it");
}

Json WriteNodeExperts(const NodeRecord& record) {
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

Status ReadNodeExperts(const JsonFields& fields, const char* name, NodeRecord& record) {
  SHARD_TRY(const Json* experts, fields.Object(name));
  for (const auto& [layer, ids] : experts->items()) {
    const bool known = layer == "*" || ParseUint(layer).value_or(UINT64_MAX) <= kMaxLayer;
    if (!known || !ids.is_string()) {
      return Error{Code::kCorrupt,
                   Cat(fields.where(), ": ", name, ": expected expert ids by layer, found ",
                       Quoted(layer), ": ", DescribeJson(ids))};
    }
    SHARD_CHECK(ParseIds(Cat(fields.where(), ": ", name, ": layer ", layer),
                         ids.get_ref<const std::string&>(), kMaxExpertsPerLayer - 1));
    record.experts_by_layer[layer] = ids.get<std::string>();
  }
  return Ok();
}

Result<std::string> ReadNodeFileName(const JsonFields& fields, const char* name) {
  SHARD_TRY(std::string file, fields.String(name));
  const bool plain = IsSafeRelativePath(file) && file.size() <= kMaxPath &&
                     file.find('/') == std::string::npos && file != kNodeFile && !IsKeptName(file);
  if (plain) return file;
  return Error{Code::kCorrupt,
               Cat(fields.where(), ": ", name, ": expected the name of a file beside ", kNodeFile,
                   ", found ", Quoted(file))};
}

constexpr Field<NodeFileRecord> kNodeFileFields[] = {
    {"file", As<&NodeFileRecord::file, ReadNodeFileName>},
    {"size", AsCount<&NodeFileRecord::size, kMaxFileBytes>},
    {"sha256", AsHex<&NodeFileRecord::sha256, 64>},
};

Json NodeFilesToJson(const std::vector<NodeFileRecord>& files) {
  Json out = Json::array();
  for (const NodeFileRecord& file : files) out.push_back(ToJson(kNodeFileFields, file));
  return out;
}

Result<std::vector<NodeFileRecord>> ReadNodeFiles(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* list, fields.Array(name));
  const std::string where = Cat(fields.where(), ": ", name);
  TextSet<std::string> names;
  std::vector<NodeFileRecord> files;
  for (const Json& value : *list) {
    SHARD_TRY(NodeFileRecord file, ReadRecord(kNodeFileFields, where, value));
    if (!names.insert(file.file).second) {
      return Error{Code::kCorrupt,
                   Cat(where, ": ", Quoted(file.file), ": expected once, found twice")};
    }
    files.push_back(std::move(file));
  }
  if (!files.empty()) return files;
  return Error{Code::kCorrupt, Cat(where, ": expected the files of the node, found none")};
}

constexpr Field<NodeRecord> kDistributionFields[] = {
    {"sha256", AsHex<&NodeRecord::distribution_sha256, 64>},
};

// After the name of the tool.
constexpr Field<NodeRecord> kNodeToolFields[] = {
    {"version", AsText<&NodeRecord::tool_version>},
    {"recipe", InMember<&NodeRecord::recipe, AsText<&RecipeRecord::name>>, Presence::kOptional},
    {"imatrix", InMember<&NodeRecord::recipe, AsObject<kImatrixFields>>, Presence::kOptional},
};

constexpr Field<NodeRecord> kNodeFields[] = {
    {"versions", As<&NodeRecord::versions, ReadVersions, VersionsToJson>},
    {"group", AsCount<&NodeRecord::group, kMaxExpertsPerLayer - 1>},
    {"experts", {WriteNodeExperts, ReadNodeExperts}},
};

// What version 1.1 of the format added.
constexpr Field<NodeRecord> kProvenanceFields[] = {
    {"distribution", AsObject<kDistributionFields>},
    {"tool", {NodeToolToJson, AsObject<kNodeToolFields>.read}},
    {"files", As<&NodeRecord::files, ReadNodeFiles, NodeFilesToJson>},
};

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
  Json tool = {{"name", "moepack"}};
  WriteFields(kNodeToolFields, record, tool);
  return tool;
}

std::string WriteNodeRecord(NodeRecord record) {
  std::sort(record.files.begin(), record.files.end(),
            [](const NodeFileRecord& a, const NodeFileRecord& b) { return a.file < b.file; });
  Json document = {{"format", kNodeFormatName}};
  document["format_version"] = Cat(kNodeFormatMajor, ".", kNodeFormatMinor);
  WriteFields(kNodeFields, record, document);
  WriteFields(kProvenanceFields, record, document);
  return WriteJson(document);
}

Result<NodeRecord> ParseNodeRecord(const std::string& where, std::string_view text) {
  SHARD_TRY(const Json document, ParseJson(where, text));
  SHARD_CHECK(CheckObject(where, document));
  const JsonFields fields(document, where);
  NodeRecord record;
  SHARD_TRY(const FormatVersion version, CheckFormat(fields, kNodeFormatName, kNodeFormatMajor));
  SHARD_CHECK(ReadFields(kNodeFields, fields, record));
  if (fields.Has("files") || version.minor > 0)
    SHARD_CHECK(ReadFields(kProvenanceFields, fields, record));
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

Error HasNoGroups(const std::string& named) {
  const bool node = IsNodeDirectory(named);
  return {Code::kInvalidArgument,
          Cat(named, ": expected a distribution, found ",
              node ? "a node's directory" : "a model without groups"),
          node ? "name the distribution that the node was assembled from" : ""};
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

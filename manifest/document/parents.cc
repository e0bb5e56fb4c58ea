#include "manifest/document/parents.h"

#include "libshard/base/text/text.h"
#include "manifest/document/manifest_json.h"

namespace moepack::manifest {

namespace {

constexpr const char* kTool = "tool";
constexpr const char* kParents = "parents";
constexpr size_t kMaxParents = 16;

Result<ParentRecord> ParentFromJson(const std::string& where, const Json& value) {
  if (!value.is_object()) {
    return Error{Code::kCorrupt, Cat(where, ": expected an object, found ", DescribeJson(value))};
  }
  const JsonFields fields(value, where);
  ParentRecord parent;
  SHARD_TRY(parent.manifest_sha256, HexField(fields, "manifest_sha256", 64));
  SHARD_TRY(parent.recipe.name, fields.String("recipe"));
  if (!fields.Has("imatrix")) return parent;
  SHARD_TRY(const Json* imatrix, fields.Object("imatrix"));
  const JsonFields inner(*imatrix, Cat(where, ": imatrix"));
  SHARD_TRY(parent.recipe.imatrix_file, inner.String("file"));
  SHARD_TRY(parent.recipe.imatrix_sha256, HexField(inner, "sha256", 64));
  return parent;
}

}  // namespace

Result<std::vector<ParentRecord>> ParentsOf(const Manifest& manifest) {
  std::vector<ParentRecord> parents;
  if (!manifest.original || !manifest.original->contains(kTool)) return parents;
  const JsonFields tool(manifest.original->at(kTool), kTool);
  if (!tool.Has(kParents)) return parents;
  SHARD_TRY(const Json* list, tool.Array(kParents));
  if (list->size() > kMaxParents) return tool.Wrong(kParents, "an array of at most 16 objects");
  for (const Json& value : *list) {
    SHARD_TRY(ParentRecord parent,
              ParentFromJson(Cat("tool.parents[", parents.size(), "]"), value));
    parents.push_back(std::move(parent));
  }
  return parents;
}

void AddParent(const ParentRecord& parent, Manifest& manifest) {
  Json original = manifest.original ? *manifest.original : Json::object();
  Json record = {{"manifest_sha256", parent.manifest_sha256}, {"recipe", parent.recipe.name}};
  if (!parent.recipe.imatrix_file.empty()) {
    record["imatrix"] = {{"file", parent.recipe.imatrix_file},
                         {"sha256", parent.recipe.imatrix_sha256}};
  }
  original[kTool][kParents].push_back(std::move(record));
  manifest.original = std::make_shared<const Json>(std::move(original));
}

}  // namespace moepack::manifest

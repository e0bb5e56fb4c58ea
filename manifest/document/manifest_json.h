// The sections of distribution.json as JSON values: model_record.cc, manifest_sections.cc and
// manifest_bundles.cc have a row per field. Internal to manifest/.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "libshard/base/limits.h"
#include "libshard/base/text/record.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// Upper bounds for what a manifest may name; most come from libshard/base/limits.h. A
// trillion-parameter model with explicit int4 experts needs about 60 MB.
inline constexpr uint64_t kMaxManifestBytes = 512u << 20;
inline constexpr uint32_t kMaxLayer = kMaxLayers - 1;

// A text of this many lower-case hexadecimal digits.
Result<std::string> HexField(const JsonFields& fields, const char* key, size_t digits);

// Reads a whole number of at most `limit`.
Result<uint64_t> NumberField(const JsonFields& fields, const char* key, uint64_t limit);

// Rows for members that are read by them.
template <size_t kDigits>
Result<std::string> HexOf(const JsonFields& fields, const char* key) {
  return HexField(fields, key, kDigits);
}
template <auto kMember, size_t kDigits>
constexpr auto AsHex = As<kMember, HexOf<kDigits>>;

template <class Whole, uint64_t kLimit>
Result<Whole> NumberUpTo(const JsonFields& fields, const char* key) {
  SHARD_TRY(const uint64_t number, NumberField(fields, key, kLimit));
  return static_cast<Whole>(number);
}
template <auto kMember, uint64_t kLimit = std::numeric_limits<ValueIn<kMember>>::max()>
constexpr auto AsCount = As<kMember, NumberUpTo<ValueIn<kMember>, kLimit>>;

// model_record.cc
std::span<const Field<ModelRecord>> ModelFields();
Json ModelToJson(const ModelRecord& model);
Result<ModelRecord> ModelFromJson(const std::string& where, const Json& value);

Json VersionsToJson(const Versions& versions);
Result<Versions> ReadVersions(const JsonFields& fields, const char* name);

// What "tool" says about the importance matrix.
inline constexpr Field<RecipeRecord> kImatrixFields[] = {
    {"file", AsText<&RecipeRecord::imatrix_file>},
    {"sha256", AsHex<&RecipeRecord::imatrix_sha256, 64>},
};

// Writes a number per layer: as {"*": n} if all layers have the same number, otherwise with one key
// per layer.
Json LayerNumbersToJson(const std::map<uint32_t, uint32_t>& numbers);

// Reads {"*": n} or one number per layer, for exactly the layers `layers`. Each number is at most
// `limit`.
Result<std::map<uint32_t, uint32_t>> LayerNumbersFromJson(const std::string& where,
                                                          const Json& value,
                                                          const ExpertIds& layers, uint32_t limit);

// Writes the masked-group policy. "placement" is the plan's table, otherwise the one that was read,
// by default {"rule": "hash"}.
Json RoutingToJson(const Manifest& manifest);

// Write a bundle without its tensors, one tensor, and one asset.
Json BundleToJson(const BundleRecord& bundle);
Json TensorToJson(const TensorRecord& tensor);
Json AssetToJson(const AssetRecord& asset);
// `ids_left` is what the tensors read so far have left of kMaxTensorIds.
Result<BundleRecord> BundleFromJson(const std::string& where, const Json& value,
                                    uint64_t& ids_left);
Result<AssetRecord> AssetFromJson(const std::string& where, const Json& value);

// Write everything before "bundles", and everything after it, both without unknown fields.
Json HeadToJson(const Manifest& manifest);
Json TailToJson(const Manifest& manifest);
// Read the same, but not the assets. `document` is that of `fields`.
Status ReadHead(const JsonFields& fields, const Json& document, Manifest& manifest);
Status ReadTail(const JsonFields& fields, Manifest& manifest);
// The fields of "tool" but its name.
std::span<const Field<ManifestHead>> ToolFields();
// An empty object where nothing was kept.
const Json& UnknownOf(const Manifest& manifest);

// Reads the text of distribution.json.
Result<std::string> ReadManifestText(const SourceTree& tree);

// Parses like ParseManifest, but without CheckPlan. The verifier needs this to report every broken
// rule.
Result<Manifest> ParseUncheckedPlan(const std::string& where, std::string_view text);

// Refuses everything but a plain relative path that stays inside the distribution.
Status CheckRelativePath(const std::string& where, const std::string& path);

}  // namespace moepack::manifest

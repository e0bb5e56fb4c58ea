#include "manifest/document/manifest.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "libshard/base/digest.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/text.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/node_record.h"

namespace moepack::manifest {

namespace {

std::string VersionOf(const std::string& model_version, const moepack::Json& section) {
  const std::string text = section.dump(-1, ' ', false, moepack::Json::error_handler_t::replace);
  return Sha256Hex(model_version + text).substr(0, 16);
}

// Something that other commands take, found instead of a distribution.
struct OtherThing {
  const char* what;
  std::string hint;
};

// Counts the requests that a server gave no usable answer to after all tries. It is then asked for
// nothing else, because every further request would take as long.
uint64_t GivenUp(const SourceTree& tree) {
  return tree.traffic().value_or(moepack::Traffic()).given_up;
}

std::optional<OtherThing> OtherThingAt(const SourceTree& tree) {
  constexpr const char* kModelHint =
      "list-tensors, plan, quantize, run and profile take it; build splits it into a distribution";
  const uint64_t given_up = GivenUp(tree);
  if (const auto node = tree.Has(kNodeFile); node && *node) {
    return OtherThing{"a node", "name the distribution that it was assembled from"};
  }
  const bool file = tree.name().ends_with(".gguf") || tree.name().ends_with(".safetensors");
  const std::string hint =
      file ? kModelHint : Cat(kModelHint, "; if it is a node, its ", kNodeFile, " is missing");
  const auto holds = [&](std::string_view suffix) {
    if (tree.name().ends_with(suffix)) return true;
    if (GivenUp(tree) > given_up) return false;
    const auto names = tree.List("", suffix);
    return names.has_value() && !names->empty();
  };
  if (holds(".gguf")) return OtherThing{"a GGUF model", hint};
  if (holds(".safetensors")) return OtherThing{"a safetensors checkpoint", hint};
  return std::nullopt;
}

}  // namespace

uint64_t Manifest::BytesOf(Role role, std::optional<uint32_t> group) const {
  uint64_t bytes = 0;
  for (const BundleRecord& bundle : bundles) {
    if (bundle.role == role && (!group || bundle.group == group)) bytes += bundle.size;
  }
  return bytes;
}

uint64_t Manifest::BytesOfOverlay() const {
  const OverlayPlan* overlay = plan.current_overlay();
  uint64_t bytes = 0;
  for (const BundleRecord& bundle : bundles) {
    const bool own = overlay != nullptr && bundle.role == Role::kOverlay &&
                     OverlayVersionOf(bundle.role, bundle.file) == overlay->version;
    bytes += own ? bundle.size : 0;
  }
  return bytes;
}

Result<std::string> ReadManifestText(const SourceTree& tree) {
  const uint64_t given_up = GivenUp(tree);
  if (const auto there = tree.Has(kManifestFile); !there || !*there) {
    if (!there && GivenUp(tree) > given_up) return there.error();
    if (const auto other = OtherThingAt(tree)) {
      return Error{Code::kInvalidArgument,
                   Cat(tree.name(), " is ", other->what, ", not a distribution"), other->hint};
    }
  }
  Result<std::string> text = tree.ReadText(kManifestFile, kMaxManifestBytes);
  if (text || text.error().code != Code::kNotFound) return text;
  Error error = std::move(text).error();
  if (error.hint.empty())
    error.hint = "name the directory of a distribution, as build and shard-experts write it";
  return error;
}

Result<Manifest> ReadManifest(const SourceTree& tree) {
  SHARD_TRY(const std::string text, ReadManifestText(tree));
  return ParseManifest(tree.NameOf(kManifestFile), text);
}

Result<Manifest> ReadManifest(const std::string& directory) {
  return ReadManifest(LocalTree(directory));
}

std::vector<std::string> OwnFiles(const Manifest& manifest) {
  std::vector<std::string> names(kSideFiles.begin(), kSideFiles.end());
  for (const BundleRecord& bundle : manifest.bundles) names.push_back(bundle.file);
  for (const AssetRecord& asset : manifest.assets) names.push_back(asset.file);
  return names;
}

Versions ComputeVersions(const std::string& model_version, const Plan& plan) {
  Versions versions;
  versions.model = model_version;
  versions.shard = VersionOf(model_version, PartitionToJson(plan));
  if (const OverlayPlan* overlay = plan.current_overlay()) {
    moepack::Json section = moepack::Json::array();
    section.push_back(OverlayToJson(*overlay, plan.layers));
    versions.replica = VersionOf(model_version, section);
  }
  return versions;
}

}  // namespace moepack::manifest

#include "manifest/document/manifest.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "libshard/base/digest.h"
#include "libshard/base/file.h"
#include "manifest/document/manifest_json.h"

namespace manifest {
namespace {

std::string VersionOf(const std::string& model_version, const shard::Json& section) {
  const std::string text = section.dump(-1, ' ', false, shard::Json::error_handler_t::replace);
  return shard::Sha256Hex(model_version + text).substr(0, 16);
}

}  // namespace

uint64_t Manifest::BytesOf(shard::Role role, int group) const {
  uint64_t bytes = 0;
  for (const BundleRecord& bundle : bundles) {
    if (bundle.role == role && (group < 0 || bundle.group == group)) bytes += bundle.size;
  }
  return bytes;
}

Result<std::string> ReadManifestText(const std::string& directory) {
  const std::string path = (std::filesystem::path(directory) / kManifestFile).string();
  Result<std::string> text = shard::ReadTextFile(path, kMaxManifestBytes);
  if (text || text.error().code != shard::Code::kNotFound) return text;
  shard::Error error = std::move(text).error();
  if (error.hint.empty())
    error.hint = "name the directory of a distribution, as build and shard-experts write it";
  return error;
}

Result<Manifest> ReadManifest(const std::string& directory) {
  SHARD_TRY(const std::string text, ReadManifestText(directory));
  return ParseManifest((std::filesystem::path(directory) / kManifestFile).string(), text);
}

Versions ComputeVersions(const std::string& model_version, const shard::Plan& plan) {
  Versions versions;
  versions.model = model_version;
  versions.shard = VersionOf(model_version, shard::PartitionToJson(plan));
  if (!plan.overlay_version.empty()) {
    versions.replica = VersionOf(model_version, shard::OverlaysToJson(plan));
  }
  return versions;
}

}  // namespace manifest

#include "manifest/registry/artifact/describe_set.h"

#include <algorithm>
#include <iterator>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "manifest/document/parts.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/artifact/spdx.h"

namespace moepack::registry {
namespace {

using manifest::AssetRecord;
using manifest::BundleRecord;
using manifest::Manifest;

constexpr Role kLayerRoles[] = {Role::kHead,  Role::kTrunk,   Role::kRouters,
                                Role::kGroup, Role::kOverlay, Role::kRemainder};

std::string GroupList(const std::vector<uint32_t>& groups) {
  std::vector<std::string> words;
  for (const uint32_t group : groups) words.push_back(GroupText(group));
  return moepack::Join(words, ",");
}

BlobRecord FileLayer(const char* media_type, const std::string& path, const SmallFile& file,
                     std::string_view role) {
  return {media_type,
          file.digest,
          file.size,
          {{kPathKey, path}, {kTitleKey, path}, {kRoleKey, std::string(role)}}};
}

bool IsDoc(std::string_view asset) {
  const std::string_view name = asset.substr(asset.rfind('/') + 1);
  constexpr std::string_view kDocs[] = {"LICENSE", "LICENCE", "NOTICE"};
  return std::any_of(std::begin(kDocs), std::end(kDocs),
                     [&](std::string_view doc) { return name.starts_with(doc); });
}

BlobRecord AssetLayer(const AssetRecord& asset) {
  return FileLayer(IsDoc(asset.file) ? kDocType : kSmallFileType, asset.file,
                   {DigestOf(asset.sha256), asset.size}, kAssetRole);
}

BlobRecord BundleLayer(const Manifest& manifest, const BundleRecord& bundle) {
  BlobRecord layer = FileLayer(kWeightType, bundle.file, {DigestOf(bundle.sha256), bundle.size},
                               RoleName(bundle.role));
  if (bundle.group) layer.annotations[kGroupKey] = GroupText(*bundle.group);
  if (bundle.role == Role::kOverlay) {
    layer.annotations[kOverlayVersionKey] = manifest::PartOf(bundle).overlay;
    layer.annotations[kOverlayGroupsKey] = GroupList(GroupsThere(manifest));
  }
  return layer;
}

// The files of one part, in the order of distribution.json.
void AddPart(const Manifest& manifest, const manifest::PartKey& part,
             std::vector<BlobRecord>& layers) {
  const size_t first = layers.size();
  for (const BundleRecord& bundle : manifest.bundles) {
    if (manifest::PartOf(bundle) == part) layers.push_back(BundleLayer(manifest, bundle));
  }
  const size_t count = layers.size() - first;
  for (size_t i = 0; count > 1 && i < count; ++i)
    layers[first + i].annotations[kPartKey] = Cat(i + 1, "/", count);
}

// Everything that a manifest may have for a role; overlays in the order in which they were made.
std::vector<manifest::PartKey> PartsOf(const Manifest& manifest, Role role) {
  std::vector<manifest::PartKey> parts;
  for (uint32_t group = 0; role == Role::kGroup && group < manifest.plan.groups.size(); ++group)
    parts.push_back({role, group});
  for (const OverlayPlan& overlay : manifest.plan.overlays) {
    if (role == Role::kOverlay) parts.push_back({role, std::nullopt, overlay.version});
  }
  if (role != Role::kGroup && role != Role::kOverlay) parts.push_back({role});
  return parts;
}

std::vector<BlobRecord> DescribeLayers(const Manifest& manifest, const SmallFiles& files,
                                       std::optional<uint32_t> only_group) {
  std::vector<BlobRecord> layers;
  layers.push_back(
      FileLayer(kSmallFileType, manifest::kManifestFile, files.distribution, kManifestRole));
  for (const AssetRecord& asset : manifest.assets) layers.push_back(AssetLayer(asset));
  for (const Role role : kLayerRoles) {
    if (role == Role::kRemainder && only_group) continue;
    for (const manifest::PartKey& part : PartsOf(manifest, role)) {
      if (!only_group || !part.group || *only_group == *part.group) AddPart(manifest, part, layers);
    }
  }
  if (files.readme)
    layers.push_back(FileLayer(kDocType, manifest::kReadmeFile, *files.readme, kDocRole));
  return layers;
}

// Equal for all versions of the overlay, because it covers only trunk and groups.
std::string SetId(const Manifest& manifest) {
  std::vector<std::string> digests;
  for (const BundleRecord& bundle : manifest.bundles) {
    if (bundle.role == Role::kTrunk || bundle.role == Role::kGroup)
      digests.push_back(DigestOf(bundle.sha256));
  }
  std::sort(digests.begin(), digests.end());
  return DigestOf(Sha256Hex(moepack::Join(digests, "\n") + "\n"));
}

// "feedback-2, 11,997 tokens, 144 of 157 matrices with feedback"; "" for weights that were not
// calibrated. A source has no record of each matrix.
std::string CalibratedNote(const Manifest& manifest) {
  const auto note = [](const std::string& method, uint64_t tokens) {
    return Cat(method, method.empty() ? "" : ", ", Plural(tokens, "token"));
  };
  if (const auto& source = manifest.model.calibrated)
    return Cat(note(source->method, source->tokens), ", says the source");
  if (!manifest.calibrated) return "";
  const CalibratedRecord& record = *manifest.calibrated;
  const auto method = record.parameters.find("method");
  const CalibratedFigures sum = record.sum();
  return Cat(note(method == record.parameters.end() ? "" : method->second, record.tokens()), ", ",
             FormatCount(sum.accepted), " of ", FormatCount(sum.matrices),
             sum.matrices == 1 ? " matrix" : " matrices", " with feedback");
}

OciManifest Describe(const Manifest& manifest, const SmallFiles& files,
                     std::optional<uint32_t> only_group) {
  OciManifest oci;
  oci.layers = DescribeLayers(manifest, files, only_group);
  Annotations& notes = oci.annotations;
  notes["org.opencontainers.image.version"] = VersionText(manifest.versions);
  if (!manifest.model.revision.empty())
    notes["org.opencontainers.image.revision"] = manifest.model.revision;
  if (const auto names = SpdxNames(manifest.model.license); !names.empty())
    notes["org.opencontainers.image.licenses"] = moepack::Join(names, " AND ");
  notes.emplace(kSchemaKey, kSetSchema);
  notes[kSetIdKey] = SetId(manifest);
  notes[kGroupsKey] = only_group ? GroupText(*only_group) : GroupList(GroupsThere(manifest));
  if (const OverlayPlan* overlay = manifest.plan.current_overlay())
    notes[kOverlayVersionKey] = overlay->version;
  if (std::string calibrated = CalibratedNote(manifest); !calibrated.empty())
    notes[kCalibratedKey] = std::move(calibrated);
  notes[kDistributionKey] = files.distribution.digest;
  if (const std::string created = CreatedText(manifest); !created.empty())
    notes["org.opencontainers.image.created"] = created;
  return oci;
}

}  // namespace

bool IsKnownRole(std::string_view role) {
  return role == kManifestRole || role == kAssetRole || role == kDocRole ||
         std::any_of(std::begin(kLayerRoles), std::end(kLayerRoles),
                     [&](Role known) { return role == RoleName(known); });
}

std::string VersionText(const manifest::Versions& versions) {
  std::string text = Cat(versions.model, "-", versions.shard);
  if (!versions.replica.empty()) text += "-" + versions.replica;
  if (!versions.refit.empty()) text += "-refit-" + versions.refit;
  return text;
}

std::string GroupText(uint64_t group) { return ZeroPadded(group, 3); }

bool IsSet(const OciManifest& oci) {
  return AnnotationOf(oci.annotations, kSchemaKey) == kSetSchema &&
         AnnotationOf(oci.annotations, kViewOfKey).empty();
}

Result<bool> WithViews(const std::string& where, std::string_view text, bool views) {
  const auto oci = ParseOciManifest(where, text);
  const bool set = oci && IsSet(*oci);
  const bool corrupt = !oci && oci.error().code == Code::kCorrupt;
  if (views || set || corrupt) return views && set;
  return Error{Code::kInvalidArgument, Cat("--no-views has no effect: ", where, " is not a set"),
               "leave it out: only sets have node views"};
}

std::vector<uint32_t> GroupsThere(const Manifest& manifest) {
  const std::vector<manifest::PartKey> absent = AbsentParts(manifest);
  std::vector<uint32_t> groups;
  for (uint32_t group = 0; group < manifest.plan.groups.size(); ++group) {
    const manifest::PartKey part{Role::kGroup, group};
    if (std::find(absent.begin(), absent.end(), part) == absent.end()) groups.push_back(group);
  }
  return groups;
}

std::optional<uint32_t> FirstGroupThere(const Manifest& manifest) {
  const std::vector<uint32_t> groups = GroupsThere(manifest);
  return groups.empty() ? std::nullopt : std::optional(groups.front());
}

OciManifest DescribeSet(const Manifest& manifest, const SmallFiles& files) {
  return Describe(manifest, files, std::nullopt);
}

OciManifest DescribeView(const Manifest& manifest, const SmallFiles& files, uint32_t group,
                         const std::string& set_digest) {
  OciManifest oci = Describe(manifest, files, group);
  oci.annotations[kViewOfKey] = set_digest;
  oci.annotations[kViewGroupKey] = GroupText(group);
  return oci;
}

}  // namespace moepack::registry

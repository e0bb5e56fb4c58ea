// Describes a distribution as an artifact: the manifest of the whole set, and one for each group.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/document/manifest.h"
#include "manifest/registry/artifact/oci_manifest.h"

namespace moepack::registry {

inline constexpr const char* kSetSchema = "1";

// Annotations of our own. On layers:
inline constexpr const char* kRoleKey = "org.moepack.role";
inline constexpr const char* kGroupKey = "org.moepack.group";
inline constexpr const char* kPartKey = "org.moepack.part";  // "1/3", if a part has several files
inline constexpr const char* kOverlayVersionKey =
    "org.moepack.overlay.version";  // manifests too: the current one
inline constexpr const char* kOverlayGroupsKey = "org.moepack.overlay.groups";
// On manifests:
inline constexpr const char* kSchemaKey = "org.moepack.schema";
inline constexpr const char* kSetIdKey = "org.moepack.set.id";
inline constexpr const char* kGroupsKey = "org.moepack.groups";
// How the weights were calibrated, in words: method, tokens, matrices with feedback. Sets that
// earlier versions published lack it.
inline constexpr const char* kCalibratedKey = "org.moepack.calibrated";
inline constexpr const char* kDistributionKey = "org.moepack.distribution.digest";
inline constexpr const char* kViewOfKey = "org.moepack.view.of";
inline constexpr const char* kViewGroupKey = "org.moepack.view.group";

// Roles of layers that are not bundles; those of bundles are RoleName(role).
inline constexpr const char* kManifestRole = "manifest";  // distribution.json
inline constexpr const char* kAssetRole = "asset";
inline constexpr const char* kDocRole = "doc";
// Whether this version gives a layer this role.
bool IsKnownRole(std::string_view role);

// Digest and size of a file that distribution.json does not list.
struct SmallFile {
  std::string digest;
  uint64_t size = 0;
};
struct SmallFiles {
  SmallFile distribution;
  std::optional<SmallFile> readme;
};

// The three versions that a node reports, joined by '-'.
std::string VersionText(const manifest::Versions& versions);
// Whether it is a set that `publish` wrote, not a node view.
bool IsSet(const OciManifest& oci);
// Whether a command that was given a manifest of any kind also looks for node views: only sets have
// them. kInvalidArgument if they are left out of anything else.
Result<bool> WithViews(const std::string& where, std::string_view text, bool views);
// "007": the spelling of a group in annotations and tags.
std::string GroupText(uint64_t group);
// The groups whose files are all there: those that a node can have.
std::vector<uint32_t> GroupsThere(const manifest::Manifest& manifest);
std::optional<uint32_t> FirstGroupThere(const manifest::Manifest& manifest);

// The manifest without its config. Layers in this order: distribution.json, assets, head, trunk,
// routers, groups, overlays, remainder, README.md. Depends only on its arguments.
OciManifest DescribeSet(const manifest::Manifest& manifest, const SmallFiles& files);
// The same with the layers of one node. `set_digest` is that of the set's manifest.
OciManifest DescribeView(const manifest::Manifest& manifest, const SmallFiles& files,
                         uint32_t group, const std::string& set_digest);

// When the distribution was made, "2026-01-31T12:00:00Z"; "" unless SOURCE_DATE_EPOCH was set then.
std::string CreatedText(const manifest::Manifest& manifest);
// The ModelPack config (a closed schema) for these layers, as canonical JSON.
std::string ConfigText(const manifest::Manifest& manifest, const std::vector<BlobRecord>& layers);
// kCorrupt unless the config names the layers' digests in order; the text may be hostile.
Status CheckConfig(const std::string& where, std::string_view text,
                   const std::vector<BlobRecord>& layers);
// kCorrupt unless the config says of the model what the distribution does: licence, revision,
// version, size and so on. Fields that ConfigText never writes are not compared.
Status CompareConfig(const std::string& where, std::string_view text,
                     const manifest::Manifest& manifest);

// "<where>: <thing>: expected <expected> as in distribution.json, found <found>": what a manifest
// or config says against its distribution. "" is none.
Error Disagrees(const std::string& where, const std::string& thing, const std::string& expected,
                const std::string& found);

}  // namespace moepack::registry

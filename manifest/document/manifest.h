// distribution.json, which describes a distribution. docs/distribution-format.md documents every
// field; schema: manifest/document/distribution.schema.json.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/files/cell_digest.h"
#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/base/text/json.h"
#include "libshard/calibrate/calibrated_record.h"
#include "libshard/model/model.h"
#include "libshard/pack/slice.h"
#include "libshard/plan/plan.h"
#include "libshard/refit/refit_record.h"
#include "manifest/document/file_names.h"
#include "manifest/document/model_record.h"
#include "manifest/document/quality.h"

namespace moepack::manifest {

inline constexpr const char* kFormatName = "moepack-distribution";
inline constexpr unsigned kFormatMajor = 1;

// The versions that a node reports for base model, partition, current overlay and refit: 16
// hexadecimal digits each; "" without an overlay or a refit.
struct Versions {
  std::string model, shard, replica, refit = {};
  bool operator==(const Versions&) const = default;
};

struct TensorRecord {
  std::string name, dtype;
  std::vector<uint64_t> shape;
  uint64_t offset = 0, bytes = 0;  // from the start of the file
  std::string xxh3;                // XXH3-128 of the bytes, 32 digits
  std::optional<uint32_t> layer;
  // the ids it holds, in order along the expert axis; empty for tensors without experts
  ExpertIds expert_ids;
  FewExpertIds derived;  // those of them that a refit made; all others are the source's
  std::string source;    // name of the tensor in the source; "" if it is the same
};

// A bundle without its tensors.
struct BundleHead {
  Role role = Role::kTrunk;
  std::optional<uint32_t> group;  // if the role is kGroup
  std::string file;               // relative path, '/' between parts
  std::string format;             // "safetensors" or "gguf"
  uint64_t size = 0;
  std::string sha256;
  CellDigests cells = {};  // the chunk map, if requested
};

struct BundleRecord : BundleHead {
  std::vector<TensorRecord> tensors;
};

// How the bytes of GGUF bundles were made. All fields are empty for safetensors bundles, which are
// copies.
struct RecipeRecord {
  std::string name;  // "Q4_K_M --experts-type q5_K"
  std::string imatrix_file, imatrix_sha256;
  bool operator==(const RecipeRecord&) const = default;
};

struct AssetRecord {
  std::string file;  // "assets/config.json"
  uint64_t size = 0;
  std::string sha256;
};

// Everything but the bundles.
struct ManifestHead {
  ModelRecord model;
  Versions versions;
  Plan plan;  // partition and overlays
  bool complete =
      // false: some parts were left out (--only), and only the existing bundles are listed
      true;
  // For an incomplete one: the source has no assets, so none are missing.
  bool without_assets = false;
  // How the derived tensors of the groups were made; null: the bundles have the source's values.
  std::shared_ptr<const RefitRecord> refit;
  // How tensors were encoded with error feedback; null: none was.
  std::shared_ptr<const CalibratedRecord> calibrated;
  std::vector<AssetRecord> assets;
  std::string tool_version;
  RecipeRecord recipe;
  std::vector<std::string> command;      // the command line without paths
  std::optional<QualityRecord> quality;  // what `eval --record` measured
  uint64_t created = 0;  // seconds since the epoch; only written if SOURCE_DATE_EPOCH is set

  // Fields of the document this was read from that this version does not know, or keeps without
  // using (stages, calibration, quality.expected, routing.placement by another rule than the
  // table's). WriteManifest writes them back; UnknownFields (unknown_fields.h) defines which are
  // kept.
  std::shared_ptr<const moepack::Json> original;
};

struct Manifest : ManifestHead {
  std::vector<BundleRecord> bundles;

  uint64_t BytesOf(Role role, std::optional<uint32_t> group = std::nullopt) const;
  // The size of the current overlay's files.
  uint64_t BytesOfOverlay() const;
  // True if the bundles are GGUF files. All bundles of a distribution have the same format; without
  // bundles, the recipe decides.
  bool is_gguf() const {
    return bundles.empty() ? !recipe.name.empty() : bundles[0].format == "gguf";
  }
};

// Returns the canonical text, with a fixed key order, two spaces per level and LF. Equal manifests
// give equal bytes.
std::string WriteManifest(const Manifest& manifest);
// Parses a manifest; the text may be hostile. kCorrupt for a wrong structure, kUnsupported for
// another major version. Paths of bundles and assets are checked to be relative, without "." or
// ".." parts.
Result<Manifest> ParseManifest(const std::string& where, std::string_view text);
// Reads distribution.json of a tree, or of a local directory.
Result<Manifest> ReadManifest(const SourceTree& tree);
Result<Manifest> ReadManifest(const std::string& directory);

// The names of all files that the directory of a distribution may hold: kSideFiles, bundles,
// assets.
std::vector<std::string> OwnFiles(const Manifest& manifest);

// Computes the versions, which are digests of what they represent (docs/distribution-format.md,
// "Versions"); that of the refit is RefitVersion of its record and is left empty here.
Versions ComputeVersions(const std::string& model_version, const Plan& plan);

}  // namespace moepack::manifest

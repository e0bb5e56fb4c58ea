// distribution.json, which says what a distribution is. docs/distribution-format.md describes every
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
#include "libshard/base/text/json.h"
#include "libshard/convert/license.h"
#include "libshard/model/model.h"
#include "libshard/pack/slice.h"
#include "libshard/plan/plan.h"
#include "manifest/document/quality.h"

namespace moepack::manifest {

inline constexpr const char* kFormatName = "moepack-distribution";
inline constexpr unsigned kFormatMajor = 1;
inline constexpr const char* kManifestFile = "distribution.json";
// Beside it in a directory that `pull` made: what it was pulled from. No part of the distribution.
inline constexpr const char* kPullLockFile = "pulled.json";
// Beside it in a directory that `publish --to-dir` made: which files Git LFS keeps.
inline constexpr const char* kGitAttributesFile = ".gitattributes";

struct SourceRecord {
  std::string file;
  uint64_t size = 0;
  std::string header_sha256;  // of the bytes before the tensor data
  std::string sha256;         // of the whole file; "" unless asked for (--hash-source)
  std::optional<Origin> origin = std::nullopt;  // of a file that was read from another machine
  // Every run that wrote a part has read the whole file once, and `sha256` is the published one.
  bool whole = false;
  bool may_be_whole() const { return origin && !sha256.empty() && sha256 == origin->sha256; }
};

struct ModelRecord {
  std::string id, revision;  // as the user gave them; may be empty
  ModelLicense license;      // as the model's authors state it; may be empty
  std::string family, architecture;
  std::string source_format;  // "safetensors" or "gguf"
  std::vector<SourceRecord> source;
  uint32_t layers = 0, mtp_layers = 0;
  LayerCounts moe_layers;              // layer -> experts
  std::map<uint32_t, uint32_t> top_k;  // layer -> top-k
  uint32_t hidden_size = 0, expert_intermediate_size = 0, vocab_size = 0;
  std::string gating;
  bool normalize = true;
  std::optional<double> scale;
  uint32_t shared_experts = 0, expert_groups = 0, expert_groups_used = 0;
  uint64_t parameters_total = 0, parameters_active = 0;
};

// The versions that a node reports, for base model, partition and current overlay: 16 hexadecimal
// digits each, and "" without an overlay.
struct Versions {
  std::string model, shard, replica;
};

struct TensorRecord {
  std::string name, dtype;
  std::vector<uint64_t> shape;
  uint64_t offset = 0, bytes = 0;  // from the start of the file
  std::string xxh3;                // XXH3-128 of the bytes, 32 digits
  std::optional<uint32_t> layer;
  // the ids it holds, in order along the expert axis; empty for tensors without experts
  ExpertIds expert_ids;
  std::string source;  // name of the tensor in the source, "" when it is the same
};

struct BundleRecord {
  Role role = Role::kTrunk;
  std::optional<uint32_t> group;  // of role kGroup
  std::string file;               // relative path, '/' between parts
  std::string format;             // "safetensors" or "gguf"
  uint64_t size = 0;
  std::string sha256;
  CellDigests cells = {};  // the chunk map, if it was asked for
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

struct Manifest {
  ModelRecord model;
  Versions versions;
  Plan plan;  // partition and overlays
  bool complete =
      // false: some parts were left out (--only), and only the bundles that are there are listed
      true;
  // Of an incomplete one: the source has no assets, so that none are missing.
  bool without_assets = false;
  std::vector<BundleRecord> bundles;
  std::vector<AssetRecord> assets;
  std::string tool_version;
  RecipeRecord recipe;
  std::vector<std::string> command;      // the command line without paths
  std::optional<QualityRecord> quality;  // what `eval --record` measured
  uint64_t created = 0;  // seconds since the epoch; written only when SOURCE_DATE_EPOCH is set

  // Fields of the document this was read from that this version does not know, or carries without
  // using them (stages, calibration, quality.expected, routing.placement by another rule than the
  // table's). WriteManifest writes them back; UnknownFields (unknown_fields.h) says which are kept.
  std::shared_ptr<const moepack::Json> original;

  uint64_t BytesOf(Role role, std::optional<uint32_t> group = std::nullopt) const;
  // Of the files of the current overlay.
  uint64_t BytesOfOverlay() const;
  // True if the bundles are GGUF files. All bundles of a distribution have the same format; where
  // none is there, the recipe tells.
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

// Computes the versions, which are digests of what they stand for (docs/distribution-format.md,
// "Versions").
Versions ComputeVersions(const std::string& model_version, const Plan& plan);

}  // namespace moepack::manifest

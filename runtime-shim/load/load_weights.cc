#include <set>
#include <string_view>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/gguf_used_experts.h"
#include "libshard/refit/node_top_k.h"
#include "manifest/write/open_bundle.h"
#include "runtime-shim/load/gguf_blocks.h"
#include "runtime-shim/load/gguf_parts.h"
#include "runtime-shim/load/part_selection.h"
#include "runtime-shim/load/plain_model.h"
#include "runtime-shim/load/safetensors_parts.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

namespace {

Result<bool> IsDistribution(const moepack::Source& source) {
  if (!source.file.empty()) return false;
  return source.tree->Has(manifest::kManifestFile);
}

Status LoadParts(const Split& split, const LoadOptions& options, Weights& out) {
  if (options.verify) SHARD_CHECK(CheckDigests(split, options));
  out.path = split.path;
  return split.manifest.is_gguf() ? LoadGgufParts(split, options, out)
                                  : LoadSafetensorsParts(split, options, out);
}

// Checks that plan and routers have the same numbers of experts.
Status CheckRouters(const Weights& weights) {
  for (const auto& [layer, expert_count] : weights.plan->layers) {
    const auto found = weights.moe_layers.find(layer);
    const uint32_t rows = found == weights.moe_layers.end() ? 0 : found->second;
    if (rows == expert_count) continue;
    return Error{Code::kMismatch,
                 Cat(weights.path, ": router of layer ", layer, ": expected ", expert_count,
                     " rows as the plan has experts, found ", rows),
                 manifest::kDamagedHint};
  }
  return Ok();
}

Status CheckNames(const std::string& where, const std::vector<HostTensor>& tensors) {
  std::set<std::string_view> names;
  for (const HostTensor& tensor : tensors) {
    if (names.insert(tensor.name).second) continue;
    return Error{Code::kCorrupt,
                 Cat(where, ": tensor ", Quoted(tensor.name), ": expected once, found twice")};
  }
  return Ok();
}

Status CheckSets(const Weights& weights) {
  SHARD_CHECK(CheckNames(weights.path, weights.trunk));
  for (const ExpertSet& set : weights.sets)
    SHARD_CHECK(CheckNames(Cat(weights.path, ": ", set.label), set.tensors));
  return Ok();
}

Result<Split> OpenSplit(const moepack::Source& source) {
  Split split;
  split.tree = source.tree;
  split.path = source.named.string();
  SHARD_TRY(split.manifest, manifest::ReadManifest(*source.tree));
  return split;
}

// Nodes of a refit may use a different number of experts from the model.
Status TakeNodeTopK(const Split& split, Weights& out) {
  if (!split.manifest.refit) return Ok();
  SHARD_TRY(const uint32_t top_k, NodeTopK(split.path, *split.manifest.refit));
  return top_k > 0 ? SetUsedExperts(split.path, top_k, out.metadata) : Ok();
}

Result<Weights> LoadDistribution(const moepack::Source& source, const LoadOptions& options) {
  SHARD_TRY(Split split, OpenSplit(source));
  SHARD_CHECK(SelectParts(options, split));
  Weights out;
  out.notes = split.parts.notes;
  out.model_version = split.manifest.versions.model;
  out.shard_version = split.manifest.versions.shard;
  out.replica_version = split.manifest.versions.replica;
  out.refit_version = split.manifest.versions.refit;
  SHARD_CHECK(LoadParts(split, options, out));
  SHARD_CHECK(TakeNodeTopK(split, out));
  SHARD_TRY(const RunningBlocks blocks, RunningBlocks::Of(split.path, out.metadata));
  out.plan = blocks.Trim(std::move(split.manifest.plan));
  SHARD_CHECK(CheckRouters(out));
  return out;
}

}  // namespace

Result<std::shared_ptr<const Weights>> LoadWeights(const std::string& source,
                                                   const LoadOptions& options) {
  SHARD_TRY(const moepack::Source local, LocalSource(source));
  return LoadWeights(local, options);
}

Result<std::shared_ptr<const Weights>> LoadWeights(const moepack::Source& source,
                                                   const LoadOptions& options) {
  SHARD_TRY(const bool distribution, IsDistribution(source));
  Result<Weights> loaded =
      distribution ? LoadDistribution(source, options) : LoadPlainModel(source, options);
  if (!loaded) return manifest::NameDamaged(source.named.string(), std::move(loaded).error());
  Weights weights = *std::move(loaded);
  SHARD_CHECK(CheckSets(weights));
  return std::make_shared<const Weights>(std::move(weights));
}

}  // namespace moepack::runtime

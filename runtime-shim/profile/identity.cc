#include "runtime-shim/profile/identity.h"

#include <algorithm>
#include <map>
#include <vector>

#include "libshard/base/text/json.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/model/router_digest.h"
#include "libshard/stats/statistics_file.h"

namespace moepack::runtime {
namespace {

Status AddRouter(const Weights& weights, uint32_t layer, RouterHash& digest) {
  const std::string name = Cat("blk.", layer, ".ffn_gate_inp.weight");
  const HostTensor* router = weights.FindTrunk(name);
  if (!router)
    return Error{Code::kCorrupt,
                 Cat(weights.path, ": tensor ", Quoted(name), ": expected, found none")};
  digest.Add(*router->format, router->bytes.whole());
  return Ok();
}

Status CheckExperts(const Weights& weights, const LayerExperts& loaded) {
  for (const auto& [layer, expert_count] : weights.moe_layers) {
    const size_t found = moepack::IdsOf(loaded, layer).size();
    if (found == expert_count) continue;
    return Error{Code::kInvalidArgument,
                 Cat(weights.path, ": layer ", layer, ": expected all ",
                     Plural(expert_count, "expert"), ", found ", found),
                 "statistics describe the whole model: load all groups, or the source"};
  }
  return Ok();
}

// Strings of GGUF may contain any bytes, but those of statistics are UTF-8, so other bytes are
// written as \xff.
std::string NameOf(const Weights& weights) {
  return ShownUnlessUtf8(weights.metadata.String("general.name").value_or(""));
}

void Count(const std::vector<HostTensor>& tensors, std::map<std::string, uint64_t>& bytes) {
  for (const HostTensor& tensor : tensors) {
    bytes[std::string(tensor.format->name)] += tensor.bytes.size();
  }
}

}  // namespace

Result<ModelIdentity> IdentifyModel(const Weights& weights, const ModelSpec& spec) {
  SHARD_CHECK(CheckExperts(weights, EligibleExperts(weights, std::nullopt, true)));
  ModelIdentity model;
  model.name = NameOf(weights);
  model.architecture = spec.architecture;
  model.model_version = weights.model_version;
  model.shard_version = weights.shard_version;
  model.replica_version = weights.replica_version;
  for (const auto& [layer, expert_count] : weights.moe_layers)
    model.layers.push_back({layer, expert_count, spec.layer[layer].router.top_k});
  SHARD_TRY(model.router_digest, RouterDigestOf(weights));
  SHARD_CHECK(CheckModelIdentity(weights.path, model));
  return model;
}

Result<std::string> RouterDigestOf(const Weights& weights) {
  RouterHash digest;
  for (const auto& [layer, expert_count] : weights.moe_layers)
    SHARD_CHECK(AddRouter(weights, layer, digest));
  return digest.Hex();
}

std::string PrecisionOf(const Weights& weights) {
  std::map<std::string, uint64_t> bytes;
  Count(weights.trunk, bytes);
  for (const ExpertSet& set : weights.sets) Count(set.tensors, bytes);
  uint64_t total = 0;
  for (const auto& [name, size] : bytes) total += size;
  std::vector<std::pair<uint64_t, std::string>> order;
  for (const auto& [name, size] : bytes) {
    if (size >= total / 100) order.emplace_back(size, name);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> names;
  for (const auto& [size, name] : order) names.push_back(name);
  return moepack::Join(names, "+");
}

}  // namespace moepack::runtime

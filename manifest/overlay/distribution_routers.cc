#include "manifest/overlay/distribution_routers.h"

#include <algorithm>
#include <set>

#include "libshard/model/router_digest.h"
#include "manifest/overlay/tensor_names.h"
#include "manifest/write/open_bundle.h"

namespace moepack::manifest {
namespace {

// Safetensors distributions keep routers in the trunk. Groups of GGUF have the rows of their
// experts, which are not a whole matrix.
bool MayHoldRouters(const BundleRecord& record) {
  return record.role == Role::kRouters || record.role == Role::kTrunk;
}

bool IsRouter(const TensorClass& found) {
  return found.rule != nullptr && found.layer && IsRouterMatrix(*found.rule, found.leaf);
}

bool HoldsRouters(const BundleRecord& record, FamilyMatcher& matcher) {
  return MayHoldRouters(record) &&
         std::any_of(record.tensors.begin(), record.tensors.end(), [&](const TensorRecord& tensor) {
           return IsRouter(matcher.Classify(tensor.name));
         });
}

// Sorts the routers of a file into those that count and, by layer, those for multi-token
// prediction.
void AddRouters(const OpenedBundle& bundle, FamilyMatcher& matcher, RouterTensors& routers,
                std::set<uint32_t>& mtp) {
  for (const PartTensor& tensor : bundle.tensors) {
    const TensorClass found = matcher.Classify(tensor.entry.name);
    if (!IsRouter(found)) continue;
    if (found.mtp) {
      mtp.insert(*found.layer);
    } else {
      routers.emplace(*found.layer, RouterTensor{bundle.source, tensor.entry});
    }
  }
}

}  // namespace

Result<std::string> RouterDigest(const SourceTreePtr& tree, const Manifest& manifest,
                                 const std::string& family_file) {
  auto names = TensorNames::Of(*tree, manifest, family_file);
  if (!names && names.error().code == Code::kNotFound) return std::string();
  if (!names) return std::move(names).error();
  FamilyMatcher matcher(names->family(), manifest.model.layers);
  RouterTensors routers;
  std::set<uint32_t> mtp;
  for (const BundleRecord& record : manifest.bundles) {
    if (!HoldsRouters(record, matcher)) continue;
    SHARD_TRY(const bool there, tree->Has(record.file));
    if (!there || !tree->LocalPath(record.file)) return std::string();
    SHARD_TRY(const OpenedBundle bundle, OpenBundle(tree, record, 0));
    AddRouters(bundle, matcher, routers, mtp);
  }
  for (const auto& [layer, expert_count] : manifest.model.moe_layers) {
    if (!routers.contains(layer) && !mtp.contains(layer)) return std::string();
  }
  return moepack::RouterDigest(routers);
}

}  // namespace moepack::manifest

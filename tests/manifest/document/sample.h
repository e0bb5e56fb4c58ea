// Small distributions made by hand, so that manifest/ is tested against files it did not write.
#pragma once
// Long because only *_test.cc files are compiled here, so what several of them need is a header.

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/bytes.h"
#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "manifest/document/manifest.h"

namespace sample {

using moepack::ExpertIds;
using moepack::Role;

inline constexpr const char* kGroup1 = "groups/001/experts.safetensors";

// A tensor of a bundle with its bytes.
struct Tensor {
  fixtures::RawTensor raw;
  std::optional<uint32_t> layer = {};
  ExpertIds experts = {};
};

// A manifest and the files it describes, in memory.
struct Distribution {
  moepack::manifest::Manifest manifest;
  std::map<std::string, std::string> files;

  moepack::manifest::BundleRecord& Bundle(const std::string& file) {
    for (moepack::manifest::BundleRecord& bundle : manifest.bundles) {
      if (bundle.file == file) return bundle;
    }
    return manifest.bundles.at(manifest.bundles.size());  // throws: the test names a wrong file
  }
  void Remove(const std::string& file) {
    files.erase(file);
    std::erase_if(manifest.bundles, [&](const auto& bundle) { return bundle.file == file; });
  }
  // After a change of the plan.
  void UpdateVersions() {
    manifest.versions = moepack::manifest::ComputeVersions(manifest.versions.model, manifest.plan);
  }
  void WriteTo(const std::filesystem::path& directory) const {
    for (const auto& [file, bytes] : files) {
      std::filesystem::create_directories((directory / file).parent_path());
      fixtures::WriteFile(directory / file, bytes);
    }
    std::filesystem::create_directories(directory);
    fixtures::WriteFile(directory / "distribution.json", WriteManifest(manifest));
  }
};

// `count` bytes that differ between places and seeds.
inline std::string Noise(size_t count, uint32_t seed) {
  std::string bytes(count, '\0');
  uint32_t state = seed * 2654435761u + 1;
  for (char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

inline ExpertIds IdsIn(const moepack::Plan& plan, Role role, std::optional<uint32_t> group,
                       uint32_t layer) {
  if (role == Role::kOverlay) return moepack::IdsOf(moepack::HeldBy(plan.overlays.back()), layer);
  if (role == Role::kRemainder) return moepack::IdsOf(plan.remainder, layer);
  if (role == Role::kTrunk) return {};
  const moepack::GroupPlan& own = plan.groups.at(group.value());
  return moepack::Union(moepack::IdsOf(own.owned, layer), moepack::IdsOf(own.fill, layer));
}

inline std::string PathOf(const moepack::Plan& plan, Role role, std::optional<uint32_t> group) {
  if (role == Role::kTrunk) return "trunk/trunk.safetensors";
  if (role == Role::kOverlay)
    return "overlays/" + plan.overlays.back().version + "/experts.safetensors";
  if (role == Role::kRemainder) return "remainder/experts.safetensors";
  return "groups/00" + std::to_string(group.value()) + "/experts.safetensors";
}

inline fixtures::Metadata MetadataOf(const moepack::manifest::Manifest& manifest, Role role,
                                     std::optional<uint32_t> group) {
  const moepack::Plan& plan = manifest.plan;
  fixtures::Metadata metadata = {{"format", "pt"},
                                 {"moepack.model", manifest.versions.model},
                                 {"moepack.role", std::string(RoleName(role))}};
  if (group) metadata["moepack.group"] = std::to_string(*group);
  if (role == Role::kOverlay) metadata["moepack.overlay"] = plan.overlays.back().version;
  if (role == Role::kTrunk) return metadata;
  moepack::LayerExperts experts;
  for (const auto& [layer, count] : plan.layers) experts[layer] = IdsIn(plan, role, group, layer);
  metadata["moepack.experts"] = moepack::LayerExpertsToJson(experts, plan.layers).dump();
  return metadata;
}

// Adds a bundle of `tensors` to the manifest, and its bytes to the files.
inline void AddBundle(Distribution& out, Role role, std::optional<uint32_t> group,
                      const std::vector<Tensor>& tensors, const std::string& path = {}) {
  moepack::manifest::BundleRecord bundle;
  bundle.role = role;
  bundle.group = group;
  bundle.file = path.empty() ? PathOf(out.manifest.plan, role, group) : path;
  bundle.format = "safetensors";
  std::vector<fixtures::RawTensor> raw;
  for (const Tensor& tensor : tensors) raw.push_back(tensor.raw);
  const std::string bytes = fixtures::SafetensorsBytes(raw, MetadataOf(out.manifest, role, group));
  uint64_t offset = 8 + moepack::LoadLe<uint64_t>(std::as_bytes(std::span(bytes)));
  for (const Tensor& tensor : tensors) {
    moepack::manifest::TensorRecord record;
    record.name = tensor.raw.name;
    record.dtype = tensor.raw.dtype;
    record.shape = tensor.raw.shape;
    record.offset = offset;
    record.bytes = tensor.raw.bytes.size();
    record.xxh3 = moepack::Xxh3Hex(std::as_bytes(std::span(tensor.raw.bytes)));
    record.layer = tensor.layer;
    record.expert_ids = tensor.experts;
    offset += record.bytes;
    bundle.tensors.push_back(record);
  }
  bundle.size = bytes.size();
  bundle.sha256 = moepack::Sha256Hex(bytes);
  out.files[bundle.file] = bytes;
  out.manifest.bundles.push_back(bundle);
}

inline void AddAsset(Distribution& out, const std::string& name, const std::string& bytes) {
  out.files["assets/" + name] = bytes;
  out.manifest.assets.push_back({"assets/" + name, bytes.size(), moepack::Sha256Hex(bytes)});
}

// Two MoE layers of six experts: three groups of two, expert 0 replicated, one eligible count.
//   layer 1 and 2   group 0: 0-1 and fill 2    group 1: 2-3    group 2: 4-5    overlay: 0
inline moepack::Plan MakePlan() {
  moepack::Plan plan;
  plan.scheme = "contiguous";
  plan.layers = {{1, 6}, {2, 6}};
  plan.top_k = {{1, 2}, {2, 2}};
  plan.groups.resize(3);
  plan.overlays.resize(1);
  plan.overlays[0].version = "generalists-1";
  for (uint32_t layer : {1u, 2u}) {
    for (uint32_t group = 0; group < 3; ++group) {
      plan.groups[group].owned[layer] = {2 * group, 2 * group + 1};
    }
    plan.groups[0].fill[layer] = {2};
    plan.overlays[0].experts_by_layer[layer] = {0};
  }
  plan.uniform = true;
  return plan;
}

// Layer 1 stores its experts separately, layer 2 packs them along the first axis.
inline std::vector<Tensor> ExpertTensors(const moepack::Plan& plan, Role role,
                                         std::optional<uint32_t> group) {
  std::vector<Tensor> tensors;
  for (uint32_t id : IdsIn(plan, role, group, 1)) {
    for (const char* leaf : {"up_proj", "down_proj"}) {
      const std::string name =
          moepack::Cat("model.layers.1.mlp.experts.", id, ".", leaf, ".weight");
      const uint32_t seed = 10 * id + (leaf[0] == 'u' ? 1 : 2);
      tensors.push_back({{name, "BF16", {4, 8}, Noise(64, seed)}, 1, {id}});
    }
  }
  const ExpertIds ids = IdsIn(plan, role, group, 2);
  std::string packed;
  for (uint32_t id : ids) packed += Noise(64, 100 + id);
  if (!ids.empty()) {
    const std::string name = "model.layers.2.mlp.experts.gate_up_proj";
    tensors.push_back({{name, "BF16", {ids.size(), 4, 8}, packed}, 2, ids});
  }
  return tensors;
}

inline void FillModel(moepack::manifest::Manifest& manifest) {
  moepack::manifest::ModelRecord& model = manifest.model;
  model.id = "example/tiny";
  model.revision = "main";
  model.family = "example-moe";
  model.architecture = "ExampleMoeForCausalLM";
  model.source_format = "safetensors";
  model.source = {{"model.safetensors", 4096, std::string(64, 'a'), ""},
                  {"more.safetensors", 512, std::string(64, 'b'), std::string(64, 'c')}};
  model.layers = 3;
  model.moe_layers = manifest.plan.layers;
  model.top_k = manifest.plan.top_k;
  model.hidden_size = 8;
  model.expert_intermediate_size = 4;
  model.vocab_size = 32;
  model.gating = "softmax";
  model.scale = 2.5;
  model.shared_experts = 1;
  model.parameters_total = 1234;
  model.parameters_active = 567;
  manifest.versions.model = "0123456789abcdef";
  manifest.tool_version = "0.1.0";
  manifest.command = {"build", "--groups", "3"};
}

inline Distribution Make(const moepack::Plan& plan = MakePlan()) {
  Distribution out;
  out.manifest.plan = plan;
  FillModel(out.manifest);
  out.UpdateVersions();
  AddBundle(out, Role::kTrunk, std::nullopt,
            {{{"model.embed_tokens.weight", "BF16", {32, 8}, Noise(512, 7)}, std::nullopt, {}},
             {{"model.layers.1.mlp.gate.weight", "F32", {6, 8}, Noise(192, 8)}, 1, {}},
             {{"model.empty", "F32", {0}, ""}, std::nullopt, {}}});
  for (uint32_t group = 0; group < plan.groups.size(); ++group) {
    AddBundle(out, Role::kGroup, group, ExpertTensors(plan, Role::kGroup, group));
  }
  if (!plan.overlays.empty()) {
    AddBundle(out, Role::kOverlay, std::nullopt, ExpertTensors(plan, Role::kOverlay, std::nullopt));
  }
  AddAsset(out, "config.json", "{}\n");
  return out;
}

}  // namespace sample

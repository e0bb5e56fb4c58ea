#include "libshard/families/name_rows.h"

#include <algorithm>

#include "libshard/model/family_match.h"

namespace moepack {
namespace {

void Add(Family& family, std::string pattern, Part part, std::string role) {
  family.rules.push_back({.pattern = std::move(pattern), .part = part, .role = std::move(role)});
}

void AddWithAxis(Family& family, std::string pattern, Part part, std::string role) {
  Add(family, std::move(pattern), part, std::move(role));
  family.rules.back().expert_axis = 0;
}

// Calls add(name, role) for every projection the family has.
template <class Function>
void ForEachProjection(const Projections& names, Function add) {
  const std::pair<const char*, const char*> rows[] = {
      {names.gate, "gate"}, {names.up, "up"}, {names.down, "down"}, {names.gate_up, "gate_up"}};
  for (const auto& [name, role] : rows) {
    if (*name != '\0') add(std::string(name), role);
  }
}

}  // namespace

std::vector<std::string> UsualPrefixes() {
  return {"model.", "model.language_model.", "language_model.model.", "language_model."};
}

void AddTrunk(Family& family, const std::string& role,
              std::initializer_list<std::string> patterns) {
  for (const std::string& pattern : patterns) Add(family, pattern, Part::kTrunk, role);
}

void AddShared(Family& family, const std::string& role, const std::string& pattern) {
  Add(family, pattern, Part::kShared, role);
}

void AddModel(Family& family) {
  AddTrunk(family, "embedding", {"embed_tokens.{W}"});
  AddTrunk(family, "norm", {"norm.{W}"});
  AddTrunk(family, "head", {"lm_head.{W}"});
}

void AddAttention(Family& family, const std::string& at) {
  AddTrunk(family, "norm", {at + "{*}norm.{W}"});
  AddTrunk(family, "attention", {at + "self_attn.{**}"});
}

void AddMtpExtras(Family& family, const std::string& at) {
  AddTrunk(family, "mtp", {at + "eh_proj.{W}", at + "shared_head.{**}"});
  AddTrunk(family, "embedding", {at + "embed_tokens.{W}"});
}

void AddQwenMtp(Family& family) {
  AddTrunk(family, "mtp", {"mtp.fc.{W}", "mtp.{*}norm.{W}", "mtp.pre_fc_norm_{*}.{W}"});
}

void AddDenseMlp(Family& family, const std::string& at, const Projections& names) {
  ForEachProjection(names, [&](const std::string& name, const char*) {
    Add(family, at + name + ".{W}", Part::kTrunk, "dense_mlp");
  });
}

void AddRouter(Family& family, const std::string& module) {
  for (const char* leaf : {"weight", "bias", "scales", "biases", "weight_scale"}) {
    AddWithAxis(family, module + "." + leaf, Part::kRouter, "router");
  }
  for (const WeightLeaf& leaf : WeightLeaves()) {
    const std::string pattern = module + "." + std::string(leaf.name);
    const bool known = std::any_of(family.rules.begin(), family.rules.end(),
                                   [&](const TensorRule& rule) { return rule.pattern == pattern; });
    if (leaf.use != LeafUse::kValues && !known) Add(family, pattern, Part::kRouter, "router");
  }
}

void AddRouterTensor(Family& family, const std::string& role, const std::string& pattern,
                     int axis) {
  AddWithAxis(family, pattern, Part::kRouter, role);
  family.rules.back().expert_axis = axis;
}

void AddSelectionBias(Family& family, const std::string& pattern, int axis) {
  AddRouterTensor(family, "selection_bias", pattern, axis);
}

void AddExplicitExperts(Family& family, const std::string& at, const Projections& names) {
  ForEachProjection(names, [&](const std::string& name, const char* role) {
    Add(family, at + "{E}." + name + ".{W}", Part::kExpert, role);
  });
}

void AddPackedExperts(Family& family, const std::string& at, const Projections& names) {
  ForEachProjection(names, [&](const std::string& name, const char* role) {
    AddWithAxis(family, at + name + ".{W}", Part::kExpert, role);
    AddWithAxis(family, at + name + "_{W}", Part::kExpert, role);
  });
}

void AddExperts(Family& family, const std::string& block, const Projections& names) {
  AddExplicitExperts(family, block + "experts.", names);
  AddPackedExperts(family, block + "experts.", kProj);
  AddPackedExperts(family, block + "switch_mlp.", kProj);
}

void AddSharedExpert(Family& family, const std::string& at, const Projections& names) {
  ForEachProjection(names, [&](const std::string& name, const char* role) {
    Add(family, at + name + ".{W}", Part::kShared, role);
  });
}

void AddDeepseekMoe(Family& family, const std::string& at) {
  AddRouter(family, at + "mlp.gate");
  AddExperts(family, at + "mlp.");
  AddSharedExpert(family, at + "mlp.shared_experts.");
  AddDenseMlp(family, at + "mlp.");
}

void AddQwenMoe(Family& family, const std::string& at) {
  AddRouter(family, at + "mlp.gate");
  AddExperts(family, at + "mlp.");
  AddSharedExpert(family, at + "mlp.shared_expert.");
  AddShared(family, "shared_gate", at + "mlp.shared_expert_gate.{W}");
  AddDenseMlp(family, at + "mlp.");
}

void AddGraniteMoe(Family& family, const std::string& at) {
  const std::string moe = at + "block_sparse_moe.";
  AddRouter(family, moe + "router.layer");
  AddPackedExperts(family, moe, {"", "", "output_linear", "input_linear"});
  // MLX splits input_linear.
  AddPackedExperts(family, moe + "switch_mlp.");
  AddSharedExpert(family, at + "shared_mlp.", {"", "", "output_linear", "input_linear"});
}

void AddBailingRows(Family& family) {
  const std::string at = "layers.{L}.";
  AddModel(family);
  AddTrunk(family, "embedding", {"word_embeddings.{W}"});
  AddAttention(family, at);
  AddTrunk(family, "attention", {at + "attention.{**}"});
  for (const char* gate : {"gate", "image_gate", "audio_gate"}) {
    AddRouter(family, at + "mlp." + gate);
    AddSelectionBias(family, at + "mlp." + gate + ".expert_bias");
  }
  AddExperts(family, at + "mlp.");
  AddSharedExpert(family, at + "mlp.shared_experts.");
  AddDenseMlp(family, at + "mlp.");
}

void AddTowers(Family& family) {
  AddTrunk(family, "vision",
           {"visual.{**}", "vision.{**}", "vision_{**}", "multi_modal_projector.{**}",
            "mm_projector.{**}", "embed_vision.{**}", "image_newline"});
  AddTrunk(family, "audio", {"audio.{**}", "audio_{**}", "embed_audio.{**}"});
}

}  // namespace moepack

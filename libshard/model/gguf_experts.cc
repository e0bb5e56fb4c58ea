// Tensor names: llama.cpp's table (gguf-py/gguf/constants.py); the expert axis, if there is one, is
// the slowest dimension.
#include "libshard/model/gguf_experts.h"

#include <algorithm>
#include <array>

#include "libshard/model/family_match.h"
#include "libshard/model/gguf_keys.h"

namespace moepack {
namespace {

void Add(Family& family, const std::string& pattern, Part part, const std::string& role) {
  family.rules.push_back({.pattern = pattern, .part = part, .role = role});
}

void AddPerExpert(Family& family, const std::string& pattern, Part part, const std::string& role) {
  Add(family, pattern, part, role);
  family.rules.back().expert_axis = 0;
}

// Weight, bias and the scales of NVFP4 all have one entry per expert.
void AddExperts(Family& family) {
  for (const char* role : {"gate", "up", "down", "gate_up"}) {
    AddPerExpert(family, std::string("blk.{L}.ffn_") + role + "_exps.{W}", Part::kExpert, role);
  }
}

void AddRouters(Family& family) {
  AddPerExpert(family, "blk.{L}.ffn_gate_inp.weight", Part::kRouter, "router");
  AddPerExpert(family, "blk.{L}.ffn_gate_inp.bias", Part::kRouter, "router");
  AddPerExpert(family, "blk.{L}.exp_probs_b.{W}", Part::kRouter, "selection_bias");
  AddPerExpert(family, "blk.{L}.exp_probs_b_vl.{W}", Part::kRouter, "selection_bias");
  Add(family, "blk.{L}.ffn_gate_tid2eid.{W}", Part::kRouter, "expert_ids");
  family.rules.back().holds_expert_ids = true;
}

void AddShared(Family& family) {
  for (const char* role : {"gate", "up", "down"}) {
    Add(family, std::string("blk.{L}.ffn_") + role + "_shexp.{**}", Part::kShared, role);
  }
  Add(family, "blk.{L}.ffn_gate_inp_shexp.{**}", Part::kShared, "shared_gate");
}

// Adds rows for tensors without an expert axis. The last row matches names that are new to us;
// MoeModel::Open checks their shapes.
void AddTrunk(Family& family) {
  const std::pair<const char*, const char*> rows[] = {
      {"token_embd.{**}", "embedding"},
      {"output.{**}", "head"},
      {"output_norm.{**}", "norm"},
      {"blk.{L}.{*}_norm.{**}", "norm"},
      {"blk.{L}.attn_{**}", "attention"},
      {"blk.{L}.ssm_{**}", "attention"},
      {"blk.{L}.ffn_gate.{W}", "dense_mlp"},
      {"blk.{L}.ffn_up.{W}", "dense_mlp"},
      {"blk.{L}.ffn_down.{W}", "dense_mlp"},
      // Grove's adjoint experts serve several experts each, so their axis is shorter than the
      // router's.
      {"blk.{L}.ffn_gate_chexps.{W}", "chunk_experts"},
      {"blk.{L}.ffn_up_chexps.{W}", "chunk_experts"},
      {"blk.{L}.ffn_down_chexps.{W}", "chunk_experts"},
      {"blk.{L}.nextn.{**}", "mtp"},
      {"blk.{L}.{**}", "other"},
      {"v.{**}", "vision"},
      {"mm.{**}", "vision"},
      {"a.{**}", "audio"},
      {"{**}", "other"},
  };
  for (const auto& [pattern, role] : rows) Add(family, pattern, Part::kTrunk, role);
}

// How the names of tensors outside blocks begin and, after "blk.N.", those of a block's tensors.
constexpr std::array kTrunkStarts = {
    "token_embd", "token_types", "position_embd", "output",   "rope_",     "cls", "per_layer_",
    "altup_",     "hc_",         "embed",         "conv1d",   "dense_",    "v.",  "mm.",
    "a.",         "enc.",        "dec.",          "target_",  "mtp.",      "t2d", "d2t",
    "fc.",        "nextn.",      "self_cond_",    "pre_proj", "post_proj",
};
constexpr std::array kBlockStarts = {
    "attn_",
    "ssm_",
    "nextn.",
    "indexer",
    "rope_",
    "cross_attn_",
    "time_mix_",
    "channel_mix_",
    "shortconv",
    "layer_output",
    "post_",
    "pre_",
    "inp_gate",
    "proj.",
    "per_layer",
    "altup_",
    "laurel_",
    "hc_",
    "engram",
    "convnext",
    "ffn_gate_chexps",
    "ffn_up_chexps",
    "ffn_down_chexps",
    "ffn_norm",
    "ffn_post_norm",
    "ffn_pre_norm",
    "ffn_sub_norm",
    "ffn_gate.",
    "ffn_up.",
    "ffn_down.",
    "ffn_act",
    "ffn_exp_probs_norm",
    "ffn_latent_",
    "ffn_routed_",
    "ffn_res_score",
    "ffn_gate_inp.scale",
    "ffn_gate_inp_shexp",
    "ffn_gate_shexp",
    "ffn_up_shexp",
    "ffn_down_shexp",
    "enorm",
    "hnorm",
    "eh_proj",
    "vision_",
    "embed_",
};

template <size_t N>
bool StartsWithAny(std::string_view name, const std::array<const char*, N>& starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](const char* start) { return name.starts_with(start); });
}

Family MakeFamily() {
  Family family;
  family.name = "gguf";
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  AddExperts(family);
  AddRouters(family);
  AddShared(family);
  AddTrunk(family);
  return family;
}

// Returns what follows "blk.N."; empty for a tensor outside blocks.
std::string_view InBlock(std::string_view name) {
  const std::optional<BlockName> block = ParseBlockName(name);
  return block ? block->rest : std::string_view();
}

}  // namespace

const Family& GgufFamily() {
  // Never destroyed, because models that live until the program ends borrow its rules.
  static const Family* const kFamily = new Family(MakeFamily());
  return *kFamily;
}

bool IsKnownTrunk(std::string_view name) {
  const std::string_view rest = InBlock(name);
  if (rest.empty()) return StartsWithAny(name, kTrunkStarts);
  return StartsWithAny(rest, kBlockStarts) && !IsLegacyExpert(name);
}

bool IsLegacyExpert(std::string_view name) {
  const std::vector<std::string_view> parts = Components(InBlock(name));
  if (parts.size() < 3 || !IsNumber(parts[1])) return false;
  return parts[0] == "ffn_gate" || parts[0] == "ffn_up" || parts[0] == "ffn_down";
}

}  // namespace moepack

// Row sets that many families share. A family file says which of them it has and adds its own rows.
//
// `at` is the prefix of a block, with the final dot: "layers.{L}.", "mtp.layers.{M}.". Rows are
// strict in the feed-forward part, where a tensor that no row names is an error, and broad where
// nothing depends on experts (attention, norms, towers).
#pragma once

#include <initializer_list>
#include <string>

#include "libshard/model/family.h"

namespace moepack {

// How a family spells the three projections of an expert, and the fused gate and up; "" if it has
// none.
struct Projections {
  const char* gate;
  const char* up;
  const char* down;
  const char* gate_up;
};
inline constexpr Projections kProj = {"gate_proj", "up_proj", "down_proj", "gate_up_proj"};
// Mixtral's names: w1 is the gate, w3 is up, w2 is down.
inline constexpr Projections kW123 = {"w1", "w3", "w2", ""};

// The prefixes of most text models ("model.") and of their nested forms in multimodal models and
// MLX.
std::vector<std::string> UsualPrefixes();

void AddTrunk(Family& family, const std::string& role, std::initializer_list<std::string> patterns);
void AddShared(Family& family, const std::string& role, const std::string& pattern);

// embed_tokens, norm, lm_head.
void AddModel(Family& family);
// Norms and self-attention of a block, including rotary tables and attention sinks.
void AddAttention(Family& family, const std::string& at);
// What DeepSeek-style MTP blocks have in addition to a usual block: eh_proj, enorm, hnorm,
// shared_head, embed_tokens.
void AddMtpExtras(Family& family, const std::string& at);
// mtp.{fc,norm,pre_fc_norm_*} of the Qwen models.
void AddQwenMtp(Family& family);
void AddDenseMlp(Family& family, const std::string& at, const Projections& names = kProj);

// A router that is a linear layer: weight [experts, hidden], bias [experts] and the companions that
// keep one row per expert. Packed codes (qweight) and block scales have none: they are matched,
// too, but without an expert axis, so they stay whole.
void AddRouter(Family& family, const std::string& module);
// Any other tensor with one entry per expert along `axis`; -1 is the last one.
void AddRouterTensor(Family& family, const std::string& role, const std::string& pattern,
                     int axis = 0);
// A vector with one entry per expert that is added only before the choice.
void AddSelectionBias(Family& family, const std::string& pattern, int axis = 0);

// at + "{E}." + name: one tensor per expert.
void AddExplicitExperts(Family& family, const std::string& at, const Projections& names = kProj);
// at + name: tensors with the experts along axis 0, with a leaf of their own or after an underscore
// (gate_up_proj_blocks).
void AddPackedExperts(Family& family, const std::string& at, const Projections& names = kProj);
// Both of them, plus MLX's spelling "switch_mlp" next to `at` ("mlp.experts." ->
// "mlp.switch_mlp.").
void AddExperts(Family& family, const std::string& block, const Projections& names = kProj);
void AddSharedExpert(Family& family, const std::string& at, const Projections& names = kProj);

// Rows "mlp.gate", "mlp.experts", a dense "mlp" and "mlp.shared_experts": DeepSeek-V2 and all
// families that adopted its names (GLM, Kimi, MiMo, dots).
void AddDeepseekMoe(Family& family, const std::string& at);
// "mlp.gate", "mlp.experts", a dense "mlp" and a gated "mlp.shared_expert": the Qwen models.
void AddQwenMoe(Family& family, const std::string& at);

// block_sparse_moe.{router.layer,input_linear,output_linear} and shared_mlp of Granite.
void AddGraniteMoe(Family& family, const std::string& at);
// The whole text model of Ling: attention.{query_key_value,dense}, mlp.gate with its bias, the
// routers of other modalities, experts, shared experts.
void AddBailingRows(Family& family);

// Vision and audio towers and their projectors; "vision_{**}", "visual.{**}", "audio_{**}" and so
// on.
void AddTowers(Family& family);

}  // namespace moepack

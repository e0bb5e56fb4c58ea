#include "libshard/recipe/recipe_types.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <map>

#include "libshard/base/text/suggest.h"
#include "libshard/base/text/text.h"
#include "quant/other_types.h"

namespace moepack {
namespace {

// Tensors that llama-quantize leaves unchanged although they are matrices (llama.cpp v0.5.0,
// src/llama-quant.cpp): norms, routers, convolutions, tables of positions, small projections of
// recurrent models, parts of vision and audio towers.
constexpr std::array<std::string_view, 37> kUnchanged = {
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
    // These are whole names, and no other name ends in them.
    "position_embd.weight",
    "token_types.weight",
};

struct Substitute {
  std::string_view wanted, instead;
};
// From the same source. Types that are not listed have blocks of 64 or fewer values.
constexpr std::array kSubstitutes = {
    Substitute{"iq1_s", "iq4_nl"},  Substitute{"iq1_m", "iq4_nl"},   Substitute{"tq1_0", "q4_0"},
    Substitute{"tq2_0", "q4_0"},    Substitute{"iq2_xxs", "iq4_nl"}, Substitute{"iq2_xs", "iq4_nl"},
    Substitute{"iq2_s", "iq4_nl"},  Substitute{"iq3_xxs", "iq4_nl"}, Substitute{"iq3_s", "iq4_nl"},
    Substitute{"iq4_xs", "iq4_nl"}, Substitute{"q2_K", "q4_0"},      Substitute{"q3_K", "q4_0"},
    Substitute{"q4_K", "q5_0"},     Substitute{"q5_K", "q5_1"},      Substitute{"q6_K", "q8_0"},
};

// Types that llama-quantize refuses to write without importance, although ggml's encoder works
// without it (tensor_requires_imatrix of the same source). It allows them for output and embedding
// matrices. Those that the encoder itself refuses say so in their row of quant::AllFormats().
struct ImportanceRule {
  std::string_view type;
  std::string_view recipe = {};  // only in this recipe; "" for any
};
constexpr std::array kNeedImportance = {ImportanceRule{"iq1_m"}, ImportanceRule{"iq2_s"},
                                        ImportanceRule{"iq3_xxs"},
                                        ImportanceRule{"q2_K", "Q2_K_S"}};

// ggml_n_dims does not count leading axes of length 1 (the last ones in ggml's order).
size_t EffectiveDimensions(const std::vector<uint64_t>& shape) {
  const auto first = std::find_if(shape.begin(), shape.end(), [](uint64_t n) { return n > 1; });
  return static_cast<size_t>(shape.end() - first);
}

std::vector<std::string> TargetTypes() {
  std::vector<std::string> names;
  for (const quant::Format& format : quant::AllFormats()) {
    if (format.encode != nullptr && format.ggml_type >= 0) names.emplace_back(format.name);
  }
  return names;
}

}  // namespace

std::string_view ReasonToKeep(const GgufTensor& tensor) {
  if (tensor.fixed || !tensor.literal.empty()) return "F32 by conversion";
  if (EffectiveDimensions(tensor.shape) < 2) return "a vector";
  if (!tensor.name.ends_with("weight")) return "no weight";
  const auto piece = std::find_if(kUnchanged.begin(), kUnchanged.end(), [&](std::string_view text) {
    return tensor.name.find(text) != std::string::npos;
  });
  return piece == kUnchanged.end() ? std::string_view() : *piece;
}

bool MayChange(const GgufTensor& tensor) { return ReasonToKeep(tensor).empty(); }

const quant::Format* KeptType(const GgufTensor& tensor) {
  if (tensor.fixed || !tensor.literal.empty()) return KnownType("f32");
  return tensor.stored->ggml_type >= 0 ? tensor.stored : KnownType("f32");
}

std::string OwnerOfType(std::string_view name) {
  const quant::OtherType* const type = quant::FindOtherType(name);
  return type == nullptr ? "" : Cat(", ", quant::OwnerText(type->owner));
}

Result<const quant::Format*> ParseTargetType(const std::string& what, std::string_view name) {
  const quant::Format* format = quant::FindFormat(name);
  if (format != nullptr && format->encode != nullptr && format->ggml_type >= 0) return format;
  Error error = NotOneOf(Cat(what, ": type"), TargetTypes(), name);
  error.message += OwnerOfType(name);
  return error;
}

const quant::Format* KnownType(std::string_view name) {
  const quant::Format* format = quant::FindFormat(name);
  assert(format != nullptr);
  return format;
}

bool RequiresImportance(const quant::Format& type, std::string_view recipe,
                        bool output_or_embedding) {
  if (type.needs_importance || output_or_embedding) return type.needs_importance;
  return std::any_of(
      kNeedImportance.begin(), kNeedImportance.end(), [&](const ImportanceRule& rule) {
        return rule.type == type.name && (rule.recipe.empty() || rule.recipe == recipe);
      });
}

bool IsQuantized(const quant::Format& format) {
  return format.ggml_type >= 0 && format.block_values > 1;
}

const quant::Format* FallbackFor(const quant::Format* wanted, uint64_t row_values) {
  if (row_values % wanted->block_values == 0) return wanted;
  const auto found = std::find_if(kSubstitutes.begin(), kSubstitutes.end(),
                                  [&](const Substitute& s) { return s.wanted == wanted->name; });
  if (found == kSubstitutes.end()) return KnownType("f16");
  const quant::Format* instead = KnownType(found->instead);
  return row_values % instead->block_values == 0 ? instead : KnownType("f16");
}

namespace {

// For a model that has an importance matrix. Types with one value per block do not use it.
std::string_view ImportanceOf(const GgufTensor& tensor) {
  if (tensor.importance != nullptr) return "used";
  return IsQuantized(*tensor.type) && MayChange(tensor) ? "none" : "no need";
}

}  // namespace

std::vector<TensorType> ListTypes(const TypedGguf& typed) {
  std::map<std::string_view, const RecipeResult::Fallback*> fallbacks;
  for (const RecipeResult::Fallback& fallback : typed.recipe.fallbacks) {
    fallbacks.try_emplace(fallback.tensor, &fallback);
  }
  std::vector<TensorType> out;
  for (size_t i = 0; i < typed.model.tensors.size(); ++i) {
    const GgufTensor& tensor = typed.model.tensors[i];
    TensorType& row = out.emplace_back();
    row.name = tensor.name;
    row.source = tensor.source_tensor;
    row.shape = tensor.shape;
    row.part = tensor.part;
    row.stored = tensor.stored->name;
    row.type = tensor.type->name;
    row.bytes = tensor.bytes();
    row.choice = typed.recipe.choices[i];
    const auto fallback = fallbacks.find(tensor.name);
    if (tensor.type != row.choice.wanted && fallback != fallbacks.end()) {
      row.fallback = fallback->second->reason;
    }
    const quant::Format* overlay = typed.recipe.overlay_types[i];
    if (overlay != nullptr && overlay != tensor.type) row.overlay_type = overlay->name;
    if (typed.imatrix) row.importance = ImportanceOf(tensor);
  }
  return out;
}

}  // namespace moepack

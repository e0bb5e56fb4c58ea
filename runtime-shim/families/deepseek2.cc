#include <algorithm>
#include <cmath>

#include "libshard/base/text/text.h"
#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

// The attention scale includes YaRN's magnitude squared, which the rotation then omits.
void ScaleAttention(SpecKeys& keys, ModelSpec& spec) {
  const float stretch = 0.1f * std::log(1 / spec.rope.frequency_scale);
  // The file stores 0.1 times the multiplier.
  const float multiplier = keys.Float("rope.scaling.yarn_log_multiplier", 0) / 0.1f;
  if (spec.rope.yarn_mix > 0 && multiplier != 0) spec.rope.attention_factor /= 1 + stretch;
  const float magnitude = spec.rope.attention_factor * (1 + multiplier * stretch);
  spec.attention_scale = magnitude * magnitude / std::sqrt(static_cast<float>(spec.key_width));
  if (!std::isfinite(spec.attention_scale))
    keys.Refuse("rope.scaling.yarn_log_multiplier", "one that gives a finite attention scale",
                Cat(multiplier * 0.1f));
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.rope.pairing = Pairing::kNeighbours;
  if (!keys.Has("attention.key_length_mla")) {
    keys.Decline(
        "files without attention.key_length_mla (undivided attn_kv_b) do not run in the "
        "runtime shim; convert the checkpoint again");
    return;
  }
  spec.latent.rank = keys.Required("attention.kv_lora_rank");
  const uint32_t head = keys.Required("attention.key_length_mla");
  spec.latent.value_width = keys.Required("attention.value_length_mla");
  if (head <= spec.rope.dims)
    keys.Refuse("attention.key_length_mla", Cat("more than ", spec.rope.dims), Cat(head));
  spec.latent.nope_width = head - spec.rope.dims;
  spec.key_width = head;
  spec.key_heads = 1;
  ScaleAttention(keys, spec);
}

// As long as there are no more keys than the indexer picks, it picks all of them, and attention is
// that of DeepSeek-V3. Longer contexts do not run here.
void FillShort(SpecKeys& keys, ModelSpec& spec) {
  Fill(keys, spec);
  spec.unused_indexer = true;
  spec.context = std::min(spec.context, keys.Required("attention.indexer.top_k"));
}

}  // namespace

constinit const RuntimeFamily kRunDeepseek32 = {"deepseek32", "DeepSeek-V3.2 in short contexts",
                                                FillShort};
constinit const RuntimeFamily kRunGlmDsa = {"glm-dsa", "GLM-5 in short contexts", FillShort};
constinit const RuntimeFamily kRunDeepseek2 = {"deepseek2",
                                               "DeepSeek-V2 and V3, Kimi-K2, GLM-4.7-Flash", Fill};

}  // namespace moepack::runtime

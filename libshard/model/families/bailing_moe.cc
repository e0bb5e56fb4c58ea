// Ling (BailingMoE) and the Ling inside Ming-omni ("model.model."): attention.query_key_value,
// word_embeddings. Ming has one router per modality (mlp.image_gate, mlp.audio_gate) over the same
// experts. Names: llama.cpp's tensor map, published readers of Ming; configs only here.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family BailingMoeFamily() {
  Family family;
  family.name = "bailing-moe";
  family.architectures = {"BailingMoeForCausalLM", "BailingMMNativeForConditionalGeneration"};
  family.model_types = {"bailing_moe", "bailingmm"};
  family.prefixes = {"model.", "model.model."};
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  AddBailingRows(family);
  AddTowers(family);
  AddTrunk(family, "vision", {"linear_proj.{**}"});
  AddTrunk(family, "audio", {"linear_proj_audio.{**}"});
  return family;
}

}  // namespace moepack

// DeepSeek-OCR and OCR-2: a 3B DeepSeek-V2 behind two vision encoders, whose blocks have similarly
// numbered names (qwen2_model.model.model.layers.N.mlp). The files do spell it "view_seperator".
// Names: three index files.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family DeepseekOcrFamily() {
  Family family;
  family.name = "deepseek-ocr";
  family.architectures = {"DeepseekOCRForCausalLM", "DeepseekOCR2ForCausalLM"};
  family.model_types = {"DeepseekOCR"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = false};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  AddTowers(family);
  AddTrunk(family, "vision",
           {"sam_model.{**}", "qwen2_model.{**}", "projector.{**}", "view_seperator"});
  family.promise = {.complete = true};
  return family;
}

}  // namespace moepack

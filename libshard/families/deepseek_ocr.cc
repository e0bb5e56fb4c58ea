// DeepSeek-OCR and OCR-2: a 3B DeepSeek-V2 behind two vision encoders, whose blocks have similarly
// numbered names (qwen2_model.model.model.layers.N.mlp). The files do spell it "view_seperator".
// Names: three index files.
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack::deepseek_ocr {
namespace {

Family Table() {
  Family family;
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

constexpr std::string_view kArchitectures[] = {"DeepseekOCRForCausalLM", "DeepseekOCR2ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"DeepseekOCR"};

constexpr GgufArchitecture kGraphs[] = {
    {.name = "deepseek2-ocr"},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"deepseek-ocr", kArchitectures, kModelTypes},
    .table = Table,
    .graphs = kGraphs,
};

}  // namespace moepack::deepseek_ocr

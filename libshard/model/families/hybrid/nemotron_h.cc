// Nemotron-3 Nano, Super and Lightning: every layer is one mixer - Mamba-2, attention or MoE.
// Experts have up and down only (relu2, no gate); Super runs them in a smaller space between
// fc1_latent_proj and fc2_latent_proj. The mixer rows are spelled out, because all kinds share the
// same place. Names: the full list inside the V4X graft (whose new_experts must not match),
// ModelOpt's lists.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family NemotronHFamily() {
  Family family;
  family.name = "nemotron-h";
  family.architectures = {"NemotronHForCausalLM"};
  family.model_types = {"nemotron_h"};
  family.prefixes = {"backbone.", "model."};
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  constexpr Projections kUpDown = {"", "up_proj", "down_proj", ""};
  AddTrunk(family, "embedding", {"embeddings.{W}", "embed_tokens.{W}"});
  AddTrunk(family, "norm", {"norm_f.{W}"});
  AddTrunk(family, "head", {"lm_head.{W}"});
  for (const std::string at : {"layers.{L}.", "mtp.layers.{M}."}) {
    AddTrunk(family, "norm", {at + "norm.{W}"});
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      AddTrunk(family, "attention", {at + "mixer." + name + ".{W}"});
    }
    for (const char* name :
         {"in_proj.{W}", "out_proj.{W}", "conv1d.{W}", "norm.{W}", "A_log", "D", "dt_bias"}) {
      AddTrunk(family, "mamba", {at + "mixer." + name});
    }
    AddTrunk(family, "latent",
             {at + "mixer.fc1_latent_proj.{W}", at + "mixer.fc2_latent_proj.{W}"});
    AddRouter(family, at + "mixer.gate");
    AddSelectionBias(family, at + "mixer.gate.e_score_correction_bias");
    AddExplicitExperts(family, at + "mixer.experts.", kUpDown);
    AddPackedExperts(family, at + "mixer.experts.", kUpDown);
    // MLX: switch_mlp.{fc1,fc2} for up and down.
    AddPackedExperts(family, at + "mixer.switch_mlp.", {"", "fc1", "fc2", ""});
    AddSharedExpert(family, at + "mixer.shared_experts.", kUpDown);
    AddDenseMlp(family, at + "mixer.", kUpDown);
  }
  AddTrunk(family, "mtp", {"mtp.layers.{M}.{*}norm.{W}", "mtp.layers.{M}.eh_proj.{W}"});
  return family;
}

}  // namespace moepack

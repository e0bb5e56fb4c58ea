#include <cmath>

#include "libshard/base/text/text.h"
#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.rope.pairing = Pairing::kNeighbours;
  const float attention = keys.Float("attention.scale", 0);
  if (attention != 0) spec.attention_scale = attention;
  const float embedding = keys.Float("embedding_scale", 0);
  if (embedding != 0) spec.embedding_scale = embedding;
  const float residual = keys.Float("residual_scale", 0);
  if (residual != 0) spec.residual_scale = residual;
  const float logits = keys.RequiredFloat("logit_scale");
  if (logits == 0) keys.Refuse("logit_scale", "a number that is not zero", "0");
  spec.logit_scale = 1 / logits;
  if (!std::isfinite(spec.logit_scale))
    keys.Refuse("logit_scale", "a number with a finite reciprocal", Cat(logits));
}

}  // namespace

constinit const RuntimeFamily kRunGraniteMoe = {"granitemoe", "Granite-MoE", Fill};

}  // namespace moepack::runtime

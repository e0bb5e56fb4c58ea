#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.rope.pairing = Pairing::kNeighbours;
  const float scale = keys.Float("attention.scale", 0);
  if (scale != 0) spec.attention_scale = scale;
}

}  // namespace

constinit const RuntimeFamily kRunLlama = {"llama", "Mixtral", Fill};

}  // namespace moepack::runtime

#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.second_norm = "post_attention_norm";
  if (keys.Has("rope.dimension_sections"))
    keys.Decline("rotation in sections (GLM-4.5V) does not run in the runtime shim");
}

}  // namespace

constinit const RuntimeFamily kRunGlm4Moe = {"glm4moe", "GLM-4.5, 4.6, 4.7", Fill};

}  // namespace moepack::runtime

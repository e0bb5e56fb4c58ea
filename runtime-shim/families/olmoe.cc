#include "runtime-shim/families/families.h"

namespace runtime {
namespace {

void Fill(SpecKeys&, ModelSpec& spec) {
  spec.norm_whole_projection = true;
  ForEachRouter(spec, [](RouterSpec& router) {
    router.gating = "softmax";
    router.normalize = false;
    router.scale = 0;
  });
}

}  // namespace

constinit const RuntimeFamily kRunOlmoe = {"olmoe", "OLMoE", Fill};

}  // namespace runtime

#include "runtime-shim/families/families.h"

namespace runtime {
namespace {

void Fill(SpecKeys&, ModelSpec& spec) {
  ForEachRouter(spec, [](RouterSpec& router) {
    router.gating = "softmax";
    router.normalize = true;
    router.scale = 0;
  });
}

}  // namespace

constinit const RuntimeFamily kRunQwen3Moe = {"qwen3moe", "Qwen3-MoE", Fill};

}  // namespace runtime

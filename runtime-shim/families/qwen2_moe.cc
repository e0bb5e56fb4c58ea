#include "runtime-shim/families/families.h"

namespace runtime {
namespace {

void Fill(SpecKeys&, ModelSpec& spec) {
  ForEachRouter(spec, [](RouterSpec& router) {
    router.gating = "softmax";
    router.normalize = false;
    router.scale = 0;
  });
}

}  // namespace

constinit const RuntimeFamily kRunQwen2Moe = {"qwen2moe", "Qwen2-MoE", Fill};

}  // namespace runtime

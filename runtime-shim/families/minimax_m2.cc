#include "runtime-shim/families/families.h"

namespace runtime {
namespace {

void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.norm_whole_projection = true;
  if (keys.Uint("expert_gating_func", 0) == 0)
    keys.Refuse("expert_gating_func", "a gating function", "none");
  ForEachRouter(spec, [](RouterSpec& router) {
    router.normalize = true;
    router.scale = 0;
  });
}

}  // namespace

constinit const RuntimeFamily kRunMinimaxM2 = {"minimax-m2", "MiniMax-M2", Fill};

}  // namespace runtime

#include "runtime-shim/families/families.h"

namespace runtime {
namespace {

// As llama.cpp runs it: RMS norms with bias, softmax over all experts (the model's own code has
// LayerNorm and its "sparsemixer" router). The factor tensors are chosen in rope.cc.
void Fill(SpecKeys&, ModelSpec& spec) {
  ForEachRouter(spec, [](RouterSpec& router) {
    router.gating = "softmax";
    router.normalize = true;
    router.scale = 0;
  });
}

}  // namespace

constinit const RuntimeFamily kRunPhimoe = {"phimoe", "Phi-3.5-MoE", Fill};

}  // namespace runtime

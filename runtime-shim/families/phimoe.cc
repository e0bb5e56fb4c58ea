#include "runtime-shim/families/families.h"

namespace moepack::runtime {

// As llama.cpp runs it: RMS norms with bias, and softmax over all experts (the model's own code has
// LayerNorm and its "sparsemixer" router). Forward::TurnsOf chooses the factor tensors.
constinit const RuntimeFamily kRunPhimoe = {"phimoe", "Phi-3.5-MoE"};

}  // namespace moepack::runtime

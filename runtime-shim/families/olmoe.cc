#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

void Fill(SpecKeys&, ModelSpec& spec) { spec.norm_whole_projection = true; }

}  // namespace

constinit const RuntimeFamily kRunOlmoe = {"olmoe", "OLMoE", Fill};

}  // namespace moepack::runtime

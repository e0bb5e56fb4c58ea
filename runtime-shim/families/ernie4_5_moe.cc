#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

void Fill(SpecKeys&, ModelSpec& spec) { spec.rope.pairing = Pairing::kNeighbours; }

}  // namespace

constinit const RuntimeFamily kRunErnie45Moe = {"ernie4_5-moe", "ERNIE-4.5", Fill};

}  // namespace moepack::runtime

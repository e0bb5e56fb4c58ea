#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

void Fill(SpecKeys&, ModelSpec& spec) { spec.rope.pairing = Pairing::kNeighbours; }

}  // namespace

constinit const RuntimeFamily kRunBailingMoe = {"bailingmoe", "Ling", Fill};
constinit const RuntimeFamily kRunBailingMoe2 = {"bailingmoe2", "Ling 2.0"};

}  // namespace moepack::runtime

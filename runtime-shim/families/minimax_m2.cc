#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

void Fill(SpecKeys&, ModelSpec& spec) { spec.norm_whole_projection = true; }

}  // namespace

constinit const RuntimeFamily kRunMinimaxM2 = {"minimax-m2", "MiniMax-M2", Fill};

}  // namespace moepack::runtime

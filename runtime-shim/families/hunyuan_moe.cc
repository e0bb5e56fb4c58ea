#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

void Fill(SpecKeys&, ModelSpec& spec) { spec.norm_after_rope = true; }

}  // namespace

constinit const RuntimeFamily kRunHunyuanMoe = {"hunyuan-moe", "Hunyuan-A13B", Fill};

}  // namespace moepack::runtime

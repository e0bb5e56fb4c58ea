#include "runtime-shim/families/families.h"

namespace runtime {

constinit const RuntimeFamily kRunQwen2Moe = {"qwen2moe", "Qwen2-MoE"};

}  // namespace runtime

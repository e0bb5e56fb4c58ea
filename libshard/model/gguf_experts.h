// The single table of everything in a GGUF file that depends on the experts, for any architecture:
// tensors with an expert axis, tensors whose values are expert ids, and metadata keys that count or
// list experts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/model/family.h"

namespace moepack {

// The family of every GGUF source, with rows for expert tensors and routers, then for the trunk.
// The last row matches any name (see IsKnownTrunk).
const Family& GgufFamily();

// True for a name whose tensor is known to have no expert axis. MoeModel::Open refuses a tensor
// that no row for experts names and that is not known to be trunk, if its shape has an axis as long
// as the expert count: an unchanged copy would be wrong beside fewer experts. `name` is as in the
// file.
bool IsKnownTrunk(std::string_view name);

// True for "blk.3.ffn_gate.7.weight": until 2024 llama.cpp wrote one tensor per expert, which it no
// longer reads.
bool IsLegacyExpert(std::string_view name);

// The experts that a cut file holds.
struct ExpertCut {
  uint32_t expert_count = 0;               // eligible per layer
  std::map<uint32_t, ExpertIds> eligible;  // layer -> ids kept, ascending
};

}  // namespace moepack

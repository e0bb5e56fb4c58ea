// Entries of an importance matrix that apply to only one group. After a refit a group has its own
// experts under the model's ids, with their own inputs: a column of a down projection may belong to
// another neuron.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/recipe/imatrix.h"

namespace moepack {

// "group.001.blk.3.ffn_up_exps.weight". Such an entry has a row for each expert that the refit gave
// the group in this layer, in ascending id.
std::string GroupEntryName(uint32_t group, std::string_view tensor);
bool IsGroupEntry(std::string_view name);

// The experts that the refit gave the group.
struct GroupExperts {
  uint32_t group = 0;
  ExpertIds ids;  // ascending
};
// The importance of a packed tensor in a group's bundle: the rows of the group's own entry and, for
// all other experts, those of `tensor.importance`, which ApplyImatrix set. If the group has no
// entry, only the latter; null if the tensor has none either. kMismatch for an entry whose length
// does not fit. REQUIRES: the tensor has an expert axis, and the ids are below its length.
Result<std::shared_ptr<const Importance>> GroupImportance(const Imatrix& imatrix,
                                                          const GgufTensor& tensor,
                                                          const GroupExperts& experts);

}  // namespace moepack

// Compares a checkpoint with what its config promises: which layers and tensors there are, what
// shapes they have, and whether the config agrees with itself. Reads no tensor data.
#pragma once

#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/check/finding.h"
#include "libshard/model/hf_config.h"
#include "libshard/model/model.h"

namespace moepack {

struct CheckOptions {
  // The fields that the family's config class fills in, as a JSON object. When it is "", they are
  // not known, and nothing that depends on an absent field is checked.
  std::string_view defaults = "";
  bool mtp_may_lack = false;  // announced blocks for multi-token prediction need not be there
};

// Returns all disagreements, those within the config first; none when the checkpoint is as
// promised. A rule that is not known to hold for the family is not applied. Linear in the number of
// tensors. Shapes are not checked for a checkpoint of names only. kNotFound without a config,
// kCorrupt for fields of it with a wrong type.
Result<std::vector<CheckFinding>> CheckModel(const MoeModel& model,
                                             const CheckOptions& options = {});

// Finds the contradictions in a config alone, without any tensor.
Result<std::vector<CheckFinding>> CheckConfig(const HfConfig& config, const ModelConfig& model,
                                              const Family& family);

// Returns kCorrupt, with the first findings and the number of the others, unless the model is as
// promised.
Status RequirePromised(const MoeModel& model, const CheckOptions& options);

}  // namespace moepack

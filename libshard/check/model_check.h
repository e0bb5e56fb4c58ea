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
  // The fields that the family's config class fills in, as a JSON object. If "", they are unknown,
  // and nothing that depends on an absent field is checked.
  std::string_view defaults = "";
  bool mtp_may_lack = false;  // announced blocks for multi-token prediction may be missing
  // Layers may have fewer experts than the one number of the config, as after pruning by layer.
  bool experts_may_lack = false;
};

// Returns all disagreements, those within the config first; none if the checkpoint is as promised.
// A rule that is not known to hold for the family is not applied. Linear in the number of tensors.
// Shapes are not checked for a checkpoint with names only. kNotFound without a config, kCorrupt for
// config fields of a wrong type.
Result<std::vector<CheckFinding>> CheckModel(const MoeModel& model,
                                             const CheckOptions& options = {});

// Finds the contradictions within a config, without any tensors.
Result<std::vector<CheckFinding>> CheckConfig(const HfConfig& config, const ModelConfig& model,
                                              const Family& family);

// Returns kCorrupt, with the first findings and the number of the others, unless the model is as
// promised. Layers may lack experts (CheckOptions::experts_may_lack).
Status RequirePromised(const MoeModel& model, CheckOptions options);

}  // namespace moepack

// Compares a checkpoint with what its config promises: which layers and tensors there are, what
// shapes they have, and whether the config agrees with itself. Reads no tensor data.
#pragma once

#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/check/finding.h"
#include "libshard/model/hf_config.h"
#include "libshard/model/model.h"

namespace shard {

struct CheckOptions {
  // A JSON object with the fields that the family's class fills in; "" when not known, and then
  // what depends on an absent field is not checked.
  std::string_view defaults = "";
  bool mtp_may_lack = false;  // announced blocks for multi-token prediction need not be there
};

// All disagreements, those of the config first; none when the checkpoint is as promised. A rule
// that is not known to hold for the family is not applied. Linear in the tensors. Shapes are left
// out for a checkpoint of names only. kNotFound without a config, kCorrupt for fields of it with
// a wrong type.
Result<std::vector<CheckFinding>> CheckModel(const MoeModel& model,
                                             const CheckOptions& options = {});

// What a config promises that it cannot keep, without any tensor.
Result<std::vector<CheckFinding>> CheckConfig(const HfConfig& config, const ModelConfig& model,
                                              const Family& family);

// kCorrupt with the first findings, and how many more there are, unless the model is as promised.
Status RequirePromised(const MoeModel& model, const CheckOptions& options);

}  // namespace shard

// What the config class of a family fills in, in transformers or beside the checkpoint. Models are
// saved without the fields that have these values.
#pragma once

#include <string_view>

#include "libshard/model/config.h"
#include "libshard/model/family.h"

namespace moepack {

struct ConfigDefault {
  std::string_view json;             // an object
  std::string_view model_type = {};  // only models whose type, or text model's type, starts so
};

// Returns a JSON object with the fields that conversion relies on (HfConfig::WithDefaults); "" for
// families that are not converted.
std::string_view ConfigDefaults(const Family& family, const ModelConfig& config);

}  // namespace moepack

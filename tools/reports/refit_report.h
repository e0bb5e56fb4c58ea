// What `refit` prints.
#pragma once

#include <string>

#include "libshard/base/text/json.h"
#include "libshard/refit/refit_record.h"
#include "runtime-shim/refit/layer_refit.h"

namespace moepack::cli {

// A line about a group of a layer; `again` if it was refitted before.
std::string RefitLine(const runtime::LayerOutcome& outcome, bool again);
// All layers and groups of a refit.
std::string RefitText(const RefitRecord& record);

}  // namespace moepack::cli

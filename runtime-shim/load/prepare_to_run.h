// Converts a checkpoint that is run and not written.
#pragma once

#include "libshard/base/result.h"
#include "libshard/model/model.h"
#include "libshard/recipe/quantize.h"

namespace moepack::runtime {

// PrepareGguf with types that keep the checkpoint's numbers (profile "exact"), and with its
// tokenizer if that is usable. Errors have no hints about options of commands that write a model.
Result<TypedGguf> PrepareToRun(const MoeModel& model);

}  // namespace moepack::runtime

// What the two halves of `quantize` share: making one GGUF from a model, and a new distribution
// from a distribution.
#pragma once

#include <cstdint>
#include <string>

#include "libshard/pack/pack.h"
#include "tools/options/calibrate_arguments.h"
#include "tools/options/options.h"
#include "tools/options/quantize_options.h"
#include "tools/options/task_option.h"

namespace moepack::cli {

struct QuantizeRun {
  SourceArguments source;
  QuantizeArguments quantize;
  std::string out;
  uint64_t max_part_size = 0;
  PackOptions pack;
  CalibrateArguments calibrate;
  TaskArguments task;
  bool force = false, dry_run = false, tensors = false, json = false;
};

// source.source is the directory of a distribution.
Result<int> QuantizeDistribution(const QuantizeRun& run);

}  // namespace moepack::cli

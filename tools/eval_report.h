// What `eval` prints.
#pragma once

#include <string>
#include <vector>

#include "libshard/json.h"
#include "runtime-shim/eval/summary.h"

namespace cli {

struct EvalReport {
  runtime::EvalSummary summary;
  std::string source, against;  // "" without --against
  std::string executor, precision;
  uint32_t context = 0;
  bool score_half = false;
  std::vector<std::string> failed;  // gates
};

std::string EvalText(const EvalReport& report);
shard::Json EvalJson(const EvalReport& report);

}  // namespace cli

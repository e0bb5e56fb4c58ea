// Reads what `eval --json` printed.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"
#include "tools/reports/runs/eval_report.h"

namespace moepack::cli {

// The document may be hostile. kCorrupt names the field, kUnsupported another version. Everything
// but the paths of the models comes back, and EvalJson of the result is the document again. Without
// a field that only later versions write ("versions", "quality"), it is absent.
Result<EvalReport> EvalFromJson(const std::string& where, const Json& document);

}  // namespace moepack::cli

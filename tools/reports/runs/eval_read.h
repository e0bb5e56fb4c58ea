// Reads what `eval --json` printed.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"
#include "tools/reports/runs/eval_report.h"

namespace moepack::cli {

// The document may be hostile. kCorrupt names the field, kUnsupported another version. Everything
// that EvalJson writes is read back, so that EvalJson of the result gives the document again.
// Fields that documents did not have at first ("versions", "quality", "placement") may be absent.
Result<EvalReport> EvalFromJson(const std::string& where, const Json& document);

}  // namespace moepack::cli

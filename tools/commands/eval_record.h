// `eval --record`: leaves what was measured in the distribution.
#pragma once

#include <optional>
#include <string>

#include "libshard/base/result.h"
#include "manifest/document/quality.h"
#include "tools/options/runtime_options.h"

namespace moepack::cli {

// What `--record` needs to know before the evaluation begins; no value without the flag.
// kInvalidArgument if the source is not a distribution, or is evaluated with an overlay other than
// its own.
Result<std::optional<std::string>> BeginRecording(bool record, const RuntimeArguments& arguments);
// Writes the record and says on stderr what changed. `begun` is what BeginRecording returned.
Status FinishRecording(const std::string& distribution, const std::string& begun,
                       const manifest::QualityRecord& quality);

}  // namespace moepack::cli

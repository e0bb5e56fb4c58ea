// The check that text which is to measure a result is not text that the result was made from.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "tools/options/runtime_options.h"
#include "tools/options/session_texts.h"

namespace moepack::cli {

struct HeldOutTexts {
  const std::vector<std::string>& files;  // in the form of --text
  bool force = false;                     // only warn
  std::string hint;
};
// kInvalidArgument if a held-out session is also in `calibration`, unless `force` says to warn.
Status CheckHeldOut(const HeldOutTexts& held_out, const LoadedModel& loaded,
                    const std::vector<TokenSession>& calibration);

}  // namespace moepack::cli

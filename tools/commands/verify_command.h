// Runs a verification as verify and build do.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "manifest/verify/verify.h"
#include "tools/base/progress.h"

namespace moepack::cli {

void AddCold(CLI::App& app, bool& cold);

Result<manifest::VerifyReport> VerifyWithProgress(const std::string& directory,
                                                  manifest::VerifyOptions options);
// kMismatch if the report has a finding of kError.
Status CheckPassed(const std::string& directory, const manifest::VerifyReport& report);

}  // namespace moepack::cli

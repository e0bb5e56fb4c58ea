// Runs a verification as verify and build do.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "manifest/verify/verify.h"
#include "tools/reports/progress.h"

namespace cli {

void AddCold(CLI::App& app, bool& cold);

shard::Result<manifest::VerifyReport> VerifyWithProgress(const std::string& directory,
                                                         manifest::VerifyOptions options);
// kMismatch when the report has a finding of kError.
shard::Status CheckPassed(const std::string& directory, const manifest::VerifyReport& report);

}  // namespace cli

// A generated checkpoint and its distribution in a directory of the test: two groups, and the
// expert L mod 3 of layer L on every node.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "manifest/verify/verify.h"
#include "manifest/write/bundle.h"

namespace split {

namespace fs = std::filesystem;

inline std::string OverlayText(const moepack::MoeModel& model) {
  std::string layers;
  for (const moepack::MoeLayer& layer : model.layers()) {
    layers +=
        moepack::Cat(layers.empty() ? "\"" : ", \"", layer.layer, "\": \"", layer.layer % 3, "\"");
  }
  return moepack::Cat(R"({"version": "generalists-1", "layers": {)", layers, "}}");
}

// The plan of `source`; its overlay file is written to `overlay`.
inline moepack::Result<moepack::Plan> PlanOf(const moepack::MoeModel& model,
                                             const fs::path& overlay) {
  fixtures::WriteFile(overlay, OverlayText(model));
  moepack::PlanOptions options;
  options.groups = 2;
  options.overlay_file = overlay.string();
  return moepack::MakePlan(model, options);
}

// Writes the distribution of `source` to `out`.
inline void Split(const fs::path& source, const fs::path& out) {
  const auto model = moepack::MoeModel::Open(source);
  ASSERT_TRUE(model) << model.error().message;
  const auto plan = PlanOf(*model, out.string() + ".overlay.json");
  ASSERT_TRUE(plan) << plan.error().message;
  const auto report = moepack::manifest::WriteDistribution(*model, *plan, out.string(), {});
  ASSERT_TRUE(report) << report.error().message;
}

inline moepack::manifest::VerifyReport Verify(const fs::path& distribution,
                                              const std::string& against) {
  moepack::manifest::VerifyOptions options;
  options.against = against;
  const auto report = moepack::manifest::VerifyDistribution(distribution.string(), options);
  EXPECT_TRUE(report) << report.error().message;
  return report ? *report : moepack::manifest::VerifyReport();
}

inline std::string Errors(const moepack::manifest::VerifyReport& report) {
  std::string text;
  for (const moepack::manifest::Finding& finding : report.findings) {
    if (finding.severity != moepack::manifest::Severity::kError) continue;
    text += moepack::Cat(finding.rule, " | ", finding.file, " | ", finding.tensor, " | ",
                         finding.message, "\n");
  }
  return text;
}

}  // namespace split

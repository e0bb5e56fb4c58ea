// A generated checkpoint and its distribution in a directory of the test: two groups, and in layer
// L the expert L mod 3 on every node.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text.h"
#include "manifest/verify/verify.h"
#include "manifest/write/bundle.h"

namespace split {

namespace fs = std::filesystem;

inline std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string OverlayText(const shard::MoeModel& model) {
  std::string layers;
  for (const shard::MoeLayer& layer : model.layers()) {
    layers +=
        shard::Cat(layers.empty() ? "\"" : ", \"", layer.layer, "\": \"", layer.layer % 3, "\"");
  }
  return shard::Cat(R"({"version": "generalists-1", "layers": {)", layers, "}}");
}

// The plan of `source`; its overlay file is written to `overlay`.
inline shard::Result<shard::Plan> PlanOf(const shard::MoeModel& model, const fs::path& overlay) {
  fixtures::WriteFile(overlay, OverlayText(model));
  shard::PlanOptions options;
  options.groups = 2;
  options.overlay_file = overlay.string();
  return shard::MakePlan(model, options);
}

// Writes the distribution of `source` to `out`.
inline void Split(const fs::path& source, const fs::path& out) {
  const auto model = shard::MoeModel::Open(source);
  ASSERT_TRUE(model) << model.error().message;
  const auto plan = PlanOf(*model, out.string() + ".overlay.json");
  ASSERT_TRUE(plan) << plan.error().message;
  const auto report = manifest::WriteDistribution(*model, *plan, out.string(), {});
  ASSERT_TRUE(report) << report.error().message;
}

inline manifest::VerifyReport Verify(const fs::path& distribution, const std::string& against) {
  manifest::VerifyOptions options;
  options.against = against;
  const auto report = manifest::VerifyDistribution(distribution.string(), options);
  EXPECT_TRUE(report) << report.error().message;
  return report ? *report : manifest::VerifyReport();
}

inline std::string Errors(const manifest::VerifyReport& report) {
  std::string text;
  for (const manifest::Finding& finding : report.findings) {
    if (finding.severity != manifest::Severity::kError) continue;
    text += shard::Cat(finding.rule, " | ", finding.file, " | ", finding.tensor, " | ",
                       finding.message, "\n");
  }
  return text;
}

}  // namespace split

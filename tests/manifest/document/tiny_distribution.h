// Shared by the tests of writing and assembling: fixtures/tiny-moe split in three, with an overlay
// in every layer, and directories as maps of their files.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "fixtures/temp_dir.h"
#include "manifest/write/bundle.h"
#include "tests/manifest/document/sample.h"

namespace tiny {

namespace fs = std::filesystem;

inline const fs::path kSource = fs::path(MOEPACK_SOURCE_DIR) / "fixtures/tiny-moe";
inline const std::string kOverlayFile =
    (fs::path(MOEPACK_SOURCE_DIR) / "fixtures/tiny-overlay.json").string();

inline moepack::MoeModel Model(const fs::path& source = kSource) {
  auto model = moepack::MoeModel::Open(source);
  if (!model) throw std::runtime_error(model.error().message);
  return *std::move(model);
}

inline moepack::PlanOptions PlanOptions() {
  moepack::PlanOptions options;
  options.groups = 3;
  options.overlay_file = kOverlayFile;
  return options;
}

inline moepack::Plan Plan(const moepack::MoeModel& model,
                          const moepack::PlanOptions& options = PlanOptions()) {
  auto plan = moepack::MakePlan(model, options);
  if (!plan) throw std::runtime_error(plan.error().message);
  return *std::move(plan);
}

// Only these parts; all of them if there are none.
inline moepack::manifest::WriteOptions Only(const std::vector<std::string>& parts = {}) {
  moepack::manifest::WriteOptions options;
  options.slice.parts = *moepack::ParseParts(parts, 3);
  options.model_id = "example/tiny";
  options.command = {"shard-experts", "--groups", "3"};
  return options;
}

inline moepack::Result<moepack::manifest::WriteReport> Write(
    const fs::path& out, const moepack::manifest::WriteOptions& options = Only(),
    const fs::path& source = kSource) {
  const moepack::MoeModel model = Model(source);
  return moepack::manifest::WriteDistribution(model, Plan(model), out.string(), options);
}

// Every file below `directory` with its bytes.
inline std::map<std::string, std::string> Tree(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    files[fs::relative(entry.path(), directory).string()] = fixtures::ReadFile(entry.path());
  }
  return files;
}

inline std::vector<std::string> Names(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : Tree(directory)) names.push_back(name);
  return names;
}

}  // namespace tiny

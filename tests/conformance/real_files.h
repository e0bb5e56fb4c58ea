// Reading the files of shared/real: JSON, name lists, gzipped or not.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "libshard/model/config.h"

namespace moepack {

namespace fs = std::filesystem;

inline std::string ReadAll(const fs::path& path) {
  if (path.extension() != ".gz") return fixtures::ReadFile(path);
  std::string text;
  FILE* pipe = popen(Cat("gzip -dc '", path.string(), "'").c_str(), "r");
  if (pipe == nullptr) return text;
  char buffer[65536];
  while (const size_t size = fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, size);
  EXPECT_EQ(pclose(pipe), 0) << path;
  return text;
}

inline Result<ModelConfig> ReadModelConfig(const fs::path& path) {
  return ParseModelConfig(path.string(), ReadAll(path));
}

inline Json Parse(const fs::path& path) {
  Result<Json> json = ParseJson(path.string(), ReadAll(path));
  EXPECT_TRUE(json) << json.error().message;
  return json ? *json : Json();
}

inline std::vector<std::string> IndexNames(const fs::path& file) {
  std::vector<std::string> names;
  const Json index = Parse(file);
  for (const auto& [name, shard] : index.at("weight_map").items()) names.push_back(name);
  return names;
}

inline std::vector<std::string> LineNames(const fs::path& file) {
  std::vector<std::string> names;
  for (std::string& line : Split(ReadAll(file), '\n')) {
    if (!line.empty()) names.push_back(std::move(line));
  }
  return names;
}

// The folder whose config describes the listing of `folder`: its own, except for listings that have
// none.
inline std::string ConfigFolderOf(const std::string& folder) {
  if (folder == "glm/GLM-4.x-355B-mergekit-derivative") return "glm/GLM-4.7-FP8";
  if (folder == "qwen3-moe/Qwen3-30B-A3B-transgqa-derivative") return "qwen3-moe/Qwen3-30B-A3B";
  return folder;
}

}  // namespace moepack

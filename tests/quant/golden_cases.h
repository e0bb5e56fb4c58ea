// The inputs and expected bytes of fixtures/golden/quant.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures/temp_dir.h"
#include "quant/format.h"

namespace quant {

inline constexpr const char* kNoGoldenCases = "no fixtures/golden/quant and no shared/golden/quant";

namespace fs = std::filesystem;

// Empty if there is none.
inline fs::path GoldenDirectory() {
  const fs::path source = MOEPACK_SOURCE_DIR;
  const char* shared = std::getenv("MOEPACK_SHARED");
  const fs::path beside = shared != nullptr ? fs::path(shared) : source / "../shared";
  for (const fs::path& golden : {source / "fixtures/golden", beside / "golden"}) {
    if (fs::exists(golden / "quant/cases.json")) return golden / "quant";
  }
  return {};
}

inline std::vector<std::byte> ReadBytes(const fs::path& path) {
  EXPECT_TRUE(fs::exists(path)) << path;
  const std::string text = fixtures::ReadFile(path);
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

inline std::vector<float> ReadFloats(const fs::path& path) {
  const std::vector<std::byte> bytes = ReadBytes(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct GoldenCase {
  const Format* format;
  std::string name;
  std::vector<float> input, importance;  // importance: of one row, or empty
  std::vector<std::byte> expected;
  size_t row_values;
  double error;  // of decoding `expected`, relative to the input
};

// Empty if the files are absent.
inline std::vector<GoldenCase> GoldenCases() {
  const fs::path directory = GoldenDirectory();
  if (directory.empty()) return {};
  std::vector<GoldenCase> cases;
  const auto document = nlohmann::json::parse(std::ifstream(directory / "cases.json"));
  for (const auto& json : document.at("cases")) {
    const bool weighted = json.at("imatrix");
    cases.push_back(
        {.format = FindFormat(json.at("type").get<std::string>()),
         .name = json.at("expected"),
         .input = ReadFloats(directory / json.at("input").get<std::string>()),
         .importance = weighted ? ReadFloats(directory / "imatrix.f32") : std::vector<float>{},
         .expected = ReadBytes(directory / json.at("expected").get<std::string>()),
         .row_values = document.at("cols"),
         .error = json.at("rel_rmse")});
  }
  return cases;
}

}  // namespace quant

// Reads fixtures/statistics and texts the way importers do.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/memory_tree.h"
#include "libshard/import/import.h"

namespace moepack {

inline std::string StatisticsFixture(const std::string& name) {
  return std::string(MOEPACK_SOURCE_DIR "/fixtures/statistics/") + name;
}

inline std::string FixtureBytes(const std::string& name) {
  return fixtures::ReadFile(StatisticsFixture(name));
}

// The layers of fixtures/tiny-moe.
inline std::vector<MoeLayerShape> TinyLayers() { return {{0, 16, 2}, {1, 16, 2}, {2, 16, 2}}; }

inline ImportOptions ForTiny() {
  ImportOptions options;
  options.model = TinyLayers();
  return options;
}

inline ExpertScores Imported(const std::string& name, const ImportOptions& options = {}) {
  const auto read = ReadExpertScores(std::vector<std::string>{StatisticsFixture(name)}, options);
  EXPECT_TRUE(read) << (read ? "" : read.error().message);
  return read ? *read : ExpertScores{};
}

// Reads `bytes` as a file named "in".
inline Result<ExpertScores> ImportBytes(const std::string& bytes,
                                        const ImportOptions& options = {}) {
  return ReadExpertScores(MemorySource("in", bytes), options);
}

inline ExpertScores ImportedBytes(const std::string& bytes, const ImportOptions& options = {}) {
  const auto read = ImportBytes(bytes, options);
  EXPECT_TRUE(read) << (read ? "" : read.error().message);
  return read ? *read : ExpertScores{};
}

inline Error ImportError(const std::string& bytes, const ImportOptions& options = {}) {
  const auto read = ImportBytes(bytes, options);
  if (read) return {Code::kInterrupted, "was read"};
  return read.error();
}

// The counts of the profile of these fixtures, summed over its sessions.
inline std::vector<double> ProfiledCounts() {
  ImportOptions options;
  options.basis = ScoreBasis::kCount;
  return SumOfScores(Imported("profile.json", options));
}

}  // namespace moepack

// A target as tests; the last part of target.h, which alone includes it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "fixtures/temp_dir.h"

namespace fuzz {

inline void ReadSeeds(const Target& target) {
  for (const std::string& seed : target.seeds()) {
    EXPECT_EQ(target.check(seed), "") << Show(seed);
    EXPECT_TRUE(target.accepts == nullptr || target.accepts(seed)) << Show(seed);
  }
  if (target.refused == nullptr) return;
  for (const std::string& input : target.refused()) {
    EXPECT_EQ(target.check(input), "") << Show(input);
    EXPECT_FALSE(target.accepts(input)) << Show(input);
  }
}

inline void ReplayCommitted(const Target& target) {
  const std::filesystem::path fixtures = std::filesystem::path(MOEPACK_SOURCE_DIR) / "fixtures";
  std::vector<std::filesystem::path> files = FilesBelow(fixtures / "bad");
  EXPECT_GE(files.size(), 70u);
  for (auto& path : FilesBelow(fixtures / "fuzz")) files.push_back(std::move(path));
  for (const auto& path : files) EXPECT_EQ(target.check(fixtures::ReadFile(path)), "") << path;
}

// The factor by which more inputs than in a short run are tried: MOEPACK_FUZZ_TIMES, for campaigns.
inline size_t Times() {
  const char* text = std::getenv("MOEPACK_FUZZ_TIMES");
  return text == nullptr ? 1 : static_cast<size_t>(std::max(1, std::atoi(text)));
}

inline void DamageSeeds(const Target& target) {
  const std::vector<std::string> seeds = target.seeds();
  Mutator mutator(seeds, 20240229);
  for (size_t i = 0; i < target.iterations * Times(); ++i) {
    const std::string input = mutator.Next();
    ASSERT_EQ(target.check(input), "") << "iteration " << i << ": " << Show(input);
  }
}

// Every second one is an input that was changed before.
inline void ChangeStructure(const Target& target) {
  std::vector<std::string> inputs = target.seeds();
  for (size_t i = 0; i < target.iterations * Times(); ++i) {
    std::string& input = inputs[i % inputs.size()];
    const std::string changed = target.restructure(input, i);
    ASSERT_EQ(target.check(changed), "") << "change " << i << ": " << Show(changed);
    if (i % 64 == 0) inputs = target.seeds();
    if (i % 2 == 0) inputs[i % inputs.size()] = changed;
  }
}

inline void ChangeDocuments(const Target& target) {
  JsonMutator mutator(target.seeds(), 20240229);
  ASSERT_TRUE(mutator.has_seeds());
  size_t changes = 0;
  mutator.EachSingleChange([&](const std::string& input) {
    ++changes;
    EXPECT_EQ(target.check(input), "") << Show(input);
  });
  EXPECT_GT(changes, 100u);
  for (size_t i = 0; i < target.documents * Times(); ++i) {
    const std::string input = mutator.Next();
    ASSERT_EQ(target.check(input), "") << "document " << i << ": " << Show(input);
  }
}

}  // namespace fuzz

#define FUZZ_TARGET(name, target)                                                    \
  TEST(name, KeepsItsPromisesOnGoodInputs) { fuzz::ReadSeeds(target); }              \
  TEST(name, KeepsItsPromisesOnTheBrokenFixtures) { fuzz::ReplayCommitted(target); } \
  TEST(name, KeepsItsPromisesOnDamagedInputs) { fuzz::DamageSeeds(target); }
// For a parser whose target has `restructure`.
#define FUZZ_STRUCTURE_TARGET(name, target) \
  FUZZ_TARGET(name, target)                 \
  TEST(name, KeepsItsPromisesOnChangedStructures) { fuzz::ChangeStructure(target); }
// For a parser whose inputs are JSON documents.
#define FUZZ_JSON_TARGET(name, target) \
  FUZZ_TARGET(name, target)            \
  TEST(name, KeepsItsPromisesOnChangedDocuments) { fuzz::ChangeDocuments(target); }

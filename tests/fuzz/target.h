// One fuzz target, used in two ways. As a test it is given every file of fixtures/bad and
// fixtures/fuzz and some thousands of damaged copies of good inputs. With MOEPACK_FUZZ (see
// CMakeLists.txt here) the same file becomes a libFuzzer program that starts from the same seeds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/result.h"
#include "libshard/text.h"
#include "tests/fuzz/json_mutation.h"
#include "tests/fuzz/mutation.h"

namespace fuzz {

struct Target {
  // Gives the parser any bytes. "" when it did what its header promises, else what it broke.
  std::string (*check)(std::string_view input);
  // Good inputs. None is refused, so that damage starts from what the parser reads to its end.
  std::vector<std::string> (*seeds)();
  size_t iterations = 3000;
  // Of JsonMutator, beside every single change of a seed; for FUZZ_JSON_TARGET.
  size_t documents = 2000;
};

inline constexpr size_t kMaxMessage = 4000;

// What is wrong with an error: it must say something, name the input, and keep terminals safe.
inline std::string ErrorProblem(const shard::Error& error, std::string_view where) {
  if (error.message.find(where) == std::string::npos) {
    return shard::Cat("the message does not name ", where, ": ", error.message);
  }
  if (error.message.size() > kMaxMessage) return "the message is as long as the input";
  const bool strange = std::any_of(error.message.begin(), error.message.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  return strange ? shard::Cat("the message has control characters: ", error.message) : "";
}

inline std::string ReadBytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A new file each time: ext4 flushes a file that is truncated and written again, at a disk's speed.
inline bool WriteInput(const std::filesystem::path& path, std::string_view bytes) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return out.flush().good();
}

// Every file below `directory`; none when it is not there.
inline std::vector<std::filesystem::path> FilesBelow(const std::filesystem::path& directory) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(directory, error)) {
    if (entry.is_regular_file(error)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The input as a C string literal's inside, for messages.
inline std::string Show(std::string_view input) {
  return shard::Cat(input.size(), " bytes: ", shard::Quoted(input));
}

}  // namespace fuzz

#ifdef MOEPACK_FUZZ

#include <cstring>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Half of the inputs are damaged as in the tests, half as libFuzzer likes; now and then one starts
// again from a seed, so that no corpus directory is needed. Of JSON documents a quarter stay ones.
#define FUZZ_TARGET(name, target) FUZZ_EITHER_TARGET(name, target, false)
#define FUZZ_JSON_TARGET(name, target) FUZZ_EITHER_TARGET(name, target, true)
#define FUZZ_EITHER_TARGET(name, target, json)                                           \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {              \
    const std::string_view input(reinterpret_cast<const char*>(data), size);             \
    const std::string problem = (target).check(input);                                   \
    if (problem.empty()) return 0;                                                       \
    fprintf(stderr, "%s\n%s\n", problem.c_str(), fuzz::Show(input).c_str());             \
    __builtin_trap();                                                                    \
  }                                                                                      \
  extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, \
                                            unsigned seed) {                             \
    static const std::vector<std::string> seeds = (target).seeds();                      \
    fuzz::Random random(seed);                                                           \
    if (size > 1 && random.Below(2) == 0) return LLVMFuzzerMutate(data, size, max_size); \
    std::vector<std::string> from = {std::string(reinterpret_cast<char*>(data), size)};  \
    if (size <= 1 || random.Below(16) == 0) from = seeds;                                \
    fuzz::JsonMutator documents(from, random.Next());                                    \
    const bool keep = (json) && documents.has_seeds() && random.Below(2) == 0;           \
    const std::string text =                                                             \
        keep ? documents.Next() : fuzz::Mutator(from, random.Next()).Next();             \
    const size_t kept = std::min(text.size(), max_size);                                 \
    std::memcpy(data, text.data(), kept);                                                \
    return kept;                                                                         \
  }

#else

#include <gtest/gtest.h>

namespace fuzz {

inline void ReadSeeds(const Target& target) {
  for (const std::string& seed : target.seeds()) EXPECT_EQ(target.check(seed), "") << Show(seed);
}

inline void ReplayCommitted(const Target& target) {
  const std::filesystem::path fixtures = std::filesystem::path(MOEPACK_SOURCE_DIR) / "fixtures";
  std::vector<std::filesystem::path> files = FilesBelow(fixtures / "bad");
  EXPECT_GE(files.size(), 70u);
  for (auto& path : FilesBelow(fixtures / "fuzz")) files.push_back(std::move(path));
  for (const auto& path : files) EXPECT_EQ(target.check(ReadBytes(path)), "") << path;
}

inline void DamageSeeds(const Target& target) {
  const std::vector<std::string> seeds = target.seeds();
  Mutator mutator(seeds, 20240229);
  for (size_t i = 0; i < target.iterations; ++i) {
    const std::string input = mutator.Next();
    ASSERT_EQ(target.check(input), "") << "iteration " << i << ": " << Show(input);
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
  for (size_t i = 0; i < target.documents; ++i) {
    const std::string input = mutator.Next();
    ASSERT_EQ(target.check(input), "") << "document " << i << ": " << Show(input);
  }
}

}  // namespace fuzz

#define FUZZ_TARGET(name, target)                                                    \
  TEST(name, KeepsItsPromisesOnGoodInputs) { fuzz::ReadSeeds(target); }              \
  TEST(name, KeepsItsPromisesOnTheBrokenFixtures) { fuzz::ReplayCommitted(target); } \
  TEST(name, KeepsItsPromisesOnDamagedInputs) { fuzz::DamageSeeds(target); }
// Of a parser whose inputs are JSON documents.
#define FUZZ_JSON_TARGET(name, target) \
  FUZZ_TARGET(name, target)            \
  TEST(name, KeepsItsPromisesOnChangedDocuments) { fuzz::ChangeDocuments(target); }

#endif

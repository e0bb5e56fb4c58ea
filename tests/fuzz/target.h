// One fuzz target, used in two ways. As a test it is given every file of fixtures/bad and
// fixtures/fuzz and some thousands of damaged copies of good inputs. With MOEPACK_FUZZ (see
// CMakeLists.txt here) the same file becomes a libFuzzer program that starts from the same seeds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/text.h"
#include "tests/fuzz/json_mutation.h"
#include "tests/fuzz/mutation.h"

namespace fuzz {

struct Target {
  // Gives the parser arbitrary bytes. Returns "" if it kept the promises of its header, otherwise
  // what it broke.
  std::string (*check)(std::string_view input);
  // Good inputs. None is refused, so that damage starts from inputs that the parser reads to the
  // end.
  std::vector<std::string> (*seeds)();
  size_t iterations = 3000;
  // For JsonMutator, in addition to every single change of a seed; for FUZZ_JSON_TARGET.
  size_t documents = 1000;
  // Changes a good input with knowledge of its format; null where bytes and JSON are enough.
  std::string (*restructure)(const std::string& input, uint64_t seed) = nullptr;
  // Whether the parser takes an input: every seed, and none of `refused`. Null where the check
  // itself shows that.
  bool (*accepts)(std::string_view input) = nullptr;
  std::vector<std::string> (*refused)() = nullptr;
};

inline constexpr size_t kMaxMessage = 4000;

// What is wrong with an error: it must say something, name the input, and keep terminals safe.
inline std::string ErrorProblem(const moepack::Error& error, std::string_view where) {
  if (error.message.find(where) == std::string::npos) {
    return moepack::Cat("the message does not name ", where, ": ", error.message);
  }
  if (error.message.size() > kMaxMessage) return "the message is as long as the input";
  const bool strange = std::any_of(error.message.begin(), error.message.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  return strange ? moepack::Cat("the message has control characters: ", error.message) : "";
}

// A new file each time: ext4 flushes a file that is truncated and written again, at disk speed.
inline bool WriteInput(const std::filesystem::path& path, std::string_view bytes) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return out.flush().good();
}

// Every file below `directory`; none if it does not exist.
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

// The input as the contents of a C string literal, for messages.
inline std::string Show(std::string_view input) {
  return moepack::Cat(input.size(), " bytes: ", moepack::Quoted(input));
}

}  // namespace fuzz

#ifdef MOEPACK_FUZZ
#include "tests/fuzz/as_fuzzer.h"
#else
#include "tests/fuzz/as_test.h"
#endif

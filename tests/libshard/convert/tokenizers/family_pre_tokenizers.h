// The names of pre-tokenizers that the families' converters ask for, read from their sources: a
// family is a value inside its converter, so no list of them exists.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "fixtures/temp_dir.h"

namespace moepack {

inline std::vector<std::string> FamilyPreTokenizers() {
  constexpr std::string_view kSet = "family.pre = ";
  std::vector<std::string> names;
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(MOEPACK_SOURCE_DIR "/libshard/families")) {
    if (file.path().extension() != ".cc") continue;
    const std::string text = fixtures::ReadFile(file.path());
    for (size_t at = text.find(kSet); at != std::string::npos; at = text.find(kSet, at + 1)) {
      // Every literal of the statement, which may choose between several.
      const size_t end = text.find(';', at);
      for (size_t quote = text.find('"', at); quote < end; quote = text.find('"', quote + 1)) {
        const size_t close = text.find('"', quote + 1);
        names.push_back(text.substr(quote + 1, close - quote - 1));
        quote = close;
      }
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace moepack

// The pre-tokenizer ids that docs/runtime-shim.md promises, one list for all tests.
#pragma once

#include <fstream>
#include <string>
#include <vector>

namespace moepack::runtime {

inline std::vector<std::string> DocumentedIds() {
  std::ifstream in(MOEPACK_SOURCE_DIR "/docs/runtime-shim.md");
  std::vector<std::string> ids;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("| `tokenizer.ggml.pre`")) {
      inside = true;
      continue;
    }
    inside = inside && line.starts_with("|");
    if (!inside || !line.starts_with("| `")) continue;
    // Those of the first column.
    const std::string cell = line.substr(2, line.find('|', 2) - 2);
    for (size_t at = cell.find('`'); at != std::string::npos; at = cell.find('`', at)) {
      const size_t end = cell.find('`', at + 1);
      ids.push_back(cell.substr(at + 1, end - at - 1));
      at = end + 1;
    }
  }
  return ids;
}

}  // namespace moepack::runtime

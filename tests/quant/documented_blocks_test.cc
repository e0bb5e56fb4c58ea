// docs/quant-formats.md shows the bytes of one block of every type; this test reads them.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "quant/format.h"

namespace quant {
namespace {

// "## q4_K" ... "```hex" lines "```": the two-digit numbers of the block, by type.
std::map<std::string, std::vector<int>> DocumentedBlocks() {
  std::ifstream document(MOEPACK_SOURCE_DIR "/docs/quant-formats.md");
  EXPECT_TRUE(document.good());
  std::map<std::string, std::vector<int>> blocks;
  std::string line, type;
  bool inside = false;
  while (std::getline(document, line)) {
    if (line.rfind("## ", 0) == 0) type = line.substr(3);
    if (line.rfind("```", 0) == 0) {
      inside = line == "```hex";
      continue;
    }
    std::istringstream numbers(inside ? line : "");
    for (std::string number; numbers >> number;) {
      blocks[type].push_back(std::stoi(number, nullptr, 16));
    }
  }
  return blocks;
}

// The example of the document: value i is (i - 12) / 8 in blocks of 32, (i - 100) / 64 in longer
// ones.
std::vector<float> ExampleValues(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const float x = static_cast<float>(i);
    values[i] = count == 32 ? (x - 12) / 8 : (x - 100) / 64;
  }
  return values;
}

TEST(DocumentedBlocks, MatchTheEncoders) {
  const auto documented = DocumentedBlocks();
  for (const Format& format : AllFormats()) {
    if (format.encode == nullptr || format.block_values == 1) continue;
    const auto found = documented.find(std::string(format.name));
    ASSERT_NE(found, documented.end()) << format.name << " has no example";
    std::vector<std::byte> block(format.block_bytes);
    format.encode(ExampleValues(format.block_values), {}, block);
    std::vector<int> ours;
    for (const std::byte byte : block) ours.push_back(static_cast<int>(byte));
    EXPECT_EQ(found->second, ours) << format.name;
  }
}

}  // namespace
}  // namespace quant

// docs/examples/blocks.txt shows the bytes of one block of every type and what they decode to; this
// test reads them.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "quant/format.h"

namespace quant {
namespace {

struct DocumentedBlock {
  std::vector<std::byte> bytes;
  std::string values;  // "FIRST ... LAST"
};

// A type's name, lines of two-digit numbers, and "decodes to FIRST ... LAST"; by type.
std::map<std::string, DocumentedBlock> DocumentedBlocks() {
  std::ifstream document(MOEPACK_SOURCE_DIR "/docs/examples/blocks.txt");
  EXPECT_TRUE(document.good());
  const std::string values = "decodes to ";
  std::map<std::string, DocumentedBlock> blocks;
  std::string type;
  for (std::string line; std::getline(document, line);) {
    if (line.empty()) type.clear();
    if (line.empty() || line.starts_with("#")) continue;
    if (type.empty()) {
      type = line;
    } else if (line.starts_with(values)) {
      blocks[type].values = line.substr(values.size());
    } else {
      std::istringstream numbers(line);
      for (std::string number; numbers >> number;) {
        blocks[type].bytes.push_back(static_cast<std::byte>(std::stoi(number, nullptr, 16)));
      }
    }
  }
  return blocks;
}

// The example: value i is (i - 12) / 8 in blocks of 32, (i - 100) / 64 in longer
// ones.
std::vector<float> ExampleValues(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const float x = static_cast<float>(i);
    values[i] = count == 32 ? (x - 12) / 8 : (x - 100) / 64;
  }
  return values;
}

// "FIRST ... LAST" with six digits.
std::string Ends(const std::vector<float>& values) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%.6g ... %.6g", values.front(), values.back());
  return text.data();
}

TEST(DocumentedBlocks, MatchTheEncodersAndDecoders) {
  const auto documented = DocumentedBlocks();
  for (const Format& format : AllFormats()) {
    if (format.encode == nullptr || format.block_values == 1) continue;
    const auto found = documented.find(std::string(format.name));
    ASSERT_NE(found, documented.end()) << format.name << " has no example";
    std::vector<std::byte> block(format.block_bytes);
    format.encode(ExampleValues(format.block_values), {}, block);
    EXPECT_EQ(found->second.bytes, block) << format.name;
    std::vector<float> decoded(format.block_values);
    format.decode(block, decoded);
    EXPECT_EQ(found->second.values, Ends(decoded)) << format.name;
  }
}

}  // namespace
}  // namespace quant

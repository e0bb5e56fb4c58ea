// Blocks made byte by byte, from their byte tables and not from the structs.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "quant/format.h"

namespace quant {

// `bytes`: offset in the block -> value; all others are 0.
inline std::vector<float> DecodeBlockOf(const char* name, const std::map<size_t, int>& bytes) {
  const Format* format = FindFormat(name);
  std::vector<std::byte> block(format->block_bytes);
  for (const auto& [offset, value] : bytes) block.at(offset) = static_cast<std::byte>(value);
  std::vector<float> values(format->block_values);
  format->decode(block, values);
  return values;
}

inline std::vector<int> EncodeBlockOf(const char* name, const std::vector<float>& values) {
  const Format* format = FindFormat(name);
  std::vector<std::byte> block(*format->BytesFor(values.size()));
  format->encode(values, {}, block);
  std::vector<int> bytes;
  for (const std::byte byte : block) bytes.push_back(static_cast<int>(byte));
  return bytes;
}

// All values are `rest`, except for those listed.
inline void ExpectValues(const std::vector<float>& found, float rest,
                         const std::map<size_t, float>& listed) {
  for (size_t i = 0; i < found.size(); ++i) {
    const auto at = listed.find(i);
    EXPECT_EQ(found[i], at == listed.end() ? rest : at->second) << "value " << i;
  }
}

}  // namespace quant

// Importance matrices as bytes, in both formats.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "fixtures/gguf_writer.h"

namespace fixtures {

// The entry of one weight.
struct ImatrixPart {
  std::string name;
  std::vector<float> sums, counts;
};

inline std::string ImatrixFloats(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) bytes += GgufFloat(value);
  return bytes;
}

inline GgufFile ImatrixFile(const std::vector<ImatrixPart>& parts) {
  GgufFile file;
  file.pairs = {GgufPairString("general.type", "imatrix"),
                {"imatrix.datasets", kGgufArray, GgufList(kGgufString, 1, GgufText("text.txt"))},
                GgufPairU32("imatrix.chunk_count", 8),
                GgufPairU32("imatrix.chunk_size", 256)};
  for (const ImatrixPart& part : parts) {
    const uint64_t rows = std::max<uint64_t>(part.counts.size(), 1);
    const uint64_t row = part.sums.size() / rows;
    if (!part.sums.empty()) {
      file.tensors.push_back(
          {part.name + ".in_sum2", {row, rows}, kGgufTypeF32, ImatrixFloats(part.sums)});
    }
    if (!part.counts.empty()) {
      file.tensors.push_back(
          {part.name + ".counts", {1, rows}, kGgufTypeF32, ImatrixFloats(part.counts)});
    }
  }
  return file;
}

// The count of calls is the first of `counts`.
inline std::string LegacyImatrix(const std::vector<ImatrixPart>& parts,
                                 const std::string& trailer = "") {
  std::string bytes = GgufNumber(parts.size(), 4);
  for (const ImatrixPart& part : parts) {
    bytes += GgufNumber(part.name.size(), 4) + part.name;
    bytes += GgufNumber(static_cast<uint64_t>(part.counts.at(0)), 4);
    bytes += GgufNumber(part.sums.size(), 4) + ImatrixFloats(part.sums);
  }
  return bytes + trailer;
}

}  // namespace fixtures

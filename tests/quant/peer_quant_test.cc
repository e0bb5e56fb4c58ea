// Our encoders beside ggml's own, loaded from the npm package that ships llama.cpp's libraries
// (tests/peer): the same rows must give the same bytes.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include "quant/format.h"
#include "tests/quant/test_rows.h"

namespace quant {
namespace {

using QuantizeChunk = size_t (*)(int type, const float* values, void* out, int64_t start,
                                 int64_t rows, int64_t row_values, const float* importance);
using DequantizeRow = void (*)(const void* blocks, float* out, int64_t values);

std::string PeerPath() {
  if (const char* path = std::getenv("MOEPACK_PEER_GGML")) return path;
  return MOEPACK_SOURCE_DIR
      "/tests/peer/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/libggml-base.so";
}

class PeerQuant : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = PeerPath();
    if (!std::filesystem::exists(path)) {
      GTEST_SKIP() << "NOT COMPARED WITH GGML: " << path
                   << " is not there; run `npm ci` in tests/peer or set MOEPACK_PEER_GGML.";
    }
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    quantize_ = reinterpret_cast<QuantizeChunk>(dlsym(library_, "ggml_quantize_chunk"));
    ASSERT_NE(quantize_, nullptr) << dlerror();
  }

  // Null where ggml has no function of its own for the type.
  DequantizeRow Dequantizer(const Format& format) const {
    const std::string name = "dequantize_row_" + std::string(format.name);
    return reinterpret_cast<DequantizeRow>(dlsym(library_, name.c_str()));
  }

  std::vector<std::byte> PeerBytes(const Format& format, const TestRow& row,
                                   std::span<const float> importance) const {
    std::vector<std::byte> out(*format.BytesFor(row.values.size()));
    const auto values = static_cast<int64_t>(row.values.size());
    quantize_(format.ggml_type, row.values.data(), out.data(), 0, 1, values,
              importance.empty() ? nullptr : importance.data());
    return out;
  }

  void* library_ = nullptr;  // stays loaded: it has threads of its own
  QuantizeChunk quantize_ = nullptr;
};

std::vector<std::byte> OurBytes(const Format& format, const TestRow& row,
                                std::span<const float> importance) {
  std::vector<std::byte> out(*format.BytesFor(row.values.size()));
  format.encode(row.values, importance, out);
  return out;
}

struct Tally {
  size_t blocks = 0, equal = 0;
  std::string first_difference;

  void Compare(const Format& format, const std::vector<std::byte>& ours,
               const std::vector<std::byte>& theirs, const std::string& what) {
    for (size_t at = 0; at < ours.size(); at += format.block_bytes) {
      ++blocks;
      if (std::memcmp(&ours[at], &theirs[at], format.block_bytes) == 0) {
        ++equal;
      } else if (first_difference.empty()) {
        first_difference = what + ", block " + std::to_string(at / format.block_bytes);
      }
    }
  }
};

void Report(const char* what, const std::map<std::string, Tally>& tallies) {
  for (const auto& [name, tally] : tallies) {
    std::printf("%-8s %s: %zu of %zu blocks equal to ggml's (%.4f %%)\n", name.c_str(), what,
                tally.equal, tally.blocks,
                100.0 * static_cast<double>(tally.equal) / static_cast<double>(tally.blocks));
    EXPECT_EQ(tally.equal, tally.blocks) << name << ": " << tally.first_difference;
  }
}

std::vector<TestRow> AllFiniteRows() {
  std::vector<TestRow> rows = RandomRows(7, 120);
  for (auto& more : {FlatRows(), PatternRows(), RowsOfAnyBits(8, 30)}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

TEST_F(PeerQuant, GivesTheSameBytesWithoutImportance) {
  const std::vector<TestRow> rows = AllFiniteRows();
  std::map<std::string, Tally> tallies;
  for (const Format& format : AllFormats()) {
    if (format.encode == nullptr || format.ggml_type < 0) continue;
    for (const TestRow& row : rows) {
      tallies[std::string(format.name)].Compare(format, OurBytes(format, row, {}),
                                                PeerBytes(format, row, {}), row.name);
    }
  }
  EXPECT_GE(tallies.size(), 16u);
  Report("plain", tallies);
}

TEST_F(PeerQuant, GivesTheSameBytesWithImportance) {
  const std::vector<TestRow> rows = AllFiniteRows();
  const std::vector<TestRow> importances = Importances(9);
  std::map<std::string, Tally> tallies;
  for (const Format& format : AllFormats()) {
    if (format.encode == nullptr || format.ggml_type < 0) continue;
    for (const TestRow& row : rows) {
      for (const TestRow& importance : importances) {
        tallies[std::string(format.name)].Compare(format, OurBytes(format, row, importance.values),
                                                  PeerBytes(format, row, importance.values),
                                                  row.name + ", importance " + importance.name);
      }
    }
  }
  Report("with importance", tallies);
}

// A type that ignores the importance must say so, or bundles would be built twice for nothing.
TEST_F(PeerQuant, KnowsWhichTypesUseTheImportance) {
  const TestRow row = RandomRows(3, 1)[0];
  const TestRow importance = Importances(4)[2];
  for (const Format& format : AllFormats()) {
    if (format.encode == nullptr || format.ggml_type < 0) continue;
    const bool used = PeerBytes(format, row, importance.values) != PeerBytes(format, row, {});
    EXPECT_EQ(used, format.uses_importance) << format.name;
  }
}

TEST_F(PeerQuant, DecodesAnyBytesToTheSameValues) {
  fuzz::Random random(11);
  size_t compared = 0;
  for (const Format& format : AllFormats()) {
    const DequantizeRow dequantize = Dequantizer(format);
    if (format.decode == nullptr || dequantize == nullptr) continue;
    for (int n = 0; n < 50; ++n) {
      std::vector<std::byte> blocks(*format.BytesFor(kRowValues));
      for (std::byte& byte : blocks) byte = static_cast<std::byte>(random.Next());
      std::vector<float> ours(kRowValues), theirs(kRowValues);
      format.decode(blocks, ours);
      dequantize(blocks.data(), theirs.data(), kRowValues);
      for (size_t i = 0; i < kRowValues; ++i) {
        if (std::isnan(ours[i]) && std::isnan(theirs[i])) continue;
        ASSERT_EQ(std::bit_cast<uint32_t>(ours[i]), std::bit_cast<uint32_t>(theirs[i]))
            << format.name << ", value " << i;
      }
    }
    ++compared;
  }
  EXPECT_GE(compared, 13u);
}

}  // namespace
}  // namespace quant

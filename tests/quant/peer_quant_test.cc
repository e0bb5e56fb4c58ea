// Our encoders beside ggml's own (peer_ggml.h): the same rows must give the same bytes.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <map>

#include "quant/format.h"
#include "tests/quant/peer_ggml.h"
#include "tests/quant/test_rows.h"

namespace quant {
namespace {

class PeerQuant : public testing::Test {
 protected:
  void SetUp() override {
    if (!peer_.missing().empty()) GTEST_SKIP() << "NOT COMPARED WITH GGML: " << peer_.missing();
    ASSERT_TRUE(peer_.usable()) << peer_.broken();
  }

  // Empty where ggml aborts.
  std::vector<std::byte> PeerBytes(const Format& format, const TestRow& row,
                                   std::span<const float> importance) const {
    std::vector<std::byte> out(*format.BytesFor(row.values.size()));
    if (!peer_.Encode(format, row.values, row.values.size(), importance, out)) out.clear();
    return out;
  }

  const PeerGgml peer_;
};

std::vector<std::byte> OurBytes(const Format& format, const TestRow& row,
                                std::span<const float> importance) {
  std::vector<std::byte> out(*format.BytesFor(row.values.size()));
  format.encode(row.values, importance, out);
  return out;
}

struct Tally {
  size_t blocks = 0, equal = 0, aborted = 0;
  std::string first_difference;

  void Compare(const Format& format, const std::vector<std::byte>& ours,
               const std::vector<std::byte>& theirs, const std::string& what) {
    if (theirs.empty()) {
      // ggml gives up on numbers that overflow, but never on those of a model.
      EXPECT_FALSE(what.starts_with("random ")) << format.name << ": ggml aborts: " << what;
      ++aborted;
      return;
    }
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
    if (tally.aborted > 0) std::printf("%-8s ggml aborted on %zu rows\n", "", tally.aborted);
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
    if (format.encode == nullptr || format.ggml_type < 0 || format.needs_importance) continue;
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
  EXPECT_GE(tallies.size(), 16u);
  Report("with importance", tallies);
}

// A type that ignores the importance must say so; otherwise bundles would be rebuilt for nothing.
TEST_F(PeerQuant, KnowsWhichTypesUseTheImportance) {
  const TestRow row = RandomRows(3, 1)[0];
  const TestRow importance = Importances(4)[2];
  for (const Format& format : AllFormats()) {
    if (format.encode == nullptr || format.ggml_type < 0) continue;
    EXPECT_EQ(peer_.NeedsImportance(format), format.needs_importance) << format.name;
    const bool used = format.needs_importance ||
                      PeerBytes(format, row, importance.values) != PeerBytes(format, row, {});
    EXPECT_EQ(used, format.uses_importance) << format.name;
  }
}

TEST_F(PeerQuant, DecodesAnyBytesToTheSameValues) {
  fuzz::Random random(11);
  size_t compared = 0;
  for (const Format& format : AllFormats()) {
    const PeerGgml::DequantizeRow dequantize = peer_.Dequantizer(format);
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
  EXPECT_GE(compared, 15u);
}

}  // namespace
}  // namespace quant

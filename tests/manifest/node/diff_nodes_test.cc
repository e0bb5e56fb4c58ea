#include "manifest/node/diff_nodes.h"

#include <gmock/gmock.h>

namespace moepack::manifest {
namespace {

using testing::ElementsAre;

NodeRecord Sample() {
  NodeRecord record;
  record.versions = {"0123456789abcdef", "123456789abcdef0", ""};
  record.experts_by_layer = {{"*", "0-3"}};
  record.distribution_sha256 = std::string(64, 'd');
  record.tool_version = "1.0.0";
  record.recipe.name = "Q4_K_M";
  record.files = {{"a.gguf", 5, std::string(64, 'a')}, {"b.gguf", 7, std::string(64, 'b')}};
  return record;
}

std::vector<std::string> Lines(const NodeRecord& a, const NodeRecord& b) {
  std::vector<std::string> lines;
  for (const Change& change : DiffNodes(a, b).changes) {
    lines.push_back(change.what + " | " + change.name + " | " + change.before + " | " +
                    change.after);
  }
  return lines;
}

TEST(DiffNodes, FindsNothingBetweenEqualNodes) {
  const DiffReport report = DiffNodes(Sample(), Sample());
  EXPECT_TRUE(report.same());
  EXPECT_EQ(report.same_bytes, 12u);
  EXPECT_EQ(report.changed_bytes, 0u);
}

TEST(DiffNodes, NamesVersionsGroupRecipeAndToolInAFixedOrder) {
  NodeRecord other = Sample();
  other.versions = {"f123456789abcdef", "f23456789abcdef0", "f33456789abcdef0"};
  other.group = 3;
  other.distribution_sha256 = std::string(64, 'e');
  other.tool_version = "1.1.0";
  other.recipe.name = "Q8_0";
  EXPECT_THAT(
      Lines(Sample(), other),
      ElementsAre("model | version | 0123456789abcdef | f123456789abcdef",
                  "partition | version | 123456789abcdef0 | f23456789abcdef0",
                  "overlay | version |  | f33456789abcdef0",
                  "distribution | sha256 | " + std::string(64, 'd') + " | " + std::string(64, 'e'),
                  "node | group | 0 | 3", "tool | version | 1.0.0 | 1.1.0",
                  "tool | recipe | Q4_K_M | Q8_0"));
}

TEST(DiffNodes, DistinguishesNewRemovedAndChangedFiles) {
  NodeRecord other = Sample();
  other.files = {{"b.gguf", 9, std::string(64, 'c')}, {"c.gguf", 5, std::string(64, 'a')}};
  EXPECT_THAT(Lines(Sample(), other),
              ElementsAre("file | a.gguf | 5 bytes, sha256 aaaaaaaaaaaaaaaa | ",
                          "file | b.gguf | 7 bytes, sha256 bbbbbbbbbbbbbbbb | 9 bytes, sha256 "
                          "cccccccccccccccc",
                          "file | c.gguf |  | 5 bytes, sha256 aaaaaaaaaaaaaaaa"));
  const DiffReport report = DiffNodes(Sample(), other);
  EXPECT_EQ(report.same_bytes, 5u);
  EXPECT_EQ(report.changed_bytes, 9u);
}

// "*" stands for every layer without a key; a list without it names all layers.
TEST(DiffNodes, ComparesExpertsByLayerHoweverTheyAreWritten) {
  NodeRecord other = Sample();
  other.experts_by_layer = {{"*", "4-7"}};
  EXPECT_THAT(Lines(Sample(), other), ElementsAre("node | experts | 0-3 | 4-7"));
  other.experts_by_layer = {{"0", "0-3"}, {"1", "0-3"}};
  EXPECT_THAT(Lines(Sample(), other), ElementsAre());
  other.experts_by_layer = {{"0", "0-3"}, {"1", "1-4"}, {"2", "1-4"}, {"10", "1-4"}};
  EXPECT_THAT(Lines(Sample(), other), ElementsAre("node | layers 1-2,10, experts | 0-3 | 1-4"));
  other.experts_by_layer = {{"5", "0-3"}, {"*", "2-5"}};
  EXPECT_THAT(Lines(Sample(), other), ElementsAre("node | other layers, experts | 0-3 | 2-5"));
}

TEST(DiffNodes, TreatsFilesOfANodeWithoutDigestsAsNew) {
  NodeRecord old = Sample();
  old.files.clear();
  EXPECT_EQ(DiffNodes(old, Sample()).changed_bytes, 12u);
}

}  // namespace
}  // namespace moepack::manifest

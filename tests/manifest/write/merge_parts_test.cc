#include "manifest/write/merge_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack::manifest {
namespace {

using Words = std::vector<std::string>;

TEST(MergeCommands, MergesOptionsThatOnlyOneRunHas) {
  const Words plain = {"shard-experts", "--max-part-size", "9"};
  const Words kept = {"shard-experts", "--keep-remainder", "--max-part-size", "9"};
  const Words hashed = {"shard-experts", "--max-part-size", "9", "--hash-source"};
  const Words both = {"shard-experts", "--keep-remainder", "--max-part-size", "9", "--hash-source"};
  EXPECT_EQ(MergeCommands(plain, plain), plain);
  EXPECT_EQ(MergeCommands(plain, kept), kept);
  EXPECT_EQ(MergeCommands(hashed, plain), hashed);
  EXPECT_EQ(MergeCommands(kept, hashed), both);
  EXPECT_EQ(MergeCommands(hashed, kept), both);
  EXPECT_EQ(MergeCommands({"a", "--hash-source"}, {"a", "--keep-remainder"}),
            (Words{"a", "--keep-remainder", "--hash-source"}));
  EXPECT_EQ(MergeCommands({"a", "--chunk-map"}, {"a", "--hash-source"}),
            (Words{"a", "--hash-source", "--chunk-map"}));
}

TEST(MergeCommands, RefusesEveryOtherDifference) {
  EXPECT_FALSE(MergeCommands({"shard-experts"}, {"build"}));
  EXPECT_FALSE(MergeCommands({"shard-experts"}, {"shard-experts", "--no-mtp"}));
  EXPECT_FALSE(MergeCommands({"a", "--hash-source", "x"}, {"a", "y"}));
  EXPECT_EQ(MergeCommands({}, {}), Words{});
}

TEST(ReplaceParts, ReplacesAWholePartAndSortsTheRest) {
  const auto record = [](Role role, std::optional<uint32_t> group, const char* file) {
    BundleRecord out;
    out.role = role;
    out.group = group;
    out.file = file;
    return out;
  };
  std::vector<BundleRecord> records = {record(Role::kGroup, 1, "old-1"),
                                       record(Role::kGroup, 1, "old-2"),
                                       record(Role::kGroup, 0, "g0")};
  ReplaceParts({record(Role::kGroup, 1, "new"), record(Role::kTrunk, std::nullopt, "t")}, records);
  Words files;
  for (const BundleRecord& one : records) files.push_back(one.file);
  EXPECT_EQ(files, (Words{"t", "g0", "new"}));
}

}  // namespace
}  // namespace moepack::manifest

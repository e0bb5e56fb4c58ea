#include "libshard/base/text_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace moepack {
namespace {

constexpr uint32_t kFree = UINT32_MAX;

TEST(ProbeTable, FindsStoredNamesAndAFreeSlotForOthers) {
  const std::vector<std::string> names = {"a", "b", ""};
  ProbeTable<uint32_t> table(kFree, names.size());
  const auto slot = [&](const std::string& name) -> uint32_t& {
    return table.Slot(HashOf(name), [&](uint32_t at) { return names[at] == name; });
  };
  for (uint32_t i = 0; i < names.size(); ++i) {
    EXPECT_TRUE(table.IsFree(slot(names[i])));
    slot(names[i]) = i;
  }
  for (uint32_t i = 0; i < names.size(); ++i) EXPECT_EQ(slot(names[i]), i);
  EXPECT_TRUE(table.IsFree(slot("c")));
  EXPECT_EQ(table.room(), 3u);
}

TEST(ProbeTable, IsEmptyWithoutRoom) {
  const ProbeTable<uint32_t> table(kFree);
  EXPECT_EQ(table.room(), 0u);
  EXPECT_TRUE(table.IsFree(table.Slot(HashOf("a"), [](uint32_t) { return true; })));
}

// Names that collide under an unseeded hash cost no more than others.
TEST(ProbeTable, FindsCollidingNamesInAFewSteps) {
  constexpr size_t kNames = 500, kSlots = 2 * kNames + 1;
  std::vector<std::string> names;
  for (size_t i = 0; names.size() < kNames; ++i) {
    std::string name = std::to_string(i);
    if (std::hash<std::string>()(name) % kSlots == 0) names.push_back(std::move(name));
  }
  ProbeTable<uint32_t> table(kFree, kNames);
  size_t steps = 0;
  for (uint32_t i = 0; i < kNames; ++i) {
    table.Slot(HashOf(names[i]), [&](uint32_t at) {
      ++steps;
      return names[at] == names[i];
    }) = i;
  }
  EXPECT_LT(steps, 5 * kNames);  // all in one place: 125,000
}

// Names that one bucket of the library's own table would hold are spread over many.
TEST(TextMap, SpreadsNamesThatCollideUnderTheLibrarysHash) {
  constexpr size_t kNames = 500;
  TextMap<std::string, size_t> map;
  map.reserve(kNames);
  for (size_t i = 0; map.size() < kNames; ++i) {
    std::string name = std::to_string(i);
    if (std::hash<std::string>()(name) % map.bucket_count() == 0) map[std::move(name)] = i;
  }
  size_t largest = 0;
  for (size_t i = 0; i < map.bucket_count(); ++i) largest = std::max(largest, map.bucket_size(i));
  EXPECT_LT(largest, 20u);
}

TEST(TextMap, FindsAPieceOfATextWithoutCopyingIt) {
  const TextMap<std::string, int> map = {{"a.b", 1}};
  const TextSet<std::string> set = {"a.b"};
  const std::string_view piece = std::string_view("a.b.c").substr(0, 3);
  ASSERT_NE(map.find(piece), map.end());
  EXPECT_EQ(map.find(piece)->second, 1);
  EXPECT_TRUE(set.contains(piece));
}

}  // namespace

}  // namespace moepack

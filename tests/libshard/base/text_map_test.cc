#include "libshard/base/text_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace moepack {
namespace {

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

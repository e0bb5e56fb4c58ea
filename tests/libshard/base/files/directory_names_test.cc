#include "libshard/base/files/directory_names.h"

#include <gmock/gmock.h>

#include "fixtures/temp_dir.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;

TEST(DirectoryNames, AreSortedAndWithoutDots) {
  const fixtures::TempDir dir;
  for (const char* name : {"b", ".hidden", "a"}) std::filesystem::create_directory(dir / name);
  EXPECT_THAT(NamesIn(dir.path()).value(), ElementsAre(".hidden", "a", "b"));
}

TEST(DirectoryNames, AnErrorNamesTheDirectory) {
  const fixtures::TempDir dir;
  const auto names = NamesIn(dir / "none");
  ASSERT_FALSE(names);
  EXPECT_EQ(names.error().code, Code::kNotFound);
  EXPECT_THAT(names.error().message, EndsWith("none: list: No such file or directory"));
}

}  // namespace
}  // namespace moepack

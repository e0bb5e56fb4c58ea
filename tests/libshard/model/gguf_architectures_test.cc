#include "libshard/model/gguf_architectures.h"

#include <gtest/gtest.h>

#include "libshard/convert/gguf_model.h"

namespace moepack {
namespace {

TEST(GgufArchitectures, IncludeEveryTargetOfTheConverters) {
  ASSERT_GE(AllConverters().size(), 16u);
  for (const GgufConverter& converter : AllConverters()) {
    EXPECT_TRUE(IsMoeArchitecture(converter.architecture)) << converter.family;
  }
}

TEST(GgufArchitectures, NameTheClosestToAnUnknownOne) {
  for (const char* name : {"", "newmoe", "qwen3", "LLAMA"}) {
    EXPECT_FALSE(IsMoeArchitecture(name)) << name;
  }
  EXPECT_EQ(DescribeUnknownArchitecture("glm4-moe"), "the closest name is \"glm4moe\"");
  EXPECT_EQ(DescribeUnknownArchitecture("frobnicator"), "");
}

TEST(GgufArchitectures, NameTheProjectThatHasOneThatLlamaCppLacks) {
  EXPECT_FALSE(IsMoeArchitecture("openpangu"));
  EXPECT_EQ(DescribeUnknownArchitecture("openpangu"), "an architecture of ik_llama.cpp");
}

}  // namespace
}  // namespace moepack

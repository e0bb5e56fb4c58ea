#include "libshard/model/gguf_architectures.h"

#include <gtest/gtest.h>

#include "libshard/convert/converter.h"

namespace moepack {
namespace {

TEST(GgufArchitectures, IncludeEveryTargetOfTheConverters) {
  ASSERT_GE(AllConverters().size(), 16u);
  for (const GgufConverter& converter : AllConverters()) {
    EXPECT_TRUE(IsMoeArchitecture(converter.architecture)) << converter.family;
  }
}

TEST(GgufArchitectures, NameAnUnknownArchitectureInTheError) {
  for (const char* name : {"", "newmoe", "qwen3", "LLAMA"}) {
    EXPECT_FALSE(IsMoeArchitecture(name)) << name;
    const Error error = UnknownArchitecture("m.gguf", name);
    EXPECT_EQ(error.code, Code::kUnsupported);
    EXPECT_NE(error.message.find("found \"" + std::string(name) + "\""), std::string::npos);
    EXPECT_NE(error.hint.find("quantize"), std::string::npos);
  }
}

}  // namespace
}  // namespace moepack

#include "manifest/registry/sign/base64.h"

#include <gtest/gtest.h>

namespace moepack::registry {
namespace {

TEST(Base64, WritesAndReadsTheVectorsOfTheStandard) {
  const std::pair<const char*, const char*> pairs[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : pairs) {
    EXPECT_EQ(ToBase64(bytes), text);
    EXPECT_EQ(FromBase64(text), bytes);
  }
  const std::string zeros(5, '\0');
  EXPECT_EQ(FromBase64(ToBase64(zeros)), zeros);
}

TEST(Base64, TakesNoOtherSpelling) {
  for (const char* text : {"Zg", "Zg=", "Zg===", "Zh==", "====", "=", "A===", "Zg==Zg==", " Zg=",
                           "Zg==\n\n\n\n", "Zm 9v===", "-_==", "Zm9v\n"})
    EXPECT_EQ(FromBase64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace moepack::registry

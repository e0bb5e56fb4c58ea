#include "libshard/base/text/base64.h"

#include <gtest/gtest.h>

namespace moepack {
namespace {

// RFC 4648, section 10.
TEST(Base64, EncodesAndDecodesTheTestVectorsOfTheStandard) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(EncodeBase64(bytes), text);
    EXPECT_EQ(DecodeBase64(text), bytes);
  }
}

TEST(Base64, RoundTripsEveryByte) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(DecodeBase64(EncodeBase64(bytes)), bytes);
}

TEST(Base64, RejectsInvalidBase64) {
  for (const char* text : {"Zg", "Zg=", "Z===", "====", "Zm9v\n", "Zm 9v", "Zg==Zg==", "Zm-_"})
    EXPECT_EQ(DecodeBase64(text), std::nullopt) << text;
}

TEST(Base64, ExactRejectsNonCanonicalSpellings) {
  for (const char* text : {"Zg", "Zg=", "Zg===", "Zh==", "====", "=", "A===", "Zg==Zg==", " Zg=",
                           "Zg==\n\n\n\n", "Zm 9v===", "-_==", "Zm9v\n"})
    EXPECT_EQ(DecodeExactBase64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace moepack

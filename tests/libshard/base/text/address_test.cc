#include "libshard/base/text/address.h"

#include <gtest/gtest.h>

namespace moepack {
namespace {

TEST(Address, HasASchemeOfLettersBeforeTwoSlashes) {
  EXPECT_EQ(SchemeOf("FTP://user:pw@host/x"), "FTP");
  EXPECT_EQ(SchemeOf("layout+https://host/x"), "layout+https");
  for (const char* none : {"", "a/b", "://host", "layout:a", "a b://c", "a/b://c"})
    EXPECT_EQ(SchemeOf(none), "") << none;
}

TEST(Address, IsNamedWithoutItsSecrets) {
  EXPECT_EQ(WithoutSecrets("https://me:pw@host:8/a@b?X-Amz-Signature=c#d"), "https://host:8/a@b");
  EXPECT_EQ(WithoutSecrets("http://host?token=x"), "http://host");
  EXPECT_EQ(WithoutSecrets("any://me:pw@host/a"), "any://host/a");
  for (const char* same :
       {"hf://a/b@rev", "s3://b/c", "s3://b/c?d", "dir/a?b", "https://host/a%20b"})
    EXPECT_EQ(WithoutSecrets(same), same);
}

}  // namespace
}  // namespace moepack

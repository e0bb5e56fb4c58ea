#include "manifest/registry/server/repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;

TEST(RepositoryName, FollowsTheSpecification) {
  for (const char* name : {"a", "a/b", "team/model-1.5_x__y--z", "0/1", "a---b"})
    EXPECT_TRUE(IsRepositoryName(name)) << name;
  for (const char* name : {"", "/", "a/", "/a", "a//b", "A", "a/B", "-a", "a-", "a..b", "a___b",
                           "a._b", "a b", "a:b", "a@b", "\xc3\xbc", "..", "a/../b", "a.-b"})
    EXPECT_FALSE(IsRepositoryName(name)) << name;
}

TEST(RepositoryName, UsesHttpsUnlessTheHostIsThisMachine) {
  const auto far = ParseRepository("Registry.example:5000/team/model", false);
  ASSERT_TRUE(far) << far.error().message;
  EXPECT_EQ(far->origin.Origin(), "https://registry.example:5000");
  EXPECT_EQ(far->Text(), "oci://registry.example:5000/team/model");
  EXPECT_EQ(far->At("blobs/uploads/").Text(),
            "https://registry.example:5000/v2/team/model/blobs/uploads/");
  for (const char* host : {"127.0.0.1:5000", "localhost", "localhost:5000", "[::1]:5000"}) {
    const auto near = ParseRepository(Cat(host, "/m"), false);
    ASSERT_TRUE(near) << near.error().message;
    EXPECT_EQ(near->origin.Origin(), Cat("http://", host));
  }
  EXPECT_EQ(ParseRepository("registry.example/m", true)->origin.Origin(),
            "http://registry.example");
}

TEST(RepositoryName, UsesTheRegistryHostOfDockerHub) {
  const auto official = ParseRepository("docker.io/model", false);
  EXPECT_EQ(official->origin.Origin(), "https://registry-1.docker.io");
  EXPECT_EQ(official->Text(), "oci://docker.io/library/model");
  EXPECT_EQ(ParseRepository("docker.io/user/model", false)->name, "user/model");
}

TEST(RepositoryName, DoesNotMistakeANameForAHost) {
  for (const char* text :
       {"team/model", "model", "", "/model", "a b.c/model", "host.example?x/m"}) {
    const auto repository = ParseRepository(text, false);
    ASSERT_FALSE(repository) << text;
    EXPECT_EQ(repository.error().code, Code::kInvalidArgument);
    EXPECT_THAT(repository.error().message, HasSubstr(": host: expected"));
  }
  EXPECT_THAT(ParseRepository("a.example:0/m", false).error().message,
              HasSubstr("host: expected a name, and a port from 1 to 65535"));
}

TEST(RepositoryName, ReportsAnInvalidName) {
  const auto upper = ParseRepository("a.example/Team/model", false);
  ASSERT_FALSE(upper);
  EXPECT_THAT(upper.error().message,
              HasSubstr("oci://a.example/Team/model: name: expected lower-case letters"));
  EXPECT_THAT(ParseRepository("a.example", false).error().message, HasSubstr("name: expected"));
  EXPECT_THAT(ParseRepository(Cat("a.example/", std::string(250, 'x')), false).error().message,
              HasSubstr("host and name: expected at most 255 characters"));
}

TEST(RepositoryName, RefusesAUserBeforeTheHostWithoutRepeatingIt) {
  const auto repository = ParseRepository("me:s3cret@a.example/m", false);
  ASSERT_FALSE(repository);
  EXPECT_THAT(repository.error().message, HasSubstr("without user and password"));
  EXPECT_THAT(repository.error().message, testing::Not(HasSubstr("s3cret")));
}

}  // namespace
}  // namespace moepack::registry

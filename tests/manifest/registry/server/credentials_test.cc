#include "manifest/registry/server/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/base64.h"
#include "libshard/base/text/text.h"
#include "tests/manifest/registry/server/credential_home.h"

namespace moepack::registry {
namespace {

using remote::ScopedVariable;
using testing::HasSubstr;
using testing::Not;
using Kind = Credentials::Kind;

const std::string kHost = "registry.example:5000";

std::string Entry(const std::string& host, const std::string& user) {
  return Cat("{\"auths\":{\"", host, "\":{\"auth\":\"", EncodeBase64(user + ":hunter2"), "\"}}}");
}

class CredentialsTest : public testing::Test {
 protected:
  Credentials Find(const GivenCredentials& given = {}) const {
    const auto found = FindCredentials(given, kHost, "team/model");
    EXPECT_TRUE(found) << found.error().message;
    return found ? *found : Credentials{};
  }
  static Error Failure(const GivenCredentials& given = {}) {
    const auto found = FindCredentials(given, kHost, "team/model");
    EXPECT_FALSE(found);
    if (found) return {};
    EXPECT_THAT(Cat(found.error().message, found.error().hint), Not(HasSubstr("hunter2")));
    return found.error();
  }
  CredentialHome home_;
};

TEST_F(CredentialsTest, AreNoneWithoutAnyPlace) {
  EXPECT_EQ(Find().kind, Kind::kNone);
  EXPECT_EQ(Find().Shown(), "no credentials");
}

// Every place is filled, and the first one is removed again and again.
TEST_F(CredentialsTest, UsesTheFirstPlace) {
  home_.Write(".config/containers/auth.json", Entry(kHost, "config"));
  EXPECT_EQ(Find().Shown(), "credentials from ~/.config/containers/auth.json (user config)");
  home_.Write("xdg/containers/auth.json", Entry(kHost, "xdg"));
  const ScopedVariable config("XDG_CONFIG_HOME", home_.Path("xdg"));
  EXPECT_EQ(Find().user, "xdg");
  home_.Write("run/containers/auth.json", Entry(kHost, "runtime"));
  const ScopedVariable runtime("XDG_RUNTIME_DIR", home_.Path("run"));
  EXPECT_EQ(Find().user, "runtime");
  home_.Write(".docker/config.json", Entry(kHost, "home"));
  EXPECT_EQ(Find().Shown(), "credentials from ~/.docker/config.json (user home)");
  home_.Write("docker/config.json", Entry(kHost, "docker"));
  const ScopedVariable docker("DOCKER_CONFIG", home_.Path("docker"));
  EXPECT_EQ(Find().user, "docker");
  home_.Write("named.json", Entry(kHost, "named"));
  const ScopedVariable named("REGISTRY_AUTH_FILE", home_.Path("named.json"));
  EXPECT_EQ(Find().user, "named");
  const ScopedVariable user("MOEPACK_REGISTRY_USERNAME", "variable");
  const ScopedVariable password("MOEPACK_REGISTRY_PASSWORD", "hunter2");
  EXPECT_EQ(Find().Shown(), "credentials from MOEPACK_REGISTRY_PASSWORD (user variable)");
  EXPECT_EQ(Find().secret, "hunter2");
  const Credentials given = Find({"me", "other", "", "--password-stdin"});
  EXPECT_EQ(given.kind, Kind::kBasic);
  EXPECT_EQ(given.secret, "other");
  EXPECT_EQ(given.Shown(), "credentials from --password-stdin (user me)");
}

TEST_F(CredentialsTest, SkipsAPlaceWithoutTheHost) {
  home_.Write(".docker/config.json", Entry("registry.example", "other"));
  home_.Write(".config/containers/auth.json", Entry(kHost, "right"));
  const ScopedVariable missing("REGISTRY_AUTH_FILE", home_.Path("missing.json"));
  EXPECT_EQ(Find().user, "right");
  home_.Write(".docker/config.json", " \n");
  EXPECT_EQ(Find().user, "right");
}

TEST_F(CredentialsTest, UsesATokenAsItIs) {
  const Credentials given = Find({"", "", "abc.def", "--token-file"});
  EXPECT_EQ(given.kind, Kind::kBearer);
  EXPECT_EQ(given.Shown(), "credentials from --token-file");
  const ScopedVariable token("MOEPACK_REGISTRY_TOKEN", "xyz");
  EXPECT_EQ(Find().kind, Kind::kBearer);
  EXPECT_EQ(Find().secret, "xyz");
  EXPECT_EQ(Find().from, "MOEPACK_REGISTRY_TOKEN");
}

TEST_F(CredentialsTest, AnIncompletePairIsRefused) {
  EXPECT_EQ(Failure({"me", "", "", ""}).message,
            "--username needs --password-stdin or --password-file");
  EXPECT_EQ(Failure({"", "hunter2", "", ""}).message,
            "--password-stdin or --password-file needs --username");
  EXPECT_THAT(Failure({"me", "hunter2", "hunter2", ""}).message,
              HasSubstr("give --token-file or --username"));
  const ScopedVariable user("MOEPACK_REGISTRY_USERNAME", "me");
  EXPECT_EQ(Failure().message, "MOEPACK_REGISTRY_USERNAME needs MOEPACK_REGISTRY_PASSWORD");
  EXPECT_EQ(Failure().code, Code::kInvalidArgument);
}

TEST_F(CredentialsTest, RefusesTextThatNoHeaderCanHold) {
  EXPECT_THAT(Failure({"a:b", "hunter2", "", "--password-stdin"}).message,
              HasSubstr("--password-stdin: expected a user without ':'"));
  EXPECT_THAT(Failure({"a", "hunter2\nX: y", "", "--password-stdin"}).message,
              HasSubstr("without control characters"));
  for (const std::string& token : {std::string("hunter2 x"), std::string("hunter2\r\nX: y"),
                                   std::string("hunter2\x80"), std::string(40000, 'x')}) {
    const Error error = Failure({"", "", token, "--token-file"});
    EXPECT_EQ(error.code, Code::kInvalidArgument);
    EXPECT_THAT(error.message, HasSubstr("--token-file: expected a token of visible characters"));
  }
}

TEST_F(CredentialsTest, ShowsOnlyTheUser) {
  const Credentials shown = Find({"me\u00e9", "hunter2", "", "--password-file"});
  EXPECT_EQ(shown.Shown(), "credentials from --password-file (user me\u00e9)");
}

}  // namespace
}  // namespace moepack::registry

#include "manifest/registry/server/credential_helper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/manifest/registry/server/helper_scripts.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;
using testing::Not;

class CredentialHelper : public testing::Test {
 protected:
  Result<std::optional<HelperAnswer>> Ask(const std::string& body) {
    scripts_.Add("docker-credential-test", body);
    return AskCredentialHelper("test", "registry.example:5000");
  }
  Error Failure(const std::string& body) {
    const auto answer = Ask(body);
    EXPECT_FALSE(answer) << body;
    return answer ? Error{} : answer.error();
  }
  HelperScripts scripts_;
};

TEST_F(CredentialHelper, IsAskedForTheServer) {
  const auto answer =
      Ask("[ \"$1\" = get ] && read server; "
          "echo \"{\\\"ServerURL\\\":\\\"$server\\\",\\\"Username\\\":\\\"me@$server\\\","
          "\\\"Secret\\\":\\\"p:w\\\"}\"");
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_TRUE(*answer);
  EXPECT_EQ((*answer)->user, "me@registry.example:5000");
  EXPECT_EQ((*answer)->secret, "p:w");
}

TEST_F(CredentialHelper, MayHaveNoCredentials) {
  const auto answer = Ask("echo 'credentials not found in native keychain'; exit 1");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_FALSE(*answer);
  const auto empty = Ask("echo '{\"Username\":\"\",\"Secret\":\"\"}'");
  ASSERT_TRUE(empty);
  EXPECT_FALSE(*empty);
}

TEST_F(CredentialHelper, AFailureIsQuoted) {
  const Error error = Failure("echo; printf 'no keyring \\033[31m\\nmore\\n' >&2; exit 2");
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_EQ(error.message,
            "docker-credential-test: get registry.example:5000: expected exit status 0, found 2: "
            "no keyring \\x1b[31m");
  EXPECT_THAT(error.hint, HasSubstr("by hand"));
  EXPECT_THAT(Failure("echo on stdout; exit 1").message, HasSubstr("found 1: on stdout"));
}

TEST_F(CredentialHelper, AFailureThatContainsTheSecretIsNotQuoted) {
  for (const char* body :
       {"echo '{\"Username\":\"u\",\"Secret\":\"hunter2\"}'; exit 1",
        "echo '{\"Username\":\"u\",\"Secret\":\"hunter2\"}'; echo bad hunter2 >&2; exit 1",
        "echo 'got {\"Secret\": \"hunter2\"' >&2; exit 1"}) {
    const Error error = Failure(body);
    EXPECT_THAT(error.message, HasSubstr("found 1"));
    EXPECT_THAT(error.message, Not(HasSubstr("hunter2")));
  }
}

TEST_F(CredentialHelper, AnInvalidAnswerIsRefusedWithoutShowingIt) {
  for (const char* body :
       {"echo hunter2", "echo '{\"Username\":\"u\",\"Secret\":\"hunter2\"'",
        "echo '{\"Username\":\"u\",\"Secret\":[\"hunter2\"]}'", "echo '[\"hunter2\"]'",
        "echo '{\"Secret\":\"hunter2\"}'",
        "echo '{\"Username\":\"u\",\"Secret\":\"hunter2\",\"Secret\":\"x\"}'", "exit 0"}) {
    const Error error = Failure(body);
    EXPECT_EQ(error.code, Code::kCorrupt);
    EXPECT_EQ(error.message,
              "docker-credential-test: get registry.example:5000: expected JSON with Username and "
              "Secret, found something else");
  }
}

TEST_F(CredentialHelper, AMissingHelperIsNamed) {
  const auto answer = AskCredentialHelper("nowhere", "registry.example");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_THAT(answer.error().message, HasSubstr("docker-credential-nowhere: expected in PATH"));
  EXPECT_THAT(answer.error().hint, HasSubstr("install it"));
}

TEST_F(CredentialHelper, ASlowHelperIsStopped) {
  scripts_.Add("docker-credential-test", "sleep 1000");
  const auto answer = AskCredentialHelper("test", "x", {std::chrono::milliseconds(100), 1024});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_THAT(answer.error().message, HasSubstr("within 0.1 s"));
}

TEST_F(CredentialHelper, ANameThatCouldBeAPathIsRefused) {
  for (const char* name : {"", "../x", "a/b", "a b", "x;y", "$(x)", "a\n"}) {
    EXPECT_FALSE(IsHelperName(name)) << name;
    const auto answer = AskCredentialHelper(name, "registry.example");
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::kInvalidArgument);
    EXPECT_THAT(answer.error().message, HasSubstr("expected a name of letters"));
  }
  EXPECT_TRUE(IsHelperName("ecr-login_2.0"));
}

}  // namespace
}  // namespace moepack::registry

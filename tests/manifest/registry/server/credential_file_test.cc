// Files as docker, podman and skopeo write them, and damaged ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "libshard/base/text/base64.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/server/credentials.h"
#include "tests/manifest/registry/server/credential_home.h"
#include "tests/manifest/registry/server/helper_scripts.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;
using testing::Not;
using Kind = Credentials::Kind;

// {"auth": "..."} of this user and password.
std::string Auth(const std::string& pair) { return Cat("{\"auth\":\"", EncodeBase64(pair), "\"}"); }

class CredentialFileTest : public testing::Test {
 protected:
  Credentials Find(const std::string& text, const std::string& host = "registry.example",
                   const std::string& repository = "team/model") const {
    home_.Write("auth.json", text);
    const auto found = CredentialsOfFile(home_.Path("auth.json"), host, repository);
    EXPECT_TRUE(found) << found.error().message;
    return found && *found ? **found : Credentials{};
  }
  std::string User(const std::string& text, const std::string& host = "registry.example",
                   const std::string& repository = "team/model") const {
    return Find(text, host, repository).user;
  }
  Error Failure(const std::string& text) const {
    home_.Write("auth.json", text);
    const auto found = CredentialsOfFile(home_.Path("auth.json"), "registry.example", "team/model");
    EXPECT_FALSE(found) << text;
    if (found) return {};
    const std::string all = Cat(found.error().message, found.error().hint);
    for (const char* secret : {"hunter2", "dTpodW50ZXIy"}) EXPECT_THAT(all, Not(HasSubstr(secret)));
    EXPECT_THAT(all, HasSubstr("~/auth.json: "));
    return found.error();
  }
  CredentialHome home_;
  HelperScripts scripts_;
};

TEST_F(CredentialFileTest, SplitsUserAndPasswordAtTheFirstColon) {
  const Credentials found = Find(Cat("{\"auths\":{\"registry.example\":", Auth("u:a:b:c"), "}}"));
  EXPECT_EQ(found.kind, Kind::kBasic);
  EXPECT_EQ(found.user, "u");
  EXPECT_EQ(found.secret, "a:b:c");
  EXPECT_EQ(found.Shown(), "credentials from ~/auth.json (user u)");
}

TEST_F(CredentialFileTest, ReadsEveryKindOfEntry) {
  const auto entry = [](const std::string& text) {
    return Cat("{\"auths\":{\"registry.example\":", text, "},\"HttpHeaders\":{\"a\":\"b\"}}");
  };
  const Credentials identity =
      Find(entry(Cat("{\"auth\":\"", EncodeBase64("0000:"), "\",\"identitytoken\":\"idt\"}")));
  EXPECT_EQ(identity.kind, Kind::kIdentityToken);
  EXPECT_EQ(identity.secret, "idt");
  EXPECT_EQ(identity.user, "0000");
  const Credentials bearer = Find(entry("{\"registrytoken\":\"rt\",\"identitytoken\":\"idt\"}"));
  EXPECT_EQ(bearer.kind, Kind::kBearer);
  EXPECT_EQ(bearer.secret, "rt");
  const Credentials plain = Find(entry("{\"username\":\"u\",\"password\":\"p\"}"));
  EXPECT_EQ(plain.kind, Kind::kBasic);
  EXPECT_EQ(plain.secret, "p");
  EXPECT_EQ(Find(entry("{}")).kind, Kind::kNone);
  EXPECT_EQ(Find(entry("{\"auth\":null}")).kind, Kind::kNone);
  EXPECT_EQ(Find("{}").kind, Kind::kNone);
}

TEST_F(CredentialFileTest, PrefersTheLongestKey) {
  const std::string text = Cat(
      "{\"auths\":{\"registry.example\":", Auth("host:p"),
      ",\"registry.example/team/model\":", Auth("repository:p"),
      ",\"registry.example/team\":", Auth("team:p"), ",\"registry.example/te\":", Auth("wrong:p"),
      ",\"example/team\":", Auth("wrong:p"), ",\"registry.example/team/empty\":{}}}");
  EXPECT_EQ(User(text), "repository");
  EXPECT_EQ(User(text, "registry.example", "team/model2"), "team");
  EXPECT_EQ(User(text, "registry.example", "team/empty"), "team");
  EXPECT_EQ(User(text, "registry.example", "tea/model"), "host");
  EXPECT_EQ(User(text, "registry.example", ""), "host");
  EXPECT_EQ(User(text, "registry.example:443", "team/model"), "");
}

TEST_F(CredentialFileTest, IgnoresSchemeAndPathOfAKey) {
  for (const char* key :
       {"https://registry.example", "https://Registry.Example/v1/", "http://registry.example/v2/",
        "registry.example/v2", "Registry.example/", "https://registry.example/some/path"})
    EXPECT_EQ(User(Cat("{\"auths\":{\"", key, "\":", Auth("u:p"), "}}")), "u") << key;
}

TEST_F(CredentialFileTest, DockerHubHasItsOwnKey) {
  const std::string text = Cat("{\"auths\":{\"https://index.docker.io/v1/\":", Auth("hub:p"), "}}");
  for (const char* host : {"docker.io", "registry-1.docker.io", "index.docker.io"})
    EXPECT_EQ(User(text, host, "library/x"), "hub");
  EXPECT_EQ(User(text, "evil-docker.io", "library/x"), "");
  EXPECT_EQ(User(Cat("{\"auths\":{\"docker.io/me\":", Auth("me:p"),
                     ",\"docker.io\":", Auth("hub:p"), "}}"),
                 "registry-1.docker.io", "me/x"),
            "me");
}

TEST_F(CredentialFileTest, HelpersTakePrecedenceOverEntries) {
  for (const char* name : {"one", "all"})
    scripts_.Add(Cat("docker-credential-", name), Cat("read s; echo \"{\\\"Username\\\":\\\"", name,
                                                      " $s\\\",\\\"Secret\\\":\\\"hunter2\\\"}\""));
  const std::string entries = Cat("\"auths\":{\"registry.example\":", Auth("u:p"), "}");
  const Credentials one = Find(
      Cat("{\"credHelpers\":{\"registry.example\":\"one\"},\"credsStore\":\"all\",", entries, "}"));
  EXPECT_EQ(one.Shown(),
            "credentials from docker-credential-one, which ~/auth.json names (user one "
            "registry.example)");
  EXPECT_EQ(one.secret, "hunter2");
  EXPECT_EQ(User(Cat("{\"credHelpers\":{\"other.example\":\"one\"},\"credsStore\":\"all\",",
                     entries, "}")),
            "all registry.example");
  EXPECT_EQ(User("{\"credsStore\":\"all\"}", "docker.io"), "all https://index.docker.io/v1/");
}

TEST_F(CredentialFileTest, SkipsAHelperWithoutCredentials) {
  scripts_.Add("docker-credential-none", "echo credentials not found in native keychain; exit 1");
  EXPECT_EQ(
      User(Cat("{\"credsStore\":\"none\",\"auths\":{\"registry.example\":", Auth("u:p"), "}}")),
      "u");
}

TEST_F(CredentialFileTest, AHelperMayGiveAnIdentityToken) {
  scripts_.Add("docker-credential-id", "echo '{\"Username\":\"<token>\",\"Secret\":\"idt\"}'");
  const Credentials found = Find("{\"credsStore\":\"id\"}");
  EXPECT_EQ(found.kind, Kind::kIdentityToken);
  EXPECT_EQ(found.secret, "idt");
  EXPECT_EQ(found.user, "");
}

TEST_F(CredentialFileTest, AFailingHelperIsAnErrorThatNamesTheFile) {
  EXPECT_THAT(Failure("{\"credsStore\":\"nowhere\"}").message,
              HasSubstr("~/auth.json: docker-credential-nowhere: expected in PATH, found nowhere "
                        "that it may be run"));
  EXPECT_THAT(Failure("{\"credsStore\":\"../x\"}").message,
              HasSubstr("credential helper: expected a name of letters"));
}

TEST_F(CredentialFileTest, RefusesInvalidJsonWithoutShowingIt) {
  for (const char* text : {"{\"auths\":{\"registry.example\":{\"auth\":hunter2", "hunter2", "[]",
                           "{\"hunter2\":1,\"hunter2\":2}", "\"hunter2\""}) {
    const Error error = Failure(text);
    EXPECT_EQ(error.code, Code::kCorrupt);
    EXPECT_EQ(error.message, "~/auth.json: expected a JSON object, found something else");
  }
}

TEST_F(CredentialFileTest, NamesMisplacedValuesWithoutShowingThem) {
  const std::pair<const char*, const char*> cases[] = {
      {"{\"auths\":\"hunter2\"}", "auths: expected an object"},
      {"{\"auths\":{\"registry.example\":\"hunter2\"}}",
       "auths[\"registry.example\"]: expected an object"},
      {"{\"auths\":{\"registry.example\":{\"auth\":[\"hunter2\"]}}}",
       "auths[\"registry.example\"].auth: expected a text"},
      {"{\"auths\":{\"registry.example\":{\"auth\":\"hunter2!\"}}}",
       "auths[\"registry.example\"].auth: expected base64 of user:password"},
      {"{\"auths\":{\"registry.example\":{\"auth\":\"aHVudGVyMg==\"}}}",
       "auths[\"registry.example\"].auth: expected base64 of user:password"},
      {"{\"auths\":{\"https://u:hunter2@registry.example\":{\"auth\":1}}}", ""},
      {"{\"credHelpers\":[\"hunter2\"]}", "credHelpers: expected an object"},
      {"{\"credHelpers\":{\"registry.example\":1}}",
       "credHelpers[\"registry.example\"]: expected a text"},
      {"{\"credsStore\":{\"a\":\"hunter2\"}}", "credsStore: expected a text"}};
  for (const auto& [text, message] : cases) {
    if (*message == '\0') {
      EXPECT_EQ(Find(text).kind, Kind::kNone);  // the host of another key
      continue;
    }
    const Error error = Failure(text);
    EXPECT_EQ(error.code, Code::kCorrupt);
    EXPECT_EQ(error.message, Cat("~/auth.json: ", message, ", found something else"));
  }
}

TEST_F(CredentialFileTest, AnUnreadableFileIsAnError) {
  if (geteuid() == 0) GTEST_SKIP() << "root reads everything";
  home_.Write("auth.json", "{}");
  std::filesystem::permissions(home_.Path("auth.json"), std::filesystem::perms::none);
  const auto found = CredentialsOfFile(home_.Path("auth.json"), "registry.example", "");
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("auth.json: "));
}

}  // namespace
}  // namespace moepack::registry

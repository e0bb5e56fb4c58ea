// How an authorizer handles challenges, without any server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "manifest/registry/server/registry_auth.h"
#include "tests/remote/support/quick_settings.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;
using testing::Not;

const Credentials kUser{Credentials::Kind::kBasic, "me", "confidential", "--password-stdin"};
const Credentials kIdentity{Credentials::Kind::kIdentityToken, "", "confidential", "~/auth.json"};
const std::string kHeaderOfUser = "Basic bWU6Y29uZmlkZW50aWFs";

remote::HttpReply Unauthorized(const std::string& url, const std::string& challenge) {
  remote::HttpReply reply;
  reply.status = 401;
  reply.url = remote::ParseUrl(url).value();
  if (!challenge.empty()) reply.fields = {{"www-authenticate", challenge}};
  return reply;
}

class RegistryChallenge : public testing::Test {
 protected:
  // Every name resolves to `resolved`.
  void Use(const Credentials& credentials, const std::vector<std::string>& resolved = {"1.1.1.1"},
           bool plain_http_credentials = false) {
    RegistryAuthOptions options;
    options.client = remote::QuickClient();
    options.find = [credentials]() -> Result<Credentials> { return credentials; };
    options.plain_http_credentials = plain_http_credentials;
    options.resolve = [resolved](const std::string& host) {
      return host == "registry.example" ? std::vector<std::string>{"1.1.1.1"} : resolved;
    };
    auth_ = MakeRegistryAuth(std::move(options));
  }
  // Whether another try makes sense, or the message of the error.
  std::string Refused(const std::string& url, const std::string& challenge,
                      const std::string& used = "") {
    const Result<bool> again = auth_->Refused(Unauthorized(url, challenge), {"s"}, used);
    if (again) return *again ? "again" : "never";
    EXPECT_THAT(Cat(again.error().message, again.error().hint), Not(HasSubstr("confidential")));
    code_ = again.error().code;
    hint_ = again.error().hint;
    return again.error().message;
  }
  std::string Header() { return auth_->HeaderFor({"s"}).value(); }

  AuthorizerPtr auth_;
  Code code_ = Code::kInterrupted;
  std::string hint_;
};

TEST_F(RegistryChallenge, AnswersBasicWithUserAndPassword) {
  Use(kUser);
  EXPECT_EQ(Header(), "");
  EXPECT_EQ(Refused("https://registry.example/v2/", "Basic realm=\"x\""), "again");
  EXPECT_EQ(Header(), kHeaderOfUser);
  EXPECT_EQ(Refused("https://registry.example/v2/", "Basic realm=\"y\"", kHeaderOfUser), "never");
  EXPECT_EQ(Refused("https://registry.example/v2/", "Basic realm=\"x\""), "again");
}

TEST_F(RegistryChallenge, HasNoAnswerToBasicWithoutCredentials) {
  Use({});
  EXPECT_EQ(Refused("https://registry.example/v2/", "Basic realm=\"x\""), "never");
  EXPECT_EQ(Header(), "");
}

TEST_F(RegistryChallenge, PrefersTokensToPasswords) {
  Use(kUser);
  EXPECT_EQ(Refused("https://registry.example/v2/",
                    "Basic realm=\"x\", Bearer realm=\"http://auth.example/token\""),
            "registry.example: token server of the registry: expected https, found http to "
            "auth.example");
}

TEST_F(RegistryChallenge, HasNoAnswerToARefusalWithoutAChallenge) {
  Use(kUser);
  EXPECT_EQ(Refused("https://registry.example/v2/", ""), "never");
  EXPECT_EQ(auth_->Shown(), "no credentials");
}

TEST_F(RegistryChallenge, NamesAnUnsupportedScheme) {
  Use(kUser);
  EXPECT_EQ(Refused("https://registry.example/v2/", "Negotiate abc="),
            "registry.example: login: expected Basic or Bearer, found \"Negotiate\"");
  EXPECT_EQ(code_, Code::kUnsupported);
}

TEST_F(RegistryChallenge, DoesNotSendAnIdentityTokenAsAPassword) {
  Use(kIdentity);
  EXPECT_EQ(Refused("https://registry.example/v2/", "Basic realm=\"x\""),
            "registry.example: login: expected a user and a password, found an identity token in "
            "the credentials from ~/auth.json");
  EXPECT_EQ(code_, Code::kUnsupported);
}

TEST_F(RegistryChallenge, SendsCredentialsOverHttpOnlyOnRequest) {
  for (const Credentials& credentials : {kUser, kIdentity}) {
    Use(credentials);
    EXPECT_EQ(Refused("http://registry.example/v2/", "Bearer realm=\"https://auth.example/token\""),
              Cat("registry.example: login: expected https for ", credentials.Shown(),
                  ", found http to another machine"));
    EXPECT_EQ(code_, Code::kInvalidArgument);
    EXPECT_THAT(hint_, HasSubstr("--plain-http-credentials"));
  }
  Use(kUser);
  EXPECT_THAT(Refused("http://registry.example/v2/", "Basic realm=\"x\""),
              HasSubstr("expected https for credentials"));
  EXPECT_EQ(Header(), "");
  Use(kUser, {"1.1.1.1"}, true);
  EXPECT_EQ(Refused("http://registry.example/v2/", "Basic realm=\"x\""), "again");
  EXPECT_EQ(Header(), kHeaderOfUser);
  Use(kUser);
  EXPECT_EQ(Refused("http://127.0.0.1:5000/v2/", "Basic realm=\"x\""), "again");
  Use({});
  EXPECT_EQ(Refused("http://registry.example/v2/", "Bearer realm=\"http://auth.example/token\""),
            "again");
  // A remote token server does not count as this machine.
  Use(kUser);
  EXPECT_THAT(Refused("http://localhost:5000/v2/", "Bearer realm=\"http://auth.example/token\""),
              HasSubstr("auth.example: login: expected https for credentials"));
}

TEST_F(RegistryChallenge, ARealmThatIsNotAnAddressIsRefused) {
  for (const char* realm : {"", "token", "ftp://auth.example/", "https://", "https://a b/",
                            "//auth.example/token", "file:///etc/passwd"}) {
    Use(kUser);
    EXPECT_EQ(Refused("https://registry.example/v2/", Cat("Bearer realm=\"", realm, "\"")),
              Cat("registry.example: token server of the registry: expected an address, found ",
                  *realm == '\0' ? "none" : "no address"));
    EXPECT_EQ(code_, Code::kIo);
    EXPECT_EQ(Header(), "");
  }
}

TEST_F(RegistryChallenge, APublicRegistryMayNotUseAPrivateTokenServer) {
  for (const char* host : {"127.0.0.1", "localhost", "10.1.2.3", "169.254.169.254", "[::1]",
                           "[fd00::1]", "2130706433", "192.168.0.1:8080"}) {
    Use(kUser);
    EXPECT_THAT(
        Refused("https://registry.example/v2/", Cat("Bearer realm=\"https://", host, "/token\"")),
        HasSubstr("expected a server that is as public as the registry, found "))
        << host;
    EXPECT_EQ(code_, Code::kIo);
  }
  // By the addresses that its name resolves to.
  Use(kUser, {"1.1.1.1", "10.0.0.1"});
  EXPECT_THAT(Refused("https://registry.example/v2/", "Bearer realm=\"https://auth.example/\""),
              HasSubstr("found auth.example, which only this network or this machine can see"));
}

TEST_F(RegistryChallenge, APrivateRegistryMayHaveAPrivateTokenServer) {
  Use(kUser);
  EXPECT_EQ(Refused("https://10.0.0.1/v2/", "Bearer realm=\"https://10.0.0.2/token\""), "again");
  Use(kUser);
  EXPECT_EQ(Refused("https://127.0.0.1/v2/", "Bearer realm=\"https://10.0.0.2/token\""), "again");
  Use(kUser);
  EXPECT_THAT(Refused("https://10.0.0.1/v2/", "Bearer realm=\"https://127.0.0.1/token\""),
              HasSubstr("as public as the registry"));
  Use(kUser, {"10.0.0.1"});
  EXPECT_EQ(Refused("https://corp.example/v2/", "Bearer realm=\"https://auth.example/token\""),
            "again");
  EXPECT_EQ(Refused("https://registry.example/v2/",
                    "Bearer realm=\"https://registry.example:5001/token\""),
            "again");
}

TEST_F(RegistryChallenge, GivesUpOnARegistryThatKeepsChangingItsChallenge) {
  Use(kUser);
  int tries = 0;
  while (tries < 100 &&
         Refused("https://registry.example/v2/",
                 Cat("Bearer realm=\"https://auth.example/", tries, "\"")) == "again")
    ++tries;
  EXPECT_EQ(tries, 4);
}

TEST_F(RegistryChallenge, ReportsAFailureToFindCredentials) {
  RegistryAuthOptions options;
  options.client = remote::QuickClient();
  options.find = []() -> Result<Credentials> {
    return Error{Code::kCorrupt, "~/.docker/config.json: damaged"};
  };
  auth_ = MakeRegistryAuth(std::move(options));
  EXPECT_EQ(Refused("https://registry.example/v2/", "Basic realm=\"x\""),
            "~/.docker/config.json: damaged");
  EXPECT_EQ(Header(), "");
}

}  // namespace
}  // namespace moepack::registry

// Logging in to a registry whose token server counts the requests.
#include "manifest/registry/server/registry_auth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "tests/remote/support/fake_login.h"
#include "tests/remote/support/quick_settings.h"

namespace moepack::registry {
namespace {

using remote::FakeAnswer;
using remote::FakeLogin;
using remote::FakeRequest;
using remote::FaultServer;
using remote::HttpReply;
using remote::ParametersOf;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Kind = Credentials::Kind;
using ScopeList = std::vector<std::string>;

const ScopeList kPull = {"repository:team/model:pull"};
const ScopeList kPush = {"repository:team/model:pull,push"};
const Credentials kMe{Kind::kBasic, "me", "confidential", "~/.docker/config.json"};

class RegistryAuthTest : public testing::Test {
 protected:
  void Use(Credentials credentials) {
    RegistryAuthOptions options;
    options.client = client_;
    options.find = [this, credentials]() -> Result<Credentials> {
      ++found_;
      return credentials;
    };
    options.now = [this] { return login_.Now(); };
    auth_ = MakeRegistryAuth(std::move(options));
  }
  void SetUp() override { Use(kMe); }

  // Sends a request as a client does: with the authorizer's header, and again if it has another
  // one.
  Result<HttpReply> Ask(const std::string& path, const ScopeList& scopes) {
    for (int tried = 0;; ++tried) {
      remote::HttpRequest request;
      request.url = remote::ParseUrl(login_.registry().origin() + path).value();
      request.name = path;
      SHARD_TRY(request.authorization, auth_->HeaderFor(scopes));
      SHARD_TRY(HttpReply reply, client_->Fetch(request, 1u << 20));
      if (reply.status != 401 || tried == 1) return reply;
      SHARD_TRY(const bool again, auth_->Refused(reply, scopes, request.authorization));
      if (!again) return reply;
    }
  }
  int StatusOf(const std::string& path, const ScopeList& scopes = kPull) {
    const auto reply = Ask(path, scopes);
    EXPECT_TRUE(reply) << reply.error().message;
    return reply ? reply->status : 0;
  }
  Error Failure(const std::string& path = kBlob, const ScopeList& scopes = kPull) {
    const auto reply = Ask(path, scopes);
    EXPECT_FALSE(reply);
    if (reply) return {};
    const std::string all = Cat(reply.error().message, reply.error().hint);
    // The password, and user and password in base64.
    EXPECT_THAT(all, Not(HasSubstr("confidential")));
    EXPECT_THAT(all, Not(HasSubstr("bWU6Y29uZmlkZW50aWFs")));
    return reply.error();
  }
  std::vector<FakeRequest> TokenRequests() { return login_.token_server().requests(); }
  // Refusals by the registry.
  size_t Asked() { return login_.registry().requests().size(); }

  inline static const std::string kBlob = "/v2/team/model/blobs/sha256:1";
  FakeLogin login_;
  remote::HttpClientPtr client_ = remote::QuickClient();
  AuthorizerPtr auth_;
  int found_ = 0;
};

TEST_F(RegistryAuthTest, LooksForNoCredentialsUntilTheRegistryAsks) {
  EXPECT_EQ(auth_->HeaderFor(kPull).value(), "");
  EXPECT_EQ(auth_->Shown(), "no credentials");
  EXPECT_EQ(found_, 0);
  EXPECT_EQ(StatusOf(kBlob), 200);
  EXPECT_EQ(StatusOf(kBlob), 200);
  EXPECT_EQ(found_, 1);
  EXPECT_EQ(auth_->Shown(), "credentials from ~/.docker/config.json (user me)");
  EXPECT_EQ(Asked(), 3u);  // one of which was refused
}

TEST_F(RegistryAuthTest, RequestsTokensAsTheProtocolSays) {
  const ScopeList mount = {"repository:team/other:pull", "repository:team/model:pull,push"};
  EXPECT_EQ(StatusOf("/v2/team/model/blobs/uploads/?mount=sha256:1&from=team/other", mount), 200);
  ASSERT_EQ(TokenRequests().size(), 1u);
  const FakeRequest request = TokenRequests()[0];
  EXPECT_EQ(request.method, "GET");
  EXPECT_EQ(request.path, "/token");
  EXPECT_EQ(request.Field("authorization"), "Basic bWU6Y29uZmlkZW50aWFs");
  EXPECT_THAT(ParametersOf(request.query, "x"), ElementsAre("1"));
  EXPECT_THAT(ParametersOf(request.query, "service"), ElementsAre("the registry"));
  EXPECT_THAT(ParametersOf(request.query, "scope"),
              ElementsAre("repository:team/model:pull,push", "repository:team/other:pull"));
  // A single repository needs another token.
  EXPECT_EQ(StatusOf(kBlob, kPush), 200);
  EXPECT_EQ(TokenRequests().size(), 2u);
  // The order of scopes does not make another set.
  EXPECT_EQ(StatusOf("/v2/team/model/blobs/uploads/?from=team/other", {mount[1], mount[0]}), 200);
  EXPECT_EQ(TokenRequests().size(), 2u);
}

TEST_F(RegistryAuthTest, RequestsTheScopesOfTheChallengeByDefault) {
  EXPECT_EQ(StatusOf("/v2/", {}), 200);
  EXPECT_THAT(login_.asked_scopes(), ElementsAre("registry:catalog:*"));
}

TEST_F(RegistryAuthTest, RequestsAnonymousTokensWithoutCredentials) {
  Use({});
  login_.anonymous = true;
  EXPECT_EQ(StatusOf(kBlob), 200);
  ASSERT_EQ(TokenRequests().size(), 1u);
  EXPECT_EQ(TokenRequests()[0].Field("authorization"), "");
}

TEST_F(RegistryAuthTest, QuotesATokenServerThatRefusesAnonymousTokens) {
  Use({});
  const Error error = Failure();
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_EQ(error.message,
            "127.0.0.1: token for repository:team/model:pull: expected a token, found status 401, "
            "\"{\\\"details\\\":\\\"incorrect username or password\\\"}\"; asked with no "
            "credentials");
  EXPECT_THAT(error.hint, HasSubstr("log in"));
}

TEST_F(RegistryAuthTest, ReportsAWrongPasswordWithItsOriginAndTheScope) {
  login_.password = "another";
  const Error error = Failure(kBlob, kPush);
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_THAT(error.message, HasSubstr("token for repository:team/model:pull,push: expected a "
                                       "token, found status 401"));
  EXPECT_THAT(error.message,
              HasSubstr("asked with credentials from ~/.docker/config.json (user me)"));
  EXPECT_THAT(error.hint, HasSubstr("password"));
}

TEST_F(RegistryAuthTest, DoesNotQuoteAServerThatRepeatsASecret) {
  for (const int status : {401, 400, 503}) {
    for (const char* body : {"wrong password: confidential", "Basic bWU6Y29uZmlkZW50aWFs"}) {
      login_.token_server().SetFault(
          [&](const FakeRequest&, FakeAnswer& answer) { answer = remote::Plain(status, body); });
      EXPECT_THAT(Failure().message, HasSubstr(Cat("found status ", status)));
    }
  }
}

// A token of two seconds; the margin is 20 % of it.
TEST_F(RegistryAuthTest, RenewsTokensBeforeTheyExpire) {
  login_.life = 2;
  login_.answer = "\"token\":\"T\",\"expires_in\":2";
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(StatusOf(kBlob), 200) << i;
    login_.Advance(milliseconds(100));
  }
  EXPECT_EQ(Asked(), 101u);               // only the first was refused
  EXPECT_EQ(TokenRequests().size(), 7u);  // 100 requests, one token for 16 of them
}

TEST_F(RegistryAuthTest, RenewsWithAMarginOfAFifthOrOneMinute) {
  const std::pair<int, int> cases[] = {{60, 48},   {100, 80},  {120, 60},
                                       {200, 140}, {300, 240}, {3600, 2880}};
  for (const auto& [life, good_for] : cases) {
    Use(kMe);
    login_.life = life;
    login_.answer = Cat("\"token\":\"T\",\"expires_in\":", life);
    EXPECT_EQ(StatusOf(kBlob), 200);
    const size_t before = TokenRequests().size();
    login_.Advance(seconds(good_for) - milliseconds(1));
    EXPECT_EQ(StatusOf(kBlob), 200);
    EXPECT_EQ(TokenRequests().size(), before) << life;
    login_.Advance(milliseconds(1));
    EXPECT_EQ(StatusOf(kBlob), 200);
    EXPECT_EQ(TokenRequests().size(), before + 1) << life;
  }
}

TEST_F(RegistryAuthTest, ATokenWithoutALifetimeIsValidForAMinute) {
  login_.life = 60;
  login_.answer = "\"access_token\":\"T\"";
  for (int i = 0; i < 120; ++i) {
    EXPECT_EQ(StatusOf(kBlob), 200) << i;
    login_.Advance(seconds(1));
  }
  EXPECT_EQ(Asked(), 121u);
  EXPECT_EQ(TokenRequests().size(), 3u);
}

TEST_F(RegistryAuthTest, UsesATokenWithALifetimeOfZeroOnce) {
  login_.life = 1;
  login_.answer = "\"token\":\"T\",\"expires_in\":0";
  for (int i = 0; i < 5; ++i) EXPECT_EQ(StatusOf(kBlob), 200);
  EXPECT_EQ(TokenRequests().size(), 5u);
}

// The server's clock runs faster than it says.
TEST_F(RegistryAuthTest, ReplacesAnEarlyExpiredTokenOnce) {
  login_.life = 30;
  EXPECT_EQ(StatusOf(kBlob), 200);
  login_.Advance(seconds(100));
  EXPECT_EQ(StatusOf(kBlob), 200);
  EXPECT_EQ(TokenRequests().size(), 2u);
  login_.Advance(seconds(100));
  login_.life = 0;
  EXPECT_EQ(StatusOf(kBlob), 401);  // the new one is refused too: no third one
  EXPECT_EQ(TokenRequests().size(), 3u);
}

TEST_F(RegistryAuthTest, GivesUpIfAFreshTokenIsRefused) {
  login_.life = 0;
  EXPECT_EQ(StatusOf(kBlob), 401);
  EXPECT_EQ(TokenRequests().size(), 1u);
  const std::string header = auth_->HeaderFor(kPull).value();
  HttpReply reply;
  reply.status = 401;
  reply.fields = {{"www-authenticate", login_.Challenge()}};
  reply.url = remote::ParseUrl(login_.registry().origin()).value();
  EXPECT_FALSE(auth_->Refused(reply, kPull, header).value());
  reply.fields.clear();  // the previous one stays valid
  EXPECT_FALSE(auth_->Refused(reply, kPull, header).value());
  // A header that another thread had before is replaced by the current one.
  EXPECT_TRUE(auth_->Refused(reply, kPull, "Bearer older").value());
  EXPECT_EQ(auth_->HeaderFor(kPull).value(), header);
}

TEST_F(RegistryAuthTest, SeveralThreadsRequestOneToken) {
  login_.token_server().SetDelay(milliseconds(50));
  const auto work = [&](size_t) -> Status {
    SHARD_TRY(const HttpReply reply, Ask(kBlob, kPull));
    return reply.status == 200 ? Ok() : Status(Error{Code::kIo, Cat(reply.status)});
  };
  const Status first = ParallelFor(16, 8, work);
  EXPECT_TRUE(first) << first.error().message;
  EXPECT_EQ(TokenRequests().size(), 1u);
  EXPECT_EQ(found_, 1);
  // The same happens if it was revoked.
  login_.ForgetTokens();
  login_.Advance(seconds(10));
  const Status second = ParallelFor(16, 8, work);
  EXPECT_TRUE(second) << second.error().message;
  EXPECT_EQ(TokenRequests().size(), 2u);
}

TEST_F(RegistryAuthTest, WaitingThreadsGetTheFailureToo) {
  EXPECT_EQ(StatusOf(kBlob), 200);
  login_.password = "another";
  login_.token_server().SetDelay(milliseconds(50));
  std::atomic<int> failed{0};
  const Status all = ParallelFor(4, 4, [&](size_t) -> Status {
    const auto header = auth_->HeaderFor(kPush);
    failed += !header && header.error().message.find("found status 401") != std::string::npos;
    return Ok();
  });
  EXPECT_TRUE(all);
  EXPECT_EQ(failed, 4);
}

TEST_F(RegistryAuthTest, ExchangesAnIdentityTokenForTokens) {
  Use({Kind::kIdentityToken, "", "id+ent/ity=", "docker-credential-x"});
  login_.identity_token = "id+ent/ity=";
  EXPECT_EQ(StatusOf("/v2/team/model/blobs/uploads/?from=team/other",
                     {kPush[0], "repository:team/other:pull"}),
            200);
  ASSERT_EQ(TokenRequests().size(), 1u);
  const FakeRequest request = TokenRequests()[0];
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.Field("authorization"), "");
  EXPECT_EQ(request.Field("content-type"), "application/x-www-form-urlencoded");
  EXPECT_EQ(request.query, "x=1");
  EXPECT_THAT(ParametersOf(request.body, "client_id"), ElementsAre("moepack"));
  EXPECT_THAT(ParametersOf(request.body, "service"), ElementsAre("the registry"));
  EXPECT_THAT(ParametersOf(request.body, "scope"),
              ElementsAre("repository:team/model:pull,push repository:team/other:pull"));
}

TEST_F(RegistryAuthTest, DoesNotShowARefusedIdentityToken) {
  Use({Kind::kIdentityToken, "", "confidential", "docker-credential-x"});
  for (const int status : {401, 503}) {
    login_.token_server().SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
      answer = remote::Plain(status, "no: " + request.body);
    });
    const Error error = Failure();
    EXPECT_THAT(error.message, HasSubstr(Cat("found status ", status)));
  }
}

TEST_F(RegistryAuthTest, SendsATokenOfTheUserAsItIs) {
  Use({Kind::kBearer, "", "confidential", "--token-file"});
  EXPECT_EQ(StatusOf(kBlob), 401);
  EXPECT_EQ(login_.registry().requests().back().Field("authorization"), "Bearer confidential");
  EXPECT_THAT(TokenRequests(), IsEmpty());
}

TEST_F(RegistryAuthTest, AReplyThatIsTooLargeIsRefused) {
  login_.answer = Cat("\"token\":\"T\",\"x\":\"", std::string(1u << 20, 'x'), "\"");
  EXPECT_THAT(Failure().message, HasSubstr("answer: expected at most 1048576 bytes, found more"));
}

TEST_F(RegistryAuthTest, AReplyWithoutATokenIsRefused) {
  login_.answer = "\"details\":\"confidential\"";
  EXPECT_THAT(Failure().message, HasSubstr("expected JSON with \"token\" or \"access_token\""));
}

TEST_F(RegistryAuthTest, DoesNotFollowARedirectOfTheTokenServer) {
  FaultServer other;
  login_.token_server().SetFault([&](const FakeRequest&, FakeAnswer& answer) {
    answer = remote::LeadTo(302, other.origin() + "/token");
  });
  EXPECT_THAT(Failure().message, HasSubstr("expected a token, found status 302"));
  EXPECT_THAT(other.requests(), IsEmpty());
}

}  // namespace
}  // namespace moepack::registry

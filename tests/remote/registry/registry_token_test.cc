// A docker-registry that trusts a token server of the test: who may do what, and tokens that expire
// while they are needed.
#include <gmock/gmock.h>

#include <thread>

#include "libshard/base/digest.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/server/registry_auth.h"
#include "manifest/registry/server/server_store.h"
#include "tests/remote/support/quick_settings.h"
#include "tests/remote/support/registry_commands.h"
#include "tests/remote/support/token_issuer.h"

namespace moepack::remote {
namespace {

using cli::ToolRun;
using registry::Credentials;
using registry::ServerStore;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kAsMe = " --username me --password-file password";
const std::string kAsGuest = " --username guest --password-file password";

// "me" may do everything with the repositories of two teams. Everybody may read those of "open";
// "guest", who has one of their own, may read no others.
class RegistryTokens : public RegistryCommands {
 protected:
  RegistryTokens() {
    cli::WriteAll(workspace_ / "password", Cat(TokenIssuer::kPassword, "\n"));
    for (const char* repositories : {"open/", "closed/"})
      issuer_.Allow("me", repositories, {"pull", "push"});
    for (const char* user : {"", "guest"}) issuer_.Allow(user, "open/", {"pull"});
    issuer_.Allow("guest", "guest/", {"pull", "push"});
  }
  DockerRegistry::Settings RegistrySettings() const override {
    return {.more = issuer_.RegistrySettings()};
  }
  // Expects status 5 and no secrets in any output.
  std::string Refused(const std::string& arguments) const {
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, 5) << arguments << "\n" << run.err;
    for (const char* secret : {TokenIssuer::kPassword, "ZGVudGlhb", "eyJ"})
      EXPECT_THAT(run.out + run.err, Not(HasSubstr(secret)));
    return run.err;
  }
  size_t TokensAskedFor() const { return issuer_.asked_scopes().size(); }
  // For the publish that reported it: how each blob came to the registry.
  static std::set<std::string> HowOf(const nlohmann::json& report) {
    std::set<std::string> how;
    for (const auto& blob : report["blobs"]) {
      if (!blob["blob"].get<std::string>().starts_with("manifest ")) how.insert(blob["how"]);
    }
    return how;
  }

  TokenIssuer issuer_{workspace_ / "issuer"};
};

TEST_F(RegistryTokens, AuthorizedUsersPublishAndEverybodyReads) {
  const auto report = Publish("out", Ref("v1", "open/model"), kAsMe);
  EXPECT_GT(report["bytes_sent"], 7'000'000);
  EXPECT_THAT(issuer_.asked_scopes(),
              testing::UnorderedElementsAre("repository:open/model:pull",
                                            "repository:open/model:pull,push"));
  Runs("pull " + Ref("v1", "open/model") + " --group 1 -o pulled");
  Runs("verify pulled --group 1");
  EXPECT_EQ(issuer_.asked_scopes().back(), "repository:open/model:pull");
  EXPECT_EQ(TokensAskedFor(), 3u);
  EXPECT_THAT(Runs("ls oci://" + registry_->host() + "/open/model" + kAsGuest).out,
              HasSubstr("4 manifests"));
}

TEST_F(RegistryTokens, ReportsAWrongPasswordWithItsOrigin) {
  cli::WriteAll(workspace_ / "password", "wrong\n");
  EXPECT_EQ(
      Refused("publish out " + Ref("v1", "open/model") + kAsMe),
      "error: 127.0.0.1: token for repository:open/model:pull: expected a token, found status 401, "
      "\"{\\\"details\\\":\\\"incorrect username or password\\\"}\"; asked with credentials from "
      "--password-file (user me)\nhint: check the user's name and password or log in again, and "
      "check that they may do this in this repository\n");
  EXPECT_EQ(TokensAskedFor(), 1u);
}

TEST_F(RegistryTokens, ReportsTheScopeThatAUserLacks) {
  const std::string words = Cat("/open/model: upload: expected access to ",
                                "repository:open/model:pull,push, found status 401 from 127.0.0.1");
  EXPECT_THAT(Refused("publish out " + Ref("v1", "open/model")),
              AllOf(HasSubstr(words), HasSubstr("; asked with no credentials\nhint: log in: ")));
  EXPECT_THAT(Refused("publish out " + Ref("v1", "open/model") + kAsGuest),
              AllOf(HasSubstr(words),
                    HasSubstr("; asked with credentials from --password-file (user guest)\n")));
}

TEST_F(RegistryTokens, OnlyAuthorizedUsersReadAPrivateRepository) {
  Publish("out", Ref("v1", "closed/model"), kAsMe);
  for (const std::string& who : {std::string(), kAsGuest}) {
    EXPECT_THAT(Refused("pull " + Ref("v1", "closed/model") + " --group 1 -o pulled" + who),
                HasSubstr("/closed/model:v1: expected access to repository:closed/model:pull, "
                          "found status 401 from 127.0.0.1"));
  }
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "pulled"));
  // A token of the user is used as it is.
  Runs("ls oci://" + registry_->host() + "/closed/model" + kAsMe);
  cli::WriteAll(workspace_ / "token", issuer_.last().substr(std::string("Bearer ").size()) + "\n");
  const size_t before = TokensAskedFor();
  Runs("pull " + Ref("v1", "closed/model") + " --group 1 --token-file token -o pulled");
  EXPECT_EQ(TokensAskedFor(), before);
}

TEST_F(RegistryTokens, RequestsTheScopesOfBothRepositoriesForAMount) {
  Publish("out", Ref("v1", "closed/model"), kAsMe);
  const auto report = Publish("out", Ref("v1", "open/copy"), "--mount-from closed/model" + kAsMe);
  EXPECT_THAT(issuer_.asked_scopes(),
              Contains("repository:closed/model:pull repository:open/copy:pull,push"));
  EXPECT_EQ(HowOf(report), std::set<std::string>({"mounted"}));
}

TEST_F(RegistryTokens, SendsBlobsThatItMayNotMount) {
  Publish("out", Ref("v1", "closed/model"), kAsMe);
  const auto report =
      Publish("out", Ref("v1", "guest/copy"), "--mount-from closed/model" + kAsGuest);
  EXPECT_THAT(issuer_.asked_scopes(),
              Contains("repository:closed/model:pull repository:guest/copy:pull,push"));
  EXPECT_EQ(HowOf(report), std::set<std::string>({"sent"}));
}

TEST_F(RegistryTokens, RenewsTokensThatExpireAtOnceForEveryRequest) {
  issuer_.told_life = 0;
  for (const char* how : {"whole", "chunked --chunk-size 1MiB"}) {
    const std::string reference = Ref("v1", Cat("closed/", how[0]));
    const size_t before = TokensAskedFor();
    const auto report = Publish("out", reference, Cat("--upload ", how, kAsMe));
    EXPECT_GT(TokensAskedFor() - before, 2 * report["blobs"].size());
    Runs(Cat("pull ", reference, " --group 1 -o pulled-", how[0], kAsMe));
  }
}

// The registry rejects a token before the client's clock does.
TEST_F(RegistryTokens, ReplacesATokenThatTheRegistryNoLongerAccepts) {
  std::chrono::steady_clock::time_point now;
  registry::RegistryAuthOptions options;
  options.client = QuickClient();
  options.find = []() -> Result<Credentials> {
    return Credentials{Credentials::Kind::kBasic, "me", TokenIssuer::kPassword, "the test"};
  };
  options.now = [&] { return now; };
  const auto store =
      registry::OpenServer(registry_->host() + "/closed/model",
                           {QuickSettings(), registry::MakeRegistryAuth(std::move(options)), {}});
  ASSERT_TRUE(store) << store.error().message;
  const auto add = [&](const std::string& text) -> std::string {
    const std::string digest = registry::DigestOf(Sha256Hex(text));
    const auto added = (*store)->AddText({registry::kConfigType, digest, text.size()}, text);
    return added ? added->how : added.error().message;
  };
  issuer_.signed_life = -54;  // docker-registry adds a minute
  ASSERT_EQ(add("one"), "sent");
  EXPECT_EQ(TokensAskedFor(), 2u);
  const std::string first = issuer_.last();
  HttpClient client(QuickSettings());
  HttpRequest ping;
  ping.url = ParseUrl(Cat("http://", registry_->host(), "/v2/")).value();
  ping.authorization = first;
  for (int status = 200; status == 200;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    status = client.Fetch(ping, 4096)->status;
  }
  now += std::chrono::seconds(10);
  issuer_.signed_life = 300;
  EXPECT_EQ(add("two"), "sent");
  EXPECT_EQ(TokensAskedFor(), 4u);
  EXPECT_NE(issuer_.last(), first);
}

TEST_F(RegistryTokens, StopsIfTheRegistryRejectsItsToken) {
  issuer_.for_another_service = true;
  EXPECT_THAT(Refused("publish out " + Ref("v1", "open/model") + kAsMe),
              HasSubstr("expected access to repository:open/model:pull, found status 401 from "
                        "127.0.0.1, UNAUTHORIZED: \"authentication required\"; asked with "
                        "credentials from --password-file (user me)\n"));
  EXPECT_EQ(TokensAskedFor(), 1u);
}

}  // namespace
}  // namespace moepack::remote

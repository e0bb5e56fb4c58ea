// A docker-registry behind nginx, which handles TLS for it: which certificates are trusted, and
// that passwords and tokens are sent only over TLS, whatever the two servers say.
#include <gmock/gmock.h>

#include "libshard/remote/http/http_client.h"
#include "libshard/remote/http/url.h"
#include "tests/remote/support/nginx.h"
#include "tests/remote/support/quick_settings.h"
#include "tests/remote/support/registry_commands.h"
#include "tests/remote/support/test_authority.h"
#include "tests/remote/support/token_issuer.h"

namespace moepack::remote {
namespace {

using cli::ReadFile;
using cli::ToolRun;
using testing::HasSubstr;
using testing::Not;

const std::string kLogin = " --username me --password-file password";
const std::string kTrust = " --cacert tls/ca.pem" + kLogin;
constexpr const char* kTellsHost = "proxy_set_header Host $http_host;\n";
constexpr const char* kTellsScheme = "proxy_set_header X-Forwarded-Proto $scheme;\n";

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class RegistryBehindTls : public RegistryCommands {
 protected:
  RegistryBehindTls() {
    authority_.Issue("server", "DNS:localhost");
    cli::WriteAll(workspace_ / "password", "confidential\n");
  }
  void SetUp() override {
    if (FindProgram("nginx").empty()) GTEST_SKIP() << "nginx is not installed";
    RegistryCommands::SetUp();
  }
  DockerRegistry::Settings RegistrySettings() const override {
    return DockerRegistry::WithPassword(workspace_ / "users");
  }
  // nginx's settings in addition to proxying for the registry.
  struct Proxy {
    std::string tells = Cat(kTellsHost, kTellsScheme);
    std::string server = "";  // more directives
    std::string most_body = "0";
    std::string certificate = "server";
  };
  // `asked` gets a line for every request, with its credentials.
  std::vector<std::string> Command(uint16_t port, const Proxy& proxy) const {
    const std::string server = Cat(
        "ssl_certificate ", authority_.Path(proxy.certificate + ".pem"), ";\nssl_certificate_key ",
        authority_.Path(proxy.certificate + ".key"), ";\nclient_max_body_size ", proxy.most_body,
        ";\n", proxy.server, "\nlocation / {\n", LeadTo(proxy), "}");
    const std::string http =
        Cat("log_format asked '$scheme $request_method $status \"$http_authorization\" $uri';\n",
            "access_log ", (workspace_ / "asked").string(), " asked;\n");
    return NginxCommand(workspace_ / "nginx", port, "ssl http2", server, http);
  }
  std::string LeadTo(const Proxy& proxy) const {
    return Cat("proxy_pass http://", registry_->host(), ";\nproxy_http_version 1.1;\n",
               "proxy_request_buffering off;\n", proxy.tells);
  }
  void Start(const Proxy& proxy) {
    nginx_.emplace([&](uint16_t port) { return Command(port, proxy); }, workspace_ / "nginx.log");
    ASSERT_TRUE(nginx_->started()) << ReadFile(workspace_ / "nginx/error.log");
  }
  std::string Name(const std::string& host = "localhost",
                   const std::string& repository = "team/model") const {
    return Cat("oci://", host, ":", nginx_->port(), "/", repository);
  }
  // Every request with credentials that reached nginx came over TLS.
  void ExpectCredentialsByTlsOnly(const char* kind) const {
    const std::string asked = ReadFile(workspace_ / "asked");
    size_t with = 0;
    for (const std::string& line : Split(asked, '\n')) {
      if (line.find(kind) == std::string::npos) continue;
      EXPECT_TRUE(line.starts_with("https ")) << line;
      ++with;
    }
    EXPECT_GT(with, 0u) << asked;
  }
  // Asks in every way, and expects status 7 with these words.
  void ExpectUnavailable(const std::string& name, const std::string& options,
                         const std::string& words, const std::string& hint) const {
    for (const std::string& command :
         {Cat("publish out ", name, ":v1"), Cat("pull ", name, ":v1 --group 1 -o pulled"),
          Cat("ls ", name), Cat("copy ", name, ":v1 layout:copied")}) {
      const ToolRun run = workspace_.Moepack(command + options);
      EXPECT_EQ(run.status, 7) << command;
      EXPECT_THAT(run.err, HasSubstr(Cat("error: ", name, ": ", words)));
      EXPECT_THAT(run.err, HasSubstr(Cat("\nhint: ", hint)));
    }
    EXPECT_FALSE(std::filesystem::exists(workspace_ / "pulled"));
    EXPECT_THAT(registry_->requests(), testing::IsEmpty());
    EXPECT_THAT(ReadFile(workspace_ / "asked"), Not(HasSubstr("Basic")));
  }

  const TestAuthority authority_{workspace_ / "tls"};
  std::optional<RealServer> nginx_;
  ScopedVariable bundle_{"CURL_CA_BUNDLE", ""}, file_{"SSL_CERT_FILE", ""},
      directory_{"SSL_CERT_DIR", ""};
};

TEST_F(RegistryBehindTls, PublishesAndPulls) {
  Start({});
  const ToolRun published = Runs("publish out " + Name() + ":v1 --json" + kTrust);
  EXPECT_THAT(published.err, Not(HasSubstr("warning")));
  const auto report = nlohmann::json::parse(published.out);
  EXPECT_GT(report["bytes_sent"], 7'000'000);
  EXPECT_EQ(report["digest"], Publish("out", "layout:models:v1")["digest"]);
  const ScopedVariable file("SSL_CERT_FILE", workspace_ / "tls/ca.pem");
  Runs("pull " + Name() + ":v1 --group 1 -o pulled" + kLogin);
  Runs("verify pulled --group 1");
  EXPECT_THAT(Runs("ls " + Name() + kLogin).out, HasSubstr("4 manifests"));
  Runs("copy " + Name() + ":v1 " + Name("localhost", "other/model") + ":v1" + kLogin);
  ExpectCredentialsByTlsOnly("Basic");
}

TEST_F(RegistryBehindTls, RefusesAnUnknownAuthorityBeforeSendingAnything) {
  Start({});
  const std::string words = "localhost: SSL certificate problem: ";
  const std::string hint =
      "check the name in the address; for an authority that this machine does not know set "
      "SSL_CERT_FILE to its certificates, or name them with --cacert where the server is a "
      "registry\n";
  ExpectUnavailable(Name(), kLogin, words, hint);
  const TestAuthority other(workspace_ / "other", "another authority");
  ExpectUnavailable(Name(), " --cacert other/ca.pem" + kLogin, words, hint);
}

// A newly made authority: OpenSSL then finds one of the right name, and says little.
TEST_F(RegistryBehindTls, RefusesAnotherAuthorityOfTheSameName) {
  Start({});
  const TestAuthority other(workspace_ / "other");
  HttpSettings settings = QuickSettings();
  settings.ca_file = other.Path("ca.pem");
  HttpRequest ping;
  ping.url = ParseUrl(Cat("https://localhost:", nginx_->port(), "/v2/")).value();
  const auto reply = HttpClient(settings).Fetch(ping, 4096);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kUnavailable);
  EXPECT_EQ(reply.error().hint,
            "check that the server speaks https at this port, and that SSL_CERT_FILE or --cacert "
            "has its authority, not an older one of the same name");
}

TEST_F(RegistryBehindTls, ACertificateForAnotherNameIsRefused) {
  Start({});
  ExpectUnavailable(Name("127.0.0.1"), kTrust,
                    "127.0.0.1: SSL: ", "check the name in the address; ");
}

TEST_F(RegistryBehindTls, RefusesExpiredAndFutureCertificates) {
  authority_.Issue("old", "DNS:localhost", TestAuthority::kPast);
  authority_.Issue("young", "DNS:localhost", TestAuthority::kFuture);
  const std::string hint =
      "check the clock of this machine; if it is right, the server needs another certificate\n";
  Start({.certificate = "old"});
  ExpectUnavailable(Name(), kTrust, "localhost: SSL certificate problem: certificate has expired",
                    hint);
  Start({.certificate = "young"});
  ExpectUnavailable(Name(), kTrust,
                    "localhost: SSL certificate problem: certificate is not yet valid", hint);
}

TEST_F(RegistryBehindTls, TheClientPresentsItsCertificate) {
  authority_.Issue("client", "DNS:client");
  Start({.server = Cat("ssl_verify_client on;\nssl_client_certificate ", authority_.Path("ca.pem"),
                       ";\n")});
  const ToolRun refused = workspace_.Moepack("publish out " + Name() + ":v1" + kTrust);
  EXPECT_EQ(refused.status, 4) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("/v2/, found status 400, a web page: \"400 No required SSL "
                                     "certificate was sent\"\n"));
  Runs("publish out " + Name() + ":v1 --client-cert tls/client.pem --client-key tls/client.key" +
       kTrust);
}

// docker-registry then continues an upload over http.
TEST_F(RegistryBehindTls, HandlesAProxyThatForgetsTheSchemeAndWarnsOnce) {
  for (const std::string tells : {kTellsHost, "proxy_set_header Host $host;\n"}) {
    Start({.tells = tells});
    const std::string name = Name("localhost", Cat("team/model", nginx_->port()));
    for (const char* how : {"whole", "chunked --chunk-size 1MiB"}) {
      const ToolRun run =
          Runs(Cat("publish out ", name, "-", how[0], ":v1 --upload ", how, kTrust));
      EXPECT_EQ(CountOf(run.err, "warning: "), 1u) << run.err;
      EXPECT_THAT(run.err, HasSubstr("its proxy should send X-Forwarded-Proto\n"));
    }
    Runs("pull " + name + "-c:v1 --group 1 --force -o pulled" + kTrust);
  }
  ExpectCredentialsByTlsOnly("Basic");
}

TEST_F(RegistryBehindTls, SendsNoUploadToAnotherHostOverHttp) {
  Start({.tells = "proxy_redirect off;\n"});
  const ToolRun run = workspace_.Moepack("publish out " + Name() + ":v1" + kTrust);
  EXPECT_EQ(run.status, 5);
  EXPECT_THAT(run.err,
              HasSubstr(Cat("error: ", Name(),
                            ": upload: Location: expected https, found http to 127.0.0.1\n"
                            "hint: anybody in between can read what goes to that address; if it is "
                            "the registry's own, its proxy should send Host and "
                            "X-Forwarded-Proto\n")));
  EXPECT_EQ(workspace_.Moepack("ls " + Name() + kTrust).status, 5);  // nothing is there
  for (const DockerRegistry::Request& request : registry_->requests())
    EXPECT_THAT(request.method, Not(testing::AnyOf("PUT", "PATCH"))) << request.path;
  ExpectCredentialsByTlsOnly("Basic");
}

TEST_F(RegistryBehindTls, FetchesBlobsElsewhereWithoutCredentials) {
  Start({});
  const auto report =
      nlohmann::json::parse(Runs("publish out " + Name() + ":v1 --json" + kTrust).out);
  FaultServer storage;
  for (const auto& [name, digest] : DigestsOf(report))
    storage.Add("/v2/team/model/blobs/" + digest, ReadFile(registry_->BlobPath(digest)));
  const auto lead_to = [&](const std::string& origin) {
    Start({.server = Cat("location ~ ^/v2/team/model/blobs/sha256: {\n",
                         "if ($request_method = GET) {\nreturn 307 ", origin, "$request_uri;\n}\n",
                         LeadTo(Proxy()), "}")});
  };
  lead_to(storage.origin());
  Runs("pull " + Name() + ":v1 --group 1 -o pulled" + kTrust);
  Runs("verify pulled --group 1");
  EXPECT_FALSE(storage.requests().empty());
  for (const FakeRequest& request : storage.requests())
    EXPECT_EQ(request.Field("authorization"), "") << request.path;
  // For a remote machine it must be https.
  lead_to("http://storage.example");
  const ToolRun run = workspace_.Moepack("pull " + Name() + ":v1 --group 0 -o no" + kTrust);
  EXPECT_EQ(run.status, 5);
  EXPECT_THAT(run.err, HasSubstr("redirect: expected https, found http to storage.example\n"));
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "no"));
}

TEST_F(RegistryBehindTls, SendsChunksIfARequestIsTooLarge) {
  Start({.most_body = "1m"});
  const ToolRun whole = workspace_.Moepack("publish out " + Name() + ":v1 --upload whole" + kTrust);
  EXPECT_EQ(whole.status, 5);
  EXPECT_THAT(whole.err, HasSubstr("found status 413 (too large), a web page: \"413 Request Entity "
                                   "Too Large\"\nhint: raise the limit"));
  const ToolRun run = Runs("publish out " + Name() + ":v1" + kTrust);
  EXPECT_THAT(run.err, HasSubstr("; sending it in chunks\n"));
  Runs("pull " + Name() + ":v1 --group 1 -o pulled" + kTrust);
  EXPECT_THAT(ReadFile(workspace_ / "asked"), HasSubstr("https PATCH 202 "));
}

// A second nginx handles TLS for the token server.
class TokensBehindTls : public RegistryBehindTls {
 protected:
  void SetUp() override {
    if (FindProgram("nginx").empty()) GTEST_SKIP() << "nginx is not installed";
    issuer_.Allow("me", "team/", {"pull", "push"});
  }
  void StartBoth(const std::string& realm) {
    realm_ = realm;
    RegistryBehindTls::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) Start({});
  }
  DockerRegistry::Settings RegistrySettings() const override {
    return {.more = issuer_.RegistrySettings(realm_)};
  }
  TokenIssuer issuer_{workspace_ / "issuer"};
  std::string realm_;
};

TEST_F(TokensBehindTls, UsesTlsForTheTokenServerToo) {
  const RealServer token_server(
      [&](uint16_t port) {
        return NginxCommand(workspace_ / "token-nginx", port, "ssl http2",
                            Cat("ssl_certificate ", authority_.Path("server.pem"),
                                ";\nssl_certificate_key ", authority_.Path("server.key"),
                                ";\nlocation / {\nproxy_pass ", issuer_.server().origin(), ";\n}"));
      },
      workspace_ / "nginx.log");
  ASSERT_TRUE(token_server.started()) << ReadFile(workspace_ / "token-nginx/error.log");
  StartBoth(Cat("https://localhost:", token_server.port(), "/token"));
  if (IsSkipped() || HasFatalFailure()) return;
  Runs("publish out " + Name() + ":v1" + kTrust);
  Runs("pull " + Name() + ":v1 --group 1 -o pulled" + kTrust);
  ExpectCredentialsByTlsOnly("Bearer");
}

TEST_F(TokensBehindTls, SendsNoPasswordToATokenServerOverHttp) {
  StartBoth(issuer_.server().origin() + "/token");
  if (IsSkipped() || HasFatalFailure()) return;
  const ToolRun run = workspace_.Moepack("publish out " + Name() + ":v1" + kTrust);
  EXPECT_EQ(run.status, 5);
  EXPECT_THAT(run.err, HasSubstr("error: localhost: token server of the registry: expected https, "
                                 "found http to 127.0.0.1\nhint: "));
  EXPECT_THAT(issuer_.server().requests(), testing::IsEmpty());
}

}  // namespace
}  // namespace moepack::remote

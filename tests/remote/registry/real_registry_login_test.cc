// docker-registry with passwords and with TLS: who may publish and read, and the message for
// everybody else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/server/server_store.h"
#include "tests/manifest/registry/server/credential_home.h"
#include "tests/manifest/registry/server/helper_scripts.h"
#include "tests/remote/support/docker_registry.h"
#include "tests/remote/support/quick_settings.h"
#include "tools/options/registry_options.h"

namespace moepack::registry {
namespace {

namespace fs = std::filesystem;

using cli::RegistryArguments;
using remote::DockerRegistry;
using remote::ScopedVariable;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kStored = "{\"auth\":\"bWU6Y29uZmlkZW50aWFs\"}";  // me:confidential

class RegistryLogin : public testing::Test {
 protected:
  void SetUp() override {
    if (!DockerRegistry::IsInstalled()) GTEST_SKIP() << "docker-registry is not installed";
  }
  void Start(const DockerRegistry::Settings& settings) {
    registry_.emplace(dir_ / "registry", settings);
    ASSERT_TRUE(registry_->started()) << registry_->Log();
  }
  std::string Host(const std::string& name = "127.0.0.1") const {
    return Cat(name, ":", registry_->port());
  }
  // Publishes one manifest and reads it back: "done", or the message and hint.
  std::string Publish(const RegistryArguments& arguments, const std::string& host) const {
    const Status done = Try(arguments, host);
    if (done) return "done";
    const std::string all = Cat(done.error().message, "; hint: ", done.error().hint);
    EXPECT_THAT(all, Not(HasSubstr("confidential")));
    EXPECT_THAT(all, Not(HasSubstr("bWU6")));
    return all;
  }
  std::string Publish(const RegistryArguments& arguments = {}) const {
    return Publish(arguments, Host());
  }
  void WriteDockerFile(const std::string& text) const { home_.Write(".docker/config.json", text); }

  fixtures::TempDir dir_;
  CredentialHome home_;
  std::optional<DockerRegistry> registry_;

 private:
  static Status Try(const RegistryArguments& arguments, const std::string& host) {
    SHARD_TRY(const cli::RegistryAccess access,
              cli::OpenRegistryAccess(arguments, host, "team/model"));
    ServerOptions options{access.settings, access.authorizer, {}};
    options.http.retry = remote::QuickSettings().retry;
    SHARD_TRY(const std::shared_ptr<ServerStore> store,
              OpenServer(Cat(host, "/team/model"), options));
    const BlobRecord config{kConfigType, DigestOf(Sha256Hex("{}")), 2};
    SHARD_CHECK(store->AddText(config, "{}"));
    const std::string text = WriteOciManifest({kArtifactType, config, {config}, {}});
    const BlobRecord manifest{kManifestType, DigestOf(Sha256Hex(text)), text.size()};
    SHARD_CHECK(store->AddManifest(manifest, text));
    SHARD_CHECK(store->SetTags({{"v1", manifest, text}}));
    SHARD_TRY(const BlobRecord found, store->FindTag("v1"));
    if (found.digest == manifest.digest) return Ok();
    return Error{Code::kMismatch, "another manifest came back"};
  }
};

class RegistryPasswords : public RegistryLogin {
 protected:
  void SetUp() override {
    RegistryLogin::SetUp();
    if (IsSkipped()) return;
    Start(DockerRegistry::WithPassword(dir_ / "users"));
  }
};

TEST_F(RegistryPasswords, AreReadFromADockerFile) {
  WriteDockerFile(Cat("{\"auths\":{\"", Host(), "\":", kStored, "}}"));
  EXPECT_EQ(Publish(), "done");
}

TEST_F(RegistryPasswords, AreReadFromTheOptions) {
  fixtures::WriteFile(dir_ / "password", "confidential\n");
  RegistryArguments arguments;
  arguments.username = "me";
  arguments.password_file = dir_ / "password";
  EXPECT_EQ(Publish(arguments), "done");
}

TEST_F(RegistryPasswords, AreReadFromTheEnvironment) {
  const ScopedVariable user("MOEPACK_REGISTRY_USERNAME", "me");
  const ScopedVariable password("MOEPACK_REGISTRY_PASSWORD", "confidential");
  EXPECT_EQ(Publish(), "done");
}

TEST_F(RegistryPasswords, AreReadFromAHelper) {
  const HelperScripts scripts;
  scripts.Add("docker-credential-test",
              "read server; echo \"$server\" >>" + scripts.Path("asked") +
                  "; echo '{\"Username\":\"me\",\"Secret\":\"confidential\"}'");
  WriteDockerFile("{\"credsStore\":\"test\"}");
  EXPECT_EQ(Publish(), "done");
  EXPECT_EQ(scripts.Read("asked"), Host() + "\n");  // once
}

TEST_F(RegistryPasswords, AWrongPasswordIsReportedWithItsOrigin) {
  WriteDockerFile(Cat("{\"auths\":{\"", Host(), "\":{\"auth\":\"bWU6d3Jvbmc=\"}}}"));
  const std::string told = Publish();
  EXPECT_THAT(told, HasSubstr("found status 401"));
  EXPECT_THAT(told, HasSubstr("expected access to repository:team/model:pull, "));
  EXPECT_THAT(told, HasSubstr("credentials from ~/.docker/config.json (user me)"));
  EXPECT_THAT(told, Not(HasSubstr("wrong")));
}

TEST_F(RegistryPasswords, AMissingPasswordIsReported) {
  WriteDockerFile(Cat("{\"auths\":{\"other.example\":", kStored, "}}"));
  const std::string told = Publish();
  EXPECT_THAT(told, HasSubstr("found status 401"));
  EXPECT_THAT(told, HasSubstr("no credentials"));
}

// A separate authority for the test, a certificate of it for "localhost" and one for a client.
class RegistryTls : public RegistryLogin {
 protected:
  void SetUp() override {
    RegistryLogin::SetUp();
    if (IsSkipped()) return;
    if (remote::FindProgram("openssl").empty()) GTEST_SKIP() << "openssl is not installed";
    fixtures::WriteFile(dir_ / "names", "subjectAltName=DNS:localhost\n");
    const std::string key = " -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes ";
    OpenSsl("req -x509" + key + "-keyout ca.key -out ca.pem -days 2 -subj /CN=authority");
    for (const std::string who : {"server", "client"}) {
      OpenSsl(Cat("req", key, "-keyout ", who, ".key -out ", who, ".csr -subj /CN=", who));
      OpenSsl(Cat("x509 -req -in ", who,
                  ".csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out ", who,
                  ".pem"));
    }
  }
  void OpenSsl(const std::string& arguments) const {
    const std::string command =
        Cat("cd '", dir_.path().string(), "' && openssl ", arguments, " >>openssl.log 2>&1");
    ASSERT_EQ(std::system(command.c_str()), 0) << fixtures::ReadFile(dir_ / "openssl.log");
  }
  void StartTls(bool asks_client) {
    DockerRegistry::Settings settings;
    settings.http = Cat("  tls:\n    certificate: ", (dir_ / "server.pem").string(),
                        "\n    key: ", (dir_ / "server.key").string(), "\n");
    if (asks_client)
      settings.http += Cat("    clientcas:\n      - ", (dir_ / "ca.pem").string(), "\n");
    Start(settings);
  }
  // A file of ~/.docker/certs.d for this registry.
  void Trust(const std::string& file, const std::string& as) const {
    home_.Write(Cat(".docker/certs.d/", Host("localhost"), "/", as),
                fixtures::ReadFile(dir_ / file));
  }
  RegistryArguments Authority() const {
    RegistryArguments arguments;
    arguments.ca_file = dir_ / "ca.pem";
    return arguments;
  }
  std::string Localhost(const RegistryArguments& arguments = {}) const {
    return Publish(arguments, Host("localhost"));
  }
  ScopedVariable bundle_{"CURL_CA_BUNDLE", ""}, file_{"SSL_CERT_FILE", ""},
      directory_{"SSL_CERT_DIR", ""};
};

TEST_F(RegistryTls, ANamedAuthorityIsTrusted) {
  StartTls(false);
  EXPECT_THAT(Localhost(), HasSubstr("localhost: SSL certificate problem"));
  EXPECT_EQ(Localhost(Authority()), "done");
  {
    const ScopedVariable file("SSL_CERT_FILE", dir_ / "ca.pem");
    EXPECT_EQ(Localhost(), "done");
  }
  Trust("ca.pem", "ca.crt");
  EXPECT_EQ(Localhost(), "done");
}

TEST_F(RegistryTls, ANameThatTheCertificateLacksIsRefused) {
  StartTls(false);
  const std::string told = Publish(Authority(), Host());
  EXPECT_THAT(told, HasSubstr("127.0.0.1: SSL: "));
  EXPECT_THAT(told, HasSubstr("hint: check the name in the address"));
  RegistryArguments insecure;
  insecure.insecure = true;
  testing::internal::CaptureStderr();
  EXPECT_EQ(Publish(insecure, Host()), "done");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("--insecure-skip-verify: anybody"));
}

TEST_F(RegistryTls, TheClientPresentsItsCertificate) {
  StartTls(true);
  EXPECT_THAT(Localhost(Authority()), Not(testing::StrEq("done")));
  RegistryArguments arguments = Authority();
  arguments.client_cert = dir_ / "client.pem";
  arguments.client_key = dir_ / "client.key";
  EXPECT_EQ(Localhost(arguments), "done");
  arguments.client_key = dir_ / "ca.key";
  EXPECT_THAT(Localhost(arguments), HasSubstr("hint: check the files of the client's certificate"));
}

TEST_F(RegistryTls, FindsTheCertificatesOfAHost) {
  StartTls(true);
  Trust("ca.pem", "ca.crt");
  Trust("client.pem", "me.cert");
  Trust("client.key", "me.key");
  EXPECT_EQ(Localhost(), "done");
}

TEST_F(RegistryTls, AnEncryptedKeyIsRefusedWithoutAPrompt) {
  StartTls(true);
  OpenSsl("ec -in client.key -aes256 -passout pass:confidential -out locked.key");
  RegistryArguments arguments = Authority();
  arguments.client_cert = dir_ / "client.pem";
  arguments.client_key = dir_ / "locked.key";
  EXPECT_THAT(Localhost(arguments), HasSubstr("the key not encrypted"));
}

}  // namespace
}  // namespace moepack::registry

// The built moepack on servers that are not ours: its output for a checkpoint there equals the
// output for the directory, byte for byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "tests/remote/support/nginx.h"
#include "tests/remote/support/real_server.h"
#include "tests/remote/support/remote_commands.h"

namespace moepack::remote {
namespace {

using cli::ReadFile;
using cli::ToolRun;
using cli::WriteAll;
using testing::HasSubstr;

class RealServers : public RemoteCommands {
 protected:
  // Every command that reads a checkpoint.
  void ExpectAllTheSame(const std::string& source) const {
    const ToolRun far = Moepack("list-tensors " + source), near = Moepack("list-tensors " + kLocal);
    EXPECT_EQ(far.status, 0) << far.err;
    EXPECT_EQ(far.out, near.out);
    for (const auto& [from, name] : {std::pair{source, "far"}, {kLocal, "near"}}) {
      const ToolRun build = Moepack(Cat("build ", from, " --groups 3 -o ", name));
      EXPECT_EQ(build.status, 0) << build.err;
      const ToolRun quantized =
          Moepack(Cat("quantize ", from, " --recipe Q4_K_M -o ", name, ".gguf"));
      EXPECT_EQ(quantized.status, 0) << quantized.err;
    }
    EXPECT_TRUE(Content("far") == Content("near"));
    EXPECT_EQ(ReadFile(workspace_ / "far.gguf"), ReadFile(workspace_ / "near.gguf"));
    const ToolRun proof = Moepack("verify far --against " + source);
    EXPECT_EQ(proof.status, 0) << proof.err;
    EXPECT_THAT(proof.out, HasSubstr("compared with the source"));
  }
  std::string Log() const { return ReadFile(workspace_ / "server.log"); }
};

class RealNginx : public RealServers {
 protected:
  void SetUp() override {
    RealServers::SetUp();
    if (FindProgram("nginx").empty()) GTEST_SKIP() << "nginx is not installed";
  }
  // `listen` comes after the port, `more` is added to the directives of the server.
  std::vector<std::string> Command(uint16_t port, const std::string& listen,
                                   const std::string& more) const {
    const std::string server =
        Cat("root ", (workspace_ / "fixtures").string(), ";\nautoindex on;\n", more);
    return NginxCommand(workspace_ / "nginx", port, listen, server,
                        "access_log off;\ndefault_type application/octet-stream;\n");
  }
  void Start(const std::string& listen = "", const std::string& more = "") {
    nginx_.emplace([&](uint16_t port) { return Command(port, listen, more); },
                   workspace_ / "server.log");
    ASSERT_TRUE(nginx_->started()) << Log() << ReadFile(workspace_ / "nginx/error.log");
  }
  std::string Address(const std::string& origin = "http://127.0.0.1") const {
    return Cat(origin, ":", nginx_->port(), "/tiny-moe/");
  }

  std::optional<RealServer> nginx_;
};

TEST_F(RealNginx, GivesTheSameAsTheDirectory) {
  Start();
  ExpectAllTheSame(Address());
}

TEST_F(RealNginx, IsNotAskedToCompress) {
  Start("", "gzip on;\ngzip_types *;\ngzip_min_length 1;");
  ExpectAllTheSame(Address());
}

TEST_F(RealNginx, IsRefusedIfItAlwaysCompresses) {
  for (const char* part : {"1", "2", "3"})
    WriteAll(workspace_ / kLocal / Cat("model-0000", part, "-of-00003.safetensors.gz"), "gzip");
  Start("", "gzip_static always;");
  const ToolRun run = Moepack("build " + Address() + " --groups 3 -o far");
  EXPECT_EQ(run.status, 5);
  EXPECT_THAT(run.err, HasSubstr(Address() + "model-0000"));
  EXPECT_THAT(run.err, HasSubstr("Content-Encoding: expected none, found \"gzip\""));
  EXPECT_THAT(run.err, HasSubstr("hint: "));
  EXPECT_FALSE(IsThere("far"));
}

TEST_F(RealNginx, AsksForPasswordsThatAreThenUsed) {
  WriteAll(workspace_ / "nginx/users", "me:{PLAIN}s3cret\n");
  Start("",
        Cat("auth_basic x;\nauth_basic_user_file ", (workspace_ / "nginx/users").string(), ";"));
  const ToolRun refused = Moepack("list-tensors " + Address());
  EXPECT_EQ(refused.status, 5);
  EXPECT_THAT(refused.err, HasSubstr("found status 401"));
  EXPECT_THAT(refused.err, HasSubstr("hint: access was refused"));
  ExpectAllTheSame(Address("http://me:s3cret@127.0.0.1"));
  EXPECT_THAT(Content("far"), testing::Not(HasSubstr("s3cret")));
}

// A separate authority for the test and its certificate for "localhost".
class RealTls : public RealNginx {
 protected:
  void SetUp() override {
    RealNginx::SetUp();
    if (IsSkipped()) return;
    if (FindProgram("openssl").empty()) GTEST_SKIP() << "openssl is not installed";
    std::filesystem::create_directories(workspace_ / "tls");
    WriteAll(workspace_ / "tls/names", "subjectAltName=DNS:localhost\n");
    const std::string key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    OpenSsl("req -x509 " + key + " -keyout ca.key -out ca.pem -days 2 -subj /CN=authority");
    OpenSsl("req " + key + " -keyout server.key -out server.csr -subj /CN=localhost");
    OpenSsl(
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
        "-extfile names -out server.pem");
    Start("ssl http2",
          Cat("ssl_certificate ", (workspace_ / "tls/server.pem").string(),
              ";\nssl_certificate_key ", (workspace_ / "tls/server.key").string(), ";"));
  }
  void OpenSsl(const std::string& arguments) const {
    const std::string command = Cat("cd '", (workspace_ / "tls").string(), "' && openssl ",
                                    arguments, " >>openssl.log 2>&1");
    ASSERT_EQ(std::system(command.c_str()), 0) << ReadFile(workspace_ / "tls/openssl.log");
  }
  ScopedVariable bundle_{"CURL_CA_BUNDLE", ""}, file_{"SSL_CERT_FILE", ""},
      directory_{"SSL_CERT_DIR", ""};
};

TEST_F(RealTls, TrustsACertificateOfAKnownAuthority) {
  const ScopedVariable file("SSL_CERT_FILE", workspace_ / "tls/ca.pem");
  ExpectAllTheSame(Address("https://localhost"));
}

TEST_F(RealTls, RefusesAnUnknownAuthorityAndAnotherName) {
  const ToolRun unknown = Moepack("list-tensors " + Address("https://localhost"));
  EXPECT_EQ(unknown.status, 7);
  EXPECT_THAT(unknown.err, HasSubstr("localhost: SSL certificate problem"));
  EXPECT_THAT(unknown.err, HasSubstr("SSL_CERT_FILE"));
  const ScopedVariable file("SSL_CERT_FILE", workspace_ / "tls/ca.pem");
  const ToolRun other = Moepack("list-tensors " + Address("https://127.0.0.1"));
  EXPECT_EQ(other.status, 7);
  EXPECT_THAT(other.err, HasSubstr("127.0.0.1: SSL: "));
  EXPECT_THAT(other.err, HasSubstr("hint: check the name in the address"));
  const ScopedVariable none("SSL_CERT_FILE", workspace_ / "tls/none.pem");
  const ToolRun missing = Moepack("list-tensors " + Address("https://localhost"));
  EXPECT_EQ(missing.status, 7);
  EXPECT_THAT(missing.err, HasSubstr("hint: check the files that CURL_CA_BUNDLE, SSL_CERT_FILE"));
}

TEST_F(RealServers, RcloneGivesTheSameAsTheDirectory) {
  const std::string rclone = FindProgram("rclone");
  if (rclone.empty()) GTEST_SKIP() << "rclone is not installed";
  const std::string fixtures = (workspace_ / "fixtures").string();
  const RealServer server(
      [&](uint16_t port) {
        return std::vector<std::string>{"/usr/bin/env", Cat("HOME=", fixtures),
                                        rclone,         "serve",
                                        "http",         fixtures,
                                        "--config",     (workspace_ / "rclone.conf").string(),
                                        "--addr",       Cat("127.0.0.1:", port)};
      },
      workspace_ / "server.log");
  ASSERT_TRUE(server.started()) << Log();
  ExpectAllTheSame(Cat("http://127.0.0.1:", server.port(), "/tiny-moe/"));
}

// s3rver stores an object as a file with this extension. tests/peer/install.sh installs it.
class PeerS3 : public RealServers {
 protected:
  void SetUp() override {
    RealServers::SetUp();
    const std::string program = MOEPACK_SOURCE_DIR "/tests/peer/node_modules/s3rver/bin/s3rver.js";
    const std::string node = FindProgram("node");
    if (node.empty() || !std::filesystem::exists(program))
      GTEST_SKIP() << "tests/peer/install.sh did not install s3rver";
    for (const auto& entry : std::filesystem::directory_iterator(workspace_ / kLocal)) {
      const std::string name = entry.path().filename().string();
      WriteAll(workspace_ / Cat("s3/bucket/models/tiny-moe/", name, "._S3rver_object"),
               ReadFile(entry.path()));
    }
    s3_.emplace(
        [&](uint16_t port) {
          return std::vector<std::string>{node, program,     "-d", (workspace_ / "s3").string(),
                                          "-a", "127.0.0.1", "-p", std::to_string(port),
                                          "-s"};
        },
        workspace_ / "server.log");
    ASSERT_TRUE(s3_->started()) << Log();
    endpoint_.emplace("AWS_ENDPOINT_URL_S3", Cat("http://127.0.0.1:", s3_->port()));
  }
  const std::string source_ = "s3://bucket/models/tiny-moe";
  std::optional<RealServer> s3_;
  std::optional<ScopedVariable> endpoint_;
  ScopedVariable key_{"AWS_ACCESS_KEY_ID", "S3RVER"}, secret_{"AWS_SECRET_ACCESS_KEY", "S3RVER"},
      session_{"AWS_SESSION_TOKEN", ""}, region_{"AWS_REGION", "us-east-1"};
};

TEST_F(PeerS3, S3rverGivesTheSameAsTheDirectory) { ExpectAllTheSame(source_); }

// It does not check signatures of version 4; tests/remote/support/fake_s3.cc does.
TEST_F(PeerS3, AnUnknownKeyIsRefused) {
  const ScopedVariable key("AWS_ACCESS_KEY_ID", "OTHER");
  const ToolRun run = Moepack("list-tensors " + source_);
  EXPECT_EQ(run.status, 5);
  EXPECT_THAT(run.err, HasSubstr("expected a key that the server knows, found another"));
  EXPECT_THAT(run.err, HasSubstr("hint: check AWS_ACCESS_KEY_ID"));
}

TEST_F(PeerS3, AMissingBucketIsNamed) {
  const ToolRun run = Moepack("list-tensors s3://none/x");
  EXPECT_EQ(run.status, 5);
  EXPECT_THAT(run.err, HasSubstr("s3://none/x/: expected a bucket, found none of this name"));
}

// A proxy that answers for every host itself.
using RemoteProxies = RemoteCommands;

TEST_F(RemoteProxies, UsesAProxyForAHostThatOnlyItKnows) {
  const ScopedVariable proxy("http_proxy", server_.origin()), none("no_proxy", "");
  const ToolRun far = Moepack("list-tensors --plain-http http://models.test/tiny-moe/");
  EXPECT_EQ(far.status, 0) << far.err;
  EXPECT_EQ(far.out, Moepack("list-tensors " + kLocal).out);
  ASSERT_FALSE(server_.requests().empty());
  for (const FakeRequest& request : server_.requests()) EXPECT_EQ(request.proxied, "models.test");
}

TEST_F(RemoteProxies, NoProxyBypassesTheProxy) {
  FaultServer proxy;
  const ScopedVariable variable("http_proxy", proxy.origin());
  // Linux connects to this machine, which we do not recognize by that address.
  constexpr const char* kAny = "0.0.0.0";
  std::string source = address();
  source.replace(source.find("127.0.0.1"), 9, kAny);
  {
    const ScopedVariable none("no_proxy", kAny);
    const ToolRun run = Moepack("list-tensors --plain-http " + source);
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(proxy.requests().empty());
  }
  const ScopedVariable none("no_proxy", "");
  EXPECT_EQ(Moepack("list-tensors --plain-http " + source).status, 5);  // it has no such file
  ASSERT_FALSE(proxy.requests().empty());
  EXPECT_THAT(proxy.requests()[0].proxied, testing::StartsWith(kAny));
}

TEST_F(RemoteProxies, UsesNoProxyForThisMachine) {
  FaultServer proxy;
  const ScopedVariable variable("http_proxy", proxy.origin()), none("no_proxy", "");
  const ToolRun run = Moepack("list-tensors " + address());
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(proxy.requests().empty());
}

}  // namespace
}  // namespace moepack::remote

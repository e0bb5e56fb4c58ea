#include "tools/options/registry_options.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "libshard/base/text/text.h"
#include "tests/manifest/registry/server/credential_home.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

// Standard input from a file, for the duration of a test.
class InputFrom {
 public:
  explicit InputFrom(const std::string& file) : before_(dup(STDIN_FILENO)) {
    const int fd = open(file.c_str(), O_RDONLY);
    dup2(fd, STDIN_FILENO);
    close(fd);
  }
  InputFrom(const InputFrom&) = delete;
  InputFrom& operator=(const InputFrom&) = delete;
  ~InputFrom() {
    dup2(before_, STDIN_FILENO);
    close(before_);
  }

 private:
  int before_;
};

class RegistryOptions : public testing::Test {
 protected:
  RegistryOptions() { AddRegistryOptions(app_, arguments_); }

  // The parser's message; "" if it accepted them.
  std::string Parse(std::vector<std::string> words) {
    arguments_ = {};
    std::reverse(words.begin(), words.end());
    try {
      app_.parse(words);
    } catch (const CLI::ParseError& error) {
      return error.what();
    }
    return "";
  }
  Result<RegistryAccess> Open() const {
    return OpenRegistryAccess(arguments_, "registry.example", "team/model");
  }
  Error Failure() const {
    const auto access = Open();
    EXPECT_FALSE(access);
    if (access) return {};
    EXPECT_THAT(access.error().message, Not(HasSubstr("hunter2")));
    return access.error();
  }
  // The header after a Basic challenge.
  std::string Header() const {
    auto access = Open();
    if (!access) return access.error().message;
    remote::HttpReply reply;
    reply.status = 401;
    reply.url = remote::ParseUrl("https://registry.example/v2/").value();
    reply.fields = {{"www-authenticate", "Basic realm=\"x\""}};
    const Result<bool> again = access->authorizer->Refused(reply, {}, "");
    if (!again) return again.error().message;
    return Cat(access->authorizer->Shown(), ": ", access->authorizer->HeaderFor({}).value());
  }

  registry::CredentialHome home_;
  CLI::App app_;
  RegistryArguments arguments_;
};

TEST_F(RegistryOptions, APasswordComesFromStandardInputOrAFile) {
  home_.Write("password", "hunter2\r\n");
  EXPECT_EQ(Parse({"--username", "me", "--password-file", home_.Path("password")}), "");
  EXPECT_EQ(Header(), "credentials from --password-file (user me): Basic bWU6aHVudGVyMg==");
  EXPECT_EQ(Parse({"--username", "me", "--password-stdin"}), "");
  const InputFrom input(home_.Path("password"));
  for (int repository = 0; repository < 2; ++repository)
    EXPECT_EQ(Header(), "credentials from --password-stdin (user me): Basic bWU6aHVudGVyMg==");
}

TEST_F(RegistryOptions, ATokenComesFromAFile) {
  home_.Write("token", "abc.def\n");
  EXPECT_EQ(Parse({"--token-file", home_.Path("token")}), "");
  EXPECT_EQ(Header(), "credentials from --token-file: Bearer abc.def");
}

TEST_F(RegistryOptions, UseTheFilesOfDockerByDefault) {
  home_.Write(".docker/config.json",
              "{\"auths\":{\"registry.example\":{\"auth\":\"bWU6aHVudGVyMg==\"}}}");
  EXPECT_EQ(Header(), "credentials from ~/.docker/config.json (user me): Basic bWU6aHVudGVyMg==");
}

TEST_F(RegistryOptions, ReadFilesOnlyOnceTheRegistryAsks) {
  home_.Write(".docker/config.json", "damaged");
  const auto access = Open();
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_EQ(access->authorizer->Shown(), "no credentials");
  EXPECT_THAT(Header(), HasSubstr("~/.docker/config.json: expected a JSON object"));
}

TEST_F(RegistryOptions, IncompatibleOptionsAreRefused) {
  EXPECT_THAT(Parse({"--password-stdin"}), HasSubstr("--username"));
  EXPECT_THAT(Parse({"--username", "u", "--token-file", "f"}), HasSubstr("excludes"));
  EXPECT_THAT(Parse({"--username", "u", "--password-stdin", "--password-file", "f"}),
              HasSubstr("excludes"));
  EXPECT_THAT(Parse({"--client-key", "k"}), HasSubstr("--client-cert"));
  EXPECT_THAT(Parse({"--plain-http-credentials"}), HasSubstr("--plain-http"));
  EXPECT_EQ(Parse({"--username", "u"}), "");
  EXPECT_EQ(Failure().message,
            "--username needs --password-stdin or --password-file, and they need --username");
  EXPECT_EQ(Failure().code, Code::kInvalidArgument);
}

TEST_F(RegistryOptions, FilesWithoutASecretAreNamed) {
  home_.Write("empty", "\n");
  EXPECT_EQ(Parse({"--token-file", home_.Path("empty")}), "");
  EXPECT_THAT(Failure().message, HasSubstr("empty: expected a secret, found nothing"));
  EXPECT_EQ(Parse({"--token-file", home_.Path("missing")}), "");
  EXPECT_THAT(Failure().message, HasSubstr("--token-file: "));
  EXPECT_EQ(Parse({"--cacert", home_.Path("empty")}), "");
  EXPECT_EQ(Parse({"--username", "u", "--password-file", home_.Path("missing")}), "");
  EXPECT_THAT(Failure().message, HasSubstr("--password-file: "));
}

TEST_F(RegistryOptions, EmptyCertificatesAreNamed) {
  home_.Write("empty", "");
  home_.Write("client.pem", "certificate");
  const std::string empty = home_.Path("empty"), good = home_.Path("client.pem");
  ASSERT_EQ(Parse({"--client-cert", empty, "--client-key", good}), "");
  EXPECT_EQ(Failure().message,
            Cat("--client-cert: ", empty, ": expected PEM text, found an empty file"));
  ASSERT_EQ(Parse({"--client-cert", good, "--client-key", empty}), "");
  EXPECT_EQ(Failure().message,
            Cat("--client-key: ", empty, ": expected PEM text, found an empty file"));
  ASSERT_EQ(Parse({"--cacert", empty}), "");
  EXPECT_EQ(Failure().message,
            Cat("--cacert: ", empty, ": expected certificates as PEM, found an empty file"));
}

TEST_F(RegistryOptions, LimitTheSecretOnStandardInput) {
  home_.Write("long", std::string(70000, 'x'));
  home_.Write("empty", "");
  EXPECT_EQ(Parse({"--username", "u", "--password-stdin"}), "");
  {
    const InputFrom input(home_.Path("long"));
    EXPECT_EQ(Failure().message,
              "--password-stdin: the password on standard input is longer than 65536 bytes");
  }
  const InputFrom input(home_.Path("empty"));
  EXPECT_EQ(Failure().message, "--password-stdin: expected a secret, found nothing");
}

TEST_F(RegistryOptions, PutCertificatesIntoTheSettings) {
  const std::string authority = "-----BEGIN CERTIFICATE-----\nA\n";
  home_.Write("ca.pem", authority);
  home_.Write(".docker/certs.d/registry.example/own.crt", "-----BEGIN CERTIFICATE-----\nB\n");
  EXPECT_EQ(Parse({"--cacert", home_.Path("ca.pem"), "--client-cert", "c", "--client-key", "k",
                   "--insecure-skip-verify"}),
            "");
  const auto access = Open();
  ASSERT_TRUE(access) << access.error().message;
  EXPECT_EQ(access->settings.ca_text, authority + "\n-----BEGIN CERTIFICATE-----\nB\n\n");
  EXPECT_EQ(access->settings.client_cert, "c");
  EXPECT_EQ(access->settings.client_key, "k");
  EXPECT_TRUE(access->settings.insecure);
  EXPECT_FALSE(access->settings.plain_http);
  home_.Write("ca.pem", "none");
  EXPECT_THAT(Failure().message, HasSubstr("--cacert: "));
  EXPECT_THAT(Failure().message, HasSubstr("ca.pem: expected certificates as PEM, found none"));
}

TEST_F(RegistryOptions, AreRefusedWithoutARegistry) {
  EXPECT_TRUE(CheckRegistryUse(arguments_, "layout:models"));
  EXPECT_EQ(Parse({"--cacert", "x"}), "");
  const Status refused = CheckRegistryUse(arguments_, "layout:models");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(refused.error().message, "--cacert has no effect: layout:models is not a registry");
}

}  // namespace
}  // namespace moepack::cli

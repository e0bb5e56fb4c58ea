// Tokens and passwords are sent only to their server, and appear in no message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "tests/remote/support/origin_commands.h"

namespace moepack::remote {
namespace {

using cli::ReadFile;
using cli::ToolRun;
using testing::HasSubstr;
using testing::Not;

class SecretCommands : public OriginCommands {};

TEST_F(SecretCommands, SendsTheTokenToNoOtherHost) {
  FaultServer other;
  hub_.token = "hf_confidential";
  const ScopedVariable token("HF_TOKEN", hub_.token);
  for (const auto& entry : std::filesystem::directory_iterator(workspace_ / "fixtures/tiny-moe"))
    other.Add("/" + entry.path().filename().string(), ReadFile(entry.path()));
  for (const char* blank : {"", " ", "\t"}) {
    hub_.SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
      const size_t at = request.path.find("/resolve/");
      if (at == std::string::npos) return;
      const std::string file = request.path.substr(request.path.rfind('/'));
      answer = LeadTo(302, Cat(blank, "//localhost:", other.origin().substr(17), file));
      answer.Set("X-Repo-Commit", hub_.commit);
    });
    workspace_.Moepack("list-tensors hf://owner/model");
    for (const FakeRequest& request : other.requests())
      EXPECT_EQ(request.Field("authorization"), "") << request.method << " " << request.path;
  }
}

TEST_F(SecretCommands, DoesNotQuoteAServerThatRepeatsASecret) {
  server_.SetFault([](const FakeRequest& request, FakeAnswer& answer) {
    answer = Plain(400, Cat("bad request: ", request.Field("authorization"), " ", request.query));
    answer.Set("Content-Type", "text/plain");
  });
  hub_.SetFault([](const FakeRequest& request, FakeAnswer& answer) {
    answer = Plain(400, "bad request: " + request.Field("authorization"));
  });
  const ScopedVariable token("HF_TOKEN", "hf_confidential");
  const std::string host = server_.origin().substr(7);
  for (const std::string& source :
       {std::string("hf://owner/model"), "'http://me:confidential@" + host + "/x/y.gguf'",
        "'http://" + host + "/x/y.gguf?signature=confidential'"}) {
    const ToolRun run = workspace_.Moepack("list-tensors " + source);
    EXPECT_EQ(run.status, 5) << source << run.err;
    EXPECT_THAT(run.err, HasSubstr("status 400"));
    EXPECT_THAT(run.err, Not(HasSubstr("confidential")));
    EXPECT_THAT(run.err, Not(HasSubstr("bWU6Y29uZmlkZW50aWFs")));  // me:confidential
  }
}

TEST_F(SecretCommands, DoesNotRepeatPasswordsInInvalidAddresses) {
  for (const char* source :
       {"HTTP://user:confidential@127.0.0.1:1/a.gguf", "ftp://user:confidential@host/a.gguf",
        "hf://user:confidential@owner/model", "s3://key:confidential@bucket/x"}) {
    const ToolRun run = workspace_.Moepack(Cat("list-tensors ", source));
    EXPECT_NE(run.status, 0);
    EXPECT_THAT(run.err, HasSubstr("error: "));
    EXPECT_THAT(run.err, Not(HasSubstr("confidential"))) << source;
  }
  const ToolRun join = workspace_.Moepack("join http://user:confidential@host/x b -o c");
  EXPECT_EQ(join.status, 4);
  EXPECT_THAT(join.err, HasSubstr("is an address; give a path on this machine"));
  EXPECT_THAT(join.err, Not(HasSubstr("confidential")));
}

TEST_F(SecretCommands, RefusesAnInvalidPublishedDigestAtOnce) {
  hub_.SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
    if (request.path.find("/tree/") == std::string::npos) return;
    const size_t at = answer.body.find("\"lfs\":{\"oid\":\"");
    if (at != std::string::npos) answer.body.replace(at + 14, 64, "abc");
  });
  const ToolRun run = workspace_.Moepack("list-tensors hf://owner/model");
  EXPECT_EQ(run.status, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("lfs.oid: expected 64 hexadecimal digits, found \"abc\""));
}

}  // namespace
}  // namespace moepack::remote

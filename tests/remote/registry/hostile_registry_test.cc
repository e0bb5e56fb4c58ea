// Registries that misbehave while a set is pulled from them: each ends with its exit status and a
// message that names the file, and leaves no output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "libshard/base/text/text.h"
#include "tests/remote/support/fake_registry.h"
#include "tests/remote/support/remote_commands.h"

namespace moepack::remote {
namespace {

using cli::ToolRun;
using testing::HasSubstr;
using testing::Not;

class HostileRegistry : public testing::Test {
 protected:
  void SetUp() override {
    Succeeds("build fixtures/tiny-moe --groups 3 -o out");
    Succeeds("publish out " + Ref());
  }
  std::string Ref() const { return Cat("oci://", registry_.host(), "/team/model:v1"); }
  void Succeeds(const std::string& arguments) const {
    const ToolRun run = workspace_.Moepack(arguments);
    ASSERT_EQ(run.status, 0) << arguments << "\n" << run.err;
  }
  // How it changes every reply for a large file, and how moepack reacts.
  struct Fault {
    const char* words;
    int status;
    std::function<void(const FakeRequest&, FakeAnswer&)> change;
  };
  void ExpectRefused(const Fault& fault) {
    registry_.SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
      const bool large = request.Range() && answer.body.size() > 100'000;
      if (request.method == "GET" && large) fault.change(request, answer);
    });
    const ToolRun run = workspace_.Moepack("pull " + Ref() + " --group 1 -o pulled");
    EXPECT_EQ(run.status, fault.status) << fault.words << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr(fault.words));
    EXPECT_THAT(run.err, HasSubstr(".safetensors")) << fault.words;
    EXPECT_FALSE(std::filesystem::exists(workspace_ / "pulled")) << fault.words;
    registry_.SetFault({});
  }

  cli::Workspace workspace_;
  FakeRegistry registry_;
  ScopedVariable patience_{"MOEPACK_PATIENCE", "1"}, home_{"HOME", workspace_ / "home"},
      docker_{"DOCKER_CONFIG", workspace_ / "none"},
      runtime_{"XDG_RUNTIME_DIR", workspace_ / "none"},
      config_{"XDG_CONFIG_HOME", workspace_ / "none"}, proxy_{"http_proxy", ""},
      all_proxy_{"all_proxy", ""};
};

TEST_F(HostileRegistry, EveryMisbehaviourHasItsExitStatus) {
  const Fault faults[] = {
      {"the server ignores Range", 5,
       [](const auto&, FakeAnswer& answer) { answer = Plain(200, std::string(8 << 20, 'x')); }},
      {"Content-Range: expected", 3,
       [](const auto&, FakeAnswer& answer) { answer.Set("Content-Range", "bytes 7-99/100"); }},
      {"Content-Encoding: expected none", 5,
       [](const auto&, FakeAnswer& answer) { answer.Set("Content-Encoding", "gzip"); }},
      {"found a web page", 5,
       [](const auto&, FakeAnswer& answer) { answer.Set("Content-Type", "text/html"); }},
      {"sha256", 3, [](const auto&, FakeAnswer& answer) { answer.body[70'000] ^= 1; }},
      {"transfer closed with", 5, [](const auto&, FakeAnswer& answer) { answer.cut_after = 9; }},
      {"bytes", 3, [](const auto&, FakeAnswer& answer) { answer.body += "more"; }},
      {"redirects: expected at most 5", 5,
       [](const auto& request, FakeAnswer& answer) { answer = LeadTo(307, request.path); }},
      {"redirect: expected https, found http to storage.example", 5,
       [](const auto&, FakeAnswer& answer) { answer = LeadTo(307, "http://storage.example/"); }},
      // As docker-registry reports it: with the length of the blob.
      {"status 416", 3,
       [](const auto&, FakeAnswer& answer) {
         answer.status = 416;
         answer.cut_after = 20;
       }},
      {"found status 404", 5,
       [](const auto&, FakeAnswer& answer) {
         answer = RegistryRefusal(404, "BLOB_UNKNOWN", "gone");
       }},
      {"found status 403", 5,
       [](const auto&, FakeAnswer& answer) { answer = RegistryRefusal(403, "DENIED", "no"); }},
      {"found status 503", 7,
       [](const auto&, FakeAnswer& answer) {
         answer = Plain(503);
         answer.Set("Retry-After", "0");
       }},
      {"the server asks to wait 3600 s", 7,
       [](const auto&, FakeAnswer& answer) {
         answer = Plain(429);
         answer.Set("Retry-After", "3600");
       }},
  };
  for (const Fault& fault : faults) ExpectRefused(fault);
  // The run resumes from what they left.
  Succeeds("pull " + Ref() + " --group 1 -o pulled");
  Succeeds("verify pulled --group 1");
}

}  // namespace
}  // namespace moepack::remote

#include "manifest/registry/sign/simple_signing.h"

#include <gmock/gmock.h>

namespace moepack::registry {
namespace {

using testing::HasSubstr;

const std::string kOnes = "sha256:" + std::string(64, '1');

TEST(SimpleSigning, WritesThePayloadOfCosign) {
  EXPECT_EQ(WritePayload({"registry.example/team/model", kOnes}),
            R"({"critical":{"identity":{"docker-reference":"registry.example/team/model"},)"
            R"("image":{"docker-manifest-digest":")" +
                kOnes + R"("},"type":"cosign container image signature"},"optional":null})");
}

TEST(SimpleSigning, ReadsBackItsPayloadsAndAcceptsAddedFields) {
  const SignedClaim claim{"registry.example:5000/team/model", kOnes};
  std::string text = WritePayload(claim);
  const auto read = ParsePayload("it", text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->identity, claim.identity);
  EXPECT_EQ(read->digest, claim.digest);
  text.replace(text.find("null"), 4, R"({"creator":"x","timestamp":7,"more":{"a":[1]}})");
  EXPECT_TRUE(ParsePayload("it", text));
}

struct BadPayload {
  const char* from;
  const char* to;
  Code code;
  const char* message;
};

TEST(SimpleSigning, RefusesOtherPayloads) {
  const std::string good = WritePayload({"registry.example/team/model", kOnes});
  const BadPayload cases[] = {
      {"cosign container", "atomic container", Code::kUnsupported,
       "it: critical: type: expected \"cosign container image signature\", found \"atomic "},
      {"\"type\":", "\"kind\":", Code::kCorrupt, "critical: type"},
      {"sha256:1", "sha512:1", Code::kCorrupt, "image: docker-manifest-digest: expected sha256: "},
      {"sha256:1", "1", Code::kCorrupt, "image: docker-manifest-digest: expected sha256: "},
      {"docker-manifest-digest", "digest", Code::kCorrupt, "docker-manifest-digest"},
      {"docker-reference", "reference", Code::kCorrupt, "docker-reference"},
      {"{\"critical\":", "{\"critical\":7,\"other\":", Code::kCorrupt, "critical"},
      {"{\"critical\":", "{\"critical\":{},\"critical\":", Code::kCorrupt, "critical"},
      {"null}", "null}x", Code::kCorrupt, "it"},
  };
  for (const BadPayload& one : cases) {
    std::string text = good;
    const size_t at = text.find(one.from);
    ASSERT_NE(at, text.npos) << one.from;
    text.replace(at, std::string(one.from).size(), one.to);
    const auto read = ParsePayload("it", text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, one.code) << read.error().message;
    EXPECT_THAT(read.error().message, HasSubstr(one.message));
  }
  for (const char* text : {"", "[]", "7", "null"}) EXPECT_FALSE(ParsePayload("it", text)) << text;
}

TEST(SimpleSigning, AnIdentityIsAHostAndARepository) {
  for (const char* good :
       {"registry.example/model", "registry.example:5000/team/model", "localhost/a/b/c",
        "127.0.0.1:5000/x", "host:1/a-b__c.d_e---f", "Registry.Example/model", kLayoutIdentity})
    EXPECT_TRUE(CheckIdentity(good)) << good;
  const std::string long_one = "registry.example/" + std::string(256, 'a');
  for (const std::string& bad : std::vector<std::string>{
           "", "model", "team/model", "registry.example", "registry.example/", "/model",
           "registry.example/model:v1", "registry.example/model@" + kOnes,
           "registry.example/Team/model", "registry.example//model", "registry.example/a..b",
           "registry.example/a___b", "registry.example/-a", "registry.example/a-",
           "https://registry.example/a", "registry.example/a\"b", "registry.example/a b",
           long_one}) {
    const Status status = CheckIdentity(bad);
    ASSERT_FALSE(status) << bad;
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    EXPECT_THAT(status.error().message,
                HasSubstr("identity: expected host/repository without a tag, found "));
  }
}

}  // namespace
}  // namespace moepack::registry

#include "libshard/remote/s3_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>

#include "fixtures/temp_dir.h"
#include "tests/remote/support/fake_s3.h"
#include "tests/remote/support/quick_settings.h"
#include "tests/remote/support/scoped_variable.h"

namespace moepack::remote {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class RemoteS3 : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"a.safetensors", "b&c.safetensors", "d e.json", "sub/f.gguf"})
      s3_.Add(std::string("models/x/") + name, std::string("bytes of ") + name);
    s3_.Add("models/xy.json", "another");
    settings_.endpoint = s3_.endpoint();
  }
  Source Open(const std::string& name = "bucket/models/x") {
    HttpSettings settings = QuickSettings();
    settings.warn = [this](const std::string& text) { warnings_.push_back(text); };
    const Transport transport = MakeTransport(QuickClient(settings));
    return OpenS3(transport, settings_, ParseS3Name(name).value()).value();
  }
  void Sign() {
    const std::string key = "AKIDEXAMPLE", secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    s3_.Change([&](FakeS3::Account& account) {
      account.key = key;
      account.secret = secret;
    });
    settings_.signature = AwsSignature{"us-east-1", key, secret, ""};
  }
  Error Refused(const std::string& name = "bucket/models/x") {
    const auto names = Open(name).tree->List("", "");
    EXPECT_FALSE(names);
    return names ? Error{} : names.error();
  }

  FakeS3 s3_;
  S3Settings settings_;
  std::vector<std::string> warnings_;
};

TEST_F(RemoteS3, ListsTheObjectsOfAPrefixPageByPage) {
  const Source source = Open();
  EXPECT_EQ(source.tree->name(), "s3://bucket/models/x");
  EXPECT_THAT(source.tree->List("", "").value(),
              ElementsAre("a.safetensors", "b&c.safetensors", "d e.json"));
  EXPECT_THAT(source.tree->List("sub", "").value(), ElementsAre("f.gguf"));
  EXPECT_EQ(source.tree->ReadText("b&c.safetensors", 100).value(), "bytes of b&c.safetensors");
  EXPECT_EQ(source.tree->ReadText("d e.json", 100).value(), "bytes of d e.json");
  EXPECT_TRUE(source.tree->Has("sub/f.gguf").value());
  EXPECT_FALSE(source.tree->Has("sub/g.gguf").value());
  EXPECT_EQ(source.tree->Open("none").error().message,
            "s3://bucket/models/x/none: open: no such file");
  EXPECT_EQ(Open("bucket/models/x/sub/f.gguf").file, "f.gguf");
}

TEST_F(RemoteS3, SignsRequests) {
  Sign();
  const Source source = Open();
  const auto names = source.tree->List("", ".json");
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_THAT(*names, ElementsAre("d e.json"));
  const auto text = source.tree->ReadText("d e.json", 100);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "bytes of d e.json");
}

TEST_F(RemoteS3, SendsTheSessionToken) {
  Sign();
  settings_.signature->session_token = "session//token==";
  s3_.Change([](FakeS3::Account& account) { account.session_token = "session//token=="; });
  EXPECT_TRUE(Open().tree->List("", ""));
  settings_.signature->session_token.clear();
  EXPECT_EQ(Refused().code, Code::kIo);
}

TEST_F(RemoteS3, ReportsRefusalsWithTheNextStep) {
  Sign();
  settings_.signature->secret = "wrong secret";
  Error error = Refused();
  EXPECT_EQ(error.message,
            "s3://bucket/models/x/: expected the signature of this key, found another");
  EXPECT_THAT(error.hint, HasSubstr("AWS_SECRET_ACCESS_KEY"));
  settings_.signature->key = "AKIDOTHER";
  EXPECT_THAT(Refused().message, HasSubstr("expected a key that the server knows"));
  settings_.signature.reset();
  error = Refused();
  EXPECT_THAT(error.message, HasSubstr("expected access, found it denied"));
  EXPECT_THAT(error.hint, HasSubstr("AWS_PROFILE"));
  s3_.Change([](FakeS3::Account& account) { account.key.clear(); });
  error = Refused("none/x");
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_EQ(error.message, "s3://none/x/: expected a bucket, found none of this name");
}

TEST_F(RemoteS3, ReadsABucketInAnotherRegionWithItsSignature) {
  Sign();
  s3_.Change([](FakeS3::Account& account) { account.region = "eu-west-3"; });
  const Source source = Open();
  const auto names = source.tree->List("", ".json");
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_THAT(*names, ElementsAre("d e.json"));
  EXPECT_EQ(source.tree->ReadText("d e.json", 100).value(), "bytes of d e.json");
  EXPECT_THAT(warnings_, ElementsAre("s3://bucket: the bucket is in another region than us-east-1: "
                                     "set AWS_REGION=eu-west-3 to ask there at once"));
  // Later listings go there directly.
  s3_.server().Forget();
  EXPECT_THAT(source.tree->List("sub", "").value(), ElementsAre("f.gguf"));
  EXPECT_EQ(s3_.server().requests().size(), 1u);
}

TEST_F(RemoteS3, DoesNotFollowARegionThatWouldBeAnotherHost) {
  s3_.SetFault([](const FakeRequest&, FakeAnswer& answer) {
    answer = S3Error(301, "PermanentRedirect");
    answer.Set("x-amz-bucket-region", "x.example.org/");
  });
  const Error error = Refused();
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("region: expected x.example.org/ where the bucket is"));
  EXPECT_EQ(s3_.server().requests().size(), 1u);
}

TEST_F(RemoteS3, SaysWhatToSetForARedirectWithoutARegion) {
  s3_.SetFault([](const FakeRequest&, FakeAnswer& answer) {
    answer = LeadTo(307, "https://bucket.s3-us-west-2.amazonaws.com/");
  });
  const Error error = Refused();
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_THAT(error.message, HasSubstr("s3://bucket/models/x/: expected the bucket, found status "
                                       "307: it is in another region than us-east-1"));
  EXPECT_THAT(error.hint, HasSubstr("set AWS_REGION"));
}

TEST_F(RemoteS3, NamesTheLastRegionOfAnUnfoundBucket) {
  std::atomic<int> count = 0;
  s3_.SetFault([&](const FakeRequest&, FakeAnswer& answer) {
    answer = S3Error(301, "PermanentRedirect");
    answer.Set("x-amz-bucket-region", ++count == 1 ? "eu-west-1" : "eu-west-3");
  });
  const Error error = Refused();
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_EQ(error.message,
            "s3://bucket/models/x/: region: expected eu-west-3 where the bucket is, "
            "found eu-west-1");
  EXPECT_EQ(error.hint, "set AWS_REGION=eu-west-3");
  EXPECT_EQ(s3_.server().requests().size(), 2u);
}

TEST_F(RemoteS3, RefusesAServerThatIsNotS3) {
  s3_.SetFault([](const FakeRequest&, FakeAnswer& answer) { answer = Plain(200, "<html>hi"); });
  const Error error = Refused();
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("expected a ListBucketResult, found \"<html>hi\""));
}

TEST_F(RemoteS3, AChangedObjectEndsTheRunAndNamesBothETags) {
  s3_.Add("models/x/a.safetensors", std::string(300000, 'x'));
  const auto file = Open().tree->Open("a.safetensors").value();
  s3_.Add("models/x/a.safetensors", std::string(300000, 'y'));
  std::byte byte;
  const Status status = file->ReadAt(200000, {&byte, 1});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCorrupt);
  EXPECT_THAT(status.error().message,
              testing::MatchesRegex(".*expected ETag \"[0-9a-f]+\", found ETag \"[0-9a-f]+\""));
}

TEST(RemoteS3Listing, AcceptsOnlyTheXmlOfS3) {
  const std::string start = "<ListBucketResult>", end = "</ListBucketResult>";
  EXPECT_TRUE(ParseS3Page("x", start + end));
  EXPECT_TRUE(ParseS3Page(
      "x", start + "<Contents><Key>a&#x26;&#38;</Key><Size>1</Size></Contents>" + end + "\n"));
  for (const std::string& wrong :
       {std::string(), start, end, start + "</Other>",
        start + "<Contents><Key>a</Key></Contents>" + end,
        start + "<Contents><Size>1</Size></Contents>" + end,
        start + "<IsTruncated>true</IsTruncated>" + end, std::string("<a><b><c><d><e><f><g><h><i>"),
        start + "<Contents><Key>a</Key><Size>-1</Size></Contents>" + end, std::string("<"),
        std::string("<>"), std::string("<Other></Other>")})
    EXPECT_FALSE(ParseS3Page("x", wrong)) << wrong;
}

TEST(RemoteS3Listing, ExpandsNoEntityOfItsOwn) {
  const std::string page = ParseS3Page("x",
                                       "<!DOCTYPE r [<!ENTITY e \"eeee\">]><ListBucketResult>"
                                       "<Contents><Key>&e;</Key><Size>1</Size></Contents>"
                                       "</ListBucketResult>")
                               .value()
                               .objects.at(0)
                               .key;
  EXPECT_EQ(page, "&e;");
}

TEST(RemoteS3Listing, ReadsDeepNestingWithoutRecursion) {
  std::string deep;
  for (int i = 0; i < 200000; ++i) deep += "<a>";
  for (int i = 0; i < 200000; ++i) deep += "</a>";
  EXPECT_FALSE(ParseS3Page("x", deep));
}

TEST(RemoteS3Listing, ReadsErrorCodes) {
  EXPECT_EQ(S3ErrorCode("<Error><Code>NoSuchKey</Code></Error>"), "NoSuchKey");
  EXPECT_EQ(S3ErrorCode("<html>"), "");
}

class RemoteS3Settings : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(dir_ / "credentials")
        << "# keys\n[default]\naws_access_key_id = A\naws_secret_access_key=B\n"
           "[work]\naws_access_key_id = C\naws_secret_access_key = D\naws_session_token = E\n"
           "[half]\naws_access_key_id = F\n";
    std::ofstream(dir_ / "config") << "[default]\nregion = eu-west-1\n[profile work]\n"
                                      "region = eu-west-2\nendpoint_url = https://minio:9000\n"
                                      "[profile sso]\nsso_session = x\n";
  }
  fixtures::TempDir dir_;
  ScopedVariable keys_{"AWS_SHARED_CREDENTIALS_FILE", dir_ / "credentials"},
      config_{"AWS_CONFIG_FILE", dir_ / "config"}, profile_{"AWS_PROFILE", ""},
      id_{"AWS_ACCESS_KEY_ID", ""}, secret_{"AWS_SECRET_ACCESS_KEY", ""},
      session_{"AWS_SESSION_TOKEN", ""}, region_{"AWS_REGION", ""},
      default_region_{"AWS_DEFAULT_REGION", ""}, endpoint_{"AWS_ENDPOINT_URL", ""},
      s3_endpoint_{"AWS_ENDPOINT_URL_S3", ""};
};

TEST_F(RemoteS3Settings, TheProfileFillsInWhatTheEnvironmentLeavesOpen) {
  const S3Settings settings = S3SettingsFromEnvironment("").value();
  EXPECT_EQ(settings.region, "eu-west-1");
  EXPECT_EQ(settings.signature->key, "A");
  EXPECT_EQ(settings.signature->secret, "B");
  EXPECT_EQ(settings.signature->region, "eu-west-1");
  EXPECT_EQ(settings.endpoint, "");
}

TEST_F(RemoteS3Settings, AnotherProfileCanBeChosen) {
  const ScopedVariable profile("AWS_PROFILE", "work");
  const S3Settings settings = S3SettingsFromEnvironment("").value();
  EXPECT_EQ(settings.signature->key, "C");
  EXPECT_EQ(settings.signature->session_token, "E");
  EXPECT_EQ(settings.endpoint, "https://minio:9000");
  EXPECT_EQ(S3SettingsFromEnvironment("https://other").value().endpoint, "https://other");
}

TEST_F(RemoteS3Settings, DoesNotMixKeysOfTheEnvironmentWithThoseOfAProfile) {
  const ScopedVariable id("AWS_ACCESS_KEY_ID", "G");
  const auto half = S3SettingsFromEnvironment("");
  ASSERT_FALSE(half);
  EXPECT_THAT(half.error().message, HasSubstr("AWS_SECRET_ACCESS_KEY: expected the secret"));
  const ScopedVariable secret("AWS_SECRET_ACCESS_KEY", "H"), region("AWS_REGION", "us-west-2");
  const S3Settings settings = S3SettingsFromEnvironment("").value();
  EXPECT_EQ(settings.signature->key, "G");
  EXPECT_EQ(settings.signature->session_token, "");
  EXPECT_EQ(settings.region, "us-west-2");
}

TEST_F(RemoteS3Settings, ProfilesWithoutKeysAreErrors) {
  const ScopedVariable none("AWS_PROFILE", "none");
  EXPECT_THAT(S3SettingsFromEnvironment("").error().message,
              HasSubstr("AWS_PROFILE: expected a profile"));
  const ScopedVariable half("AWS_PROFILE", "half");
  EXPECT_THAT(S3SettingsFromEnvironment("").error().message, Not(HasSubstr("F")));
  const ScopedVariable sso("AWS_PROFILE", "sso");
  const auto settings = S3SettingsFromEnvironment("");
  ASSERT_FALSE(settings);
  EXPECT_EQ(settings.error().code, Code::kUnsupported);
  EXPECT_THAT(settings.error().hint, HasSubstr("aws configure export-credentials"));
}

TEST_F(RemoteS3Settings, RefusesProfilesThatGetTheirKeysElsewhere) {
  struct Case {
    const char *profile, *found;
  };
  for (const auto& [text, found] :
       {Case{"credential_process = /bin/keys", "credential_process"},
        {"role_arn = arn:aws:iam::1:role/x\nsource_profile = default", "role_arn"},
        {"role_arn = arn:x\naws_access_key_id = A\naws_secret_access_key = B", "role_arn"},
        {"sso_start_url = https://x", "sso_start_url"},
        {"login_session = arn:x", "login_session"},
        {"web_identity_token_file = /t", "web_identity_token_file"}}) {
    std::ofstream(dir_ / "config") << "[profile other]\n" << text << "\n";
    const ScopedVariable other("AWS_PROFILE", "other");
    const auto settings = S3SettingsFromEnvironment("");
    ASSERT_FALSE(settings) << found;
    EXPECT_EQ(settings.error().code, Code::kUnsupported);
    EXPECT_THAT(settings.error().message, HasSubstr(std::string("found ") + found));
    EXPECT_THAT(settings.error().hint, HasSubstr("aws configure export-credentials --format env"));
    const ScopedVariable id("AWS_ACCESS_KEY_ID", "G"), secret("AWS_SECRET_ACCESS_KEY", "H");
    EXPECT_EQ(S3SettingsFromEnvironment("").value().signature->key, "G");
  }
}

TEST_F(RemoteS3Settings, RefusesToIgnoreTheKeysOfAPod) {
  const ScopedVariable keys("AWS_SHARED_CREDENTIALS_FILE", dir_ / "none"),
      token("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token");
  const auto settings = S3SettingsFromEnvironment("");
  ASSERT_FALSE(settings);
  EXPECT_EQ(settings.error().code, Code::kUnsupported);
  EXPECT_THAT(settings.error().message, HasSubstr("found AWS_WEB_IDENTITY_TOKEN_FILE"));
  EXPECT_THAT(settings.error().hint, HasSubstr("or unset it"));
}

TEST_F(RemoteS3Settings, WithoutKeysRequestsAreAnonymous) {
  const ScopedVariable keys("AWS_SHARED_CREDENTIALS_FILE", dir_ / "none");
  EXPECT_FALSE(S3SettingsFromEnvironment("").value().signature);
}

TEST(RemoteS3Name, PutsTheBucketIntoTheHostOnlyAtAmazon) {
  S3Settings settings;
  settings.region = "eu-west-1";
  const auto url = [&](const char* bucket, const char* key) {
    return S3Url(settings, bucket, key).value().Text();
  };
  EXPECT_EQ(url("b", "x/y z"), "https://b.s3.eu-west-1.amazonaws.com/x/y%20z");
  EXPECT_EQ(url("b", ""), "https://b.s3.eu-west-1.amazonaws.com/");
  EXPECT_EQ(url("b.c", "x"), "https://s3.eu-west-1.amazonaws.com/b.c/x");
  settings.endpoint = "http://127.0.0.1:9000/";
  EXPECT_EQ(url("b", "x"), "http://127.0.0.1:9000/b/x");
  EXPECT_EQ(url("b", ""), "http://127.0.0.1:9000/b");
  settings.endpoint = "minio:9000";
  EXPECT_THAT(S3Url(settings, "b", "").error().message, HasSubstr("--endpoint: address"));
  EXPECT_EQ(ParseS3Name("b//x/").value().Text(), "s3://b/x");
  EXPECT_FALSE(ParseS3Name(""));
  EXPECT_FALSE(ParseS3Name("/x"));
  EXPECT_FALSE(ParseS3Name("b c/x"));
}

}  // namespace
}  // namespace moepack::remote

#include "manifest/registry/sign/oms.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "libshard/base/digest.h"
#include "libshard/base/text/base64.h"
#include "manifest/registry/sign/key_files.h"
#include "tests/manifest/registry/sign/sample_keys.h"

namespace moepack::registry {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using fixtures::ReadFile;
using fixtures::WriteFile;
using testing::HasSubstr;
using testing::Not;

const std::string kGolden = MOEPACK_SOURCE_DIR "/fixtures/signing";

PrivateKey GoldenKey() { return ReadPrivateKey(kGolden + "/p256-for-tests-only.key", {}).value(); }

// A copy of fixtures/signing/model, which was signed when the format was written.
class Oms : public testing::Test {
 protected:
  Oms() { fs::copy(kGolden + "/model", dir_ / "model", fs::copy_options::recursive); }
  std::string Path(const std::string& name = "model") const { return (dir_ / name).string(); }
  Result<OmsReport> SignIt(const PrivateKey& key, bool replace = true) const {
    OmsSignOptions options;
    options.replace = replace;
    return SignDirectory(Path(), key, options);
  }
  Result<OmsReport> VerifyIt(const std::vector<PublicKey>& keys) const {
    return VerifyDirectory(Path(), "", keys, {});
  }
  std::string Refusal(Code code = Code::kMismatch) const {
    const auto report = VerifyIt({GoldenKey().public_key()});
    if (report) return "no error";
    EXPECT_EQ(report.error().code, code) << report.error().message;
    return report.error().message;
  }
  // Signs another statement with the known key.
  void SignStatement(const std::string& statement) const {
    WriteFile(dir_ / "model/model.sig", *WriteOmsBundle(statement, GoldenKey()));
  }
  fixtures::TempDir dir_;
};

TEST_F(Oms, TheGoldenSignatureIsGood) {
  const auto report = VerifyIt({NewKey().public_key(), GoldenKey().public_key()});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->name, "model");
  EXPECT_EQ(report->files, 4u);
  EXPECT_EQ(report->bytes, 34u);
  EXPECT_EQ(report->key_id, GoldenKey().public_key().id());
}

// Whoever wrote such files knows that the signature is still good, without its key.
TEST_F(Oms, ListsTheFilesThatItSigns) {
  const std::string bundle = ReadFile(dir_ / "model/model.sig");
  const Json statement = Json::parse(
      DecodeExactBase64(Json::parse(bundle)["dsseEnvelope"]["payload"].get<std::string>()).value());
  const Json first = statement["predicate"]["resources"][0];
  const FileDigest listed{first["name"], first["digest"]};
  const FileDigest ignored{".gitattributes", std::string(64, '0')};
  EXPECT_TRUE(ListsFiles(bundle, {}));
  EXPECT_TRUE(ListsFiles(bundle, {listed, ignored}));
  EXPECT_FALSE(ListsFiles(bundle, {listed, {listed.name, std::string(64, '0')}}));
  EXPECT_FALSE(ListsFiles(bundle, {{"another", listed.sha256}}));
  EXPECT_FALSE(ListsFiles("{}", {listed}));
}

// Signatures differ each time; the signed statements do not.
TEST_F(Oms, TheStatementMatchesTheGoldenOne) {
  const auto bytes = [&] {
    const Json bundle = Json::parse(ReadFile(dir_ / "model/model.sig"));
    return DecodeExactBase64(bundle["dsseEnvelope"]["payload"].get<std::string>()).value();
  };
  const std::string golden = bytes();
  ASSERT_TRUE(SignIt(GoldenKey()));
  EXPECT_EQ(bytes(), golden);
  EXPECT_THAT(golden, HasSubstr(R"({"_type":"https://in-toto.io/Statement/v1","subject":[{"name":)"
                                R"("model","digest":{"sha256":")"));
  EXPECT_THAT(golden, HasSubstr(R"("predicateType":"https://model_signing/signature/v1.0",)"
                                R"("predicate":{"serialization":{"method":"files","hash_type":)"
                                R"("sha256","allow_symlinks":false,"ignore_paths":[".git",)"
                                R"(".gitattributes",".github",".gitignore","model.sig"]},)"
                                R"("resources":[{"name":"config.json","algorithm":"sha256",)"));
  // "experts/000" comes before "experts-extra/000".
  EXPECT_LT(golden.find("experts/000"), golden.find("experts-extra/000"));
  EXPECT_TRUE(VerifyIt({GoldenKey().public_key()}));
}

TEST_F(Oms, TheBundleFollowsTheFormat) {
  const Json bundle = Json::parse(ReadFile(dir_ / "model/model.sig"));
  EXPECT_EQ(bundle["mediaType"], "application/vnd.dev.sigstore.bundle.v0.3+json");
  EXPECT_EQ(bundle["dsseEnvelope"]["payloadType"], "application/vnd.in-toto+json");
  EXPECT_EQ(bundle["dsseEnvelope"]["signatures"].size(), 1u);
  // sigstore-models refuses a bundle without the two.
  EXPECT_EQ(bundle["verificationMaterial"]["tlogEntries"], Json::array());
  EXPECT_EQ(bundle["dsseEnvelope"]["signatures"][0]["keyid"], "");
  const std::string pem = ReadFile(kGolden + "/p256-for-tests-only.pub");
  EXPECT_EQ(bundle["verificationMaterial"]["publicKey"]["hint"], Sha256Hex(pem));
}

// A shell assembles the signed bytes, and OpenSSL's program verifies them.
TEST_F(Oms, OpensslVerifiesTheEnvelope) {
  if (!HasOpenssl()) GTEST_SKIP() << "openssl is not installed";
  ASSERT_TRUE(SignIt(GoldenKey()));
  const Json envelope = Json::parse(ReadFile(dir_ / "model/model.sig"))["dsseEnvelope"];
  WriteFile(dir_ / "payload", DecodeExactBase64(envelope["payload"].get<std::string>()).value());
  WriteFile(dir_ / "sig",
            DecodeExactBase64(envelope["signatures"][0]["sig"].get<std::string>()).value());
  EXPECT_TRUE(ShellRuns(dir_.path(),
                        "{ printf 'DSSEv1 28 application/vnd.in-toto+json %d ' "
                        "$(wc -c <payload); cat payload; } >signed && openssl dgst -sha256 -verify "
                        "'" +
                            kGolden + "/p256-for-tests-only.pub' -signature sig signed"))
      << ReadFile(dir_ / "log");
}

TEST_F(Oms, EveryChangeOfAFileIsNamed) {
  WriteFile(dir_ / "model/experts/000", "some weighty");
  fs::remove(dir_ / "model/empty");
  WriteFile(dir_ / "model/more", "");
  EXPECT_EQ(Refusal(), Path() +
                           ": expected the files that were signed, found other bytes in "
                           "experts/000; no file empty; files that nobody signed: more");
}

TEST_F(Oms, CountsManyChanges) {
  for (int i = 0; i < 8; ++i) WriteFile(dir_ / ("model/z" + std::to_string(i)), "");
  EXPECT_THAT(Refusal(), HasSubstr("files that nobody signed: z0, z1, z2, z3, z4, 3 more"));
}

TEST_F(Oms, DoesNotSignFilesOfGit) {
  for (const char* name : {".git/HEAD", ".github/x/y", ".gitignore", ".gitattributes"}) {
    fs::create_directories((dir_ / "model" / name).parent_path());
    WriteFile(dir_ / "model" / name, "x");
  }
  EXPECT_EQ(Refusal(), "no error");
  WriteFile(dir_ / "model/.gitother", "x");
  EXPECT_THAT(Refusal(), HasSubstr("files that nobody signed: .gitother"));
}

TEST_F(Oms, FilesThatNobodySignedAreFoundInEveryDirectory) {
  for (const std::string name : {"lost+found", ".moepack.partial", ".moepack.x.partial-1"}) {
    fs::create_directories(dir_ / "model" / name / "files");
    WriteFile(dir_ / "model" / name / "files/config.json", "x");
    EXPECT_THAT(Refusal(), HasSubstr("files that nobody signed: " + name + "/files/config.json"));
    fs::remove_all(dir_ / "model" / name);
  }
}

TEST_F(Oms, WhatAKilledRunLeftIsNotSigned) {
  WriteFile(dir_ / "model/model.sig.tmp-99999", "x");
  ASSERT_TRUE(SignIt(GoldenKey()));
  EXPECT_FALSE(fs::exists(dir_ / "model/model.sig.tmp-99999"));
  EXPECT_EQ(Refusal(), "no error");
  fs::create_directories(dir_ / "model/.moepack.partial/files");
  const auto refused = SignIt(GoldenKey());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              HasSubstr("holds \".moepack.partial\", which an unfinished run left"));
}

TEST_F(Oms, FilesCanBeIgnored) {
  OmsSignOptions options;
  options.replace = true;
  options.ignored = {"experts"};
  const auto report = SignDirectory(Path(), GoldenKey(), options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->files, 3u);
  fs::remove_all(dir_ / "model/experts");
  EXPECT_EQ(Refusal(), "no error");
  EXPECT_THAT(ReadFile(dir_ / "model/experts-extra/000"), Not(""));
  fs::remove_all(dir_ / "model/experts-extra");
  EXPECT_THAT(Refusal(), HasSubstr("no file experts-extra/000"));
}

TEST_F(Oms, TheSignatureFileMayBeElsewhere) {
  OmsSignOptions options;
  options.signature_file = Path("elsewhere.sig");
  fs::remove(dir_ / "model/model.sig");
  const auto signed_one = SignDirectory(Path() + "/", GoldenKey(), options);
  ASSERT_TRUE(signed_one) << signed_one.error().message;
  EXPECT_EQ(signed_one->name, "model");
  const std::vector<PublicKey> keys = {GoldenKey().public_key()};
  EXPECT_TRUE(VerifyDirectory(Path(), Path("elsewhere.sig"), keys, {}));
  // It does not ignore model.sig, which did not exist.
  WriteFile(dir_ / "model/model.sig", "x");
  EXPECT_FALSE(VerifyDirectory(Path(), Path("elsewhere.sig"), keys, {}));
  options.signature_file = Path("model/deep.sig");
  ASSERT_TRUE(SignDirectory(Path(), GoldenKey(), options));
  EXPECT_TRUE(VerifyDirectory(Path(), Path("model/deep.sig"), keys, {}));
}

TEST_F(Oms, ReplacesASignatureOnlyOnRequest) {
  const std::string before = ReadFile(dir_ / "model/model.sig");
  const auto again = SignIt(GoldenKey(), false);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kInvalidArgument);
  EXPECT_THAT(again.error().message, HasSubstr("model.sig already exists"));
  OmsSignOptions options;
  options.replace = options.dry_run = true;
  const auto dry = SignDirectory(Path(), GoldenKey(), options);
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_EQ(dry->files, 4u);
  EXPECT_EQ(ReadFile(dir_ / "model/model.sig"), before);
}

// The key, a file of the directory, and anything else that is not a signature.
TEST_F(Oms, ReplacesNothingButASignature) {
  WriteFile(dir_ / "my.key", "secret");
  for (const char* name : {"my.key", "model/config.json", "model/empty", "model/experts"}) {
    for (const bool dry_run : {false, true}) {
      const auto before = ReadFile(dir_ / name);
      OmsSignOptions options;
      options.signature_file = Path(name);
      options.replace = true;
      options.dry_run = dry_run;
      const auto refused = SignDirectory(Path(), GoldenKey(), options);
      ASSERT_FALSE(refused) << name;
      EXPECT_EQ(refused.error().code, Code::kInvalidArgument) << name;
      EXPECT_THAT(refused.error().message, HasSubstr("already exists and is not a signature"));
      EXPECT_EQ(ReadFile(dir_ / name), before) << name;
    }
  }
}

TEST_F(Oms, RefusesToSignWithOtherKeysOrInvalidDirectories) {
  const auto ed25519 = SignIt(NewKey(KeyType::kEd25519));
  ASSERT_FALSE(ed25519);
  EXPECT_EQ(ed25519.error().code, Code::kInvalidArgument);
  EXPECT_EQ(ed25519.error().message, "new key: expected an ECDSA P-256 key, found one of Ed25519");
  fs::create_directories(dir_ / "nothing");
  const auto nothing = SignDirectory(Path("nothing"), GoldenKey(), {});
  ASSERT_FALSE(nothing);
  EXPECT_THAT(nothing.error().message, HasSubstr("nothing: expected files, found none"));
  EXPECT_FALSE(fs::exists(dir_ / "nothing/model.sig"));
  EXPECT_EQ(SignDirectory(Path("absent"), GoldenKey(), {}).error().code, Code::kNotFound);
}

TEST_F(Oms, ASignatureByAnUnknownKeyIsRefused) {
  ASSERT_TRUE(SignIt(NewKey()));
  EXPECT_EQ(Refusal(), Path("model/model.sig") + ": no valid signature by " + kGolden +
                           "/p256-for-tests-only.key");
  const auto several = VerifyIt({NewKey().public_key(), NewKey(KeyType::kEd25519).public_key()});
  ASSERT_FALSE(several);
  EXPECT_THAT(several.error().message, HasSubstr("no valid signature by any of 2 keys"));
  fs::remove(dir_ / "model/model.sig");
  EXPECT_EQ(Refusal(), Path("model/model.sig") + ": expected a signature, found none");
}

TEST_F(Oms, AChangedBundleIsRefused) {
  const Json good = Json::parse(ReadFile(dir_ / "model/model.sig"));
  const auto refusal = [&](const std::function<void(Json&)>& change) {
    Json bundle = good;
    change(bundle);
    WriteFile(dir_ / "model/model.sig", bundle.dump());
    return Refusal();
  };
  const std::string payload = good["dsseEnvelope"]["payload"];
  EXPECT_THAT(refusal([&](Json& b) { b["dsseEnvelope"]["payload"] = payload.substr(4); }),
              HasSubstr("no valid signature"));
  EXPECT_THAT(refusal([&](Json& b) { b["dsseEnvelope"]["payload"] = payload.substr(1); }),
              HasSubstr("dsseEnvelope: payload: expected base64"));
  EXPECT_THAT(refusal([](Json& b) { b["dsseEnvelope"]["signatures"][0]["sig"] = "AAAA"; }),
              HasSubstr("no valid signature"));
  EXPECT_THAT(refusal([](Json& b) { b["dsseEnvelope"]["signatures"] = Json::array(); }),
              HasSubstr("signatures: expected a list of one object"));
  EXPECT_THAT(refusal([](Json& b) { b["dsseEnvelope"]["payloadType"] = "text/plain"; }),
              HasSubstr("payloadType: expected \"application/vnd.in-toto+json\""));
  EXPECT_THAT(refusal([](Json& b) { b["mediaType"] = "x"; }), HasSubstr("mediaType: expected "));
  EXPECT_THAT(refusal([](Json& b) { b = Json::array(); }), HasSubstr("expected an object"));
  EXPECT_THAT(refusal([](Json& b) { b.erase("dsseEnvelope"); }), HasSubstr("dsseEnvelope"));
}

// Signed with the right key, and still not what is expected.
TEST_F(Oms, StatementsOfOtherKindsAreRefused) {
  const Json bundle = Json::parse(ReadFile(dir_ / "model/model.sig"));
  const std::string good =
      DecodeExactBase64(bundle["dsseEnvelope"]["payload"].get<std::string>()).value();
  const auto refusal = [&](const char* from, const char* to, Code code) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    text.replace(at, std::string(from).size(), to);
    SignStatement(text);
    return Refusal(code);
  };
  EXPECT_THAT(refusal("\"files\"", "\"shards\"", Code::kUnsupported),
              HasSubstr("serialization: method: expected \"files\", found \"shards\""));
  EXPECT_THAT(refusal("\"hash_type\":\"sha256\"", "\"hash_type\":\"blake2b\"", Code::kUnsupported),
              HasSubstr("hash_type: expected \"sha256\""));
  EXPECT_THAT(refusal("v1.0", "v2.0", Code::kUnsupported), HasSubstr("predicateType: expected "));
  EXPECT_THAT(refusal("Statement/v1", "Statement/v9", Code::kUnsupported), HasSubstr("_type: "));
  EXPECT_THAT(refusal("\"algorithm\":\"sha256\"", "\"algorithm\":\"md5\"", Code::kUnsupported),
              HasSubstr("resource 0: algorithm: expected \"sha256\""));
  EXPECT_THAT(refusal("\"digest\":\"", "\"digest\":\"x", Code::kCorrupt),
              HasSubstr("resource 0: digest: expected 64 hexadecimal digits"));
  EXPECT_THAT(refusal("{\"sha256\":\"", "{\"sha256\":\"0", Code::kCorrupt),
              HasSubstr("subject: digest: sha256: expected the digest of the resources"));
  EXPECT_THAT(refusal("[\".git\"", "[7", Code::kCorrupt),
              HasSubstr("ignore_paths: expected a list of paths"));
  EXPECT_THAT(refusal("\"resources\":[", "\"resources\":[7,", Code::kCorrupt),
              HasSubstr("resource 0: expected an object, found 7"));
  EXPECT_THAT(refusal("{", "[", Code::kCorrupt), HasSubstr("statement"));
}

}  // namespace
}  // namespace moepack::registry

#include <gmock/gmock.h>

#include <future>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class SignCommand : public testing::Test {
 protected:
  void SetUp() override {
    Must("build fixtures/tiny-moe --groups 2 --no-verify -o out");
    Must("publish out layout:models:v1");
    Must("keygen -o release");
    Must("keygen -o other --type ed25519");
  }
  ToolRun Must(const std::string& arguments, int status = 0) const {
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, status) << arguments << "\n" << run.out << run.err;
    return run;
  }
  bool Shell(const std::string& command) const {
    const std::string line = "cd '" + workspace_.path().string() + "' && { " + command + "; }";
    return std::system((line + " >log 2>&1").c_str()) == 0;
  }
  fs::path Blob(const std::string& digest) const {
    return workspace_ / ("models/blobs/sha256/" + digest.substr(digest.find(':') + 1));
  }
  Workspace workspace_;
};

// The command that sign prints is run unchanged.
TEST_F(SignCommand, SignsASetWithItsViewsAndPrintsTheCommandToVerifyIt) {
  const ToolRun run = Must("sign layout:models:v1 --key release.key");
  EXPECT_THAT(run.out, HasSubstr("v1       signed  sha256:"));
  EXPECT_THAT(run.out, HasSubstr("v1-g001  signed  sha256:"));
  EXPECT_THAT(run.out,
              HasSubstr("signed layout:models:v1 as moepack.local/layout with release.key (ECDSA "
                        "P-256, key "));
  const size_t next = run.out.find("\nnext:\n  moepack ");
  ASSERT_NE(next, run.out.npos) << run.out;
  const std::string line = run.out.substr(next + 17);
  const ToolRun verified = Must(line.substr(0, line.find('\n')));
  EXPECT_THAT(verified.out,
              HasSubstr("layout:models:v1: signed by release.pub (ECDSA P-256, key "));
  EXPECT_THAT(verified.out, HasSubstr("\n1 signature found, 1 by this key\n"));
  Must("verify layout:models:v1-g001 --key release.pub");
  const std::string again = Must("sign layout:models:v1 --key release.key").out;
  EXPECT_THAT(again, HasSubstr("v1       was signed"));
  EXPECT_THAT(again,
              HasSubstr("\nlayout:models:v1 was signed before as moepack.local/layout with "));
  // A published set can still be listed, pulled and published again.
  EXPECT_THAT(Must("ls layout:models").out, HasSubstr("3 manifests, 3 signatures"));
  Must("pull layout:models:v1 --group 0 -o pulled");
  Must("publish out layout:models:v1");
}

TEST_F(SignCommand, VerifiesWithAnyOfSeveralKeys) {
  Must("sign layout:models:v1 --key release.key --no-views");
  const ToolRun unknown = Must("verify layout:models:v1 --key other.pub", 6);
  EXPECT_THAT(unknown.err, HasSubstr("models: no valid signature for sha256:"));
  EXPECT_THAT(unknown.err, HasSubstr(" by other.pub (1 signature found, key unknown)"));
  EXPECT_EQ(unknown.out, "");
  Must("verify layout:models:v1 --key other.pub --key release.pub");
  const ToolRun unsigned_view =
      Must("verify layout:models:v1-g000 --key other.pub --key release.pub", 6);
  EXPECT_THAT(unsigned_view.err, HasSubstr(" by any of 2 keys (no signature found)"));
  Must("sign layout:models:v1 --key other.key --identity registry.example/team/model");
  const auto both =
      workspace_.Json("verify layout:models:v1 --key other.pub --key release.pub --json");
  EXPECT_EQ(both["found"], 2);
  EXPECT_EQ(both["signatures"][0]["key"]["file"], "release.pub");
  EXPECT_EQ(both["signatures"][1]["key"]["type"], "Ed25519");
  EXPECT_EQ(both["signatures"][1]["identity"], "registry.example/team/model");
  const ToolRun json = Must("verify layout:models:v1-g000 --key release.pub --json", 6);
  EXPECT_EQ(nlohmann::json::parse(json.out)["passed"], false);
}

// By its own program, from the files of the layout alone.
TEST_F(SignCommand, OpensslVerifiesWhatIsInTheLayout) {
  if (!Shell("command -v openssl")) GTEST_SKIP() << "openssl is not installed";
  Must("sign layout:models:v1 --key release.key --no-views");
  const auto done = workspace_.Json("sign layout:models:v1 --key other.key --no-views --json");
  const std::string tag = done["manifests"][0]["signature_tag"];
  const auto index = nlohmann::json::parse(ReadFile(workspace_ / "models/index.json"));
  for (const auto& entry : index["manifests"]) {
    if (entry["annotations"]["org.opencontainers.image.ref.name"] != tag) continue;
    const auto layers = nlohmann::json::parse(ReadFile(Blob(entry["digest"])))["layers"];
    ASSERT_EQ(layers.size(), 2u);
    const char* const verify[] = {
        "openssl dgst -sha256 -verify release.pub -signature sig payload",
        "openssl pkeyutl -verify -rawin -pubin -inkey other.pub -sigfile sig -in payload"};
    for (size_t i = 0; i < 2; ++i) {
      WriteAll(workspace_ / "payload", ReadFile(Blob(layers[i]["digest"])));
      WriteAll(workspace_ / "text", layers[i]["annotations"]["dev.cosignproject.cosign/signature"]);
      EXPECT_TRUE(Shell("openssl base64 -d -A -in text -out sig && " + std::string(verify[i])))
          << ReadFile(workspace_ / "log");
      EXPECT_THAT(ReadFile(workspace_ / "payload"),
                  HasSubstr(done["manifests"][0]["digest"].get<std::string>()));
    }
    return;
  }
  FAIL() << "no manifest " << tag;
}

TEST_F(SignCommand, ADryRunWritesNothing) {
  const std::string before = workspace_.Listing();
  const auto dry = workspace_.Json("sign layout:models:v1 --key release.key --dry-run --json");
  EXPECT_EQ(dry["manifests"].size(), 3u);
  EXPECT_EQ(dry["manifests"][0]["state"], "to sign");
  EXPECT_EQ(workspace_.Listing(), before);
}

TEST_F(SignCommand, APassphraseDecryptsTheKeyAndIsNeverPrinted) {
  WriteAll(workspace_ / "words", "open sesame\n");
  WriteAll(workspace_ / "wrong", "open barley\n");
  Must("keygen -o locked --passphrase-file words");
  const ToolRun none = Must("sign layout:models:v1 --key locked.key", 2);
  EXPECT_THAT(none.err, HasSubstr("locked.key: expected a passphrase for this encrypted key"));
  const ToolRun wrong = Must("sign layout:models:v1 --key locked.key --passphrase-file wrong", 2);
  EXPECT_THAT(wrong.err, Not(HasSubstr("barley")));
  const ToolRun right = Must("sign layout:models:v1 --key locked.key --passphrase-file words");
  EXPECT_THAT(right.out + right.err, Not(HasSubstr("sesame")));
  Must("verify layout:models:v1 --key locked.pub");
}

// If a signature was found but its payload is elsewhere or different, nothing is trusted.
TEST_F(SignCommand, DamageInTheLayoutIsAMismatch) {
  Must("sign layout:models:v1 --key release.key --no-views");
  const auto good = workspace_.Json("verify layout:models:v1 --key release.pub --json");
  const fs::path payload = Blob(good["signatures"][0]["payload"]);
  fs::permissions(payload, fs::perms(0644));
  std::string text = ReadFile(payload);
  text[text.find("sha256:") + 8] ^= 1;
  WriteAll(payload, text);
  const ToolRun run = Must("verify layout:models:v1 --key release.pub", 6);
  EXPECT_THAT(run.err, HasSubstr("(1 signature found, payload missing or corrupt)"));
  // Signing again repairs it.
  Must("sign layout:models:v1 --key release.key --no-views");
  Must("verify layout:models:v1 --key release.pub");
}

TEST_F(SignCommand, SignsADirectoryForModelSigning) {
  Must("pull layout:models:v1 --group 1 -o pulled");
  const ToolRun run = Must("sign pulled --oms --key release.key");
  EXPECT_THAT(run.out, HasSubstr(" of pulled in pulled/model.sig with release.key (ECDSA P-256"));
  const std::string line = run.out.substr(run.out.find("\nnext:\n  moepack ") + 17);
  const ToolRun verified = Must(line.substr(0, line.find('\n')));
  EXPECT_THAT(verified.out, HasSubstr("pulled: signed by release.pub (ECDSA P-256, key "));
  EXPECT_EQ(Must("sign pulled --oms --key release.key", 2).out, "");
  Must("sign pulled --oms --key release.key --force");
  Must("sign pulled --oms --key release.key -o pulled.sig");
  Must("verify pulled --oms --key other.pub", 6);
  const auto failed =
      nlohmann::json::parse(Must("verify pulled --oms --key other.pub --json", 6).out);
  EXPECT_EQ(failed["directory"], "pulled");
  EXPECT_FALSE(failed.contains("reference"));
  // Another pull of the same files keeps the signature valid.
  Must("pull layout:models:v1 --group 1 -o pulled");
  Must("verify pulled --oms --key release.pub");
  Must("verify pulled --group 1");
  WriteAll(workspace_ / "pulled/README.md", "other words");
  const ToolRun changed = Must("verify pulled --oms --key release.pub", 6);
  EXPECT_THAT(changed.err, HasSubstr("found other bytes in README.md"));
}

// The files that a pull brings back are those that were signed.
TEST_F(SignCommand, ASignatureIsNotStaleOnceAPullHasRestoredItsFiles) {
  Must("pull layout:models:v1 --group 1 -o pulled");
  Must("sign pulled --oms --key release.key");
  WriteAll(workspace_ / "pulled/README.md", "other words");
  Must("verify pulled --oms --key release.pub", 6);
  const ToolRun restored = Must("pull layout:models:v1 --group 1 -o pulled");
  EXPECT_THAT(restored.err, Not(HasSubstr("model.sig")));
  Must("verify pulled --oms --key release.pub");
}

TEST_F(SignCommand, ForceReplacesOnlyASignature) {
  const std::string key = ReadFile(workspace_ / "release.key");
  for (const char* file : {"release.key", "other.pub", "out/distribution.json"}) {
    const ToolRun run = Must(std::string("sign out --oms --key release.key --force -o ") + file, 2);
    EXPECT_THAT(run.err, HasSubstr("already exists and is not a signature")) << file;
  }
  EXPECT_EQ(ReadFile(workspace_ / "release.key"), key);
}

// A layout has a lock: a signer that finds it taken waits, and nobody's signature is lost.
TEST_F(SignCommand, SixPeopleMaySignALayoutAtOnce) {
  constexpr int kSigners = 6;
  for (int i = 0; i < kSigners; ++i) Must("keygen -o key" + std::to_string(i));
  std::vector<std::future<int>> signers;
  for (int i = 0; i < kSigners; ++i) {
    signers.push_back(std::async(std::launch::async, [this, i] {
      return workspace_
          .Moepack("sign layout:models:v1 --key key" + std::to_string(i) + ".key >log" +
                   std::to_string(i) + " 2>&1")
          .status;
    }));
  }
  for (int i = 0; i < kSigners; ++i) {
    EXPECT_EQ(signers[static_cast<size_t>(i)].get(), 0);
    Must("verify layout:models:v1 --key key" + std::to_string(i) + ".pub");
  }
}

// The signature goes with the files that it vouches for.
TEST_F(SignCommand, ASignedDirectoryIsVerifiedAndReplaced) {
  Must("pull layout:models:v1 --group 0 -o pulled");
  Must("sign pulled --oms --key release.key");
  Must("verify pulled --group 0 --strict");
  Must("assemble pulled --group 0 -o node");
  Must("sign node --oms --key release.key");
  Must("verify node --strict");
  Must("assemble pulled --group 0 -o node --force");
  EXPECT_FALSE(fs::exists(workspace_ / "node/model.sig"));
  Must("build fixtures/tiny-moe --groups 2 --recipe Q8_0 --no-verify -o other");
  Must("publish other layout:models:v1 --force");
  const ToolRun updated = Must("pull layout:models:v1 -o pulled --update");
  EXPECT_FALSE(fs::exists(workspace_ / "pulled/model.sig"));
  EXPECT_THAT(updated.err,
              HasSubstr("pulled/model.sig: it signed the files that were there before, and was "
                        "removed with them; sign the new ones with `moepack sign pulled --oms "
                        "--key KEY.key`"));
  WriteAll(workspace_ / "node/model.sig", "mine");
  EXPECT_THAT(Must("assemble pulled --group 0 -o node --force", 2).err,
              HasSubstr("holds \"model.sig\", which moepack did not write"));
}

TEST_F(SignCommand, RefusesInvalidCommands) {
  const std::string before = workspace_.Listing();
  Must("sign layout:models:v1", 2);
  Must("sign out --key release.key", 2);
  Must("sign layout:models:v1 --oms --key release.key", 2);
  Must("sign out --oms --key other.key", 2);
  Must("sign out --oms --key release.key --identity a.b/c", 2);
  Must("sign out --oms --key release.key --no-views", 2);
  Must("sign layout:models:v1 --key release.key -o x.sig", 2);
  Must("sign layout:models:v1 --key release.key --force", 2);
  Must("sign layout:models:v1 --key release.key --identity v1", 2);
  Must("sign layout:models:v1 --key release.pub", 2);
  Must("sign layout:models:v2 --key release.key", 5);
  Must("sign layout:absent:v1 --key release.key", 5);
  Must("sign layout:models:v1 --key absent.key", 5);
  Must("sign layout:models:v1 --key README.md", 3);
  Must("sign layout+https://127.0.0.1/models:v1 --key release.key", 2);
  Must("verify layout:models:v1", 2);
  Must("verify out --key release.pub", 2);
  Must("verify layout:models:v1 --key release.key", 2);
  Must("verify layout:models:v1 --key release.pub --key release.pub", 2);
  Must("verify layout:models:v1 --key release.pub --oms", 2);
  Must("verify layout:models:v1 --key release.pub --jobs 2", 2);
  Must("verify layout:models:v1 --key release.pub --format github", 2);
  Must("verify out --key release.pub --oms --group 1", 2);
  Must("verify out --oms", 2);
  Must("verify layout:models:v2 --key release.pub", 5);
  EXPECT_EQ(workspace_.Listing(), before);
}

// skopeo copies the signatures if they are requested by their tag.
TEST_F(SignCommand, SkopeoCopiesSignatures) {
  if (!Shell("command -v skopeo")) GTEST_SKIP() << "skopeo is not installed";
  const auto done = workspace_.Json("sign layout:models:v1 --key release.key --json");
  const std::string tag = done["manifests"][0]["signature_tag"];
  fs::create_directories(workspace_ / "home");
  for (const std::string& one : {std::string("v1"), tag}) {
    EXPECT_TRUE(Shell("HOME=$PWD/home TMPDIR=$PWD/home skopeo --insecure-policy copy oci:models:" +
                      one + " oci:copied:" + one))
        << ReadFile(workspace_ / "log");
  }
  Must("verify layout:copied:v1 --key release.pub");
}

}  // namespace
}  // namespace moepack::cli

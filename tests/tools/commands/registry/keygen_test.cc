#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Keygen : public testing::Test {
 protected:
  bool Shell(const std::string& command) const {
    return std::system(("cd '" + workspace_.path().string() + "' && { " + command + "; } >log 2>&1")
                           .c_str()) == 0;
  }
  Workspace workspace_;
};

TEST_F(Keygen, WritesBothKeysAndPrintsTheKeyNumber) {
  const ToolRun run = workspace_.Moepack("keygen -o release");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("release.key  private key, ECDSA P-256, not encrypted\n"));
  EXPECT_THAT(run.out, HasSubstr("release.pub  public key\n\nkey "));
  EXPECT_THAT(ReadFile(workspace_ / "release.key"), StartsWith("-----BEGIN PRIVATE KEY-----\n"));
  EXPECT_THAT(ReadFile(workspace_ / "release.pub"), StartsWith("-----BEGIN PUBLIC KEY-----\n"));
  EXPECT_EQ(fs::status(workspace_ / "release.key").permissions(), fs::perms(0600));
  if (!Shell("command -v openssl")) GTEST_SKIP() << "openssl is not installed";
  ASSERT_TRUE(Shell("openssl pkey -pubin -in release.pub -outform DER | sha256sum"));
  EXPECT_THAT(run.out, HasSubstr("key " + ReadFile(workspace_ / "log").substr(0, 64) + "\n"));
}

TEST_F(Keygen, APassphraseEncryptsAndIsNeverPrinted) {
  WriteAll(workspace_ / "words", "open sesame\n");
  const auto made =
      workspace_.Json("keygen -o release --type ed25519 --passphrase-file words --json");
  EXPECT_EQ(made["type"], "Ed25519");
  EXPECT_EQ(made["encrypted"], true);
  EXPECT_EQ(made["private_key"], "release.key");
  EXPECT_THAT(made.dump(), Not(HasSubstr("sesame")));
  EXPECT_THAT(ReadFile(workspace_ / "release.key"), StartsWith("-----BEGIN ENCRYPTED PRIVATE"));
  setenv("MOEPACK_SIGN_PASSPHRASE", "open sesame", 1);
  const auto named = workspace_.Json("keygen -o other --json");
  unsetenv("MOEPACK_SIGN_PASSPHRASE");
  EXPECT_EQ(named["encrypted"], true);
  if (!Shell("command -v openssl")) GTEST_SKIP() << "openssl is not installed";
  EXPECT_TRUE(Shell("openssl pkey -in other.key -passin 'pass:open sesame' -noout"));
  EXPECT_FALSE(Shell("openssl pkey -in other.key -passin 'pass:open barley' -noout"));
}

TEST_F(Keygen, NeverReplacesAKey) {
  ASSERT_EQ(workspace_.Moepack("keygen -o release").status, 0);
  const std::string before = ReadFile(workspace_ / "release.key");
  const ToolRun again = workspace_.Moepack("keygen -o release");
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.err, HasSubstr("release.key: expected a new file, found one that exists"));
  fs::remove(workspace_ / "release.key");
  const ToolRun half = workspace_.Moepack("keygen -o release");
  EXPECT_EQ(half.status, 2);
  EXPECT_THAT(half.err, HasSubstr("release.pub: expected a new file, found one that exists"));
  EXPECT_FALSE(fs::exists(workspace_ / "release.key"));
}

TEST_F(Keygen, ErrorsHaveTheirExitStatus) {
  const std::string before = workspace_.Listing();
  EXPECT_EQ(workspace_.Moepack("keygen").status, 2);
  EXPECT_EQ(workspace_.Moepack("keygen -o release --type rsa").status, 2);
  EXPECT_EQ(workspace_.Moepack("keygen -o absent/release").status, 5);
  for (const char* name : {".", "..", "fixtures/", "fixtures/..", "fixtures/."}) {
    const ToolRun run = workspace_.Moepack(std::string("keygen -o ") + name);
    EXPECT_EQ(run.status, 2) << name;
    EXPECT_THAT(run.err, HasSubstr("expected a path that ends with a name, found")) << name;
  }
  EXPECT_EQ(workspace_.Moepack("keygen -o release --passphrase-file absent").status, 5);
  EXPECT_EQ(workspace_.Listing(), before);
}

}  // namespace
}  // namespace moepack::cli

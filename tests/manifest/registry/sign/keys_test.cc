#include "manifest/registry/sign/keys.h"

#include <gmock/gmock.h>

#include "libshard/base/text/base64.h"
#include "tests/manifest/registry/sign/sample_keys.h"

namespace moepack::registry {
namespace {

using fixtures::ReadFile;
using fixtures::WriteFile;
using testing::HasSubstr;
using testing::StartsWith;

class Keys : public testing::TestWithParam<KeyType> {
 protected:
  Keys() : key_(NewKey(GetParam())) {}
  std::string Pem(const Secret& passphrase = {}) const {
    return std::string(key_.Pem(passphrase)->text());
  }
  const PrivateKey key_;
  fixtures::TempDir dir_;
};

TEST_P(Keys, VerifyOnlyWhatTheySigned) {
  const auto signature = key_.Sign("some bytes");
  ASSERT_TRUE(signature) << signature.error().message;
  const PublicKey& known = key_.public_key();
  EXPECT_TRUE(known.Verify("some bytes", *signature));
  EXPECT_FALSE(known.Verify("other bytes", *signature));
  EXPECT_FALSE(known.Verify("some bytes", ""));
  EXPECT_FALSE(known.Verify("some bytes", signature->substr(1)));
  EXPECT_FALSE(known.Verify("some bytes", *signature + "x"));
  EXPECT_FALSE(NewKey(GetParam()).public_key().Verify("some bytes", *signature));
  for (size_t i = 0; i < signature->size(); ++i) {
    std::string other = *signature;
    other[i] = static_cast<char>(other[i] ^ 0x10);
    EXPECT_FALSE(known.Verify("some bytes", other)) << i;
  }
}

TEST_P(Keys, ReadBackAsTheyWereWritten) {
  const auto plain = PrivateKey::Parse("it", Pem(), {});
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->public_key().id(), key_.public_key().id());
  EXPECT_EQ(plain->public_key().type(), GetParam());
  EXPECT_EQ(plain->public_key().name(), "it");
  const std::string encrypted = Pem(Words("open sesame"));
  EXPECT_THAT(encrypted, StartsWith("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"));
  const auto opened = PrivateKey::Parse("it", encrypted, Words("open sesame"));
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->public_key().id(), key_.public_key().id());
  const auto known = PublicKey::Parse("it", key_.public_key().pem());
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_EQ(known->id(), key_.public_key().id());
  EXPECT_EQ(known->pem(), key_.public_key().pem());
  EXPECT_TRUE(known->Verify("x", *plain->Sign("x")));
}

TEST_P(Keys, RequireTheCorrectPassphrase) {
  const std::string encrypted = Pem(Words("open sesame"));
  const auto none = PrivateKey::Parse("it", encrypted, {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kInvalidArgument);
  EXPECT_EQ(none.error().message, "it: expected a passphrase for this encrypted key, found none");
  EXPECT_THAT(none.error().hint, HasSubstr("--passphrase-file"));
  const auto other = PrivateKey::Parse("it", encrypted, Words("open barley"));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kInvalidArgument);
  EXPECT_EQ(other.error().message,
            "it: expected the passphrase that this key was encrypted with, found another");
  const auto plain = PrivateKey::Parse("it", Pem(), Words("open sesame"));
  ASSERT_FALSE(plain);
  EXPECT_EQ(plain.error().message,
            "it: expected an encrypted key, as a passphrase was given, found a plain one");
}

TEST_P(Keys, ReportAKeyOfTheOtherKind) {
  const auto as_public = PublicKey::Parse("it", Pem());
  ASSERT_FALSE(as_public);
  EXPECT_EQ(as_public.error().code, Code::kInvalidArgument);
  EXPECT_EQ(as_public.error().message, "it: expected a public key, found a private key");
  EXPECT_FALSE(PublicKey::Parse("it", Pem(Words("x"))));
  const auto as_private = PrivateKey::Parse("it", key_.public_key().pem(), {});
  ASSERT_FALSE(as_private);
  EXPECT_EQ(as_private.error().code, Code::kInvalidArgument);
  EXPECT_EQ(as_private.error().message, "it: expected a private key, found a public key");
}

// We read what OpenSSL's own program writes, and it reads what we write.
TEST_P(Keys, AreExchangedWithOpenssl) {
  if (!HasOpenssl()) GTEST_SKIP() << "openssl is not installed";
  WriteFile(dir_ / "plain", Pem());
  WriteFile(dir_ / "encrypted", Pem(Words("open sesame")));
  WriteFile(dir_ / "ours.pub", key_.public_key().pem());
  EXPECT_TRUE(ShellRuns(dir_.path(),
                        "openssl pkey -in plain -pubout -out plain.pub && "
                        "cmp plain.pub ours.pub"))
      << ReadFile(dir_ / "log");
  EXPECT_TRUE(ShellRuns(dir_.path(),
                        "openssl pkcs8 -in encrypted -passin 'pass:open sesame' "
                        "-out opened && cmp opened plain"))
      << ReadFile(dir_ / "log");
  EXPECT_TRUE(ShellRuns(dir_.path(), "openssl pkey -pubin -in ours.pub -outform DER | sha256sum"));
  EXPECT_THAT(ReadFile(dir_ / "log"), StartsWith(key_.public_key().id()));
  for (const char* form : {"-v2 aes-256-cbc", "-scrypt", "-v2 aes-128-cbc -v2prf hmacWithSHA256"}) {
    const std::string command =
        std::string("openssl pkcs8 -topk8 -in plain -out theirs ") + form + " -passout 'pass:x y'";
    ASSERT_TRUE(ShellRuns(dir_.path(), command)) << ReadFile(dir_ / "log");
    const auto read = PrivateKey::Parse("it", ReadFile(dir_ / "theirs"), Words("x y"));
    ASSERT_TRUE(read) << form << ": " << read.error().message;
    EXPECT_EQ(read->public_key().id(), key_.public_key().id());
  }
}

TEST_P(Keys, SignaturesAreExchangedWithOpenssl) {
  if (!HasOpenssl()) GTEST_SKIP() << "openssl is not installed";
  WriteFile(dir_ / "data", "some bytes");
  WriteFile(dir_ / "ours", *key_.Sign("some bytes"));
  WriteFile(dir_ / "key", Pem());
  WriteFile(dir_ / "pub", key_.public_key().pem());
  const bool p256 = GetParam() == KeyType::kP256;
  EXPECT_TRUE(ShellRuns(
      dir_.path(), p256
                       ? "openssl dgst -sha256 -verify pub -signature ours data"
                       : "openssl pkeyutl -verify -rawin -pubin -inkey pub -sigfile ours -in data"))
      << ReadFile(dir_ / "log");
  EXPECT_TRUE(
      ShellRuns(dir_.path(), p256 ? "openssl dgst -sha256 -sign key -out theirs data"
                                  : "openssl pkeyutl -sign -rawin -inkey key -in data -out theirs"))
      << ReadFile(dir_ / "log");
  EXPECT_TRUE(key_.public_key().Verify("some bytes", ReadFile(dir_ / "theirs")));
}

INSTANTIATE_TEST_SUITE_P(Types, Keys, testing::Values(KeyType::kP256, KeyType::kEd25519),
                         [](const auto& one) {
                           return one.param == KeyType::kP256 ? "P256" : "Ed25519";
                         });

std::string PemOf(const char* label, const std::string& der) {
  std::string text = std::string("-----BEGIN ") + label + "-----\n";
  const std::string digits = EncodeBase64(der);
  for (size_t at = 0; at < digits.size(); at += 64) text += digits.substr(at, 64) + "\n";
  return text + "-----END " + label + "-----\n";
}

std::string DerOf(std::string_view pem) {
  std::string digits;
  bool inside = false;
  for (size_t at = 0; at < pem.size();) {
    const size_t end = pem.find('\n', at);
    const std::string_view line = pem.substr(at, end - at);
    if (line.starts_with("-----"))
      inside = !inside;
    else if (inside)
      digits += line;
    at = end + 1;
  }
  return DecodeExactBase64(digits).value();
}

struct BadKey {
  std::string text;
  Code code;
  const char* message;
};

TEST(KeyTexts, InvalidPublicKeysAreIdentified) {
  const std::string good = NewKey().public_key().pem();
  std::string off_curve = DerOf(good);
  off_curve.back() = static_cast<char>(off_curve.back() ^ 1);
  const BadKey cases[] = {
      {"", Code::kCorrupt, "it: expected a key as PEM text"},
      {"no key", Code::kCorrupt, "it: expected a key as PEM text"},
      {good.substr(0, 100), Code::kCorrupt, "it: expected a key as PEM text"},
      {std::string("-----BEGIN PUBLIC KEY-----\n\0\xff", 29), Code::kCorrupt, "as PEM text"},
      {good + good, Code::kCorrupt, "it: expected one key, found several PEM blocks"},
      {PemOf("PUBLIC KEY", "no DER"), Code::kCorrupt, "found other bytes"},
      {PemOf("PUBLIC KEY", off_curve), Code::kCorrupt, "found other bytes"},
      {PemOf("PUBLIC KEY", DerOf(good) + "x"), Code::kCorrupt, "found other bytes"},
      {PemOf("CERTIFICATE", "x"), Code::kUnsupported, "found a PEM block \"CERTIFICATE\""},
  };
  for (const BadKey& one : cases) {
    const auto key = PublicKey::Parse("it", one.text);
    ASSERT_FALSE(key) << one.text;
    EXPECT_EQ(key.error().code, one.code) << key.error().message;
    EXPECT_THAT(key.error().message, HasSubstr(one.message));
  }
}

TEST(KeyTexts, InvalidPrivateKeysAreIdentified) {
  const std::string good = DerOf(NewKey().Pem({})->text());
  const std::string encrypted = DerOf(NewKey().Pem(Words("secret"))->text());
  const BadKey cases[] = {
      {PemOf("PRIVATE KEY", good + "x"), Code::kCorrupt, "a PKCS#8 key, found other bytes"},
      {PemOf("ENCRYPTED PRIVATE KEY", encrypted + "x"), Code::kCorrupt,
       "expected an encrypted PKCS#8 key, found other bytes"},
      {PemOf("PRIVATE KEY", "no DER"), Code::kCorrupt, "expected a PKCS#8 key, found other bytes"},
      {PemOf("ENCRYPTED PRIVATE KEY", "no DER"), Code::kCorrupt, "expected an encrypted PKCS#8"},
      {PemOf("EC PRIVATE KEY", "x"), Code::kUnsupported, "found a PEM block \"EC PRIVATE KEY\""},
      {PemOf("OPENSSH PRIVATE KEY", "x"), Code::kUnsupported, "block \"OPENSSH PRIVATE KEY\""},
      {PemOf("ENCRYPTED COSIGN PRIVATE KEY", "x"), Code::kUnsupported,
       "found a key that cosign encrypted in a format of its own"},
      {PemOf("ENCRYPTED SIGSTORE PRIVATE KEY", "x"), Code::kUnsupported,
       "found a key that cosign encrypted in a format of its own"},
  };
  for (const BadKey& one : cases) {
    const auto key = PrivateKey::Parse("it", one.text, {});
    ASSERT_FALSE(key) << one.text;
    EXPECT_EQ(key.error().code, one.code) << key.error().message;
    EXPECT_THAT(key.error().message, HasSubstr(one.message));
  }
  const auto cosign = PrivateKey::Parse("it", PemOf("ENCRYPTED COSIGN PRIVATE KEY", "x"), {});
  EXPECT_THAT(cosign.error().hint, HasSubstr("make a key with `moepack keygen`"));
  const auto old = PrivateKey::Parse("it", PemOf("EC PRIVATE KEY", "x"), {});
  EXPECT_THAT(old.error().hint, HasSubstr("`openssl pkcs8 -topk8"));
}

// The 64 bytes at the end of a P-256 key are the point of its public half.
TEST(KeyTexts, HalvesOfTwoKeysAreRefused) {
  std::string mixed = DerOf(NewKey().Pem({})->text());
  const std::string other = DerOf(NewKey().Pem({})->text());
  mixed.replace(mixed.size() - 64, 64, other, other.size() - 64, 64);
  const auto key = PrivateKey::Parse("it", PemOf("PRIVATE KEY", mixed), {});
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code, Code::kCorrupt);
  EXPECT_EQ(key.error().message,
            "it: expected a key pair, found a public key of another private key");
}

TEST(KeyTexts, OtherTypesAndCurvesAreUnsupported) {
  if (!HasOpenssl()) GTEST_SKIP() << "openssl is not installed";
  const fixtures::TempDir dir;
  const char* const kinds[] = {"-algorithm EC -pkeyopt ec_paramgen_curve:P-384",
                               "-algorithm EC -pkeyopt ec_paramgen_curve:secp256k1",
                               "-algorithm RSA -pkeyopt rsa_keygen_bits:1024", "-algorithm X25519",
                               "-algorithm ED448"};
  for (const char* kind : kinds) {
    ASSERT_TRUE(ShellRuns(dir.path(), std::string("openssl genpkey -out key ") + kind +
                                          " && openssl pkey -in key -pubout -out pub"))
        << ReadFile(dir / "log");
    const auto known = PublicKey::Parse("it", ReadFile(dir / "pub"));
    ASSERT_FALSE(known) << kind;
    EXPECT_EQ(known.error().code, Code::kUnsupported);
    EXPECT_EQ(known.error().message,
              "it: expected an ECDSA P-256 or Ed25519 key, found another type or curve");
    const auto key = PrivateKey::Parse("it", ReadFile(dir / "key"), {});
    ASSERT_FALSE(key) << kind;
    EXPECT_EQ(key.error().code, Code::kUnsupported);
  }
}

}  // namespace
}  // namespace moepack::registry

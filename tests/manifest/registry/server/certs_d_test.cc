#include "manifest/registry/server/certs_d.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "tests/manifest/registry/server/credential_home.h"

namespace moepack::registry {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;

std::string Pem(const std::string& body) {
  return Cat("-----BEGIN CERTIFICATE-----\n", body, "\n-----END CERTIFICATE-----");
}

class CertsDTest : public testing::Test {
 protected:
  Result<HostCertificates> Of(const std::string& host) const {
    return CertificatesOf(host, {home_.Path("first"), home_.Path("second")});
  }
  Error Failure() const {
    const auto found = Of("host");
    EXPECT_FALSE(found);
    return found ? Error{} : found.error();
  }
  CredentialHome home_;
};

TEST_F(CertsDTest, UserDirectoriesComeBeforeSystemDirectories) {
  EXPECT_EQ(CertificateDirectories(),
            (std::vector<fs::path>{home_.Path(".config/containers/certs.d"),
                                   home_.Path(".docker/certs.d"), "/etc/containers/certs.d",
                                   "/etc/docker/certs.d"}));
  const remote::ScopedVariable xdg("XDG_CONFIG_HOME", "/xdg");
  EXPECT_EQ(CertificateDirectories()[0], "/xdg/containers/certs.d");
}

TEST_F(CertsDTest, FindsAllAuthoritiesAndTheClientPair) {
  home_.Write("second/host:5000/b.crt", Pem("B"));
  home_.Write("second/host:5000/a.crt", Pem("A"));
  home_.Write("second/host:5000/client.cert", "c");
  home_.Write("second/host:5000/client.key", "k");
  home_.Write("second/host:5000/README", "of no account");
  const auto found = Of("host:5000");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->authorities, Pem("A") + "\n" + Pem("B") + "\n");
  EXPECT_EQ(found->client_cert, home_.Path("second/host:5000/client.cert"));
  EXPECT_EQ(found->client_key, home_.Path("second/host:5000/client.key"));
  EXPECT_EQ(Of("host")->directory, "");
}

TEST_F(CertsDTest, UsesOnlyTheFirstDirectory) {
  home_.Write("first/host/a.crt", Pem("A"));
  home_.Write("second/host/b.crt", Pem("B"));
  EXPECT_EQ(Of("host")->authorities, Pem("A") + "\n");
}

TEST_F(CertsDTest, IgnoresHostsThatCouldBePaths) {
  home_.Write("b.crt", Pem("B"));
  for (const char* host : {"", ".", "..", "../first", "a/b"})
    EXPECT_EQ(Of(host)->authorities, "") << host;
}

TEST_F(CertsDTest, AnIncompletePairIsRefused) {
  home_.Write("first/host/client.cert", "c");
  EXPECT_EQ(Failure().message, Cat(home_.Path("first/host/client.cert"),
                                   ": expected client.key beside it, found none"));
  EXPECT_EQ(Failure().code, Code::kInvalidArgument);
  fs::remove(home_.Path("first/host/client.cert"));
  home_.Write("first/host/client.key", "k");
  EXPECT_EQ(Failure().message, Cat(home_.Path("first/host/client.key"),
                                   ": expected client.cert beside it, found none"));
}

TEST_F(CertsDTest, TwoPairsAreRefused) {
  for (const char* file : {"a.cert", "a.key", "b.cert", "b.key"})
    home_.Write(Cat("first/host/", file), "x");
  EXPECT_THAT(Failure().message, HasSubstr("b.cert: expected one client's certificate, found a "
                                           "second"));
}

TEST_F(CertsDTest, NamesAnAuthorityThatIsNotPem) {
  home_.Write("first/host/ca.crt", "\x30\x82");
  const Error error = Failure();
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_EQ(error.message,
            Cat(home_.Path("first/host/ca.crt"), ": expected certificates as PEM, found none"));
  EXPECT_THAT(error.hint, HasSubstr("-inform DER"));
}

TEST_F(CertsDTest, SaysThatAnEmptyAuthorityIsEmpty) {
  home_.Write("first/host/ca.crt", "\n");
  EXPECT_EQ(Failure().message, Cat(home_.Path("first/host/ca.crt"),
                                   ": expected certificates as PEM, found an empty file"));
}

TEST_F(CertsDTest, CombinesWithCertificatesThatTheUserNames) {
  home_.Write("ca.pem", Pem("U"));
  remote::HttpSettings settings;
  settings.ca_file = home_.Path("ca.pem");
  settings.client_cert = "mine.cert";
  ASSERT_TRUE(UseCertificates({"d", Pem("A") + "\n", "c", "k"}, settings));
  EXPECT_EQ(settings.ca_text, Pem("U") + "\n" + Pem("A") + "\n");
  EXPECT_EQ(settings.client_cert, "mine.cert");
  EXPECT_EQ(settings.client_key, "");
  remote::HttpSettings none;
  ASSERT_TRUE(UseCertificates({"d", "", "c", "k"}, none));
  EXPECT_EQ(none.ca_text, "");
  EXPECT_EQ(none.client_cert, "c");
  EXPECT_EQ(none.client_key, "k");
}

}  // namespace
}  // namespace moepack::registry

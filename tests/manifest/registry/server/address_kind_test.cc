#include "manifest/registry/server/address_kind.h"

#include <gtest/gtest.h>

namespace moepack::registry {
namespace {

using Kinds = std::vector<AddressKind>;

Kinds Of(const std::string& host, const std::vector<std::string>& resolved = {}) {
  return KindsOfHost(host, [&](const std::string&) { return resolved; });
}

TEST(AddressKindTest, ClassifiesNumericAddresses) {
  for (const char* host : {"127.0.0.1", "127.255.0.9", "0.0.0.0", "[::1]", "[::]", "localhost",
                           "x.localhost", "localhost.", "[::ffff:127.0.0.1]"})
    EXPECT_EQ(Of(host), Kinds{AddressKind::kLoopback}) << host;
  for (const char* host : {"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.7.7", "100.64.0.1",
                           "255.255.255.255", "224.0.0.1", "[fd00::1]", "[fc00::1]", "[ff02::1]",
                           "[::ffff:10.1.2.3]", "[64:ff9b::a00:1]"})
    EXPECT_EQ(Of(host), Kinds{AddressKind::kPrivate}) << host;
  for (const char* host : {"169.254.169.254", "[fe80::1]", "[febf::1]", "[::ffff:169.254.1.1]"})
    EXPECT_EQ(Of(host), Kinds{AddressKind::kLinkLocal}) << host;
  for (const char* host : {"9.255.255.255", "11.0.0.0", "172.15.0.1", "172.32.0.1", "192.167.1.1",
                           "192.169.1.1", "169.253.1.1", "100.63.0.1", "100.128.0.1", "1.1.1.1",
                           "[2001:db8::1]", "[fec0::1]", "[64:ff9b::101:101]"})
    EXPECT_EQ(Of(host), Kinds{AddressKind::kPublic}) << host;
}

// libcurl also treats them as addresses.
TEST(AddressKindTest, RecognizesUnusualSpellingsOfNumericAddresses) {
  for (const char* host : {"127.1", "2130706433", "0x7f.1", "0177.0.0.1", "0x7f000001"})
    EXPECT_EQ(Of(host), Kinds{AddressKind::kLoopback}) << host;
  EXPECT_EQ(Of("0xa9fea9fe"), Kinds{AddressKind::kLinkLocal});
}

TEST(AddressKindTest, ANameHasTheKindsOfItsAddresses) {
  EXPECT_EQ(Of("registry.example", {"10.0.0.1", "1.1.1.1", "10.0.0.2"}),
            (Kinds{AddressKind::kPrivate, AddressKind::kPublic}));
  EXPECT_EQ(Of("registry.example", {"fe80::1%lo", "nonsense"}), Kinds{AddressKind::kLinkLocal});
  EXPECT_EQ(Of("registry.example"), Kinds{});
}

TEST(AddressKindTest, ResolvesTheNamesOfThisMachine) {
  EXPECT_EQ(KindsOfHost("127.0.0.1", ResolveBySystem), Kinds{AddressKind::kLoopback});
  for (const std::string& number : ResolveBySystem("localhost"))
    EXPECT_TRUE(number == "127.0.0.1" || number == "::1") << number;
}

TEST(AddressKindTest, APublicServerMayOnlyRedirectToPublicOnes) {
  const Kinds open{AddressKind::kPublic}, inside{AddressKind::kPrivate},
      link{AddressKind::kLinkLocal}, here{AddressKind::kLoopback};
  for (const Kinds& from : {open, Kinds{}, Kinds{AddressKind::kPrivate, AddressKind::kPublic}}) {
    EXPECT_TRUE(MayLead(from, open));
    EXPECT_TRUE(MayLead(from, {}));
    for (const Kinds& to : {inside, link, here, Kinds{AddressKind::kPublic, AddressKind::kPrivate}})
      EXPECT_FALSE(MayLead(from, to));
  }
  EXPECT_TRUE(MayLead(inside, open));
  EXPECT_TRUE(MayLead(inside, inside));
  EXPECT_FALSE(MayLead(inside, here));
  EXPECT_FALSE(MayLead(inside, link));
  EXPECT_TRUE(MayLead(here, inside));
  EXPECT_TRUE(MayLead(here, here));
  EXPECT_FALSE(MayLead(here, link));
  EXPECT_TRUE(MayLead(link, link));
}

}  // namespace
}  // namespace moepack::registry

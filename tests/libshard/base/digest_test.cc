#include "libshard/base/digest.h"

#include <gtest/gtest.h>

#include <string>

namespace moepack {
namespace {

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// `printf abc | sha256sum`, `printf abc | xxhsum -H2`; the empty digests are in the standards.
TEST(Digest, AgreesWithTheCommandLineTools) {
  EXPECT_EQ(Sha256Hex(std::string_view("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(std::string_view("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Xxh3Hex(Bytes("abc")), "06b05ab6733a618578af5f94892f3950");
  EXPECT_EQ(Xxh3Hex({}), "99aa06d3014798d86001c324468d497f");
}

TEST(Digest, DoesNotDependOnHowBytesAreSplit) {
  const std::string text(100'000, 'x');
  Xxh3 xxh3;
  Sha256 sha256;
  for (size_t at = 0; at < text.size(); at += 777) {
    const auto piece = Bytes(text).subspan(at, std::min<size_t>(777, text.size() - at));
    xxh3.Update(piece);
    sha256.Update(piece);
  }
  EXPECT_EQ(xxh3.Hex(), Xxh3Hex(Bytes(text)));
  EXPECT_EQ(sha256.Finish(), Sha256Hex(text));
}

TEST(Digest, ResetStartsOver) {
  Xxh3 xxh3;
  xxh3.Update(Bytes("something"));
  xxh3.Reset();
  xxh3.Update(Bytes("abc"));
  EXPECT_EQ(xxh3.Hex(), Xxh3Hex(Bytes("abc")));
}

}  // namespace
}  // namespace moepack

// A separate authority for a test, and certificates that it issues, as PEM files.
#pragma once

#include <openssl/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

namespace moepack::remote {

struct FreeKey {
  void operator()(EVP_PKEY* key) const;
};
using TestKey = std::unique_ptr<EVP_PKEY, FreeKey>;

class TestAuthority {
 public:
  struct Validity {
    std::chrono::seconds from, until;  // from now on
  };
  static constexpr Validity kNow{std::chrono::hours(-1), std::chrono::hours(1)};
  static constexpr Validity kPast{std::chrono::hours(-2), std::chrono::hours(-1)};
  static constexpr Validity kFuture{std::chrono::hours(1), std::chrono::hours(2)};

  // Creates the directory, and in it ca.pem, which anybody may trust.
  explicit TestAuthority(const std::filesystem::path& directory,
                         std::string name = "authority of a test");

  // Writes NAME.pem and NAME.key for a server of these names ("DNS:localhost,IP:127.0.0.1").
  void Issue(const std::string& name, const std::string& names, Validity validity = kNow) const;
  std::string Path(const std::string& file) const { return directory_ / file; }
  // That of ca.pem, of the curve P-256.
  EVP_PKEY* key() const { return key_.get(); }

 private:
  std::filesystem::path directory_;
  std::string name_;
  TestKey key_;
};

}  // namespace moepack::remote

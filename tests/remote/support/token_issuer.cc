#include "tests/remote/support/token_issuer.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "libshard/base/text/base64.h"
#include "libshard/base/text/text.h"
#include "tests/remote/support/fake_login.h"

namespace moepack::remote {
namespace {

using nlohmann::json;

constexpr const char* kService = "the registry";
constexpr const char* kIssuer = "the token server";

// RFC 4648, section 5, without padding.
std::string EncodeForUrl(std::string_view bytes) {
  std::string text = EncodeBase64(bytes);
  text.resize(text.find_last_not_of('=') + 1);
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

// RFC 4648, section 6, of whole groups of five bytes.
std::string EncodeBase32(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at + 5 <= bytes.size(); at += 5) {
    uint64_t bits = 0;
    for (size_t i = 0; i < 5; ++i) bits = bits << 8 | static_cast<unsigned char>(bytes[at + i]);
    for (int shift = 35; shift >= 0; shift -= 5)
      text += "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[bits >> shift & 31];
  }
  return text;
}

// "ABCD:EFGH:...": 240 bits of the SHA-256 of the public key's DER.
std::string LibtrustKeyId(const EVP_PKEY* key) {
  constexpr size_t kIdBytes = 30;
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key, &der);
  if (size <= 0) throw std::runtime_error("OpenSSL: public key");
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(der, static_cast<size_t>(size), digest);
  OPENSSL_free(der);
  const std::string text = EncodeBase32({reinterpret_cast<char*>(digest), kIdBytes});
  std::string id = text.substr(0, 4);
  for (size_t at = 4; at < text.size(); at += 4) id += Cat(":", text.substr(at, 4));
  return id;
}

// Both numbers of a signature, of 32 bytes each (RFC 7518, section 3.4).
std::string SignEs256(EVP_PKEY* key, const std::string& text) {
  constexpr int kNumber = 32;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  unsigned char der[256];
  size_t size = sizeof(der);
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  if (EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key) != 1 ||
      EVP_DigestSign(context.get(), der, &size, bytes, text.size()) != 1)
    throw std::runtime_error("OpenSSL: signature of a token");
  const unsigned char* read = der;
  ECDSA_SIG* const pair = d2i_ECDSA_SIG(nullptr, &read, static_cast<long>(size));
  std::string raw(2 * kNumber, '\0');
  auto* const out = reinterpret_cast<unsigned char*>(raw.data());
  BN_bn2binpad(ECDSA_SIG_get0_r(pair), out, kNumber);
  BN_bn2binpad(ECDSA_SIG_get0_s(pair), out + kNumber, kNumber);
  ECDSA_SIG_free(pair);
  return raw;
}

// The user who asks: "" for a request without a password, none for a wrong one.
std::optional<std::string> UserOf(const FakeRequest& request) {
  const std::string header = request.Field("authorization"), basic = "Basic ";
  if (header.empty()) return "";
  if (!header.starts_with(basic)) return std::nullopt;
  const std::string pair = DecodeBase64(header.substr(basic.size())).value_or("");
  const size_t colon = pair.find(':');
  if (colon == std::string::npos || pair.substr(colon + 1) != TokenIssuer::kPassword)
    return std::nullopt;
  return pair.substr(0, colon);
}

}  // namespace

TokenIssuer::TokenIssuer(const std::filesystem::path& directory)
    : authority_(directory), key_id_(LibtrustKeyId(authority_.key())) {
  server_.SetFault([this](const FakeRequest& request, FakeAnswer& out) { Answer(request, out); });
}

std::string TokenIssuer::RegistrySettings(const std::string& realm) const {
  return Cat("auth:\n  token:\n    realm: ", realm.empty() ? server_.origin() + "/token" : realm,
             "\n    service: ", kService, "\n    issuer: ", kIssuer,
             "\n    rootcertbundle: ", authority_.Path("ca.pem"), "\n");
}

void TokenIssuer::Allow(const std::string& user, const std::string& repositories,
                        const std::set<std::string>& actions) {
  const std::lock_guard lock(mutex_);
  rights_.push_back({user, repositories, actions});
}

std::vector<std::string> TokenIssuer::asked_scopes() const {
  const std::lock_guard lock(mutex_);
  return asked_;
}

std::string TokenIssuer::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

// Granting less than was requested is not an error here.
std::string TokenIssuer::Claims(const std::string& user, const std::vector<std::string>& scopes) {
  json access = json::array();
  for (const std::string& scope : scopes) {  // "repository:team/model:pull,push"
    const std::vector<std::string> parts = Split(scope, ':');
    if (parts.size() != 3) continue;
    json granted = json::array();
    for (const std::string& action : Split(parts[2], ',')) {
      const bool may = std::any_of(rights_.begin(), rights_.end(), [&](const Right& right) {
        return right.user == user && parts[1].starts_with(right.repositories) &&
               right.actions.contains(action);
      });
      if (may) granted.push_back(action);
    }
    access.push_back({{"type", parts[0]}, {"name", parts[1]}, {"actions", granted}});
  }
  const int64_t now = std::time(nullptr);
  const json claims = {{"iss", kIssuer},
                       {"sub", user},
                       {"aud", for_another_service ? "another registry" : kService},
                       {"exp", now + signed_life},
                       {"nbf", now - 300},
                       {"iat", now},
                       {"jti", Cat("token ", asked_.size())},
                       {"access", access}};
  return claims.dump();
}

std::string TokenIssuer::Sign(const std::string& claims) const {
  const json header = {{"typ", "JWT"}, {"alg", "ES256"}, {"kid", key_id_}};
  const std::string text = Cat(EncodeForUrl(header.dump()), ".", EncodeForUrl(claims));
  return Cat(text, ".", EncodeForUrl(SignEs256(authority_.key(), text)));
}

void TokenIssuer::Answer(const FakeRequest& request, FakeAnswer& out) {
  const std::lock_guard lock(mutex_);
  const std::optional<std::string> user = UserOf(request);
  const std::vector<std::string> scopes = ParametersOf(request.query, "scope");
  asked_.push_back(Join(scopes, " "));
  if (!user) {
    out = Plain(401, R"({"details":"incorrect username or password"})");
    return;
  }
  const std::string token = Sign(Claims(*user, scopes));
  last_ = Cat("Bearer ", token);
  const json answer = {{"token", token}, {"expires_in", told_life.load()}};
  out = Plain(200, answer.dump());
  out.Set("Content-Type", "application/json");
}

}  // namespace moepack::remote

#include "libshard/base/digest.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include <array>
#include <new>

#include "libshard/base/text/text.h"

namespace moepack {

struct Xxh3::State {
  XXH3_state_t* hash = XXH3_createState();
  State() {
    if (hash == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(hash);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(hash); }
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) {}
Xxh3::Xxh3(Xxh3&&) noexcept = default;
Xxh3& Xxh3::operator=(Xxh3&&) noexcept = default;
Xxh3::~Xxh3() = default;

void Xxh3::Reset() { XXH3_128bits_reset(state_->hash); }

void Xxh3::Update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->hash, bytes.data(), bytes.size());
}

std::string Xxh3::Hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->hash));
  return moepack::Hex(canonical.digest, sizeof(canonical.digest));
}

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() {
    if (context == nullptr || EVP_DigestInit_ex(context, EVP_sha256(), nullptr) != 1) {
      EVP_MD_CTX_free(context);
      throw std::bad_alloc();
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string Sha256::Finish() {
  std::array<unsigned char, 32> digest;
  EVP_DigestFinal_ex(state_->context, digest.data(), nullptr);
  return Hex(digest.data(), digest.size());
}

std::string Xxh3Hex(std::span<const std::byte> bytes) {
  Xxh3 hash;
  hash.Update(bytes);
  return hash.Hex();
}

bool IsXxh3Hex(std::string_view text) {
  constexpr size_t kDigits = 2 * sizeof(XXH128_hash_t);
  return IsHex(text, kDigits);
}

bool IsHex(std::string_view text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string Sha256Hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

std::string Sha256Hex(std::string_view text) {
  return Sha256Hex(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace moepack

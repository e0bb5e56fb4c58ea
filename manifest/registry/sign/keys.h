// Keys that sign and verify: ECDSA on P-256 with SHA-256, and Ed25519.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "manifest/registry/sign/secret.h"

// OpenSSL's; forward declared so that its headers stay in keys.cc.
struct evp_pkey_st;

namespace moepack::registry {

// The type determines the hash, so a signature names neither.
enum class KeyType : uint8_t { kP256, kEd25519 };
// "ECDSA P-256", "Ed25519".
const char* KeyTypeName(KeyType type);

// Copies share the key. Safe to use from several threads at once.
class PublicKey {
 public:
  // An SPKI key as PEM ("-----BEGIN PUBLIC KEY-----"). `name` is its name in messages and reports:
  // its file. kCorrupt for text that is not such a key, kUnsupported for another type or curve,
  // kInvalidArgument for a private key.
  static Result<PublicKey> Parse(const std::string& name, std::string_view pem);

  const std::string& name() const { return name_; }
  KeyType type() const { return type_; }
  // SHA-256 of the DER form, 64 hexadecimal digits.
  const std::string& id() const { return id_; }
  // As written by `openssl pkey -pubout`.
  const std::string& pem() const { return pem_; }
  // `signature` is DER for ECDSA, 64 bytes for Ed25519; both texts may be hostile.
  bool Verify(std::string_view message, std::string_view signature) const;

 private:
  friend class PrivateKey;
  static Result<PublicKey> Of(std::string name, std::shared_ptr<evp_pkey_st> key);
  PublicKey() = default;

  std::string name_, id_, pem_;
  KeyType type_ = KeyType::kP256;
  std::shared_ptr<evp_pkey_st> key_;
};

// OpenSSL wipes the key's own memory when the last copy is destroyed.
class PrivateKey {
 public:
  static Result<PrivateKey> Generate(KeyType type);
  // A PKCS#8 key as PEM, as `openssl pkcs8 -topk8` writes it. `passphrase` is for an encrypted one
  // and may be empty. Errors are those of PublicKey::Parse; kInvalidArgument for a missing or wrong
  // passphrase.
  static Result<PrivateKey> Parse(const std::string& name, std::string_view pem,
                                  const Secret& passphrase);

  // PKCS#8 as PEM; with a passphrase, encrypted by AES-256-CBC under scrypt.
  Result<Secret> Pem(const Secret& passphrase) const;
  const PublicKey& public_key() const { return public_key_; }
  // DER for ECDSA, different each time; 64 bytes for Ed25519.
  Result<std::string> Sign(std::string_view message) const;

 private:
  explicit PrivateKey(PublicKey key) : public_key_(std::move(key)) {}
  PublicKey public_key_;  // its key_ is the pair
};

}  // namespace moepack::registry

#include "manifest/registry/sign/keys.h"

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/x509.h>

#include <array>
#include <new>
#include <optional>

#include "libshard/base/digest.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

// The macro OPENSSL_free puts the path of this file into the program, so two builds of the same
// source would differ.
void FreeOpenssl(void* memory) { CRYPTO_free(memory, "", 0); }

// What OpenSSL allocates and frees.
template <auto free>
struct FreeBy {
  template <class T>
  void operator()(T* value) const {
    free(value);
  }
};
using Pkey = std::shared_ptr<EVP_PKEY>;
using Bio = std::unique_ptr<BIO, FreeBy<BIO_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, FreeBy<EVP_MD_CTX_free>>;
using PlainKey = std::unique_ptr<PKCS8_PRIV_KEY_INFO, FreeBy<PKCS8_PRIV_KEY_INFO_free>>;
using EncryptedKey = std::unique_ptr<X509_SIG, FreeBy<X509_SIG_free>>;
using Algorithm = std::unique_ptr<X509_ALGOR, FreeBy<X509_ALGOR_free>>;

constexpr const char* kPemPublic = "PUBLIC KEY";
constexpr const char* kPemPrivate = "PRIVATE KEY";
constexpr const char* kPemEncrypted = "ENCRYPTED PRIVATE KEY";
constexpr const char* kPemBegin = "-----BEGIN ";

// The parameters that `openssl pkcs8 -scrypt` uses: 16 MiB and some ten milliseconds per try.
constexpr uint64_t kScryptN = 1u << 14, kScryptR = 8, kScryptP = 1;

Pkey Owned(EVP_PKEY* key) { return {key, EVP_PKEY_free}; }

// What OpenSSL says about a failure would be attributed to the next one; and it is never in a
// message, because it may quote what it read.
Error Failed(const std::string& name, const char* what) {
  ERR_clear_error();
  return {Code::kIo, Cat(name, ": OpenSSL could not ", what)};
}

Bio TextBio(std::string_view text) {
  Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  if (bio == nullptr) throw std::bad_alloc();
  return bio;
}

Bio EmptyBio() {
  Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr) throw std::bad_alloc();
  return bio;
}

std::string_view TextOf(const Bio& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(size)};
}

// One block of PEM text.
struct PemBlock {
  std::string label;
  Secret der;
};

Error NoPem(const std::string& name, const char* found) {
  return {Code::kCorrupt, Cat(name, ": expected a key as PEM text, found ", found),
          "`moepack keygen` and `openssl genpkey` write such keys"};
}

Result<PemBlock> ReadPem(const std::string& name, std::string_view text) {
  // OpenSSL takes no buffer without bytes.
  if (IsBlank(text)) return NoPem(name, "an empty file");
  const Bio bio = TextBio(text);
  char* label = nullptr;
  char* header = nullptr;
  unsigned char* data = nullptr;
  long size = 0;
  if (PEM_read_bio(bio.get(), &label, &header, &data, &size) != 1) {
    ERR_clear_error();
    return NoPem(name, "something else");
  }
  PemBlock block{label, Secret({reinterpret_cast<const char*>(data), static_cast<size_t>(size)})};
  FreeOpenssl(label);
  FreeOpenssl(header);
  CRYPTO_clear_free(data, static_cast<size_t>(size), "", 0);
  // If a file has two keys, the second would be silently ignored.
  const size_t first = text.find(kPemBegin);
  if (text.find(kPemBegin, first + 1) != text.npos)
    return Error{Code::kCorrupt, Cat(name, ": expected one key, found several PEM blocks"),
                 "put each key into a file of its own"};
  return block;
}

Error OtherPem(const std::string& name, const char* expected, const std::string& label) {
  const std::string found = Cat(name, ": expected ", expected, ", found ");
  const bool is_private = label == kPemPrivate || label == kPemEncrypted;
  if (is_private)
    return {Code::kInvalidArgument, Cat(found, "a private key"),
            "name the public key: KEY.pub beside KEY.key, or what `openssl pkey -pubout` writes"};
  if (label == kPemPublic)
    return {Code::kInvalidArgument, Cat(found, "a public key"),
            "name the private key: KEY.key beside KEY.pub"};
  if (label == "ENCRYPTED COSIGN PRIVATE KEY" || label == "ENCRYPTED SIGSTORE PRIVATE KEY")
    return {Code::kUnsupported, Cat(found, "a key that cosign encrypted in a format of its own"),
            "cosign does not export it: make a key with `moepack keygen`; cosign imports that with "
            "`cosign import-key-pair` and verifies with KEY.pub as it is"};
  if (label.ends_with(kPemPrivate))
    return {Code::kUnsupported, Cat(found, "a PEM block ", Quoted(label)),
            "`openssl pkcs8 -topk8 -in KEY -out NEW` makes a PKCS#8 key of it"};
  return {Code::kUnsupported, Cat(found, "a PEM block ", Quoted(label))};
}

std::optional<KeyType> TypeOf(const EVP_PKEY* key) {
  if (EVP_PKEY_is_a(key, "ED25519") == 1) return KeyType::kEd25519;
  if (EVP_PKEY_is_a(key, "EC") != 1) return std::nullopt;
  std::array<char, 64> curve{};
  size_t size = 0;
  const int known = EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, curve.data(),
                                                   curve.size(), &size);
  if (known != 1 || std::string_view(curve.data(), size) != "prime256v1") return std::nullopt;
  return KeyType::kP256;
}

const EVP_MD* HashOf(KeyType type) { return type == KeyType::kP256 ? EVP_sha256() : nullptr; }

const unsigned char* BytesOf(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Result<PlainKey> Decrypt(const std::string& name, const Secret& der, const Secret& passphrase) {
  const unsigned char* at = BytesOf(der.text());
  const unsigned char* const end = at + der.text().size();
  const EncryptedKey encrypted(d2i_X509_SIG(nullptr, &at, static_cast<long>(der.text().size())));
  if (encrypted == nullptr || at != end) {
    ERR_clear_error();
    return Error{Code::kCorrupt,
                 Cat(name, ": expected an encrypted PKCS#8 key, found other bytes")};
  }
  if (passphrase.empty())
    return Error{
        Code::kInvalidArgument,
        Cat(name, ": expected a passphrase for this encrypted key, found none"),
        "--passphrase-file names a file that holds it; MOEPACK_SIGN_PASSPHRASE is read too"};
  PlainKey plain(PKCS8_decrypt(encrypted.get(), passphrase.text().data(),
                               static_cast<int>(passphrase.text().size())));
  if (plain != nullptr) return plain;
  ERR_clear_error();
  return Error{
      Code::kInvalidArgument,
      Cat(name, ": expected the passphrase that this key was encrypted with, found another")};
}

Result<PlainKey> ReadPlain(const std::string& name, const PemBlock& block,
                           const Secret& passphrase) {
  if (block.label == kPemEncrypted) return Decrypt(name, block.der, passphrase);
  if (block.label != kPemPrivate) return OtherPem(name, "a private key", block.label);
  if (!passphrase.empty())
    return Error{
        Code::kInvalidArgument,
        Cat(name, ": expected an encrypted key, as a passphrase was given, found a plain one"),
        "leave out --passphrase-file, or unset MOEPACK_SIGN_PASSPHRASE"};
  const unsigned char* at = BytesOf(block.der.text());
  const unsigned char* const end = at + block.der.text().size();
  PlainKey plain(d2i_PKCS8_PRIV_KEY_INFO(nullptr, &at, static_cast<long>(block.der.text().size())));
  if (plain != nullptr && at == end) return plain;
  ERR_clear_error();
  return Error{Code::kCorrupt, Cat(name, ": expected a PKCS#8 key, found other bytes")};
}

// The encrypted form of a key.
Result<EncryptedKey> Encrypt(const std::string& name, PKCS8_PRIV_KEY_INFO* plain,
                             const Secret& passphrase) {
  Algorithm algorithm(
      PKCS5_pbe2_set_scrypt(EVP_aes_256_cbc(), nullptr, 0, nullptr, kScryptN, kScryptR, kScryptP));
  if (algorithm == nullptr) return Failed(name, "set up the encryption of the key");
  const std::string_view text = passphrase.text();
  EncryptedKey encrypted(
      PKCS8_set0_pbe(text.data(), static_cast<int>(text.size()), plain, algorithm.get()));
  if (encrypted == nullptr) return Failed(name, "encrypt the key");
  algorithm.release();  // it is part of the result now
  return encrypted;
}

}  // namespace

const char* KeyTypeName(KeyType type) { return type == KeyType::kP256 ? "ECDSA P-256" : "Ed25519"; }

Result<PublicKey> PublicKey::Of(std::string name, Pkey key) {
  const std::optional<KeyType> type = TypeOf(key.get());
  if (!type)
    return Error{Code::kUnsupported,
                 Cat(name, ": expected an ECDSA P-256 or Ed25519 key, found another type or curve"),
                 "`moepack keygen` makes both"};
  PublicKey out;
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key.get(), &der);
  if (size <= 0) return Failed(name, "write the public key");
  out.id_ = Sha256Hex({reinterpret_cast<const char*>(der), static_cast<size_t>(size)});
  FreeOpenssl(der);
  const Bio bio = EmptyBio();
  if (PEM_write_bio_PUBKEY(bio.get(), key.get()) != 1) return Failed(name, "write the public key");
  out.pem_ = TextOf(bio);
  out.name_ = std::move(name);
  out.type_ = *type;
  out.key_ = std::move(key);
  return out;
}

Result<PublicKey> PublicKey::Parse(const std::string& name, std::string_view pem) {
  SHARD_TRY(const PemBlock block, ReadPem(name, pem));
  if (block.label != kPemPublic) return OtherPem(name, "a public key", block.label);
  const unsigned char* at = BytesOf(block.der.text());
  const unsigned char* const end = at + block.der.text().size();
  // It refuses points that are not on their curve.
  Pkey key = Owned(d2i_PUBKEY(nullptr, &at, static_cast<long>(block.der.text().size())));
  ERR_clear_error();
  if (key == nullptr || at != end)
    return Error{Code::kCorrupt, Cat(name, ": expected a public key, found other bytes")};
  return Of(name, std::move(key));
}

bool PublicKey::Verify(std::string_view message, std::string_view signature) const {
  const DigestContext context(EVP_MD_CTX_new());
  if (context == nullptr) throw std::bad_alloc();
  const bool ready =
      EVP_DigestVerifyInit(context.get(), nullptr, HashOf(type_), nullptr, key_.get()) == 1;
  const bool good = ready && EVP_DigestVerify(context.get(), BytesOf(signature), signature.size(),
                                              BytesOf(message), message.size()) == 1;
  ERR_clear_error();
  return good;
}

Result<PrivateKey> PrivateKey::Generate(KeyType type) {
  const Pkey key = Owned(type == KeyType::kP256 ? EVP_EC_gen("P-256")
                                                : EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  if (key == nullptr) return Failed("new key", "make a key");
  SHARD_TRY(PublicKey pair, PublicKey::Of("new key", key));
  return PrivateKey(std::move(pair));
}

Result<PrivateKey> PrivateKey::Parse(const std::string& name, std::string_view pem,
                                     const Secret& passphrase) {
  SHARD_TRY(const PemBlock block, ReadPem(name, pem));
  SHARD_TRY(const PlainKey plain, ReadPlain(name, block, passphrase));
  Pkey key = Owned(EVP_PKCS82PKEY(plain.get()));
  ERR_clear_error();
  if (key == nullptr)
    return Error{Code::kCorrupt, Cat(name, ": expected a PKCS#8 key, found other bytes")};
  SHARD_TRY(PublicKey pair, PublicKey::Of(name, std::move(key)));
  PrivateKey read(std::move(pair));
  // PKCS#8 has both halves, and nothing else compares them.
  SHARD_TRY(const std::string signature, read.Sign(name));
  if (read.public_key().Verify(name, signature)) return read;
  return Error{Code::kCorrupt,
               Cat(name, ": expected a key pair, found a public key of another private key")};
}

Result<Secret> PrivateKey::Pem(const Secret& passphrase) const {
  const std::string& name = public_key_.name();
  const PlainKey plain(EVP_PKEY2PKCS8(public_key_.key_.get()));
  if (plain == nullptr) return Failed(name, "write the key");
  // The bytes of a secure buffer are wiped when it is freed.
  const Bio bio(BIO_new(BIO_s_secmem()));
  if (bio == nullptr) throw std::bad_alloc();
  bool written = false;
  if (passphrase.empty()) {
    written = PEM_write_bio_PKCS8_PRIV_KEY_INFO(bio.get(), plain.get()) == 1;
  } else {
    SHARD_TRY(const EncryptedKey encrypted, Encrypt(name, plain.get(), passphrase));
    written = PEM_write_bio_PKCS8(bio.get(), encrypted.get()) == 1;
  }
  if (!written) return Failed(name, "write the key");
  return Secret(TextOf(bio));
}

Result<std::string> PrivateKey::Sign(std::string_view message) const {
  const EVP_MD* hash = HashOf(public_key_.type_);
  const DigestContext context(EVP_MD_CTX_new());
  if (context == nullptr) throw std::bad_alloc();
  std::string out;
  size_t size = 0;
  const bool ready =
      EVP_DigestSignInit(context.get(), nullptr, hash, nullptr, public_key_.key_.get()) == 1 &&
      EVP_DigestSign(context.get(), nullptr, &size, BytesOf(message), message.size()) == 1;
  if (!ready) return Failed(public_key_.name(), "sign");
  out.resize(size);  // the largest possible size
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(out.data()), &size,
                     BytesOf(message), message.size()) != 1)
    return Failed(public_key_.name(), "sign");
  out.resize(size);
  return out;
}

}  // namespace moepack::registry

#include "tests/remote/support/test_authority.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <stdexcept>
#include <utility>

#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

struct FreeCertificate {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
using Certificate = std::unique_ptr<X509, FreeCertificate>;

struct CloseFile {
  void operator()(FILE* file) const { fclose(file); }
};

void Must(bool done, const char* what) {
  if (!done) throw std::runtime_error(Cat("OpenSSL: ", what));
}

TestKey NewKey() {
  TestKey key(EVP_EC_gen("P-256"));
  Must(key != nullptr, "new key");
  return key;
}

void SetName(X509_NAME* name, const std::string& common_name) {
  const auto* text = reinterpret_cast<const unsigned char*>(common_name.c_str());
  Must(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) == 1, "name");
}

void AddExtension(X509* certificate, int kind, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
  Must(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1, "extension");
  X509_EXTENSION_free(extension);
}

// Of version 3, without a signature.
Certificate NewCertificate(const std::string& name, const std::string& issuer, EVP_PKEY* key,
                           TestAuthority::Validity validity) {
  static long serial = 0;
  Certificate certificate(X509_new());
  X509* made = certificate.get();
  Must(made != nullptr && X509_set_version(made, X509_VERSION_3) == 1, "new certificate");
  Must(ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial) == 1, "number");
  Must(X509_gmtime_adj(X509_getm_notBefore(made), validity.from.count()) != nullptr, "time");
  Must(X509_gmtime_adj(X509_getm_notAfter(made), validity.until.count()) != nullptr, "time");
  SetName(X509_get_subject_name(made), name);
  SetName(X509_get_issuer_name(made), issuer);
  Must(X509_set_pubkey(made, key) == 1, "key of a certificate");
  return certificate;
}

template <class Write>
void WritePem(const std::filesystem::path& path, const Write& write) {
  const std::unique_ptr<FILE, CloseFile> file(fopen(path.c_str(), "w"));
  Must(file != nullptr && write(file.get()) == 1, path.c_str());
}

void SignAndWrite(X509* certificate, EVP_PKEY* authority, const std::filesystem::path& path) {
  Must(X509_sign(certificate, authority, EVP_sha256()) > 0, "signature");
  WritePem(path, [&](FILE* file) { return PEM_write_X509(file, certificate); });
}

}  // namespace

void FreeKey::operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }

TestAuthority::TestAuthority(const std::filesystem::path& directory, std::string name)
    : directory_(directory), name_(std::move(name)), key_(NewKey()) {
  std::filesystem::create_directories(directory_);
  const Certificate own = NewCertificate(name_, name_, key(), kNow);
  AddExtension(own.get(), NID_basic_constraints, "critical,CA:TRUE");
  SignAndWrite(own.get(), key(), directory_ / "ca.pem");
}

void TestAuthority::Issue(const std::string& name, const std::string& names,
                          Validity validity) const {
  const TestKey key = NewKey();
  const Certificate issued = NewCertificate(name, name_, key.get(), validity);
  AddExtension(issued.get(), NID_subject_alt_name, names);
  SignAndWrite(issued.get(), key_.get(), directory_ / Cat(name, ".pem"));
  WritePem(directory_ / Cat(name, ".key"), [&](FILE* file) {
    return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

}  // namespace moepack::remote

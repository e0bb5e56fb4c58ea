// A signature of every file of a directory in the form of OpenSSF Model Signing v1.0, which its
// program `model_signing verify key` reads (https://github.com/sigstore/model-transparency): an
// in-toto statement in a DSSE envelope in a sigstore bundle.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/sign/hash_directory.h"
#include "manifest/registry/sign/keys.h"

namespace moepack::registry {

// What is signed.
struct OmsStatement {
  std::string name;                  // of the directory
  std::vector<FileDigest> files;     // in the order of HashDirectory
  std::vector<std::string> ignored;  // files and directories that are not listed
};

// One line of JSON with a fixed order of keys.
std::string WriteOmsStatement(const OmsStatement& statement);
// kCorrupt for text that is not such a statement or contradicts itself, kUnsupported for one over
// parts of files, with another hash, or of another version.
Result<OmsStatement> ParseOmsStatement(const std::string& where, std::string_view text);

// Whether a bundle lists each of these files with these bytes, or leaves it out on purpose: then
// writing them has not made it stale. No key is needed, and nothing is verified.
bool ListsFiles(std::string_view bundle, const std::vector<FileDigest>& files);

// The bundle: a statement and its signature. kInvalidArgument for a key that is not P-256: the
// format supports no other type that moepack has.
Result<std::string> WriteOmsBundle(const std::string& statement, const PrivateKey& key);
// What one of the keys signed; nothing of it is read before that is verified. kMismatch if none of
// them signed it, or if this is not such a bundle. The text may be hostile.
struct OmsSigned {
  std::string statement;
  PublicKey key;
};
Result<OmsSigned> OpenOmsBundle(const std::string& where, std::string_view text,
                                const std::vector<PublicKey>& keys);

struct OmsReport {
  std::string directory, signature_file;
  std::string name;    // of the directory when it was signed
  std::string digest;  // RootDigest of the files
  uint64_t files = 0, bytes = 0;
  std::string key_name, key_id;
};

// Signs every file of the directory except what git keeps beside it and `signature_file` itself,
// which is written at the end; "" for kSignatureFile in the directory. An existing signature
// is kInvalidArgument without `replace`, and anything else that exists always is: it may be an
// input, such as the key. Otherwise the errors of HashDirectory and WriteOmsBundle.
struct OmsSignOptions {
  std::string signature_file;
  std::vector<std::string> ignored = {};  // files and directories that are not signed either
  bool replace = false, dry_run = false;
  HashOptions hash = {};
};
Result<OmsReport> SignDirectory(const std::string& directory, const PrivateKey& key,
                                const OmsSignOptions& options);

// Checks that the directory holds exactly the files that one of the keys signed, with the signed
// bytes; otherwise kMismatch, which names them.
Result<OmsReport> VerifyDirectory(const std::string& directory, const std::string& signature_file,
                                  const std::vector<PublicKey>& keys, const HashOptions& options);

}  // namespace moepack::registry

// The signature of a directory's files in the form of OpenSSF Model Signing, as far as it can be
// read without a key: an in-toto statement in a DSSE envelope in a sigstore bundle. Commands that
// check no signatures need it, too, because they meet such files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"

namespace moepack::manifest {

inline constexpr uint64_t kMaxModelSignature = 64u << 20;  // bytes
inline constexpr const char* kBundleType = "application/vnd.dev.sigstore.bundle.v0.3+json";
inline constexpr const char* kEnvelopeType = "application/vnd.in-toto+json";
inline constexpr const char* kModelSigningType = "https://model_signing/signature/v1.0";

struct SignatureBundle {
  std::string payload;  // the statement
  std::string signature;
};
// kCorrupt or kUnsupported for anything else. The text may be hostile.
Result<SignatureBundle> ParseSignatureBundle(const std::string& where, std::string_view text);
// True if the text is a bundle whose statement is about the files of a model. Nothing is verified.
bool IsModelSignature(std::string_view text);

// For readers of a bundle and of its statement. One has as many values as a directory has files.
Result<Json> ParseSigned(const std::string& where, std::string_view text);
// kUnsupported unless the text under `key` is `expected`.
Status CheckText(const JsonFields& fields, const char* key, std::string_view expected);
// The only entry of a list, which is an object.
Result<const Json*> OnlyEntry(const JsonFields& fields, const char* key);

}  // namespace moepack::manifest

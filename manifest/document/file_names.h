// The names of the files that moepack writes beside the bundles and assets of a distribution.
#pragma once

#include <array>

namespace moepack::manifest {

inline constexpr const char* kManifestFile = "distribution.json";
// The model card.
inline constexpr const char* kReadmeFile = "README.md";
// In a directory made by `pull`: what it was pulled from. Not part of the distribution.
inline constexpr const char* kPullLockFile = "pulled.json";
// The signature of all files that `sign --oms` writes. A file of another kind with this name is not
// ours (IsModelSignature in model_signature.h).
inline constexpr const char* kSignatureFile = "model.sig";
// In a directory made by `publish --to-dir`: which files Git LFS keeps.
inline constexpr const char* kGitAttributesFile = ".gitattributes";

// All of them but the signature: a distribution's directory may hold these, and what its manifest
// lists (OwnFiles in manifest.h).
inline constexpr std::array kSideFiles = {kManifestFile, kReadmeFile, kPullLockFile,
                                          kGitAttributesFile};

}  // namespace moepack::manifest

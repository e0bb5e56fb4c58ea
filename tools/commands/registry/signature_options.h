// Signatures in the reports of sign and verify, and verify's options for them.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/sign/keys.h"
#include "manifest/registry/sign/oms.h"
#include "manifest/registry/sign/verify_signatures.h"
#include "manifest/registry/store/store.h"
#include "tools/options/registry_options.h"

namespace moepack::cli {

// True if the text names a registry or a layout, rather than a directory or the address of a
// distribution; also in the spelling of other programs, which ParseNamed refuses with a hint.
bool IsReference(std::string_view text);
// The hint for a place that is no reference: the one that was meant, or `otherwise`.
std::string NoReferenceHint(const std::string& place, std::string otherwise);
// The manifest that a reference names: by its digest, otherwise by its tag.
Result<registry::Tagged> NamedManifest(const registry::Store& store,
                                       const registry::Reference& reference);

// "release.pub (ECDSA P-256, key 0123...)".
std::string KeyText(const registry::PublicKey& key);
Json KeyJson(const registry::PublicKey& key);
// "signed by release.pub (ECDSA P-256, key 0123...) as host/repository".
std::string SignedByText(const registry::GoodSignature& signature);
Json SignatureJson(const registry::GoodSignature& signature);
Json OmsJson(const registry::OmsReport& report, const registry::PublicKey& key);

// What verify is asked about signatures.
struct SignatureArguments {
  std::vector<std::string> keys;  // files
  bool oms = false;
  std::string signature_file;  // "" for model.sig in the directory
  RegistryArguments registry;
};
// --key, --oms, --signature, and the options for registries.
void AddSignatureOptions(CLI::App& app, SignatureArguments& arguments);

// Checks the signatures of what a reference names, or with --oms the files of a directory, and
// reports them. kMismatch if no key fits; kInvalidArgument for a place of the other kind.
Result<int> VerifySigned(const std::string& place, const SignatureArguments& arguments, size_t jobs,
                         bool json);

}  // namespace moepack::cli

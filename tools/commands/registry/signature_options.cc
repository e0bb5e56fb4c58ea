#include "tools/commands/registry/signature_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "libshard/base/text/address.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/open_store.h"
#include "manifest/registry/sign/key_files.h"
#include "manifest/registry/sign/verify_signatures.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/options/reference_option.h"

namespace moepack::cli {
namespace {

using registry::GoodSignature;
using registry::PublicKey;
using registry::Reference;
using registry::SignatureReport;

const PublicKey& KeyOf(const std::string& id, const std::vector<PublicKey>& keys) {
  return *std::find_if(keys.begin(), keys.end(),
                       [&](const PublicKey& key) { return key.id() == id; });
}

std::string SignaturesText(const std::string& reference, const SignatureReport& report,
                           const std::vector<PublicKey>& keys) {
  std::string text;
  for (const GoodSignature& one : report.good)
    text += Cat(Shown(reference), ": ", SignedByText(one), "\n");
  return Cat(text, "manifest ", report.digest, "\n", Plural(report.found, "signature"), " found, ",
             report.good.size(), " by ", keys.size() == 1 ? "this key" : "these keys", "\n");
}

Json SignaturesJson(const std::string& reference, const SignatureReport& report) {
  Json signatures = Json::array();
  for (const GoodSignature& one : report.good) signatures.push_back(SignatureJson(one));
  return {{"reference", reference},
          {"passed", true},
          {"digest", report.digest},
          {"found", report.found},
          {"signatures", std::move(signatures)}};
}

// A failed proof is a result, too. `member` says what `place` is.
Error Unproved(const char* member, const std::string& place, Error error, bool json) {
  if (!json || error.code != Code::kMismatch) return error;
  const Json document = {{member, place}, {"passed", false}, {"error", error.message}};
  if (const Status written = WriteJsonResult(document); !written) return written.error();
  return error;
}

Result<int> VerifyReference(const std::string& place, const SignatureArguments& arguments,
                            const std::vector<PublicKey>& keys, bool json) {
  SHARD_TRY(const NamedStore source, ParseNamed(place, arguments.registry));
  Reference reference = source.reference;
  if (reference.digest.empty()) reference.tag = reference.tag_or_default();
  SHARD_TRY(const registry::StorePtr store, registry::OpenStore(reference, source.access));
  SHARD_TRY(const registry::Tagged named, NamedManifest(*store, reference));
  // A signature of a manifest that is missing or has changed means nothing.
  SHARD_CHECK(store->ReadManifest(named.manifest));
  const auto report = registry::VerifySignatures(*store, named.manifest.digest, keys);
  const std::string shown = registry::ReferenceText(reference);
  if (!report) return Unproved("reference", shown, report.error(), json);
  SHARD_CHECK(json ? WriteJsonResult(SignaturesJson(shown, *report))
                   : WriteReport(SignaturesText(shown, *report, keys)));
  return kExitDone;
}

Result<int> VerifyFiles(const std::string& directory, const SignatureArguments& arguments,
                        const std::vector<PublicKey>& keys, size_t jobs, bool json) {
  Progress progress("verifying");
  registry::HashOptions options;
  options.jobs = jobs;
  options.progress = progress.Shows();
  const auto report = registry::VerifyDirectory(directory, arguments.signature_file, keys, options);
  progress.Clear();
  if (!report) return Unproved("directory", directory, report.error(), json);
  const PublicKey& key = KeyOf(report->key_id, keys);
  Json document = OmsJson(*report, key);
  document["passed"] = true;
  const std::string text =
      Cat(Shown(directory), ": signed by ", KeyText(key), " as ", Shown(report->name), "; ",
          Plural(report->files, "file"), ", ", ExactBytes(report->bytes),
          " read\nroot sha256:", report->digest, "\n");
  SHARD_CHECK(json ? WriteJsonResult(document) : WriteReport(text));
  return kExitDone;
}

}  // namespace

bool IsReference(std::string_view text) {
  const std::string_view starts[] = {"layout:", "layout+", "oci:", "docker:"};
  return std::any_of(std::begin(starts), std::end(starts),
                     [&](std::string_view start) { return text.starts_with(start); });
}

std::string NoReferenceHint(const std::string& place, std::string otherwise) {
  std::error_code error;
  std::string meant = registry::MeantReferenceHint(place);
  return meant.empty() || std::filesystem::exists(place, error) ? std::move(otherwise)
                                                                : std::move(meant);
}

Result<registry::Tagged> NamedManifest(const registry::Store& store, const Reference& reference) {
  if (!reference.digest.empty())
    return registry::Tagged{reference.tag, {registry::kManifestType, reference.digest}};
  SHARD_TRY(registry::BlobRecord manifest, store.FindTag(reference.tag_or_default()));
  return registry::Tagged{reference.tag_or_default(), std::move(manifest)};
}

std::string KeyText(const PublicKey& key) {
  return Cat(Shown(key.name()), " (", KeyTypeName(key.type()), ", key ", key.id(), ")");
}

std::string SignedByText(const GoodSignature& signature) {
  return Cat("signed by ", Shown(signature.key_name), " (", KeyTypeName(signature.key_type),
             ", key ", signature.key_id, ") as ", Shown(signature.identity));
}

Json SignatureJson(const GoodSignature& signature) {
  return {{"key",
           {{"file", signature.key_name},
            {"type", KeyTypeName(signature.key_type)},
            {"id", signature.key_id}}},
          {"identity", signature.identity},
          {"payload", signature.payload_digest}};
}

Json KeyJson(const PublicKey& key) {
  return {{"file", key.name()}, {"type", KeyTypeName(key.type())}, {"id", key.id()}};
}

Json OmsJson(const registry::OmsReport& report, const PublicKey& key) {
  return {{"directory", report.directory},
          {"signature_file", report.signature_file},
          {"name", report.name},
          {"digest", report.digest},
          {"files", report.files},
          {"bytes", report.bytes},
          {"key", KeyJson(key)}};
}

void AddSignatureOptions(CLI::App& app, SignatureArguments& arguments) {
  StartSection(app, "Checks");
  CLI::Option* key =
      app.add_option("--key", arguments.keys,
                     "Check who signed: of a reference, that one of its signatures is by this "
                     "public key (PEM); with --oms, the files of a directory. May be repeated: one "
                     "of the keys is enough.")
          ->type_name("KEY")
          ->allow_extra_args(false);
  CLI::Option* oms = app.add_flag("--oms", arguments.oms,
                                  "The directory has a signature of all its files in the form of "
                                  "OpenSSF Model Signing: check that, and nothing else.")
                         ->needs(key);
  app.add_option("--signature", arguments.signature_file,
                 "With --oms: where the signature is. Default: model.sig in the directory.")
      ->type_name("FILE")
      ->needs(oms);
  AddRegistryOptions(app, arguments.registry);
}

Result<int> VerifySigned(const std::string& place, const SignatureArguments& arguments, size_t jobs,
                         bool json) {
  const bool is_reference = IsReference(place);
  if (arguments.keys.empty())
    return Error{Code::kInvalidArgument,
                 Cat(Shown(place), ": a reference is verified with --key, and none was given"),
                 "--key KEY.pub checks its signatures; pull it to check the files"};
  if (is_reference && arguments.oms)
    return Error{Code::kInvalidArgument,
                 Cat("--oms works with directories, not with references: ", Shown(place)),
                 "leave it out, or pull what the reference names"};
  if (!is_reference && !arguments.oms)
    return Error{Code::kInvalidArgument,
                 Cat("--key needs a published reference, or --oms: ", Shown(WithoutSecrets(place)),
                     " is not a reference"),
                 NoReferenceHint(place,
                                 "signatures are published beside a manifest: name layout:DIR:tag; "
                                 "--oms checks model.sig of a directory")};
  if (is_reference && jobs != 0)
    return Error{Code::kInvalidArgument, "--jobs has no effect: no files are read",
                 "leave it out: it is for --oms"};
  if (!is_reference) SHARD_CHECK(CheckRegistryUse(arguments.registry, place));
  SHARD_TRY(const std::vector<PublicKey> keys, registry::ReadPublicKeys(arguments.keys));
  if (is_reference) return VerifyReference(place, arguments, keys, json);
  return VerifyFiles(place, arguments, keys, jobs, json);
}

}  // namespace moepack::cli

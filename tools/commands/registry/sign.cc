#include "manifest/registry/sign/sign.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/text/address.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/document/manifest.h"
#include "manifest/registry/open_store.h"
#include "manifest/registry/sign/key_files.h"
#include "manifest/registry/sign/oms.h"
#include "manifest/registry/sign/simple_signing.h"
#include "tools/base/command.h"
#include "tools/base/command_text.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/base/table.h"
#include "tools/commands/registry/signature_options.h"
#include "tools/options/options.h"
#include "tools/options/reference_option.h"

namespace moepack::cli {
namespace sign_command {
namespace {

using registry::Reference;
using registry::SignedManifest;

struct Arguments {
  std::string place, key_file, passphrase_file;
  bool oms = false, json = false;
  registry::SignOptions sign;
  registry::OmsSignOptions files;  // its dry_run is for both
  RegistryArguments registry;
};

// The command that proves what was signed, if the public key is beside the private one.
std::string NextLines(const Arguments& arguments, const std::string& place) {
  const fs::path file = fs::path(arguments.key_file).replace_extension(".pub");
  std::error_code error;
  if (arguments.files.dry_run || !fs::exists(file, error)) return "";
  CommandLine line("verify");
  line.AddPath(place);
  if (arguments.oms) line.Add("--oms");
  line.AddPath("--key", file.string());
  line.AddPath("--signature", arguments.files.signature_file);
  return Cat("\nnext:\n  ", line.Text(), "\n");
}

std::string StateOf(const Arguments& arguments, const SignedManifest& one) {
  if (one.was_signed) return "was signed";
  return arguments.files.dry_run ? "to sign" : "signed";
}

// ---- Sets in a registry or a layout

std::string IdentityOf(const Arguments& arguments, const Reference& reference) {
  if (!arguments.sign.identity.empty()) return arguments.sign.identity;
  return reference.kind == Reference::Kind::kServer ? reference.place : registry::kLayoutIdentity;
}

std::string ReportLine(const Arguments& arguments, const Reference& reference,
                       const std::vector<SignedManifest>& all, const registry::PublicKey& key) {
  const bool was_signed =
      std::all_of(all.begin(), all.end(), [](const SignedManifest& one) { return one.was_signed; });
  const std::string place = Shown(ReferenceText(reference));
  return Cat(was_signed                ? Cat(place, " was signed before")
             : arguments.files.dry_run ? Cat("would sign ", place)
                                       : Cat("signed ", place),
             " as ", IdentityOf(arguments, reference), " with ", KeyText(key));
}

std::string ReportText(const Arguments& arguments, const Reference& reference,
                       const std::vector<SignedManifest>& all, const registry::PublicKey& key) {
  Table table({"tag", "state", "manifest"});
  for (const SignedManifest& one : all) table.Row({one.tag, StateOf(arguments, one), one.digest});
  return Cat(table.Render(), "\n", ReportLine(arguments, reference, all, key), "\n",
             NextLines(arguments, ReferenceText(reference)));
}

Json ReportJson(const Arguments& arguments, const Reference& reference,
                const std::vector<SignedManifest>& all, const registry::PublicKey& key) {
  Json manifests = Json::array();
  for (const SignedManifest& one : all) {
    manifests.push_back({{"tag", one.tag},
                         {"digest", one.digest},
                         {"state", StateOf(arguments, one)},
                         {"signature_tag", one.signature_tag}});
  }
  return {{"reference", ReferenceText(reference)},
          {"identity", IdentityOf(arguments, reference)},
          {"key", KeyJson(key)},
          {"dry_run", arguments.files.dry_run},
          {"manifests", std::move(manifests)}};
}

Result<int> SignReference(Arguments& arguments, const registry::PrivateKey& key) {
  SHARD_TRY(const NamedStore target, ParseNamed(arguments.place, arguments.registry));
  Reference reference = target.reference;
  if (reference.digest.empty()) reference.tag = reference.tag_or_default();
  if (reference.kind == Reference::Kind::kWebLayout)
    return Error{
        Code::kInvalidArgument,
        Cat(Shown(arguments.place), " is read-only; sign layout:DIR or oci://host/repository"),
        "sign the layout where it is written, and have it served again"};
  arguments.sign.identity = IdentityOf(arguments, reference);
  // A missing layout is not created.
  SHARD_TRY(const registry::StorePtr store, registry::OpenStore(reference, target.access));
  SHARD_TRY(const registry::Tagged manifest, NamedManifest(*store, reference));
  std::vector<SignedManifest> all;
  if (arguments.files.dry_run) {
    SHARD_TRY(all, PlanSigning(*store, manifest, key.public_key(), arguments.sign));
  } else {
    registry::StoreAccess access = target.access;
    access.lock_wait = registry::kSigningWait;
    SHARD_TRY(const auto writable, registry::OpenWritable(reference, access));
    SHARD_TRY(all, Sign(*writable, manifest, key, arguments.sign));
  }
  SHARD_CHECK(arguments.json
                  ? WriteJsonResult(ReportJson(arguments, reference, all, key.public_key()))
                  : WriteReport(ReportText(arguments, reference, all, key.public_key()),
                                ReportLine(arguments, reference, all, key.public_key())));
  return kExitDone;
}

// ---- A directory

Result<int> SignFiles(Arguments& arguments, const registry::PrivateKey& key) {
  registry::OmsReport report;
  {
    Progress progress("hashing");
    registry::OmsSignOptions& options = arguments.files;
    options.ignored = {manifest::kPullLockFile};
    options.hash.progress = progress.Shows();
    SHARD_TRY(report, registry::SignDirectory(arguments.place, key, options));
  }
  Json document = OmsJson(report, key.public_key());
  document["dry_run"] = arguments.files.dry_run;
  const std::string text =
      Cat(arguments.files.dry_run ? "would sign " : "signed ", Plural(report.files, "file"), ", ",
          ExactBytes(report.bytes), ", of ", Shown(arguments.place), " in ",
          Shown(report.signature_file), " with ", KeyText(key.public_key()),
          "\nroot sha256:", report.digest, "\n", NextLines(arguments, arguments.place));
  SHARD_CHECK(arguments.json ? WriteJsonResult(document) : WriteReport(text));
  return kExitDone;
}

Result<int> Run(Arguments& arguments) {
  StopBetweenPieces();
  const bool is_reference = IsReference(arguments.place);
  if (is_reference && arguments.oms)
    return Error{Code::kInvalidArgument,
                 Cat("--oms works with directories, not with references: ", Shown(arguments.place)),
                 "pull what it names, or leave out --oms to sign what is published"};
  if (!is_reference && !arguments.oms)
    return Error{
        Code::kInvalidArgument,
        Cat(Shown(WithoutSecrets(arguments.place)), " is not a reference such as layout:DIR:tag"),
        NoReferenceHint(arguments.place, "--oms signs the files of a directory")};
  if (arguments.oms) SHARD_CHECK(CheckRegistryUse(arguments.registry, arguments.place));
  SHARD_TRY(const registry::Secret passphrase, registry::ReadPassphrase(arguments.passphrase_file));
  SHARD_TRY(const registry::PrivateKey key,
            registry::ReadPrivateKey(arguments.key_file, passphrase));
  if (arguments.oms) return SignFiles(arguments, key);
  return SignReference(arguments, key);
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  app.add_option("REF", arguments->place,
                 "What is published: oci://host[:port]/repository[:tag][@sha256:...], or "
                 "layout:DIR[:tag][@sha256:...]. With --oms: a directory of files.")
      ->required();
  StartSection(app, "Input");
  app.add_option("--key", arguments->key_file,
                 "The private key: KEY.key of keygen, or another PKCS#8 key as PEM.")
      ->type_name("KEY")
      ->required();
  app.add_option("--passphrase-file", arguments->passphrase_file,
                 "The first line of this file opens an encrypted key. Default: "
                 "MOEPACK_SIGN_PASSPHRASE.")
      ->type_name("FILE");
  StartSection(app, "Output");
  CLI::Option* oms = app.add_flag("--oms", arguments->oms,
                                  "Sign every file of a directory in the form of OpenSSF Model "
                                  "Signing v1.0. Needs a P-256 key.");
  app.add_option(
         "--identity", arguments->sign.identity,
         "Where the signature says that the manifest is stored: host/repository. Default: that "
         "of a registry's reference; of a layout moepack.local/layout.")
      ->type_name("NAME")
      ->excludes(oms);
  app.add_flag("!--no-views", arguments->sign.views,
               "Sign the named manifest only. Default: also every node view of it.")
      ->excludes(oms);
  app.add_option("-o,--output", arguments->files.signature_file,
                 "With --oms: write the signature here. Default: model.sig in the directory.")
      ->type_name("FILE")
      ->needs(oms);
  app.add_flag("--force", arguments->files.replace, "With --oms: replace an existing signature.")
      ->needs(oms);
  AddJobs(app, arguments->files.hash.jobs);
  AddDryRun(app, arguments->files.dry_run);
  AddJson(app, arguments->json);
  app.get_option("--jobs")->needs(oms);
  AddRegistryOptions(app, arguments->registry);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace sign_command

constinit const Command kSign = {
    "sign",
    "Signs what is published, or the files of a directory",
    "Signs the digest of a manifest, and of each node view of it, with a private key, and puts the "
    "signatures beside them, under tags sha256-<digest>.sig as `cosign sign --key` does. "
    "Signatures by other keys stay; the same key signs once. `moepack verify REF --key KEY.pub` "
    "and `cosign verify --key` check them.",
    {"moepack sign layout:models:v1 --key release.key",
     "moepack sign pulled-1 --oms --key release.key"},
    {"--key", "--passphrase-file", "--oms", "--identity", "--output", "--username",
     "--password-stdin", "--dry-run"},
    sign_command::Bind};

}  // namespace moepack::cli

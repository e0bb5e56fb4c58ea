#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/files/file.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/sign/key_files.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/base/table.h"
#include "tools/options/options.h"

namespace moepack::cli {
namespace keygen_command {
namespace {

using registry::KeyType;

struct Arguments {
  std::string out, type = "p256", passphrase_file;
  bool json = false;
};

std::string ReportText(const registry::KeyPaths& paths, const registry::PublicKey& key,
                       bool encrypted) {
  Table files({"file", "what"});
  files.Row({paths.private_key, Cat("private key, ", KeyTypeName(key.type()),
                                    encrypted ? ", encrypted" : ", not encrypted")});
  files.Row({paths.public_key, "public key"});
  return Cat(files.Render(), "\nkey ", key.id(), "\n");
}

Json ReportJson(const registry::KeyPaths& paths, const registry::PublicKey& key, bool encrypted) {
  return {{"private_key", paths.private_key},
          {"public_key", paths.public_key},
          {"type", KeyTypeName(key.type())},
          {"id", key.id()},
          {"encrypted", encrypted}};
}

Result<int> Run(const Arguments& arguments) {
  const KeyType type = arguments.type == "p256" ? KeyType::kP256 : KeyType::kEd25519;
  SHARD_TRY(const registry::Secret passphrase, registry::ReadPassphrase(arguments.passphrase_file));
  SHARD_TRY(const registry::PrivateKey key, registry::PrivateKey::Generate(type));
  const registry::KeyPaths paths = registry::KeyPathsOf(arguments.out);
  SHARD_CHECK(registry::WriteKeyPair(paths, key, passphrase));
  const bool encrypted = !passphrase.empty();
  SHARD_CHECK(arguments.json
                  ? WriteJsonResult(ReportJson(paths, key.public_key(), encrypted))
                  : WriteReport(ReportText(paths, key.public_key(), encrypted),
                                Cat("wrote ", Shown(paths.private_key), " and ",
                                    Shown(paths.public_key), ", key ", key.public_key().id())));
  return kExitDone;
}

// KEY is the beginning of two file names, so it must end with one.
std::string KeyNameProblem(const std::string& key) {
  const std::string name = fs::path(key).filename().string();
  if (!name.empty() && name != "." && name != "..") return "";
  return Cat("expected a path that ends with a name, found ", Quoted(key));
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  StartSection(app, "Output");
  app.add_option("-o,--output", arguments->out,
                 "Write KEY.key, which only its owner can read, and KEY.pub. Existing files are "
                 "never replaced.")
      ->type_name("KEY")
      ->check(KeyNameProblem)
      ->required();
  app.add_option(
         "--type", arguments->type,
         "p256 (default): ECDSA on P-256 with SHA-256, which every verifier supports. ed25519: "
         "for moepack, cosign and OpenSSL, not for OpenSSF Model Signing.")
      ->type_name("TYPE")
      ->transform(OneOf({"p256", "ed25519"}));
  app.add_option("--passphrase-file", arguments->passphrase_file,
                 "Encrypt the private key with the first line of this file. Default: "
                 "MOEPACK_SIGN_PASSPHRASE; without either the key is not encrypted.")
      ->type_name("FILE");
  StartSection(app, "General");
  AddJson(app, arguments->json);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace keygen_command

constinit const Command kKeygen = {
    "keygen",
    "Makes a key pair for signing",
    "Writes a private key (PKCS#8) and its public key (SPKI), both as PEM, which OpenSSL reads and "
    "`cosign import-key-pair` takes. Keep the private key secret and give away the public one. "
    "The key's number is the SHA-256 of its public half.",
    {"moepack keygen -o release", "moepack keygen -o ci --type ed25519"},
    {"--output", "--type", "--passphrase-file"},
    keygen_command::Bind};

}  // namespace moepack::cli

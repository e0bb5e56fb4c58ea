#include "tools/options/reference_option.h"

#include "libshard/base/text/address.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/scheme.h"
#include "tools/base/output.h"

namespace moepack::cli {
namespace {

using Kind = registry::Reference::Kind;

// Splits "host[:port]/a/b".
Result<registry::ServerOptions> ServerFor(const std::string& place,
                                          const RegistryArguments& arguments,
                                          const registry::UploadOptions& upload) {
  const size_t slash = place.find('/');
  SHARD_TRY(RegistryAccess access,
            OpenRegistryAccess(arguments, Lower(place.substr(0, slash)), place.substr(slash + 1)));
  return registry::ServerOptions{std::move(access.settings), std::move(access.authorizer), upload};
}

}  // namespace

bool IsOnThisMachine(const registry::Reference& reference) {
  return reference.kind == Kind::kLayout ||
         (reference.kind == Kind::kFiles && !remote::IsAddress(reference.place));
}

void AddReference(CLI::App& app, const std::string& name, std::string& text,
                  const std::string& help) {
  app.add_option(
         name, text,
         Cat(help, " If the name of DIR contains ':' or '@', write it with '/' at its end."))
      ->required();
}

Result<NamedStore> ParseNamed(const std::string& text, const RegistryArguments& arguments,
                              const registry::UploadOptions& upload) {
  NamedStore named;
  SHARD_TRY(named.reference, registry::ParseReference(text));
  if (named.reference.kind != Kind::kServer) {
    // Addresses of files use --plain-http too.
    RegistryArguments others = arguments;
    if (!IsOnThisMachine(named.reference)) others.plain_http = false;
    SHARD_CHECK(CheckRegistryUse(others, WithoutSecrets(text)));
  }
  named.access.remote.plain_http = arguments.plain_http;
  named.access.remote.warn = [](const std::string& warning) { PrintWarnings({warning}); };
  named.access.server = [&arguments, upload](const std::string& place) {
    return ServerFor(place, arguments, upload);
  };
  return named;
}

}  // namespace moepack::cli

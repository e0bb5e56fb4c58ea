#include "tools/options/registry_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <memory>
#include <mutex>

#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/http/http_client.h"
#include "manifest/registry/server/certs_d.h"
#include "manifest/registry/server/credentials.h"
#include "manifest/registry/server/registry_auth.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/options/source.h"

namespace moepack::cli {
namespace {

using registry::GivenCredentials;

constexpr size_t kMostSecret = 64u << 10;

// All of standard input.
Result<std::string> ReadStandardInput() {
  std::string text;
  char bytes[4096];
  while (text.size() <= kMostSecret) {
    const ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{Code::kIo, Cat("--password-stdin: ", ErrnoText(errno))};
    if (got == 0) return text;
    text.append(bytes, static_cast<size_t>(got));
  }
  return Error{Code::kInvalidArgument,
               Cat("--password-stdin: the password on standard input is longer than ", kMostSecret,
                   " bytes")};
}

// A secret ends before the newline that an editor or `echo` appends.
std::string WithoutNewline(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

Result<std::string> NotEmpty(std::string text, const std::string& from) {
  if (!text.empty()) return text;
  return Error{Code::kInvalidArgument, Cat(from, ": expected a secret, found nothing")};
}

Result<std::string> SecretOfFile(const char* option, const std::string& file) {
  Result<std::string> text = ReadTextFile(file, kMostSecret);
  if (!text) return Error(text.error()).Within(option);
  return NotEmpty(WithoutNewline(*std::move(text)), Cat(option, ": ", file));
}

Result<GivenCredentials> ReadGiven(const RegistryArguments& arguments) {
  GivenCredentials given;
  given.user = arguments.username;
  if (!arguments.token_file.empty()) {
    SHARD_TRY(given.token, SecretOfFile("--token-file", arguments.token_file));
    given.from = "--token-file";
  } else if (!arguments.password_file.empty()) {
    SHARD_TRY(given.password, SecretOfFile("--password-file", arguments.password_file));
    given.from = "--password-file";
  } else if (arguments.password_stdin) {
    if (arguments.input->empty()) {
      SHARD_TRY(*arguments.input, ReadStandardInput());
    }
    SHARD_TRY(given.password, NotEmpty(WithoutNewline(*arguments.input), "--password-stdin"));
    given.from = "--password-stdin";
  }
  return given;
}

// libcurl would say so only when a server asks for it, and in words of OpenSSL.
Status CheckNotEmpty(const char* option, const std::string& file) {
  std::error_code error;
  const bool is_empty = fs::is_regular_file(file, error) && fs::file_size(file, error) == 0;
  if (!is_empty || error) return Ok();
  return Error{Code::kCorrupt, Cat(option, ": ", file, ": expected PEM text, found an empty file")};
}

Result<remote::HttpSettings> SettingsFor(const RegistryArguments& arguments,
                                         const std::string& host) {
  SHARD_TRY(remote::HttpSettings settings, remote::SettingsFromEnvironment());
  settings.plain_http = arguments.plain_http;
  if (!arguments.ca_file.empty()) {
    Result<std::string> text = registry::ReadAuthorities(arguments.ca_file);
    if (!text) return Error(text.error()).Within("--cacert");
    settings.ca_text = *std::move(text);
  }
  SHARD_CHECK(CheckNotEmpty("--client-cert", arguments.client_cert));
  SHARD_CHECK(CheckNotEmpty("--client-key", arguments.client_key));
  settings.client_cert = arguments.client_cert;
  settings.client_key = arguments.client_key;
  settings.insecure = arguments.insecure;
  settings.warn = [](const std::string& text) {
    // Any thread may warn.
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    PrintWarnings({text});
  };
  SHARD_TRY(const registry::HostCertificates certificates,
            registry::CertificatesOf(host, registry::CertificateDirectories()));
  SHARD_CHECK(registry::UseCertificates(certificates, settings));
  return settings;
}

}  // namespace

void AddRegistryOptions(CLI::App& app, RegistryArguments& arguments) {
  StartSection(app, "Registry");
  CLI::Option* user =
      app.add_option(
             "--username", arguments.username,
             "The user at the registry. Default: MOEPACK_REGISTRY_USERNAME and "
             "MOEPACK_REGISTRY_PASSWORD, or MOEPACK_REGISTRY_TOKEN, or where docker, podman "
             "or skopeo are logged in.")
          ->type_name("NAME");
  CLI::Option* input = app.add_flag("--password-stdin", arguments.password_stdin,
                                    "Read the user's password from standard input.")
                           ->needs(user);
  CLI::Option* file = app.add_option("--password-file", arguments.password_file,
                                     "Read the user's password from this file.")
                          ->type_name("FILE")
                          ->needs(user)
                          ->excludes(input);
  app.add_option("--token-file", arguments.token_file,
                 "Read a bearer token from this file; it is sent to the registry unchanged.")
      ->type_name("FILE")
      ->excludes(user)
      ->excludes(input)
      ->excludes(file);
  if (app.get_option_no_throw("--plain-http") == nullptr) AddPlainHttp(app, arguments.plain_http);
  app.add_flag("--plain-http-credentials", arguments.plain_http_credentials,
               "Also send passwords and tokens over http:// to other machines, where anybody in "
               "between can read them.")
      ->needs(app.get_option("--plain-http"));
  app.add_option("--cacert", arguments.ca_file,
                 "Trust servers that are certified by the authorities in this file (PEM). Default: "
                 "SSL_CERT_FILE.")
      ->type_name("FILE");
  CLI::Option* certificate =
      app.add_option("--client-cert", arguments.client_cert,
                     "Present this client certificate (PEM) to the registry.")
          ->type_name("FILE");
  app.add_option("--client-key", arguments.client_key, "The key of --client-cert (PEM).")
      ->type_name("FILE")
      ->needs(certificate);
  app.add_flag("--insecure-skip-verify", arguments.insecure,
               "Trust any server, whatever its certificate says: for tests only.");
}

Error NoRegistry(const char* option, const std::string& reference) {
  return {Code::kInvalidArgument,
          Cat(option, " has no effect: ", Shown(reference), " is not a registry"),
          "leave it out: it is for oci://host/repository"};
}

Status CheckRegistryUse(const RegistryArguments& arguments, const std::string& reference) {
  // Without options that need one of these, which CLI11 refuses alone.
  const std::pair<const char*, bool> given[] = {
      {"--username", !arguments.username.empty()},
      {"--password-stdin", arguments.password_stdin},
      {"--password-file", !arguments.password_file.empty()},
      {"--token-file", !arguments.token_file.empty()},
      {"--plain-http", arguments.plain_http},
      {"--cacert", !arguments.ca_file.empty()},
      {"--client-cert", !arguments.client_cert.empty()},
      {"--insecure-skip-verify", arguments.insecure}};
  for (const auto& [option, is_given] : given) {
    if (is_given) return NoRegistry(option, reference);
  }
  return Ok();
}

Result<RegistryAccess> OpenRegistryAccess(const RegistryArguments& arguments,
                                          const std::string& host, const std::string& repository) {
  if (arguments.username.empty() == (arguments.password_stdin || !arguments.password_file.empty()))
    return Error{Code::kInvalidArgument,
                 "--username needs --password-stdin or --password-file, and they need --username"};
  SHARD_TRY(const GivenCredentials given, ReadGiven(arguments));
  RegistryAccess access;
  SHARD_TRY(access.settings, SettingsFor(arguments, host));
  if (arguments.insecure) {
    PrintWarnings({Cat(Shown(host),
                       ": --insecure-skip-verify: anybody in between can read and "
                       "change what is sent and fetched")});
  }
  registry::RegistryAuthOptions options;
  options.client = std::make_shared<remote::HttpClient>(access.settings);
  options.find = [given, host, repository] {
    return registry::FindCredentials(given, host, repository);
  };
  options.plain_http_credentials = arguments.plain_http_credentials;
  access.authorizer = registry::MakeRegistryAuth(std::move(options));
  return access;
}

}  // namespace moepack::cli

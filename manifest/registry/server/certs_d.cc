#include "manifest/registry/server/certs_d.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/directory_names.h"
#include "libshard/base/files/file.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostCertificates = 16u << 20;  // of a file: the bundle of a system has 220 kB
constexpr std::string_view kPemCertificate = "-----BEGIN CERTIFICATE-----";

// Names directly below `directory`, sorted. None if it does not exist or may not be read: docker
// and podman skip those, too.
Result<std::vector<std::string>> NamesBelow(const fs::path& directory) {
  Descriptor open_directory(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool absent = errno == ENOENT || errno == EACCES || errno == ENOTDIR;
  if (!open_directory.valid() && absent) return std::vector<std::string>();
  return NamesIn(std::move(open_directory), directory);
}

Error WrongPair(const fs::path& directory, const std::string& file, const std::string& expected) {
  return {Code::kInvalidArgument,
          Cat(Shown((directory / file).string()), ": expected ", Shown(expected)),
          "a client's certificate is name.cert with its key name.key; authorities are *.crt"};
}

Status ReadDirectory(const fs::path& directory, const std::vector<std::string>& names,
                     HostCertificates& certificates) {
  const auto is_there = [&](const std::string& name) {
    return std::binary_search(names.begin(), names.end(), name);
  };
  certificates.directory = directory.string();
  for (const std::string& name : names) {
    const fs::path path(name);
    const std::string kind = path.extension(), stem = path.stem();
    if (kind == ".crt") {
      SHARD_TRY(const std::string text, ReadAuthorities(directory / name));
      certificates.authorities += text;
    }
    if (kind == ".key" && !is_there(stem + ".cert"))
      return WrongPair(directory, name, Cat(stem, ".cert beside it, found none"));
    if (kind != ".cert") continue;
    if (!is_there(stem + ".key"))
      return WrongPair(directory, name, Cat(stem, ".key beside it, found none"));
    if (!certificates.client_cert.empty())
      return WrongPair(directory, name, "one client's certificate, found a second");
    certificates.client_cert = directory / name;
    certificates.client_key = directory / (stem + ".key");
  }
  return Ok();
}

}  // namespace

std::vector<fs::path> CertificateDirectories() {
  std::vector<fs::path> places;
  const fs::path home = remote::Environment("HOME"), xdg = remote::Environment("XDG_CONFIG_HOME");
  if (!xdg.empty()) places.push_back(xdg / "containers/certs.d");
  if (xdg.empty() && !home.empty()) places.push_back(home / ".config/containers/certs.d");
  if (!home.empty()) places.push_back(home / ".docker/certs.d");
  places.emplace_back("/etc/containers/certs.d");
  places.emplace_back("/etc/docker/certs.d");
  return places;
}

Result<HostCertificates> CertificatesOf(const std::string& host,
                                        const std::vector<fs::path>& places) {
  HostCertificates certificates;
  if (host.empty() || host.starts_with('.') || host.find('/') != host.npos) return certificates;
  for (const fs::path& place : places) {
    SHARD_TRY(const std::vector<std::string> names, NamesBelow(place / host));
    if (names.empty()) continue;
    SHARD_CHECK(ReadDirectory(place / host, names, certificates));
    break;
  }
  return certificates;
}

Result<std::string> ReadAuthorities(const fs::path& file) {
  SHARD_TRY(std::string text, ReadTextFile(file, kMostCertificates));
  if (text.find(kPemCertificate) != text.npos) return text + "\n";
  if (IsBlank(text)) {
    return Error{Code::kCorrupt,
                 Cat(Shown(file.string()), ": expected certificates as PEM, found an empty file")};
  }
  return Error{Code::kCorrupt,
               Cat(Shown(file.string()), ": expected certificates as PEM, found none"),
               "turn it into PEM: openssl x509 -inform DER -in FILE -out FILE.crt"};
}

Status UseCertificates(const HostCertificates& certificates, remote::HttpSettings& settings) {
  if (settings.client_cert.empty()) {
    settings.client_cert = certificates.client_cert;
    settings.client_key = certificates.client_key;
  }
  if (certificates.authorities.empty()) return Ok();
  std::string others = settings.ca_text;
  if (others.empty() && !settings.ca_file.empty()) {
    SHARD_TRY(others, ReadAuthorities(settings.ca_file));
  }
  settings.ca_text = others + certificates.authorities;
  return Ok();
}

}  // namespace moepack::registry

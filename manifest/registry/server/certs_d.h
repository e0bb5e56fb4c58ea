// Certificates for one registry, in directories that have its name: containers-certs.d(5), and
// "Verify repository client with certificates" of docker's manual.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/remote/http_settings.h"

namespace moepack::registry {

struct HostCertificates {
  std::string directory;                // that they are from; "" where there is none
  std::string authorities;              // all *.crt, one behind the other; PEM
  std::string client_cert, client_key;  // *.cert and *.key of the same name; "" for none
};

// Where the directories of hosts lie, the user's before those of the machine:
// ${XDG_CONFIG_HOME:-~/.config}/containers/certs.d, ~/.docker/certs.d, /etc/containers/certs.d,
// /etc/docker/certs.d.
std::vector<std::filesystem::path> CertificateDirectories();

// Reads the first directory that is there for `host`, which is "host" or "host:port" exactly as the
// user named it, in lower case. Errors: kInvalidArgument for a certificate without its key or the
// other way round, and for more than one pair; kCorrupt for a *.crt that is no PEM; kIo.
Result<HostCertificates> CertificatesOf(const std::string& host,
                                        const std::vector<std::filesystem::path>& places);

// A file of authorities; kCorrupt for one that is no PEM.
Result<std::string> ReadAuthorities(const std::filesystem::path& file);

// Puts them into `settings`, where they stand beside those of ca_text, or else of ca_file; a client
// certificate that `settings` has stays.
Status UseCertificates(const HostCertificates& certificates, remote::HttpSettings& settings);

}  // namespace moepack::registry

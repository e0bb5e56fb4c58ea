// Certificates for one registry, in directories named after it: containers-certs.d(5), and "Verify
// repository client with certificates" in docker's manual.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/remote/http/http_settings.h"

namespace moepack::registry {

struct HostCertificates {
  std::string directory;                // where they come from; "" if there are none
  std::string authorities;              // all *.crt, concatenated; PEM
  std::string client_cert, client_key;  // *.cert and *.key of the same name; "" for none
};

// Where the directories of hosts are, the user's before those of the machine:
// ${XDG_CONFIG_HOME:-~/.config}/containers/certs.d, ~/.docker/certs.d, /etc/containers/certs.d,
// /etc/docker/certs.d.
std::vector<std::filesystem::path> CertificateDirectories();

// Reads the first existing directory for `host`, which is "host" or "host:port" exactly as the user
// named it, in lower case. Errors: kInvalidArgument for a certificate without its key or vice
// versa, and for more than one pair; kCorrupt for a *.crt that is not PEM; kIo.
Result<HostCertificates> CertificatesOf(const std::string& host,
                                        const std::vector<std::filesystem::path>& places);

// A file of authorities; kCorrupt if it is not PEM.
Result<std::string> ReadAuthorities(const std::filesystem::path& file);

// Adds them to `settings`, in addition to those of ca_text or otherwise ca_file; an existing client
// certificate in `settings` stays.
Status UseCertificates(const HostCertificates& certificates, remote::HttpSettings& settings);

}  // namespace moepack::registry

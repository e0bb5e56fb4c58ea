// A repository of a registry server: where requests go, and its name in messages.
#pragma once

#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/remote/http/url.h"

namespace moepack::registry {

struct Repository {
  std::string host;    // as named by the user: "registry.example:5000", "docker.io"
  std::string name;    // "team/model"
  remote::Url origin;  // "https://registry.example:5000"; requests go to its "/v2/"

  // "oci://registry.example:5000/team/model".
  std::string Text() const;
  // The address of a part of the repository, "blobs/uploads/"; `part` is encoded.
  remote::Url At(std::string_view part) const;
};

// "host[:port]/name". http is used for loopback hosts, and for all with `plain_http`. docker.io is
// reached at registry-1.docker.io, where a name of one part gets "library/" in front.
// kInvalidArgument for names that no registry would accept: the first part is a host only if it has
// a '.' or a ':' or is "localhost".
Result<Repository> ParseRepository(std::string_view text, bool plain_http);

// [a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*, possibly several of them separated by '/', as in the OCI
// distribution specification.
bool IsRepositoryName(std::string_view text);

}  // namespace moepack::registry

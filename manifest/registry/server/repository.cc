#include "manifest/registry/server/repository.h"

#include <algorithm>

#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

constexpr size_t kMostHostAndName = 255;
constexpr const char* kRepositoryHint =
    "write it as oci://registry.example/team/model:tag; Docker Hub is docker.io/user/model";

Error NoRepository(std::string_view text, const char* part, const char* expected,
                   std::string_view found) {
  return {
      Code::kInvalidArgument,
      Cat("oci://", Shown(text), ": ", part, ": expected ", expected, ", found ", Quoted(found)),
      kRepositoryHint};
}

bool IsLetterOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// Between two runs of letters and digits: ".", "_", "__" or any number of "-".
bool IsSeparator(std::string_view text) {
  return text == "." || text == "_" || text == "__" || text.find_first_not_of('-') == text.npos;
}

bool IsNamePart(std::string_view part) {
  if (part.empty() || !IsLetterOrDigit(part.front()) || !IsLetterOrDigit(part.back())) return false;
  for (size_t i = 0; i < part.size();) {
    const auto begin = part.begin() + static_cast<std::ptrdiff_t>(i);
    const auto end = std::find_if(begin, part.end(), IsLetterOrDigit);
    const size_t length = static_cast<size_t>(end - begin);
    if (length > 0 && !IsSeparator(part.substr(i, length))) return false;
    i += length + 1;
  }
  return true;
}

bool LooksLikeHost(std::string_view text) {
  return text == "localhost" || text.find_first_of(".:") != text.npos;
}

}  // namespace

bool IsRepositoryName(std::string_view text) {
  const std::vector<std::string> parts = Split(text, '/');
  return std::all_of(parts.begin(), parts.end(), IsNamePart);
}

std::string Repository::Text() const { return Cat("oci://", host, "/", name); }

remote::Url Repository::At(std::string_view part) const {
  remote::Url url = origin;
  url.path = Cat("/v2/", name, "/", part);
  return url;
}

Result<Repository> ParseRepository(std::string_view text, bool plain_http) {
  const size_t slash = text.find('/');
  Repository repository;
  repository.host = Lower(text.substr(0, slash));
  if (slash != text.npos) repository.name = text.substr(slash + 1);
  if (repository.host.find('@') != std::string::npos) {
    return Error{Code::kInvalidArgument,
                 "oci://: host: expected a name without user and password, found '@'",
                 kRepositoryHint};
  }
  if (!LooksLikeHost(repository.host) || repository.host.find_first_of("?#") != std::string::npos)
    return NoRepository(text, "host", "a name with a '.' or a port, or localhost", repository.host);
  if (!IsRepositoryName(repository.name)) {
    return NoRepository(text, "name",
                        "lower-case letters and digits, with '.', '_', '-' and '/' between them",
                        repository.name);
  }
  if (text.size() > kMostHostAndName)
    return NoRepository(text, "host and name", "at most 255 characters", text);
  const bool hub = repository.host == "docker.io" || repository.host == "index.docker.io";
  if (hub && repository.name.find('/') == std::string::npos)
    repository.name = Cat("library/", repository.name);
  const std::string asked = hub ? "registry-1.docker.io" : repository.host;
  auto origin = remote::ParseUrl(Cat("https://", asked));
  if (!origin) return NoRepository(text, "host", "a name, and a port from 1 to 65535", asked);
  if (origin->IsLoopback() || plain_http) origin = remote::ParseUrl(Cat("http://", asked));
  SHARD_TRY(repository.origin, std::move(origin));
  return repository;
}

}  // namespace moepack::registry

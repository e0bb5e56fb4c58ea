// What users name: references of registries, addresses, and models of the Hub.
#include "libshard/base/text/text.h"
#include "libshard/remote/http/url.h"
#include "libshard/remote/hub_settings.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/server/repository.h"
#include "tests/fuzz/target.h"

namespace references_target {

using moepack::Cat;
using namespace moepack::registry;
using namespace moepack::remote;

std::vector<std::string> Seeds() {
  const std::string digest = DigestOf(std::string(64, 'a'));
  return {"layout:a/b:v1",
          "layout:a:b/:v1@" + digest,
          "oci://registry.example:5000/team/model:v1.2@" + digest,
          "oci://localhost/m",
          "layout+https://host.example/a/b:v1",
          "https://user:pa%20ss@host.example:8443/a/b?x=1",
          "http://[::1]:80/a%20b",
          "registry.example:5000/team/model",
          "docker.io/model",
          "owner/repository@v1/path/to",
          "a/b"};
}

std::vector<std::string> Refused() {
  return {"layout::v1",
          "layout:a:b@sha256:12",
          "oci://host/Upper",
          "oci://u@a.b/c",
          "layout+https://",
          "https://host.example:70000/",
          ""};
}

std::string ReferenceProblem(std::string_view input) {
  const auto reference = ParseReference(input);
  if (!reference) return fuzz::ErrorProblem(reference.error(), "reference");
  if (!reference->tag.empty() && !IsTag(reference->tag)) return "a tag that is none";
  if (!reference->digest.empty() && !IsDigest(reference->digest)) return "a digest that is none";
  if (reference->place.empty()) return "a reference to nowhere";
  const std::string text = ReferenceText(*reference);
  const auto again = ParseReference(text);
  if (!again) return Cat("refused after writing as ", text, ": ", again.error().message);
  const bool same = again->kind == reference->kind && again->tag == reference->tag &&
                    again->digest == reference->digest && ReferenceText(*again) == text;
  return same ? "" : "another reference after writing as " + text;
}

std::string RepositoryProblem(std::string_view input) {
  // A user's own words, which messages show whole.
  if (input.size() * 4 > fuzz::kMaxMessage / 2) return "";
  const auto repository = ParseRepository(input, false);
  if (!repository) return fuzz::ErrorProblem(repository.error(), "oci://");
  if (!IsRepositoryName(repository->name)) return "a repository without a name";
  if (repository->origin.host.empty() || repository->origin.port == 0) return "a host without port";
  const bool plain = repository->origin.scheme == "http";
  if (plain && !repository->origin.IsLoopback()) return "http to another machine";
  const std::string text = repository->Text().substr(6);
  if (text.size() > 255) return "";  // "library/" has made it too long to be written
  const auto again = ParseRepository(text, false);
  return again && again->Text() == repository->Text() ? "" : "another repository after writing";
}

std::string UrlProblem(std::string_view input) {
  const auto url = ParseUrl(input);
  if (!url) return url.error().message.empty() ? "an error without words" : "";
  if (url->port == 0 || url->host.empty() || !url->path.starts_with('/')) return "half an address";
  if (url->Text().find_first_of(" \r\n") != std::string::npos) return "an address of two words";
  const auto again = ParseUrl(url->Text());
  if (!again) return Cat("refused after writing: ", again.error().message);
  if (again->Text() != url->Text()) return "another address after writing";
  if (!again->user.empty() || !again->password.empty()) return "a password in what is sent";
  return url->SameOrigin(*again) ? "" : "another origin after writing";
}

std::string HubProblem(std::string_view input) {
  const auto name = ParseHubName(input);
  if (!name) return name.error().message.empty() ? "an error without words" : "";
  const bool whole = !name->owner.empty() && !name->repository.empty() && !name->revision.empty();
  return whole ? "" : "half a name";
}

std::string Check(std::string_view input) {
  for (const auto& check : {ReferenceProblem, RepositoryProblem, UrlProblem, HubProblem})
    if (std::string problem = check(input); !problem.empty()) return problem;
  return "";
}

// Any text may be a directory, so other references are looked for.
bool Accepts(std::string_view input) {
  const auto reference = ParseReference(input);
  return (reference && reference->kind != Reference::Kind::kFiles) ||
         ParseRepository(input, false).has_value() || ParseUrl(input).has_value() ||
         ParseHubName(input).has_value();
}

constexpr fuzz::Target kTarget{
    .check = Check, .seeds = Seeds, .iterations = 20'000, .accepts = Accepts, .refused = Refused};

}  // namespace references_target

FUZZ_TARGET(FuzzReferences, references_target::kTarget)

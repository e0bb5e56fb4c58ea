// The credentials of a registry: a file of docker or podman, and the answer of the helper that it
// names. The member "answer" of the document is what the helper prints.
#include "manifest/registry/server/credentials.h"

#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "tests/fuzz/target.h"
#include "tests/remote/support/scoped_variable.h"

namespace credentials_target {

using moepack::Cat;
using moepack::registry::Credentials;

constexpr const char* kFile = ".docker/config.json";
constexpr const char* kHost = "registry.example";
constexpr const char* kSecret = "hunter2";

std::vector<std::string> Seeds() {
  return {// user:hunter2
          R"({"auths": {"registry.example": {"auth": "dXNlcjpodW50ZXIy"}, "docker.io": {}}})",
          R"({"auths": {"registry.example/team": {"username": "u", "password": "hunter2"},
              "https://registry.example/v1/": {"identitytoken": "hunter2hunter2"}}})",
          R"({"auths": {"registry.example": {"registrytoken": "hunter2hunter2"}}})",
          R"({"credHelpers": {"registry.example": "fuzz-answer"},
              "answer": {"Username": "u", "Secret": "hunter2"}})",
          R"({"credsStore": "fuzz-answer",
              "answer": {"Username": "<token>", "Secret": "hunter2hunter2"}})"};
}

std::vector<std::string> Refused() {
  return {"[]",
          R"({"auths": {"registry.example": {"auth": "hunter2"}}})",
          R"({"auths": {"registry.example": {"registrytoken": "two hunter2"}}})",
          R"({"credsStore": "fuzz-answer", "answer": {"Username": "u", "Secret": ["hunter2"]}})",
          R"({"credsStore": "../hunter2"})",
          Cat(R"({"credsStore": ")", std::string(5000, 'a'), "\"}"),
          R"({"auths": {"elsewhere.example": {}}})"};
}

// A home directory of its own, and a PATH in which the only helper prints the file "answer".
class Place {
 public:
  Place() {
    std::filesystem::create_directory(dir_ / ".docker");
    const std::string helper = dir_ / "docker-credential-fuzz-answer";
    fixtures::WriteFile(helper, "#!/bin/sh\nexec /bin/cat '" + Path("answer") + "'\n");
    std::filesystem::permissions(helper, std::filesystem::perms::owner_all);
  }
  std::string Path(const std::string& name) const { return dir_ / name; }

 private:
  fixtures::TempDir dir_;
};

moepack::Result<Credentials> Find(std::string_view input) {
  using Variable = moepack::remote::ScopedVariable;
  static const Place place;
  const Variable home("HOME", place.Path("")), path("PATH", place.Path(""));
  const Variable docker("DOCKER_CONFIG", ""), file("REGISTRY_AUTH_FILE", "");
  const Variable runtime("XDG_RUNTIME_DIR", ""), config("XDG_CONFIG_HOME", "");
  const Variable user("MOEPACK_REGISTRY_USERNAME", ""), token("MOEPACK_REGISTRY_TOKEN", "");
  const Variable password("MOEPACK_REGISTRY_PASSWORD", "");
  const auto document = moepack::ParseJson("damaged", input);
  const bool answers = document && document->is_object() && document->contains("answer");
  const std::string answer = answers ? (*document)["answer"].dump() : "";
  if (!fuzz::WriteInput(place.Path("answer"), answer) ||
      !fuzz::WriteInput(place.Path(kFile), input))
    return moepack::Error{moepack::Code::kIo, "cannot write the input"};
  return moepack::registry::FindCredentials({}, kHost, "team/model");
}

// Keys name registries and helpers and may be in messages.
bool IsInName(const moepack::Json& node) {
  if (!node.is_structured()) return false;
  for (const auto& [key, value] : node.items()) {
    if (key.find(kSecret) != key.npos || IsInName(value)) return true;
    const bool names =
        key == "credsStore" || key == "credHelpers" || key == "Username" || key == "username";
    if (names && value.dump().find(kSecret) != std::string::npos) return true;
  }
  return false;
}

std::string Check(std::string_view input) {
  const auto found = Find(input);
  const auto document = moepack::ParseJson("damaged", input);
  const std::string message = found ? found->Shown() : found.error().message + found.error().hint;
  const bool is_name = (document && IsInName(*document)) ||
                       (found && found->user.find(kSecret) != std::string::npos);
  if (!is_name && message.find(kSecret) != message.npos) return "a secret in a message: " + message;
  if (!found) return fuzz::ErrorProblem(found.error(), "config.json");
  if (found->kind == Credentials::Kind::kNone)
    return found->secret.empty() && found->from.empty() ? "" : "a secret of nobody";
  if (found->from.find(kFile) == std::string::npos) return "credentials from nowhere";
  if (found->kind != Credentials::Kind::kBasic)
    return moepack::registry::IsHeaderToken(found->secret) ? "" : "a token that ends a header";
  const bool good = !found->user.empty() && found->user.find_first_of(":\r\n") == std::string::npos;
  return good && found->secret.find_first_of("\r\n") == std::string::npos ? ""
                                                                          : "a pair that is none";
}

bool Accepts(std::string_view input) {
  const auto found = Find(input);
  return found && found->kind != Credentials::Kind::kNone;
}

// Each helper is a process.
constexpr fuzz::Target kTarget{.check = Check,
                               .seeds = Seeds,
                               .iterations = 200,
                               .documents = 50,
                               .accepts = Accepts,
                               .refused = Refused};

}  // namespace credentials_target

FUZZ_JSON_TARGET(FuzzCredentials, credentials_target::kTarget)

// Replies of registries and contents of layouts: challenges, tokens, refusals, index.json, and
// manifests of any artifact.
#include <span>

#include "manifest/registry/artifact/any_manifest.h"
#include "manifest/registry/server/challenge.h"
#include "manifest/registry/server/registry_error.h"
#include "manifest/registry/server/token_server.h"
#include "manifest/registry/store/layout_index.h"
#include "tests/fuzz/target.h"

namespace registry_answers_target {

using moepack::Cat;

constexpr const char* kWhere = "damaged/answer";

std::vector<std::string> Seeds() {
  const std::string digest = "sha256:" + std::string(64, 'a');
  const std::string blob = Cat(R"("digest":")", digest, R"(","size":100)");
  const std::string manifest = "application/vnd.oci.image.manifest.v1+json";
  return {
      Cat(R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json",)",
          R"("manifests":[{"mediaType":")", manifest, R"(",)", blob,
          R"(,"annotations":{"org.opencontainers.image.ref.name":"v1"}},{"mediaType":")", manifest,
          R"(",)", blob, R"(,"annotations":{}}]})"),
      Cat(R"({"schemaVersion":2,"mediaType":")", manifest, R"(","config":{"mediaType":"a/b",)",
          blob, R"(},"layers":[{"mediaType":"c/d",)", blob, R"(}]})"),
      R"({"token":"abc.def","expires_in":300,"issued_at":"2026-11-23T10:00:00Z"})",
      R"({"access_token":"xyz","expires_in":60})",
      R"({"errors":[{"code":"DENIED","message":"requested access","detail":{"a":[1]}}]})",
      R"(Bearer realm="https://auth.example/token",service="registry.example",)"
      R"(scope="repository:team/model:pull,push", Basic realm="x")",
  };
}

std::string ChallengesProblem(const std::string& text) {
  const auto challenges = moepack::registry::ParseChallenges(text);
  if (challenges.size() > 16) return "more than 16 challenges";
  for (const auto& challenge : challenges) {
    const size_t all = challenge.name.size() + challenge.realm.size() + challenge.service.size() +
                       challenge.scope.size();
    if (challenge.name.empty() || all > text.size()) return "a challenge that is not in the text";
  }
  return "";
}

std::string TokenProblem(const std::string& text) {
  const auto now = std::chrono::system_clock::from_time_t(1'800'000'000);
  const auto token = moepack::registry::ParseToken(kWhere, text, now);
  if (!token) {
    // A token in a message would end up in a log.
    return fuzz::ErrorProblem(token.error(), kWhere);
  }
  if (token->text.empty()) return "a token without text";
  const bool strange = std::any_of(token->text.begin(), token->text.end(), [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f;
  });
  if (strange) return "a token that would end a header field";
  if (token->life > std::chrono::hours(24)) return "a token that lives longer than a day";
  return "";
}

std::string RefusalProblem(const std::string& text) {
  moepack::remote::HttpReply reply;
  reply.status = 403;
  reply.body = text;
  return fuzz::ErrorProblem(moepack::registry::RegistryError(
                                {kWhere, "registry.example", "repository:x:pull", "none"}, reply),
                            kWhere);
}

std::string IndexProblem(const std::string& text) {
  using moepack::registry::LayoutIndex;
  const auto index = LayoutIndex::Parse(kWhere, text);
  if (!index) return fuzz::ErrorProblem(index.error(), kWhere);
  for (const auto& entry : index->entries()) {
    if (!index->FindDigest(entry.blob.digest)) return "an entry that is not found by its digest";
    if (!entry.tag.empty() && !index->FindTag(entry.tag)) return "a tag that is not found";
  }
  const auto again = LayoutIndex::Parse(kWhere, index->Write());
  if (!again) return "refused after writing: " + again.error().message;
  return again->Write() == index->Write() ? "" : "another index after writing twice";
}

std::string ManifestProblem(const std::string& text) {
  const auto manifest = moepack::registry::ParseAnyManifest(kWhere, text);
  if (!manifest) {
    if (const auto problem = fuzz::ErrorProblem(manifest.error(), kWhere); !problem.empty())
      return problem;
  }
  const auto blobs = moepack::registry::FindNamedBlobs(kWhere, text);
  if (!blobs) return fuzz::ErrorProblem(blobs.error(), kWhere);
  if (manifest && blobs->size() < manifest->layers.size()) return "a layer that is not found";
  return "";
}

std::string Check(std::string_view input) {
  const std::string text(input);
  for (const auto& check :
       {ChallengesProblem, TokenProblem, RefusalProblem, IndexProblem, ManifestProblem}) {
    if (const std::string problem = check(text); !problem.empty()) return problem;
  }
  return "";
}

constexpr fuzz::Target kTarget{Check, Seeds, 3000, 500};

}  // namespace registry_answers_target

FUZZ_JSON_TARGET(FuzzRegistryAnswers, registry_answers_target::kTarget)

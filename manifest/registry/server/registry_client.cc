#include "manifest/registry/server/registry_client.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/json_values.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/http/range_answer.h"
#include "manifest/registry/artifact/any_manifest.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/server/registry_error.h"
#include "manifest/registry/server/tag_list.h"

namespace moepack::registry {
namespace {

using remote::HttpReply;
using remote::HttpRequest;
using remote::HttpTry;
using remote::Url;

constexpr uint64_t kMostSmallAnswer = 64u << 10;
constexpr uint64_t kMostTagPage = 8u << 20;
constexpr int kMostTagPages = 1000;
constexpr size_t kMostTags = 100'000;
constexpr size_t kMostManifestValues = 1u << 20;
constexpr int kManifestTries = 5;
constexpr remote::Seconds kMidWritePause{0.05};
constexpr const char* kBrokenRegistry =
    "the registry or a proxy in between is broken: its copy is not what its digest says";

bool IsChallenge(const HttpReply& reply) {
  return reply.status == 401 || (reply.status == 403 && !reply.Field("www-authenticate").empty());
}

HttpTry AsTry(Result<HttpReply> reply) {
  if (!reply) return {{}, std::move(reply).error()};
  return {*std::move(reply)};
}

// "application/json; charset=utf-8" -> "application/json".
std::string MediaType(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  return std::string(type.substr(0, type.find_last_not_of(' ') + 1));
}

void AcceptManifests(HttpRequest& request) {
  request.headers.push_back(Cat("Accept: ", kManifestType, ", ", kIndexType, ", ",
                                kDockerManifestType, ", ", kDockerListType));
}

Present PresentOf(const HttpReply& reply) {
  Present present;
  present.size = ParseUint(reply.Field("content-length"));
  present.digest = reply.Field("docker-content-digest");
  present.media_type = MediaType(reply.Field("content-type"));
  return present;
}

UploadSession SessionOf(const HttpReply& reply, Url url) {
  return {std::move(url), ParseUint(reply.Field("oci-chunk-min-length")).value_or(0)};
}

// Whether GET may succeed where HEAD was answered like this: Amazon's public registry refuses HEAD
// to clients that may read, and so does storage to which a registry leads with an address that is
// signed for GET.
bool RefusesHead(int status) {
  return status == 400 || status == 401 || status == 403 || status == 405 || status == 501;
}

// distribution 2.8 finds no valid digest in a link that another request, which sends the same blob,
// is just writing. That of the manifest is right: it was computed here.
bool IsMidWrite(const HttpReply& reply) {
  return reply.status == 400 && RegistryWords(reply).starts_with("DIGEST_INVALID");
}

// A manifest; one that is too long is rejected while it arrives.
class ManifestSink final : public remote::HttpSink {
 public:
  explicit ManifestSink(std::string what) : what_(std::move(what)) {}
  Status Begin(const HttpReply& head) override {
    text_.clear();
    return remote::CheckPlainBody(what_, head);
  }
  Status Take(std::span<const std::byte> bytes) override {
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text_.size() <= kMaxOciManifest) return Ok();
    return Error{Code::kCorrupt,
                 Cat(what_, ": expected at most ", kMaxOciManifest, " bytes, found more")};
  }
  std::string Take() && { return std::move(text_); }

 private:
  std::string what_, text_;
};

// Finds the length of a blob without receiving it: an answer with the whole blob is cut off.
class FirstByteSink final : public remote::HttpSink {
 public:
  Status Begin(const HttpReply& head) override {
    present_ = PresentOf(head);
    const auto range = remote::ParseContentRange(head.Field("content-range"));
    if (head.status == 206) present_->size = range ? range->total : std::nullopt;
    return Ok();
  }
  Status Take(std::span<const std::byte> bytes) override {
    taken_ += bytes.size();
    if (taken_ <= 1) return Ok();
    return Error{Code::kIo, "more than the first byte"};
  }
  const std::optional<Present>& present() const { return present_; }

 private:
  std::optional<Present> present_;
  uint64_t taken_ = 0;
};

Error OtherDigest(const std::string& what, const std::string& expected, std::string_view found) {
  return {Code::kCorrupt, Cat(what, ": expected ", expected, ", found ", Shown(found)),
          kBrokenRegistry};
}

// "mediaType" of a manifest may be absent; if present, it must be that of the answer.
Status CheckMediaType(const std::string& what, std::string_view text, const std::string& type) {
  SHARD_CHECK(CheckJsonValues(what, text, kMostManifestValues));
  SHARD_TRY(const Json document, ParseJson(what, text));
  const std::string stated = TextMember(document, "mediaType");
  if (stated.empty() || type.empty() || stated == type) return Ok();
  return Error{Code::kCorrupt, Cat(what, ": mediaType: expected ", Quoted(type),
                                   " as in Content-Type, found ", Quoted(stated))};
}

}  // namespace

RegistryClient::RegistryClient(remote::HttpClientPtr client, Repository repository,
                               AuthorizerPtr authorizer)
    : client_(std::move(client)),
      repository_(std::move(repository)),
      name_(repository_.Text()),
      authorizer_(std::move(authorizer)) {}

Scopes RegistryClient::PullScopes() const {
  return {Cat("repository:", repository_.name, ":pull")};
}

Scopes RegistryClient::PushScopes() const {
  return {Cat("repository:", repository_.name, ":pull,push")};
}

HttpRequest RegistryClient::Request(const char* method, std::string_view part,
                                    std::string what) const {
  HttpRequest request;
  request.method = method;
  request.url = repository_.At(part);
  request.name = std::move(what);
  request.expected = "an answer";
  return request;
}

RegistryClient::Asked RegistryClient::AskAs(HttpRequest request, const Scopes& scopes,
                                            const Ask& ask) const {
  const bool ours = request.url.SameOrigin(repository_.origin);
  if (ours) {
    Result<std::string> header = authorizer_->HeaderFor(scopes);
    if (!header) return {{{}, std::move(header).error()}};
    request.authorization = *std::move(header);
  }
  Asked asked{ask(request)};
  const HttpTry& attempt = asked.attempt;
  // A redirect may have led to a server that must not see the credentials.
  if (!ours || attempt.error || !IsChallenge(attempt.reply)) return asked;
  if (!attempt.reply.url.SameOrigin(repository_.origin)) return asked;
  const Result<bool> renewed = authorizer_->Refused(attempt.reply, scopes, request.authorization);
  if (!renewed) return {{{}, renewed.error()}};
  asked.renewed = *renewed;
  return asked;
}

RegistryClient::Asked RegistryClient::AskOnce(HttpRequest request, const Scopes& scopes) const {
  return AskAs(std::move(request), scopes, [&](const HttpRequest& signed_request) {
    return client_->FetchOnce(signed_request, kMostSmallAnswer);
  });
}

Result<HttpReply> RegistryClient::AskTwice(const HttpRequest& request, const Scopes& scopes,
                                           const Ask& ask) const {
  Asked asked = AskAs(request, scopes, ask);
  if (asked.renewed) asked = AskAs(request, scopes, ask);
  if (asked.attempt.error) return *std::move(asked.attempt.error);
  return std::move(asked.attempt.reply);
}

Result<HttpReply> RegistryClient::Fetch(const HttpRequest& request, const Scopes& scopes,
                                        uint64_t limit) const {
  return AskTwice(request, scopes, [&](const HttpRequest& signed_request) {
    return AsTry(client_->Fetch(signed_request, limit));
  });
}

Error RegistryClient::Refusal(const std::string& what, const HttpReply& reply,
                              const Scopes& scopes) const {
  const bool elsewhere = !reply.url.host.empty() && !reply.url.SameOrigin(repository_.origin);
  return RegistryError({what, reply.url.host, Join(scopes, " "), authorizer_->Shown(), elsewhere},
                       reply);
}

Result<HttpReply> RegistryClient::PingOnce() const {
  HttpRequest request = Request("GET", "", name_);
  request.url.path = "/v2/";
  return client_->Fetch(request, kMostSmallAnswer);
}

Status RegistryClient::Ping() {
  SHARD_TRY(HttpReply reply, PingOnce());
  Url& origin = repository_.origin;
  if (reply.status == 400 && origin.scheme == "http" && origin.IsLoopback()) {
    origin.scheme = "https";
    SHARD_TRY(reply, PingOnce());
  }
  if (reply.status < 300) return Ok();
  if (IsChallenge(reply)) {
    // Whether the credentials are valid only shows when something is requested.
    SHARD_TRY([[maybe_unused]] const bool again, authorizer_->Refused(reply, PullScopes(), ""));
    return Ok();
  }
  if (reply.status == 401 || reply.status == 403) return Ok();
  const std::string words = RegistryWords(reply);
  return Error{remote::IsTransient(reply.status) ? Code::kUnavailable : Code::kUnsupported,
               Cat(name_, ": expected a registry at ", origin.Origin(), "/v2/, found status ",
                   reply.status, words.empty() ? "" : ", ", words),
               "check the host and the port"};
}

// What HEAD would say, by GET.
Result<std::optional<Present>> RegistryClient::FirstByte(const std::string& digest) const {
  const std::string what = Cat(name_, ": blob ", digest);
  HttpRequest request = Request("GET", Cat("blobs/", digest), what);
  request.headers.push_back("Range: bytes=0-0");
  FirstByteSink sink;
  const Ask ask = [&](const HttpRequest& signed_request) {
    HttpTry attempt = AsTry(client_->Perform([&] { return signed_request; }, sink));
    if (attempt.error && sink.present()) attempt.error.reset();
    return attempt;
  };
  SHARD_TRY(const HttpReply reply, AskTwice(request, PullScopes(), ask));
  if (sink.present()) return sink.present();
  if (reply.status == 416) return std::optional<Present>(Present{0, "", ""});  // an empty blob
  if (reply.status == 404) return std::optional<Present>();
  return Refusal(what, reply, PullScopes());
}

Result<std::optional<Present>> RegistryClient::HeadBlob(const std::string& digest) const {
  const std::string what = Cat(name_, ": blob ", digest);
  SHARD_TRY(const HttpReply reply,
            Fetch(Request("HEAD", Cat("blobs/", digest), what), PullScopes(), 0));
  if (reply.status < 300) return std::optional<Present>(PresentOf(reply));
  if (reply.status == 404) return std::optional<Present>();
  if (RefusesHead(reply.status)) return FirstByte(digest);
  return Refusal(what, reply, PullScopes());
}

Result<HttpRequest> RegistryClient::BlobRequest(const std::string& digest) const {
  HttpRequest request = Request("GET", Cat("blobs/", digest), Cat(name_, ": blob ", digest));
  SHARD_TRY(request.authorization, authorizer_->HeaderFor(PullScopes()));
  return request;
}

Result<ManifestText> RegistryClient::GetManifest(const std::string& reference) const {
  const std::string what = Cat(name_, IsDigest(reference) ? "@" : ":", reference);
  HttpRequest request = Request("GET", Cat("manifests/", reference), what);
  AcceptManifests(request);
  ManifestSink sink(what);
  const Ask ask = [&](const HttpRequest& signed_request) {
    return AsTry(client_->Perform([&] { return signed_request; }, sink));
  };
  SHARD_TRY(const HttpReply reply, AskTwice(request, PullScopes(), ask));
  if (reply.status != 200) {
    Error refused = Refusal(what, reply, PullScopes());
    if (refused.code == Code::kNotFound)
      refused.hint += Cat("; `", ShellCommand({"moepack", "ls", name_}), "` lists the tags");
    return refused;
  }
  ManifestText manifest;
  manifest.text = std::move(sink).Take();
  manifest.record = {MediaType(reply.Field("content-type")), DigestOf(Sha256Hex(manifest.text)),
                     manifest.text.size()};
  // Storage to which the registry led knows nothing about types.
  if (!reply.url.SameOrigin(repository_.origin)) {
    SHARD_TRY(manifest.record.media_type, ManifestTypeOf(what, manifest.text));
  }
  const std::string& found = manifest.record.digest;
  if (IsDigest(reference) && found != reference) return OtherDigest(what, reference, found);
  const std::string stated(reply.Field("docker-content-digest"));
  if (IsDigest(stated) && found != stated) return OtherDigest(what, stated, found);
  SHARD_CHECK(CheckMediaType(what, manifest.text, manifest.record.media_type));
  return manifest;
}

Result<std::optional<Present>> RegistryClient::HeadManifest(const std::string& reference) const {
  const std::string what = Cat(name_, IsDigest(reference) ? "@" : ":", reference);
  HttpRequest request = Request("HEAD", Cat("manifests/", reference), what);
  AcceptManifests(request);
  SHARD_TRY(const HttpReply reply, Fetch(request, PullScopes(), 0));
  if (reply.status < 300) return std::optional<Present>(PresentOf(reply));
  if (reply.status == 404) return std::optional<Present>();
  if (!RefusesHead(reply.status)) return Refusal(what, reply, PullScopes());
  Result<ManifestText> got = GetManifest(reference);
  if (!got && got.error().code == Code::kNotFound) return std::optional<Present>();
  if (!got) return std::move(got).error();
  return std::optional<Present>(
      Present{got->record.size, got->record.digest, got->record.media_type});
}

Status RegistryClient::PutManifest(const std::string& reference, const BlobRecord& manifest,
                                   std::string_view text) const {
  SHARD_CHECK(PutManifestIf("", reference, manifest, text));
  return Ok();
}

Result<bool> RegistryClient::PutManifestIf(const std::string& condition,
                                           const std::string& reference, const BlobRecord& manifest,
                                           std::string_view text) const {
  const std::string what = Cat(name_, IsDigest(reference) ? "@" : ":", reference);
  HttpRequest request = Request("PUT", Cat("manifests/", reference), what);
  request.headers.push_back(Cat("Content-Type: ", manifest.media_type));
  if (!condition.empty()) request.headers.push_back(condition);
  request.body = remote::TextBody(std::string(text));
  SHARD_TRY(HttpReply reply, Fetch(request, PushScopes(), kMostSmallAnswer));
  for (int tried = 1; IsMidWrite(reply) && tried < kManifestTries; ++tried) {
    SHARD_CHECK(WaitFor(kMidWritePause * tried));
    SHARD_TRY(reply, Fetch(request, PushScopes(), kMostSmallAnswer));
  }
  if (reply.status == 412 && !condition.empty()) return false;
  if (reply.status >= 300) return Refusal(what, reply, PushScopes());
  const std::string_view stated = reply.Field("docker-content-digest");
  if (stated.empty() || stated == manifest.digest) return true;
  return OtherDigest(what, manifest.digest, stated);
}

Result<std::vector<std::string>> RegistryClient::ListTags() const {
  const std::string what = Cat(name_, ": list of tags");
  HttpRequest request = Request("GET", "tags/list", what);
  request.url.query = "n=1000";
  std::vector<std::string> tags;
  std::set<std::string> seen;
  for (int page = 0; page < kMostTagPages && tags.size() <= kMostTags; ++page) {
    SHARD_TRY(const HttpReply reply, Fetch(request, PullScopes(), kMostTagPage));
    if (reply.status != 200) return Refusal(what, reply, PullScopes());
    const size_t before = seen.size();
    SHARD_TRY(std::vector<std::string> listed, ParseTagList(what, reply.body));
    for (std::string& tag : listed)
      if (seen.insert(tag).second) tags.push_back(std::move(tag));
    const auto next = remote::NextPage(reply.Field("link"));
    if (!next) return tags;
    if (seen.size() == before) {
      return Error{Code::kCorrupt,
                   Cat(what, ": page ", page + 1, ": expected tags that were not listed before, ",
                       "found none, and a next page"),
                   "the list of the registry never ends: it or a proxy in front of it is at fault"};
    }
    SHARD_TRY(request.url, remote::ResolveLocation(reply.url, *next));
    if (!request.url.SameOrigin(repository_.origin)) {
      return Error{Code::kIo, Cat(what, ": next page: expected it at ", repository_.origin.Origin(),
                                  ", found ", request.url.Origin())};
    }
  }
  return Error{Code::kUnsupported, Cat(what, ": expected at most ", kMostTags, " tags in ",
                                       kMostTagPages, " pages, found more")};
}

Result<Url> RegistryClient::LocationOf(const HttpReply& reply, const std::string& what) const {
  const std::string_view location = reply.Field("location");
  Result<Url> url = remote::ResolveLocation(reply.url, location);
  if (location.empty() || !url) {
    return Error{Code::kIo, Cat(what, ": Location: expected where to resume the upload, found ",
                                location.empty() ? "none" : "an invalid address")};
  }
  url->user.clear();
  url->password.clear();
  if (url->scheme == reply.url.scheme || url->scheme == "https") return *std::move(url);
  if (url->host != reply.url.host) {
    return Error{
        Code::kIo, Cat(what, ": Location: expected https, found http to ", url->host),
        "anybody in between can read what goes to that address; if it is the registry's own, "
        "its proxy should send Host and X-Forwarded-Proto"};
  }
  if (!warned_.exchange(true)) {
    client_->settings().warn(
        Cat(what,
            ": the registry answers https with an http address, which is treated as https: its "
            "proxy should send X-Forwarded-Proto"));
  }
  url->scheme = "https";
  if (url->port == 80) url->port = reply.url.port;
  return *std::move(url);
}

Result<UploadSession> RegistryClient::StartUpload() const {
  const std::string what = Cat(name_, ": upload");
  SHARD_TRY(const HttpReply reply,
            Fetch(Request("POST", "blobs/uploads/", what), PushScopes(), kMostSmallAnswer));
  if (reply.status >= 300) return Refusal(what, reply, PushScopes());
  SHARD_TRY(Url url, LocationOf(reply, what));
  return SessionOf(reply, std::move(url));
}

Result<std::optional<UploadSession>> RegistryClient::Mount(const std::string& digest,
                                                           const std::string& from) const {
  const std::string what = Cat(name_, ": mount of ", digest, " from ", from);
  Scopes scopes = PushScopes();
  scopes.push_back(Cat("repository:", from, ":pull"));
  HttpRequest request = Request("POST", "blobs/uploads/", what);
  request.url.query =
      Cat("mount=", remote::EncodeComponent(digest), "&from=", remote::EncodeComponent(from));
  SHARD_TRY(const HttpReply reply, Fetch(request, scopes, kMostSmallAnswer));
  if (reply.status == 201) return std::optional<UploadSession>();
  if (reply.status >= 300) return Refusal(what, reply, scopes);
  SHARD_TRY(Url url, LocationOf(reply, what));
  return std::optional<UploadSession>(SessionOf(reply, std::move(url)));
}

}  // namespace moepack::registry

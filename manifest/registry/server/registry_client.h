// The requests of the OCI distribution specification (v1.1) for one repository:
// https://github.com/opencontainers/distribution-spec/blob/main/spec.md
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/remote/http/http_client.h"
#include "manifest/registry/artifact/oci_manifest.h"
#include "manifest/registry/server/authorizer.h"
#include "manifest/registry/server/repository.h"

namespace moepack::registry {

using Scopes = std::vector<std::string>;

// A blob or a manifest that a registry says it has.
struct Present {
  std::optional<uint64_t> size;  // bytes; no value if the registry does not say
  std::string digest;            // according to the registry; "" if it does not say
  std::string media_type;
};

// A manifest that was read and hashed.
struct ManifestText {
  BlobRecord record;
  std::string text;
};

// Where bytes of a blob are sent. The address lets anybody write, so it is never shown.
struct UploadSession {
  remote::Url url;
  uint64_t least_chunk = 0;  // bytes of a chunk, unless it is the last
};

// Safe to use from several threads at once. Each request has the Authorization that its scope
// needs, and is repeated once if the registry refuses that and other credentials are available.
// Errors, besides those of HttpClient: kNotFound for 404, which registries also return to those who
// may not see a repository; kIo for 401, 403 and other client errors; kUnavailable for server
// errors.
class RegistryClient {
 public:
  RegistryClient(remote::HttpClientPtr client, Repository repository, AuthorizerPtr authorizer);

  const Repository& repository() const { return repository_; }
  const std::string& name() const { return name_; }  // "oci://host/repository"
  remote::HttpClient& http() const { return *client_; }
  const remote::HttpClientPtr& shared_http() const { return client_; }
  Authorizer& authorizer() const { return *authorizer_; }
  Scopes PullScopes() const;
  Scopes PushScopes() const;

  // Asks for "/v2/". If a registry on this machine answers 400 to http, https is tried, and then
  // used for everything. kUnsupported if no registry answers.
  Status Ping();

  // No value for a missing blob. If HEAD is refused, the first byte is requested.
  Result<std::optional<Present>> HeadBlob(const std::string& digest) const;
  // GET of a blob, with Authorization.
  Result<remote::HttpRequest> BlobRequest(const std::string& digest) const;

  // `reference` is a tag or a digest. A manifest requested by digest is compared with it, and every
  // manifest with the digest that the registry states; its "mediaType" must be Content-Type, unless
  // the registry leads to its storage (kCorrupt). More than kMaxOciManifest is kCorrupt.
  Result<ManifestText> GetManifest(const std::string& reference) const;
  // No value for a missing manifest. If HEAD is refused, the manifest is read.
  Result<std::optional<Present>> HeadManifest(const std::string& reference) const;
  // kCorrupt if the registry stored it under a digest other than `manifest.digest`.
  Status PutManifest(const std::string& reference, const BlobRecord& manifest,
                     std::string_view text) const;
  // The same under a condition, a header such as `If-Match: "sha256:..."` ("" for none): false, and
  // nothing is changed, if the registry answers that it does not hold. Many registries ignore it.
  Result<bool> PutManifestIf(const std::string& condition, const std::string& reference,
                             const BlobRecord& manifest, std::string_view text) const;
  // kUnsupported for more than 100,000.
  Result<std::vector<std::string>> ListTags() const;

  Result<UploadSession> StartUpload() const;
  // No value if the blob was mounted from `from`, a repository of the same registry; otherwise a
  // session where it can be sent.
  Result<std::optional<UploadSession>> Mount(const std::string& digest,
                                             const std::string& from) const;
  // Where the answer to an upload request says to continue. http instead of https on the same host
  // is a proxy's mistake and is changed back to https, with one warning.
  Result<remote::Url> LocationOf(const remote::HttpReply& reply, const std::string& what) const;

  // One try. After a refusal `renewed` means that the next has other credentials.
  struct Asked {
    remote::HttpTry attempt;
    bool renewed = false;
  };
  Asked AskOnce(remote::HttpRequest request, const Scopes& scopes) const;
  // The error for an answer; `what` was requested.
  Error Refusal(const std::string& what, const remote::HttpReply& reply,
                const Scopes& scopes) const;

 private:
  using Ask = std::function<remote::HttpTry(const remote::HttpRequest&)>;
  Asked AskAs(remote::HttpRequest request, const Scopes& scopes, const Ask& ask) const;
  Result<remote::HttpReply> AskTwice(const remote::HttpRequest& request, const Scopes& scopes,
                                     const Ask& ask) const;
  Result<remote::HttpReply> Fetch(const remote::HttpRequest& request, const Scopes& scopes,
                                  uint64_t limit) const;
  remote::HttpRequest Request(const char* method, std::string_view part, std::string what) const;
  Result<remote::HttpReply> PingOnce() const;
  Result<std::optional<Present>> FirstByte(const std::string& digest) const;

  remote::HttpClientPtr client_;
  Repository repository_;
  std::string name_;
  AuthorizerPtr authorizer_;
  mutable std::atomic<bool> warned_{false};  // about http instead of https
};

}  // namespace moepack::registry

#include "tests/remote/support/fake_registry.h"

#include <algorithm>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/http/url.h"

namespace moepack::remote {
namespace {

constexpr std::string_view kApi = "/v2/";
constexpr std::string_view kUploadPart = "/blobs/uploads/";
constexpr std::string_view kManifestPart = "/manifests/";
constexpr size_t kTagsPerPage = 2;

std::string DigestText(std::string_view bytes) { return Cat("sha256:", Sha256Hex(bytes)); }

// The value of `name` in "a=1&b=2", decoded.
std::string RegistryQueryValue(const std::string& query, const std::string& name) {
  for (const std::string& pair : Split(query, '&')) {
    if (pair.starts_with(name + "=")) return DecodePercent(pair.substr(name.size() + 1));
  }
  return "";
}

FakeAnswer ProxyPage(int status) {
  FakeAnswer answer = Plain(status, "<html><body>413 Request Entity Too Large</body></html>");
  answer.Set("Content-Type", "text/html");
  return answer;
}

FakeAnswer Unauthorized() {
  FakeAnswer answer = RegistryRefusal(401, "UNAUTHORIZED", "authentication required");
  answer.Set("WWW-Authenticate", "Bearer realm=\"http://127.0.0.1:1/token\",service=\"fake\"");
  return answer;
}

FakeAnswer UnknownUpload() {
  return RegistryRefusal(404, "BLOB_UPLOAD_UNKNOWN", "blob upload unknown to registry");
}

}  // namespace

FakeAnswer RegistryRefusal(int status, const std::string& code, const std::string& message) {
  FakeAnswer answer = Plain(status, Cat(R"({"errors":[{"code":")", code, R"(","message":")",
                                        message, R"(","detail":{}}]})"));
  answer.Set("Content-Type", "application/json");
  return answer;
}

FakeRegistry::FakeRegistry() {
  server_.SetBodyFault([this](const FakeRequest& request) { return PlanFor(request); });
  server_.SetFault(
      [this](const FakeRequest& request, FakeAnswer& answer) { Answer(request, answer); });
}

std::string FakeRegistry::host() const {
  return server_.origin().substr(std::string("http://").size());
}

void FakeRegistry::Set(Quirks quirks) {
  const std::lock_guard lock(mutex_);
  quirks_ = std::move(quirks);
}

void FakeRegistry::SetAuthorization(std::string value) {
  const std::lock_guard lock(mutex_);
  authorization_ = std::move(value);
}

void FakeRegistry::SetFault(FaultServer::Fault fault) {
  const std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

// The server reads blobs out by itself, with ranges.
void FakeRegistry::Keep(const std::string& repository, const std::string& bytes) {
  const std::string digest = DigestText(bytes);
  blobs_.insert(Cat(repository, "@", digest));
  server_.Add(Cat(kApi, repository, "/blobs/", digest), bytes);
  bytes_[digest] = bytes;
}

void FakeRegistry::AddBlob(const std::string& repository, const std::string& bytes) {
  const std::lock_guard lock(mutex_);
  Keep(repository, bytes);
}

bool FakeRegistry::HasBlob(const std::string& repository, const std::string& bytes) const {
  const std::lock_guard lock(mutex_);
  return blobs_.count(Cat(repository, "@", DigestText(bytes))) > 0;
}

std::vector<FakeRequest> FakeRegistry::UploadRequests() const {
  std::vector<FakeRequest> requests = server_.requests();
  std::erase_if(requests, [](const FakeRequest& request) {
    return request.path.find(kUploadPart) == std::string::npos;
  });
  return requests;
}

std::vector<std::string> FakeRegistry::Uploads() const {
  std::vector<std::string> methods;
  for (const FakeRequest& request : UploadRequests()) methods.push_back(request.method);
  return methods;
}

size_t FakeRegistry::open_uploads() const {
  const std::lock_guard lock(mutex_);
  return uploads_.size();
}

bool FakeRegistry::Refuses(const FakeRequest& request) const {
  return !authorization_.empty() && request.Field("authorization") != authorization_;
}

BodyPlan FakeRegistry::PlanFor(const FakeRequest& request) {
  const std::lock_guard lock(mutex_);
  const uint64_t size = ParseUint(request.Field("content-length")).value_or(0);
  if (Refuses(request)) return {0, Unauthorized()};
  const bool too_large = quirks_.most_body > 0 && size > quirks_.most_body;
  if (too_large) return {0, ProxyPage(413)};
  if (request.path.find(kUploadPart) == std::string::npos || quirks_.cuts.empty()) return {};
  const uint64_t most = quirks_.cuts.front();
  quirks_.cuts.erase(quirks_.cuts.begin());
  return {most, std::nullopt, [this](const FakeRequest& cut) { Cut(cut); }};
}

// distribution 2.8 has the bytes but cannot continue with them.
void FakeRegistry::Cut(const FakeRequest& request) {
  const std::lock_guard lock(mutex_);
  const auto upload = uploads_.find(request.path.substr(request.path.rfind('/') + 1));
  if (upload == uploads_.end()) return;
  upload->second.dead = !quirks_.keeps_cuts || request.method != "PATCH";
  if (quirks_.keeps_cuts) upload->second.bytes += request.body;
}

std::string FakeRegistry::RangeOf(const Upload& upload) const {
  uint64_t size = upload.bytes.size();
  if (quirks_.range_stays && upload.first_chunk > 0) size = upload.first_chunk;
  if (quirks_.range_off_by_one) ++size;
  return Cat("0-", size == 0 ? 0 : size - 1);
}

void FakeRegistry::SetLocation(FakeAnswer& answer, const std::string& id,
                               const Upload& upload) const {
  std::string location = quirks_.relative_location ? "" : server_.origin();
  location += Cat(kApi, upload.repository, kUploadPart, id);
  if (quirks_.state_in_query) location += Cat("?_state=", upload.bytes.size(), "%3D");
  answer.Set("Location", location);
}

FakeAnswer FakeRegistry::Start(const FakeRequest& request, const std::string& repository) {
  const std::string mount = RegistryQueryValue(request.query, "mount");
  const std::string from = RegistryQueryValue(request.query, "from");
  if (!mount.empty() && quirks_.mounts && blobs_.count(Cat(from, "@", mount)) > 0) {
    Keep(repository, bytes_.at(mount));
    FakeAnswer answer = Plain(201);
    answer.Set("Docker-Content-Digest", mount);
    return answer;
  }
  const std::string id = Cat("upload-", ++next_id_);
  Upload& upload = uploads_[id];
  upload.repository = repository;
  FakeAnswer answer = Plain(202);
  SetLocation(answer, id, upload);
  answer.Set("Range", "0-0");
  if (quirks_.least_chunk > 0)
    answer.Set("OCI-Chunk-Min-Length", std::to_string(quirks_.least_chunk));
  return answer;
}

FakeAnswer FakeRegistry::Patch(const FakeRequest& request, const std::string& id, Upload& upload) {
  if (quirks_.no_patch) return RegistryRefusal(405, "UNSUPPORTED", "no chunks");
  if (quirks_.most_patch > 0 && request.body.size() > quirks_.most_patch)
    return RegistryRefusal(416, "RANGE_INVALID", "exceeds the maximum permissible limit");
  if (quirks_.patch_status != 0) return RegistryRefusal(quirks_.patch_status, "UNKNOWN", "not now");
  const std::string range = request.Field("content-range");
  const auto begin = ParseUint(range.substr(0, range.find('-')));
  if (begin && *begin != upload.bytes.size()) {
    FakeAnswer answer = RegistryRefusal(416, "RANGE_INVALID", "out of order");
    SetLocation(answer, id, upload);
    answer.Set("Range", RangeOf(upload));
    return answer;
  }
  upload.bytes += request.body;
  if (upload.first_chunk == 0) upload.first_chunk = upload.bytes.size();
  FakeAnswer answer = Plain(quirks_.range_stays ? 201 : 202);
  SetLocation(answer, id, upload);
  answer.Set("Range", RangeOf(upload));
  return answer;
}

FakeAnswer FakeRegistry::Finish(const FakeRequest& request, const std::string& id, Upload& upload) {
  if (quirks_.no_put && !request.body.empty()) return RegistryRefusal(405, "UNSUPPORTED", "no PUT");
  const std::string bytes = upload.bytes + request.body, repository = upload.repository;
  uploads_.erase(id);
  if (!quirks_.put_answers.empty()) {
    const int status = quirks_.put_answers.front();
    quirks_.put_answers.erase(quirks_.put_answers.begin());
    return RegistryRefusal(status, "UNKNOWN", "not now");
  }
  const std::string digest = RegistryQueryValue(request.query, "digest");
  if (DigestText(bytes) != digest)
    return RegistryRefusal(400, "DIGEST_INVALID", "provided digest did not match uploaded content");
  if (!quirks_.loses_blobs) Keep(repository, bytes);
  FakeAnswer answer = Plain(201);
  if (quirks_.states_digest) answer.Set("Docker-Content-Digest", digest);
  return answer;
}

FakeAnswer FakeRegistry::AnswerUpload(const FakeRequest& request, const std::string& repository) {
  const std::string id = request.path.substr(request.path.rfind('/') + 1);
  if (request.method == "POST" && id.empty()) return Start(request, repository);
  const auto found = uploads_.find(id);
  if (found == uploads_.end() || found->second.dead) return UnknownUpload();
  Upload& upload = found->second;
  const std::string state = RegistryQueryValue(request.query, "_state");
  if (quirks_.state_in_query && state != Cat(upload.bytes.size(), "=")) return UnknownUpload();
  if (request.method == "PATCH") return Patch(request, id, upload);
  if (request.method == "PUT") return Finish(request, id, upload);
  if (request.method == "DELETE") {
    uploads_.erase(found);
    return Plain(204);
  }
  FakeAnswer answer = Plain(204);
  SetLocation(answer, id, upload);
  answer.Set("Range", RangeOf(upload));
  return answer;
}

FakeAnswer FakeRegistry::AnswerManifest(const FakeRequest& request, const std::string& repository,
                                        const std::string& reference) {
  const bool by_digest = reference.starts_with("sha256:");
  if (request.method == "PUT") {
    const std::string digest = DigestText(request.body);
    if (quirks_.mid_writes > 0) {
      --quirks_.mid_writes;
      return RegistryRefusal(400, "DIGEST_INVALID", "provided digest did not match");
    }
    const std::string match = request.Field("if-match"), none = request.Field("if-none-match");
    const auto now = tags_.find(Cat(repository, ":", reference));
    const bool holds = now == tags_.end() ? match.empty()
                                          : none.empty() && (match.empty() ||
                                                             match == Cat("\"", now->second, "\""));
    const bool conditional = !match.empty() || !none.empty();
    if (conditional && (quirks_.refuses_conditions || (quirks_.compares && !holds)))
      return Plain(412);
    manifests_[Cat(repository, "@", digest)] = {request.Field("content-type"), request.body};
    if (!by_digest) tags_[Cat(repository, ":", reference)] = digest;
    FakeAnswer answer = Plain(201);
    if (quirks_.states_digest) answer.Set("Docker-Content-Digest", digest);
    return answer;
  }
  const auto tag = tags_.find(Cat(repository, ":", reference));
  const std::string digest = tag == tags_.end() ? reference : tag->second;
  const auto found = manifests_.find(Cat(repository, "@", digest));
  if (found == manifests_.end())
    return RegistryRefusal(404, "MANIFEST_UNKNOWN", "manifest unknown");
  FakeAnswer answer = Plain(200, found->second.text);
  answer.Set("Content-Type", found->second.type);
  if (quirks_.states_digest) answer.Set("Docker-Content-Digest", digest);
  return answer;
}

// In pages, whatever number was requested.
FakeAnswer FakeRegistry::AnswerTags(const FakeRequest& request, const std::string& repository) {
  const std::string last = RegistryQueryValue(request.query, "last");
  std::vector<std::string> names;
  for (const auto& [name, digest] : tags_) {
    const std::string prefix = Cat(repository, ":");
    if (name.starts_with(prefix) && name.substr(prefix.size()) > last)
      names.push_back(name.substr(prefix.size()));
  }
  const bool more = names.size() > kTagsPerPage;
  if (more) names.resize(kTagsPerPage);
  const std::string list = names.empty() ? "null" : Cat("[\"", Join(names, "\",\""), "\"]");
  FakeAnswer answer = Plain(200, Cat(R"({"name":")", repository, R"(","tags":)", list, "}"));
  answer.Set("Content-Type", "application/json");
  if (more) {
    answer.Set("Link",
               Cat("<", kApi, repository, "/tags/list?n=2&last=", names.back(), ">; rel=\"next\""));
  }
  return answer;
}

void FakeRegistry::Answer(const FakeRequest& request, FakeAnswer& answer) {
  std::unique_lock lock(mutex_);
  const std::string& path = request.path;
  const size_t upload = path.find(kUploadPart), manifest = path.find(kManifestPart);
  const size_t tags = path.find("/tags/list"), blob = path.find("/blobs/sha256:");
  const auto repository = [&](size_t end) { return path.substr(kApi.size(), end - kApi.size()); };
  const bool is_blob = blob != path.npos && upload == path.npos;
  const std::string at =
      is_blob ? Cat(repository(blob), "@", path.substr(path.rfind('/') + 1)) : "";
  if (Refuses(request)) {
    answer = Unauthorized();
  } else if (path == kApi) {
    answer = Plain(200, "{}");
  } else if (upload != path.npos) {
    answer = AnswerUpload(request, repository(upload));
  } else if (manifest != path.npos) {
    answer =
        AnswerManifest(request, repository(manifest), path.substr(manifest + kManifestPart.size()));
  } else if (tags != path.npos) {
    answer = AnswerTags(request, repository(tags));
  } else if (is_blob && request.method == "HEAD" && quirks_.refuses_head) {
    answer = Unauthorized();
  } else if (is_blob && blobs_.count(at) == 0) {
    answer = RegistryRefusal(404, "BLOB_UNKNOWN", "blob unknown to registry");
  } else if (is_blob && answer.status < 300 && quirks_.states_digest) {
    answer.Set("Docker-Content-Digest", path.substr(path.rfind('/') + 1));
  }
  const FaultServer::Fault fault = fault_;
  lock.unlock();
  if (fault) fault(request, answer);
}

}  // namespace moepack::remote

// The parts of a registry server that moepack uses, on a FaultServer: blobs, uploads, manifests and
// tags, with the peculiarities of registries that cannot be tried here.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/remote/support/fault_server.h"

namespace moepack::remote {

class FakeRegistry {
 public:
  struct Quirks {
    bool relative_location = false;
    // The address of an upload is its state: it says how much was received, and a wrong one gives
    // 404.
    bool state_in_query = false;
    bool range_stays = false;  // Amazon ECR: PATCH 201, and its Range is that of the first chunk
    uint64_t most_patch = 0;   // GHCR: 416 for more bytes; 0 for no limit
    bool no_patch = false;     // Google: 405
    bool no_put = false;       // Artifactory: a PUT with a body is 405
    bool range_off_by_one = false;  // "0-N" for N bytes
    uint64_t most_body = 0;         // a proxy's 413 with a web page; 0 for no limit
    uint64_t least_chunk = 0;       // OCI-Chunk-Min-Length
    bool mounts = true;
    bool loses_blobs = false;         // 201, but they are not stored
    bool keeps_cuts = false;          // distribution 3: the received part of a cut request counts
    bool states_digest = true;        // Docker-Content-Digest
    bool refuses_head = false;        // Amazon's public registry: HEAD of blobs is 401
    std::vector<uint64_t> cuts = {};  // bodies are cut after that many bytes, one after the other
    int patch_status = 0;             // of every PATCH, which accepts nothing; 0 for the right one
    bool compares = false;            // If-Match and If-None-Match of tags, with the digest
    bool refuses_conditions = false;  // with something else, so that they never hold
    int mid_writes = 0;  // so many manifests get 400, as if another request wrote a link of theirs
    std::vector<int> put_answers = {};  // of uploads, one after the other, instead of the right one
  };

  FakeRegistry();

  // "127.0.0.1:4711".
  std::string host() const;
  FaultServer& server() { return server_; }
  void Set(Quirks quirks);
  // The value of Authorization that is required from now on; "" for none.
  void SetAuthorization(std::string value);
  // Sees every reply except those to refused bodies, and may change it.
  void SetFault(FaultServer::Fault fault);

  void AddBlob(const std::string& repository, const std::string& bytes);
  bool HasBlob(const std::string& repository, const std::string& bytes) const;
  // "POST", "PATCH", "PUT" and so on for upload requests, in order.
  std::vector<std::string> Uploads() const;
  // Upload requests since the last Forget of the server.
  std::vector<FakeRequest> UploadRequests() const;
  size_t open_uploads() const;

 private:
  struct Upload {
    std::string repository, bytes;
    uint64_t first_chunk = 0;
    bool dead = false;
  };
  BodyPlan PlanFor(const FakeRequest& request);
  void Cut(const FakeRequest& request);
  void Answer(const FakeRequest& request, FakeAnswer& answer);
  FakeAnswer AnswerUpload(const FakeRequest& request, const std::string& repository);
  FakeAnswer Start(const FakeRequest& request, const std::string& repository);
  FakeAnswer Patch(const FakeRequest& request, const std::string& id, Upload& upload);
  FakeAnswer Finish(const FakeRequest& request, const std::string& id, Upload& upload);
  FakeAnswer AnswerManifest(const FakeRequest& request, const std::string& repository,
                            const std::string& reference);
  FakeAnswer AnswerTags(const FakeRequest& request, const std::string& repository);
  void SetLocation(FakeAnswer& answer, const std::string& id, const Upload& upload) const;
  std::string RangeOf(const Upload& upload) const;
  bool Refuses(const FakeRequest& request) const;
  void Keep(const std::string& repository, const std::string& bytes);

  mutable std::mutex mutex_;
  Quirks quirks_;
  std::string authorization_;
  FaultServer::Fault fault_;
  uint64_t next_id_ = 0;
  std::map<std::string, Upload> uploads_;
  std::set<std::string> blobs_;               // "repository@sha256:..."
  std::map<std::string, std::string> bytes_;  // by digests
  struct Manifest {
    std::string type, text;
  };
  std::map<std::string, Manifest> manifests_;  // "repository@sha256:..."
  std::map<std::string, std::string> tags_;    // "repository:tag" to a digest
  FaultServer server_;
};

// The error JSON of the specification.
FakeAnswer RegistryRefusal(int status, const std::string& code, const std::string& message);

}  // namespace moepack::remote

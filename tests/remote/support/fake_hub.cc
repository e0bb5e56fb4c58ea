#include "tests/remote/support/fake_hub.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/http/url.h"

namespace moepack::remote {
namespace {

FakeAnswer Refuse(int status, const std::string& code) {
  FakeAnswer answer = Plain(status, "refused");
  answer.Set("X-Error-Code", code);
  return answer;
}

FakeAnswer JsonAnswer(const nlohmann::json& document) {
  FakeAnswer answer = Plain(200, document.dump());
  answer.Set("Content-Type", "application/json");
  return answer;
}

}  // namespace

FakeHub::FakeHub() {
  hub_.SetFault([this](const FakeRequest& request, FakeAnswer& answer) {
    Answer(request, answer);
    FaultServer::Fault fault;
    {
      const std::lock_guard lock(mutex_);
      fault = fault_;
    }
    if (fault) fault(request, answer);
  });
  cdn_.SetFault(
      [this](const FakeRequest& request, FakeAnswer& answer) { CheckSignature(request, answer); });
}

void FakeHub::Add(const std::string& file, std::string bytes, bool large) {
  const std::lock_guard lock(mutex_);
  if (large) cdn_.Add("/blobs/" + Sha256Hex(bytes), bytes);
  files_[file] = {std::move(bytes), large};
}

void FakeHub::AddDirectory(const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().filename().string();
    Add(name, fixtures::ReadFile(entry.path()),
        name.ends_with(".safetensors") || name.ends_with(".gguf"));
  }
}

void FakeHub::SetFault(FaultServer::Fault fault) {
  const std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

void FakeHub::LetSignaturesServe(int requests) {
  const std::lock_guard lock(mutex_);
  serve_ = requests;
}

void FakeHub::CheckSignature(const FakeRequest& request, FakeAnswer& answer) {
  const std::lock_guard lock(mutex_);
  Signature& signature = signatures_[request.path];
  const bool right =
      request.query == Cat("Signature=secret", signature.number) && signature.left-- > 0;
  if (!right || !request.Field("authorization").empty()) answer = Plain(403, "Request has expired");
}

// Pages as on the Hub, with the number of the next one in a Link.
FakeAnswer FakeHub::List(const FakeRequest& request) {
  const size_t mark = request.query.find("cursor=");
  const size_t first = mark == std::string::npos ? 0 : *ParseUint(request.query.substr(mark + 7));
  nlohmann::json entries = nlohmann::json::array();
  size_t number = 0;
  for (const auto& [name, file] : files_) {
    if (number++ < first || entries.size() == page_size) continue;
    entries.push_back({{"type", "file"},
                       {"path", name},
                       {"size", file.bytes.size()},
                       {"oid", Sha256Hex(file.bytes).substr(0, 40)}});
    if (file.large)
      entries.back()["lfs"] = {{"oid", Sha256Hex(file.bytes)}, {"size", file.bytes.size()}};
  }
  FakeAnswer answer = JsonAnswer(entries);
  if (first + page_size < files_.size()) {
    answer.Set("Link", Cat("<", hub_.origin(), request.path,
                           "?recursive=true&cursor=", first + page_size, ">; rel=\"next\""));
  }
  return answer;
}

void FakeHub::Push(const std::string& new_commit) {
  const std::lock_guard lock(mutex_);
  commit = new_commit;
}

FakeAnswer FakeHub::Resolve(const std::string& file) {
  const auto found = files_.find(file);
  if (found == files_.end()) return Refuse(404, "EntryNotFound");
  const std::string& bytes = found->second.bytes;
  FakeAnswer answer;
  answer.Set("X-Repo-Commit", commit);
  answer.Set("ETag", Cat('"', Sha256Hex(bytes).substr(0, 40), '"'));
  if (!found->second.large) {
    answer.body = bytes;
    return answer;
  }
  const std::string blob = "/blobs/" + Sha256Hex(bytes);
  Signature& signature = signatures_[blob];
  ++signature.number;
  signature.left = serve_;
  answer.status = 302;
  answer.Set("X-Linked-Size", std::to_string(bytes.size()));
  answer.Set("X-Linked-ETag", Cat('"', Sha256Hex(bytes), '"'));
  answer.Set("Location", Cat(cdn_.origin(), blob, "?Signature=secret", signature.number));
  return answer;
}

void FakeHub::Answer(const FakeRequest& request, FakeAnswer& answer) {
  const std::lock_guard lock(mutex_);
  if (!token.empty() && request.Field("authorization") != "Bearer " + token) {
    answer = Refuse(401, "");
    answer.Remove("X-Error-Code");
    return;
  }
  const std::string api = "/api/models/owner/model/", old = "/api/models/owner/old/";
  const std::string resolve = Cat("/owner/model/resolve/", commit, "/");
  if (request.path.starts_with(old)) {
    answer = LeadTo(307, Cat(api, request.path.substr(old.size())));
  } else if (request.path == api + "revision/main" || request.path == api + "revision/refs/pr/1" ||
             request.path == api + "revision/" + commit) {
    answer = JsonAnswer({{"id", id}, {"sha", commit}});
  } else if (request.path.starts_with(api + "revision/")) {
    answer = Refuse(404, "RevisionNotFound");
  } else if (request.path == api + "tree/" + commit) {
    answer = List(request);
  } else if (request.path.starts_with(resolve)) {
    answer = Resolve(request.path.substr(resolve.size()));
    const auto range = request.Range();
    if (range && answer.status == 200) {
      const uint64_t total = answer.body.size();
      const uint64_t last = std::min(range->second, total - 1);
      answer.status = 206;
      answer.Set("Content-Range", Cat("bytes ", range->first, "-", last, "/", total));
      answer.body = answer.body.substr(range->first, last - range->first + 1);
    }
  } else {
    answer = Refuse(404, "RepoNotFound");
  }
}

}  // namespace moepack::remote

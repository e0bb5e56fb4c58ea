#include "libshard/remote/hub_api.h"

#include <algorithm>

#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

constexpr uint64_t kMostAnswer = 8u << 20;
constexpr int kMostPages = 1000;
constexpr size_t kMostFiles = 100'000;

std::string Spelled(const HubName& name) {
  return Cat("hf://", name.Id(), name.revision == "main" ? "" : Cat("@", name.revision));
}

// What the Hub says of a failure, and what to do about it.
struct HubFailure {
  std::string_view code;  // X-Error-Code
  const char* expected;
  const char* hint;
};
constexpr HubFailure kFailures[] = {
    {"RepoNotFound", "a repository, found none of this name, or a private one",
     "check the spelling; for a private one set HF_TOKEN to a token that may read it"},
    {"GatedRepo", "access, found a gated repository",
     "accept its conditions on its page, then set HF_TOKEN to a token of that account"},
    {"RevisionNotFound", "a branch, tag or commit, found no such revision",
     "look at the repository's page for its branches and tags; without @ it is main"},
    {"EntryNotFound", "the file, found none of this name in this revision",
     "list-tensors of the repository alone says what is there"},
    {"DisabledRepo", "a repository, found one that the Hub has disabled",
     "ask its owner, or use a copy"},
};

}  // namespace

HttpRequest HubApi::Ask(const std::string& path, const std::string& name) const {
  HttpRequest request;
  request.url = settings_.endpoint;
  if (request.url.path == "/") request.url.path.clear();
  request.url.path += path;
  request.name = name;
  if (!settings_.token.empty()) request.authorization = Cat("Bearer ", settings_.token);
  return request;
}

Error HubApi::Refusal(const HttpReply& reply, const std::string& what) const {
  std::string_view code = reply.Field("x-error-code");
  // Without a token the Hub does not distinguish private repositories from missing ones.
  if (code.empty() && reply.status == 401) code = "RepoNotFound";
  if (code.empty() && reply.status == 403) code = "GatedRepo";
  const auto failure = std::find_if(std::begin(kFailures), std::end(kFailures),
                                    [&](const HubFailure& known) { return known.code == code; });
  if (failure == std::end(kFailures)) return StatusError(what, reply);
  const bool denied = code == "GatedRepo";
  return {denied ? Code::kIo : Code::kNotFound,
          Cat(what, ": ", settings_.endpoint.host, ": expected ", failure->expected),
          failure->hint};
}

Result<HubRevision> HubApi::Pin() {
  const std::string source = Spelled(name_);
  const HttpRequest request =
      Ask(Cat("/api/models/", name_.Id(), "/revision/", EncodeComponent(name_.revision)), source);
  SHARD_TRY(const HttpReply reply, client_->Fetch(request, kMostAnswer));
  if (reply.status != 200) return Refusal(reply, source);
  SHARD_TRY(HubRevision revision, ParseHubRevision(source, settings_.endpoint.host, reply.body));
  if (revision.id.empty()) revision.id = name_.Id();
  const Result<HubName> now = ParseHubName(revision.id);
  id_ = now ? revision.id : name_.Id();
  commit_ = revision.commit;
  return revision;
}

// Appends the files of one page. `request` becomes that for the next, whose address is returned; ""
// after the last.
Result<std::string> HubApi::ListPage(HttpRequest& request, HubFiles& files) const {
  SHARD_TRY(const HttpReply reply, client_->Fetch(request, kMostAnswer));
  if (reply.status != 200) return Refusal(reply, request.name);
  SHARD_CHECK(ParseHubFiles(Cat(request.name, ": list of files"), reply.body, files));
  const auto next = NextPage(reply.Field("link"));
  if (!next) return std::string();
  SHARD_TRY(Url url, ResolveLocation(request.url, *next));
  if (!url.SameOrigin(request.url)) request.authorization.clear();
  request.url = std::move(url);
  return *next;
}

Result<HubFiles> HubApi::List() const {
  HttpRequest request = Ask(Cat("/api/models/", id_, "/tree/", commit_), Spelled(name_));
  request.url.query = "recursive=true";
  HubFiles files;
  for (int page = 0; page < kMostPages && files.size() <= kMostFiles; ++page) {
    SHARD_TRY(const std::string next, ListPage(request, files));
    if (next.empty()) return files;
  }
  return Error{Code::kUnsupported,
               Cat(request.name, ": list of files: expected at most ", kMostFiles, " files in ",
                   kMostPages, " pages, found more"),
               "name the folder that has the model: hf://owner/name/folder"};
}

Result<HttpRequest> HubApi::Resolve(const std::string& file, const HubFile& known) const {
  const std::string name = Cat(Spelled(name_), "/", file);
  HttpRequest request = Ask(Cat("/", id_, "/resolve/", commit_, "/", EncodePath(file)), name);
  request.method = "HEAD";
  request.follow = HttpRequest::Follow::kRelative;
  SHARD_TRY(const HttpReply reply, client_->Fetch(request, 0));
  const bool elsewhere = reply.status >= 300 && reply.status < 400;
  if (reply.status != 200 && !elsewhere) return Refusal(reply, name);
  const std::string commit(reply.Field("x-repo-commit"));
  if (commit != commit_) {
    return Error{commit.empty() ? Code::kIo : Code::kCorrupt,
                 Cat(name, ": X-Repo-Commit: expected ", commit_, ", found ",
                     commit.empty() ? std::string("none") : Shown(commit)),
                 commit.empty() ? "this is not a Hub, or a proxy in between is broken: check "
                                  "HF_ENDPOINT"
                                : "the revision moved: run the command again"};
  }
  const std::string_view size = reply.Field(elsewhere ? "x-linked-size" : "content-length");
  if (const auto found = ParseUint(size); found && *found != known.size) {
    return Error{Code::kCorrupt,
                 Cat(name, ": size: expected ", known.size, " bytes as listed, found ", *found)};
  }
  request.method = "GET";
  request.follow = HttpRequest::Follow::kAll;
  request.url = reply.url;
  if (elsewhere) {
    SHARD_TRY(request.url, ResolveLocation(reply.url, reply.Field("location")));
  }
  if (!request.url.SameOrigin(settings_.endpoint)) request.authorization.clear();
  return request;
}

}  // namespace moepack::remote

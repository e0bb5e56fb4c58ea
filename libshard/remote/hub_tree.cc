#include "libshard/remote/hub_tree.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_path.h"
#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

constexpr uint64_t kMostRef = 1024;

std::string TreeName(const HubName& name, const std::string& commit) {
  const std::string folder = name.path.empty() ? "" : Cat("/", name.path);
  return Cat("hf://", name.Id(), "@", commit, folder);
}

// The address of a file: requested once, and again when it has expired.
class HubPlace {
 public:
  HubPlace(std::shared_ptr<const HubApi> api, std::string file, HubFile known)
      : api_(std::move(api)), file_(std::move(file)), known_(std::move(known)) {}

  // Several threads may notice that an address has expired; the first renews it.
  Result<HttpRequest> Locate(const Url* refused) {
    const std::lock_guard lock(mutex_);
    const bool expired = refused && request_ && refused->Text() == request_->url.Text();
    if (!request_ || expired) {
      SHARD_TRY(request_, api_->Resolve(file_, known_));
    }
    return *request_;
  }

 private:
  std::shared_ptr<const HubApi> api_;
  std::string file_;
  HubFile known_;
  std::mutex mutex_;
  std::optional<HttpRequest> request_;
};

// A file of the Hub that its own client has fetched before.
class KeptFile final : public ByteSource {
 public:
  KeptFile(ByteSourcePtr file, Origin origin)
      : file_(std::move(file)), origin_(std::move(origin)) {}

  const std::string& name() const override { return file_->name(); }
  uint64_t size() const override { return file_->size(); }
  const std::string& identity() const override { return file_->identity(); }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    return file_->ReadAt(offset, out);
  }
  Status CheckUnchanged() const override { return file_->CheckUnchanged(); }
  std::optional<Origin> origin() const override { return origin_; }
  std::optional<int> descriptor() const override { return file_->descriptor(); }

 private:
  ByteSourcePtr file_;
  Origin origin_;
};

fs::path RepositoryInCache(const HubSettings& settings, const HubName& name) {
  return settings.cache / Cat("models--", name.owner, "--", name.repository);
}

// The commit that the cache has for a revision.
std::optional<std::string> CommitInCache(const HubSettings& settings, const HubName& name) {
  if (IsCommit(name.revision)) return name.revision;
  auto text = ReadTextFile(RepositoryInCache(settings, name) / "refs" / name.revision, kMostRef);
  if (!text) return std::nullopt;
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return IsCommit(*text) ? std::optional(*text) : std::nullopt;
}

// What the cache has of a repository, without any request. No value if it has nothing.
Result<std::optional<moepack::Source>> OpenCached(const HubSettings& settings,
                                                  const HubName& name) {
  const auto commit = CommitInCache(settings, name);
  if (!commit) return std::optional<moepack::Source>();
  const fs::path path = SnapshotOf(settings, name, *commit) / name.path;
  SHARD_TRY(const bool there, IsThere(path));
  if (!there) return std::optional<moepack::Source>();
  SHARD_TRY(moepack::Source local, LocalSource(path));
  return std::optional(std::move(local));
}

Error NotInCache(const HubSettings& settings, const HubName& name) {
  return {Code::kUnavailable,
          Cat("hf://", name.Id(), "@", name.revision, ": expected it in ", settings.cache.string(),
              " as HF_HUB_OFFLINE is set, found none"),
          "unset HF_HUB_OFFLINE, or download it with `hf download` where there is a network"};
}

void WarnOfNewName(HttpClient& client, const HubName& name, const HubRevision& revision) {
  if (revision.id == name.Id()) return;
  client.settings().warn(Cat("hf://", name.Id(), ": the repository has another name now: name it ",
                             Quoted(Cat("hf://", revision.id))));
}

bool HasBelow(const HubFiles& files, const std::string& folder) {
  const std::string prefix = folder + "/";
  const auto at = files.lower_bound(prefix);
  return at != files.end() && at->first.starts_with(prefix);
}

// The folder or the file that the user named.
Result<moepack::Source> SourceOf(const Transport& transport, HubName name,
                                 HubTree::Content content) {
  const std::string path = name.path;
  std::string file;
  if (content.files.contains(path)) {
    const size_t slash = path.rfind('/');
    file = path.substr(slash == std::string::npos ? 0 : slash + 1);
    name.path.resize(slash == std::string::npos ? 0 : slash);
  } else if (!path.empty() && !HasBelow(content.files, path)) {
    return Error{Code::kNotFound,
                 Cat(TreeName(name, content.api->commit()),
                     ": expected a file or folder of the "
                     "repository, found none"),
                 "list-tensors of the repository alone says what is there"};
  }
  auto tree = std::make_shared<const HubTree>(transport, name, std::move(content));
  fs::path named = file.empty() ? tree->name() : tree->NameOf(file);
  return moepack::Source{std::move(named), std::move(tree), file};
}

}  // namespace

HubTree::HubTree(Transport transport, const HubName& folder, Content content)
    : RemoteTree(std::move(transport), TreeName(folder, content.api->commit())),
      folder_(folder.path),
      content_(std::move(content)) {}

std::string HubTree::InRepository(const std::string& file) const {
  return folder_.empty() ? file : Cat(folder_, "/", file);
}

Result<std::vector<std::string>> HubTree::List(const std::string& folder,
                                               std::string_view suffix) const {
  std::vector<std::string> names;
  for (const auto& [name, file] : content_.files) names.push_back(name);
  const std::string inside = folder.empty() ? folder_ : InRepository(folder);
  return NamesIn(names, inside, suffix);
}

Result<bool> HubTree::Has(const std::string& file) const {
  if (!StaysBelow(file)) return LeadsOutside(name(), file);
  return content_.files.contains(InRepository(file));
}

Result<ByteSourcePtr> HubTree::OpenNew(const std::string& file) const {
  const auto found = content_.files.find(InRepository(file));
  if (found == content_.files.end()) return NoSuchFile(file);
  if (content_.cached) {
    Result<ByteSourcePtr> local = content_.cached->Open(found->first);
    if (local && (*local)->size() == found->second.size) {
      Origin origin{NameOf(file), content_.api->commit(), "", found->second.sha256};
      return ByteSourcePtr(std::make_shared<const KeptFile>(*std::move(local), std::move(origin)));
    }
  }
  auto place = std::make_shared<HubPlace>(content_.api, found->first, found->second);
  FilePlace opened;
  opened.name = NameOf(file);
  opened.locate = [place](const Url* refused) { return place->Locate(refused); };
  opened.size = found->second.size;
  opened.identity = Cat("blob ", found->second.id);
  opened.commit = content_.api->commit();
  opened.sha256 = found->second.sha256;
  opened.cached_as = content_.cached_as;
  return HttpSource::Open(transport(), std::move(opened));
}

fs::path SnapshotOf(const HubSettings& settings, const HubName& name, const std::string& commit) {
  return RepositoryInCache(settings, name) / "snapshots" / commit;
}

Result<moepack::Source> OpenHub(const Transport& transport, const HubSettings& settings,
                                const HubName& name) {
  if (settings.offline) {
    SHARD_TRY(std::optional<moepack::Source> cached, OpenCached(settings, name));
    if (!cached) return NotInCache(settings, name);
    return *std::move(cached);
  }
  auto api = std::make_shared<HubApi>(transport.client, settings, name);
  const Result<HubRevision> revision = api->Pin();
  if (!revision) {
    if (revision.error().code != Code::kUnavailable) return revision.error();
    SHARD_TRY(std::optional<moepack::Source> cached, OpenCached(settings, name));
    if (!cached) return revision.error();
    transport.client->settings().warn(
        Cat(revision.error().message, "; read from the cache: ", cached->named.string()));
    return *std::move(cached);
  }
  WarnOfNewName(*transport.client, name, *revision);
  HubTree::Content content;
  SHARD_TRY(content.files, api->List());
  content.api = api;
  content.cached_as = Cat(settings.endpoint.Shown(), " ", name.Id());
  const fs::path snapshot = SnapshotOf(settings, name, revision->commit);
  std::error_code error;
  if (fs::is_directory(snapshot, error)) content.cached.emplace(snapshot);
  return SourceOf(transport, name, std::move(content));
}

}  // namespace moepack::remote

#include "libshard/remote/s3_tree.h"

#include <algorithm>
#include <utility>

#include "libshard/base/files/inside_path.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/s3_refusal.h"

namespace moepack::remote {
namespace {

constexpr uint64_t kMostPage = 16u << 20;
constexpr int kMostS3Pages = 100;  // of 1,000 objects

HttpRequest AskS3(const S3Settings& settings, Url url, const std::string& name) {
  HttpRequest request;
  request.url = std::move(url);
  request.name = name;
  request.aws = settings.signature;
  request.follow = HttpRequest::Follow::kNone;
  return request;
}

}  // namespace

S3Tree::S3Tree(Transport transport, S3Settings settings, S3Name folder)
    : RemoteTree(std::move(transport), folder.Text()),
      folder_(std::move(folder)),
      settings_(std::move(settings)) {}

S3Settings S3Tree::settings() const {
  const std::lock_guard lock(mutex_);
  return settings_;
}

// Switches to the region that the bucket is in; false if that is the one that was `asked`.
bool S3Tree::GoesElsewhere(const HttpReply& reply, const std::string& asked) const {
  const std::string region(reply.Field("x-amz-bucket-region"));
  if (!IsS3Region(region) || region == asked) return false;
  {
    const std::lock_guard lock(mutex_);
    if (region == settings_.region) return true;  // another thread found out
    settings_.region = region;
    if (settings_.signature) settings_.signature->region = region;
  }
  client().settings().warn(Cat("s3://", folder_.bucket, ": the bucket is in another region than ",
                               asked, ": set AWS_REGION=", region, " to ask there at once"));
  return true;
}

// One page, from the region where the bucket is.
Result<S3Page> S3Tree::AskForPage(const std::string& name, const std::string& query) const {
  for (bool first = true;; first = false) {
    const S3Settings settings = this->settings();
    SHARD_TRY(Url bucket, S3Url(settings, folder_.bucket, ""));
    bucket.query = query;
    const HttpRequest request = AskS3(settings, std::move(bucket), name);
    SHARD_TRY(const HttpReply reply, client().Fetch(request, kMostPage));
    if (reply.status == 200) return ParseS3Page(Cat(name, ": list of objects"), reply.body);
    if (!first || !GoesElsewhere(reply, settings.region)) return S3Refusal(reply, settings, name);
  }
}

// All pages of the objects whose key begins with `prefix` and has no further '/'.
Result<S3Tree::Objects> S3Tree::AskFor(const std::string& prefix) const {
  const std::string name = Cat("s3://", folder_.bucket, "/", prefix);
  Objects objects;
  std::string next;
  for (int page = 0; page < kMostS3Pages; ++page) {
    // In the order in which the signature needs them.
    std::string query = next.empty() ? "" : Cat("continuation-token=", EncodeComponent(next), "&");
    query += Cat("delimiter=%2F&list-type=2&prefix=", EncodeComponent(prefix));
    SHARD_TRY(S3Page read, AskForPage(name, query));
    for (S3Object& object : read.objects) {
      if (!object.key.starts_with(prefix)) continue;
      std::string file = object.key.substr(prefix.size());
      if (StaysBelow(file) && file.find('/') == file.npos)
        objects.emplace(std::move(file), std::move(object));
    }
    next = std::move(read.next);
    if (next.empty()) return objects;
  }
  return Error{Code::kUnsupported, Cat(name, ": list of objects: expected at most ", kMostS3Pages,
                                       " pages, found more")};
}

Result<S3Tree::Objects> S3Tree::ObjectsIn(const std::string& folder) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = listings_.find(folder); at != listings_.end()) return at->second;
  }
  std::string prefix = folder_.key;
  if (!folder.empty()) prefix += Cat(prefix.empty() ? "" : "/", folder);
  if (!prefix.empty()) prefix += "/";
  SHARD_TRY(Objects objects, AskFor(prefix));
  const std::lock_guard lock(mutex_);
  return listings_.emplace(folder, std::move(objects)).first->second;
}

Result<std::vector<std::string>> S3Tree::List(const std::string& folder,
                                              std::string_view suffix) const {
  if (!folder.empty() && !StaysBelow(folder)) return LeadsOutside(name(), folder);
  SHARD_TRY(const Objects objects, ObjectsIn(folder));
  std::vector<std::string> names;
  for (const auto& [file, object] : objects) names.push_back(file);
  return NamesIn(names, "", suffix);
}

Result<std::optional<S3Object>> S3Tree::Find(const std::string& file) const {
  const size_t slash = file.rfind('/');
  const std::string folder = slash == file.npos ? "" : file.substr(0, slash);
  SHARD_TRY(const Objects objects, ObjectsIn(folder));
  const auto found = objects.find(file.substr(slash == file.npos ? 0 : slash + 1));
  if (found == objects.end()) return std::optional<S3Object>();
  return std::optional(found->second);
}

Result<bool> S3Tree::Has(const std::string& file) const {
  if (!StaysBelow(file)) return LeadsOutside(name(), file);
  SHARD_TRY(const std::optional<S3Object> found, Find(file));
  return found.has_value();
}

Result<ByteSourcePtr> S3Tree::OpenNew(const std::string& file) const {
  SHARD_TRY(const std::optional<S3Object> object, Find(file));
  if (!object) return NoSuchFile(file);
  const std::string key = folder_.key.empty() ? file : Cat(folder_.key, "/", file);
  const S3Settings settings = this->settings();
  SHARD_TRY(Url url, S3Url(settings, folder_.bucket, key));
  FilePlace place;
  place.name = NameOf(file);
  place.size = object->size;
  place.listed = ValidatorOf({{"etag", object->etag}});
  place.cached_as = url.Shown();
  const HttpRequest request = AskS3(settings, std::move(url), place.name);
  place.locate = [request](const Url*) -> Result<HttpRequest> { return request; };
  return HttpSource::Open(transport(), std::move(place));
}

Result<Source> OpenS3(const Transport& transport, const S3Settings& settings, const S3Name& name) {
  constexpr std::string_view kObjectSuffixes[] = {".safetensors", ".gguf", ".json"};
  const bool object =
      std::any_of(std::begin(kObjectSuffixes), std::end(kObjectSuffixes),
                  [&](std::string_view suffix) { return name.key.ends_with(suffix); });
  S3Name folder = name;
  std::string file;
  if (object) {
    const size_t slash = name.key.rfind('/');
    file = name.key.substr(slash == std::string::npos ? 0 : slash + 1);
    folder.key = name.key.substr(0, slash == std::string::npos ? 0 : slash);
  }
  auto tree = std::make_shared<const S3Tree>(transport, settings, folder);
  return Source{name.Text(), tree, file};
}

}  // namespace moepack::remote

#include "libshard/remote/s3_tree.h"

#include <algorithm>
#include <utility>

#include "libshard/base/inside_path.h"
#include "libshard/base/text.h"

namespace moepack::remote {
namespace {

constexpr uint64_t kMostPage = 16u << 20;
constexpr int kMostS3Pages = 1000;

// What S3 says of a failure, and what to do about it.
struct S3Failure {
  std::string_view code;
  Code kind;
  const char* expected;
  const char* hint;
};
constexpr S3Failure kS3Failures[] = {
    {"NoSuchBucket", Code::kNotFound, "a bucket, found none of this name",
     "check the spelling and --endpoint"},
    {"NoSuchKey", Code::kNotFound, "an object, found none of this name", "check the spelling"},
    {"AccessDenied", Code::kIo, "access, found it denied",
     "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, of somebody who may list "
     "and read it"},
    {"InvalidAccessKeyId", Code::kIo, "a key that the server knows, found another",
     "check AWS_ACCESS_KEY_ID and --endpoint"},
    {"SignatureDoesNotMatch", Code::kIo, "the signature of this key, found another",
     "check AWS_SECRET_ACCESS_KEY and AWS_REGION"},
    {"ExpiredToken", Code::kIo, "a session that goes on, found an expired one",
     "log in again for a new AWS_SESSION_TOKEN"},
    {"RequestTimeTooSkewed", Code::kIo, "the time of the server, found another",
     "set the clock of this machine"},
};

}  // namespace

S3Tree::S3Tree(Transport transport, S3Settings settings, S3Name folder)
    : RemoteTree(std::move(transport), folder.Text()),
      settings_(std::move(settings)),
      folder_(std::move(folder)) {}

HttpRequest S3Tree::Ask(const Url& url, const std::string& name) const {
  HttpRequest request;
  request.url = url;
  request.name = name;
  request.aws = settings_.signature;
  request.follow = HttpRequest::Follow::kNone;
  return request;
}

Error S3Tree::Refusal(const HttpReply& reply, const std::string& name) const {
  const std::string_view region = reply.Field("x-amz-bucket-region");
  if (!region.empty() && region != settings_.region) {
    return {Code::kInvalidArgument,
            Cat(name, ": region: expected ", Shown(region), " where the bucket is, found ",
                settings_.region),
            Cat("set AWS_REGION=", ShellWord(region))};
  }
  const std::string code = S3ErrorCode(reply.body);
  for (const S3Failure& known : kS3Failures) {
    if (known.code == code)
      return {known.kind, Cat(name, ": expected ", known.expected), known.hint};
  }
  return StatusError(name, reply);
}

// All pages of the objects whose key begins with `prefix` and has no '/' after it.
Result<S3Tree::Objects> S3Tree::AskFor(const std::string& prefix) const {
  SHARD_TRY(const Url bucket, S3Url(settings_, folder_.bucket, ""));
  HttpRequest request = Ask(bucket, Cat("s3://", folder_.bucket, "/", prefix));
  Objects objects;
  std::string next;
  for (int page = 0; page < kMostS3Pages; ++page) {
    // In the order that the signature is made in.
    request.url.query = next.empty() ? "" : Cat("continuation-token=", EncodeComponent(next), "&");
    request.url.query += Cat("delimiter=%2F&list-type=2&prefix=", EncodeComponent(prefix));
    SHARD_TRY(const HttpReply reply, client().Fetch(request, kMostPage));
    if (reply.status != 200) return Refusal(reply, request.name);
    SHARD_TRY(S3Page read, ParseS3Page(Cat(request.name, ": list of objects"), reply.body));
    for (S3Object& object : read.objects) {
      if (!object.key.starts_with(prefix)) continue;
      std::string file = object.key.substr(prefix.size());
      if (StaysBelow(file) && file.find('/') == file.npos)
        objects.emplace(std::move(file), std::move(object));
    }
    next = std::move(read.next);
    if (next.empty()) return objects;
  }
  return Error{Code::kUnsupported, Cat(request.name, ": list of objects: expected at most ",
                                       kMostS3Pages, " pages, found more")};
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
  SHARD_TRY(const Url url, S3Url(settings_, folder_.bucket, key));
  const HttpRequest request = Ask(url, NameOf(file));
  FilePlace place;
  place.name = NameOf(file);
  place.locate = [request](bool renew) -> Result<HttpRequest> {
    if (renew) return Error{Code::kIo, "the keys are the same"};
    return request;
  };
  place.size = object->size;
  place.listed = ValidatorOf({{"etag", object->etag}});
  place.cached_as = url.Shown();
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
